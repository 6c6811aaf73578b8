//! Closures as event handlers.

use std::fmt;
use std::sync::Arc;

use kube_client::{Event, EventHandler, Handled, Object, on_event};

use super::predicate::spec_changed;

/// Calls `f` with the object of every event: the new one of an update, the last known one of a delete (stale or not).
pub fn object_handler<K: Object>(mut f: impl FnMut(&Arc<K>) + Send + 'static) -> impl EventHandler<K> {
    on_event(move |event: &Event<K>| f(event.object()))
}

/// As [`object_handler`], for objects that `filter` accepts; for an update that is if it accepts the old OR the new one, so
/// that an object which leaves the selection is heard of once more.
pub fn filtered_object_handler<K: Object>(
    mut f: impl FnMut(&Arc<K>) + Send + 'static,
    mut filter: impl FnMut(&K) -> bool + Send + 'static,
) -> impl EventHandler<K> {
    on_event(move |event: &Event<K>| {
        let wanted = match event {
            Event::Updated { old, new } => filter(new) || filter(old),
            Event::Added { object, .. } | Event::Deleted { object, .. } => filter(object),
        };
        if wanted {
            f(event.object());
        }
    })
}

/// As [`object_handler`], without the updates that leave the spec alone: see [`spec_changed`].
pub fn spec_change_handler<K: Object>(mut f: impl FnMut(&Arc<K>) + Send + 'static) -> impl EventHandler<K> {
    on_event(move |event: &Event<K>| {
        if spec_changed(event) {
            f(event.object());
        }
    })
}

/// A handler made of up to three closures, one for each kind of event. Without any it ignores everything.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kclient::handler::event_handler;
///
/// let handler = event_handler::<Pod>()
///     .on_add(|pod, _initial| println!("new: {:?}", pod.metadata.name))
///     .on_delete(|pod, _stale| println!("gone: {:?}", pod.metadata.name));
/// ```
pub fn event_handler<K: Object>() -> EventClosures<K> {
    EventClosures {
        add: None,
        update: None,
        delete: None,
    }
}

type OnFlagged<K> = Box<dyn FnMut(&Arc<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Arc<K>, &Arc<K>) + Send>;

/// See [`event_handler`].
pub struct EventClosures<K> {
    add: Option<OnFlagged<K>>,
    update: Option<OnUpdate<K>>,
    delete: Option<OnFlagged<K>>,
}

impl<K: Object> EventClosures<K> {
    /// Called with each new object, and whether it belongs to the state at the time of registration.
    #[must_use]
    pub fn on_add(mut self, f: impl FnMut(&Arc<K>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Called with the old and the new state of each changed object.
    #[must_use]
    pub fn on_update(mut self, f: impl FnMut(&Arc<K>, &Arc<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Called with the last known state of each deleted object, and whether it may have changed after that.
    #[must_use]
    pub fn on_delete(mut self, f: impl FnMut(&Arc<K>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }

    /// In the form that [`Informer::add_handler`](crate::Informer::add_handler) takes.
    pub fn boxed(self) -> Box<dyn EventHandler<K>> {
        Box::new(self)
    }
}

impl<K: Object> EventHandler<K> for EventClosures<K> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        for event in events {
            match (event, &mut self.add, &mut self.update, &mut self.delete) {
                (Event::Added { object, initial }, Some(f), _, _) => f(object, *initial),
                (Event::Updated { old, new }, _, Some(f), _) => f(old, new),
                (Event::Deleted { object, stale }, _, _, Some(f)) => f(object, *stale),
                (Event::Added { .. } | Event::Updated { .. } | Event::Deleted { .. }, ..) => {}
            }
        }
        Handled::Done
    }
}

impl<K> fmt::Debug for EventClosures<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventClosures")
            .field("add", &self.add.is_some())
            .field("update", &self.update.is_some())
            .field("delete", &self.delete.is_some())
            .finish()
    }
}
