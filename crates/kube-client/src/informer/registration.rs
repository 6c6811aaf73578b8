//! `Registration`: the owner's end of a handler. Whether it has caught up, and how to take it away.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::error::Stopped;
use crate::informer::deferred::discard;
use crate::sync::{Mutex, Waiters, wake_all};

/// The half of a handler that its owner holds.
///
/// Dropping it detaches: the handler stays until the informer stops. [`guard`](Self::guard) gives a form that removes
/// the handler when dropped. Clones stand for the same handler.
///
/// # Guarantees
///
/// - [`has_synced`](Self::has_synced) turns true once, when the cache is filled and this handler has finished every
///   event of its initial state, panicked ones included; it never turns back.
/// - No call of the handler begins after [`remove`](Self::remove) returned; one that is running goes on, and
///   [`removed`](Self::removed) tells when it is over.
#[derive(Clone)]
pub struct Registration {
    inner: Arc<dyn Registered>,
}

/// What a registration needs of its queue and informer, whatever their type.
pub(crate) trait Registered: Send + Sync {
    fn has_synced(&self) -> bool;
    fn is_stopped(&self) -> bool;
    fn poll_synced(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>>;
    fn poll_removed(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()>;
    fn forget(&self, ticket: Option<u64>);
    fn remove(&self);
    /// The address of the informer's state, to tell foreign registrations.
    fn owner(&self) -> usize;
}

impl Registration {
    pub(crate) fn new(inner: Arc<dyn Registered>) -> Self {
        Self { inner }
    }

    /// A registration of no informer, for mocks of what registers handlers: it has synced, and [`remove`](Self::remove)
    /// stops it. To every informer it is foreign.
    ///
    /// ```
    /// use kube_client::Registration;
    ///
    /// let registration = Registration::detached();
    /// assert!(registration.has_synced() && !registration.is_stopped());
    /// registration.remove();
    /// assert!(registration.is_stopped());
    /// ```
    pub fn detached() -> Self {
        Self::new(Arc::new(Detached {
            waiting: Mutex::new(Some(Waiters::default())),
        }))
    }

    pub(crate) fn owner(&self) -> usize {
        self.inner.owner()
    }

    /// Whether the cache is filled and this handler has handled its whole initial state.
    pub fn has_synced(&self) -> bool {
        self.inner.has_synced()
    }

    /// Whether the informer was stopped, or the handler removed: no call will start any more.
    pub fn is_stopped(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Waits for [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the informer was stopped or the handler removed before; a retry cannot help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<> {
        Synced {
            inner: Arc::clone(&self.inner),
            ticket: None,
        }
    }

    /// Calls `f` once, when [`has_synced`](Self::has_synced) turns true, or at once if it has. Without a task: it is called by
    /// whoever completes the initial state, with no lock held, and must not block. A panic in it is contained and logged. If
    /// the informer stops or the handler is removed first, it is dropped without being called.
    pub fn on_synced(&self, f: impl FnOnce() + Send + 'static) {
        let call = Arc::new(OnSynced {
            inner: Arc::clone(&self.inner),
            call: Mutex::new(Some(Box::new(f))),
        });
        call.look();
    }

    /// Takes the handler away: no call of it begins after this returns. Idempotent, and allowed anywhere, also inside
    /// the handler itself.
    pub fn remove(&self) {
        self.inner.remove();
    }

    /// Waits until the handler was removed, or its informer stopped, and its last call is over. Do not await this
    /// inside the handler: it would wait for itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub fn removed(&self) -> impl Future<Output = ()> + Send + use<> {
        Removed {
            inner: Arc::clone(&self.inner),
            ticket: None,
        }
    }

    /// A form that removes the handler when it is dropped.
    #[must_use = "dropping the guard removes the handler"]
    pub fn guard(self) -> RegistrationGuard {
        RegistrationGuard { registration: self }
    }
}

/// What stands behind a registration of no informer.
struct Detached {
    // Who waits for the removal; `None` once it was removed.
    waiting: Mutex<Option<Waiters>>,
}

impl Registered for Detached {
    fn has_synced(&self) -> bool {
        true
    }

    fn is_stopped(&self) -> bool {
        self.waiting.lock().is_none()
    }

    fn poll_synced(&self, _: &mut Option<u64>, _: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        Poll::Ready(Ok(()))
    }

    /// On `Pending`, `waiting` keeps the waker, and `remove` wakes it.
    fn poll_removed(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut waiting = self.waiting.lock();
        let Some(waiters) = &mut *waiting else {
            return Poll::Ready(());
        };
        let replaced = waiters.register(ticket, waker);
        drop(waiting);
        drop(replaced);
        Poll::Pending
    }

    fn forget(&self, ticket: Option<u64>) {
        let forgotten = self.waiting.lock().as_mut().and_then(|waiters| waiters.forget(ticket));
        drop(forgotten);
    }

    fn remove(&self) {
        let waiting = self.waiting.lock().take();
        wake_all(waiting.map(|mut waiters| waiters.take()).unwrap_or_default());
    }

    fn owner(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// A waker that calls a function once the handler has synced. The queue that it waits with holds it, and lets go of it when the
/// handler is removed or stopped.
struct OnSynced {
    inner: Arc<dyn Registered>,
    // `None` once it was called or dropped.
    call: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl OnSynced {
    fn look(self: Arc<Self>) {
        // Whoever wakes us has taken our waker out: the next wait is a new one.
        let waker = Waker::from(Arc::clone(&self));
        let Poll::Ready(synced) = self.inner.poll_synced(&mut None, &mut Context::from_waker(&waker)) else {
            return;
        };
        let call = self.call.lock().take();
        let Some(call) = call else { return };
        if synced.is_err() {
            discard(call);
        } else if catch_unwind(AssertUnwindSafe(call)).is_err() {
            tracing::error!("what was to be called when a handler has synced panicked");
        }
    }
}

impl Wake for OnSynced {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

/// Equal if they stand for the same handler.
impl PartialEq for Registration {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.inner), Arc::as_ptr(&other.inner))
    }
}

impl Eq for Registration {}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("has_synced", &self.has_synced())
            .field("is_stopped", &self.is_stopped())
            .finish()
    }
}

/// A [`Registration`] that removes its handler when dropped.
#[derive(Debug)]
pub struct RegistrationGuard {
    registration: Registration,
}

impl RegistrationGuard {
    /// The registration.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

struct Synced {
    inner: Arc<dyn Registered>,
    ticket: Option<u64>,
}

impl Future for Synced {
    type Output = Result<(), Stopped>;

    /// On `Pending` the queue keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.inner.poll_synced(&mut this.ticket, cx)
    }
}

impl Drop for Synced {
    fn drop(&mut self) {
        self.inner.forget(self.ticket);
    }
}

struct Removed {
    inner: Arc<dyn Registered>,
    ticket: Option<u64>,
}

impl Future for Removed {
    type Output = ();

    /// On `Pending` the queue keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.inner.poll_removed(&mut this.ticket, cx)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.inner.forget(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn detached_registration_tells_of_its_removal() {
        let registration = Registration::detached();
        assert_eq!(registration.synced().now_or_never(), Some(Ok(())));
        let mut dropped = Box::pin(registration.removed());
        assert_eq!((&mut dropped).now_or_never(), None);
        drop(dropped);
        let waiting = tokio::spawn(registration.removed());
        tokio::task::yield_now().await; // it waits now
        assert!(!registration.is_stopped() && !waiting.is_finished());
        registration.remove();
        waiting.await.unwrap();
        assert!(registration.is_stopped() && registration.has_synced());
        assert_eq!(registration.removed().now_or_never(), Some(()));
        assert_eq!(
            registration.synced().now_or_never(),
            Some(Ok(())),
            "it had synced before"
        );
        assert_ne!(registration.owner(), Registration::detached().owner());
        assert!(registration == registration.clone() && registration != Registration::detached());
    }
}
