//! `ObjectFilter`: which objects a program may see, decided at run time. The trait, what implementations need to tell of
//! changes, and a filter by a set of namespaces.
//!
//! Informers are unfiltered; a [`View`](crate::View) applies filters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use kube::core::GroupVersionKind;

use crate::error::RegisterError;
use crate::informer::factory::Informers;
use crate::object::Metadata;
use crate::sync::{Mutex, RwLock};

/// Decides which objects are visible. One per client: [`ClientBuilder::object_filter`](crate::ClientBuilder::object_filter).
///
/// # Contract
///
/// 1. `allows` is a pure function of its arguments and of the filter's *generation*: the answers change only in steps, and
///    between two steps the same arguments give the same answer (cannot be checked).
/// 2. A step is complete before the subscribers are told of it, and each is told of every step, or of several at once: with
///    the namespaces in which an answer may have changed, or [`FilterChange::All`]. An object is affected through its namespace, a `Namespace` object
///    through its own name; other cluster-scoped objects only by `All` (cannot be checked).
/// 3. `allows` is fast, and no lock is held while subscribers are told, since they may call the filter; it is called for every
///    object (cannot be checked). A panic in it means that visibility does not change, or that a new object stays hidden.
/// 4. `has_synced` turns true once, when the answers are no longer provisional, and never turns back; that is a step too.
///    Before, views show nothing and do not count as synced, for fear that a program takes the hidden for deleted.
///
/// Implementations keep their subscribers in [`FilterSubscribers`]. [`NamespaceFilter`] is a ready-made one.
pub trait ObjectFilter: Send + Sync + 'static {
    /// Whether an object of this kind with this metadata is visible.
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool;

    /// Whether the answers are final, as far as the filter has to learn something first.
    fn has_synced(&self) -> bool;

    /// Has `subscriber` called after each step from now on, until the subscription is dropped.
    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription;

    /// Gives the informers of the client that the filter is for, to a filter that has to learn something: it registers what
    /// it needs, which then starts with the client. Called when a client is built with this filter, and each time a
    /// [view](crate::ViewOptions::filter) is made of it.
    ///
    /// # Errors
    ///
    /// What registering met. The client or view is not made then.
    fn attach(&self, informers: &Informers) -> Result<(), RegisterError> {
        let _ = informers;
        Ok(())
    }
}

/// Told of each step of a filter. It must not block, and may call the filter.
pub type FilterSubscriber = Arc<dyn Fn(&FilterChange) + Send + Sync>;

/// Where the answers of a filter may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterChange {
    /// In these namespaces, the `Namespace` objects themselves included.
    Namespaces(BTreeSet<Arc<str>>),
    /// Anywhere.
    All,
}

/// A subscription to an [`ObjectFilter`]. Dropping it unsubscribes: no call begins afterwards, one that is running goes on.
#[must_use = "dropping the subscription ends it"]
pub struct FilterSubscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl FilterSubscription {
    /// A subscription that `end` ends. For filters that keep their subscribers by themselves.
    pub fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self {
            end: Some(Box::new(end)),
        }
    }

    /// A subscription to a filter that never changes.
    pub fn never() -> Self {
        Self { end: None }
    }
}

impl Drop for FilterSubscription {
    fn drop(&mut self) {
        // It is dropped among others, and by who stops the client: a panic must not reach them.
        if let Some(end) = self.end.take()
            && catch_unwind(AssertUnwindSafe(end)).is_err()
        {
            tracing::error!("the end of a subscription to an object filter panicked");
        }
    }
}

impl fmt::Debug for FilterSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSubscription").finish_non_exhaustive()
    }
}

/// The subscribers of a filter, for those who implement one.
///
/// # Guarantees
///
/// - Subscribers are called without a lock held, in the order of their subscription: they may call the filter, subscribe and
///   unsubscribe. A panic in one is contained and logged.
/// - Each [`notify`](Self::notify) calls everyone who was subscribed when it began and has not unsubscribed since.
///
/// Not promised: an order among several `notify` at a time. A filter that is changed from several threads takes turns.
#[derive(Default)]
pub struct FilterSubscribers {
    inner: Arc<Mutex<Subscribers>>,
}

#[derive(Default)]
struct Subscribers {
    // Invariant: each number is at most `last`.
    by_number: BTreeMap<u64, FilterSubscriber>,
    last: u64,
}

