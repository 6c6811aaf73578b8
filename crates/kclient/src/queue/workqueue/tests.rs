//! The work queue as its users see it, on a paused clock.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt};

use tokio::time::Instant;

use super::*;
use crate::queue::FastSlow;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Everything that is ready, in order; each done at once.
fn drain<T: Clone + Eq + Hash + Send + Sync + 'static>(queue: &WorkQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.try_get().map(|item| item.key().clone())).collect()
}

// [Q1] 50 producers, 10 consumers: no key is processed by two at once, and nothing added after the shut-down is seen
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_producers_and_consumers_never_share_a_key() {
    const KEYS: usize = 50;
    let queue = WorkQueue::<usize>::new("q");
    let busy: Arc<Vec<AtomicBool>> = Arc::new((0..=KEYS).map(|_| AtomicBool::new(false)).collect());
    let processed = Arc::new(AtomicUsize::new(0));
    let consumers: Vec<_> = (0..10)
        .map(|_| {
            let (queue, busy, processed) = (queue.clone(), Arc::clone(&busy), Arc::clone(&processed));
            tokio::spawn(async move {
                while let Some(item) = queue.get().await {
                    assert_ne!(*item, KEYS, "added after the shut-down");
                    assert!(
                        !busy[*item].swap(true, Ordering::SeqCst),
                        "{} is processed twice at once",
                        *item
                    );
                    tokio::task::yield_now().await;
                    processed.fetch_add(1, Ordering::SeqCst);
                    assert!(busy[*item].swap(false, Ordering::SeqCst));
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..50)
        .map(|producer| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for round in 0..50 {
                    queue.add(&((producer + round) % KEYS));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    queue.shut_down();
    queue.add(&KEYS);
    for consumer in consumers {
        consumer.await.unwrap();
    }
    let metrics = queue.metrics();
    assert_eq!(
        processed.load(Ordering::SeqCst) as u64,
        metrics.adds_total,
        "each accepted add is one run"
    );
    assert_eq!(metrics.depth, 0);
}

// [Q2] two adds collapse
#[tokio::test(start_paused = true)]
async fn adds_of_a_waiting_key_collapse() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    queue.add(&"b");
    queue.add(&"a");
    assert_eq!(drain(&queue), ["a", "b"]);
}

// [Q2] add while processing runs once more after done; two adds while processing: once
#[tokio::test(start_paused = true)]
async fn adds_while_processing_run_once_more_after_done() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    let item = queue.get().await.unwrap();
    queue.add(&"a");
    queue.add(&"a");
    assert_eq!(queue.len(), 0, "it is processed, so it does not wait");
    assert!(queue.try_get().is_none());
    item.done();
    assert_eq!(drain(&queue), ["a"]);
    assert!(queue.is_empty());
}

// [Q3] shut_down: queued keys still drain, adds are refused, then None; delayed ones are dropped
#[tokio::test(start_paused = true)]
async fn shut_down_drains_what_is_ready_and_refuses_adds() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    queue.add_after(&"later", ms(10));
    queue.shut_down();
    assert!(queue.is_shutting_down());
    queue.add(&"b");
    queue.add_after(&"c", ms(1));
    let item = queue.get().await.unwrap();
    assert_eq!(*item, "a");
    item.done();
    assert!(queue.get().await.is_none());
    tokio::time::advance(ms(20)).await;
    assert!(queue.get().await.is_none());
}

// [Q3] shut_down wakes every consumer that waits
#[tokio::test(start_paused = true)]
async fn shut_down_ends_waiting_consumers() {
    let queue = WorkQueue::<u8>::new("q");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let queue = queue.clone();
                async move { queue.get().await.is_none() }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for consumer in waiting {
        assert!(consumer.await.unwrap());
    }
}

// [Q3] shut_down_with_drain returns only when queued and processing are both empty; a dirty key is handed out again
#[tokio::test(start_paused = true)]
async fn drain_waits_for_queued_and_processed_keys() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    queue.add(&"b");
    let a = queue.get().await.unwrap();
    queue.add(&"a");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(poll!(&mut drain).is_pending());
    a.done();
    assert!(poll!(&mut drain).is_pending(), "b and the dirty a are queued");
    let b = queue.get().await.unwrap();
    let again = queue.get().await.unwrap();
    assert_eq!((*b, *again), ("b", "a"));
    b.done();
    assert!(poll!(&mut drain).is_pending(), "a is processed");
    again.done();
    assert!(poll!(&mut drain).is_ready());
    assert!(queue.get().await.is_none());
}

// [Q3] shut_down during a drain ends it; so does an empty queue from the start
#[tokio::test(start_paused = true)]
async fn shut_down_ends_a_drain() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    let item = queue.get().await.unwrap();
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(poll!(&mut drain).is_pending());
    queue.shut_down();
    assert!(poll!(&mut drain).is_ready());
    item.done();

    WorkQueue::<u8>::new("empty").shut_down_with_drain().await;
}

// [Q4] the earliest time wins: 50 ms then 70 runs once at 50; 50 then 30 runs once at 30
#[tokio::test(start_paused = true)]
async fn the_earliest_delay_wins() {
    for (first, second, expected) in [(50, 70, 50), (50, 30, 30)] {
        let queue = WorkQueue::new("q");
        let start = Instant::now();
        queue.add_after(&"a", ms(first));
        queue.add_after(&"a", ms(second));
        assert_eq!(queue.len(), 0);
        queue.get().await.unwrap().done();
        assert_eq!(start.elapsed(), ms(expected));
        tokio::time::advance(ms(1000)).await;
        assert!(queue.is_empty(), "once");
    }
}

// [Q4] order by readiness, whatever the order of the adds; what became ready earlier is ahead of a later plain add
#[tokio::test(start_paused = true)]
async fn delayed_keys_come_in_the_order_of_their_times() {
    let queue = WorkQueue::new("q");
    queue.add_after(&"c", ms(30));
    queue.add_after(&"a", ms(10));
    queue.add_after(&"b", ms(20));
    queue.add_after(&"a2", ms(10));
    tokio::time::advance(ms(25)).await;
    queue.add(&"now");
    tokio::time::advance(ms(25)).await;
    assert_eq!(drain(&queue), ["a", "a2", "b", "now", "c"]);
}

// [Q4] a later insert that is earlier fires first, also for a consumer that sleeps already
#[tokio::test(start_paused = true)]
async fn an_earlier_insert_wakes_a_sleeping_consumer_in_time() {
    let queue = WorkQueue::new("q");
    let start = Instant::now();
    queue.add_after(&"late", ms(1000));
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move { (*queue.get().await.unwrap(), Instant::now()) }
    });
    tokio::task::yield_now().await;
    queue.add_after(&"early", ms(50));
    assert_eq!(consumer.await.unwrap(), ("early", start + ms(50)));
}

