//! Our work queue on the course that the Go side runs in `queue.go`: 100,000 distinct keys in each part, no metrics recorder,
//! durations not measured, as a client-go queue without a metrics provider does not measure them.
//!
//! Keys are `Arc<str>`, which share their text as Go's strings do.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use kclient::queue::{AddOptions, ExponentialFailure, Item, RateLimiter, Timings, WorkQueue};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::unconstrained;

use crate::outcome::Outcome;

type Key = Arc<str>;

/// How the queue is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of {
    /// One priority; `get`, then `done`.
    Plain,
    /// Three priorities in use.
    Priorities,
    /// One priority; workers end an item and take the next in one step.
    Next,
    /// No queue of ours: what hands keys over first in, first out, and knows nothing of them.
    Bare,
}

/// Runs the course several times; the least time of each part counts.
pub(crate) fn run(keys: usize, repeats: usize, of: Of) -> anyhow::Result<Outcome> {
    anyhow::ensure!(keys > 0 && repeats > 0, "no keys, or no repeats");
    let keys: Arc<[Key]> = (0..keys)
        .map(|number| format!("namespace-{}/object-{number}", number % 100).into())
        .collect();
    let course = Course {
        keys,
        of,
        single: Builder::new_current_thread().enable_time().build()?,
        multi: Builder::new_multi_thread().enable_time().build()?,
    };
    let mut parts: Vec<(&str, fn(&Course) -> Duration)> = match of {
        Of::Bare => vec![("contended_ns", Course::bare)],
        Of::Plain | Of::Priorities | Of::Next => {
            vec![("drain_ns", Course::drain), ("contended_ns", Course::contended)]
        }
    };
    if matches!(of, Of::Plain | Of::Priorities) {
        parts.extend([
            ("one_ns", Course::one_by_one as fn(&Course) -> Duration),
            ("again_ns", Course::again),
            ("after_ns", Course::after),
        ]);
    }
    if of == Of::Plain {
        parts.push(("limiter_ns", Course::limiter));
    }
    let mut outcome = Outcome::default();
    for (name, part) in parts {
        let least = (0..repeats).map(|_| part(&course)).min().unwrap_or_default();
        outcome.set(name, least.as_nanos());
    }
    Ok(outcome)
}

struct Course {
    keys: Arc<[Key]>,
    of: Of,
    single: Runtime,
    multi: Runtime,
}

fn queue() -> WorkQueue<Key> {
    WorkQueue::builder("bench").timings(Timings::Off).build()
}

impl Of {
    fn add(self, queue: &WorkQueue<Key>, number: usize, key: &Key) {
        match self {
            Of::Plain | Of::Next | Of::Bare => queue.add(key),
            Of::Priorities => {
                let priority = [0, 1, 2][number % 3];
                queue.add_with(key, AddOptions::priority(priority));
            }
        }
    }
}

async fn got(queue: &WorkQueue<Key>) -> Item<Key> {
    queue.get().await.expect("nobody shuts the queue down")
}

impl Course {
    fn one_by_one(&self) -> Duration {
        let queue = queue();
        let start = Instant::now();
        self.single.block_on(unconstrained(async {
            for (number, key) in self.keys.iter().enumerate() {
                self.of.add(&queue, number, key);
                got(&queue).await.done();
            }
        }));
        start.elapsed()
    }

    fn drain(&self) -> Duration {
        let queue = queue();
        let start = Instant::now();
        self.single.block_on(unconstrained(async {
            for chunk in self.keys.chunks(1000) {
                for (number, key) in chunk.iter().enumerate() {
                    self.of.add(&queue, number, key);
                }
                if self.of == Of::Next {
                    let mut item = got(&queue).await;
                    for _ in 1..chunk.len() {
                        item = item.next().await.expect("nobody shuts the queue down");
                    }
                } else {
                    for _ in chunk {
                        got(&queue).await.done();
                    }
                }
            }
        }));
        start.elapsed()
    }

