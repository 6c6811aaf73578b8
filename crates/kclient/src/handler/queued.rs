//! Handlers that add keys to a queue: the object's own, or those that a function names.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use kube_client::{Event, EventHandler, Handled, Object, ObjectKey};

use crate::queue::{AddOptions, Queue};

/// The priority of keys that a start-up flood or a resync brings, so that fresh changes overtake them.
pub const LOW_PRIORITY: i32 = -100;

/// How many malformed keys of one annotation are logged by name. Whoever may annotate objects is not to fill the log.
const MOST_NAMED: usize = 8;

/// What a [`Queue`] of object keys can do with objects.
pub trait QueueHandlers {
    /// Adds the key of an object.
    fn add_object<K: Object>(&self, object: &K);

    /// A handler that adds the key of every object that is added, changed or deleted.
    fn handler<K: Object>(&self) -> QueueHandler<K>;
}

impl QueueHandlers for Queue<ObjectKey> {
    fn add_object<K: Object>(&self, object: &K) {
        self.add(&object.metadata().key());
    }

    fn handler<K: Object>(&self) -> QueueHandler<K> {
        QueueHandler {
            queue: self.clone(),
            low_priority: LOW_PRIORITY,
            gate: None,
        }
    }
}

/// The priority of an event: low if it tells nothing that is new to the world.
pub(super) fn priority<K>(event: &Event<K>, low: i32) -> i32 {
    match event {
        Event::Added { initial: true, .. } => low,
        // A resync delivers the very same object as old and new.
        Event::Updated { old, new } if Arc::ptr_eq(old, new) => low,
        Event::Added { .. } | Event::Updated { .. } | Event::Deleted { .. } => 0,
    }
}

/// Adds each key once. The queue merges what comes twice; this spares it the work where a worker is fast.
pub(super) fn add_each<T>(queue: &Queue<T>, keys: &[T], options: AddOptions)
where
    T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
{
    if let [only] = keys {
        return queue.add_with(only, options);
    }
    // How many there are may be anybody's choice: an annotation has room for thousands of names.
    let mut seen: HashSet<&T, RandomState> = HashSet::with_capacity_and_hasher(keys.len(), RandomState::default());
    for key in keys {
        if seen.insert(key) {
            queue.add_with(key, options);
        }
    }
}

type Gate<K> = Box<dyn FnMut(&Event<K>) -> bool + Send>;

/// Adds the keys of objects to a queue; see [`QueueHandlers::handler`].
///
/// # Guarantees
///
/// - Adds, updates and deletes, stale deletes included, add the object's key.
/// - The initial state and resyncs get [`LOW_PRIORITY`], everything else 0: the queue's ageing keeps the former from
///   starving.
pub struct QueueHandler<K> {
    queue: Queue<ObjectKey>,
    low_priority: i32,
    gate: Option<Gate<K>>,
}

impl<K: Object> QueueHandler<K> {
    /// Sets the priority of the initial state and of resyncs; 0 makes them as urgent as changes.
    #[must_use]
    pub fn low_priority(mut self, priority: i32) -> Self {
        self.low_priority = priority;
        self
    }

    /// Only events for which `gate` returns true, such as [`spec_changed`](super::spec_changed). A second gate is asked if
    /// the first one agrees.
    #[must_use]
    pub fn only(mut self, mut gate: impl FnMut(&Event<K>) -> bool + Send + 'static) -> Self {
        let first = self.gate.take();
        self.gate = Some(match first {
            None => Box::new(gate),
            Some(mut first) => Box::new(move |event| first(event) && gate(event)),
        });
        self
    }

    /// In the form that [`Informer::add_handler`](crate::Informer::add_handler) takes.
    pub fn boxed(self) -> Box<dyn EventHandler<K>> {
        Box::new(self)
    }
}

