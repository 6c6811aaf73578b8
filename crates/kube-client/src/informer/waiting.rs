//! The futures of an informer: who waits for its first list, or for it to have seen a write.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::Stopped;
use crate::informer::shared::{Shared, Wait};
use crate::object::Object;

/// Waits until the cache has seen a write.
pub(super) struct Reached<K: Object> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) wait: Wait,
}

impl<K: Object> Future for Reached<K> {
    type Output = Result<(), Stopped>;

    /// On `Pending` the shared state keeps the waker with our goal.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.shared.poll_reached(&mut this.wait, cx)
    }
}

impl<K: Object> Drop for Reached<K> {
    fn drop(&mut self) {
        self.shared.forget_wait(&mut self.wait);
    }
}

/// Waits until the cache is filled.
pub(super) struct Filled<K: Object> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) ticket: Option<u64>,
}

impl<K: Object> Future for Filled<K> {
    type Output = Result<(), Stopped>;

    /// On `Pending` the shared state keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.shared.poll_filled(&mut this.ticket, cx)
    }
}

impl<K: Object> Drop for Filled<K> {
    fn drop(&mut self) {
        self.shared.forget(self.ticket);
    }
}
