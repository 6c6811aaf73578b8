//! List and watch of one informer: the state machine that keeps the cache current.
//!
//! # Design
//!
//! ```text
//! Listing(streaming) ──end bookmark──▶ Watching ──clean end, silence──▶ Watching
//!      │ refused, no bookmark              │ 410
//!      ▼                                   ▼
//! Listing(paged) ───────whole────────▶ Watching      any failure ──▶ Backoff ──▶ Listing or Watching
//! ```
//!
//! `list` fetches the whole state in either form, `answer` sends a request, `connection` is one open watch, `failure`
//! classes what goes wrong, `backoff` paces. The machine is one future without a task of its own; a stop drops it at
//! whatever it awaits, which is safe because the cache only ever changes between two awaits.
//!
//! What each answer of the server leads to, in each state, is the table of [`crate::recovery`], which users read as well.
//! `tests/table.rs` plays it row by row.

mod answer;
mod backoff;
mod connection;
pub(crate) mod failure;
mod list;
mod request;
pub(crate) mod version;
mod watch;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::decode::{Decoder, Undecodable};
use crate::environment::Environment;
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::metrics::{InformerMetrics, PAGED, STREAMING, contained};
use crate::informer::options::{InformerId, InformerKey, InitialList, ListMode, Tuning};
use crate::informer::part::Part;
use crate::informer::reflector::backoff::Backoff;
use crate::informer::reflector::connection::Connection;
use crate::informer::reflector::failure::Failures;
use crate::informer::reflector::list::NOTHING_NEW;
pub(crate) use crate::informer::reflector::request::Packed;
use crate::informer::reflector::request::Target;
use crate::informer::status::{Phase, StatusCell};
use crate::informer::transform::Transform;
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

/// What happens next.
enum State {
    /// Fetch the whole state. Followed by `Watching` if it comes, by `Listing` in another form or at another version, or
    /// by `Backoff`; by `Final` if the server has the kind but lists it not.
    Listing(Form),
    /// Follow changes, on a stream that a streaming list left open or on a new one. Followed by `Watching` when the server
    /// ends the stream in good order, by `Listing` when it cannot go on from the cache's version, by `Backoff` after any
    /// failure; by `Final` if the server has the kind but cannot watch it.
    Watching(Option<Box<Connection>>),
    /// Wait, then go on. Followed by `Listing` or `Watching`, as it says.
    Backoff(Duration, Next),
    /// Nothing more can be done. Followed by nothing but a stop.
    Final(Phase),
}

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Streaming,
    Paged,
}

impl Form {
    /// Its name in metrics.
    fn label(self) -> &'static str {
        match self {
            Form::Streaming => STREAMING,
            Form::Paged => PAGED,
        }
    }
}

/// What follows a back-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    List,
    Watch,
}

/// Which state the next list asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The first list: as configured.
    First,
    /// Not older than what the cache has.
    LastSeen,
    /// The newest, because that version is no longer, or not yet, to be had.
    Newest,
}

pub(crate) struct Reflector<K: Object> {
    env: Arc<Environment>,
    id: InformerId,
    tuning: Tuning,
    target: Target,
    failures: Failures,
    decoder: Decoder<K>,
    // What this reflector keeps current of the informer.
    shared: Part<K>,
    status: Arc<StatusCell>,
    metrics: InformerMetrics,
    backoff: Backoff,
    // The version up to which the cache is current; empty before the first list, and after one that told none, until one
    // does. Mirrored in `shared`.
    version: String,
    start: Start,
    // Whether equal versions mean equal objects. False for one list after the version went back.
    keep_unchanged: bool,
    // The server refused to stream lists: never ask again.
    streaming_refused: bool,
    streaming_silences: u32,
    // When the streaming list that is on its way, or failed just now, was opened.
    streaming_opened: Option<Instant>,
    avoid_streaming_until: Option<Instant>,
    // This kind's watches deliver bookmarks, so silence means that the connection is gone.
    has_bookmarks: bool,
    // Watches in a row that failed without bringing the version further; below `FRUITLESS`.
    fruitless: u32,
    // Requests in a row that brought an error of the server's instead of a watch; below `UNOPENED`.
    unopened: u32,
}

