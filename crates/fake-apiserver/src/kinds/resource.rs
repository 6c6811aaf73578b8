//! One served resource: names, verbs, subresources, where its objects are stored. Its behaviour is [`Policy`].

use std::borrow::Cow;
use std::sync::Arc;

use super::{Policy, SelectableField};
use crate::convert::StoredAs;
use crate::schemas::Shape;
use crate::structured;

/// A name from the tables (borrowed) or from a custom resource definition (owned).
pub(crate) type Name = Cow<'static, str>;

/// Whether objects live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// What a client may do with a resource, in the words of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    /// All verbs, in the order in which discovery lists them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// The name in discovery documents and error texts.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// A set of [`Verb`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Verbs(u8);

impl Verbs {
    /// Every verb.
    pub(crate) const ALL: Self = Self(u8::MAX);

    /// The set of the given verbs.
    pub(crate) fn of(verbs: &[Verb]) -> Self {
        Self(verbs.iter().fold(0, |set, verb| set | 1 << (*verb as u8)))
    }

    /// The set of the verbs with the given names; unknown names are ignored.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = 0;
        for name in names {
            if let Some(verb) = Verb::ALL.iter().find(|verb| verb.as_str() == name) {
                set |= 1 << (*verb as u8);
            }
        }
        Self(set)
    }

    /// Whether the set has the verb.
    pub(crate) const fn contains(self, verb: Verb) -> bool {
        self.0 & 1 << (verb as u8) != 0
    }

    /// The verbs of the set, in discovery order.
    pub(crate) fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.contains(*verb))
    }
}

/// One subresource as discovery shows it, for example `status` or `scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: Name,
    /// The kind of its body; group and version are empty when they are those of the resource.
    pub(crate) kind: Name,
    pub(crate) group: Name,
    pub(crate) version: Name,
    pub(crate) verbs: Verbs,
}

/// Where objects are stored: all versions of a resource (and for events both groups) share one id.
///
/// The value is the key prefix in etcd (`/registry/services/specs`), which is unique per storage resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StorageId(pub(crate) Name);

/// What the codec knows about the shape of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// A built-in type, by its position in the packed type tables.
    Typed(crate::codec::TypeId),
    /// Everything is kept: a custom resource.
    Schemaless,
}

/// The types that structured merge knows of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Structures {
    /// Of the served version.
    pub(crate) own: Arc<structured::Schema>,
    /// Of all versions of a custom resource, by `group/version`; none of a built-in kind.
    pub(crate) versions: Arc<[(String, Arc<structured::Schema>)]>,
}

impl Structures {
    /// Those of a built-in kind.
    pub(crate) fn of_built_in(place: Option<u16>) -> Self {
        Self {
            own: Arc::new(structured::Schema::of_built_in(place)),
            versions: Arc::new([]),
        }
    }
}

/// What a definition says of the objects of a version.
#[derive(Debug, Clone)]
pub(crate) struct Defined {
    /// The place of the definition among all that the server has ever installed, from 1: each change of one has its own.
    pub(crate) number: u64,
    /// The form in which the version shows objects.
    pub(crate) shape: Arc<Shape>,
    /// The form in which they are stored.
    pub(crate) stored: Arc<Shape>,
    /// Whether the two are the same.
    pub(crate) shows_stored: bool,
    /// The selectable fields of all versions.
    pub(crate) selectable: Arc<[SelectableField]>,
}

/// One served resource (`group/version/plural`).
///
/// # Guarantees
///
/// Immutable: a change of a custom resource definition makes new `Resource`s in a new [`super::Kinds`] snapshot.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: Name,
    pub(crate) version: Name,
    pub(crate) plural: Name,
    pub(crate) singular: Name,
    pub(crate) kind: Name,
    pub(crate) list_kind: Name,
    pub(crate) scope: Scope,
    pub(crate) verbs: Verbs,
    pub(crate) short_names: Vec<Name>,
    pub(crate) categories: Vec<Name>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) storage: StorageId,
    /// Absent if objects are stored as they are served.
    pub(crate) stored_as: Option<StoredAs>,
    pub(crate) policy: Policy,
    /// What every request for it warns of.
    pub(crate) deprecation: Option<Name>,
    pub(crate) schema: Schema,
    /// How its objects are merged and owned.
    pub(crate) structures: Structures,
    /// Of a custom resource.
    pub(crate) defined: Option<Arc<Defined>>,
    /// Whether this comes from a custom resource definition; some texts (415, strict errors) differ.
    pub(crate) custom: bool,
}

impl Resource {
    /// `v1` or `group/version`.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The package of the kind's Go type, which some texts name.
    pub(crate) fn go_package(&self) -> &str {
        match &*self.group {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or_default(),
        }
    }

    /// `plural` or `plural.group`, as error texts name a resource.
    pub(crate) fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether a real server reads it from its cache: it has none of events, and reads them from the store.
    pub(crate) fn is_cached(&self) -> bool {
        self.custom || self.plural != "events"
    }

    /// The form of its objects, if a definition says.
    pub(crate) fn shape(&self) -> Option<&Shape> {
        self.defined.as_ref().map(|defined| &*defined.shape)
    }

    /// Whether objects live in a namespace.
    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The subresource of the given name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

/// `version` for the core group, `group/version` otherwise.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
