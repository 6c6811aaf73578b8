//! What this crate asks of a Kubernetes type: `trait Object`, and the borrowed view of its metadata.
//!
//! Every `kube::Resource` is an `Object` through a blanket impl. A user may implement it directly on a tiny type of
//! their own whose metadata is not an `ObjectMeta`: that is what makes a cache of a hundred thousand pods small.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{
    ApiResource, ClusterResourceScope, DynamicObject, Expression, NamespaceResourceScope, PartialObjectMeta, Selector,
    SelectorExt, TypeMeta,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::{KeyRef, ObjectKey};

/// A Kubernetes kind that can be listed, watched and cached.
///
/// Implemented for every [`kube::Resource`] (built-in types, derived custom resources, `DynamicObject`,
/// `PartialObjectMeta`). Implement it yourself for a type that keeps only what you need.
///
/// # Contract
///
/// 1. `metadata` is a pure, cheap function of the object that only borrows: it is called while the cache is locked, so it
///    must not panic, block, or call back into the informer (cannot be checked).
/// 2. The name it reports is the `metadata.name` that was decoded, and likewise namespace, uid and resourceVersion
///    (cannot be checked; an object without a name is reported as undecodable).
/// 3. `Deserialize` ignores fields it does not know: the server adds some over time (cannot be checked).
/// 4. `Drop`, if there is one, does not panic. If it does, the panic is contained wherever an informer drops the object, and
///    logged; where the program itself holds the last reference, it is the program's.
///
/// # Examples
///
/// A type that keeps a few hundred bytes per pod:
///
/// ```
/// use kube::core::ApiResource;
/// use kube_client::{Metadata, Object, Scope};
/// use serde::Deserialize;
///
/// #[derive(Debug, Deserialize)]
/// struct PodIp {
///     metadata: TinyMeta,
///     #[serde(default)]
///     status: PodIpStatus,
/// }
///
/// #[derive(Debug, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct TinyMeta {
///     name: Box<str>,
///     namespace: Box<str>,
///     uid: Box<str>,
///     resource_version: Box<str>,
/// }
///
/// #[derive(Debug, Default, Deserialize)]
/// struct PodIpStatus {
///     #[serde(rename = "podIP")] // "camelCase" would make it `podIp`, which never comes
///     pod_ip: Option<Box<str>>,
/// }
///
/// impl Object for PodIp {
///     type DynamicType = ();
///
///     fn api_resource((): &()) -> ApiResource {
///         ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
///     }
///
///     fn scope((): &()) -> Scope {
///         Scope::Namespaced
///     }
///
///     fn metadata(&self) -> Metadata<'_> {
///         Metadata {
///             name: &self.metadata.name,
///             namespace: Some(&self.metadata.namespace),
///             uid: &self.metadata.uid,
///             resource_version: &self.metadata.resource_version,
///             ..Metadata::default()
///         }
///     }
/// }
///
/// // What is missing decodes to `None`, so try it on real JSON.
/// let metadata = r#"{"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"}"#;
/// let pod: PodIp = serde_json::from_str(&format!(r#"{{"metadata": {metadata}, "status": {{"podIP": "10.0.0.1"}}}}"#))?;
/// assert_eq!(pod.status.pod_ip.as_deref(), Some("10.0.0.1"));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait Object: DeserializeOwned + Debug + Send + Sync + 'static {
    /// What is known of the kind at run time only; `()` where the Rust type says it all.
    type DynamicType: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// Group, version, kind and plural of the resource to list and watch.
    fn api_resource(dynamic_type: &Self::DynamicType) -> ApiResource;

    /// Whether objects of this kind live in namespaces.
    fn scope(dynamic_type: &Self::DynamicType) -> Scope;

    /// How the server is asked to send the objects.
    fn representation() -> Representation {
        Representation::Typed
    }

    /// The object's metadata, borrowed.
    fn metadata(&self) -> Metadata<'_>;

    /// Sets `apiVersion` and `kind` on types that keep them at run time. List items omit them and watch events carry
    /// them; the informer calls this on each decoded object, so that both come out equal.
    fn set_types(&mut self, resource: &ApiResource) {
        let _ = resource;
    }
}

