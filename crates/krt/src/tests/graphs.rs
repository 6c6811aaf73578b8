//! Random graphs that change while they run: collections are made, stopped and dropped, fetch each other in all directions, and several
//! sources are written to at once. After each epoch the engine must agree with a model that is written naively.
//!
//! It is the oracle's second half: [`super::oracle`] has every kind of collection and query, in graphs that stay as they are and have
//! no cycles. Here transformations are simple, and it is the graph that is tested: who is refused what, when it is allowed, who lives.
//!
//! Which of several edges closes a cycle depends on the order in which collections run, which is the engine's to choose. So the model takes
//! from the engine who was refused what, and proves that choice right: with it, everything can be computed in some order, so no
//! cycle was let through; and whenever nothing is left to do, each path that is refused is there, so nothing was refused, or
//! stayed so, without need.
//!
//! `ORACLE_SEED=N` starts at another seed, `ORACLE_HISTORIES=N` runs more of them.

mod drive;
mod listen;
mod model;
mod plan;

use super::oracle::{assert_found, number};
use super::quiet;
use crate::engine::planted::Bug;
use plan::{Edit, Fetch, History, Kind, Plan, Write};

/// Why a history fails, if it does.
fn failure(history: &History) -> Option<String> {
    quiet::failure(|| {
        drive::run(history);
    })
}

/// A history as small as it gets while it fails, and why it does.
fn shrink(mut history: History, mut text: String) -> (History, String) {
    loop {
        let smaller = history.smaller().find_map(|one| failure(&one).map(|why| (one, why)));
        let Some((smaller, why)) = smaller else {
            return (history, text);
        };
        (history, text) = (smaller, why);
    }
}

// [K5] [K16] [K33] [K38] however a graph changes, the engine agrees with its rules
#[test]
fn every_changing_graph_agrees_with_the_model() {
    let first = number("ORACLE_SEED", 1);
    let mut refused = 0;
    for seed in first..first + number("ORACLE_HISTORIES", 400) {
        let history = History::random(seed);
        if let Some(text) = quiet::failure(|| refused += drive::run(&history)) {
            let (smallest, text) = shrink(history, text);
            panic!("seed {seed}: {text}\n{smallest:#?}");
        }
    }
    assert!(refused > 100, "only {refused} cycles came about");
}

/// A collection over the first one, each of whose inputs fetches once from each list, by its value.
fn one(fetches: &[&[usize]]) -> Plan {
    let fetches = fetches.iter().map(|targets| Fetch {
        only: None,
        targets: targets.to_vec(),
        by_key: false,
    });
    Plan {
        kind: Kind::One(0),
        fetches: fetches.collect(),
        depends_on: None,
        panics: false,
    }
}

// [K16] [K38] in one epoch, an input is refused, the other edge of the cycle goes, and so does the collection, of which nobody has a handle
#[test]
fn a_collection_may_end_in_the_epoch_in_which_it_is_refused() {
    let history = History {
        sources: vec![true],
        plans: vec![one(&[&[0, 2]]), one(&[&[0], &[0, 1]])],
        edits: vec![
            Edit::Make,
            Edit::Write(Write::Update(0, "a", 1)),
            Edit::Step,
            Edit::Make,
            Edit::Step,
            Edit::Write(Write::Update(0, "c", 1)),
            Edit::Drop(1),
        ],
    };
    assert_eq!(drive::run(&history), 1);
}

// The model is tested itself: each bug that is planted into the engine is found.
#[test]
fn every_planted_bug_of_graphs_is_found() {
    let bugs = [
        Bug::KeptEdge,
        Bug::RefusedForever,
        Bug::ParkedOnRefused,
        Bug::RefusedDependency,
        Bug::SplitTransaction,
        Bug::UndeclaredSync,
    ];
    assert_found(bugs, |seed| failure(&History::random(seed)).is_some());
}
