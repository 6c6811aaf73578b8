//! The bridge from a client's informer to a collection.
//!
//! # Design
//!
//! A handler of the client writes what it is told into the ingress of the engine, one call in one write. It asks for whole steps of
//! the informer's cache, so what changed there at once (a relist, a filter that moved on) is in one cut of the engine. Two queues
//! lie in between, and each keeps only the latest of a key when it is long: the informer's for this handler, and the source's
//! buffer. The end of the initial state is told by the informer once the handler has handled its last object, and is written behind
//! it.
//!
//! The node owns the registration: the handler is removed when the node is stopped or goes, whoever has handles. A call of the
//! handler may still run then. It looks, under the lock of the ingress, whether the node has ended, since the number of the node
//! may be another's by now.
//!
//! # When an object counts as unchanged
//!
//! The informer tells only what changed, so each update is a change, whatever its version: after the server was restored from
//! a backup, an old version may be given out again. Only objects that a first list brings are compared, by uid and
//! resourceVersion, with what the collection has from before: a kind may go and come again between two epochs.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kclient::{Event, EventHandler, Filter, HandlerOptions, Informer, Object, ReadClient, RegisterError, Registration};
use kube_client::Handled;

use crate::collection::Collection;
use crate::engine::id::NodeId;
use crate::engine::ingress::State;
use crate::engine::operator::source::{Source, SourceBuffer, Touch};
use crate::engine::panics;
use crate::key::KeyRef;
use crate::krt::Krt;
use crate::options::Options;
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::traits::Keyed;

/// The objects that a client of the API server shows, as a collection. It is a cheap clone, and is read as the [`Collection`]
/// that it derefs to.
///
/// # Guarantees
///
/// - It follows the client: what its filters hide is not there, and what they show again is. A kind of a delayed client may come, go
///   and come again.
/// - Nothing is lost, and nothing is seen half done: what changed in the client's cache in one step (a fresh list, a filter that
///   moved on) is in one epoch. Under load, several steps are one epoch.
/// - If an object was deleted and another one of its name created between two epochs (the uid differs), dependants see one change,
///   and handlers are told `Deleted`, then `Added`, in one batch.
/// - It is synced behind the last object of the client's first list. If the client is stopped before, it never is, unless
///   [`sync_timeout`](Self::sync_timeout) says so.
/// - It holds at most one object for each key, besides what the client has.
///
/// When the collection is stopped, or has neither handles nor dependants, its handler is removed from the client. When the client is
/// stopped, the collection keeps the last state.
pub struct InformerCollection<K: Object> {
    collection: Collection<K>,
    timed_out: Arc<AtomicBool>,
}

impl Krt {
    /// The objects that a client shows, under the name of their type. The client may be delayed, filtered, or of a kind that is known
    /// at run time only; it has to be started for anything to come. It need not be kept.
    pub fn informer<K: Object>(&self, client: &(impl Informer<K> + ?Sized)) -> InformerCollection<K> {
        let name = std::any::type_name::<K>();
        let name = name.split('<').next().unwrap_or(name);
        let name = name.rsplit("::").next().unwrap_or(name);
        self.named_informer(name, client)
    }

    /// [`informer`](Self::informer) under a name of its own: for several sources of one type, and types that are no kind.
    pub fn named_informer<K: Object>(
        &self,
        name: impl Into<Options>,
        client: &(impl Informer<K> + ?Sized),
    ) -> InformerCollection<K> {
        let shared = self.shared();
        let options = name.into();
        let name = Arc::clone(&options.name);
        let upstream = Arc::new(Upstream::default());
        let buffer = SourceBuffer::<K>::new(&shared.hashing, false);
        let collection = Collection::add(shared, options, Vec::new(), None, |_| {
            let end = End(Arc::clone(&upstream));
            let source = Source::new(&buffer, Some(is_same_version::<K>)).fed_by(Box::new(end));
            Box::new(source.telling_apart(is_same_object::<K>))
        });
        let timed_out = buffer.timed_out();
        let node = collection.id();
        let refused = shared.ingress.write(|state| state.add_source(node, Box::new(buffer)));
        panics::drop_each(refused);

        let bridge = Bridge {
            shared: Arc::clone(shared),
            node,
            upstream: Arc::clone(&upstream),
            collection: Arc::clone(&name),
        };
        let synced = bridge.clone();
        let options = HandlerOptions::named(format!("krt {}/{name}", shared.name)).whole_steps();
        let registration = client.add_handler(Box::new(bridge), options);
        if registration.is_stopped() {
            tracing::warn!(collection = %name, engine = %shared.name, "the client of a collection is stopped already");
        }
        registration.on_synced(move || synced.write::<K, _>(SourceBuffer::mark_synced).unwrap_or_default());
        upstream.set(registration);
        InformerCollection { collection, timed_out }
    }