impl FilterSubscribers {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; what [`ObjectFilter::subscribe`] returns.
    pub fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        let number = {
            let mut inner = self.inner.lock();
            inner.last += 1;
            let number = inner.last;
            inner.by_number.insert(number, subscriber);
            number
        };
        let inner: Weak<Mutex<Subscribers>> = Arc::downgrade(&self.inner);
        FilterSubscription::new(move || {
            let ended = inner.upgrade().and_then(|inner| inner.lock().by_number.remove(&number));
            drop(ended); // what it captures is the user's: not under the lock
        })
    }

    /// Tells everyone of a step that is complete.
    pub fn notify(&self, change: &FilterChange) {
        let numbers: Vec<u64> = self.inner.lock().by_number.keys().copied().collect();
        for number in numbers {
            let subscriber = self.inner.lock().by_number.get(&number).cloned();
            if let Some(subscriber) = subscriber
                && catch_unwind(AssertUnwindSafe(|| subscriber(change))).is_err()
            {
                tracing::error!("a subscriber of an object filter panicked");
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inner.lock().by_number.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for FilterSubscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSubscribers")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// A filter by a set of namespaces that can be changed at run time. Cluster-scoped objects are visible, but for the
/// `Namespace` objects of other namespaces.
///
/// ```
/// use kube_client::{Metadata, NamespaceFilter, ObjectFilter};
/// use kube::core::GroupVersionKind;
///
/// let filter = NamespaceFilter::new(["prod"]);
/// let pod = GroupVersionKind::gvk("", "v1", "Pod");
/// let in_test = Metadata { name: "web-0", namespace: Some("test"), ..Metadata::default() };
/// assert!(!filter.allows(&pod, &in_test));
/// filter.set(["prod", "test"]);
/// assert!(filter.allows(&pod, &in_test));
/// ```
#[derive(Debug)]
pub struct NamespaceFilter {
    // It is asked about each object of each event.
    namespaces: RwLock<HashSet<Arc<str>, RandomState>>,
    subscribers: FilterSubscribers,
    // Lock order: this one, then `namespaces`. Not held while subscribers are told.
    steps: Mutex<Steps>,
}

/// The steps that the subscribers have yet to be told of.
#[derive(Debug, Default)]
struct Steps {
    // Namespaces in which an answer may have changed. Bounded by their number, however many steps there are.
    changed: BTreeSet<Arc<str>>,
    // Somebody is telling the subscribers, and will tell them of these too.
    telling: bool,
}

impl NamespaceFilter {
    /// A filter that shows these namespaces.
    pub fn new(namespaces: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self {
            namespaces: RwLock::new(collect(namespaces)),
            subscribers: FilterSubscribers::new(),
            steps: Mutex::default(),
        }
    }

    /// The namespaces shown now.
    pub fn namespaces(&self) -> BTreeSet<Arc<str>> {
        self.namespaces.read().iter().cloned().collect()
    }

    /// Shows these namespaces from now on. Subscribers have been told when this returns; unless they are being told of an
    /// earlier step, on another thread or because a subscriber calls this: then they are told next, of all that changed
    /// meanwhile at once, by whoever tells them now.
    pub fn set(&self, namespaces: impl IntoIterator<Item = impl AsRef<str>>) {
        let wanted: HashSet<_, _> = collect(namespaces);
        {
            let mut steps = self.steps.lock();
            let mut shown = self.namespaces.write();
            let before = std::mem::replace(&mut *shown, wanted);
            steps.changed.extend(before.symmetric_difference(&shown).cloned());
            if steps.telling || steps.changed.is_empty() {
                return;
            }
            steps.telling = true;
        }
        loop {
            let changed = {
                let mut steps = self.steps.lock();
                let changed = std::mem::take(&mut steps.changed);
                if changed.is_empty() {
                    steps.telling = false;
                    return;
                }
                changed
            };
            self.subscribers.notify(&FilterChange::Namespaces(changed));
        }
    }
}

fn collect<C: FromIterator<Arc<str>>>(namespaces: impl IntoIterator<Item = impl AsRef<str>>) -> C {
    namespaces.into_iter().map(|name| Arc::from(name.as_ref())).collect()
}

impl ObjectFilter for NamespaceFilter {
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        let namespace = match metadata.namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => namespace,
            None if kind.group.is_empty() && kind.kind == "Namespace" => metadata.name,
            None => return true,
        };
        self.namespaces.read().contains(namespace)
    }

    fn has_synced(&self) -> bool {
        true
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        self.subscribers.subscribe(subscriber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Arc<Mutex<Vec<FilterChange>>>;

    fn diary() -> (Told, FilterSubscriber) {
        let told: Told = Arc::default();
        let sink = Arc::clone(&told);
        (
            told,
            Arc::new(move |change: &FilterChange| sink.lock().push(change.clone())),
        )
    }

    fn changed(names: &[&str]) -> FilterChange {
        FilterChange::Namespaces(collect(names))
    }

    #[test]
    fn namespace_filter_decides_by_namespace_and_leaves_cluster_scope_alone() {
        let filter = NamespaceFilter::new(["a"]);
        let kind = |kind| GroupVersionKind::gvk("", "v1", kind);
        let of = |namespace, name| Metadata {
            name,
            namespace,
            ..Metadata::default()
        };
        assert!(filter.allows(&kind("Pod"), &of(Some("a"), "x")));
        assert!(!filter.allows(&kind("Pod"), &of(Some("b"), "a")));
        assert!(filter.allows(&kind("Node"), &of(None, "b")));
        assert!(filter.allows(&kind("Namespace"), &of(None, "a")));
        assert!(!filter.allows(&kind("Namespace"), &of(None, "b")));
        assert!(!filter.allows(&kind("Namespace"), &of(Some(""), "b")));
        let custom = GroupVersionKind::gvk("x.io", "v1", "Namespace");
        assert!(filter.allows(&custom, &of(None, "b")));
    }

    #[test]
    fn subscribers_hear_exactly_the_namespaces_that_changed_until_dropped() {
        let filter = NamespaceFilter::new(["a", "b"]);
        let (told, subscriber) = diary();
        let subscription = filter.subscribe(subscriber);
        filter.set(["b", "c"]);
        filter.set(["c", "b"]);
        assert_eq!(*told.lock(), [changed(&["a", "c"])]);
        drop(subscription);
        assert!(filter.subscribers.is_empty());
        filter.set(["a"]);
        assert_eq!(told.lock().len(), 1);
    }

    #[test]
    fn subscriber_sees_the_step_complete_and_may_leave_or_panic() {
        let filter = Arc::new(NamespaceFilter::new(["a"]));
        let _bad = filter.subscribe(Arc::new(|_: &FilterChange| panic!("a subscriber panics")));
        let own: Arc<Mutex<Option<FilterSubscription>>> = Arc::default();
        let seen: Arc<Mutex<Vec<BTreeSet<Arc<str>>>>> = Arc::default();
        let subscriber: FilterSubscriber = {
            let (filter, own, seen) = (Arc::clone(&filter), Arc::clone(&own), Arc::clone(&seen));
            Arc::new(move |_: &FilterChange| {
                seen.lock().push(filter.namespaces());
                let ended = own.lock().take();
                drop(ended);
            })
        };
        *own.lock() = Some(filter.subscribe(subscriber));
        filter.set(["b"]);
        filter.set(["c"]);
        assert_eq!(*seen.lock(), [collect::<BTreeSet<_>>(["b"])], "told once, then it left");
    }

    // No lock is held while a subscriber runs: it may change the filter, on its own thread or, waiting for it, on another.
    #[test]
    fn subscriber_may_change_the_filter_from_inside() {
        let filter = Arc::new(NamespaceFilter::new(["a"]));
        let (told, diary) = diary();
        let _diary = filter.subscribe(diary);
        let changing: FilterSubscriber = {
            let filter = Arc::clone(&filter);
            Arc::new(move |_: &FilterChange| {
                crate::sync::checked::assert_none_held();
                if filter.namespaces().contains("b") {
                    filter.set(["c"]);
                    let filter = Arc::clone(&filter);
                    std::thread::spawn(move || filter.set(["d"])).join().unwrap();
                }
            })
        };
        let _changing = filter.subscribe(changing);
        filter.set(["b"]);
        assert_eq!(filter.namespaces(), collect::<BTreeSet<_>>(["d"]));
        assert_eq!(
            *told.lock(),
            [changed(&["a", "b"]), changed(&["b", "c", "d"])],
            "both steps at once, after the first"
        );
    }
}
