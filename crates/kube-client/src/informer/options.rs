//! What can be chosen for an informer, and the identity that follows from it.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::core::{ApiResource, Expression, Selector};
use serde::Serialize;

use crate::decode::list::PIECE;
use crate::informer::transform::Transform;
use crate::object::{Object, Representation, Scope};

/// The namespaces that an informer covers. Cluster-scoped kinds ignore it.
///
/// Several namespaces are still one informer: one cache with its indexes, one sync, one ordered queue of events per
/// handler. They cost one list and one watch each, since the server lists either one namespace or all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Namespaces {
    /// All of them.
    #[default]
    All,
    /// One.
    One(Arc<str>),
    /// Several. A set of one is the same as [`One`](Self::One); an empty one is refused at registration.
    Many(Arc<BTreeSet<Arc<str>>>),
}

/// The most namespaces that are named where an informer is.
const NAMED: usize = 8;

impl Namespaces {
    /// One namespace.
    pub fn one(namespace: &str) -> Self {
        Self::One(Arc::from(namespace))
    }

    /// Several namespaces; order and repetition do not matter.
    ///
    /// ```
    /// use kube_client::Namespaces;
    ///
    /// assert_eq!(Namespaces::many(["b", "a", "b"]), Namespaces::many(["a", "b"]));
    /// assert_eq!(Namespaces::many(["a"]), Namespaces::one("a"));
    /// ```
    pub fn many(namespaces: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let names: BTreeSet<Arc<str>> = namespaces.into_iter().map(|name| Arc::from(name.as_ref())).collect();
        Self::Many(Arc::new(names)).canonical()
    }

    /// The namespace, if it is one.
    pub fn as_one(&self) -> Option<&str> {
        match self {
            Namespaces::One(namespace) => Some(namespace),
            Namespaces::All | Namespaces::Many(_) => None,
        }
    }

    /// Equal for equal sets.
    fn canonical(self) -> Self {
        match &self {
            Namespaces::Many(names) if names.len() == 1 => names.first().cloned().map_or(self, Self::One),
            _ => self,
        }
    }

    /// What has to be listed and watched by itself: everything (`None`), or each namespace, in order.
    pub(crate) fn parts(&self) -> Vec<Option<Arc<str>>> {
        match self {
            Namespaces::All => vec![None],
            Namespaces::One(name) => vec![Some(Arc::clone(name))],
            Namespaces::Many(names) => names.iter().cloned().map(Some).collect(),
        }
    }
}

/// Reads as a part of a sentence: ` in namespace a`, ` in namespaces a, b`; empty for all.
impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Namespaces::All => Ok(()),
            Namespaces::One(name) => write!(f, " in namespace {name}"),
            Namespaces::Many(names) => {
                let named: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
                write!(f, " in namespaces {}", named.join(", "))?;
                match names.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

/// How the first state is fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ListMode {
    /// A streaming list on the watch itself, and a paged list where the server cannot stream. Recommended.
    #[default]
    Auto,
    /// Always a paged list.
    Paged,
    /// Always a streaming list, even if the server refuses it.
    Streaming,
}

/// How fresh the first state of a paged list has to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum InitialList {
    /// Any state that the server has at hand (resourceVersion "0"): cheap for the server, comes as one page.
    #[default]
    Any,
    /// The newest state, read from the server's storage, in pages.
    Consistent,
}

/// What to do when an object of the first list is not one of the Rust type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnUndecodable {
    /// Leave it out, report it, and go on.
    #[default]
    Skip,
    /// Do not count the cache as filled before every object decodes: the list is fetched anew with back-off until then, and
    /// the cache stays empty. The failure shows in statistics, log and error handler; it does not end a fail-fast start,
    /// since the object can be mended at any time. After the first sync as [`Skip`](Self::Skip).
    BlockFirstSync,
}

