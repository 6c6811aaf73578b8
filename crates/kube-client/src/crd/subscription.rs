//! How a program follows one kind: `KindSubscription`, a stream of constant size, and `KindGuard`, which keeps a call
//! registered.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream;
use kube::core::GroupVersionResource;

use crate::crd::state::State;
use crate::crd::topic::Told;

/// Whether a kind is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KindState {
    /// The server serves it: it can be listed and watched.
    Known,
    /// The server does not serve it.
    Unknown,
}

/// Follows one kind; made by [`CrdWatcher::subscribe`](crate::CrdWatcher::subscribe). Dropping it unsubscribes.
///
/// # Guarantees
///
/// - The first state comes as soon as it can be said; then `Known` and `Unknown` alternate. It ends when the client stops.
/// - It keeps the newest state alone, so a subscriber that lags gets the net change: what became known and went away again
///   unseen shows as nothing at all. But the end of a kind that was told as `Known` always shows, however late the
///   subscriber is: if it is back by then, or was replaced by another definition (of another uid or scope), as `Unknown`,
///   then `Known`. The objects of the old one may be gone.
pub struct KindSubscription {
    state: Arc<State>,
    kind: GroupVersionResource,
    told: Told,
    ticket: Option<u64>,
}

impl KindSubscription {
    /// `state` has counted it.
    pub(super) fn new(state: &Arc<State>, kind: &GroupVersionResource) -> Self {
        Self {
            state: Arc::clone(state),
            kind: kind.clone(),
            told: Told::default(),
            ticket: None,
        }
    }

    /// Waits for the next state; `None` once the client has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<KindState> {
        poll_fn(|cx| self.poll_state(cx)).await
    }

    /// On `Pending` the watcher's state keeps the waker under our ticket.
    fn poll_state(&mut self, cx: &Context<'_>) -> Poll<Option<KindState>> {
        self.state
            .poll_subscription(&self.kind, &mut self.told, &mut self.ticket, cx)
    }

    /// The states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = KindState> + Send + 'static {
        stream::unfold(self, |mut subscription| async move {
            let state = subscription.next().await?;
            Some((state, subscription))
        })
    }
}

impl Drop for KindSubscription {
    fn drop(&mut self) {
        self.state.unsubscribe(&self.kind, self.ticket);
    }
}

impl fmt::Debug for KindSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindSubscription")
            .field("kind", &self.kind)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

/// Keeps what [`CrdWatcher::on_change`](crate::CrdWatcher::on_change) was given registered. When it is dropped, no call
/// begins any more; one that is running goes on. It may be dropped anywhere, also inside the call.
#[must_use = "dropping the guard ends the calls"]
pub struct KindGuard {
    state: Arc<State>,
    kind: GroupVersionResource,
    id: u64,
}

impl KindGuard {
    pub(super) fn new(state: &Arc<State>, kind: &GroupVersionResource, id: u64) -> Self {
        Self {
            state: Arc::clone(state),
            kind: kind.clone(),
            id,
        }
    }
}

impl Drop for KindGuard {
    fn drop(&mut self) {
        self.state.remove_handler(&self.kind, self.id);
    }
}

impl fmt::Debug for KindGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindGuard")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
