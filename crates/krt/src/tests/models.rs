//! Real threads of an engine, of its handlers and of a program, under a model checker: every model is a handful of threads that the
//! checker interleaves at each lock, half of the schedules at random and half by priorities.
//!
//! A wake-up that is lost shows as a deadlock, and so does a thread that is left: a schedule is over when all threads have ended. What
//! happens to contents is compared with what the program wrote; [`Fold`] is a handler that checks what it is told. The models are
//! tested themselves, with [`planted`] bugs.

mod edits;
mod ends;
mod handlers;
mod ids;
mod planted;
mod waiting;

use std::collections::BTreeMap;

use shuttle::future::block_on;
use shuttle::thread;

use super::*;
use crate::shared::Shared;
use crate::sync::Condvar;
use crate::sync::checked::{holds_lock, model, same_again};
use crate::{Batch, Registration};

/// Schedules of each model in a plain test run; CI asks for many more.
const SCHEDULES: usize = 60;

fn built() -> Krt {
    Krt::builder("model").weak_hashes().build()
}

fn started() -> Krt {
    let krt = built();
    krt.start().unwrap();
    krt
}

/// Runs each on a thread of its own, and waits for all.
fn at_once<const N: usize>(bodies: [Box<dyn FnOnce() + Send>; N]) {
    for thread in bodies.map(thread::spawn) {
        thread.join().unwrap();
    }
}

/// Waits until an engine of which nobody has a handle any more has ended, with all of its threads.
fn wait_for_end(shared: &Arc<Shared>) {
    let own = Arc::clone(shared);
    let until = Arc::clone(&shared.progress).until(move || own.applied().ended && own.pool.threads() == 0);
    block_on(until);
}

/// Lets the other threads go on until something is true that nobody is woken for.
fn eventually(is_true: impl Fn() -> bool) {
    while !is_true() {
        thread::yield_now();
    }
}

/// Ends an engine.
fn end(krt: Krt) {
    block_on(krt.shutdown()).unwrap();
    let shared = Arc::clone(krt.shared());
    drop(krt);
    assert!(shared.applied().ended);
    assert_eq!(shared.pool.threads(), 0, "a thread is left");
}

/// What a handler was told, folded, and what was wrong with it: a panic in a handler would be contained.
#[derive(Clone, Default)]
struct Fold(Arc<Mutex<Folded>>);

#[derive(Default)]
struct Folded {
    content: BTreeMap<String, i64>,
    epoch: u64,
    batches: usize,
    wrong: Vec<String>,
}

impl Fold {
    /// Follows a collection; every batch that waits is merged.
    fn follow(&self, collection: &Collection<Item>) -> Registration {
        let own = self.clone();
        collection
            .handler()
            .merge_over(0)
            .on_batch(move |batch| own.take(batch))
    }

    /// The same, epoch by epoch.
    fn follow_all(&self, collection: &Collection<Item>) -> Registration {
        let own = self.clone();
        collection.handler().keep_all().on_batch(move |batch| own.take(batch))
    }

    fn take(&self, batch: &Batch<Item>) {
        let is_under_lock = holds_lock();
        let mut own = self.0.lock();
        if is_under_lock {
            own.wrong.push("called under a lock".to_owned());
        }
        if own.batches > 0 && batch.epoch() <= own.epoch {
            let wrong = format!("epoch {} after {}", batch.epoch(), own.epoch);
            own.wrong.push(wrong);
        }
        own.epoch = batch.epoch();
        own.batches += 1;
        for event in batch.events() {
            let key = event.latest().key().to_string();
            let before = match event.new() {
                Some(new) => own.content.insert(key, new.value),
                None => own.content.remove(&key),
            };
            if before != event.old().map(|old| old.value) {
                let wrong = format!("{} where {before:?} was told last", line(event));
                own.wrong.push(wrong);
            }
        }
    }

    /// What it was told is what is there.
    #[track_caller]
    fn assert_is(&self, collection: &Collection<Item>) {
        let own = self.0.lock();
        assert_eq!(own.wrong, [""; 0], "{}", collection.name());
        let folded = own.content.iter().map(|(key, value)| format!("{key}={value}"));
        assert_eq!(folded.collect::<Vec<_>>(), content(collection), "{}", collection.name());
    }
}

/// What a handler waits for that is stuck.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut is_open = self.0.0.lock();
        while !*is_open {
            is_open = self.0.1.wait(is_open);
        }
    }
}

// A seed that failed shows the same again: nothing that decides what a thread does next is random but the schedule.
#[test]
fn model_runs_are_the_same_again() {
    same_again(SCHEDULES / 2, edits::writes_reach_everybody);
    same_again(SCHEDULES / 2, ends::the_end_amid_writes);
}