// [Q4] zero is immediate, and a delay that no clock can add is simply far away
#[tokio::test(start_paused = true)]
async fn extreme_delays_are_immediate_or_far_away() {
    let queue = WorkQueue::new("q");
    queue.add_after(&"now", Duration::ZERO);
    queue.add_after(&"never", Duration::MAX);
    assert_eq!(drain(&queue), ["now"]);
    tokio::time::advance(Duration::from_secs(1 << 20)).await;
    assert!(queue.is_empty());
}

// [Q4] several consumers sleep: each delayed key reaches one of them at its time, although only one keeps the time
#[tokio::test(start_paused = true)]
async fn a_batch_of_due_keys_wakes_as_many_consumers() {
    let queue = WorkQueue::new("q");
    let start = Instant::now();
    let consumers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let item = queue.get().await.unwrap();
                (*item, start.elapsed())
            })
        })
        .collect();
    tokio::task::yield_now().await;
    for key in 0..3 {
        queue.add_after(&key, ms(100));
    }
    queue.add_after(&3, ms(50));
    queue.add_after(&4, ms(200));
    let mut got = Vec::new();
    for consumer in consumers {
        got.push(consumer.await.unwrap());
    }
    got.sort_unstable();
    assert_eq!(
        got,
        [(0, ms(100)), (1, ms(100)), (2, ms(100)), (3, ms(50)), (4, ms(200))]
    );
}

// [Q5] add_rate_limited waits as the limiter says; forget starts anew
#[tokio::test(start_paused = true)]
async fn rate_limited_adds_follow_the_limiter() {
    let queue = WorkQueue::builder("q")
        .rate_limiter(FastSlow::new(ms(5), ms(500), 1).unwrap())
        .build();
    let start = Instant::now();
    queue.add_rate_limited(&"a");
    queue.get().await.unwrap().done();
    assert_eq!((start.elapsed(), queue.num_requeues(&"a")), (ms(5), 1));
    queue.add_rate_limited(&"a");
    queue.get().await.unwrap().done();
    assert_eq!(start.elapsed(), ms(505));
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    queue.add_rate_limited(&"a");
    queue.get().await.unwrap().done();
    assert_eq!(start.elapsed(), ms(510));
}