    fn again(&self) -> Duration {
        let queue = queue();
        self.of.add(&queue, 0, &self.keys[0]);
        let start = Instant::now();
        for _ in 0..self.keys.len() {
            self.of.add(&queue, 0, black_box(&self.keys[0]));
        }
        start.elapsed()
    }

    fn contended(&self) -> Duration {
        let queue = queue();
        let (of, total) = (self.of, self.keys.len());
        let handled = Arc::new((AtomicUsize::new(0), Notify::new()));
        let start = Instant::now();
        let took = self.multi.block_on(async {
            let consumers: Vec<_> = (0..4)
                .map(|_| {
                    let (queue, handled) = (queue.clone(), Arc::clone(&handled));
                    tokio::spawn(async move {
                        let count = || {
                            if handled.0.fetch_add(1, Ordering::Relaxed) + 1 == total {
                                handled.1.notify_one();
                            }
                        };
                        let mut next = queue.get().await;
                        while let Some(item) = next {
                            next = if of == Of::Next {
                                count();
                                item.next().await
                            } else {
                                item.done();
                                count();
                                queue.get().await
                            };
                        }
                    })
                })
                .collect();
            for producer in 0..4 {
                let (queue, keys) = (queue.clone(), Arc::clone(&self.keys));
                tokio::spawn(async move {
                    for (number, key) in keys.iter().enumerate().skip(producer).step_by(4) {
                        of.add(&queue, number, key);
                    }
                });
            }
            handled.1.notified().await;
            let took = start.elapsed();
            queue.shut_down();
            for consumer in consumers {
                consumer.await.expect("no panic");
            }
            took
        });
        took
    }

    /// The same with a deque under a lock: no key is looked up, and none is ever done.
    fn bare(&self) -> Duration {
        let total = self.keys.len();
        let bare = Arc::new((
            Mutex::new(VecDeque::new()),
            Notify::new(),
            AtomicUsize::new(0),
            Notify::new(),
        ));
        let start = Instant::now();
        self.multi.block_on(async {
            let consumers: Vec<_> = (0..4)
                .map(|_| {
                    let bare = Arc::clone(&bare);
                    tokio::spawn(async move {
                        let (keys, filled, handled, all) = &*bare;
                        loop {
                            tokio::task::coop::consume_budget().await;
                            let key: Option<Key> = keys.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                            let Some(key) = key else {
                                filled.notified().await;
                                continue;
                            };
                            drop(black_box(key));
                            if handled.fetch_add(1, Ordering::Relaxed) + 1 == total {
                                all.notify_one();
                            }
                        }
                    })
                })
                .collect();
            for producer in 0..4 {
                let (bare, keys) = (Arc::clone(&bare), Arc::clone(&self.keys));
                tokio::spawn(async move {
                    for key in keys.iter().skip(producer).step_by(4) {
                        bare.0
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push_back(Arc::clone(key));
                        bare.1.notify_one();
                    }
                });
            }
            bare.3.notified().await;
            let took = start.elapsed();
            for consumer in consumers {
                consumer.abort();
            }
            took
        })
    }

    fn after(&self) -> Duration {
        let queue = queue();
        self.single.block_on(unconstrained(async {
            let start = Instant::now();
            for (number, key) in (0_u64..).zip(&*self.keys) {
                queue.add_after(key, Duration::from_micros(1 + number * 7919 % 1000));
            }
            for _ in 0..self.keys.len() {
                got(&queue).await.done();
            }
            start.elapsed()
        }))
    }

    fn limiter(&self) -> Duration {
        let limiter = ExponentialFailure::default();
        let mut sum = Duration::ZERO;
        let start = Instant::now();
        for key in &*self.keys {
            sum += limiter.when(key);
            limiter.forget(key);
        }
        let took = start.elapsed();
        let expected = Duration::from_millis(5) * u32::try_from(self.keys.len()).unwrap_or(0);
        assert_eq!(sum, expected, "the limiter is another one than was meant");
        took
    }
}
