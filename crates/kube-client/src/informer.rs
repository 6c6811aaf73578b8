//! Shared informers: one list and watch per kind, one cache, any number of handlers.
//!
//! Start reading at [`Informer`]. Inside, from the network to the user: `reflector` (list and watch, a state machine)
//! writes, through its `part`, into `shared` (`store` and dispatch list under one lock), which pushes to each handler's
//! queue (`dispatch`, `backlog`), which a task of its own empties (`runner`). `cell` holds all that one informer is, `waiting` has
//! its futures, `factory` makes sure that there is one informer per identity (`options`).

pub(crate) mod backlog;
mod cell;
pub(crate) mod deferred;
pub(crate) mod dispatch;
pub(crate) mod factory;
pub(crate) mod handler;
pub(crate) mod index;
pub(crate) mod metrics;
pub(crate) mod options;
pub(crate) mod part;
pub(crate) mod presence;
pub(crate) mod progress;
pub(crate) mod reflector;
pub(crate) mod registration;
pub(crate) mod relist;
pub(crate) mod restriction;
pub(crate) mod resync;
pub(crate) mod returns;
pub(crate) mod runner;
pub(crate) mod shared;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod stream;
pub(crate) mod transform;
pub(crate) mod turn;
pub(crate) mod view;
mod waiting;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::core::{ApiResource, Selector};

use crate::error::{CaughtUpError, IndexConflict, RegisterError, Stopped};
pub(crate) use crate::informer::cell::Cell;
use crate::informer::cell::Handle;
use crate::informer::factory::Control;
use crate::informer::handler::{EventHandler, HandlerOptions};
use crate::informer::index::{Index, IndexDef};
pub use crate::informer::options::InformerId;
use crate::informer::progress::Goal;
use crate::informer::registration::Registration;
use crate::informer::shared::Wait;
use crate::informer::shared::views::ViewId;
use crate::informer::status::InformerStats;
use crate::informer::stream::EventStream;
use crate::informer::waiting::{Filled, Reached};
use crate::key::ObjectKey;
use crate::object::Object;

/// A shared cache of one kind, kept current by one list and watch. Cheap to clone; clones are the same informer.
///
/// Reads are synchronous, come from the cache and never wait for the network. Before the first sync they show nothing (of
/// an informer over several namespaces: nothing of those that were not listed yet). After a stop they show the last state.
///
/// # Guarantees
///
/// - The objects are shared: the `Arc` that `get` returns, the one in events and the one in an index are the same.
/// - A handler registered at any time, from any thread, also inside a handler, gets the state of that instant as
///   `Added { initial: true }` and then every later change, in the order of the cache, nothing twice, nothing lost
///   (a handler that lags gets the net change per key).
/// - A blocked handler blocks no other and does not slow down the watch.
/// - When a handler runs, the cache and its indexes already hold what the event tells, or something newer.
///
/// Not promised: that the cache is as new as the server. It follows with the delay of the watch;
/// [`caught_up`](Self::caught_up) waits for a write of one's own.
///
/// # How long it lives
///
/// This is a handle. Dropping it, the last one too, ends nothing: list, watch, cache and handlers go on, and asking for the
/// same identity again gives this informer, as it is by then. What ends an informer: the stop of the client
/// ([`Client::shutdown`](crate::Client::shutdown), the token given to the start, or the drop of the last
/// [`Client`](crate::Client)), and [`Informers::remove`](crate::Informers::remove), which ends it for everybody who shares it.
///
/// # When the server fails
///
/// Nothing that a server answers, or does not answer, ends an informer, but for a kind that cannot be watched at all. It
/// goes on with back-off, the cache stays readable, and the failure is in [`stats`](Self::stats), in the watch-error
/// handler and in the log. [`recovery`](crate::recovery) is the table of what it does in each case; in short:
///
/// - A watch that breaks is resumed where it was: handlers notice nothing. One that is silent is taken for broken after
///   3 min, if the server sends bookmarks.
/// - Where it cannot be resumed, the state is listed again. Handlers are told the difference: objects that vanished
///   meanwhile as `Deleted { stale: true }`, with their last known state; nothing about objects that are unchanged; several
///   changes of one object as one.
/// - An object that does not decode is left out, named by [`undecodable`](Self::undecodable), and breaks nothing. Its last
///   good version stays until a good one or a delete comes.
/// - If the server's storage was restored from a backup, the cache is rebuilt when that shows: versions go back, and objects
///   that were deleted may come again.
///
/// # Panics
///
/// What the cache, the handlers' queues and a list on its way drop is dropped one object at a time, without a lock, and a
/// panic of an object's own `Drop` is contained and logged: no neighbour notices, nothing is told twice or left out.
pub struct Informer<K: Object> {
    cell: Arc<Cell<K>>,
}

