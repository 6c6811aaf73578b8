//! Follows the changes of a resource.
//!
//! A watch is a cursor in the log and a source of lines. It holds at most one batch of events, whatever the reader
//! does, and takes each line from the event's own cache, so that all watches of one form share its bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Context;
use super::list::narrowed;
use super::options::{ListOptions, Version};
use crate::answer::Answer;
use crate::body::{Body, BodyError, Part, PartKind, Source};
use crate::negotiate::{self, Shape};
use crate::replica::Follower;
use crate::server::{OpenWatchGuard, Shared};
use crate::status::Status;
use crate::storage::{Batch, Cursor, Entry, ListQuery, Range, ReadError, ResourceId, Revision, Versioned};
use crate::stored::{Selection, Stored, split_key};
use crate::view::{EventType, View};

/// How long a watch lasts if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
/// How long before its end a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How many events a watch takes from the log at once.
const BATCH: usize = 64;

/// `GET` with `watch`.
///
/// # Errors
/// 400, 406, 422, and 500 for a resourceVersion that is no number. What goes wrong later is an ERROR event.
pub(super) fn watch(context: Context<'_>) -> Result<Answer, Status> {
    let wanted = context.view(Shape::Watch)?;
    let options = ListOptions::parse(&context.request.query, context.resource, true)?;
    // The old form of a watch may name one object; a field selector must mean the same one then.
    let named = context.path.name.as_deref().filter(|_| context.path.legacy_watch);
    if let Some(name) = named
        && !options.selection.fields.is_everything()
        && options.selection.fields.requires_exact("metadata.name") != Some(name)
    {
        return Err(Status::bad_request(
            "fieldSelector metadata.name doesn't match requested name",
        ));
    }
    negotiate::check_stream(context.request.header(http::header::ACCEPT), context.resource.custom)?;
    let view = match wanted.get() {
        Ok(view) => view.clone(),
        Err(status) if status.code == 400 => return Err(status),
        // A list of each event cannot be shown: nothing is.
        Err(_) => return Ok(Answer::json(200, Bytes::new())),
    };
    let mut range = narrowed(context, &options.selection);
    if let Some(name) = named {
        range = Range::Key(crate::stored::key_of(context.namespace(), name));
    }
    let now = Instant::now();
    // The real server counts nanoseconds in an i64, which wraps.
    let timeout = match options.timeout {
        0 => Some(DEFAULT_TIMEOUT),
        seconds => u64::try_from(seconds.wrapping_mul(1_000_000_000))
            .ok()
            .map(Duration::from_nanos),
    };
    let Some(deadline) = timeout.and_then(|timeout| now.checked_add(timeout)) else {
        return Ok(Answer::json(200, Bytes::new()));
    };
    let mut core = Core {
        server: Arc::clone(context.server),
        id: context.id,
        view,
        everything: options.selection.is_everything() && matches!(range, Range::All),
        selection: options.selection,
        range,
        bookmarks: options.allow_bookmarks,
        initial: Vec::new().into_iter(),
        ends_initial_events: false,
        start: Start::Now,
        cursor: None,
        pending: VecDeque::new(),
        first_line: true,
        next_bookmark: now + context.server.options.bookmark_interval,
        last_bookmark: None,
        deadline,
        end: None,
        finished: false,
        follower: context.replica().map(Follower::new),
        open: OpenWatchGuard::new(context),
    };
    let current = core.server.storage.current();
    match (options.version, options.send_initial_events) {
        (Version::At(rv), Some(true)) if rv > core.seen() => core.start = Start::Reach(rv),
        (Version::Unset, Some(true)) if current > core.seen() => core.start = Start::Reach(current),
        (Version::Unset, Some(false)) => core.follow(current),
        (Version::Any, Some(false)) => {
            let seen = core.seen();
            core.follow(seen);
        }
        (Version::Unset | Version::Any, None) | (_, Some(true)) => core.snapshot(),
        (Version::At(rv), _) => {
            core.last_bookmark = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
            core.follow(rv);
        }
    }
    let mut answer = Answer::json(
        200,
        Body::stream(WatchSource {
            core: Some(core),
            waiting: None,
        }),
    );
    if context.request.header(http::header::ACCEPT).contains("stream=watch") {
        answer = answer.content_type("application/json;stream=watch");
    }
    Ok(answer)
}

/// What has to happen before the watch can follow the log.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Nothing.
    Now,
    /// The server has to reach a revision, and soon; then the state is sent.
    Reach(Revision),
}