    /// The objects of a kind that a filter selects, by a client made for it. See [`informer`](Self::informer).
    ///
    /// # Errors
    ///
    /// As [`ReadClient::filtered`].
    #[track_caller]
    pub fn from_client<K: Object>(
        &self,
        client: &kube_client::Client,
        filter: Filter<K>,
    ) -> Result<InformerCollection<K>, RegisterError>
    where
        K::DynamicType: Default,
    {
        Ok(self.informer(&ReadClient::filtered(client, filter)?))
    }
}

impl<K: Object> InformerCollection<K> {
    /// Counts as synced once this time has passed, with what there is by then, so that an API server or a kind that does not answer
    /// does not hold up everything that depends on it. The time is counted from this call, or from the start of the engine if that
    /// is later. What comes late is taken as ever.
    #[must_use = "the collection, to be used"]
    pub fn sync_timeout(self, after: Duration) -> Self {
        let node = self.collection.id();
        self.shared().ingress.write(|state| state.add_timeout(node, after));
        self
    }

    /// Whether it counts as synced only because its [time](Self::sync_timeout) was up. False again once it has really synced.
    pub fn has_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Acquire)
    }
}

/// Uid and version are there and equal: the same state of the same object.
fn is_same_version<K: Object>(old: &K, new: &K) -> bool {
    let (old, new) = (old.metadata(), new.metadata());
    !old.uid.is_empty()
        && !old.resource_version.is_empty()
        && old.uid == new.uid
        && old.resource_version == new.resource_version
}

/// Not known to be two objects of one name.
fn is_same_object<K: Object>(old: &K, new: &K) -> bool {
    let (old, new) = (old.metadata().uid, new.metadata().uid);
    old.is_empty() || new.is_empty() || old == new
}

/// What stands between the client and the node: the registration of the handler, and its end.
#[derive(Default)]
struct Upstream {
    /// The node has ended. Set before its number is given out again.
    ended: AtomicBool,
    /// Invariant: `None` before it is set, and after the end.
    registration: Mutex<Option<Registration>>,
}

impl Upstream {
    fn set(&self, registration: Registration) {
        *self.registration.lock() = Some(registration);
        // Nobody sees it any more if the node ended meanwhile.
        if self.ended.load(Ordering::Acquire) {
            self.end();
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let registration = self.registration.lock().take();
        if let Some(registration) = registration {
            registration.remove();
        }
    }
}

/// The node's end of it.
struct End(Arc<Upstream>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The handler.
#[derive(Clone)]
struct Bridge {
    shared: Arc<Shared>,
    node: NodeId,
    upstream: Arc<Upstream>,
    collection: Arc<str>,
}

impl Bridge {
    /// Changes the buffer, unless there is none any more.
    fn write<K: Object, R>(&self, write: impl FnOnce(&mut SourceBuffer<K>) -> R) -> Option<R> {
        let write = |state: &mut State| {
            if self.upstream.ended.load(Ordering::Acquire) {
                return None;
            }
            Some(write(state.source::<SourceBuffer<K>>(self.node)?))
        };
        self.shared.ingress.write(write)
    }

    /// The key of an object, whose metadata is the user's code. `None` if it has none.
    fn key<'e, K: Object>(&self, object: &'e K) -> Option<KeyRef<'e>> {
        match panics::contain(|| object.key()) {
            Ok(key) if !key.is_empty() => return Some(key),
            Ok(_) => tracing::error!(collection = %self.collection, "an object without a name is left out"),
            Err(panic) => {
                tracing::error!(collection = %self.collection, panic, "an object whose key panics is left out");
            }
        }
        None
    }
}

impl<K: Object> EventHandler<K> for Bridge {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        let hashing = &self.shared.hashing;
        let writes = events.iter().filter_map(|event| {
            let key = self.key(&**event.object())?;
            Some((hashing.key(key), key, event))
        });
        let writes: Vec<_> = writes.collect();
        let replaced = self.write(|buffer: &mut SourceBuffer<K>| {
            let replaced = writes.into_iter().filter_map(|(hash, key, event)| match event {
                Event::Added { object, initial: true } => {
                    buffer.set_lent(hash, key, Arc::clone(object), Touch::IfDifferent)
                }
                Event::Added { object: new, .. } | Event::Updated { new, .. } => {
                    buffer.set_lent(hash, key, Arc::clone(new), Touch::IfOther)
                }
                Event::Deleted { .. } => buffer.delete(hash, key),
            });
            replaced.collect::<Vec<_>>()
        });
        panics::drop_each(replaced.into_iter().flatten());
        Handled::Done
    }

    fn batch_size(&self) -> usize {
        usize::MAX
    }
}

impl<K: Object> Deref for InformerCollection<K> {
    type Target = Collection<K>;

    fn deref(&self) -> &Collection<K> {
        &self.collection
    }
}

impl<K: Object> Clone for InformerCollection<K> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            timed_out: Arc::clone(&self.timed_out),
        }
    }
}

impl<K: Object> fmt::Debug for InformerCollection<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}
