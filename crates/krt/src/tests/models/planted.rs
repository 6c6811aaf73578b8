//! The models are tested themselves: each wake-up that is removed from the engine is missed, and each race that is opened is lost.

use super::*;
use crate::engine::planted::{Bug, plant};

/// Enough for every bug to be found; most of them are by the first schedule.
const ENOUGH: usize = 400;

/// Plants a bug, and looks for a schedule in which somebody waits for ever because of it.
fn assert_found(bug: Bug, body: fn()) {
    assert_found_as(bug, &["deadlock! blocked tasks"], body);
}

/// Plants a bug, and looks for a schedule that fails with one of these texts because of it.
fn assert_found_as(bug: Bug, expected: &[&str], body: fn()) {
    plant(Some(bug));
    let failure = quiet::failure(|| model(ENOUGH, body));
    plant(None);
    let text = failure.unwrap_or_else(|| panic!("{bug:?} is not found"));
    let is_expected = expected.iter().any(|expected| text.contains(expected));
    assert!(is_expected, "{bug:?} is found as something else: {text}");
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

#[test]
fn model_finds_a_reader_that_looks_for_the_key_first() {
    assert_found_as(
        Bug::KeyFirst,
        &["is found under"],
        ids::gets_amid_ids_that_are_used_again,
    );
}

// The model misses the key or finds it twice, or the engine misses it first.
#[test]
fn model_finds_an_id_that_is_taken_back_though_its_key_is_written_to() {
    assert_found_as(
        Bug::TakenBack,
        &["models/ids.rs", "panicked in task 'krt model'"],
        ids::keys_that_are_written_again_as_they_go,
    );
}
