//! Tells those who wait that something has changed, in the order in which they began to wait.
//!
//! `tokio::sync::watch` wakes its receivers in a random order, so that of two clients that wait for one write now this goes
//! on first and now that one. On one thread, the same requests are to lead to the same run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Inner {
    notify: Notify,
    /// How often something has changed.
    changes: AtomicU64,
}

/// The end that tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<Inner>);

impl Signal {
    /// Wakes all who wait.
    pub(crate) fn send(&self) {
        // Counted first: who looks at the count after this does not wait, and who has looked before is woken.
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Somebody who is told of changes from now on.
    pub(crate) fn subscribe(&self) -> Listener {
        Listener {
            seen: self.0.changes.load(Ordering::SeqCst),
            signal: self.clone(),
        }
    }
}

/// The end that waits.
#[derive(Debug)]
pub(crate) struct Listener {
    signal: Signal,
    /// How many changes it knows.
    seen: u64,
}

impl Listener {
    /// Takes all changes up to now for seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.signal.0.changes.load(Ordering::SeqCst);
    }

    /// Waits for a change that has not been seen.
    ///
    /// # Cancel safety
    /// A change is seen only when this returns.
    pub(crate) async fn changed(&mut self) {
        loop {
            // Made before looking: from here on, a change wakes it.
            let notified = self.signal.0.notify.notified();
            let changes = self.signal.0.changes.load(Ordering::SeqCst);
            if changes != self.seen {
                self.seen = changes;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn who_waited_first_goes_on_first() {
        // [F22] the same run on one thread: 16 times, as a random order would come out right now and then
        for _ in 0..16 {
            let (signal, order) = (Signal::default(), Arc::new(Mutex::new(Vec::new())));
            let tasks: Vec<_> = (0..16)
                .map(|number| {
                    let (mut listener, order) = (signal.subscribe(), Arc::clone(&order));
                    tokio::spawn(async move {
                        listener.changed().await;
                        order.lock().unwrap().push(number);
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            signal.send();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*order.lock().unwrap(), (0..16).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_not_missed() {
        let signal = Signal::default();
        let mut listener = signal.subscribe();
        signal.send();
        signal.send();
        listener.changed().await;
        assert!(
            tokio::time::timeout(std::time::Duration::ZERO, listener.changed())
                .await
                .is_err()
        );
        signal.send();
        listener.mark_unchanged();
        assert!(
            tokio::time::timeout(std::time::Duration::ZERO, listener.changed())
                .await
                .is_err()
        );
    }
}