/// Whether objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In a namespace each.
    Namespaced,
    /// In none.
    Cluster,
    /// Not known from the type: only the server knows (dynamic kinds).
    #[default]
    Unknown,
}

/// How the server is asked to send the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Representation {
    /// Whole objects, decoded into a Rust type of the kind.
    Typed,
    /// Whole objects of a kind known at run time only.
    Dynamic,
    /// `metadata` alone.
    Metadata,
}

impl<K> Object for K
where
    K: kube::Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Debug,
{
    type DynamicType = <K as kube::Resource>::DynamicType;

    fn api_resource(dynamic_type: &Self::DynamicType) -> ApiResource {
        ApiResource::erase::<K>(dynamic_type)
    }

    fn scope(_: &Self::DynamicType) -> Scope {
        let scope = TypeId::of::<K::Scope>();
        if scope == TypeId::of::<NamespaceResourceScope>() {
            Scope::Namespaced
        } else if scope == TypeId::of::<ClusterResourceScope>() {
            Scope::Cluster
        } else {
            Scope::Unknown
        }
    }

    fn representation() -> Representation {
        if K::metadata_api() {
            Representation::Metadata
        } else if TypeId::of::<K>() == TypeId::of::<DynamicObject>() {
            Representation::Dynamic
        } else {
            Representation::Typed
        }
    }

    fn metadata(&self) -> Metadata<'_> {
        let meta = self.meta();
        Metadata {
            name: meta.name.as_deref().unwrap_or_default(),
            namespace: meta.namespace.as_deref(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default(),
            labels: meta.labels.as_ref().map_or(Labels::Empty, Labels::Map),
            annotations: meta.annotations.as_ref().map_or(Labels::Empty, Labels::Map),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            owners: meta.owner_references.as_deref().unwrap_or_default(),
        }
    }

    fn set_types(&mut self, resource: &ApiResource) {
        let this: &mut dyn Any = self;
        let types = if let Some(object) = this.downcast_mut::<DynamicObject>() {
            &mut object.types
        } else if let Some(object) = this.downcast_mut::<PartialObjectMeta<DynamicObject>>() {
            &mut object.types
        } else {
            return;
        };
        *types = Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
    }
}

/// A borrowed view of an object's metadata.
#[derive(Debug, Clone, Copy, Default)]
pub struct Metadata<'a> {
    /// `metadata.name`; empty if the object has none.
    pub name: &'a str,
    /// `metadata.namespace`.
    pub namespace: Option<&'a str>,
    /// `metadata.uid`; empty if the server sends none (some aggregated APIs).
    pub uid: &'a str,
    /// `metadata.resourceVersion`; empty if the server sends none (some aggregated APIs).
    pub resource_version: &'a str,
    /// `metadata.labels`.
    pub labels: Labels<'a>,
    /// `metadata.annotations`, in the same forms as labels. Empty for a type that does not keep them.
    pub annotations: Labels<'a>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.ownerReferences`.
    pub owners: &'a [OwnerReference],
}

impl<'a> Metadata<'a> {
    /// Namespace and name, owned.
    pub fn key(&self) -> ObjectKey {
        self.key_ref().to_owned()
    }

    pub(crate) fn key_ref(&self) -> KeyRef<'a> {
        KeyRef {
            namespace: self.namespace.filter(|namespace| !namespace.is_empty()),
            name: self.name,
        }
    }

    /// Whether this is the same state of the same object as `other`: uid and resourceVersion are present and equal.
    pub(crate) fn is_unchanged(&self, other: &Metadata<'_>) -> bool {
        !self.uid.is_empty()
            && !self.resource_version.is_empty()
            && self.uid == other.uid
            && self.resource_version == other.resource_version
    }
}