impl<K: Object> Informer<K> {
    pub(crate) fn new(cell: Arc<Cell<K>>) -> Self {
        Self { cell }
    }

    /// Names this informer in logs and errors.
    pub fn id(&self) -> &InformerId {
        &self.cell.id
    }

    /// The resource it lists and watches.
    pub fn resource(&self) -> &ApiResource {
        &self.cell.resource
    }

    /// What is known of the kind at run time only.
    pub fn dynamic_type(&self) -> &K::DynamicType {
        &self.cell.dynamic_type
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.cell.shared.get(key.as_ref())
    }

    /// The objects of one namespace or all, that the selector matches, in no particular order: one consistent state.
    pub fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        let mut objects = self.cell.shared.list(namespace);
        if !selector.selects_all() {
            objects.retain(|object| object.metadata().labels.matches(selector));
        }
        objects
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.cell.shared.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a secondary index, or gives the one there is if it has the same definition. Complete when this returns,
    /// at any time.
    ///
    /// # Errors
    ///
    /// [`RegisterError::IndexConflict`] if the name is taken by another definition.
    pub fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError> {
        match self.cell.shared.add_index(def) {
            Ok(id) => Ok(Index::new(Arc::clone(&self.cell.shared), id, def.name())),
            Err(first) => Err(RegisterError::IndexConflict(Box::new(IndexConflict {
                informer: self.cell.id.clone(),
                name: def.name().to_owned(),
                first_at: first.at(),
                second_at: def.at(),
            }))),
        }
    }

    /// Registers a handler. It runs on a task or thread of its own once the informer is started. After a stop this does
    /// nothing, and the registration says so; so it does if the operating system gives no thread to a
    /// [`BlockingHandler`](crate::BlockingHandler).
    pub fn add_handler(&self, handler: impl EventHandler<K>, options: HandlerOptions) -> Registration {
        self.cell.add(Box::new(handler), options, None)
    }

    /// Whether the registration was made on this informer or on a view of it.
    pub fn has_registered(&self, registration: &Registration) -> bool {
        registration.owner() == Arc::as_ptr(&self.cell) as usize
    }

