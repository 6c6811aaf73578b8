//! Random histories of the whole work queue, on a paused clock, against the rules written naively: adds, delays, rate-limited
//! adds, waits that are dropped at any point, items that are done, dropped or requeued, shut-downs and drains.
//!
//! Every wait has a waker of its own, and is polled only when it was woken (or at random, as `select!` would): so a wake-up that
//! is lost shows as a key that stays although somebody waits.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::oracle::Oracle;
use super::{AddOptions, ExponentialFailure, Item, WorkQueue};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A waker that remembers.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        crate::sync::checked::assert_none_held();
        self.0.store(true, SeqCst);
    }
}

type Future1<T> = Pin<Box<dyn Future<Output = T>>>;

/// A wait for a key, or for the end of a drain.
struct Wait<T> {
    future: Future1<T>,
    flag: Arc<Flag>,
}

impl<T> Wait<T> {
    fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self {
            // The budget of a task would interrupt it at points that have nothing to do with the queue.
            future: Box::pin(tokio::task::unconstrained(future)),
            flag: Arc::default(),
        }
    }

    fn is_woken(&self) -> bool {
        self.flag.0.load(SeqCst)
    }

    fn poll(&mut self) -> Poll<T> {
        self.flag.0.store(false, SeqCst);
        let waker = Waker::from(Arc::clone(&self.flag));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// The first delay of the limiter in ms; the longest is eight times that.
const BASE: u64 = 3;

struct History {
    queue: WorkQueue<u32>,
    oracle: Oracle,
    random: fastrand::Rng,
    waits: Vec<Wait<Option<Item<u32>>>>,
    drains: Vec<Wait<()>>,
    items: Vec<Item<u32>>,
    failures: BTreeMap<u32, u32>,
    shut_down: bool,
    /// A shut-down that is no drain, or came after one.
    drain_over: bool,
    seed: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let limiter = ExponentialFailure::new(ms(BASE), ms(8 * BASE)).unwrap();
        Self {
            queue: WorkQueue::builder("q").rate_limiter(limiter).build(),
            oracle: Oracle::default(),
            random: fastrand::Rng::with_seed(seed),
            waits: Vec::new(),
            drains: Vec::new(),
            items: Vec::new(),
            failures: BTreeMap::new(),
            shut_down: false,
            drain_over: false,
            seed,
        }
    }

    /// A wait is polled: it must get the oracle's key, or sleep if there is none.
    fn poll(&mut self, at: usize) {
        let polled = self.waits[at].poll();
        let expected = self.oracle.take();
        match polled {
            Poll::Ready(Some(item)) => {
                assert_eq!(Some((*item, item.priority())), expected, "seed {}", self.seed);
                self.items.push(item);
                drop(self.waits.swap_remove(at));
            }
            Poll::Ready(None) => {
                assert!(self.shut_down && expected.is_none(), "seed {}", self.seed);
                drop(self.waits.swap_remove(at));
            }
            Poll::Pending => {
                assert!(!self.shut_down, "a shut-down ends waits, seed {}", self.seed);
                assert_eq!(expected, None, "a wait sleeps beside a ready key, seed {}", self.seed);
            }
        }
    }

    /// Polls what was woken until nothing is.
    fn settle(&mut self) {
        while let Some(at) = self.waits.iter().position(Wait::is_woken) {
            self.poll(at);
        }
        self.oracle.promote();
        assert!(
            self.waits.is_empty() || self.oracle.len() == 0,
            "a key is ready, somebody waits, and nobody was told, seed {}",
            self.seed
        );
        assert!(self.waits.is_empty() || !self.shut_down, "seed {}", self.seed);
        let seed = self.seed;
        let over = self.drain_over || self.oracle.is_drained();
        self.drains.retain_mut(|drain| {
            if drain.is_woken() {
                let polled = drain.poll();
                assert_eq!(polled.is_ready(), over, "seed {seed}");
                return polled.is_pending();
            }
            assert!(!over, "the drain is over, and nobody was told, seed {seed}");
            true
        });
    }

    fn any<T>(random: &mut fastrand::Rng, all: &mut Vec<T>) -> Option<T> {
        (!all.is_empty()).then(|| all.swap_remove(random.usize(..all.len())))
    }

    fn add(&mut self) {
        let (key, priority) = (self.random.u32(..6), self.random.i32(-1..=1));
        match self.random.u32(..4) {
            0 => {
                self.queue.add(&key);
                self.oracle.add(key, 0);
            }
            1 => {
                self.queue.add_with(&key, AddOptions::priority(priority));
                self.oracle.add(key, priority);
            }
            2 => {
                let delay = self.random.u64(..20);
                self.queue
                    .add_with(&key, AddOptions::priority(priority).after(ms(delay)));
                // Without a delay it is a plain add, which counts as no retry.
                if delay == 0 {
                    self.oracle.add(key, priority);
                } else {
                    self.oracle.add_after(key, priority, delay);
                }
            }
            _ => {
                let failures = self.failures.entry(key).or_default();
                self.oracle.add_after(key, 0, BASE << (*failures).min(3));
                *failures += 1;
                self.queue.add_rate_limited(&key);
            }
        }
    }

    fn end_an_item(&mut self) {
        let Some(mut item) = Self::any(&mut self.random, &mut self.items) else {
            return;
        };
        let (key, priority) = (*item, item.priority());
        if self.random.bool() {
            self.queue.forget(&key);
            self.failures.remove(&key);
        }
        let requeue = (self.random.u32(..3) == 0).then(|| self.random.u64(..15));
        if let Some(delay) = requeue {
            item.handled(1, Some(ms(delay)));
        }
        let requeue = requeue.map(|delay| (priority, delay));
        match self.random.u32(..4) {
            0 => item.done(),
            1 => drop(item),
            // Never polled: done as well.
            2 => drop(item.next()),
            _ => {
                self.waits.push(Wait::new(item.next()));
                self.oracle.done(key, requeue);
                return self.poll(self.waits.len() - 1);
            }
        }
        self.oracle.done(key, requeue);
    }

    fn wait(&mut self) {
        let queue = self.queue.clone();
        self.waits.push(Wait::new(async move { queue.get().await }));
        self.poll(self.waits.len() - 1);
    }

    fn begin_shut_down(&mut self) {
        self.shut_down = true;
        self.oracle.shut_down();
        if self.random.bool() {
            self.queue.shut_down();
            self.drain_over = true;
            return;
        }
        self.drain_over = false;
        let queue = self.queue.clone();
        let mut drain = Wait::new(async move { queue.shut_down_with_drain().await });
        let polled = drain.poll();
        assert_eq!(polled.is_ready(), self.oracle.is_drained(), "seed {}", self.seed);
        if polled.is_pending() {
            self.drains.push(drain);
        }
    }

    async fn step(&mut self) {
        match self.random.u32(..20) {
            0..=6 => self.add(),
            7..=9 => self.wait(),
            10..=13 => self.end_an_item(),
            14 => drop(Self::any(&mut self.random, &mut self.waits)),
            15 if !self.waits.is_empty() => {
                let at = self.random.usize(..self.waits.len());
                self.poll(at);
            }
            16 => drop(Self::any(&mut self.random, &mut self.drains)),
            17 if self.random.u32(..30) == 0 => self.begin_shut_down(),
            _ => {
                let millis = self.random.u64(..8);
                self.oracle.now += millis;
                tokio::time::advance(ms(millis)).await;
            }
        }
        // Half of the time the woken ones take their time, so that others overtake them, or they are dropped.
        if self.random.bool() {
            self.settle();
        }
        self.check();
    }

    fn check(&mut self) {
        self.oracle.promote();
        assert_eq!(self.queue.len(), self.oracle.len(), "seed {}", self.seed);
        let metrics = self.queue.metrics();
        assert_eq!(
            (metrics.depth, metrics.adds_total, metrics.retries_total),
            (self.oracle.depth(), self.oracle.adds, self.oracle.retries),
            "seed {}",
            self.seed
        );
        for key in 0..6 {
            let failures = self.failures.get(&key).copied().unwrap_or_default();
            assert_eq!(self.queue.num_requeues(&key), failures);
        }
        self.queue.with_core(|core| {
            core.check_invariants();
            assert!(core.sleepers() <= self.waits.len());
        });
    }
}

// [Q2] [Q3] [Q4] [Q5] [Q7] [Q15] [Q16] whatever is done to a queue, its keys come as the rules say, and no wake-up is lost
#[tokio::test(start_paused = true)]
async fn every_history_agrees_with_the_oracle() {
    let base = fastrand::u64(..);
    println!("base seed {base}");
    for round in 0..300 {
        let mut history = History::new(base.wrapping_add(round));
        for _ in 0..150 {
            history.step().await;
        }
        history.settle();
        // In the end everybody goes, and nothing is left.
        history.waits.clear();
        history.drains.clear();
        while let Some(item) = history.items.pop() {
            history.oracle.done(*item, None);
        }
        history.check();
        assert_eq!(history.queue.with_core(|core| core.sleepers()), 0);
    }
}
