//! What is read through a view: the objects it shows, and whether it shows its first whole state.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::ViewId;
use crate::error::Stopped;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::index::Posting;
use crate::informer::shared::Shared;
use crate::key::KeyRef;
use crate::object::Object;

impl<K: Object> Shared<K> {
    pub(crate) fn get_in(&self, id: ViewId, key: KeyRef<'_>) -> Option<Arc<K>> {
        let state = self.state.read();
        let slot = state.store.find(key)?;
        state.view(id)?.shows(slot).then(|| state.store.object(slot).cloned())?
    }

    pub(crate) fn list_in(&self, id: ViewId, namespace: Option<&str>) -> Vec<Arc<K>> {
        let state = self.state.read();
        let Some(view) = state.view(id) else { return Vec::new() };
        let objects = state.store.iter_in(namespace).filter(|(slot, _)| view.shows(*slot));
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(crate) fn len_in(&self, id: ViewId) -> usize {
        let state = self.state.read();
        let view = state.view(id).filter(|view| view.is_live());
        view.map_or(0, |view| view.visible.len())
    }

    pub(crate) fn by_index_in(&self, id: ViewId, index: usize, value: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        let (Some(view), Some(table)) = (state.view(id), state.store.index(index)) else {
            return Vec::new();
        };
        let slots = table.lookup(value).into_iter().flat_map(Posting::iter);
        let visible = slots.filter(|slot| view.shows(*slot));
        visible.filter_map(|slot| state.store.object(slot).cloned()).collect()
    }

    pub(crate) fn index_values_in(&self, id: ViewId, index: usize) -> Vec<Arc<str>> {
        let state = self.state.read();
        let (Some(view), Some(table)) = (state.view(id), state.store.index(index)) else {
            return Vec::new();
        };
        let is_shown = |value: &&Arc<str>| {
            let posting = table.lookup(value);
            posting.is_some_and(|posting| posting.iter().any(|slot| view.shows(slot)))
        };
        table.known_values().filter(is_shown).cloned().collect()
    }

    /// The handlers of a view.
    pub(crate) fn handlers_in(&self, id: ViewId) -> Vec<Arc<HandlerQueue<K>>> {
        self.state
            .read()
            .view(id)
            .map_or_else(Vec::new, |view| view.handlers.clone())
    }

    /// Whether the view shows its first whole state: cache filled, filters synced, everything judged.
    pub(crate) fn is_ready(&self, id: ViewId) -> bool {
        let state = self.state.read();
        state.view(id).is_some_and(|view| state.is_ready(view))
    }

    pub(crate) fn poll_ready(
        &self,
        id: ViewId,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        self.poll_until(ticket, cx, |state| {
            state.or_stopped(state.view(id).is_some_and(|view| state.is_ready(view)))
        })
    }
}
