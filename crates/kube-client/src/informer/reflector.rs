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
//! `follow_up` decides what is next, `list` fetches the whole state in either form, `watch` follows changes, `request` makes a
//! request, `answer` sends it, `crew` shares the decoding of a list out, `connection` is one open watch, `failure` classes what goes wrong, `backoff` paces, `version` compares,
//! `tell` shows it all. The machine is one future without a task of its own; a stop drops it at whatever it awaits, which is safe
//! because the cache only ever changes between two awaits.
//!
//! What each answer of the server leads to, in each state, is the table of [`crate::recovery`], which users read as well.
//! `tests/table.rs` plays it row by row.

mod answer;
mod backoff;
mod connection;
mod crew;
pub(crate) mod failure;
mod follow_up;
mod list;
mod request;
mod tell;
pub(crate) mod version;
mod watch;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::decode::Decoder;
use crate::environment::Environment;
use crate::error::{Step, WatchErrorKind};
use crate::informer::metrics::{InformerMetrics, PAGED, STREAMING, contained};
use crate::informer::options::{InformerId, InformerKey, InitialList, ListMode, Tuning};
use crate::informer::part::Part;
use crate::informer::reflector::backoff::Backoff;
use crate::informer::reflector::connection::Connection;
pub(crate) use crate::informer::reflector::crew::Helpers;
use crate::informer::reflector::failure::Failures;
pub(crate) use crate::informer::reflector::request::Packed;
use crate::informer::reflector::request::Target;
use crate::informer::status::{Phase, StatusCell};
use crate::informer::transform::Transform;
use crate::object::Object;

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
    decoder: Arc<Decoder<K>>,
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
            decoder: Arc::new(Decoder {
                resource: key.resource.clone(),
                keep_managed_fields: key.keep_managed_fields,
                transform,
                only_in: part.only_in().cloned(),
            }),
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

    /// The version that the next list names, and whether it asks for the newest state.
    fn wants_newest(&self) -> bool {
        match self.start {
            Start::First => self.tuning.initial_list == InitialList::Consistent,
            Start::LastSeen => self.version.is_empty() || self.tuning.initial_list == InitialList::Consistent,
            Start::Newest => true,
        }
    }
}

#[cfg(test)]
mod tests;
