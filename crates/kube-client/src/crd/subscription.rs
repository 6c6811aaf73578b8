//! `KindSubscription`: a kind coming and going, as a stream of constant size.

use futures_core::Stream;
use futures_util::stream;
use tokio::sync::watch;

use crate::crd::state::Verdict;

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
/// - It keeps the newest state alone, so a subscriber that lags gets the net change: a kind that went away and came back by
///   the same definition shows as nothing at all. But a definition that was replaced by another one (its uid differs)
///   always shows as `Unknown`, then `Known`, however late the subscriber is: the objects of the old one are gone.
#[derive(Debug)]
pub struct KindSubscription {
    receiver: watch::Receiver<Option<Verdict>>,
    delivered: Option<Verdict>,
}

impl KindSubscription {
    pub(super) fn new(receiver: watch::Receiver<Option<Verdict>>) -> Self {
        Self {
            receiver,
            delivered: None,
        }
    }

    /// Waits for the next state; `None` once the client has stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<KindState> {
        loop {
            let current = self.receiver.borrow_and_update().clone();
            if let Some(state) = self.step(current) {
                return Some(state);
            }
            self.receiver.changed().await.ok()?;
        }
    }

    /// What to tell next, if the newest state is `current`.
    fn step(&mut self, current: Option<Verdict>) -> Option<KindState> {
        let current = current?;
        if self.delivered.as_ref() == Some(&current) {
            return None;
        }
        let next = match (&self.delivered, current) {
            // Another definition than the one that was told of.
            (Some(Verdict::Known(Some(_))), Verdict::Known(Some(_))) | (_, Verdict::Unknown) => Verdict::Unknown,
            (Some(Verdict::Known(_)), known @ Verdict::Known(_)) => {
                // The same kind, once known by its definition and once by discovery: no change that anybody could see.
                self.delivered = Some(known);
                return None;
            }
            (_, known) => known,
        };
        let state = match next {
            Verdict::Known(_) => KindState::Known,
            Verdict::Unknown => KindState::Unknown,
        };
        self.delivered = Some(next);
        Some(state)
    }

    /// The states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = KindState> + Send + 'static {
        stream::unfold(self, |mut subscription| async move {
            let state = subscription.next().await?;
            Some((state, subscription))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn known(uid: &str) -> Verdict {
        Verdict::Known(Some(uid.into()))
    }

    // [I32] a subscriber that lags gets the net change, and never misses another definition
    #[tokio::test]
    async fn subscription_shows_net_changes_and_every_other_definition() {
        use KindState::{Known, Unknown};
        let state = watch::Sender::new(None);
        let mut subscription = KindSubscription::new(state.subscribe());
        let mut all = |set: &[Verdict]| {
            for verdict in set {
                state.send_replace(Some(verdict.clone()));
            }
            let mut told = Vec::new();
            while let Some(next) = subscription.next().now_or_never() {
                told.push(next.expect("the stream goes on"));
            }
            told
        };
        let unknown = || Verdict::Unknown;
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[unknown()]), [Unknown]);
        assert_eq!(all(&[known("1"), unknown()]), []);
        assert_eq!(all(&[known("1")]), [Known]);
        assert_eq!(all(&[unknown(), known("1")]), []);
        assert_eq!(all(&[unknown(), known("2")]), [Unknown, Known]);
        assert_eq!(all(&[known("3")]), [Unknown, Known]);
        assert_eq!(all(&[Verdict::Known(None)]), []);
        assert_eq!(all(&[unknown()]), [Unknown]);
        drop(state);
        assert_eq!(subscription.next().await, None);
    }
}
