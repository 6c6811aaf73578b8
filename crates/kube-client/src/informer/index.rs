//! Secondary indexes: their definitions, the tables inside the store, and the reader's handle.

use std::any::TypeId;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::informer::deferred::discard;
use crate::informer::options::Namespaces;
use crate::informer::shared::views::Claim;
use crate::informer::shared::{Received, Shared};
use crate::object::Object;

/// The definition of a secondary index: a name, and a function from an object to the values it is found under.
///
/// Two definitions are the same if one is a clone of the other, or if both functions are of one type that captures
/// nothing (the same `fn` item, the same closure expression).
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_client::IndexDef;
///
/// fn node_name(pod: &Pod) -> Option<String> {
///     pod.spec.as_ref()?.node_name.clone()
/// }
/// let by_node: IndexDef<Pod> = IndexDef::new("node", node_name);
/// assert_eq!(by_node.name(), "node");
/// ```
///
/// So where the function captures something, make the definition once and clone it:
///
/// ```
/// use std::sync::LazyLock;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_client::IndexDef;
///
/// fn by_label(label: &'static str) -> IndexDef<Pod> {
///     IndexDef::new(format!("label {label}"), move |pod: &Pod| pod.metadata.labels.as_ref()?.get(label).cloned())
/// }
/// static BY_APP: LazyLock<IndexDef<Pod>> = LazyLock::new(|| by_label("app"));
///
/// let (here, there) = (BY_APP.clone(), BY_APP.clone()); // the same index, wherever it is asked for
/// # assert_eq!(here.name(), there.name());
/// ```
pub struct IndexDef<K> {
    inner: Arc<Definition<K>>,
}

struct Definition<K> {
    name: String,
    at: &'static Location<'static>,
    identity: FnIdentity,
    extract: Extract<K>,
}

type Extract<K> = Box<dyn Fn(&K) -> Vec<Arc<str>> + Send + Sync>;

/// What makes two functions the same: equal types of zero size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FnIdentity(Option<TypeId>);

impl FnIdentity {
    pub(crate) fn of<F: 'static>() -> Self {
        Self((size_of::<F>() == 0).then(TypeId::of::<F>))
    }

    pub(crate) fn same(self, other: Self) -> bool {
        self.0.is_some() && self == other
    }
}

/// The function is the user's, and dropped among others: a panic of its drop must not reach them.
impl<K> Drop for Definition<K> {
    fn drop(&mut self) {
        discard(std::mem::replace(&mut self.extract, Box::new(|_| Vec::new())));
    }
}

impl<K> IndexDef<K> {
    /// Defines an index. `extract` gives the values of an object: an `Option`, a `Vec`, any collection of text.
    ///
    /// # Panics
    ///
    /// A panic of `extract` is contained: that object has no values in this index.
    #[track_caller]
    pub fn new<F, I>(name: impl Into<String>, extract: F) -> Self
    where
        F: Fn(&K) -> I + Send + Sync + 'static,
        I: IntoIterator<Item: Into<Arc<str>>>,
    {
        Self {
            inner: Arc::new(Definition {
                name: name.into(),
                at: Location::caller(),
                identity: FnIdentity::of::<F>(),
                extract: Box::new(move |object| extract(object).into_iter().map(Into::into).collect()),
            }),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn at(&self) -> &'static Location<'static> {
        self.inner.at
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.inner.identity.same(other.inner.identity)
    }

    /// The object's values, sorted and without repeats. User code: call it without a lock held.
    pub(crate) fn values(&self, object: &K) -> Values {
        let Ok(mut values) = catch_unwind(AssertUnwindSafe(|| (self.inner.extract)(object))) else {
            tracing::error!(index = %self.inner.name, "index extractor panicked: the object has no values in this index");
            return Values::default();
        };
        values.sort_unstable();
        values.dedup();
        values.into()
    }
}

impl<K> Clone for IndexDef<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for IndexDef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexDef")
            .field("name", &self.inner.name)
            .field("at", &self.inner.at)
            .finish()
    }
}

/// One object's values in one index, sorted.
pub(crate) type Values = Box<[Arc<str>]>;

/// A set of slots; most sets have one member.
#[derive(Debug, Clone)]
pub(crate) enum Posting {
    One(u32),
    Many(HashSet<u32, RandomState>),
}

impl Posting {
    pub(crate) fn insert(&mut self, slot: u32) {
        match self {
            Posting::One(only) if *only == slot => {}
            Posting::One(only) => *self = Posting::Many(HashSet::from_iter([*only, slot])),
            Posting::Many(slots) => {
                slots.insert(slot);
            }
        }
    }

