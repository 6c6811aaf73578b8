//! The models are tested themselves: each wake-up that is removed from the engine is missed.

use super::*;
use crate::engine::planted::{Bug, plant};

/// Enough for every bug to be found; most of them are by the first schedule.
const ENOUGH: usize = 400;

/// Plants a bug, and looks for a schedule in which somebody waits for ever because of it.
fn assert_found(bug: Bug, body: fn()) {
    plant(Some(bug));
    let failure = quiet::failure(|| model(ENOUGH, body));
    plant(None);
    let text = failure.unwrap_or_else(|| panic!("{bug:?} is not found"));
    assert!(
        text.contains("deadlock! blocked tasks"),
        "{bug:?} is found as something else: {text}"
    );
}

#[test]
fn model_finds_a_worker_that_is_not_woken() {
    assert_found(Bug::WorkerNotWoken, edits::writes_reach_everybody);
}

#[test]
fn model_finds_a_pool_that_is_not_woken() {
    assert_found(Bug::PoolNotWoken, edits::writes_reach_everybody);
}

#[test]
fn model_finds_a_pool_that_is_not_told_the_end() {
    assert_found(Bug::StopNotTold, ends::the_end_amid_writes);
}

#[test]
fn model_finds_a_waiter_that_is_not_woken() {
    assert_found(Bug::WaiterNotWoken, waiting::everybody_is_woken);
}

#[test]
fn model_finds_a_waiter_that_does_not_look_again() {
    assert_found(Bug::NotLookedAgain, waiting::everybody_is_woken);
}

#[test]
fn model_finds_a_stream_that_is_not_woken() {
    assert_found(Bug::StreamNotWoken, handlers::streams_are_dropped);
}
