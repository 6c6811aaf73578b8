//! The work queue on its own, no Kubernetes: jobs that succeed, fail and are retried with back-off, come back on request,
//! fail for good, or are given up.
//!
//! Run it with `cargo run --example workqueue`. It prints a timeline and ends by itself after about two seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use watershed::kclient::queue::{Action, AddOptions, ExponentialFailure, Queue, ReconcileError, WithJitter};

/// A job is tried so often in total.
const MAX_ATTEMPTS: u32 = 4;

/// What the jobs of this example do, decided by their names.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("the printer is out of paper")]
    OutOfPaper,
    #[error("the file is no picture")]
    NoPicture,
}

/// Prints one line per attempt.
struct Timeline {
    start: Instant,
    attempts: Mutex<HashMap<&'static str, u32>>,
}

impl Timeline {
    /// Counts an attempt of `job`; returns its number.
    fn attempt(&self, job: &'static str) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = attempts.entry(job).or_insert(0);
        *count += 1;
        *count
    }

    fn print(&self, job: &str, what: &str) {
        println!("{:>6} ms  {job:<16} {what}", self.start.elapsed().as_millis());
    }
}

/// One attempt at one job. This is all that a user of the queue has to write.
async fn work(job: &'static str, timeline: &Timeline) -> Result<Action, ReconcileError> {
    let attempt = timeline.attempt(job);
    tokio::time::sleep(Duration::from_millis(20)).await; // the work itself
    match job {
        // Fails twice, then works: the queue retries with back-off.
        "print-report" if attempt <= 2 => {
            timeline.print(job, &format!("attempt {attempt} failed: {}", JobError::OutOfPaper));
            Err(JobError::OutOfPaper.into())
        }
        // Never works: the queue gives up after MAX_ATTEMPTS.
        "print-poster" => {
            let then = if attempt == MAX_ATTEMPTS { ", given up" } else { "" };
            timeline.print(
                job,
                &format!("attempt {attempt} failed: {}{then}", JobError::OutOfPaper),
            );
            Err(JobError::OutOfPaper.into())
        }
        // Cannot ever work, and knows it: a terminal error is not retried.
        "resize-notes.txt" => {
            timeline.print(
                job,
                &format!("attempt {attempt} failed: {}, not to be retried", JobError::NoPicture),
            );
            Err(ReconcileError::from(JobError::NoPicture).terminal())
        }
        // Succeeds, and wants to run again later.
        "poll-mailbox" if attempt < 3 => {
            timeline.print(job, &format!("attempt {attempt} done, again in 500 ms"));
            Ok(Action::RequeueAfter(Duration::from_millis(500)))
        }
        _ => {
            timeline.print(job, &format!("attempt {attempt} done"));
            Ok(Action::Done)
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timeline = Arc::new(Timeline {
        start: Instant::now(),
        attempts: Mutex::default(),
    });
    let (outcomes, mut finished) = mpsc::unbounded_channel();

    // Building starts nothing.
    let queue = Queue::builder("jobs")
        .reconciler({
            let timeline = Arc::clone(&timeline);
            move |job: &'static str| {
                let (timeline, outcomes) = (Arc::clone(&timeline), outcomes.clone());
                async move {
                    let result = work(job, &timeline).await;
                    // Only this example needs to know when all is over; it counts the reconciles that came to an end.
                    let _main_has_ended = outcomes.send(());
                    result
                }
            }
        })
        // 100, 200, 400 ms, and up to a fifth more, so that jobs that failed together do not come back together.
        .rate_limiter(WithJitter::new(
            ExponentialFailure::new(Duration::from_millis(100), Duration::from_secs(5)),
            0.2,
        ))
        .max_attempts(MAX_ATTEMPTS)
        .concurrency(2)
        .build();

    for job in [
        "print-report",
        "print-poster",
        "resize-notes.txt",
        "poll-mailbox",
        "send-invoice",
    ] {
        queue.add(&job);
    }
    // The same job twice is one job; it is waiting already, and now it is more urgent.
    queue.add_with(&"send-invoice", AddOptions::priority(10));
    queue.add_after(&"nightly-backup", Duration::from_millis(800));
    println!("{} jobs are queued, one is delayed, nothing runs yet\n", queue.len());

    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { queue.run(&stop).await }
    });
    queue.synced().await?;
    timeline.print(
        "(queue)",
        "synced: every job that was queued at the start was tried once",
    );

    // 3 x print-report, 4 x print-poster, 1 x resize, 3 x poll-mailbox, 1 x send-invoice, 1 x nightly-backup
    for _ in 0..13 {
        finished.recv().await.ok_or("the queue is gone")?;
    }

    stop.cancel();
    running.await??;
    let metrics = queue.metrics();
    println!(
        "\n{} succeeded, {} came back on request, {} attempts failed ({} terminally), {} jobs were given up; {} retries",
        metrics.succeeded_total,
        metrics.requeue_after_total,
        metrics.errors_total,
        metrics.terminal_errors_total,
        metrics.gave_up_total,
        metrics.workqueue.retries_total,
    );
    Ok(())
}
