//! The reconciling queue as its users see it, on a paused clock; its end, and reconcilers that panic or never return, have
//! files of their own.

mod stop;
mod trouble;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::queue::{ExponentialFailure, FastSlow, RateLimiter};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a queue in a task of its own.
fn start<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static>(
    queue: &Queue<T>,
) -> (CancellationToken, JoinHandle<Result<(), RunError>>) {
    let stop = CancellationToken::new();
    let (queue, token) = (queue.clone(), stop.clone());
    (stop, tokio::spawn(async move { queue.run(&token).await }))
}

/// What reconcilers tell a test: each call with its time since the start of the test.
struct Calls<T> {
    sender: mpsc::UnboundedSender<(T, Duration)>,
    receiver: tokio::sync::Mutex<mpsc::UnboundedReceiver<(T, Duration)>>,
    start: Instant,
}

impl<T> Calls<T> {
    fn new() -> Arc<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        Arc::new(Self {
            sender,
            receiver: tokio::sync::Mutex::new(receiver),
            start: Instant::now(),
        })
    }

    fn record(&self, key: T) {
        let _ = self.sender.send((key, self.start.elapsed()));
    }

    async fn next(&self) -> (T, Duration) {
        self.receiver.lock().await.recv().await.unwrap()
    }

    async fn take(&self, count: usize) -> Vec<(T, Duration)> {
        let mut calls = Vec::new();
        for _ in 0..count {
            calls.push(self.next().await);
        }
        calls
    }

    async fn none_for(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.next()).await.is_err()
    }
}

/// Fails the first `failures` calls of each key.
fn failing(
    calls: &Arc<Calls<&'static str>>,
    failures: u32,
) -> impl Fn(&'static str) -> std::future::Ready<Result<Action, ReconcileError>> + Send + Sync + 'static + use<> {
    let (calls, seen) = (Arc::clone(calls), Mutex::new(HashMap::new()));
    move |key| {
        calls.record(key);
        let mut seen = seen.lock().unwrap();
        let count = seen.entry(key).or_insert(0);
        *count += 1;
        std::future::ready(if *count <= failures {
            Err(ReconcileError::msg("not yet"))
        } else {
            Ok(Action::Done)
        })
    }
}

// [Q9] has_synced only after everything added before run was handled at least once, failed ones included
#[tokio::test(start_paused = true)]
async fn synced_after_everything_added_before_run_was_handled_once() {
    let gates: Arc<HashMap<&str, Notify>> = Arc::new(
        ["ok", "fails", "panics", "later"]
            .map(|key| (key, Notify::new()))
            .into(),
    );
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler({
            let (gates, calls) = (Arc::clone(&gates), Arc::clone(&calls));
            move |key: &'static str| {
                let (gates, calls) = (Arc::clone(&gates), Arc::clone(&calls));
                async move {
                    calls.record(key);
                    gates[key].notified().await;
                    match key {
                        "fails" => Err(ReconcileError::msg("no")),
                        "panics" => panic!("no"),
                        _ => Ok(Action::Done),
                    }
                }
            }
        })
        .rate_limiter(FastSlow::new(Duration::from_hours(1), Duration::from_hours(1), 0).unwrap())
        .build();
    for key in ["ok", "fails", "panics"] {
        queue.add(&key);
    }
    queue.add_after(&"delayed", Duration::from_hours(2)); // does not count
    assert!(!queue.has_synced(), "not before run");
    let (stop, running) = start(&queue);
    for (position, key) in ["ok", "fails", "panics"].into_iter().enumerate() {
        assert_eq!(calls.next().await.0, key);
        assert!(!queue.has_synced(), "{key}, number {position}, is not handled yet");
        if position == 0 {
            queue.add(&"later"); // added after run: does not count
        }
        gates[key].notify_one();
    }
    queue.synced().await.unwrap();
    assert!(queue.has_synced());
    assert_eq!(calls.next().await.0, "later");
    queue.add(&"ok");
    assert!(queue.has_synced(), "it never goes back");
    stop.cancel();
    gates["later"].notify_one();
    running.await.unwrap().unwrap();
    assert!(queue.has_synced());
}

