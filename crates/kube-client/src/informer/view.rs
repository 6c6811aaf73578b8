//! `View`: an informer seen through filters.
//!
//! Owns the public face and which filters apply to which kind. The rules, and how they hold while filters and objects
//! change, are in `shared::views`; `criteria` asks the filters.

pub(crate) mod criteria;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kube::core::{ApiResource, Selector};
use tokio::sync::watch;

use crate::error::{RegisterError, Stopped};
use crate::filter::ObjectFilter;
use crate::informer::Informer;
use crate::informer::deferred::discard_each;
use crate::informer::handler::{EventHandler, HandlerOptions};
use crate::informer::index::{Index, IndexDef};
use crate::informer::presence::{Activation, Delayed};
use crate::informer::registration::Registration;
use crate::informer::shared::views::Claim;
use crate::informer::stream::EventStream;
use crate::informer::view::criteria::{Criteria, Criterion, is_namespace_kind};
use crate::key::ObjectKey;
use crate::object::{Object, Scope};

/// Through which filters an informer is seen; see [`View`].
#[derive(Clone, Default)]
pub struct ViewOptions {
    filters: Vec<Arc<dyn ObjectFilter>>,
    ignore_client_filter: bool,
    delayed: bool,
}

impl ViewOptions {
    /// Shows only what this filter allows, whatever the kind. Several filters all have to allow an object.
    #[must_use]
    pub fn filter(mut self, filter: Arc<dyn ObjectFilter>) -> Self {
        self.filters.push(filter);
        self
    }

    /// Does not apply the [filter of the client](crate::ClientBuilder::object_filter).
    #[must_use]
    pub fn ignoring_client_filter(mut self) -> Self {
        self.ignore_client_filter = true;
        self
    }

    /// The kind may not be installed, now or at any time: see [`View`].
    #[must_use]
    pub fn delayed(mut self) -> Self {
        self.delayed = true;
        self
    }

    pub(crate) fn is_delayed(&self) -> bool {
        self.delayed
    }

    /// The filters that were given to [`filter`](Self::filter).
    pub(crate) fn filters(&self) -> &[Arc<dyn ObjectFilter>] {
        &self.filters
    }

    /// What a view of this kind asks, with the filter of the client.
    pub(crate) fn criteria(
        mut self,
        resource: &ApiResource,
        scope: Scope,
        of_client: Option<&Arc<dyn ObjectFilter>>,
    ) -> Criteria {
        // The client's filter is about namespaces: kinds without any pass, but for the namespaces themselves.
        let concerned = scope != Scope::Cluster || is_namespace_kind(&resource.group, &resource.kind);
        let of_client = of_client.filter(|_| concerned && !self.ignore_client_filter);
        let shared = of_client.map(|filter| Criterion {
            filter: Arc::clone(filter),
            spares_cluster_scope: true,
        });
        let own = std::mem::take(&mut self.filters).into_iter().map(|filter| Criterion {
            filter,
            spares_cluster_scope: false,
        });
        Criteria::new(resource, shared.into_iter().chain(own).collect())
    }
}

/// Filters are the user's: a second panic of their drops while the first one unwinds would abort the process.
impl Drop for ViewOptions {
    fn drop(&mut self) {
        discard_each(std::mem::take(&mut self.filters));
    }
}

impl fmt::Debug for ViewOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewOptions")
            .field("filters", &self.filters.len())
            .field("ignore_client_filter", &self.ignore_client_filter)
            .field("delayed", &self.delayed)
            .finish()
    }
}

/// An informer seen through filters that may change their mind: reads, indexes and handlers of a view show the visible
/// objects and no other. Made by [`Informers::view`](crate::Informers::view); cheap to clone, and clones are the same
/// view.
///
/// The informer itself is shared and unfiltered: views cost no watch and no copy of an object, one bit per object and the
/// question to the filters per change. A view without any filter is the informer, and costs nothing.
///
/// # What a handler of a view sees
///
/// | what happens | before | now | the handler sees |
/// | --- | --- | --- | --- |
/// | the object changes | hidden | visible | `Added { initial: false }` |
/// | the object changes | visible | hidden | `Deleted { stale: false }` with the last visible version |
/// | the object changes | visible | visible | `Updated` |
/// | a filter changes | hidden | visible | `Added { initial: false }`, once |
/// | a filter changes | visible | hidden | `Deleted { stale: false }`, once |
/// | the object goes | visible | | `Deleted`, as of the informer |
/// | anything | hidden | hidden | nothing |
///
/// Everything else is as [`EventHandler`] says for informers.
///
/// # Kinds that may not be installed
///
/// A [delayed](ViewOptions::delayed) view is of a kind that its custom resource definition may bring, take away and bring
/// again, at any time. It has the same methods and keeps its handlers and indexes through all of it.
///
/// | the kind | reads | handlers | the informer |
/// | --- | --- | --- | --- |
/// | nothing is known of it yet | empty | nothing, not synced | does nothing |
/// | is absent | empty | nothing, synced | does nothing |
/// | was present from the start | as of any informer | as of any informer | lists and watches |
/// | appears later | what was listed | `Added { initial: true }` for what the first list brings, then changes | lists and watches |
/// | goes | empty | `Deleted { stale: true }` for each object that is left | lists and watches no more |
///
/// Whether a kind is present is what the [CRD watcher](crate::CrdWatcher) says, of this version of it. All delayed views of
/// one kind, and those that are not delayed, share one informer and one watch; while a delayed one exists, the informer
/// waits for its kind, and one that is not delayed does not sync before it was listed.
///
/// # Guarantees
///
/// - Visibility changes in the same step as the cache. What `get`, `list` and the indexes show, and what handlers are told,
///   agree; handlers are told in that order.
/// - Before its filters have synced, and all that is cached has been judged, a view shows nothing, tells its handlers
///   nothing, and does not count as synced: no handler syncs with half a world.
/// - A step of a filter is seen when the filter has told of it: by then, what concerns it has been judged anew, by the
///   thread that tells of it, or is being judged by another thread that was told of an earlier step.
/// - Filters are asked without a lock held: they may read informers and views.
/// - A filter that panics changes nothing: the object stays as it is, hidden if it is new.
/// - The view lives as long as a handle or a handler of it does.
pub struct View<K: Object> {
    informer: Informer<K>,
    // `None` without any filter and delay: then the view is the informer.
    claim: Option<Arc<Claim<K>>>,
    delayed: Option<Arc<Delayed>>,
}

