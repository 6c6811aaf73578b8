//! Whether the server has anything to do, and waiting until it has not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::{FakeApiServer, Shared};
use crate::faults::PATIENCE;

/// What goes on in the server, as far as nobody else tells.
#[derive(Debug)]
pub(crate) struct Activity {
    requests: AtomicUsize,
    /// Who waits for rest: without anybody, watches tell nothing.
    waiting: AtomicUsize,
    changed: watch::Sender<()>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            requests: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            changed: watch::Sender::new(()),
        }
    }

    /// Counts a request until what is returned is dropped.
    pub(crate) fn request(&self) -> BusyGuard<'_> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.notice();
        BusyGuard(self)
    }

    /// Tells whoever waits for rest to look again.
    pub(crate) fn notice(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.send_replace(());
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct BusyGuard<'a>(&'a Activity);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
        self.0.notice();
    }
}

/// Somebody who waits for rest.
struct WaitGuard<'a>(&'a Activity);

impl<'a> WaitGuard<'a> {
    fn new(activity: &'a Activity) -> Self {
        activity.waiting.fetch_add(1, Ordering::SeqCst);
        Self(activity)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// What keeps the server from being at rest; none if it is.
    fn busy_with(&self) -> Option<String> {
        let requests = self.activity.requests.load(Ordering::SeqCst);
        if requests > 0 {
            return Some(format!("{requests} requests are being answered"));
        }
        if !self.controllers_are_settled() {
            return Some("the controllers have something to do".to_owned());
        }
        let behind = self.watches.behind(self);
        let watch = behind.first()?;
        Some(format!(
            "{} watches have events to send, one of them {watch:?}",
            behind.len()
        ))
    }
}

impl FakeApiServer {
    /// Waits until the server has been at rest for a while: no request is being answered, every open watch has handed out all that
    /// it can see, the [controllers](crate::Builder::controller) have nothing to do, and none of that changes for the time `quiet`
    /// on tokio's clock.
    ///
    /// What clients do with what they were told, the server cannot know; `quiet` is what they get for it. Under a paused clock, time
    /// passes only when every task waits for something, so that a short one is enough for clients that have no timers of their own,
    /// and one longer than their retries for others. [`Duration::ZERO`] asks for the server's own rest alone.
    ///
    /// A [view](Self::view) that stands still keeps nobody waiting, one that lags does until it has shown everything.
    ///
    /// # Guarantees
    /// On return the server is at rest, as far as other threads send nothing at that moment.
    ///
    /// # Panics
    /// If that is not so within `quiet` and ten minutes on tokio's clock: a test would wait for ever. A watch that nobody reads,
    /// or that a fault has [silenced](crate::Fault::Silence) with events to send, is never at rest.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_idle(&self, quiet: Duration) {
        let shared = &self.shared;
        let rest = timeout(PATIENCE.saturating_add(quiet), shared.rest(quiet)).await;
        assert!(
            rest.is_ok(),
            "the server is not at rest: {}",
            shared
                .busy_with()
                .unwrap_or_else(|| format!("there is something to do again within each {quiet:?}"))
        );
    }
}

impl Shared {
    async fn rest(self: &Arc<Self>, quiet: Duration) {
        let _waiting = WaitGuard::new(&self.activity);
        let mut activity = self.activity.changed.subscribe();
        let mut watches = self.watches.subscribe();
        let mut commits = self.storage.commits();
        let mut settled = self.controllers_settled();
        loop {
            // Marked before looking, so that what happens later is noticed.
            activity.mark_unchanged();
            watches.mark_unchanged();
            commits.mark_unchanged();
            if let Some(settled) = &mut settled {
                settled.mark_unchanged();
            }
            let busy = self.busy_with().is_some();
            // No channel closes but that of controllers whose runtime has ended, which then do nothing.
            let something = async {
                tokio::select! {
                    _ = activity.changed() => {}
                    _ = watches.changed() => {}
                    _ = commits.changed() => {}
                    () = changed_or_never(&mut settled) => {}
                }
            };
            if busy {
                something.await;
            } else if timeout(quiet, something).await.is_err() {
                return;
            }
        }
    }
}

/// Waits for the controllers to tell something; for ever if they cannot any more.
async fn changed_or_never(settled: &mut Option<watch::Receiver<u64>>) {
    let ended = match settled {
        Some(settled) => settled.changed().await.is_err(),
        None => true,
    };
    if ended {
        std::future::pending::<()>().await;
    }
}
