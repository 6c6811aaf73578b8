//! `ReadClient`: the cached half of a client.
//!
//! Owns: which handlers belong to a client, and when it has synced. What is visible is the [`View`]'s business.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::core::Selector;
use kube_client::{
    Activation, EventHandler, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, Stopped,
    View,
};
use tokio::sync::watch;

use crate::filter::Filter;
use crate::traits::{Informer, Reader};

/// A client that cannot write: cached reads, indexes, event handlers. Cheap to clone; clones are the same client.
///
/// For code that is not to write, and for types that cannot be written because they keep only a part of each object.
///
/// # Guarantees
///
/// Those of [`Client`](crate::Client), as far as it reads.
pub struct ReadClient<K: Object> {
    inner: Arc<Inner<K>>,
}

struct Inner<K: Object> {
    view: View<K>,
    /// The handlers registered through this client that were not removed.
    handlers: Mutex<Vec<Registration>>,
    /// Whether `has_synced` was true once.
    synced: AtomicBool,
}

impl<K: Object> ReadClient<K> {
    /// As [`Client::new`](crate::Client::new).
    ///
    /// # Errors
    ///
    /// As [`Client::new`](crate::Client::new).
    #[track_caller]
    pub fn new(client: &kube_client::Client) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::filtered(client, Filter::default())
    }

    /// As [`Client::filtered`](crate::Client::filtered).
    ///
    /// # Errors
    ///
    /// As [`Client::new`](crate::Client::new).
    #[track_caller]
    pub fn filtered(client: &kube_client::Client, filter: Filter<K>) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::of(client, &K::DynamicType::default(), filter)
    }

    /// As [`Client::of`](crate::Client::of).
    ///
    /// # Errors
    ///
    /// As [`Client::new`](crate::Client::new).
    #[track_caller]
    pub fn of(
        client: &kube_client::Client,
        dynamic_type: &K::DynamicType,
        filter: Filter<K>,
    ) -> Result<Self, RegisterError> {
        let (informer, view) = filter.into_options();
        Ok(Self::over(client.informers().view(dynamic_type, informer, view)?))
    }

    /// As [`Client::delayed`](crate::Client::delayed).
    ///
    /// # Errors
    ///
    /// As [`Client::new`](crate::Client::new).
    #[track_caller]
    pub fn delayed(client: &kube_client::Client, filter: Filter<K>) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::delayed_of(client, &K::DynamicType::default(), filter)
    }

    /// As [`Client::delayed_of`](crate::Client::delayed_of).
    ///
    /// # Errors
    ///
    /// As [`Client::new`](crate::Client::new).
    #[track_caller]
    pub fn delayed_of(
        client: &kube_client::Client,
        dynamic_type: &K::DynamicType,
        filter: Filter<K>,
    ) -> Result<Self, RegisterError> {
        let (informer, view) = filter.into_options();
        Ok(Self::over(client.informers().view(
            dynamic_type,
            informer,
            view.delayed(),
        )?))
    }

    /// How far a delayed client is, as a channel that holds the newest state. A client that is not delayed is
    /// [`Active`](Activation::Active) from the start.
    pub fn activation(&self) -> watch::Receiver<Activation> {
        let delayed = self.inner.view.activation();
        delayed.unwrap_or_else(|| watch::channel(Activation::Active).1)
    }

    fn over(view: View<K>) -> Self {
        Self {
            inner: Arc::new(Inner {
                view,
                handlers: Mutex::default(),
                synced: AtomicBool::new(false),
            }),
        }
    }

    /// The informer as this client's filters show it.
    pub fn view(&self) -> &View<K> {
        &self.inner.view
    }

    /// The shared informer behind the reads: it shows everything.
    pub fn informer(&self) -> &kube_client::Informer<K> {
        self.inner.view.informer()
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Object> Reader<K> for ReadClient<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.inner.view.get(key)
    }

    fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.inner.view.list(namespace, selector)
    }
}

impl<K: Object> Informer<K> for ReadClient<K> {
    fn list_unfiltered(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.informer().list(namespace, selector)
    }

    fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration {
        let registration = self.inner.view.add_handler(handler, options);
        let mut handlers = self.handlers();
        // Whoever registers and removes again and again must not fill the memory.
        handlers.retain(|known| !known.is_stopped());
        handlers.push(registration.clone());
        registration
    }

    fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError> {
        self.inner.view.add_index(def)
    }

    fn has_synced(&self) -> bool {
        if self.inner.synced.load(Ordering::Acquire) {
            return true;
        }
        // A removed handler has nothing left to handle.
        let handled = |handler: &Registration| handler.has_synced() || handler.is_stopped();
        let synced = self.inner.view.has_synced() && self.handlers().iter().all(handled);
        if synced {
            self.inner.synced.store(true, Ordering::Release);
        }
        synced
    }

    fn has_synced_ignoring_handlers(&self) -> bool {
        self.inner.view.has_synced()
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>> {
        let client = self.clone();
        let handlers = self.handlers().clone();
        async move {
            client.inner.view.synced().await?;
            for handler in handlers {
                // An error is a handler that was removed, unless all of the informer was stopped.
                if handler.synced().await.is_err() && client.informer().is_stopped() {
                    return Err(Stopped);
                }
            }
            // Handlers that were registered since count for `has_synced`, though not for this wait.
            client.has_synced();
            Ok(())
        }
        .boxed()
    }

    fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        // Others who share the informer keep theirs. One that was removed before may be known no longer.
        if !registration.is_stopped() && !self.handlers().contains(registration) {
            return Err(RegisterError::ForeignRegistration {
                informer: Box::new(self.informer().id().clone()),
            });
        }
        self.inner.view.remove_handler(registration)?;
        self.handlers().retain(|known| !known.is_stopped());
        Ok(())
    }

    fn shutdown_handlers(&self) {
        let handlers = std::mem::take(&mut *self.handlers());
        for handler in handlers {
            handler.remove();
        }
    }

    fn start(&self) {
        self.informer().start();
    }
}

impl<K: Object> Clone for ReadClient<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Object> fmt::Debug for ReadClient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadClient")
            .field("view", &self.inner.view)
            .finish_non_exhaustive()
    }
}
