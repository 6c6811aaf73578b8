//! What a view asks of an object: its filters, all of which have to allow it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};

use crate::filter::ObjectFilter;
use crate::informer::deferred::discard_each;
use crate::object::Object;

/// Whether an object is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Hidden,
    Visible,
    /// A filter panicked: it stays as it is, and hidden if it is new.
    Unsure,
}

/// The filters of one view, asked for one kind.
pub(crate) struct Criteria {
    kind: GroupVersionKind,
    filters: Vec<Criterion>,
}

/// One filter, and what it is asked about.
pub(crate) struct Criterion {
    pub(crate) filter: Arc<dyn ObjectFilter>,
    // Objects without a namespace pass unasked, but for `Namespace` objects: those are asked about by their name.
    pub(crate) spares_cluster_scope: bool,
}

/// Whether these are the core `Namespace` objects, which a filter by namespaces decides about by their names.
pub(crate) fn is_namespace_kind(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Namespace"
}

/// Filters are the user's: a second panic of their drops while the first one unwinds would abort the process.
impl Drop for Criteria {
    fn drop(&mut self) {
        discard_each(std::mem::take(&mut self.filters));
    }
}

impl Criteria {
    pub(crate) fn new(resource: &ApiResource, filters: Vec<Criterion>) -> Self {
        Self {
            kind: GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind),
            filters,
        }
    }

    /// Whether every object is visible, always.
    pub(crate) fn shows_all(&self) -> bool {
        self.filters.is_empty()
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = &Arc<dyn ObjectFilter>> {
        self.filters.iter().map(|criterion| &criterion.filter)
    }

    /// Whether the objects are themselves what filters by namespaces select.
    pub(crate) fn is_of_namespaces(&self) -> bool {
        is_namespace_kind(&self.kind.group, &self.kind.kind)
    }

    /// Whether both ask the same filters the same questions.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let same = |one: &Criterion, other: &Criterion| {
            std::ptr::addr_eq(Arc::as_ptr(&one.filter), Arc::as_ptr(&other.filter))
                && one.spares_cluster_scope == other.spares_cluster_scope
        };
        self.kind == other.kind
            && self.filters.len() == other.filters.len()
            && self
                .filters
                .iter()
                .zip(&other.filters)
                .all(|(one, other)| same(one, other))
    }

    /// Whether every filter's answers are final. User code: call it without a lock held.
    pub(crate) fn has_synced(&self) -> bool {
        let all = || self.filters().all(|filter| filter.has_synced());
        catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|_| {
            tracing::error!("an object filter panicked as it was asked whether it has synced");
            false
        })
    }

    /// Asks the filters about an object. User code: call it without a lock held.
    pub(crate) fn judge<K: Object>(&self, object: &K) -> Verdict {
        let all = || {
            let metadata = object.metadata();
            let spared = metadata.namespace.is_none_or(str::is_empty) && !self.is_of_namespaces();
            let allows = |criterion: &Criterion| {
                (spared && criterion.spares_cluster_scope) || criterion.filter.allows(&self.kind, &metadata)
            };
            self.filters.iter().all(allows)
        };
        match catch_unwind(AssertUnwindSafe(all)) {
            Ok(true) => Verdict::Visible,
            Ok(false) => Verdict::Hidden,
            Err(_) => {
                tracing::error!(kind = %self.kind.kind, "an object filter panicked: the object's visibility does not change");
                Verdict::Unsure
            }
        }
    }
}
