//! Random histories under random faults, with the server's own log as the judge. [I6] [I12] [I16] [I19] [I21] [I35]
//!
//! A seed makes a history: writes in two namespaces, faults of every kind on lists and watches, compactions, restores of the
//! store, handlers that come and go and lag. When the faults are over, the cache must be what the server holds; every
//! handler's events must be a legal sequence that folds to it ([`checker`]); and where nothing was listed again, the
//! handler that kept up must have been told every write of the log exactly once. In between, whoever waited for a write
//! must not read anything older.
//!
//! `HISTORIES` sets how many are run (10,000 if it is not set), `HISTORY_SEED` where they begin: at 1 if it is not set, so that
//! a change is judged by the same histories each time, at a place of its own with `random`, to hunt.

pub(super) mod checker;
mod fault;
pub(super) mod note;
mod recorder;
mod tally;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use self::tally::Tally;
use self::world::World;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
    )
}

#[test]
fn cache_and_handlers_survive_any_history() {
    let first = match std::env::var("HISTORY_SEED").as_deref() {
        Ok("random") => fastrand::u64(..1 << 40),
        _ => number("HISTORY_SEED").unwrap_or(1),
    };
    let histories = number("HISTORIES").unwrap_or(10_000);
    println!("HISTORY_SEED={first} HISTORIES={histories}");
    let next = AtomicU64::new(first);
    let failed = AtomicBool::new(false);
    // One history runs on one thread, so that its seed tells all; different ones run beside each other.
    let worker = || {
        let mut tally = Tally::default();
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + histories {
                break;
            }
            let run = AssertUnwindSafe(|| one(seed, &mut tally));
            if let Err(panic) = catch_unwind(run) {
                failed.store(true, Ordering::Relaxed);
                eprintln!("failed: HISTORY_SEED={seed} HISTORIES=1");
                resume_unwind(panic);
            }
        }
        tally
    };
    let workers = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(4);
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        for worker in running {
            all.add(&worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    println!("{all:?}");
    if histories >= 1_000 {
        all.check(histories);
    }
}

fn one(seed: u64, tally: &mut Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(World::run(seed, tally));
}
