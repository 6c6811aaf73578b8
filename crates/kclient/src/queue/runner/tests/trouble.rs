//! Reconcilers, limiters and errors that panic, and reconciles that never return: each costs its own key, not a worker.

use super::*;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

// [Q11] a panic is an error of that item: it is retried, its neighbours go on, the worker lives
#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_its_key() {
    let calls = Calls::new();
    let first = AtomicBool::new(true);
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                // Panics outside of the future on purpose: the closure is the user's too.
                assert!(key != "bad" || !first.swap(false, Ordering::SeqCst), "on purpose");
                std::future::ready(Ok(Action::Done))
            }
        })
        .build();
    queue.add(&"bad");
    queue.add(&"good");
    let (stop, running) = start(&queue);
    assert_eq!(calls.take(3).await, [("bad", ms(0)), ("good", ms(0)), ("bad", ms(5))]);
    queue.synced().await.unwrap();
    assert!(calls.none_for(ms(100)).await);
    let metrics = queue.metrics();
    assert_eq!(
        (metrics.panics_total, metrics.errors_total, metrics.succeeded_total),
        (1, 1, 2)
    );
    assert_eq!(metrics.active_workers, 0);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q11] a rate limiter that panics costs a second, not the worker
#[tokio::test(start_paused = true)]
async fn a_panicking_limiter_delays_the_retry_by_a_second() {
    struct Broken;
    impl RateLimiter<&'static str> for Broken {
        fn when(&self, _: &&'static str) -> Duration {
            panic!("when");
        }
        fn forget(&self, _: &&'static str) {
            panic!("forget");
        }
        fn num_requeues(&self, _: &&'static str) -> u32 {
            0
        }
    }
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler(failing(&calls, 1))
        .rate_limiter(Broken)
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    assert_eq!(calls.take(2).await, [("a", ms(0)), ("a", ms(1000))]);
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(queue.metrics().succeeded_total, 1);
}

// [Q11] an error whose text cannot be made, and a key that cannot be shown, cost no worker
#[tokio::test(start_paused = true)]
async fn texts_that_panic_end_no_worker() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Key(u32);

    impl fmt::Debug for Key {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text")
        }
    }

    #[derive(Debug)]
    struct Failure;

    impl fmt::Display for Failure {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text")
        }
    }

    impl std::error::Error for Failure {}

    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |Key(number)| {
                calls.record(number);
                async { Err(Failure.into()) }
            }
        })
        .build();
    queue.add(&Key(1));
    let (stop, running) = start(&queue);
    // The first try and a retry.
    assert_eq!(
        calls.take(2).await.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        [1, 1]
    );
    queue.synced().await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q11] a reconcile that takes longer than the timeout is dropped, and is an error of its key: counted, retried with back-off
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_never_returns_times_out() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
    let _logged = tracing::subscriber::set_default(subscriber);
    let (calls, dropped) = (Calls::new(), Arc::new(AtomicUsize::new(0)));
    let queue = Queue::builder("q")
        .reconciler({
            let (calls, dropped) = (Arc::clone(&calls), Arc::clone(&dropped));
            move |key: &'static str| {
                let (calls, dropped) = (Arc::clone(&calls), Dropped(Arc::clone(&dropped)));
                async move {
                    let _dropped = dropped;
                    calls.record(key);
                    match key {
                        "hangs" => std::future::pending().await,
                        _ => tokio::time::sleep(ms(999)).await,
                    }
                    Ok(Action::Done)
                }
            }
        })
        .timeout(ms(1000))
        .max_attempts(2)
        .build();
    queue.add(&"hangs");
    queue.add(&"slow");
    let (stop, running) = start(&queue);
    assert_eq!(
        calls.take(3).await,
        // The retry is 5 ms after the first failure, but the only worker is busy with `slow` until then.
        [("hangs", ms(0)), ("slow", ms(1000)), ("hangs", ms(1999))]
    );
    assert!(calls.none_for(Duration::from_hours(1)).await, "two attempts");
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    let metrics = queue.metrics();
    assert_eq!(
        (
            metrics.timeouts_total,
            metrics.errors_total,
            metrics.succeeded_total,
            metrics.gave_up_total,
            metrics.active_workers
        ),
        (2, 2, 1, 1, 0)
    );
    assert!(queue.has_synced());
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("the reconcile did not end within 1s and was dropped"),
        "{text}"
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}

// [Q13] without a timeout, a reconcile that never returns keeps its worker and its key, and nothing else; it can be seen, and the
// stop ends it
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_never_returns_keeps_one_worker() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                let calls = Arc::clone(&calls);
                async move {
                    calls.record(key);
                    if key == "hangs" {
                        std::future::pending::<()>().await;
                    }
                    Ok(Action::RequeueAfter(ms(60_000)))
                }
            }
        })
        .concurrency(2)
        .grace(ms(10))
        .build();
    queue.add(&"hangs");
    queue.add(&"works");
    let (stop, running) = start(&queue);
    assert_eq!(calls.take(3).await[2], ("works", ms(60_000)));
    queue.add(&"hangs");
    let snapshot = queue.snapshot(10);
    assert_eq!(snapshot.processing.len(), 1);
    let hanging = &snapshot.processing[0];
    assert_eq!(
        (hanging.key, hanging.running, hanging.again_in),
        ("hangs", Some(ms(60_000)), Some(Duration::ZERO))
    );
    assert_eq!(
        snapshot
            .delayed
            .iter()
            .map(|one| (one.key, one.ready_in))
            .collect::<Vec<_>>(),
        [("works", ms(60_000))]
    );
    assert!((queue.metrics().workqueue.longest_running_processor_seconds - 60.0).abs() < 1e-9);
    assert!(!queue.has_synced(), "it is not handled");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(queue.metrics().active_workers, 0);
}

// [Q11] the payload of a panic may panic when it is dropped: the worker survives that too
#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_ends_no_worker() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("when dropped");
        }
    }
    let calls = Calls::new();
    let first = AtomicBool::new(true);
    let queue = Queue::builder("q")
        .reconciler({
            let calls = Arc::clone(&calls);
            move |key: &'static str| {
                calls.record(key);
                let first = first.swap(false, Ordering::SeqCst);
                async move {
                    if first {
                        std::panic::panic_any(Bomb);
                    }
                    Ok(Action::Done)
                }
            }
        })
        .build();
    queue.add(&"a");
    let (stop, running) = start(&queue);
    assert_eq!(calls.take(2).await, [("a", ms(0)), ("a", ms(5))]);
    queue.synced().await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(queue.metrics().panics_total, 1);
}