impl<K: Object> View<K> {
    pub(crate) fn new(informer: Informer<K>, criteria: Criteria, delayed: bool) -> Self {
        let shared = &informer.cell.shared;
        let claim = if delayed {
            Some(shared.delayed_view(criteria))
        } else {
            (!criteria.shows_all()).then(|| shared.view(criteria))
        };
        let delayed = claim.as_ref().filter(|_| delayed).map(|claim| {
            let presence = &informer.cell.presence;
            presence.join(claim.id(), || shared.is_listed())
        });
        Self {
            informer,
            claim,
            delayed,
        }
    }

    /// How far a [delayed](ViewOptions::delayed) view is; `None` if it is not delayed.
    pub fn activation(&self) -> Option<watch::Receiver<Activation>> {
        self.delayed.as_ref().map(|delayed| delayed.activation())
    }

    /// Whether the kind of a [delayed](ViewOptions::delayed) view is known not to be installed. False while that is not known,
    /// and of views that are not delayed.
    pub fn is_absent(&self) -> bool {
        self.delayed.is_some() && self.informer.cell.presence.is_absent()
    }

    /// The informer, which shows everything.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// The object of this key, if it is visible.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        match &self.claim {
            None => self.informer.get(key),
            Some(claim) => claim.shared().get_in(claim.id(), key.as_ref()),
        }
    }

    /// The visible objects of one namespace or all that the selector matches, in no particular order: one consistent state.
    pub fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        let Some(claim) = &self.claim else {
            return self.informer.list(namespace, selector);
        };
        let mut objects = claim.shared().list_in(claim.id(), namespace);
        if !selector.selects_all() {
            objects.retain(|object| object.metadata().labels.matches(selector));
        }
        objects
    }

    /// How many objects are visible.
    pub fn len(&self) -> usize {
        match &self.claim {
            None => self.informer.len(),
            Some(claim) => claim.shared().len_in(claim.id()),
        }
    }

    /// Whether nothing is visible.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a secondary index to the informer, or finds the one there is, and gives a reader that shows visible objects
    /// alone. Complete when this returns, at any time.
    ///
    /// # Errors
    ///
    /// [`RegisterError::IndexConflict`] if the name is taken by another definition.
    pub fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError> {
        Ok(self.informer.add_index(def)?.seen_through(self.claim.as_ref()))
    }

    /// Registers a handler of the visible objects; in all else as [`Informer::add_handler`].
    pub fn add_handler(&self, handler: impl EventHandler<K>, options: HandlerOptions) -> Registration {
        let view = self.claim.as_ref().map(|claim| claim.id());
        self.informer.cell.add(Box::new(handler), options, view)
    }

    /// Removes a handler of this view, as [`Registration::remove`] does.
    ///
    /// # Errors
    ///
    /// [`RegisterError::ForeignRegistration`] if the registration was made on another informer; nothing is removed.
    pub fn remove_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        self.informer.remove_handler(registration)
    }

    /// The changes of the visible objects as a stream; in all else as [`Informer::events`].
    pub fn events(&self, options: HandlerOptions) -> EventStream<K> {
        self.informer
            .stream(options, self.claim.as_ref().map(|claim| claim.id()))
    }

    /// Whether the view shows its first whole state: the cache was filled, or the kind of a delayed view is known to be absent,
    /// the filters have synced, and everything was judged. Never goes back to false. Does not wait for handlers.
    pub fn has_synced(&self) -> bool {
        match &self.claim {
            None => self.informer.has_synced(),
            Some(claim) => claim.shared().is_ready(claim.id()),
        }
    }

    /// Waits for [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was stopped before; a retry cannot help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<K> {
        let filled = self.informer.synced();
        let ready = self.claim.clone().map(|claim| Ready { claim, ticket: None });
        async move {
            match ready {
                None => filled.await,
                Some(ready) => ready.await,
            }
        }
    }
}

impl<K: Object> Clone for View<K> {
    fn clone(&self) -> Self {
        Self {
            informer: self.informer.clone(),
            claim: self.claim.clone(),
            delayed: self.delayed.clone(),
        }
    }
}

impl<K: Object> fmt::Debug for View<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("informer", &self.informer)
            .field("filtered", &self.claim.is_some())
            .field("activation", &self.activation().map(|activation| *activation.borrow()))
            .field("has_synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}

struct Ready<K: Object> {
    claim: Arc<Claim<K>>,
    ticket: Option<u64>,
}

impl<K: Object> Future for Ready<K> {
    type Output = Result<(), Stopped>;

    /// On `Pending` the shared state keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.claim.shared().poll_ready(this.claim.id(), &mut this.ticket, cx)
    }
}

impl<K: Object> Drop for Ready<K> {
    fn drop(&mut self) {
        self.claim.shared().forget(self.ticket);
    }
}
