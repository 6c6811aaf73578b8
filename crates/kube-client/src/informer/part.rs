//! One reflector's end of an informer: the only way into its cache.
//!
//! # Design
//!
//! The server lists and watches either one namespace or all, so an informer over several has a reflector for each. What
//! belongs to one of them is here: the namespace, the status, and the right to change that namespace's objects. What is
//! the informer's is in [`Shared`]: the cache with its indexes, the handlers, and whether every part is filled. An
//! informer over one namespace or all has a single part.
//!
//! A relist replaces the part's objects alone, so no part may touch another's: the decoder turns away objects of other
//! namespaces ([`only_in`](Part::only_in)), and [`apply`](Part::apply) their deletes.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::informer::options::Namespaces;
use crate::informer::relist::Relist;
use crate::informer::returns::Returns;
use crate::informer::shared::{Received, Shared};
use crate::informer::status::{NamespaceStats, StatusCell, Unfilled};
use crate::informer::store::Store;
use crate::object::Object;

/// What one reflector keeps current.
pub(crate) struct Part<K: Object> {
    shared: Arc<Shared<K>>,
    // The section of `shared` that is this part's.
    at: usize,
    namespace: Option<Arc<str>>,
    // It is one of several.
    shares: bool,
    status: Arc<StatusCell>,
}

impl<K: Object> Part<K> {
    /// The parts of an informer over these namespaces.
    pub(crate) fn all(namespaces: &Namespaces, shared: &Arc<Shared<K>>, changed: &Arc<Notify>) -> Box<[Self]> {
        let parts = namespaces.parts();
        let shares = parts.len() > 1;
        let numbered = parts.into_iter().enumerate();
        numbered
            .map(|(at, namespace)| Self {
                shared: Arc::clone(shared),
                at,
                namespace,
                shares,
                status: Arc::new(StatusCell::new(Arc::clone(changed))),
            })
            .collect()
    }

    /// The namespace to list and watch; `None` for all.
    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// The namespace that every object must be of; `None` if the whole cache is this part's own.
    pub(crate) fn only_in(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref().filter(|_| self.shares)
    }

    pub(crate) fn status(&self) -> &Arc<StatusCell> {
        &self.status
    }

    /// Applies what the watch brought, up to `version`, and tells the handlers.
    pub(crate) fn apply(&self, received: &mut Vec<Received<K>>, version: Option<String>) {
        if let Some(own) = self.only_in() {
            received.retain(|change| match change {
                Received::Upsert(_) => true, // the decoder has seen to it
                Received::Delete { key, .. } => {
                    let foreign = key.namespace() != Some(own);
                    if foreign {
                        tracing::warn!(%key, "ignoring a delete in another namespace than {own}");
                    }
                    !foreign
                }
            });
        }
        self.shared.apply(self.at, received, version);
    }

    /// Where handlers give back the events of changes.
    pub(crate) fn returns(&self) -> &Arc<Returns<K>> {
        self.shared.returns()
    }

    /// Only the resource version moved (a bookmark).
    pub(crate) fn set_version(&self, version: String) {
        self.shared.set_version(self.at, version);
    }

    /// A list of the newest state is about to be asked for; gives its number.
    pub(crate) fn begin_list(&self) -> u64 {
        self.shared.begin_list(self.at)
    }

    /// Puts a whole list in the place of this part's old state, in one step, and tells the handlers the difference.
    pub(crate) fn replace(&self, relist: &Relist<K>, version: String) {
        self.shared.replace(self.at, relist, version);
    }

    /// Reads the store while a list is collected; `f` must not call user code.
    pub(crate) fn with_store<R>(&self, f: impl FnOnce(&Store<K>) -> R) -> R {
        self.shared.with_store(f)
    }

    /// Whether this part's first list is in the cache.
    pub(crate) fn is_filled(&self) -> bool {
        self.shared.is_section_filled(self.at)
    }

    /// How many objects of this part are cached.
    pub(crate) fn len(&self) -> usize {
        let own = self.only_in().map(AsRef::as_ref);
        self.shared.with_store(|store| store.len_in(own))
    }

    /// About how many bytes this part's objects are as the server's JSON.
    pub(crate) fn json_bytes(&self) -> u64 {
        let objects = self.len();
        self.status.update(|status| status.size.of(objects))
    }

    /// Shows in the metrics what the queue of each handler holds now.
    pub(crate) fn report(&self) {
        self.shared.report();
    }

    /// Ends the whole informer.
    pub(crate) fn stop(&self) {
        self.shared.stop();
    }

    /// What the first sync waits for here.
    pub(crate) fn unfilled(&self) -> Option<Unfilled> {
        (!self.is_filled()).then(|| Unfilled {
            namespace: self.only_in().cloned(),
            error: self.status.update(|status| status.error.clone()),
        })
    }

    /// What is yet to be listed here since the kind is there.
    pub(crate) fn unlisted(&self) -> Option<Unfilled> {
        (!self.shared.is_section_listed(self.at)).then(|| Unfilled {
            namespace: self.only_in().cloned(),
            error: self.status.update(|status| status.error.clone()),
        })
    }

    /// Statistics of this part, if it is one of several.
    pub(crate) fn stats(&self) -> Option<NamespaceStats> {
        let namespace = Arc::clone(self.only_in()?);
        let has_synced = self.is_filled();
        let last_version = self.shared.section_version(self.at);
        Some(self.status.update(|status| NamespaceStats {
            namespace,
            phase: status.phase,
            has_synced,
            last_version,
            error: status.error.clone(),
            last_error: status.last_error.clone(),
        }))
    }
}

impl<K: Object> Clone for Part<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            at: self.at,
            namespace: self.namespace.clone(),
            shares: self.shares,
            status: Arc::clone(&self.status),
        }
    }
}