/// What can be chosen for an informer.
///
/// The first part is its identity: asking again with the same values gives the same informer. The second part is
/// decided by whoever asks first.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::core::{Expression, Selector};
/// use kube_client::{InformerOptions, Namespaces};
///
/// let options = InformerOptions::<Pod>::default()
///     .namespaces(Namespaces::one("prod"))
///     .labels(Selector::from_iter([Expression::Equal("app".into(), "web".into())]))
///     .fields("status.phase=Running");
/// ```
pub struct InformerOptions<K> {
    pub(crate) namespaces: Namespaces,
    pub(crate) labels: Selector,
    pub(crate) fields: String,
    pub(crate) keep_managed_fields: bool,
    // What whoever asks knows of the kind's scope.
    pub(crate) scope: Scope,
    pub(crate) transform: Option<Transform<K>>,
    pub(crate) tuning: Tuning,
}

/// Choices that are not part of the identity.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    pub(crate) list_mode: ListMode,
    pub(crate) initial_list: InitialList,
    pub(crate) page_size: u32,
    pub(crate) on_undecodable: OnUndecodable,
    pub(crate) silence: Duration,
    // How much text of a list makes a piece that is decoded by itself. Tests make it small.
    pub(crate) piece: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            list_mode: ListMode::Auto,
            initial_list: InitialList::Any,
            page_size: 500,
            on_undecodable: OnUndecodable::Skip,
            silence: Duration::from_secs(30),
            piece: PIECE,
        }
    }
}

impl<K> Default for InformerOptions<K> {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::All,
            labels: Selector::default(),
            fields: String::new(),
            keep_managed_fields: false,
            scope: Scope::Unknown,
            transform: None,
            tuning: Tuning::default(),
        }
    }
}

impl<K> Clone for InformerOptions<K> {
    fn clone(&self) -> Self {
        Self {
            namespaces: self.namespaces.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            keep_managed_fields: self.keep_managed_fields,
            scope: self.scope,
            transform: self.transform.clone(),
            tuning: self.tuning.clone(),
        }
    }
}

impl<K> fmt::Debug for InformerOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels.to_string())
            .field("fields", &self.fields)
            .field("keep_managed_fields", &self.keep_managed_fields)
            .field("scope", &self.scope)
            .field("transform", &self.transform)
            .field("tuning", &self.tuning)
            .finish()
    }
}

impl<K> InformerOptions<K> {
    /// Identity: the namespaces to cover. Default: all.
    ///
    /// Cluster-scoped kinds ignore it. The Rust type of a dynamic kind does not tell its scope: then it has to be said by
    /// [`scope`](Self::scope) or known from the server, or the registration is refused.
    #[must_use]
    pub fn namespaces(mut self, namespaces: Namespaces) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// Whether the kind lives in namespaces, for dynamic kinds, whose Rust type does not tell. It matters only where
    /// namespaces do: with [`namespaces`](Self::namespaces), or with a client that is
    /// [restricted](crate::ClientBuilder::namespaces) to some. Default: unknown.
    ///
    /// Where the type tells, it decides; then the server, as far as its answer is known already: from the kind's definition, if
    /// the [CRD watcher](crate::CrdWatcher) runs, or from an earlier answer of [discovery](crate::Discovery). What is said
    /// here comes last.
    ///
    /// ```
    /// use kube_client::{InformerOptions, Namespaces, Scope};
    ///
    /// let options = InformerOptions::<kube::core::DynamicObject>::default()
    ///     .scope(Scope::Namespaced)
    ///     .namespaces(Namespaces::one("prod"));
    /// ```
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Identity: only objects with these labels, selected by the server.
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.labels = selector;
        self
    }

    /// Identity: only objects with these field values, selected by the server (`status.phase=Running`). Which fields a
    /// kind supports is the server's business: a refused selector shows in the status as such.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Identity: keep `metadata.managedFields`, about a third of a typical object. By default they are skipped while
    /// decoding.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keep_managed_fields = true;
        self
    }

    /// Changes each object once as it is received, before it is cached. Everyone who asks for the informer has to ask
    /// for the same transform.
    #[must_use]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// How the first state is fetched. Decided by whoever asks first.
    #[must_use]
    pub fn list_mode(mut self, mode: ListMode) -> Self {
        self.tuning.list_mode = mode;
        self
    }

    /// How fresh a paged first list has to be. Decided by whoever asks first.
    #[must_use]
    pub fn initial_list(mut self, initial: InitialList) -> Self {
        self.tuning.initial_list = initial;
        self
    }

    /// Objects per page of a paged list; 0 means no pages. Default: 500. Decided by whoever asks first.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.tuning.page_size = objects;
        self
    }

    /// What to do with objects of the first list that do not decode. Decided by whoever asks first.
    #[must_use]
    pub fn on_undecodable(mut self, what: OnUndecodable) -> Self {
        self.tuning.on_undecodable = what;
        self
    }
}

