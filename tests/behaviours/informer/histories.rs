//! Random histories under random faults, with the server's own log as the judge. [I6] [I12] [I16] [I19] [I21] [I35]
//!
//! A seed makes a history: writes in two namespaces, faults of every kind on lists and watches, compactions, restores of the
//! store, handlers that come and go and lag. When the faults are over, the cache must be what the server holds; every
//! handler's events must be a legal sequence that folds to it ([`checker`]); and where nothing was listed again, the
//! handler that kept up must have been told every write of the log exactly once. In between, whoever waited for a write
//! must not read anything older.
//!
//! `HISTORIES` sets how many are run (10,000 if it is not set), `HISTORY_SEED` where they begin.

pub(super) mod checker;
pub(super) mod note;
mod world;

use self::world::{Tally, World};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
    )
}

#[test]
fn cache_and_handlers_survive_any_history() {
    let first = number("HISTORY_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let histories = number("HISTORIES").unwrap_or(10_000);
    println!("HISTORY_SEED={first} HISTORIES={histories}");
    let mut tally = Tally::default();
    for seed in first..first + histories {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(World::run(seed, &mut tally)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("failed: HISTORY_SEED={seed} HISTORIES=1");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{tally:?}");
    if histories >= 1_000 {
        tally.check(histories);
    }
}
