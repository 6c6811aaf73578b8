//! The queue under the model checker: every model is a handful of threads that the checker interleaves at each lock, half of
//! the schedules at random and half by priorities. A wake-up that is lost shows as a deadlock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use super::consumer::Consumer;
use super::core::{Finish, Look, Take};
use super::time::Tick;
use super::{Item, Timings, WorkQueue};
use crate::sync::Mutex;
use crate::sync::checked::model;

/// Schedules of each model in a plain test run; CI asks for many more.
const SCHEDULES: usize = 200;

fn queue() -> WorkQueue<u32> {
    WorkQueue::builder("q").timings(Timings::Off).build()
}

fn spawn<R: Send + 'static>(
    queue: &WorkQueue<u32>,
    body: impl FnOnce(WorkQueue<u32>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let queue = queue.clone();
    thread::spawn(move || body(queue))
}

/// Notes which keys are processed, and that none is by two at once.
#[derive(Clone, Default)]
struct Busy {
    keys: Arc<[AtomicBool; 8]>,
    runs: Arc<AtomicUsize>,
}

impl Busy {
    fn process(&self, item: &Item<u32>) {
        let busy = &self.keys[**item as usize];
        assert!(!busy.swap(true, SeqCst), "{} is processed twice at once", **item);
        thread::yield_now();
        busy.store(false, SeqCst);
        self.runs.fetch_add(1, SeqCst);
    }
}

// [Q1] [Q16] every key reaches a consumer, whichever way adds and waits cross: no shut-down helps the sleepers
#[test]
fn model_adds_amid_waits() {
    model(SCHEDULES, || {
        let queue = queue();
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                spawn(&queue, |queue| {
                    block_on(async {
                        let first = queue.get().await.unwrap();
                        let key = *first;
                        [key, *first.next().await.unwrap()]
                    })
                })
            })
            .collect();
        let producers = [[1, 2], [3, 4]].map(|keys| {
            spawn(&queue, move |queue| {
                for key in keys {
                    queue.add(&key);
                }
            })
        });
        for producer in producers {
            producer.join().unwrap();
        }
        let mut got: Vec<u32> = consumers.into_iter().flat_map(|one| one.join().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3, 4]);
        queue.with_core(|core| {
            core.check_invariants();
            assert_eq!(core.sleepers(), 0);
        });
    });
}