// [Q9] nothing to do is synced at once; a queue that closed before is never synced
#[tokio::test(start_paused = true)]
async fn synced_at_once_if_nothing_was_added_and_never_if_it_was_discarded() {
    let build = || {
        Queue::builder("q")
            .reconciler(|_: u8| async { std::future::pending().await })
            .grace(ms(10))
            .build()
    };
    let queue = build();
    let (stop, running) = start(&queue);
    queue.synced().await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();

    let queue = build();
    queue.add(&1);
    let (stop, running) = start(&queue);
    tokio::task::yield_now().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(queue.synced().await, Err(QueueClosed));
    assert!(!queue.has_synced(), "the only key was dropped half-way");
}

// [Q10] by default retries go on with back-off until success
#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_back_off_until_success() {
    let calls = Calls::new();
    let queue = Queue::builder("q").reconciler(failing(&calls, 7)).build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    let times: Vec<_> = calls.take(8).await.into_iter().map(|(_, time)| time).collect();
    // The default limiter: 5, 10, 20, 40, 80, 160, 320 ms after one another.
    assert_eq!(times, [0, 5, 15, 35, 75, 155, 315, 635].map(ms));
    assert!(calls.none_for(Duration::from_hours(1)).await, "done is done");
    let metrics = queue.metrics();
    assert_eq!(
        (metrics.succeeded_total, metrics.errors_total, metrics.gave_up_total),
        (1, 7, 0)
    );
    assert_eq!(metrics.workqueue.retries_total, 7);

    // Success forgot the failures: the next failure starts with the shortest delay.
    assert_eq!(queue.inner.work.num_requeues(&"a"), 0);
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Collects what `tracing` writes on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// [Q10] max_attempts counts tries; give-up is logged with key and error, counted, and the item is forgotten
#[tokio::test(start_paused = true)]
async fn gives_up_after_max_attempts() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
    let _logged = tracing::subscriber::set_default(subscriber);
    let calls = Calls::new();
    let limiter = Arc::new(ExponentialFailure::new(ms(1), Duration::from_secs(1)).unwrap());
    let queue = Queue::builder("jobs")
        .reconciler(failing(&calls, u32::MAX))
        .rate_limiter(Arc::clone(&limiter))
        .max_attempts(3)
        .build();
    queue.add(&"bad");
    let (stop, running) = start(&queue);
    let times: Vec<_> = calls.take(3).await.into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [ms(0), ms(1), ms(3)], "three tries in total");
    assert!(calls.none_for(Duration::from_hours(1)).await);
    let metrics = queue.metrics();
    assert_eq!((metrics.errors_total, metrics.gave_up_total), (3, 1));
    assert_eq!(limiter.num_requeues(&"bad"), 0, "forgotten");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("giving up"))
        .expect("the give-up is logged");
    for part in ["ERROR", "\"bad\"", "not yet", "jobs", "attempts=3"] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }

    // Added anew it has all its attempts again.
    queue.add(&"bad");
    calls.take(3).await;
    assert!(calls.none_for(Duration::from_hours(1)).await);
    assert_eq!(queue.metrics().gave_up_total, 2);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q10] one attempt is no retry
#[tokio::test(start_paused = true)]
async fn one_attempt_is_no_retry() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler(failing(&calls, u32::MAX))
        .max_attempts(1)
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    calls.next().await;
    assert!(calls.none_for(Duration::from_hours(1)).await);
    assert_eq!(queue.metrics().gave_up_total, 1);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q11] RequeueAfter comes back after its time and resets the back-off
