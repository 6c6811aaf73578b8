//! What a collection is called, and what else is said of it when it is made.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::id::NodeId;
use crate::shared::Shared;
use crate::traits::Keyed;

/// What a collection is called, and what else is said of it when it is made. Where nothing else is to be said, the name alone
/// will do.
///
/// ```
/// use krt::{Krt, Options, Text};
///
/// #[derive(Debug, PartialEq)]
/// struct Cluster(&'static str);
///
/// let krt = Krt::builder("mesh").build();
/// let config = krt.unsynced_collection::<Text>("config");
/// let names = krt.static_collection("names", [Text::from("a")]);
/// let options = Options::new("loud").depends_on(&config).metadata(Cluster("east"));
/// let loud = krt.collection(options, &names, |_, name| Some(Text(name.0.to_uppercase())));
/// assert_eq!(loud.name(), "loud");
/// assert_eq!(loud.metadata::<Cluster>(), Some(&Cluster("east")));
/// ```
#[must_use = "options do nothing by themselves"]
pub struct Options {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: Metadata,
    pub(crate) declared: Vec<Declared>,
}

impl Options {
    /// The name is that under which the collection is logged and shown. Several collections may have the same one.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            metadata: Metadata::default(),
            declared: Vec::new(),
        }
    }

    /// Has the new collection wait for another one: it is not synced before that is, and nothing of it is computed until then. A
    /// collection that is only fetched now and then is not waited for otherwise.
    ///
    /// It may also be said of collections that are always fetched: then the first run knows already that it comes after them.
    ///
    /// # Panics
    ///
    /// The constructor panics if the collection belongs to another engine.
    pub fn depends_on<T: Keyed>(mut self, collection: &Collection<T>) -> Self {
        self.declared.push(Declared {
            node: collection.id(),
            shared: Arc::clone(collection.shared()),
            _handle: Box::new(collection.clone()),
        });
        self
    }

    /// Attaches a value to the collection, to be read by [`Collection::metadata`]: the cluster that it is of, for example. There is one
    /// value of each type; a second one takes the place of the first. The engine does not look at it.
    pub fn metadata<M: Send + Sync + 'static>(mut self, value: M) -> Self {
        self.metadata.0.insert(TypeId::of::<M>(), Arc::new(value));
        self
    }
}

impl From<&str> for Options {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Options {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl From<&String> for Options {
    fn from(name: &String) -> Self {
        Self::new(name.as_str())
    }
}

/// Values of the user's, one of each type.
#[derive(Clone, Default)]
pub(crate) struct Metadata(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Metadata {
    pub(crate) fn get<M: 'static>(&self) -> Option<&M> {
        self.0.get(&TypeId::of::<M>())?.downcast_ref()
    }
}

/// A collection that is waited for.
pub(crate) struct Declared {
    pub(crate) node: NodeId,
    pub(crate) shared: Arc<Shared>,
    /// Keeps it until the new collection does.
    _handle: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("metadata", &self.metadata.0.len())
            .field("depends_on", &self.declared.len())
            .finish_non_exhaustive()
    }
}