// [Q1] [Q2] adds of one key amid its runs: never two at once, and each accepted add is one run
#[test]
fn model_adds_amid_runs_of_the_same_key() {
    model(SCHEDULES, || {
        let (queue, busy) = (queue(), Busy::default());
        let consumers: Vec<_> = (0..2)
            .map(|number| {
                let busy = busy.clone();
                spawn(&queue, move |queue| {
                    block_on(async {
                        let mut next = queue.get().await;
                        while let Some(item) = next {
                            busy.process(&item);
                            next = if number == 0 {
                                item.next().await
                            } else {
                                item.done();
                                queue.get().await
                            };
                        }
                    });
                })
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                spawn(&queue, |queue| {
                    for _ in 0..3 {
                        queue.add(&7);
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.join().unwrap();
        }
        queue.shut_down();
        for consumer in consumers {
            consumer.join().unwrap();
        }
        let metrics = queue.metrics();
        assert_eq!(metrics.adds_total, busy.runs.load(SeqCst) as u64);
        assert_eq!(metrics.depth, 0);
    });
}

// [Q16] a consumer that is dropped at any point passes its wake-up on
#[test]
fn model_dropped_waits() {
    model(SCHEDULES, || {
        let queue = queue();
        let fickle = spawn(&queue, |queue| {
            let mut get = Box::pin(queue.get());
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..2 {
                if let Poll::Ready(item) = get.as_mut().poll(&mut cx) {
                    // Another one has to do it.
                    queue.add(&item.unwrap());
                    return;
                }
                thread::yield_now();
            }
            drop(get);
        });
        let patient = spawn(&queue, |queue| block_on(queue.get()).map(|item| *item));
        queue.add(&1);
        fickle.join().unwrap();
        assert_eq!(patient.join().unwrap(), Some(1));
        queue.with_core(|core| {
            core.check_invariants();
            assert_eq!(core.sleepers(), 0);
        });
    });
}

// [Q3] a drain ends when nothing is queued or processed, not earlier, and ends at all
#[test]
fn model_drain_amid_runs() {
    model(SCHEDULES, || {
        let (queue, busy) = (queue(), Busy::default());
        queue.add(&1);
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let busy = busy.clone();
                spawn(&queue, move |queue| {
                    block_on(async {
                        while let Some(item) = queue.get().await {
                            busy.process(&item);
                        }
                    });
                })
            })
            .collect();
        let producer = spawn(&queue, |queue| {
            queue.add(&1);
            queue.add(&2);
        });
        block_on(queue.shut_down_with_drain());
        let left = queue.snapshot(8);
        assert_eq!((left.queued_total, left.processing_total), (0, 0));
        assert!(busy.runs.load(SeqCst) >= 1, "what was queued before was processed");
        producer.join().unwrap();
        for consumer in consumers {
            consumer.join().unwrap();
        }
    });
}

// [Q3] a shut-down ends every wait, that for a drain included, whichever comes first
#[test]
fn model_shut_down_ends_every_wait() {
    model(SCHEDULES, || {
        let queue = queue();
        queue.add(&1);
        let held = block_on(queue.get()).unwrap();
        let consumers: Vec<_> = (0..2)
            .map(|_| spawn(&queue, |queue| block_on(queue.get()).is_none()))
            .collect();
        let drainer = spawn(&queue, |queue| block_on(queue.shut_down_with_drain()));
        let stopper = spawn(&queue, |queue| {
            while !queue.is_shutting_down() {
                thread::yield_now();
            }
            queue.shut_down();
        });
        for consumer in consumers {
            assert!(consumer.join().unwrap());
        }
        drainer.join().unwrap();
        stopper.join().unwrap();
        held.done();
    });
}

/// A clock that one thread moves.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<(u64, Vec<Waker>)>>);

fn at(millis: u64) -> Tick {
    Tick::START.after(Duration::from_millis(millis))
}

impl Clock {
    fn now(&self) -> Tick {
        at(self.0.lock().0)
    }

    fn advance(&self) {
        let woken = {
            let mut clock = self.0.lock();
            clock.0 += 10;
            std::mem::take(&mut clock.1)
        };
        for waker in woken {
            waker.wake();
        }
    }

    /// Whether it is so late; if not, the waker is woken when the clock moves.
    fn is(&self, deadline: Tick, waker: &Waker) -> bool {
        let mut clock = self.0.lock();
        let late = at(clock.0) >= deadline;
        if !late {
            clock.1.push(waker.clone());
        }
        late
    }

    /// A consumer with this clock: what `Consumer::wait` does with tokio's.
    async fn take(&self, queue: &WorkQueue<u32>) -> (u32, Tick) {
        let mut consumer = Consumer::new(&queue.shared);
        let handout = poll_fn(|cx| {
            loop {
                match consumer.look_at(cx.waker(), self.now()) {
                    Look::Found(Take::Item(handout)) => return Poll::Ready(handout),
                    Look::Found(Take::Empty | Take::Closed) => panic!("nobody shuts down"),
                    Look::Asleep(None) => return Poll::Pending,
                    Look::Asleep(Some(deadline)) => {
                        if !self.is(deadline, cx.waker()) {
                            return Poll::Pending;
                        }
                    }
                }
            }
        })
        .await;
        let now = self.now();
        queue.with_core(|core| core.finish(handout.slot, Finish::default(), Some(now)));
        (handout.key, now)
    }
}

fn add_at(queue: &WorkQueue<u32>, clock: &Clock, key: u32, deadline: Tick) {
    let now = clock.now();
    queue.with_core(|core| core.add_at(u64::from(key), &key, 0, deadline, now));
}

// [Q4] [Q16] delayed keys reach consumers, none before its time, although only one of them keeps the time, others come and
// go, and earlier deadlines are set while they sleep
#[test]
fn model_delays_amid_waits() {
    model(SCHEDULES, || {
        let (queue, clock) = (queue(), Clock::default());
        add_at(&queue, &clock, 1, at(20));
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let clock = clock.clone();
                spawn(&queue, move |queue| block_on(clock.take(&queue)))
            })
            .collect();
        let fickle = {
            let clock = clock.clone();
            spawn(&queue, move |queue| {
                let mut take = pin!(clock.take(&queue));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..2 {
                    if let Poll::Ready((key, _)) = take.as_mut().poll(&mut cx) {
                        // Another one has to do it.
                        add_at(&queue, &clock, key, clock.now());
                        return;
                    }
                    thread::yield_now();
                }
            })
        };
        let producer = {
            let clock = clock.clone();
            spawn(&queue, move |queue| {
                add_at(&queue, &clock, 2, at(10));
                add_at(&queue, &clock, 3, clock.now());
            })
        };
        let timer = {
            let clock = clock.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    thread::yield_now();
                    clock.advance();
                }
            })
        };
        for thread in [fickle, producer, timer] {
            thread.join().unwrap();
        }
        let mut keys = Vec::new();
        for consumer in consumers {
            let (key, when) = consumer.join().unwrap();
            keys.push(key);
            assert!(when >= [at(20), at(10), at(0)][key as usize - 1], "{key} came early");
        }
        keys.sort_unstable();
        assert_eq!(keys, [1, 2, 3]);
        queue.with_core(|core| {
            core.check_invariants();
            assert_eq!(core.sleepers(), 0);
        });
    });
}
