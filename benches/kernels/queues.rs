//! The work queue, on keys that share their text.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use kclient::queue::{AddOptions, ExponentialFailure, RateLimiter, Timings, WorkQueue};

use super::{Kernel, counted};

const KEYS: u32 = 1_000;

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "queue/add-get-done",
        units: KEYS,
        run: || add_get_done(|_| 0),
    },
    Kernel {
        name: "queue/add-get-done-at-three-priorities",
        units: KEYS,
        run: || add_get_done(|number| number % 3),
    },
    Kernel {
        name: "queue/add-of-a-waiting-key",
        units: KEYS,
        run: add_of_a_waiting_key,
    },
    Kernel {
        name: "queue/add-after-get-done",
        units: KEYS,
        run: add_after,
    },
    Kernel {
        name: "queue/limiter-when-forget",
        units: KEYS,
        run: limiter,
    },
];

type Key = Arc<str>;

fn keys() -> Vec<Key> {
    (0..KEYS)
        .map(|number| format!("namespace-{}/object-{number}", number % 100).into())
        .collect()
}

/// Durations are not recorded, as in the comparison with other queues.
fn queue() -> WorkQueue<Key> {
    WorkQueue::builder("kernel").timings(Timings::Off).build()
}

/// A runtime whose clock stands still but for when all wait: delays end in order, and at once.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime with a clock")
}

fn add_get_done(priority: impl Fn(i32) -> i32) {
    let (queue, keys, runtime) = (queue(), keys(), runtime());
    let turn = || {
        runtime.block_on(tokio::task::unconstrained(async {
            for (number, key) in (0_i32..).zip(&keys) {
                queue.add_with(key, AddOptions::priority(priority(number)));
            }
            for _ in &keys {
                queue.get().await.expect("an item").done();
            }
        }));
    };
    turn();
    counted(turn);
}

fn add_of_a_waiting_key() {
    let (queue, keys) = (queue(), keys());
    let turn = || keys.iter().for_each(|key| queue.add(key));
    turn();
    counted(turn);
}

fn add_after() {
    let (queue, keys, runtime) = (queue(), keys(), runtime());
    let turn = || {
        runtime.block_on(tokio::task::unconstrained(async {
            for (number, key) in (0_u64..).zip(&keys) {
                queue.add_after(key, Duration::from_millis(1 + number * 7919 % 1000));
            }
            for _ in &keys {
                queue.get().await.expect("an item").done();
            }
        }));
    };
    turn();
    counted(turn);
}

fn limiter() {
    let (limiter, keys) = (ExponentialFailure::default(), keys());
    let turn = || {
        for key in &keys {
            black_box(limiter.when(key));
            limiter.forget(key);
        }
    };
    turn();
    counted(turn);
}
