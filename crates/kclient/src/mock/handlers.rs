//! `MockHandlers`: the informer's part of a mock, as far as handlers go.

use std::fmt;
use std::sync::Arc;

use kube_client::{Event, EventHandler, Handled, HandlerOptions, Object, Registration};

use crate::sync::Mutex;

/// The handlers that were registered with a mock, for the test to tell them events.
///
/// [`accept`](Self::accept) is what `expect_add_handler` returns; [`tell`](Self::tell) is the informer's part. Removed handlers
/// are told nothing.
pub struct MockHandlers<K> {
    // Invariant: only `accept` adds, only `tell` takes out.
    registered: Arc<Mutex<Vec<Handler<K>>>>,
    told: Vec<Handler<K>>,
}

type Handler<K> = (Box<dyn EventHandler<K>>, Registration);

impl<K: Object> MockHandlers<K> {
    /// No handlers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes handlers in, and gives each its registration, which has synced.
    pub fn accept(&self) -> impl Fn(Box<dyn EventHandler<K>>, HandlerOptions) -> Registration + Send + 'static {
        let registered = Arc::clone(&self.registered);
        move |handler, _options| {
            let registration = Registration::detached();
            registered.lock().push((handler, registration.clone()));
            registration
        }
    }

    /// Tells each handler of an event, one after the other, as an informer does; returns when all have handled it.
    ///
    /// The mock's own answers, those of `expect_get` above all, are the test's to change.
    pub async fn tell(&mut self, event: Event<K>) {
        let registered = std::mem::take(&mut *self.registered.lock());
        self.told.extend(registered);
        self.told.retain(|(_, registration)| !registration.is_stopped());
        for (handler, _) in &mut self.told {
            match handler.handle(std::slice::from_ref(&event)) {
                Handled::Done => {}
                Handled::Later(done) => done.await,
            }
        }
    }

    /// How many handlers there are that were not removed.
    pub fn len(&self) -> usize {
        let alive = |handlers: &[Handler<K>]| handlers.iter().filter(|(_, handler)| !handler.is_stopped()).count();
        alive(&self.told) + alive(&self.registered.lock())
    }

    /// Whether there are none that were not removed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K> Default for MockHandlers<K> {
    fn default() -> Self {
        Self {
            registered: Arc::new(Mutex::new(Vec::new())),
            told: Vec::new(),
        }
    }
}

impl<K: Object> fmt::Debug for MockHandlers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockHandlers").field("handlers", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::ext::InformerExt;
    use crate::mock::MockInformer;
    use crate::queue::WorkQueue;

    fn added() -> Event<Pod> {
        Event::Added {
            object: Arc::new(Pod::default()),
            initial: false,
        }
    }

    #[tokio::test]
    async fn handlers_are_told_in_order_until_they_are_removed() {
        let mut handlers = MockHandlers::new();
        let mut pods = MockInformer::<Pod>::new();
        pods.expect_add_handler().times(3).returning(handlers.accept());
        let told = WorkQueue::<&str>::new("told");
        let plain = {
            let told = told.clone();
            pods.on_event("plain", move |_| told.add(&"plain"))
        };
        let later = {
            let told = told.clone();
            pods.on_event_async("later", move |_| {
                let told = told.clone();
                async move {
                    tokio::task::yield_now().await;
                    told.add(&"later");
                }
            })
        };
        assert!(plain.has_synced() && !plain.is_stopped());
        assert_eq!(handlers.len(), 2);
        handlers.tell(added()).await;
        assert_eq!(
            (*told.get().await.unwrap(), *told.get().await.unwrap()),
            ("plain", "later")
        );

        plain.remove();
        let third = pods.on_event("third", {
            let told = told.clone();
            move |_| told.add(&"third")
        });
        handlers.tell(added()).await;
        assert_eq!(
            (*told.get().await.unwrap(), *told.get().await.unwrap()),
            ("later", "third")
        );
        later.remove();
        third.remove();
        assert!(handlers.is_empty());
        handlers.tell(added()).await;
        assert!(told.is_empty());
    }
}