// [Q6] depth, adds and retries count as client-go's do
#[tokio::test(start_paused = true)]
async fn counters_have_client_gos_meaning() {
    let queue = WorkQueue::new("jobs");
    let counts = || {
        let metrics = queue.metrics();
        (metrics.depth, metrics.adds_total, metrics.retries_total)
    };
    queue.add(&"a");
    queue.add(&"a");
    assert_eq!(counts(), (1, 1, 0), "a collapsed add is not counted");
    let a = queue.get().await.unwrap();
    assert_eq!(counts(), (0, 1, 0));
    queue.add(&"a");
    queue.add(&"a");
    assert_eq!(counts(), (1, 2, 0), "an add while processing counts, also in the depth");
    a.done();
    assert_eq!(counts(), (1, 2, 0), "the re-queue is no new add");
    queue.get().await.unwrap().done();
    queue.add_after(&"b", ms(10));
    assert_eq!(counts(), (0, 2, 1), "a delayed key has no depth");
    tokio::time::advance(ms(10)).await;
    assert_eq!(counts(), (1, 3, 1), "it counts when it is ready");
    queue.add_after(&"c", Duration::ZERO);
    assert_eq!(counts(), (2, 4, 2));
    queue.add_rate_limited(&"d");
    assert_eq!(counts(), (2, 4, 3));
    assert_eq!(queue.metrics().name, "jobs");
}

// [Q6] durations: queue time from add to get, work time from get to done, and what is unfinished
#[tokio::test(start_paused = true)]
async fn durations_have_client_gos_meaning() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    tokio::time::advance(ms(50)).await;
    queue.add(&"a"); // collapses: the first add counts
    let a = queue.get().await.unwrap();
    tokio::time::advance(ms(200)).await;
    queue.add(&"b");
    queue.add(&"a"); // waits from now on, although it is processed
    let b = queue.get().await.unwrap();
    tokio::time::advance(ms(100)).await;

    let metrics = queue.metrics();
    assert!(
        (metrics.unfinished_work_seconds - 0.4).abs() < 1e-9,
        "0.3 s of a and 0.1 s of b: {metrics:?}"
    );
    assert!((metrics.longest_running_processor_seconds - 0.3).abs() < 1e-9);
    a.done();
    b.done();
    let a = queue.get().await.unwrap();
    a.done();
    // Due at +10, taken at +30: it was in the queue for 20 ms.
    queue.add_after(&"late", ms(10));
    tokio::time::advance(ms(30)).await;
    queue.get().await.unwrap().done();

    let metrics = queue.metrics();
    assert_eq!(metrics.queue_duration_seconds.count, 4);
    assert_eq!(metrics.queue_duration_seconds.sum, ms(50) + ms(0) + ms(100) + ms(20));
    assert_eq!(metrics.work_duration_seconds.count, 4);
    assert_eq!(metrics.work_duration_seconds.sum, ms(300) + ms(100));
    assert!(metrics.unfinished_work_seconds.abs() < 1e-9, "nothing is in process");
    let up_to_100_ms: Vec<_> = metrics
        .work_duration_seconds
        .buckets()
        .filter(|(bound, _)| (*bound - 0.1).abs() < 1e-9)
        .collect();
    assert_eq!(up_to_100_ms, [(0.1, 3)], "0, 0 and 100 ms; 300 ms is above");
}

// [Q6] without timings the counters still count
#[tokio::test(start_paused = true)]
async fn timings_can_be_off() {
    let queue = WorkQueue::builder("q").timings(Timings::Off).build();
    queue.add(&"a");
    queue.add_after(&"b", ms(5));
    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    let metrics = queue.metrics();
    assert_eq!((metrics.adds_total, metrics.retries_total), (2, 1));
    assert_eq!(
        (
            metrics.queue_duration_seconds.count,
            metrics.work_duration_seconds.count
        ),
        (0, 0)
    );
}

// [Q7] higher first, FIFO inside
#[tokio::test(start_paused = true)]
async fn higher_priorities_come_first_and_fifo_inside() {
    let queue = WorkQueue::new("q");
    for (key, priority) in [
        ("low1", -100),
        ("mid1", 0),
        ("high1", 7),
        ("low2", -100),
        ("mid2", 0),
        ("high2", 7),
    ] {
        queue.add_with(&key, AddOptions::priority(priority));
    }
    assert_eq!(drain(&queue), ["high1", "high2", "mid1", "mid2", "low1", "low2"]);
}