#[tokio::test(start_paused = true)]
async fn requeue_after_resets_the_back_off() {
    let calls = Calls::new();
    let round = AtomicU64::new(0);
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                // fail, fail, requeue, fail, done
                let outcome = match round.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 | 3 => Err(ReconcileError::msg("no")),
                    2 => Ok(Action::RequeueAfter(ms(1000))),
                    _ => Ok(Action::Done),
                };
                std::future::ready(outcome)
            }
        })
        .max_attempts(3)
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    let times: Vec<_> = calls.take(5).await.into_iter().map(|(_, time)| time).collect();
    assert_eq!(
        times,
        [0, 5, 15, 1015, 1020].map(ms),
        "the delay after the requeue is the first one again"
    );
    assert_eq!(queue.metrics().requeue_after_total, 1);
    assert_eq!(queue.metrics().gave_up_total, 0, "and so is the number of attempts");
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q11] a terminal error is not retried; its causes are in the log text
#[tokio::test(start_paused = true)]
async fn terminal_errors_are_not_retried() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                std::future::ready(Err(ReconcileError::from(std::io::Error::other("disk")).terminal()))
            }
        })
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    calls.next().await;
    assert!(calls.none_for(Duration::from_hours(1)).await);
    let metrics = queue.metrics();
    assert_eq!(
        (
            metrics.terminal_errors_total,
            metrics.errors_total,
            metrics.gave_up_total
        ),
        (1, 1, 0)
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q13] concurrency n: no key twice at once, n different keys at once, and has_synced is still right
#[tokio::test(start_paused = true)]
async fn concurrent_workers_never_share_a_key() {
    let running_keys = Arc::new(Mutex::new(HashSet::new()));
    let most = Arc::new(AtomicUsize::new(0));
    let handled = Arc::new(AtomicUsize::new(0));
    let queue = Queue::builder("q")
        .reconciler({
            let (running_keys, most, handled) = (Arc::clone(&running_keys), Arc::clone(&most), Arc::clone(&handled));
            move |key: u32| {
                let (running_keys, most, handled) =
                    (Arc::clone(&running_keys), Arc::clone(&most), Arc::clone(&handled));
                async move {
                    let now_running = {
                        let mut keys = running_keys.lock().unwrap();
                        assert!(keys.insert(key), "{key} runs twice at once");
                        keys.len()
                    };
                    most.fetch_max(now_running, Ordering::SeqCst);
                    tokio::time::sleep(ms(10)).await;
                    handled.fetch_add(1, Ordering::SeqCst);
                    running_keys.lock().unwrap().remove(&key);
                    Ok(Action::Done)
                }
            }
        })
        .concurrency(4)
        .build();
    for key in 0..20 {
        queue.add(&key);
    }
    let start_time = Instant::now();
    let (stop, running) = start(&queue);
    tokio::time::sleep(ms(5)).await;
    for key in 0..20 {
        queue.add(&key); // four of them run, the others wait
    }
    queue.synced().await.unwrap();
    assert_eq!(start_time.elapsed(), ms(50), "20 keys of 10 ms by 4 workers");
    assert_eq!(handled.load(Ordering::SeqCst), 20);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(
        handled.load(Ordering::SeqCst),
        24,
        "the four that ran were wanted again"
    );
    assert_eq!(most.load(Ordering::SeqCst), 4);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q13] workers run in parallel: two reconciles meet at a barrier that blocks their threads
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_use_all_cores() {
    let barrier = Arc::new(std::sync::Barrier::new(2));
    let queue = Queue::builder("q")
        .reconciler(move |_: u8| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait();
                Ok(Action::Done)
            }
        })
        .concurrency(2)
        .build();
    queue.add(&1);
    queue.add(&2);
    let stop = CancellationToken::new();
    let (run, synced) = (queue.run(&stop), queue.synced());
    tokio::join!(async { run.await.unwrap() }, async {
        synced.await.unwrap();
        stop.cancel();
    });
}

// [Q15] an external add during back-off runs at once and does not reset the failure count
#[tokio::test(start_paused = true)]
async fn an_add_during_back_off_runs_at_once_and_keeps_the_count() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler(failing(&calls, u32::MAX))
        .rate_limiter(FastSlow::new(ms(1000), ms(1000), 0).unwrap())
        .max_attempts(3)
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    assert_eq!(calls.next().await, ("a", ms(0)));
    tokio::time::sleep(ms(400)).await;
    queue.add(&"a");
    assert_eq!(calls.next().await, ("a", ms(400)), "at once");
    assert_eq!(
        calls.next().await,
        ("a", ms(1400)),
        "one entry: the next result decided the next time"
    );
    assert!(
        calls.none_for(Duration::from_hours(1)).await,
        "it was the third of three attempts"
    );
    assert_eq!(queue.metrics().gave_up_total, 1);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q15] an earlier add consumes a RequeueAfter; the next result decides the next time
