//! The way back of events that every handler is done with, so that the objects which they replaced are freed where new ones
//! are made.
//!
//! # Design
//!
//! Whoever lets go of an event last frees the object that it replaced: some hundred pieces of memory. That would be the
//! handlers' tasks, on other workers than the decoder; they would wait for each other at the allocator's locks, and the
//! handlers fall behind. So while a reflector follows changes, it takes the events back and drops them itself, before it
//! decodes the next ones. With glibc's allocator and two workers that saves a fifth of the processor time of a watch event.
//!
//! Closed when nothing changes: nobody would come for what is given back then.

use crate::event::Event;
use crate::informer::deferred::discard_event;
use crate::sync::Mutex;

/// How many events may wait here; more are dropped by who has them.
const MOST: usize = 256;

pub(crate) struct Returns<K> {
    state: Mutex<State<K>>,
}

struct State<K> {
    open: bool,
    batches: Vec<Vec<Event<K>>>,
    // Invariant: the number of events in `batches`.
    events: usize,
}

impl<K> Default for Returns<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                open: false,
                batches: Vec::new(),
                events: 0,
            }),
        }
    }
}

impl<K> Returns<K> {
    /// Gives events back that nobody needs any more. Drops them, if nobody would take them.
    pub(crate) fn give(&self, events: Vec<Event<K>>) {
        let mut state = self.state.lock();
        if state.open && state.events + events.len() <= MOST {
            state.events += events.len();
            state.batches.push(events);
            return;
        }
        drop(state);
        events.into_iter().for_each(discard_event);
    }

    /// Drops what was given back, and takes more from now on.
    pub(crate) fn open(&self) {
        self.take(true);
    }

    /// Drops what was given back, and takes no more.
    pub(crate) fn close(&self) {
        self.take(false);
    }

    fn take(&self, open: bool) {
        let batches = {
            let mut state = self.state.lock();
            state.open = open;
            state.events = 0;
            std::mem::take(&mut state.batches)
        };
        batches.into_iter().flatten().for_each(discard_event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn deleted(object: &Arc<Pod>) -> Vec<Event<Pod>> {
        vec![Event::Deleted {
            object: Arc::clone(object),
            stale: false,
        }]
    }

    #[test]
    fn what_is_given_back_goes_with_the_next_visit() {
        let (returns, pod) = (Returns::default(), Arc::new(Pod::default()));
        returns.open();
        returns.give(deleted(&pod));
        assert_eq!(Arc::strong_count(&pod), 2);
        returns.open();
        assert_eq!(Arc::strong_count(&pod), 1);
        returns.give(deleted(&pod));
        returns.close();
        assert_eq!(Arc::strong_count(&pod), 1);
    }

    #[test]
    fn nothing_waits_where_nobody_comes_nor_without_bound() {
        let (returns, pod) = (Returns::default(), Arc::new(Pod::default()));
        returns.give(deleted(&pod));
        assert_eq!(Arc::strong_count(&pod), 1);
        returns.open();
        for _ in 0..2 * MOST {
            returns.give(deleted(&pod));
        }
        assert_eq!(Arc::strong_count(&pod), 1 + MOST);
    }
}