    /// Removes a member; true if none is left.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        match self {
            Posting::One(only) => *only == slot,
            Posting::Many(slots) => {
                slots.remove(&slot);
                slots.is_empty()
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Posting::One(_) => 1,
            Posting::Many(slots) => slots.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Posting::One(slot) => (Some(*slot), None),
            Posting::Many(slots) => (None, Some(slots.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// The tables of one index inside the store.
pub(crate) struct IndexTable<K> {
    pub(crate) def: IndexDef<K>,
    // Invariant: `postings[v]` contains slot s iff `values[s]` contains v; no posting is empty.
    postings: HashMap<Arc<str>, Posting, RandomState>,
    // By slot; `None` if the slot is empty or its values are still being computed by whoever adds the index.
    values: Vec<Option<Values>>,
}

impl<K> IndexTable<K> {
    pub(crate) fn new(def: IndexDef<K>) -> Self {
        Self {
            def,
            postings: HashMap::default(),
            values: Vec::new(),
        }
    }

    pub(crate) fn is_computed(&self, slot: u32) -> bool {
        self.values.get(slot as usize).is_some_and(Option::is_some)
    }

    /// Sets the values of a slot, by set difference.
    pub(crate) fn set(&mut self, slot: u32, mut values: Values) {
        let at = slot as usize;
        if self.values.len() <= at {
            self.values.resize_with(at + 1, || None);
        }
        let old = self.values[at].take().unwrap_or_default();
        if old != values {
            self.unlink(slot, old.iter().filter(|value| values.binary_search(value).is_err()));
            for value in &mut values {
                // Share the text with the posting's key.
                if let Some((known, posting)) = self.postings.get_key_value_mut(value) {
                    *value = Arc::clone(known);
                    posting.insert(slot);
                } else {
                    self.postings.insert(Arc::clone(value), Posting::One(slot));
                }
            }
        }
        self.values[at] = Some(values);
    }

    pub(crate) fn clear(&mut self, slot: u32) {
        if let Some(old) = self.values.get_mut(slot as usize).and_then(Option::take) {
            self.unlink(slot, old.iter());
        }
    }

    fn unlink<'a>(&mut self, slot: u32, values: impl Iterator<Item = &'a Arc<str>>) {
        for value in values {
            if self.postings.get_mut(value).is_some_and(|posting| posting.remove(slot)) {
                self.postings.remove(value);
            }
        }
    }

    pub(crate) fn lookup(&self, value: &str) -> Option<&Posting> {
        self.postings.get(value)
    }

    pub(crate) fn known_values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.postings.keys()
    }
}

/// Reads one index of an informer, or what a view shows of it; cheap to clone.
///
/// # Guarantees
///
/// An index is changed in the same step as the cache: what a handler was told is already in it.
pub struct Index<K: Object> {
    shared: Arc<Shared<K>>,
    id: usize,
    name: Arc<str>,
    // Shows visible objects alone.
    view: Option<Arc<Claim<K>>>,
}

impl<K: Object> Index<K> {
    pub(crate) fn new(shared: Arc<Shared<K>>, id: usize, name: &str) -> Self {
        Self {
            shared,
            id,
            name: Arc::from(name),
            view: None,
        }
    }

    /// An index of no informer: what `def` makes of these objects, each known by its namespace and name. For mocks of what adds
    /// indexes; it never changes.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Node;
    /// use kube_client::{Index, IndexDef};
    ///
    /// let by_zone = IndexDef::new("zone", |node: &Node| node.metadata.labels.as_ref()?.get("zone").cloned());
    /// let mut node = Node::default();
    /// node.metadata.name = Some("n1".to_owned());
    /// node.metadata.labels = Some([("zone".to_owned(), "a".to_owned())].into());
    ///
    /// let index = Index::detached(&by_zone, [node]);
    /// assert_eq!((index.name(), index.get("a").len(), index.get("b").len()), ("zone", 1, 0));
    /// ```
    pub fn detached(def: &IndexDef<K>, objects: impl IntoIterator<Item = K>) -> Self {
        let shared = Shared::new(&Namespaces::All);
        let objects = objects.into_iter().map(|object| Received::Upsert(Arc::new(object)));
        shared.apply(0, &mut objects.collect(), None);
        // No other index can be in the way of the first one.
        let id = shared.add_index(def).unwrap_or_default();
        Self::new(Arc::new(shared), id, def.name())
    }

    /// The same index, as a view shows it.
    pub(crate) fn seen_through(mut self, view: Option<&Arc<Claim<K>>>) -> Self {
        self.view = view.cloned();
        self
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects found under `value`, in no particular order.
    pub fn get(&self, value: &str) -> Vec<Arc<K>> {
        match &self.view {
            None => self.shared.by_index(self.id, value),
            Some(view) => self.shared.by_index_in(view.id(), self.id, value),
        }
    }

    /// Every value under which there is an object, in no particular order.
    pub fn values(&self) -> Vec<Arc<str>> {
        match &self.view {
            None => self.shared.index_values(self.id),
            Some(view) => self.shared.index_values_in(view.id(), self.id),
        }
    }
}

impl<K: Object> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            id: self.id,
            name: Arc::clone(&self.name),
            view: self.view.clone(),
        }
    }
}

impl<K: Object> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