/// Everything about a watch but the future that it may wait in.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one watch, named at each use"
)]
struct Core {
    server: Arc<Shared>,
    id: ResourceId,
    view: View,
    selection: Selection,
    range: Range,
    /// The selection and the range let everything pass.
    everything: bool,
    bookmarks: bool,
    /// The state that is still to be sent.
    initial: std::vec::IntoIter<(Arc<str>, Versioned<Stored>)>,
    /// A bookmark is due when `initial` is used up.
    ends_initial_events: bool,
    start: Start,
    cursor: Option<Cursor>,
    /// Invariant: at most one batch of lines.
    pending: VecDeque<Part>,
    first_line: bool,
    next_bookmark: Instant,
    /// When the last bookmark is due; only a watch from a revision sends one.
    last_bookmark: Option<Instant>,
    deadline: Instant,
    /// Where the log was when the deadline was noticed: later events are not sent.
    end: Option<Revision>,
    finished: bool,
    /// The view that is watched; none for the log itself.
    follower: Option<Follower>,
    open: OpenWatchGuard,
}

/// What a watch does next.
enum Step {
    Send(Part),
    Wait,
    End,
}

impl Core {
    /// The revision up to which the watch sees its resource.
    fn seen(&mut self) -> Revision {
        let current = self.server.storage.current();
        match &mut self.follower {
            Some(follower) => follower.seen(&self.server.storage, self.id).min(current),
            None => current,
        }
    }

    /// Starts after a revision, or with the error that says why not.
    fn follow(&mut self, rv: Revision) {
        match self.server.storage.watch_from(self.id, rv) {
            Ok(cursor) => self.cursor = Some(cursor),
            Err(ReadError::Compacted { oldest }) => {
                self.fail(&Status::expired(format!("too old resource version: {rv} ({oldest})")));
            }
            Err(ReadError::Future { current }) => self.fail(&Status::too_large_resource_version(rv, current)),
        }
    }

    /// Starts with the current state. Where bookmarks are allowed, one marks its end.
    fn snapshot(&mut self) {
        let selection = &self.selection;
        let filter = |key: &str, stored: &Stored| selection.matches(key, stored);
        let query = ListQuery {
            range: self.range.clone(),
            after: None,
            at: None,
            limit: 0,
            filter: &filter,
        };
        let seen = match &mut self.follower {
            Some(follower) => follower.seen(&self.server.storage, self.id),
            None => Revision::MAX,
        };
        let (page, cursor) = self.server.storage.snapshot_seen(self.id, &query, seen);
        self.initial = page.items.into_iter();
        self.ends_initial_events = true;
        self.cursor = Some(cursor);
    }

    /// Queues an ERROR event, the last of the watch.
    fn fail(&mut self, status: &Status) {
        let mut line = br#"{"type":"ERROR","object":"#.to_vec();
        line.extend_from_slice(&status.to_json());
        line.extend_from_slice(b"}\n");
        self.pending.push_back(Part {
            bytes: line.into(),
            kind: PartKind::Event,
        });
        self.finished = true;
    }

    /// Goes on as far as possible without waiting.
    fn step(&mut self) -> Step {
        loop {
            if let Some(part) = self.pending.pop_front() {
                return Step::Send(part);
            }
            if self.finished {
                return Step::End;
            }
            if let Some((_, item)) = self.initial.next() {
                let bytes = self
                    .view
                    .event(EventType::Added, &item.object, item.rv, self.first_line);
                self.first_line = false;
                return Step::Send(Part {
                    bytes,
                    kind: PartKind::Event,
                });
            }
            let Some(cursor) = &mut self.cursor else {
                return self.wait_or_end();
            };
            if std::mem::take(&mut self.ends_initial_events) && self.bookmarks {
                let rv = cursor.position();
                return Step::Send(self.bookmark(rv, true));
            }
            let storage = &self.server.storage;
            let seen = self.follower.as_mut().map(|follower| follower.seen(storage, self.id));
            if self.end.is_none() && Instant::now() >= self.deadline {
                self.end = Some(storage.current());
            }
            let batch = match seen.into_iter().chain(self.end).min() {
                Some(seen) => storage.read_seen(cursor, BATCH, seen),
                None => storage.read(cursor, BATCH),
            };
            match batch {
                Batch::Events(events) => {
                    for entry in events {
                        self.queue(&entry);
                    }
                }
                Batch::Idle => {
                    let rv = cursor.position();
                    self.open.reached(rv);
                    let now = Instant::now();
                    // A watch from a version that is yet to come is silent until it does.
                    if self.bookmark_due(now) && rv <= seen.unwrap_or_else(|| self.server.storage.current()) {
                        return Step::Send(self.bookmark(rv, false));
                    }
                    return self.wait_or_end();
                }
                Batch::Behind | Batch::Closed => return Step::End,
            }
        }
    }