// [Q7] raising keeps one entry, at the end of its new priority; nothing lowers
#[tokio::test(start_paused = true)]
async fn raising_a_waiting_key_keeps_one_entry() {
    let queue = WorkQueue::new("q");
    queue.add_with(&"raised", AddOptions::priority(-1));
    queue.add(&"a");
    queue.add(&"b");
    queue.add(&"raised");
    queue.add_with(&"a", AddOptions::priority(-5));
    assert_eq!(queue.len(), 3);
    assert_eq!(drain(&queue), ["a", "b", "raised"]);
}

// [Q7] [Q15] ageing: under an endless stream of high priority the p-th oldest is served within 8 p hand-outs
#[tokio::test(start_paused = true)]
async fn ageing_serves_the_pth_oldest_within_8p_gets() {
    let queue = WorkQueue::new("q");
    for low in 0..10 {
        queue.add_with(&low, AddOptions::priority(-100));
    }
    let mut served = Vec::new();
    for get in 1..=100 {
        queue.add_with(&(1000 + get), AddOptions::priority(5));
        let item = queue.get().await.unwrap();
        if *item < 1000 {
            served.push((*item, get));
        }
        assert!(item.priority() == 5 || *item < 1000);
    }
    let bound: Vec<_> = (0..10).map(|p| (p, 8 * (p + 1))).collect();
    assert_eq!(served, bound);
}

// [Q7] the priority travels with a delay, and the higher of two merged adds holds
#[tokio::test(start_paused = true)]
async fn delayed_keys_keep_the_higher_priority() {
    let queue = WorkQueue::new("q");
    queue.add_with(&"low", AddOptions::priority(-3).after(ms(10)));
    queue.add_with(&"raised", AddOptions::priority(-3).after(ms(10)));
    queue.add_with(&"raised", AddOptions::priority(4).after(ms(99)));
    tokio::time::advance(ms(10)).await;
    queue.add(&"mid");
    let order: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| (*item, item.priority()))).collect();
    assert_eq!(order, [("raised", 4), ("mid", 0), ("low", -3)]);
}

// [Q8] a key that was handed out and is done is dropped; so are the keys of a dropped or discarded queue
#[tokio::test(start_paused = true)]
async fn done_keys_are_dropped() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Key(Arc<str>);
    let key = |text: &str| {
        let key: Arc<str> = text.into();
        (Arc::downgrade(&key), Key(key))
    };
    let queue = WorkQueue::new("q");
    let (weak, strong) = key("done");
    queue.add(&strong);
    drop(strong);
    let item = queue.get().await.unwrap();
    assert!(weak.upgrade().is_some());
    item.done();
    assert!(weak.upgrade().is_none());

    let (ready, strong) = key("ready");
    queue.add(&strong);
    let (delayed, strong2) = key("delayed");
    queue.add_after(&strong2, ms(5));
    drop((strong, strong2));
    assert_eq!(queue.discard(), 2);
    assert!(ready.upgrade().is_none() && delayed.upgrade().is_none());

    let queue = WorkQueue::new("q2");
    let (weak, strong) = key("queued");
    queue.add(&strong);
    drop((strong, queue));
    assert!(weak.upgrade().is_none());
}

// [Q15] one entry per key: an earlier add consumes the delayed one
#[tokio::test(start_paused = true)]
async fn an_add_consumes_the_delayed_entry() {
    let queue = WorkQueue::new("q");
    queue.add_after(&"a", ms(50));
    queue.add(&"a");
    assert_eq!(drain(&queue), ["a"]);
    tokio::time::advance(ms(100)).await;
    assert_eq!(drain(&queue), [] as [&str; 0], "client-go would run it again");

    // And the other way round: what is queued already needs no delayed entry.
    queue.add(&"b");
    queue.add_after(&"b", ms(50));
    assert_eq!(drain(&queue), ["b"]);
    tokio::time::advance(ms(100)).await;
    assert!(queue.is_empty());
}

// [Q15] a delay given while the key is processed starts to count at once, and waits for done
#[tokio::test(start_paused = true)]
async fn a_delay_set_while_processing_holds_after_done() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    let item = queue.get().await.unwrap();
    queue.add_after(&"a", ms(50));
    tokio::time::advance(ms(60)).await;
    assert_eq!(queue.len(), 0, "due, but processed");
    item.done();
    assert_eq!(queue.len(), 1);

    let item = queue.get().await.unwrap();
    queue.add_after(&"a", ms(50));
    item.done();
    assert_eq!(queue.len(), 0);
    tokio::time::advance(ms(50)).await;
    assert_eq!(queue.len(), 1);
}