    /// Removes a handler of this informer, as [`Registration::remove`] does.
    ///
    /// # Errors
    ///
    /// [`RegisterError::ForeignRegistration`] if the registration was made on another informer; nothing is removed.
    pub fn remove_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        if !self.has_registered(registration) {
            return Err(RegisterError::ForeignRegistration {
                informer: Box::new(self.cell.id.clone()),
            });
        }
        registration.remove();
        Ok(())
    }

    /// The changes as a stream, with the guarantees of a handler. An event counts as handled when the next one is
    /// asked for. Dropping the stream unregisters it; it ends when the informer stops.
    pub fn events(&self, options: HandlerOptions) -> EventStream<K> {
        self.stream(options, None)
    }

    fn stream(&self, options: HandlerOptions, view: Option<ViewId>) -> EventStream<K> {
        let queue = self.cell.add_queue(options, view);
        let registration = Registration::new(Arc::new(Handle {
            queue: Arc::clone(&queue),
            cell: Arc::downgrade(&self.cell),
        }));
        let resync = self.cell.resync_of(&queue);
        EventStream::new(queue, registration.guard(), resync)
    }

    /// Starts this informer alone. Does nothing if it runs already or was stopped.
    pub fn start(&self) {
        Arc::clone(&self.cell).start();
    }

    /// Whether the cache was filled. Never goes back to false. Does not wait for handlers; a
    /// [`Registration`] tells of its handler.
    pub fn has_synced(&self) -> bool {
        self.cell.shared.is_filled()
    }

    /// Waits for [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was stopped before; a retry cannot help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<K> {
        Filled {
            shared: Arc::clone(&self.cell.shared),
            ticket: None,
        }
    }

    /// Whether the informer was stopped. Reads show the last state for ever.
    pub fn is_stopped(&self) -> bool {
        self.cell.shared.is_stopped()
    }

    /// The resource version up to which the whole cache is current; `None` before the first list. Over several namespaces,
    /// which are current up to a version each, the smallest of them, or `None` if they do not compare.
    pub fn last_version(&self) -> Option<String> {
        Some(self.cell.shared.version()).filter(|version| !version.is_empty())
    }

    /// Waits until the cache has seen a write: `written` is the object as the write's answer gives it, of this or another
    /// type, with its key and resource version. Afterwards [`get`](Self::get) gives this version or a newer one, or none if
    /// the object was deleted since. The informer need not have any handler.
    ///
    /// A write is seen with its own event, with any later one, or with a bookmark: a write that changed nothing, or one
    /// that this informer's selectors leave out, is seen with the next bookmark, about a minute later.
    ///
    /// Some aggregated API servers are different. Where lists tell no version, a write is seen when the cache has, or had last,
    /// its object in that version or a later one. Where versions do not compare as numbers, it is seen with that very version,
    /// or with any event of its key that comes after this call. In both cases also with a list of the newest state that is
    /// begun after this call, which is what follows each watch there.
    ///
    /// # Guarantees
    ///
    /// What is read from this informer afterwards is never older than the write. Exceptions: an object that does not
    /// decode, of which the last good version stays; a server whose storage went back to a backup, before that shows.
    ///
    /// # Errors
    ///
    /// [`CaughtUpError::TimedOut`] after `timeout`, [`CaughtUpError::Stopped`] if the informer stops before. The write
    /// itself is done all the same.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// If it is polled outside of a tokio runtime with a timer.
    pub fn caught_up<W: Object>(
        &self,
        written: &W,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), CaughtUpError>> + Send + use<K, W> {
        let meta = written.metadata();
        let (key, version) = (meta.key(), meta.resource_version.to_owned());
        self.reached(Goal::Written { key, version }, timeout)
    }

    /// Waits until the cache has seen that an object is gone: the one of this uid, of which the delete was answered before.
    /// Afterwards [`get`](Self::get) does not give it; it may give another object of that name.
    ///
    /// An object that was there is seen to be gone with its delete event; so is one that was created a moment before and
    /// of which the cache had not heard yet. With an empty uid, the key has to be gone.
    ///
    /// Not for objects that this informer never shows, because its selectors leave them out or they do not decode, and not
    /// for deletions of long ago: of those the cache cannot tell whether it has seen them, and the wait ends with
    /// `TimedOut`.
    ///
    /// # Guarantees
    ///
    /// That object is not read from this informer again. One exception: if the call comes before the first list, and that
    /// is a paged one from a server that lags ([`InitialList::Any`](crate::InitialList::Any)), an object may still appear
    /// and go that was created and deleted just before.
    ///
    /// # Errors
    ///
    /// [`CaughtUpError::TimedOut`] after `timeout`, [`CaughtUpError::Stopped`] if the informer stops before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// If it is polled outside of a tokio runtime with a timer.
    pub fn caught_up_deleted(
        &self,
        key: &ObjectKey,
        uid: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), CaughtUpError>> + Send + use<K> {
        let (key, uid) = (key.clone(), uid.to_owned());
        self.reached(Goal::Deleted { key, uid }, timeout)
    }

    fn reached(
        &self,
        goal: Goal,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), CaughtUpError>> + Send + use<K> {
        let what = match &goal {
            Goal::Written { key, version } => format!("{key} at resource version {version}"),
            Goal::Deleted { key, uid } => format!("the end of {key} with uid {uid}"),
        };
        let reached = Reached {
            shared: Arc::clone(&self.cell.shared),
            wait: Wait::for_goal(goal),
        };
        let cell = Arc::downgrade(&self.cell);
        let informer = Box::new(self.cell.id.clone());
        async move {
            match tokio::time::timeout(timeout, reached).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Stopped)) => Err(CaughtUpError::Stopped { informer }),
                Err(_) => Err(CaughtUpError::TimedOut {
                    informer,
                    what,
                    waited: timeout,
                    version: cell.upgrade().map_or_else(String::new, |cell| cell.shared.version()),
                }),
            }
        }
    }

    /// The objects that are left out, or shown in an older version, because the newest one does not decode; and why.
    pub fn undecodable(&self) -> Vec<(ObjectKey, String)> {
        self.cell.undecodable().collect()
    }

    /// Status and counters.
    pub fn stats(&self) -> InformerStats {
        self.cell.stats()
    }
}

impl<K: Object> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            cell: Arc::clone(&self.cell),
        }
    }
}

impl<K: Object> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("id", &self.cell.id.to_string())
            .field("phase", &self.cell.phase())
            .field("has_synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}
