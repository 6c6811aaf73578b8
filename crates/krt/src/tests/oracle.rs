//! Random graphs and random edits: after each epoch the engine must agree with a model that is written naively.
//!
//! A [`history`] is data: recipes of collections, and edits. [`program`] says what a recipe's transformation does; it is run by the
//! engine and by the [`model`] alike, each with its own way to read: [`build`] has the engine's. [`drive`] runs both, and [`check`]
//! compares contents, sync, runs and their causes, events, and pinned snapshots. Some objects are [`brittle`]: their own code panics.
//! A history that fails is [`shrink`]ed before it is shown.
//!
//! `ORACLE_SEED=N` starts at another seed, `ORACLE_HISTORIES=N` runs more of them.

mod brittle;
mod build;
mod check;
mod drive;
mod history;
mod matcher;
mod model;
mod program;
mod shrink;

use super::quiet;
use crate::engine::planted::{self, Bug};
use history::History;

/// Why a history fails, if it does.
fn failure(history: &History) -> Option<String> {
    quiet::failure(|| drive::run(history))
}

pub(super) fn number(variable: &str, otherwise: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

// [K8] [K9] [K11] [K12] [K13] [K14] [K17] [K18] [K19] [K20] [K25] [K30] [K32] [K34] whatever is done to whatever graph, the engine agrees with its rules
#[test]
fn every_history_agrees_with_the_model() {
    let first = number("ORACLE_SEED", 1);
    for seed in first..first + number("ORACLE_HISTORIES", 400) {
        let history = History::random(seed);
        if let Some(text) = failure(&history) {
            let (smallest, text) = shrink::shrink(history, text, failure);
            panic!("seed {seed}: {text}\n{smallest:#?}");
        }
    }
}

/// Plants each bug, and looks for a history that fails because of it.
pub(super) fn assert_found(bugs: impl IntoIterator<Item = Bug>, fails: impl Fn(u64) -> bool) {
    /// Every bug is found within this many histories, and most of them within a few.
    const ENOUGH: u64 = 2_000;
    let mut missed = Vec::new();
    let enough = number("ORACLE_HISTORIES", ENOUGH);
    for bug in bugs {
        planted::plant(Some(bug));
        let found = (1..=enough).find(|seed| fails(*seed));
        planted::plant(None);
        match found {
            Some(seed) => println!("{bug:?} is found by history {seed}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "{missed:?} not found within {enough} histories");
}

// The oracle is tested itself: each bug that is planted into the engine is found.
#[test]
fn every_planted_bug_is_found() {
    let bugs = [
        Bug::GateOpen,
        Bug::GateClosed,
        Bug::ProbeOldOnly,
        Bug::ProbeNewOnly,
        Bug::StaleMemo,
        Bug::HashOnly,
        Bug::FirstClaimant,
        Bug::ClaimsOneByOne,
        Bug::SyncEarly,
        Bug::ReclaimPinned,
        Bug::MergedOld,
        Bug::KeptDependencies,
        Bug::EmptySelector,
        Bug::NoAnyRow,
        Bug::ProjectionFirst,
        Bug::OrderById,
        Bug::LostTouch,
        Bug::LostVersion,
        Bug::OneIndividual,
        Bug::DiscardedDependencies,
        Bug::NotSuperseded,
        Bug::SupersededMemo,
        Bug::FullScan,
        Bug::KeptPosting,
        Bug::NotRekeyed,
        Bug::EmptyGroup,
        Bug::MemberUnsynced,
        Bug::MemberLeavesEarly,
    ];
    assert_found(bugs, |seed| failure(&History::random(seed)).is_some());
}
