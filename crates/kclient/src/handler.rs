//! Event handlers: from the changes of objects to keys in a queue.
//!
//! Owns: the ready-made handlers. They all do little and never block, as handlers must; the work is done by the
//! reconciler of the queue, which reads the state of the cache when it runs. Register them with
//! [`Informer::add_handler`](crate::Informer::add_handler).
//!
//! - [`QueueHandlers::handler`]: every change adds the object's own key, start-up floods with a low priority.
//! - [`enqueue_for_parent`]: a change of a child adds the key of its owner.
//! - [`enqueue_for`]: a change adds whatever keys a function names.
//! - [`object_handler`], [`filtered_object_handler`], [`spec_change_handler`], [`event_handler`]: closures.
//! - [`only`] narrows any of them to the events that a [`predicate`] wants: changes of the spec, of labels, of annotations.

mod closures;
mod owner;
pub mod predicate;
mod queued;

pub use closures::{EventClosures, event_handler, filtered_object_handler, object_handler, spec_change_handler};
pub(crate) use owner::group;
pub use owner::{ParentHandler, enqueue_for_parent, enqueue_for_parent_kind};
pub use predicate::{Only, only, spec_changed};
pub use queued::{EnqueueFor, LOW_PRIORITY, QueueHandler, QueueHandlers, annotated_keys, enqueue_for};

#[cfg(test)]
mod tests;