impl<K: Object> Reflector<K> {
    pub(crate) fn new(
        env: &Arc<Environment>,
        key: &InformerKey,
        id: InformerId,
        tuning: Tuning,
        transform: Option<Transform<K>>,
        part: Part<K>,
    ) -> Self {
        let namespace = part.namespace();
        let metrics = InformerMetrics::new(&id, &env.cluster, namespace.map(AsRef::as_ref));
        Self {
            env: Arc::clone(env),
            id,
            tuning,
            target: Target::new(key, namespace.map(AsRef::as_ref), env.packed),
            failures: Failures::new(&key.resource, namespace),
            decoder: Decoder {
                resource: key.resource.clone(),
                keep_managed_fields: key.keep_managed_fields,
                transform,
                only_in: part.only_in().cloned(),
            },
            status: Arc::clone(part.status()),
            shared: part,
            metrics,
            backoff: Backoff::new(),
            version: String::new(),
            start: Start::First,
            keep_unchanged: true,
            streaming_refused: false,
            streaming_silences: 0,
            streaming_opened: None,
            avoid_streaming_until: None,
            has_bookmarks: false,
            fruitless: 0,
            unopened: 0,
        }
    }

    /// Keeps the cache current until stopped; `ends` says whether that is the end of the whole informer.
    pub(crate) async fn run(mut self, stop: CancellationToken, ends: CancellationToken) {
        let namespace = self.shared.only_in().map(AsRef::<str>::as_ref);
        let span = self.env.span(&self.id, namespace);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.drive_again().instrument(span) => stop.cancelled().await,
        }
        self.lose_watch();
        if ends.is_cancelled() {
            self.shared.stop();
            self.status.announce(|status| status.phase = Phase::Stopped);
        }
    }

    /// Runs the machine, and begins anew should it panic: the type's own code runs in here (`Object::metadata`), and an
    /// informer must not die unseen.
    async fn drive_again(&mut self) {
        while AssertUnwindSafe(self.drive()).catch_unwind().await.is_err() {
            self.lose_watch();
            // A metrics recorder, which may be what has panicked, must not do so outside of the machine.
            contained(|| self.restarted("panicked"));
            let detail = "the informer panicked, it starts over";
            contained(|| self.fail(self.failures.of(Step::List, WatchErrorKind::Protocol, detail)));
            let wait = self.backoff.next();
            self.enter(Phase::Backoff);
            tokio::time::sleep(wait).await;
        }
    }

    /// The watch, if one was open, is no more. Outside of the machine, so panics of a metrics recorder are contained.
    fn lose_watch(&self) {
        self.status.update(|status| status.watches_open = 0);
        contained(|| self.metrics.watch_lost());
    }

    /// Runs the machine; returns only when nothing more can be done.
    async fn drive(&mut self) {
        let mut state = State::Listing(self.form());
        loop {
            state = match state {
                State::Listing(form) => self.step_list(form).await,
                State::Watching(open) => self.step_watch(open).await,
                State::Backoff(wait, next) => {
                    self.enter(Phase::Backoff);
                    tokio::time::sleep(wait).await;
                    self.go_on(next)
                }
                State::Final(phase) => {
                    self.enter(phase);
                    return;
                }
            }
        }
    }

    fn enter(&self, phase: Phase) {
        tracing::debug!(?phase);
        self.status.announce(|status| status.phase = phase);
    }

    /// The form of the next list.
    fn form(&self) -> Form {
        let avoid = self.streaming_refused || self.avoid_streaming_until.is_some_and(|until| Instant::now() < until);
        match self.tuning.list_mode {
            ListMode::Paged => Form::Paged,
            ListMode::Auto if avoid => Form::Paged,
            ListMode::Auto | ListMode::Streaming => Form::Streaming,
        }
    }

    async fn step_list(&mut self, form: Form) -> State {
        let begun = Instant::now();
        let listed = match form {
            Form::Streaming => {
                self.enter(Phase::ListingStream);
                self.list_streaming().await.map(Some)
            }
            Form::Paged => {
                self.enter(Phase::ListingPages);
                self.list_paged().await.map(|()| None)
            }
        };
        self.metrics.list_ended(form.label(), begun.elapsed(), listed.is_ok());
        match listed {
            Ok(open) => {
                self.start = Start::LastSeen;
                self.keep_unchanged = true;
                tracing::info!(objects = self.shared.len(), version = self.version, "listed");
                self.metrics.failing(false);
                self.status.announce(|status| {
                    status.lists += 1;
                    status.error = None;
                });
                State::Watching(open.map(Box::new))
            }
            Err(error) => {
                let reason = error.kind.as_str();
                let next = self.after_list_failure(form, error);
                self.restarts(reason, next)
            }
        }
    }

    fn after_list_failure(&mut self, form: Form, error: WatchError) -> State {
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

    async fn step_watch(&mut self, open: Option<Box<Connection>>) -> State {
        let connection = match open {
            Some(connection) => *connection,
            None => match self.open_watch().await {
                Ok(connection) => connection,
                Err(error) => {
                    let reason = error.kind.as_str();
                    let next = self.after_no_watch(error);
                    return self.restarts(reason, next);
                }
            },
        };
        self.unopened = 0;
        // Counted from here: how long a streaming list took before says nothing of the watch.
        let (began, from) = (Instant::now(), self.version.clone());
        let ended = self.follow(connection).await;
        let lived = began.elapsed();
        self.metrics.watch_ended(lived);
        let reason = ended.as_ref().map_or_else(|error| error.kind.as_str(), |()| "closed");
        let next = self.after_watch(ended, lived, &from);
        self.restarts(reason, next)
    }

    /// What follows a watch that lived so long, ended so, and began at version `from`.
    fn after_watch(&mut self, ended: Result<(), WatchError>, lived: Duration, from: &str) -> State {
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

    /// Counts what follows as a restart, unless nothing follows.
    fn restarts(&self, reason: &'static str, next: State) -> State {
        if !matches!(next, State::Final(_)) {
            self.restarted(reason);
        }
        next
    }

    /// A list or watch begins again.
    fn restarted(&self, reason: &'static str) {
        self.status
            .update(|status| *status.restarts.entry(reason).or_default() += 1);
        self.metrics.restarted(reason);
    }

    /// The cache changed or was found to be current up to a newer version.
    fn heard(&self) {
        self.metrics.version_moved();
        self.metrics.cached(self.shared.len());
        self.metrics
            .left_out(self.status.update(|status| status.undecodable.len()));
        self.shared.report();
    }

    /// What follows a watch that ended: another from there, or a list if there is no version to go on from.
    fn resume(&self) -> Next {
        if self.version.is_empty() {
            Next::List
        } else {
            Next::Watch
        }
    }

    fn go_on(&self, next: Next) -> State {
        match next {
            Next::List => State::Listing(self.form()),
            Next::Watch => State::Watching(None),
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

    /// What follows a request that brought no watch. A server whose watches fail, though it lists, must not leave the cache
    /// behind for ever; one that is down is not burdened with lists before its time.
    fn after_no_watch(&mut self, error: WatchError) -> State {
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

    /// How long to wait after a failure.
    fn pause(&mut self, kind: &WatchErrorKind) -> Duration {
        match kind {
            WatchErrorKind::TooManyRequests {
                retry_after: Some(wait),
            } if !wait.is_zero() => (*wait).min(LONGEST_RETRY_AFTER),
            _ => self.backoff.next(),
        }
    }

    /// Shows a failure in status, log and error handler.
    fn fail(&self, error: WatchError) {
        self.env.report(&self.id, &error);
        self.status.announce(|status| {
            status.failures += 1;
            status.last_error = Some(error.clone());
            status.error = Some(error);
        });
        self.metrics.failing(true);
    }

    /// Shows an object that does not decode. The informer itself goes on.
    fn fail_decode(&self, bad: &Undecodable) {
        let what = bad
            .key
            .as_ref()
            .map_or_else(|| "an object without a readable name".to_owned(), ToString::to_string);
        let error = self.failures.of(
            Step::Decode,
            WatchErrorKind::Undecodable,
            &format!("{what}: {}", bad.error),
        );
        self.env.report(&self.id, &error);
        self.metrics.decode_failed();
        let left_out = self.status.update(|status| {
            status.failures += 1;
            status.last_error = Some(error);
            if let Some(key) = &bad.key {
                status.undecodable.insert(key.clone(), bad.error.clone());
            }
            status.undecodable.len()
        });
        self.metrics.left_out(left_out);
    }

    /// The version that the next list names, and whether it asks for the newest state.
    fn wants_newest(&self) -> bool {
        match self.start {
            Start::First => self.tuning.initial_list == InitialList::Consistent,
            Start::LastSeen => self.version.is_empty() || self.tuning.initial_list == InitialList::Consistent,
            Start::Newest => true,
        }
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

#[cfg(test)]
mod tests;
