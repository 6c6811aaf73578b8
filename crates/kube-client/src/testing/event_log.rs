//! A handler that writes down what it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use super::eventually::PATIENCE;
use crate::event::Event;
use crate::informer::Informer;
use crate::informer::handler::{EventHandler, HandlerOptions, on_batch};
use crate::informer::registration::Registration;
use crate::key::ObjectKey;
use crate::object::Object;

/// Writes down the events of an informer. Clones are the same log.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube_client::InformerOptions;
/// use kube_client::testing::{EventLog, TestClient};
///
/// let client = TestClient::fake();
/// let namespaces = client.informers().typed::<Namespace>(InformerOptions::default())?;
/// let log = EventLog::new();
/// let registration = log.register(&namespaces);
/// client.sync().await;
/// registration.synced().await?;
/// let lines = log.lines(|namespace| namespace.metadata.name.clone().unwrap_or_default());
/// assert!(lines.contains(&"+default=default!".to_owned()), "{lines:?}");
/// client.end().await;
/// # Ok(())
/// # }
/// ```
pub struct EventLog<K> {
    // The sender keeps the log and tells those who wait for it to grow.
    events: Arc<watch::Sender<Vec<Event<K>>>>,
}

impl<K: Object> EventLog<K> {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that writes into this log.
    pub fn handler(&self) -> impl EventHandler<K> + use<K> {
        let events = Arc::clone(&self.events);
        on_batch(move |batch: &[Event<K>]| events.send_modify(|log| log.extend_from_slice(batch)))
    }

    /// Registers such a handler, under the name `event-log`.
    pub fn register(&self, informer: &Informer<K>) -> Registration {
        informer.add_handler(self.handler(), HandlerOptions::named("event-log"))
    }

    /// What has come so far.
    pub fn events(&self) -> Vec<Event<K>> {
        self.events.borrow().clone()
    }

    /// Takes out what has come so far.
    pub fn take(&self) -> Vec<Event<K>> {
        self.events.send_replace(Vec::new())
    }

    /// Waits until there are at least so many events, and gives all there are.
    ///
    /// # Panics
    ///
    /// If they do not come within 30 s on tokio's clock; the text shows what came.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn wait_for(&self, count: usize) -> Vec<Event<K>> {
        let mut grown = self.events.subscribe();
        // The sender lives as long as `self`, so only the patience can end this.
        match timeout(PATIENCE, grown.wait_for(|events| events.len() >= count)).await {
            Ok(Ok(events)) => events.clone(),
            Ok(Err(_)) | Err(_) => panic!(
                "{count} events: not within {PATIENCE:?}; {} came: {:?}",
                self.events().len(),
                self.lines(|_| String::new())
            ),
        }
    }

    /// What a handler holds that was told these events: what the cache held, at some time, if the log was registered before
    /// anything was [taken](Self::take) out of it.
    ///
    /// # Panics
    ///
    /// If they do not fit together: an object is added twice, one is changed or deleted that is not there, or the old object
    /// of an update is not the very one that was there.
    #[track_caller]
    pub fn folded(&self) -> BTreeMap<ObjectKey, Arc<K>> {
        let mut state: BTreeMap<ObjectKey, Arc<K>> = BTreeMap::new();
        for event in self.events() {
            let key = event.key();
            match event {
                Event::Added { object, .. } => {
                    assert!(!state.contains_key(&key), "{key} is added twice");
                    state.insert(key, object);
                }
                Event::Updated { old, new } => {
                    let Some(known) = state.get_mut(&key) else {
                        panic!("{key} is updated and was not there")
                    };
                    assert!(
                        Arc::ptr_eq(known, &old),
                        "{key} is updated from another object than the last one"
                    );
                    *known = new;
                }
                Event::Deleted { .. } => assert!(state.remove(&key).is_some(), "{key} is deleted and was not there"),
            }
        }
        state
    }

    /// The events as short lines, with a word of the caller's about each object: `+key=a` for added (`+key=a!` if initial),
    /// `key=a>b` for updated, `-key=a` for deleted (`-key=a?` if stale). The key is `namespace/name` or `name`.
    pub fn lines(&self, describe: impl Fn(&K) -> String) -> Vec<String> {
        self.events
            .borrow()
            .iter()
            .map(|event| line(event, &describe))
            .collect()
    }
}

fn line<K: Object>(event: &Event<K>, describe: impl Fn(&K) -> String) -> String {
    let key = event.key();
    match event {
        Event::Added { object, initial } => format!("+{key}={}{}", describe(object), if *initial { "!" } else { "" }),
        Event::Updated { old, new } => format!("{key}={}>{}", describe(old), describe(new)),
        Event::Deleted { object, stale } => format!("-{key}={}{}", describe(object), if *stale { "?" } else { "" }),
    }
}

impl<K> Default for EventLog<K> {
    fn default() -> Self {
        Self {
            events: Arc::new(watch::Sender::new(Vec::new())),
        }
    }
}

impl<K> Clone for EventLog<K> {
    fn clone(&self) -> Self {
        Self {
            events: Arc::clone(&self.events),
        }
    }
}

impl<K> fmt::Debug for EventLog<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog")
            .field("events", &self.events.borrow().len())
            .finish()
    }
}
