//! What follows what: after each way in which a list or watch can end, the state that is next, by the table of
//! [`crate::recovery`].
//!
//! It only decides; what is done in a state is in `list` and `watch`, the loop that does it in `reflector`.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{WatchError, WatchErrorKind};
use crate::informer::options::ListMode;
use crate::informer::reflector::list::NOTHING_NEW;
use crate::informer::reflector::{Form, Next, Reflector, Start, State};
use crate::informer::status::Phase;
use crate::object::Object;

/// A stream that lived shorter than this counts as a failure for the pace of the next one.
const SHORT_LIVED: Duration = Duration::from_secs(1);
/// A server that asks to come back later than this is asked sooner: a mistake of its must not park an informer for days.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);
/// How long a server whose streaming list stays silent is asked for pages instead.
const AVOID_STREAMING: Duration = Duration::from_hours(1);
/// After so many watches in a row that end with an error or in silence, at the same version, the state is listed.
const FRUITLESS: u32 = 2;
/// After so many requests in a row that the server answers with an error of its own, instead of a watch, the state is listed.
const UNOPENED: u32 = 5;
/// A watch that ends in good order after so long, or longer, has lived as long as it was asked to.
const WHOLE_LIFE: Duration = Duration::from_mins(5);

impl<K: Object> Reflector<K> {
    pub(super) fn after_list_failure(&mut self, form: Form, error: WatchError) -> State {
        let may_fall_back = form == Form::Streaming && self.tuning.list_mode == ListMode::Auto;
        // A stream that breaks after minutes may do so again and again before its end, as behind a proxy that cuts it.
        let lasted = self
            .streaming_opened
            .take()
            .map_or(Duration::ZERO, |opened| opened.elapsed());
        let cut = lasted >= NOTHING_NEW && error.kind == WatchErrorKind::Unreachable;
        match error.kind.clone() {
            WatchErrorKind::Refused | WatchErrorKind::NotSupported | WatchErrorKind::Server { code: 501 }
                if may_fall_back =>
            {
                // Expected of servers without streaming lists. If the request itself is at fault, the paged list says so.
                tracing::debug!("no streaming list: {error}");
                self.streaming_refused = true;
                State::Listing(Form::Paged)
            }
            kind if may_fall_back && (cut || is_unending(&kind)) => {
                self.streaming_silences += 1;
                self.fail(error);
                if self.streaming_silences.is_multiple_of(2) {
                    self.avoid_streaming_until = Some(Instant::now() + AVOID_STREAMING);
                }
                State::Listing(self.form())
            }
            WatchErrorKind::NotSupported => {
                self.fail(error);
                State::Final(Phase::WatchNotSupported)
            }
            WatchErrorKind::VersionWentBack if self.keep_unchanged => {
                self.fail(error);
                self.keep_unchanged = false;
                State::Listing(form)
            }
            WatchErrorKind::Expired | WatchErrorKind::VersionTooLarge if self.start != Start::Newest => {
                self.fail(error);
                self.start = Start::Newest;
                State::Listing(self.form())
            }
            kind => {
                self.fail(error);
                State::Backoff(self.pause(&kind), Next::List)
            }
        }
    }

    /// What follows a watch that lived so long, ended so, and began at version `from`.
    pub(super) fn after_watch(&mut self, ended: Result<(), WatchError>, lived: Duration, from: &str) -> State {
        if self.version != from {
            self.fruitless = 0;
        }
        match ended {
            // The server closes every watch after a while: that is no failure, unless it does so at once.
            Ok(()) if lived < SHORT_LIVED => State::Backoff(self.backoff.next(), self.resume()),
            // Where bookmarks come, one would have come. Where they do not, this may be all that tells.
            Ok(()) if lived >= WHOLE_LIFE && self.version == from && !self.has_bookmarks && self.is_stuck() => {
                State::Listing(self.form())
            }
            Ok(()) => self.go_on(self.resume()),
            Err(error) if is_fruitless(&error.kind) && self.is_stuck() => {
                let silent = error.kind == WatchErrorKind::Silent;
                self.fail(error);
                if silent {
                    State::Listing(self.form()) // it has waited already
                } else {
                    State::Backoff(self.backoff.next(), Next::List)
                }
            }
            Err(error) => self.after_watch_failure(error, lived < SHORT_LIVED),
        }
    }