#[tokio::test(start_paused = true)]
async fn an_add_consumes_a_requeue() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                std::future::ready(Ok(Action::RequeueAfter(ms(1000))))
            }
        })
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    calls.next().await;
    tokio::time::sleep(ms(300)).await;
    queue.add(&"a");
    assert_eq!(
        calls
            .take(3)
            .await
            .into_iter()
            .map(|(_, time)| time)
            .collect::<Vec<_>>(),
        [300, 1300, 2300].map(ms)
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q15] a requeue keeps its priority
#[tokio::test(start_paused = true)]
async fn a_requeue_keeps_its_priority() {
    let calls = Calls::new();
    let fail = failing(&calls, 1);
    let queue = Queue::builder("q")
        .reconciler(move |key: &'static str| {
            let outcome = fail(key);
            async move {
                // Long enough for both retries to be ready when a worker asks for the next key.
                tokio::time::sleep(ms(100)).await;
                outcome.await
            }
        })
        .build();
    queue.add_with(&"low", AddOptions::priority(-100));
    queue.add_with(&"high", AddOptions::priority(1));
    queue.add(&"mid");
    let (stop, running) = start(&queue);
    let order: Vec<_> = calls.take(6).await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(order, ["high", "mid", "high", "mid", "low", "low"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// `run` says what came first, whatever came later.
#[tokio::test(start_paused = true)]
async fn run_again_tells_what_came_first() {
    let build = || {
        Queue::<u32>::builder("q")
            .reconciler(|_| async { Ok(Action::Done) })
            .build()
    };
    let stop = CancellationToken::new();

    let queue = build();
    queue.shut_down();
    queue.shut_down();
    assert_eq!(queue.run(&stop).await, Err(RunError::ShutDown));
    assert!(queue.is_closed());

    let queue = build();
    let (stop, running) = start(&queue);
    queue.synced().await.unwrap();
    assert_eq!(queue.run(&stop).await, Err(RunError::AlreadyStarted));
    queue.shut_down();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert!(queue.is_closed());
    assert_eq!(queue.run(&stop).await, Err(RunError::AlreadyStarted), "it did run");
}

#[test]
#[should_panic(expected = "a reconcile needs some time, not a timeout of 0ns")]
fn a_timeout_of_zero_is_refused() {
    let _ = Queue::<u8>::builder("q").timeout(Duration::ZERO);
}

#[test]
#[should_panic(expected = "a key needs at least one attempt, not 0")]
fn zero_attempts_are_refused() {
    let _ = Queue::<u8>::builder("q").max_attempts(0);
}

#[test]
#[should_panic(expected = "a queue needs at least one worker, not 0")]
fn zero_workers_are_refused() {
    let _ = Queue::<u8>::builder("q").concurrency(0);
}

// [Q11] delays that no clock can add are simply far away, and a requeue after nothing is at once
#[tokio::test(start_paused = true)]
async fn extreme_requeues_are_immediate_or_far_away() {
    let calls = Calls::new();
    let round = AtomicU64::new(0);
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                let first = round.fetch_add(1, Ordering::SeqCst) == 0;
                let delay = if first { Duration::ZERO } else { Duration::MAX };
                std::future::ready(Ok(Action::RequeueAfter(delay)))
            }
        })
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    assert_eq!(calls.take(2).await, [("a", ms(0)), ("a", ms(0))]);
    assert!(
        calls.none_for(Duration::from_hours(24 * 365)).await,
        "and an idle queue sets no timer but that"
    );
    assert_eq!(queue.snapshot(1).delayed_total, 1);
    stop.cancel();
    running.await.unwrap().unwrap();
}
