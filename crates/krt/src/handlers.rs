//! Registering handlers: their options, and the owner's end.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::backlog::Load;
use crate::engine::handler::{Call, Handler};
use crate::engine::ingress::{Edit, Operation};
use crate::engine::node::Cell;
use crate::engine::pool::Job;
use crate::engine::progress::Progress;
use crate::engine::sink::Sink;
use crate::engine::stream::{Feed, Queue};
use crate::event::{Batch, Event};
use crate::subscription::Subscription;
use crate::traits::Keyed;

/// A backlog of more events than this is merged, unless a handler says otherwise.
pub(crate) const MERGE_OVER: usize = 4096;

/// A handler that is being described. Made by [`Collection::handler`].
#[must_use = "nothing is registered before `on_change`, `on_batch` or `subscribe`"]
pub struct HandlerBuilder<T: Keyed> {
    collection: Collection<T>,
    name: Option<String>,
    limit: Option<usize>,
    initial: bool,
}

impl<T: Keyed> HandlerBuilder<T> {
    pub(crate) fn new(collection: &Collection<T>) -> Self {
        Self {
            collection: collection.clone(),
            name: None,
            limit: Some(MERGE_OVER),
            initial: true,
        }
    }

    /// The name under which the handler is logged; the collection's if there is none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Tells every epoch by itself, however far the handler is behind. Its backlog is not bounded then.
    pub fn keep_all(mut self) -> Self {
        self.limit = None;
        self
    }

    /// Merges a backlog that has more events than this; 4096 if nothing is said. While the handler is stuck, its backlog has at most
    /// that many, or twice as many as different keys changed.
    pub fn merge_over(mut self, events: usize) -> Self {
        self.limit = Some(events);
        self
    }

    /// Tells what changes from now on, without the present state.
    pub fn without_initial(mut self) -> Self {
        self.initial = false;
        self
    }

    /// Registers a function that is called with each change. See [`Collection::on_change`].
    pub fn on_change(self, mut call: impl FnMut(&Event<T>) + Send + 'static) -> Registration {
        self.on_batch(move |batch| batch.events().for_each(&mut call))
    }

    /// Registers a function that is called with the changes of each epoch. See [`Collection::on_batch`].
    pub fn on_batch(self, call: impl FnMut(&Batch<T>) + Send + 'static) -> Registration {
        let shared = self.collection.shared();
        let name = self.name.as_deref().unwrap_or(self.collection.name());
        let call: Call<Batch<T>> = Box::new(call);
        let progress = Arc::clone(&shared.progress);
        let handler = Handler::new(
            name.into(),
            call,
            self.limit,
            self.collection.compare(),
            Arc::clone(&progress),
        );
        let handler = Arc::new(handler);
        shared.add_job(&(Arc::clone(&handler) as Arc<dyn Job>));
        let sink = Box::new(Arc::clone(&handler));
        shared.operate(add_sink(&self.collection, sink, self.initial));
        Registration::new(handler, progress, Box::new(self.collection))
    }

    /// Subscribes to the changes of each epoch. See [`Collection::subscribe`].
    pub fn subscribe(self) -> Subscription<T> {
        let queue = Arc::new(Queue::new(self.limit, self.collection.compare()));
        let sink = Box::new(Feed::new(&queue));
        let add = add_sink(&self.collection, sink, self.initial);
        self.collection.shared().operate(add);
        Subscription::new(self.collection, queue)
    }
}

/// The operation by which a collection gets somebody to tell.
pub(crate) fn add_sink<T: Keyed>(collection: &Collection<T>, sink: Box<dyn Sink<T>>, initial: bool) -> Operation {
    let edit = move |cell: &mut dyn Any, with: &mut Edit<'_>| {
        if let Some(cell) = cell.downcast_mut::<Cell<T>>() {
            cell.add_sink(sink, initial, with.epoch, &mut with.delivery);
        }
    };
    Operation::Edit(collection.id(), Box::new(edit))
}

impl<T: Keyed> fmt::Debug for HandlerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerBuilder")
            .field("collection", &self.collection.name())
            .field("merge_over", &self.limit)
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

/// What a registration knows of its handler.
trait Registered: Send + Sync {
    fn is_synced(&self) -> bool;
    fn end(&self);
}

impl<L: Load> Registered for Handler<L> {
    fn is_synced(&self) -> bool {
        Handler::is_synced(self)
    }

    fn end(&self) {
        Handler::end(self);
    }
}

/// The owner's end of a handler. It keeps the collection alive, so hold it for as long as the handler is to be called; if other
/// handles keep the collection, it may be dropped, and the handler goes on.
pub struct Registration {
    handler: Arc<dyn Registered>,
    progress: Arc<Progress>,
    _collections: Box<dyn Any + Send + Sync>,
}

impl Registration {
    pub(crate) fn new<L: Load>(
        handler: Arc<Handler<L>>,
        progress: Arc<Progress>,
        collections: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            handler,
            progress,
            _collections: collections,
        }
    }

    /// Whether the collection is synced and the handler has handled its initial state.
    pub fn has_synced(&self) -> bool {
        self.handler.is_synced()
    }

    /// Waits for [`has_synced`](Self::has_synced); for ever, if the collection is stopped or the engine ends before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when it is dropped.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        let handler = Arc::clone(&self.handler);
        Arc::clone(&self.progress).until(move || handler.is_synced())
    }

    /// Removes the handler. A call that runs, or is just about to, ends as it would; no other is made after this returns.
    pub fn remove(self) {
        self.handler.end();
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}