/// Borrowed labels or annotations, in one of the forms that types keep them in.
#[derive(Debug, Clone, Copy, Default)]
pub enum Labels<'a> {
    /// None at all.
    #[default]
    Empty,
    /// As `ObjectMeta` keeps them.
    Map(&'a BTreeMap<String, String>),
    /// Pairs sorted by key, as small types keep them; [`slim::sorted_labels`](crate::slim::sorted_labels) decodes them so. In
    /// another order, selectors and [`get`](Self::get) miss some (cannot be checked).
    Sorted(&'a [(Box<str>, Box<str>)]),
}

impl<'a> Labels<'a> {
    /// The value of one label.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        match self {
            Labels::Empty => None,
            Labels::Map(map) => map.get(key).map(String::as_str),
            Labels::Sorted(pairs) => pairs
                .binary_search_by(|(known, _)| (**known).cmp(key))
                .ok()
                .map(|at| &*pairs[at].1),
        }
    }

    /// Whether the labels meet every requirement of the selector.
    pub fn matches(&self, selector: &Selector) -> bool {
        match self {
            Labels::Map(map) => selector.matches(map),
            Labels::Empty | Labels::Sorted(_) if selector.selects_all() => true,
            Labels::Empty | Labels::Sorted(_) => selector.clone().into_iter().all(|requirement| match requirement {
                Expression::In(key, values) => self.get(&key).is_some_and(|value| values.contains(value)),
                Expression::NotIn(key, values) => self.get(&key).is_none_or(|value| !values.contains(value)),
                Expression::Equal(key, wanted) => self.get(&key) == Some(&*wanted),
                Expression::NotEqual(key, unwanted) => self.get(&key) != Some(&*unwanted),
                Expression::Exists(key) => self.get(&key).is_some(),
                Expression::DoesNotExist(key) => self.get(&key).is_none(),
            }),
        }
    }

    /// All labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let (map, pairs) = match *self {
            Labels::Empty => (None, [].as_slice()),
            Labels::Map(map) => (Some(map), [].as_slice()),
            Labels::Sorted(pairs) => (None, pairs),
        };
        let from_map = map
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        from_map.chain(pairs.iter().map(|(key, value)| (&**key, &**value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Node, Pod};

    #[test]
    fn scope_and_representation_follow_the_type() {
        assert_eq!(Pod::scope(&()), Scope::Namespaced);
        assert_eq!(Node::scope(&()), Scope::Cluster);
        let pods = ApiResource::erase::<Pod>(&());
        assert_eq!(DynamicObject::scope(&pods), Scope::Unknown);
        assert_eq!(<Pod as Object>::representation(), Representation::Typed);
        assert_eq!(DynamicObject::representation(), Representation::Dynamic);
        assert_eq!(
            PartialObjectMeta::<DynamicObject>::representation(),
            Representation::Metadata
        );
    }

    #[test]
    fn labels_read_the_same_in_each_form() {
        let map = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let pairs: Vec<(Box<str>, Box<str>)> = vec![("a".into(), "1".into()), ("b".into(), "2".into())];
        for labels in [Labels::Map(&map), Labels::Sorted(&pairs)] {
            assert_eq!(labels.get("b"), Some("2"));
            assert_eq!(labels.get("c"), None);
            assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        }
        assert_eq!(Labels::Empty.iter().count(), 0);
    }

    #[test]
    fn labels_match_a_selector_the_same_in_each_form() {
        let map = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let pairs: Vec<(Box<str>, Box<str>)> = vec![("a".into(), "1".into())];
        let text = str::to_owned;
        let cases = [
            (Expression::Equal(text("a"), text("1")), true),
            (Expression::NotEqual(text("a"), text("1")), false),
            (Expression::NotEqual(text("b"), text("1")), true),
            (Expression::In(text("a"), [text("1"), text("2")].into()), true),
            (Expression::In(text("b"), [text("1")].into()), false),
            (Expression::NotIn(text("b"), [text("1")].into()), true),
            (Expression::NotIn(text("a"), [text("1")].into()), false),
            (Expression::Exists(text("a")), true),
            (Expression::DoesNotExist(text("a")), false),
        ];
        for (requirement, expected) in cases {
            let selector = Selector::from(requirement.clone());
            for labels in [Labels::Map(&map), Labels::Sorted(&pairs)] {
                assert_eq!(labels.matches(&selector), expected, "{requirement}");
            }
        }
        assert!(Labels::Empty.matches(&Selector::default()));
        assert!(!Labels::Empty.matches(&Selector::from(Expression::Exists(text("a")))));
    }
}
