//! The queue as a state machine: syncing, removing, stopping.

use std::task::Waker;

use super::*;
use crate::testing::{Item, item};

fn queue() -> HandlerQueue<Item> {
    HandlerQueue::new(HandlerOptions::default())
}

fn batch(count: usize, initial: bool) -> Batch<Item> {
    let added = |n: usize| Event::Added {
        object: item(&format!("i{n}"), "u", 1),
        initial,
    };
    (0..count).map(added).collect()
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Takes what is there and handles it, in calls of `size`.
fn run(queue: &HandlerQueue<Item>, size: usize) -> usize {
    let mut handled = 0;
    while let Poll::Ready(Some(taken)) = queue.poll_take(&cx()) {
        for events in taken.events().chunks(size) {
            if !queue.begin() {
                return handled;
            }
            handled += events.len();
            queue.finish(events, false);
        }
    }
    handled
}

// [I7] not synced while the first initial event is being handled
#[test]
fn queue_syncs_only_after_the_last_initial_event_is_handled() {
    let queue = queue();
    assert!(!queue.has_synced(), "nothing is known yet");
    queue.push(&batch(2, true), 2, true).run();
    let Poll::Ready(Some(taken)) = queue.poll_take(&cx()) else {
        panic!("no events")
    };
    for events in taken.events().chunks(1) {
        assert!(queue.begin());
        assert!(!queue.has_synced(), "an initial event is still being handled");
        queue.finish(events, false);
    }
    assert!(queue.has_synced());
}

#[test]
fn empty_first_state_syncs_at_once() {
    let queue = queue();
    queue.push(&batch(0, true), 0, true).run();
    assert!(queue.has_synced());
}

// [I8] a panicked initial event counts as handled
#[test]
fn panicked_call_counts_as_handled() {
    let queue = queue();
    queue.push(&batch(1, true), 1, true).run();
    let Poll::Ready(Some(taken)) = queue.poll_take(&cx()) else {
        panic!("no events")
    };
    assert!(queue.begin());
    queue.finish(taken.events(), true);
    assert!(queue.has_synced());
    assert_eq!((queue.stats().panics, queue.stats().handled), (1, 1));
}

// [I10] no call begins after remove; twice is fine
#[test]
fn removed_queue_begins_no_call() {
    let queue = queue();
    queue.push(&batch(3, false), 0, true).run();
    let Poll::Ready(Some(taken)) = queue.poll_take(&cx()) else {
        panic!("no events")
    };
    assert!(queue.begin());
    queue.remove();
    queue.remove();
    let mut ticket = None;
    assert!(queue.poll_removed(&mut ticket, &cx()).is_pending(), "a call is running");
    queue.finish(&taken.events()[..1], false);
    assert!(queue.poll_removed(&mut ticket, &cx()).is_ready());
    assert!(!queue.begin());
    assert!(matches!(queue.poll_take(&cx()), Poll::Ready(None)));
    queue.push(&batch(1, false), 0, false).run();
    assert_eq!(queue.stats().queue_depth, 0, "a removed queue takes nothing");
}

#[test]
fn stopped_queue_reports_stopped_unless_it_synced_before() {
    let unsynced = queue();
    unsynced.stop();
    assert_eq!(unsynced.poll_synced(&mut None, &cx()), Poll::Ready(Err(Stopped)));
    let synced = queue();
    synced.push(&batch(0, true), 0, true).run();
    synced.stop();
    assert_eq!(synced.poll_synced(&mut None, &cx()), Poll::Ready(Ok(())));
}

#[test]
fn dropped_waiters_leave_nothing_behind() {
    let queue = queue();
    for _ in 0..10 {
        let mut ticket = None;
        assert!(queue.poll_synced(&mut ticket, &cx()).is_pending());
        assert!(queue.poll_synced(&mut ticket, &cx()).is_pending());
        queue.forget(ticket);
    }
    assert_eq!(queue.state.lock().waiters.take().len(), 0);
}

#[test]
fn large_batches_are_taken_in_parts() {
    let queue = queue();
    queue.push(&batch(1000, false), 0, true).run();
    assert_eq!(run(&queue, 7), 1000);
    assert_eq!(queue.stats().handled, 1000);
}