// [Q16] dropping the future of `get` at any poll loses no key and no wake-up
#[tokio::test(start_paused = true)]
async fn dropping_get_at_any_poll_loses_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let queue = WorkQueue::new("q");
        let mut pending: Vec<BoxFuture<'static, Option<Item<u32>>>> = Vec::new();
        let mut got = HashSet::new();
        let mut added = 0;
        for _ in 0..40 {
            match random.u32(..5) {
                0 => {
                    let queue = queue.clone();
                    pending.push(Box::pin(async move { queue.get().await }));
                }
                1 => {
                    queue.add(&added);
                    added += 1;
                }
                2 => {
                    queue.add_after(&added, ms(random.u64(1..30)));
                    added += 1;
                }
                3 if !pending.is_empty() => drop(pending.swap_remove(random.usize(..pending.len()))),
                _ => tokio::time::advance(ms(random.u64(..10))).await,
            }
            let index = if pending.is_empty() {
                0
            } else {
                random.usize(..pending.len())
            };
            if let Some(future) = pending.get_mut(index)
                && let std::task::Poll::Ready(item) = poll!(future)
            {
                assert!(got.insert(*item.unwrap()), "handed out twice, seed {seed}");
                drop(pending.swap_remove(index));
            }
        }
        // The consumers that are left get all the rest, at the latest when the last delay is over. They are all driven: one
        // that was woken may not rest, because the wake-up is its own.
        while pending.len() + got.len() < added as usize {
            let queue = queue.clone();
            pending.push(Box::pin(async move { queue.get().await }));
        }
        let mut pending: FuturesUnordered<_> = pending.into_iter().collect();
        while got.len() < added as usize {
            let item = tokio::time::timeout(Duration::from_secs(1), pending.next()).await;
            let item = item.unwrap_or_else(|_| panic!("a key or a wake-up was lost, seed {seed}"));
            assert!(got.insert(*item.unwrap().unwrap()), "handed out twice, seed {seed}");
        }
        drop(pending);
        queue.with_core(|core| core.check_invariants());
    }
}

