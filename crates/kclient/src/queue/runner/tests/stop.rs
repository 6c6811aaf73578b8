//! The end of a queue: stopped, drained, dropped, or never run.

use super::*;

// [Q12] after the stop nothing new is started; what runs is told and gets to its end; the rest is discarded
#[tokio::test(start_paused = true)]
async fn stop_ends_the_running_and_discards_the_rest() {
    let calls = Calls::new();
    let queue = Queue::builder("q")
        .reconciler_with_stop({
            let calls = Arc::clone(&calls);
            move |key: &'static str, stop| {
                let calls = Arc::clone(&calls);
                async move {
                    calls.record(key);
                    stop.cancelled().await;
                    tokio::time::sleep(ms(100)).await; // cleaning up
                    calls.record("ended");
                    Err(ReconcileError::msg("would be retried"))
                }
            }
        })
        .build();
    queue.add(&"running");
    queue.add(&"queued");
    queue.add_after(&"delayed", ms(50));
    let (stop, running) = start(&queue);
    assert_eq!(calls.next().await.0, "running");
    stop.cancel();
    assert!(!queue.is_closed());
    running.await.unwrap().unwrap();
    assert!(queue.is_closed());
    assert_eq!(calls.next().await, ("ended", ms(100)));
    queue.add(&"after");
    assert!(queue.is_empty());
    assert!(calls.none_for(Duration::from_hours(1)).await);
    assert_eq!(queue.metrics().workqueue.depth, 0);
}

// [Q12] a reconcile that does not end within the grace period is dropped
#[tokio::test(start_paused = true)]
async fn the_grace_period_ends_stubborn_reconciles() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    for (builder, grace) in [
        (Queue::builder("default"), Duration::from_secs(30)),
        (Queue::builder("short").grace(ms(200)), ms(200)),
    ] {
        let dropped = Arc::new(AtomicBool::new(false));
        let queue = builder
            .reconciler({
                let dropped = Arc::clone(&dropped);
                move |_: u8| {
                    let dropped = Dropped(Arc::clone(&dropped));
                    async move {
                        let _dropped = dropped;
                        std::future::pending().await
                    }
                }
            })
            .build();
        queue.add(&1);
        let (stop, running) = start(&queue);
        while queue.metrics().active_workers == 0 {
            tokio::task::yield_now().await;
        }
        let stopped = Instant::now();
        stop.cancel();
        // [Q12] wait_for_close times out with an error
        assert_eq!(queue.wait_for_close(ms(100)).await, Err(NotClosed { waited: ms(100) }));
        assert!(!dropped.load(Ordering::SeqCst));
        queue.wait_for_close(Duration::from_mins(1)).await.unwrap();
        assert_eq!(stopped.elapsed(), grace);
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(queue.metrics().active_workers, 0);
        running.await.unwrap().unwrap();
    }
}

// [Q12] drain_on_stop: what is ready is still reconciled, what is delayed or would be retried is not
#[tokio::test(start_paused = true)]
async fn drain_on_stop_reconciles_what_is_ready() {
    let calls = Calls::new();
    let gate = Arc::new(Notify::new());
    let queue = Queue::builder("q")
        .reconciler({
            let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
            move |key: &'static str| {
                let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
                async move {
                    calls.record(key);
                    gate.notified().await;
                    if key == "fails" {
                        Err(ReconcileError::msg("no"))
                    } else {
                        Ok(Action::Done)
                    }
                }
            }
        })
        .drain_on_stop(true)
        .build();
    for key in ["a", "fails", "b"] {
        queue.add(&key);
    }
    queue.add_after(&"delayed", ms(1));
    let (stop, running) = start(&queue);
    assert_eq!(calls.next().await.0, "a");
    queue.add(&"a"); // dirty: wanted again
    stop.cancel();
    for expected in ["fails", "b", "a"] {
        gate.notify_one();
        assert_eq!(calls.next().await.0, expected);
    }
    gate.notify_one();
    running.await.unwrap().unwrap();
    assert!(calls.none_for(Duration::from_hours(1)).await);
}

// [Q12] the grace period bounds a drain too
#[tokio::test(start_paused = true)]
async fn the_grace_period_bounds_a_drain() {
    let queue = Queue::builder("q")
        .reconciler(|_: u32| async {
            tokio::time::sleep(ms(40)).await;
            Ok(Action::Done)
        })
        .drain_on_stop(true)
        .grace(ms(100))
        .build();
    for key in 0..10 {
        queue.add(&key);
    }
    let (stop, running) = start(&queue);
    let started = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(started.elapsed(), ms(100));
    assert_eq!(queue.metrics().succeeded_total, 2);
}

// [Q14] never run and dropped: nothing is left, neither key nor reconciler
#[tokio::test(start_paused = true)]
async fn dropping_a_queue_that_never_ran_leaks_nothing() {
    let alive = Arc::new(());
    let key = Arc::new("key".to_owned());
    let queue = Queue::builder("q")
        .reconciler({
            let alive = Arc::clone(&alive);
            move |_: Arc<String>| {
                let _alive = Arc::clone(&alive);
                async { Ok(Action::Done) }
            }
        })
        .concurrency(8)
        .build();
    queue.add(&key);
    queue.add_after(&Arc::new("later".to_owned()), ms(5));
    drop(queue);
    assert_eq!((Arc::strong_count(&alive), Arc::strong_count(&key)), (1, 1));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

// [Q14] shut down early: closed at once, never to be run; a run that is dropped leaves no task
#[tokio::test(start_paused = true)]
async fn shut_down_early_or_dropped_half_way_leaves_no_task() {
    let alive = Arc::new(());
    let build = || {
        let alive = Arc::clone(&alive);
        Queue::builder("q")
            .reconciler(move |_: u8| {
                let alive = Arc::clone(&alive);
                async move {
                    let outcome = std::future::pending().await;
                    drop(alive);
                    outcome
                }
            })
            .concurrency(3)
            .build()
    };
    let stop = CancellationToken::new();

    let queue = build();
    queue.add(&1);
    queue.shut_down();
    queue.closed().await;
    assert_eq!(queue.run(&stop).await, Err(RunError::ShutDown));
    assert!(queue.is_empty());
    drop(queue);
    assert_eq!(Arc::strong_count(&alive), 1);

    let queue = build();
    queue.add(&1);
    {
        let mut run = Box::pin(queue.run(&stop));
        assert!(futures_util::poll!(&mut run).is_pending());
        while queue.metrics().active_workers == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.run(&stop).await, Err(RunError::AlreadyStarted));
    }
    queue.wait_for_close(ms(10)).await.unwrap();
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    drop(queue);
    assert_eq!(Arc::strong_count(&alive), 1);

    // Stopped by itself instead of by its token.
    let queue = build();
    let (_stop, running) = start(&queue);
    queue.synced().await.unwrap();
    queue.shut_down();
    running.await.unwrap().unwrap();
    assert!(queue.is_closed());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

// A reconciler that never awaits does not keep the stop from being seen.
#[tokio::test(start_paused = true)]
async fn a_busy_queue_can_be_stopped() {
    let queue = Queue::builder("q")
        .reconciler(|_: u8| async { Ok(Action::RequeueAfter(Duration::ZERO)) })
        .build();
    queue.add(&1);
    let (stop, running) = start(&queue);
    queue.synced().await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(queue.metrics().requeue_after_total >= 1);
}