impl<K: Object> EventHandler<K> for QueueHandler<K> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        for event in events {
            if self.gate.as_mut().is_none_or(|gate| gate(event)) {
                let options = AddOptions::priority(priority(event, self.low_priority));
                self.queue.add_with(&event.key(), options);
            }
        }
        Handled::Done
    }

    fn batch_size(&self) -> usize {
        // A panic costs the batch it happens in, and only a gate can panic.
        if self.gate.is_some() { 1 } else { 256 }
    }
}

/// Adds to `queue` the keys that `map` names for an object; for an update, for the old and for the new one, each key once.
/// So whoever an object pointed to before the change is told as well.
pub fn enqueue_for<K, T, I>(
    queue: &Queue<T>,
    map: impl FnMut(&K) -> I + Send + 'static,
) -> EnqueueFor<K, T, impl FnMut(&K) -> I + Send + 'static>
where
    K: Object,
    T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
    I: IntoIterator<Item = T>,
{
    EnqueueFor {
        queue: queue.clone(),
        map,
        kind: PhantomData,
    }
}

/// For [`enqueue_for`]: the keys that an annotation of an object names, as `namespace/name` or `name` (cluster-scoped), separated
/// by commas.
///
/// A part that is no key, such as `a/b/c`, is logged and skipped, of very many in one annotation the first few by name; the others
/// count. Spaces around a part do not matter, and an empty annotation names nothing.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kclient::handler::{annotated_keys, enqueue_for};
/// # use kclient::queue::{Action, Queue};
/// # let queue = Queue::builder("q").reconciler(|_: kclient::ObjectKey| async { Ok(Action::Done) }).build();
///
/// let handler = enqueue_for::<Secret, _, _>(&queue, annotated_keys("example.com/used-by"));
/// ```
pub fn annotated_keys<K: Object>(annotation: impl Into<String>) -> impl FnMut(&K) -> Vec<ObjectKey> + Send + 'static {
    let annotation = annotation.into();
    move |object| {
        let metadata = object.metadata();
        let named = metadata.annotations.get(&annotation).unwrap_or_default();
        let parts = named.split(',').map(str::trim).filter(|part| !part.is_empty());
        let mut malformed = 0;
        let key = |part: &str| match part.parse() {
            Ok(key) => Some(key),
            Err(error) => {
                malformed += 1;
                if malformed <= MOST_NAMED {
                    tracing::warn!(object = %metadata.key(), annotation, %error, "skipping a malformed key");
                }
                None
            }
        };
        let keys = parts.filter_map(key).collect();
        if malformed > MOST_NAMED {
            let more = malformed - MOST_NAMED;
            tracing::warn!(object = %metadata.key(), annotation, more, "skipping more malformed keys");
        }
        keys
    }
}

/// See [`enqueue_for`].
pub struct EnqueueFor<K, T, F> {
    queue: Queue<T>,
    map: F,
    kind: PhantomData<fn(K)>,
}

impl<K, T, F> EnqueueFor<K, T, F>
where
    Self: EventHandler<K>,
{
    /// In the form that [`Informer::add_handler`](crate::Informer::add_handler) takes.
    pub fn boxed(self) -> Box<dyn EventHandler<K>> {
        Box::new(self)
    }
}

impl<K, T, I, F> EventHandler<K> for EnqueueFor<K, T, F>
where
    K: Object,
    T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
    I: IntoIterator<Item = T>,
    F: FnMut(&K) -> I + Send + 'static,
{
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        for event in events {
            let options = AddOptions::priority(priority(event, LOW_PRIORITY));
            let mut keys: Vec<T> = Vec::new();
            if let Event::Updated { old, .. } = event {
                keys.extend((self.map)(old));
            }
            keys.extend((self.map)(event.object()));
            add_each(&self.queue, &keys, options);
        }
        Handled::Done
    }
}

impl<K> fmt::Debug for QueueHandler<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandler")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl<K, T, F> fmt::Debug for EnqueueFor<K, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueFor")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