/// The identity of an informer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InformerKey {
    pub(crate) kind: TypeId,
    // The name of `kind`.
    pub(crate) object_type: &'static str,
    pub(crate) resource: ApiResource,
    pub(crate) representation: Representation,
    pub(crate) namespaces: Namespaces,
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) keep_managed_fields: bool,
}

impl InformerKey {
    pub(crate) fn of<K: Object>(dynamic_type: &K::DynamicType, options: &InformerOptions<K>) -> Self {
        let scope = match K::scope(dynamic_type) {
            Scope::Unknown => options.scope,
            known => known,
        };
        let namespaces = match scope {
            Scope::Cluster => Namespaces::All,
            Scope::Namespaced | Scope::Unknown => options.namespaces.clone().canonical(),
        };
        Self {
            kind: TypeId::of::<K>(),
            object_type: std::any::type_name::<K>(),
            resource: K::api_resource(dynamic_type),
            representation: K::representation(),
            namespaces,
            labels: canonical_labels(&options.labels),
            fields: canonical_fields(&options.fields),
            keep_managed_fields: options.keep_managed_fields,
        }
    }

    pub(crate) fn id(&self) -> InformerId {
        let group = if self.resource.group.is_empty() {
            String::new()
        } else {
            format!(".{}", self.resource.group)
        };
        InformerId {
            resource: format!("{}{group}/{}", self.resource.plural, self.resource.version),
            object_type: self.object_type,
            representation: self.representation,
            namespaces: self.namespaces.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            keeps_managed_fields: self.keep_managed_fields,
        }
    }
}

/// Names one informer in errors, logs and statistics: everything that tells it from the others of its client. The text form
/// leaves the Rust type out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct InformerId {
    /// Plural, group and version: `deployments.apps/v1`.
    pub resource: String,
    /// The Rust type of its objects, as [`std::any::type_name`] writes it.
    pub object_type: &'static str,
    /// How the server is asked to send the objects.
    pub representation: Representation,
    /// The namespaces covered.
    pub namespaces: Namespaces,
    /// The label selector in canonical form; empty if none.
    pub labels: String,
    /// The field selector in canonical form; empty if none.
    pub fields: String,
    /// Whether it keeps `metadata.managedFields`.
    pub keeps_managed_fields: bool,
}

impl InformerId {
    /// Whether both watch the same resource in a namespace that both cover.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (own, others) = (self.namespaces.parts(), other.namespaces.parts());
        let everything = own.contains(&None) || others.contains(&None);
        self.resource == other.resource && (everything || own.iter().any(|namespace| others.contains(namespace)))
    }
}

impl fmt::Display for InformerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        write!(f, "{}", self.namespaces)?;
        if !self.labels.is_empty() {
            write!(f, " with labels {}", self.labels)?;
        }
        if !self.fields.is_empty() {
            write!(f, " with fields {}", self.fields)?;
        }
        if self.keeps_managed_fields {
            f.write_str(" with managed fields")?;
        }
        match self.representation {
            Representation::Typed => Ok(()),
            Representation::Dynamic => f.write_str(" (dynamic)"),
            Representation::Metadata => f.write_str(" (metadata only)"),
        }
    }
}

/// The selector with sorted requirements; the values of one requirement are sorted already. A set of one value is an
/// equality.
fn canonical_labels(selector: &Selector) -> String {
    let requirements: BTreeSet<String> = selector
        .clone()
        .into_iter()
        .map(|requirement| match requirement {
            Expression::In(key, values) if values.len() == 1 => values
                .into_iter()
                .next()
                .map_or_else(String::new, |value| Expression::Equal(key, value).to_string()),
            Expression::NotIn(key, values) if values.len() == 1 => values
                .into_iter()
                .next()
                .map_or_else(String::new, |value| Expression::NotEqual(key, value).to_string()),
            other => other.to_string(),
        })
        .collect();
    requirements.into_iter().collect::<Vec<_>>().join(",")
}

