//! `Filter`: which objects a client sees, and how.

use std::fmt;
use std::sync::Arc;

use kube::core::Selector;
use kube_client::{InformerOptions, Namespaces, ObjectFilter, Scope, Transform, ViewOptions};

/// Which objects a client sees, and how.
///
/// Selectors and namespaces are the server's to apply: clients that name the same share one informer and one watch, every
/// other choice is a watch of its own. The object filter is applied here: clients with different ones still share.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kclient::Filter;
/// use kube_client::Transform;
///
/// let running = Filter::<Pod>::default()
///     .namespace("prod")
///     .fields("status.phase=Running")
///     .transform(Transform::new("no spec", |pod: &mut Pod| pod.spec = None));
/// ```
#[non_exhaustive]
pub struct Filter<K> {
    /// Only objects with these labels.
    pub label_selector: Selector,
    /// Only objects with these field values, such as `status.phase=Running`. Which fields there are depends on the kind; a
    /// selector that the server refuses shows in the informer's status and blocks the first sync.
    pub field_selector: String,
    /// Only these namespaces. Several cost a list and a watch each. Cluster-scoped kinds ignore it.
    pub namespaces: Namespaces,
    /// Whether the kind lives in namespaces, for dynamic and metadata clients, reads and writes: see [`InformerOptions::scope`].
    pub scope: Scope,
    /// Only objects that this allows; it may change its mind. It is asked about every kind that it is given to, scope or no
    /// scope.
    pub object_filter: Option<Arc<dyn ObjectFilter>>,
    /// Changes each object once before it is cached. Everybody who shares the informer has to ask for the same. What it
    /// leaves is a part of the object: `update` is refused with
    /// [`WriteError::PartialObject`](crate::WriteError::PartialObject).
    pub transform: Option<Transform<K>>,
    /// Whether the filter of the cluster's client, [`ClientBuilder::object_filter`](kube_client::ClientBuilder::object_filter),
    /// is left out.
    pub ignores_client_filter: bool,
    /// Whether `metadata.managedFields` are kept, about a third of a typical object: see [`InformerOptions::keep_managed_fields`].
    pub keeps_managed_fields: bool,
}

impl<K> Filter<K> {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Only objects with these field values.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl AsRef<str>) -> Self {
        self.namespaces(Namespaces::one(namespace.as_ref()))
    }

    /// Only these namespaces: one cache, one sync and one order of events over all of them.
    #[must_use]
    pub fn namespaces(mut self, namespaces: Namespaces) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// Whether the kind of a dynamic or metadata client lives in namespaces.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Only objects that this allows, besides the filter of the cluster's client.
    #[must_use]
    pub fn objects(mut self, filter: Arc<dyn ObjectFilter>) -> Self {
        self.object_filter = Some(filter);
        self
    }

    /// Changes each object once before it is cached.
    #[must_use]
    pub fn transform(mut self, transform: Transform<K>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sees what the filter of the cluster's client hides.
    #[must_use]
    pub fn ignoring_client_filter(mut self) -> Self {
        self.ignores_client_filter = true;
        self
    }

    /// Keeps `metadata.managedFields`: who wrote which field. A watch of its own, beside those without.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keeps_managed_fields = true;
        self
    }

    /// What the informer and the view of a client are asked for.
    pub(crate) fn into_options(self) -> (InformerOptions<K>, ViewOptions) {
        let mut informer = InformerOptions::default()
            .namespaces(self.namespaces)
            .scope(self.scope)
            .labels(self.label_selector)
            .fields(self.field_selector);
        if let Some(transform) = self.transform {
            informer = informer.transform(transform);
        }
        if self.keeps_managed_fields {
            informer = informer.keep_managed_fields();
        }
        let mut view = ViewOptions::default();
        if let Some(filter) = self.object_filter {
            view = view.filter(filter);
        }
        if self.ignores_client_filter {
            view = view.ignoring_client_filter();
        }
        (informer, view)
    }
}

impl<K> Default for Filter<K> {
    fn default() -> Self {
        Self {
            label_selector: Selector::default(),
            field_selector: String::new(),
            namespaces: Namespaces::All,
            scope: Scope::default(),
            object_filter: None,
            transform: None,
            ignores_client_filter: false,
            keeps_managed_fields: false,
        }
    }
}

impl<K> Clone for Filter<K> {
    fn clone(&self) -> Self {
        Self {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            namespaces: self.namespaces.clone(),
            scope: self.scope,
            object_filter: self.object_filter.clone(),
            transform: self.transform.clone(),
            ignores_client_filter: self.ignores_client_filter,
            keeps_managed_fields: self.keeps_managed_fields,
        }
    }
}

impl<K> fmt::Debug for Filter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("label_selector", &self.label_selector.to_string())
            .field("field_selector", &self.field_selector)
            .field("namespaces", &self.namespaces)
            .field("scope", &self.scope)
            .field("object_filter", &self.object_filter.is_some())
            .field("transform", &self.transform)
            .field("ignores_client_filter", &self.ignores_client_filter)
            .field("keeps_managed_fields", &self.keeps_managed_fields)
            .finish()
    }
}
