//! `EventTracker`: events by short names, awaited in order or not.
//!
//! Owns: what came and how much of it was awaited. Whole events of one kind are written down by
//! [`EventLog`](kube_client::testing::EventLog) instead.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use kube_client::{Event, EventHandler, HandlerOptions, Object, Registration, on_batch};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::traits::Informer;

/// How long an event is waited for, on tokio's clock: as long as everything else in tests.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing must come for [`EventTracker::empty`].
const QUIET: Duration = Duration::from_millis(200);

/// Writes down short names of events, such as `add/web`, and awaits them. Clones are the same tracker.
///
/// It is a handler for any [`Informer`], of one kind or of several: an event is `add/NAME`, `update/NAME` or `delete/NAME`, or
/// with [`with_namespaces`](Self::with_namespaces) `add/NAMESPACE/NAME`. Whatever else a test waits for may be
/// [recorded](Self::record) as well.
///
/// Every event has to be awaited, once: each wait begins where the last one ended, and what was not asked for fails it. So
/// a test says all that happens, not only that something does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::time::pause();
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kclient::Client;
/// use kclient::testing::{EventTracker, TestClient, TestWriter};
/// use serde_json::json;
///
/// let cluster = TestClient::with_objects([
///     json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}),
///     json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "shop"}}),
/// ]);
/// let (maps, tracker) = (Client::<ConfigMap>::new(&cluster)?, EventTracker::new());
/// tracker.register(&maps);
/// cluster.sync().await;
/// tracker.wait_unordered(["add/a", "add/b"]).await;
///
/// let users = TestWriter::<ConfigMap>::new(&cluster).in_namespace("shop");
/// users.merge("a", json!({"data": {"color": "red"}})).await;
/// users.delete("a").await;
/// tracker.wait_ordered(["update/a", "delete/a"]).await;
/// tracker.empty().await;
/// # cluster.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EventTracker {
    // The sender keeps the log and tells those who wait for it to grow.
    log: Arc<watch::Sender<Log>>,
    namespaces: bool,
}

#[derive(Default)]
struct Log {
    came: Vec<String>,
    // Invariant: at most the length of `came`.
    awaited: usize,
}

impl Log {
    fn rest(&self) -> &[String] {
        &self.came[self.awaited..]
    }
}

impl EventTracker {
    /// A tracker that names objects without their namespaces.
    pub fn new() -> Self {
        Self {
            log: Arc::new(watch::Sender::new(Log::default())),
            namespaces: false,
        }
    }

    /// Names the objects of handlers that are made from now on with their namespaces, if they have one.
    #[must_use]
    pub fn with_namespaces(mut self) -> Self {
        self.namespaces = true;
        self
    }

    /// A handler that records every event. Initial objects and late ones are both `add`; a resync is an `update`; a `delete` is
    /// one, stale or not.
    pub fn handler<K: Object>(&self) -> impl EventHandler<K> + use<K> {
        let tracker = self.clone();
        on_batch(move |events: &[Event<K>]| {
            let names = events.iter().map(|event| tracker.name(event)).collect();
            tracker.extend(names);
        })
    }

    /// Registers such a handler with a client, a view of it or a mock, under the name `event-tracker`.
    pub fn register<K: Object>(&self, informer: &(impl Informer<K> + ?Sized)) -> Registration {
        informer.add_handler(Box::new(self.handler()), HandlerOptions::named("event-tracker"))
    }

    /// Records an event by its name: a reconcile, a write that a mock was asked for, anything.
    pub fn record(&self, event: impl Into<String>) {
        self.extend(vec![event.into()]);
    }

    /// What came and was not awaited yet.
    pub fn events(&self) -> Vec<String> {
        self.log.borrow().rest().to_vec()
    }

