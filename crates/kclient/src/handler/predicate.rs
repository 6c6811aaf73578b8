//! Which events a handler is interested in: ready-made predicates, and how they combine.
//!
//! Owns: functions from an event to yes or no. They are what [`QueueHandler::only`](super::QueueHandler::only) and [`only`] take;
//! a closure does as well.
//!
//! Every ready-made predicate says yes to `Added` and `Deleted`, and decides about `Updated` by comparing the old with the new
//! object. A [resync](kube_client::HandlerOptions::resync_every) is an `Updated` without any change.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use kclient::handler::QueueHandlers;
//! use kclient::handler::predicate::{annotations_changed, generation_changed, labels_changed, or};
//! # use kclient::queue::{Action, Queue};
//! # let queue = Queue::builder("q").reconciler(|_: kclient::ObjectKey| async { Ok(Action::Done) }).build();
//!
//! // Not when only the status was written.
//! let handler = queue
//!     .handler::<Deployment>()
//!     .only(or(generation_changed, or(labels_changed, annotations_changed)));
//! ```

use std::fmt;

use kube_client::{Event, EventHandler, Handled, Metadata, Object, RunsOn};

/// Whether an event may have changed what an object asks for: every add and delete; an update if the generation differs, or
/// if one side is being deleted and the other not. Where the server keeps no generation (none, or 0), every new
/// resourceVersion counts. A change of labels, annotations or status alone does not.
pub fn spec_changed<K: Object>(event: &Event<K>) -> bool {
    changed(event, |old, new| {
        let generation = |generation: Option<i64>| generation.filter(|generation| *generation != 0);
        let differs = match (generation(old.generation), generation(new.generation)) {
            (Some(before), Some(after)) => before != after,
            _ => old.resource_version != new.resource_version,
        };
        differs || old.deleting != new.deleting
    })
}

/// Whether `metadata.generation` differs, as it does when the spec was changed. For kinds without a generation (config maps, say)
/// no update counts: [`spec_changed`] is for any kind, and also sees that a deletion has begun.
pub fn generation_changed<K: Object>(event: &Event<K>) -> bool {
    changed(event, |old, new| old.generation != new.generation)
}

/// Whether the labels differ. None at all is the same as an empty map.
pub fn labels_changed<K: Object>(event: &Event<K>) -> bool {
    changed(event, |old, new| !old.labels.iter().eq(new.labels.iter()))
}

/// Whether the annotations differ. None at all is the same as an empty map, so for a type that does not keep its annotations no
/// update counts.
pub fn annotations_changed<K: Object>(event: &Event<K>) -> bool {
    changed(event, |old, new| !old.annotations.iter().eq(new.annotations.iter()))
}

/// Whether the resourceVersion differs: every update but a resync.
pub fn resource_version_changed<K: Object>(event: &Event<K>) -> bool {
    changed(event, |old, new| old.resource_version != new.resource_version)
}

fn changed<K: Object>(event: &Event<K>, differs: impl FnOnce(Metadata<'_>, Metadata<'_>) -> bool) -> bool {
    match event {
        Event::Updated { old, new } => differs(old.metadata(), new.metadata()),
        Event::Added { .. } | Event::Deleted { .. } => true,
    }
}

/// Both. The second is asked only if the first says yes.
pub fn and<K>(
    mut first: impl FnMut(&Event<K>) -> bool + Send + 'static,
    mut second: impl FnMut(&Event<K>) -> bool + Send + 'static,
) -> impl FnMut(&Event<K>) -> bool + Send + 'static {
    move |event| first(event) && second(event)
}

/// Either. The second is asked only if the first says no.
pub fn or<K>(
    mut first: impl FnMut(&Event<K>) -> bool + Send + 'static,
    mut second: impl FnMut(&Event<K>) -> bool + Send + 'static,
) -> impl FnMut(&Event<K>) -> bool + Send + 'static {
    move |event| first(event) || second(event)
}

/// The opposite, for adds and deletes too.
pub fn not<K>(
    mut predicate: impl FnMut(&Event<K>) -> bool + Send + 'static,
) -> impl FnMut(&Event<K>) -> bool + Send + 'static {
    move |event| !predicate(event)
}

/// A handler that is told only the events for which `predicate` says yes.
///
/// # Panics
///
/// A panic of the predicate counts its event as handled, as one of the handler does.
pub fn only<K: Object, H: EventHandler<K>>(
    handler: H,
    predicate: impl FnMut(&Event<K>) -> bool + Send + 'static,
) -> Only<K, H> {
    Only {
        handler,
        predicate: Box::new(predicate),
    }
}

type Predicate<K> = Box<dyn FnMut(&Event<K>) -> bool + Send>;

/// See [`only`].
pub struct Only<K, H> {
    handler: H,
    predicate: Predicate<K>,
}

impl<K: Object, H: EventHandler<K>> Only<K, H> {
    /// In the form that [`Informer::add_handler`](crate::Informer::add_handler) takes.
    pub fn boxed(self) -> Box<dyn EventHandler<K>> {
        Box::new(self)
    }
}

impl<K: Object, H: EventHandler<K>> EventHandler<K> for Only<K, H> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        debug_assert!(events.len() <= 1, "a batch is one event");
        if events.iter().all(&mut self.predicate) {
            self.handler.handle(events)
        } else {
            Handled::Done
        }
    }

    // One at a time, so that a panic of the predicate costs one event.
    fn batch_size(&self) -> usize {
        1
    }

    fn runs_on(&self) -> RunsOn {
        self.handler.runs_on()
    }
}

impl<K, H: fmt::Debug> fmt::Debug for Only<K, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Only")
            .field("handler", &self.handler)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