    /// What follows a request that brought no watch. A server whose watches fail, though it lists, must not leave the cache
    /// behind for ever; one that is down is not burdened with lists before its time.
    pub(super) fn after_no_watch(&mut self, error: WatchError) -> State {
        let its_own = matches!(error.kind, WatchErrorKind::Server { .. });
        self.unopened = if its_own { (self.unopened + 1) % UNOPENED } else { 0 };
        let next = self.after_watch_failure(error, true);
        match next {
            State::Backoff(wait, Next::Watch) if its_own && self.unopened == 0 => State::Backoff(wait, Next::List),
            next => next,
        }
    }

    fn after_watch_failure(&mut self, error: WatchError, short_lived: bool) -> State {
        let kind = error.kind.clone();
        self.fail(error);
        match kind {
            WatchErrorKind::NotSupported => State::Final(Phase::WatchNotSupported),
            WatchErrorKind::Expired | WatchErrorKind::VersionTooLarge => {
                self.start = Start::Newest;
                if short_lived {
                    State::Backoff(self.backoff.next(), Next::List)
                } else {
                    State::Listing(self.form())
                }
            }
            // The request itself is at fault, so the version may be: begin anew.
            WatchErrorKind::Refused => {
                self.start = Start::Newest;
                State::Backoff(self.backoff.next(), Next::List)
            }
            WatchErrorKind::Silent => self.go_on(self.resume()), // it has waited already
            kind => State::Backoff(self.pause(&kind), self.resume()),
        }
    }

    /// Counts a watch that brought nothing. True if it is time for a list, and of the newest state: the server may never be
    /// able to go on from this version.
    fn is_stuck(&mut self) -> bool {
        self.fruitless = (self.fruitless + 1) % FRUITLESS;
        let stuck = self.fruitless == 0;
        if stuck {
            self.start = Start::Newest;
        }
        stuck
    }

    pub(super) fn go_on(&self, next: Next) -> State {
        match next {
            Next::List => State::Listing(self.form()),
            Next::Watch => State::Watching(None),
        }
    }

    /// What follows a watch that ended: another from there, or a list if there is no version to go on from.
    fn resume(&self) -> Next {
        if self.version.is_empty() {
            Next::List
        } else {
            Next::Watch
        }
    }

    /// How long to wait after a failure.
    fn pause(&mut self, kind: &WatchErrorKind) -> Duration {
        match kind {
            WatchErrorKind::TooManyRequests {
                retry_after: Some(wait),
            } if !wait.is_zero() => (*wait).min(LONGEST_RETRY_AFTER),
            _ => self.backoff.next(),
        }
    }

    /// Counts what follows as a restart, unless nothing follows.
    pub(super) fn restarts(&self, reason: &'static str, next: State) -> State {
        if !matches!(next, State::Final(_)) {
            self.restarted(reason);
        }
        next
    }
}

/// Whether a streaming list that failed so brought no end in good time.
fn is_unending(kind: &WatchErrorKind) -> bool {
    matches!(
        kind,
        WatchErrorKind::Silent | WatchErrorKind::Unfinished | WatchErrorKind::NoAnswer
    )
}

/// Whether a watch that ended so may end so again and again at the same version. Not what comes of the network, nor what has
/// a way on of its own.
fn is_fruitless(kind: &WatchErrorKind) -> bool {
    !matches!(
        kind,
        WatchErrorKind::Unreachable
            | WatchErrorKind::Tls
            | WatchErrorKind::TooManyRequests { .. }
            | WatchErrorKind::NotSupported
            | WatchErrorKind::Expired
            | WatchErrorKind::VersionTooLarge
            | WatchErrorKind::Refused
    )
}