    /// Waits until exactly these events have come, in this order.
    ///
    /// # Panics
    ///
    /// If another event comes, before or in between, or is there at the end; or if one does not come within 30 s on tokio's
    /// clock. The text says what was expected, what came, and names the caller.
    ///
    /// # Cancel safety
    ///
    /// What was met until then counts as awaited.
    #[track_caller]
    pub fn wait_ordered<I>(&self, events: I) -> impl Future<Output = ()> + Send + use<'_, I>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let wait = Wait::new("wait_ordered", self, events);
        async move {
            for at in 0..wait.expected.len() {
                let next = &wait.expected[at..=at];
                let came = wait.next(next).await;
                if came != next[0] {
                    wait.fail(next, &format!("`{came}` came"));
                }
            }
            wait.end();
        }
    }

    /// Waits until exactly these events have come, in any order; one that is named twice has to come twice.
    ///
    /// # Panics
    ///
    /// If another event comes, before or in between, or is there at the end; or if one does not come within 30 s on tokio's
    /// clock. The text says what was expected, what came, and names the caller.
    ///
    /// # Cancel safety
    ///
    /// What was met until then counts as awaited.
    #[track_caller]
    pub fn wait_unordered<I>(&self, events: I) -> impl Future<Output = ()> + Send + use<'_, I>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let wait = Wait::new("wait_unordered", self, events);
        async move {
            let mut missing = wait.expected.clone();
            while !missing.is_empty() {
                let came = wait.next(&missing).await;
                match missing.iter().position(|event| *event == came) {
                    Some(at) => missing.remove(at),
                    None => wait.fail(&missing, &format!("`{came}` came")),
                };
            }
            wait.end();
        }
    }

    /// Asserts that nothing came that was not awaited, nor comes in the next 200 ms on tokio's clock.
    ///
    /// On a paused clock these cost nothing, and every task that is not itself waiting for time has run to its end by then. On a
    /// running clock they are no proof: make a last change there, and wait for the event of that one, since events of one
    /// informer come in order.
    ///
    /// # Panics
    ///
    /// If something came; the text says what, and names the caller.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[track_caller]
    pub fn empty(&self) -> impl Future<Output = ()> + Send + use<'_> {
        let wait = Wait::new("empty", self, [""; 0]);
        async move {
            let mut grown = self.log.subscribe();
            // Only the time can end this without an event: the sender lives as long as `self`.
            let _ = timeout(QUIET, grown.wait_for(|log| !log.rest().is_empty())).await;
            wait.end();
        }
    }

    fn name<K: Object>(&self, event: &Event<K>) -> String {
        let change = match event {
            Event::Added { .. } => "add",
            Event::Updated { .. } => "update",
            Event::Deleted { .. } => "delete",
        };
        let key = event.key();
        match &key.namespace {
            Some(namespace) if self.namespaces => format!("{change}/{namespace}/{}", key.name),
            _ => format!("{change}/{}", key.name),
        }
    }

    fn extend(&self, names: Vec<String>) {
        self.log.send_modify(|log| log.came.extend(names));
    }

    /// Waits for the next event that was not awaited yet, and counts it as awaited; `None` if none comes.
    async fn take(&self) -> Option<String> {
        let mut grown = self.log.subscribe();
        loop {
            timeout(PATIENCE, grown.wait_for(|log| !log.rest().is_empty()))
                .await
                .ok()?
                .ok()?;
            let mut taken = None;
            self.log.send_if_modified(|log| {
                taken = log.rest().first().cloned();
                log.awaited += usize::from(taken.is_some());
                false // nobody waits for less
            });
            // Another waiter may have been faster.
            if taken.is_some() {
                return taken;
            }
        }
    }
}

/// One call of a method that waits, for its complaints.
struct Wait<'a> {
    method: &'static str,
    tracker: &'a EventTracker,
    expected: Vec<String>,
    caller: &'static Location<'static>,
}

impl<'a> Wait<'a> {
    #[track_caller]
    fn new(method: &'static str, tracker: &'a EventTracker, expected: impl IntoIterator<Item: Into<String>>) -> Self {
        Self {
            method,
            tracker,
            expected: expected.into_iter().map(Into::into).collect(),
            caller: Location::caller(),
        }
    }

    async fn next(&self, missing: &[String]) -> String {
        match self.tracker.take().await {
            Some(event) => event,
            None => self.fail(missing, &format!("nothing came for {PATIENCE:?}")),
        }
    }

    /// Asserts that nothing is there beyond what was awaited.
    fn end(&self) {
        let rest = self.tracker.events();
        if !rest.is_empty() {
            self.fail(&[], &format!("{} came", list(&rest)));
        }
    }

    fn fail(&self, missing: &[String], what: &str) -> ! {
        let log = self.tracker.log.borrow().came.clone();
        let expected = match missing {
            [] => "nothing more".to_owned(),
            missing => list(missing),
        };
        panic!(
            "{} (at {}): expected {expected}, but {what}; of {}, all that came: {}",
            self.method,
            self.caller,
            list(&self.expected),
            list(&log)
        )
    }
}

fn list(events: &[String]) -> String {
    match events {
        [] => "nothing".to_owned(),
        events => format!("`{}`", events.join("`, `")),
    }
}

impl Default for EventTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log.borrow();
        f.debug_struct("EventTracker")
            .field("came", &log.came)
            .field("awaited", &log.awaited)
            .finish_non_exhaustive()
    }
}