// [Q16] timers and wake-ups that cross each other lose nothing: every key reaches a consumer, although consumers come and go
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn crossing_timers_and_wake_ups_lose_nothing() {
    const KEYS: usize = 20_000;
    let queue = WorkQueue::new("q");
    let received = Arc::new(AtomicUsize::new(0));
    let consumers: Vec<_> = (0..6)
        .map(|consumer| {
            let (queue, received) = (queue.clone(), Arc::clone(&received));
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(consumer);
                loop {
                    // Half of the consumers give up now and then, at any point of their wait.
                    let patience = if consumer % 2 == 0 { 100_000 } else { random.u64(1..500) };
                    match tokio::time::timeout(Duration::from_micros(patience), queue.get()).await {
                        Ok(Some(_item)) => {
                            received.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(None) => return,
                        Err(_gave_up) => {}
                    }
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..2)
        .map(|producer| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(100 + producer as u64);
                for key in (producer..KEYS).step_by(2) {
                    match random.u32(..3) {
                        0 => queue.add(&key),
                        _ => queue.add_after(&key, Duration::from_micros(random.u64(1..3000))),
                    }
                    if random.u32(..20) == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    let all = async {
        while received.load(Ordering::SeqCst) < KEYS {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all)
        .await
        .expect("every key is handed out");
    queue.shut_down();
    for consumer in consumers {
        consumer.await.unwrap();
    }
    queue.with_core(|core| core.check_invariants());
}

// [Q16] the consumer that keeps the time is dropped: another takes over, so the delayed key is on time
#[tokio::test(start_paused = true)]
async fn a_dropped_timekeeper_has_a_successor() {
    let queue = WorkQueue::new("q");
    let start = Instant::now();
    queue.add_after(&"a", ms(50));
    let mut keeper = Box::pin(queue.get());
    assert!(poll!(&mut keeper).is_pending());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    drop(keeper);
    assert_eq!(other.await.unwrap(), Some("a"));
    assert_eq!(start.elapsed(), ms(50));
}

// [Q16] the timekeeper leaves with a key: another consumer takes over
#[tokio::test(start_paused = true)]
async fn a_served_timekeeper_has_a_successor() {
    let queue = WorkQueue::new("q");
    let start = Instant::now();
    queue.add_after(&"delayed", ms(50));
    let mut keeper = Box::pin(queue.get());
    assert!(poll!(&mut keeper).is_pending());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    queue.add(&"now");
    let item = keeper.await.unwrap();
    assert_eq!(*item, "now");
    assert_eq!(other.await.unwrap(), Some("delayed"));
    assert_eq!(start.elapsed(), ms(50));
}

// [Q16] a wake-up that reached a consumer which is then dropped goes to the next one
#[tokio::test(start_paused = true)]
async fn a_wake_up_of_a_dropped_consumer_is_passed_on() {
    let queue = WorkQueue::new("q");
    let mut first = Box::pin(queue.get());
    assert!(poll!(&mut first).is_pending());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    queue.add(&"a"); // wakes the first
    drop(first);
    assert_eq!(second.await.unwrap(), Some("a"));
}

// [Q16] dropping an item is done, also by a panic
#[tokio::test(start_paused = true)]
async fn dropping_an_item_is_done() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    let item = queue.get().await.unwrap();
    queue.add(&"a");
    let worker = tokio::spawn(async move {
        let _item = item;
        panic!("on purpose");
    });
    assert!(worker.await.is_err());
    assert_eq!(drain(&queue), ["a"]);
}

// [Q16] adds work outside of a runtime, with delays too, and wake a consumer inside of one
#[test]
fn adds_work_outside_of_a_runtime() {
    let queue = WorkQueue::new("q");
    queue.add(&"a");
    queue.add_after(&"b", ms(1));
    queue.add_after(&"never", Duration::MAX);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let consumer = std::thread::spawn({
        let queue = queue.clone();
        move || {
            runtime.block_on(async {
                let mut keys = Vec::new();
                for _ in 0..3 {
                    keys.push(*queue.get().await.unwrap());
                }
                keys
            })
        }
    });
    queue.add_after(&"c", ms(5));
    let mut keys = consumer.join().unwrap();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c"]);
}

// [Q16] dropping `next` before its first poll is done; dropping it while it waits loses nothing, and holds no key
#[tokio::test(start_paused = true)]
async fn next_is_done_and_get_in_one() {
    let queue = WorkQueue::new("q");
    let key: Arc<str> = "a".into();
    let weak = Arc::downgrade(&key);
    queue.add(&key);
    drop(key);
    let item = queue.get().await.unwrap();
    let mut next = Box::pin(item.next());
    assert!(weak.upgrade().is_some(), "not polled: not done");
    assert!(poll!(&mut next).is_pending());
    assert!(weak.upgrade().is_none(), "a worker that waits holds no key");
    queue.add(&"b".into());
    let item = next.await.unwrap();
    assert_eq!(&**item, "b");

    // Added while it is processed: it is the next.
    queue.add(&"b".into());
    let item = item.next().await.unwrap();
    assert_eq!(&**item, "b");
    drop(item.next());
    assert_eq!(queue.snapshot(1).processing_total, 0);

    queue.add(&"c".into());
    let item = queue.get().await.unwrap();
    queue.shut_down();
    assert!(item.next().await.is_none());
}

// [Q1] a worker that always finds something lets its neighbours run
#[tokio::test]
async fn a_busy_consumer_yields() {
    let queue = WorkQueue::new("q");
    let ran = Arc::new(AtomicBool::new(false));
    tokio::spawn({
        let ran = Arc::clone(&ran);
        async move { ran.store(true, Ordering::SeqCst) }
    });
    queue.add(&0);
    let mut item = queue.get().await.unwrap();
    for _ in 0..10_000 {
        queue.add(&0);
        item = item.next().await.unwrap();
    }
    item.done();
    assert!(ran.load(Ordering::SeqCst));
}

// [Q16] a queue serves any executor as long as nothing is delayed
#[test]
fn waits_need_no_runtime_without_delays() {
    let queue = WorkQueue::new("q");
    let consumer = std::thread::spawn({
        let queue = queue.clone();
        move || {
            futures_util::future::FutureExt::now_or_never(queue.get())
                .flatten()
                .map(|item| *item)
        }
    });
    assert_eq!(consumer.join().unwrap(), None::<u8>);
    queue.add(&1);
    let item = futures_util::future::FutureExt::now_or_never(queue.get()).flatten();
    assert_eq!(item.map(|item| *item), Some(1));
}