    fn wait_or_end(&self) -> Step {
        if Instant::now() >= self.deadline {
            Step::End
        } else {
            Step::Wait
        }
    }

    fn bookmark_due(&mut self, now: Instant) -> bool {
        if !self.bookmarks {
            return false;
        }
        let last_due = self.last_bookmark.is_some_and(|at| now >= at);
        if !last_due && now < self.next_bookmark {
            return false;
        }
        if last_due {
            self.last_bookmark = None;
        }
        self.next_bookmark = now + self.server.options.bookmark_interval;
        true
    }

    fn bookmark(&mut self, rv: Revision, ends_initial_events: bool) -> Part {
        let bytes = self
            .view
            .bookmark(rv, ends_initial_events, std::mem::take(&mut self.first_line));
        let kind = if ends_initial_events {
            PartKind::InitialEventsEnd
        } else {
            PartKind::Bookmark
        };
        Part { bytes, kind }
    }

    /// Queues what the watch shows of an event.
    fn queue(&mut self, entry: &Entry<Stored>) {
        let shows = |object: &Option<Arc<Stored>>| {
            object
                .as_ref()
                .is_some_and(|object| self.everything || self.selects(&entry.key, object))
        };
        let (event, object) = match (shows(&entry.prev), shows(&entry.cur)) {
            (false, false) => return,
            (false, true) => (EventType::Added, &entry.cur),
            (true, true) => (EventType::Modified, &entry.cur),
            // A removal, or an object that the selector no longer selects: the old content, the new revision.
            (true, false) => (EventType::Deleted, &entry.prev),
        };
        let Some(object) = object else { return };
        if self.view.representation.is_table() {
            self.view.tell_time(self.server.clock.now());
        }
        let encoding = self.view.encoding(event, self.first_line);
        let bytes = entry.encoded(&encoding, |entry| {
            self.view.event(event, object, entry.rv, self.first_line)
        });
        self.first_line = false;
        self.pending.push_back(Part {
            bytes,
            kind: PartKind::Event,
        });
    }

    fn selects(&self, key: &str, object: &Stored) -> bool {
        let in_range = match &self.range {
            Range::All => true,
            Range::Namespace(namespace) => split_key(key).0 == namespace,
            Range::Key(wanted) => key == wanted,
        };
        in_range && self.selection.matches(key, object)
    }

    /// Waits until the next step may do something.
    async fn wait(mut self) -> Self {
        if let Start::Reach(rv) = self.start {
            self.start = Start::Now;
            let arrived = match &self.follower {
                Some(follower) => self.server.wait_for_view(follower.replica(), self.id, rv).await,
                None => self.server.wait_for_revision(rv).await,
            };
            match arrived {
                Ok(()) => self.snapshot(),
                Err(status) => self.fail(&status),
            }
            return self;
        }
        let mut until = self.deadline;
        if self.bookmarks {
            until = until.min(self.next_bookmark).min(self.last_bookmark.unwrap_or(until));
        }
        // Whatever ends the wait, the next step looks at the log and at the clock.
        match (&mut self.cursor, &mut self.follower) {
            (Some(cursor), None) => {
                let _ = tokio::time::timeout_at(until, cursor.changed()).await;
            }
            (Some(cursor), Some(follower)) => {
                tokio::select! {
                    () = cursor.changed() => {}
                    () = follower.moved(&self.server.storage) => {}
                    () = tokio::time::sleep_until(until) => {}
                }
            }
            (None, _) => tokio::time::sleep_until(until).await,
        }
        self
    }
}

/// The lines of a watch.
struct WatchSource {
    /// Invariant: absent exactly while `waiting` is present, or after the end.
    core: Option<Core>,
    waiting: Option<Pin<Box<dyn Future<Output = Core> + Send>>>,
}

impl Source for WatchSource {
    fn poll_part(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                // The future registers the waker.
                let core = std::task::ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
                self.core = Some(core);
            }
            let Some(core) = &mut self.core else {
                return Poll::Ready(None);
            };
            match core.step() {
                Step::Send(part) => return Poll::Ready(Some(Ok(part))),
                Step::End => {
                    self.core = None;
                    return Poll::Ready(None);
                }
                Step::Wait => self.waiting = self.core.take().map(|core| Box::pin(core.wait()) as _),
            }
        }
    }
}