/// The selector with sorted, distinct requirements and one spelling of equality.
fn canonical_fields(selector: &str) -> String {
    let mut requirements = BTreeSet::new();
    let mut requirement = String::new();
    let mut escaped = false;
    for c in selector.chars() {
        match c {
            ',' if !escaped => {
                requirements.insert(std::mem::take(&mut requirement));
            }
            _ => requirement.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    requirements.insert(requirement);
    let trimmed = requirements
        .iter()
        .map(|requirement| requirement.trim().replacen("==", "=", 1));
    let distinct: BTreeSet<String> = trimmed.filter(|requirement| !requirement.is_empty()).collect();
    distinct.into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Node, Pod};

    fn key(options: &InformerOptions<Pod>) -> InformerKey {
        InformerKey::of::<Pod>(&(), options)
    }

    // [I1] the identity does not depend on the spelling of a selector
    #[test]
    fn identity_ignores_the_order_of_requirements() {
        let equal = |key: &str, value: &str| Expression::Equal(key.into(), value.into());
        let one = InformerOptions::default()
            .labels(Selector::from_iter([
                equal("a", "1"),
                Expression::In("b".into(), ["2".to_owned()].into()),
            ]))
            .fields("status.phase==Running, metadata.name=x");
        let two = InformerOptions::default()
            .labels(Selector::from_iter([equal("b", "2"), equal("a", "1"), equal("a", "1")]))
            .fields("metadata.name=x,status.phase=Running");
        assert_eq!(key(&one), key(&two));
        assert_eq!(key(&one).labels, "a=1,b=2");
        assert_ne!(key(&one), key(&InformerOptions::default()));
    }

    #[test]
    fn canonical_fields_keep_escaped_commas() {
        assert_eq!(canonical_fields("b=2,a=x\\,y"), "a=x\\,y,b=2");
        assert_eq!(canonical_fields(""), "");
    }

    #[test]
    fn cluster_scoped_kinds_ignore_the_namespace() {
        for namespaces in [Namespaces::one("a"), Namespaces::many(["a", "b"])] {
            let options = InformerOptions::<Node>::default().namespaces(namespaces);
            assert_eq!(InformerKey::of::<Node>(&(), &options).namespaces, Namespaces::All);
        }
    }

    // [I37] equal sets are one informer, however they are written down
    #[test]
    fn identity_ignores_how_a_set_of_namespaces_is_written() {
        let of = |namespaces| key(&InformerOptions::default().namespaces(namespaces));
        assert_eq!(of(Namespaces::many(["b", "a"])), of(Namespaces::many(["a", "b", "a"])));
        let set_of_one = Namespaces::Many(Arc::new(BTreeSet::from([Arc::from("a")])));
        assert_eq!(of(set_of_one), of(Namespaces::one("a")));
        assert_ne!(of(Namespaces::many(["a", "b"])), of(Namespaces::many(["a", "c"])));
    }

    #[test]
    fn id_reads_as_a_sentence_part() {
        let options = InformerOptions::default()
            .namespaces(Namespaces::one("prod"))
            .fields("a=b");
        assert_eq!(
            key(&options).id().to_string(),
            "pods/v1 in namespace prod with fields a=b"
        );
        assert_eq!(
            key(&options.keep_managed_fields()).id().to_string(),
            "pods/v1 in namespace prod with fields a=b with managed fields"
        );
        let several = |names: &[String]| {
            let options = InformerOptions::default().namespaces(Namespaces::many(names));
            key(&options).id().to_string()
        };
        assert_eq!(several(&["b".to_owned(), "a".to_owned()]), "pods/v1 in namespaces a, b");
        let ten: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        assert_eq!(
            several(&ten),
            "pods/v1 in namespaces n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
        );
    }
}
