//! Jobs that succeed, fail and are retried with back-off, hang, come back on request, fail for good, or are given up: all that
//! can become of a key in the queue. There is no Kubernetes here, and none below: the queue's feature stands alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use watershed::kclient::queue::{
    Action, AddOptions, ExponentialFailure, Queue, QueueMetrics, ReconcileError, WithJitter,
};

/// A job is tried so often in total.
pub(crate) const MAX_ATTEMPTS: u32 = 4;

/// One attempt may take so long.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);

/// The wait after the first failure; it doubles with each further one, and is lengthened by up to `JITTER`.
pub(crate) const BACK_OFF: Duration = Duration::from_millis(100);

/// Failures that happened together should not come back together.
pub(crate) const JITTER: f64 = 0.2;

/// Why a job fails.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("the printer is out of paper")]
    OutOfPaper,
    #[error("the file is no picture")]
    NoPicture,
}

/// One line of the timeline: when, which job, its how many-th attempt, what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) job: &'static str,
    pub(crate) attempt: u32,
    pub(crate) what: String,
}

/// Is told every line.
pub(crate) type Report = Arc<dyn Fn(Line) + Send + Sync>;

struct Timeline {
    start: Instant,
    attempts: Mutex<HashMap<&'static str, u32>>,
    report: Report,
    /// Told the jobs that will not run again.
    ended: mpsc::UnboundedSender<()>,
}

impl Timeline {
    /// Counts an attempt of `job`; returns its number.
    fn attempt(&self, job: &'static str) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(job).or_insert(0);
        *count += 1;
        *count
    }

    fn line(&self, job: &'static str, attempt: u32, what: impl Into<String>) {
        (self.report)(Line {
            at: self.start.elapsed(),
            job,
            attempt,
            what: what.into(),
        });
    }

    /// This was the last attempt. Only this example needs to know; a real program runs until it is stopped.
    fn end(&self) {
        // Nobody listens any more once the example ends.
        let _main_has_ended = self.ended.send(());
    }
}

/// One attempt at one job. This is all that a user of the queue has to write.
async fn work(job: &'static str, timeline: &Timeline) -> Result<Action, ReconcileError> {
    let attempt = timeline.attempt(job);
    tokio::time::sleep(Duration::from_millis(20)).await; // the work itself
    match job {
        // Fails twice, then works: the queue retries with back-off.
        "print-report" if attempt <= 2 => {
            timeline.line(job, attempt, format!("failed: {}", JobError::OutOfPaper));
            Err(JobError::OutOfPaper.into())
        }
        // Never works: the queue gives up after MAX_ATTEMPTS.
        "print-poster" => {
            let gives_up = attempt == MAX_ATTEMPTS;
            let then = if gives_up { ", given up" } else { "" };
            timeline.line(job, attempt, format!("failed: {}{then}", JobError::OutOfPaper));
            if gives_up {
                timeline.end();
            }
            Err(JobError::OutOfPaper.into())
        }
        // Cannot ever work, and knows it: a terminal error is not retried.
        "resize-notes.txt" => {
            timeline.line(
                job,
                attempt,
                format!("failed: {}, not to be retried", JobError::NoPicture),
            );
            timeline.end();
            Err(ReconcileError::from(JobError::NoPicture).terminal())
        }
        // Hangs once: the queue drops the attempt after TIMEOUT, and retries.
        "scan-negative" if attempt == 1 => {
            timeline.line(job, attempt, "hangs, until the queue drops it");
            std::future::pending().await
        }
        // Succeeds, and wants to run again later.
        "poll-mailbox" if attempt < 3 => {
            timeline.line(job, attempt, "done, again in 500 ms");
            Ok(Action::RequeueAfter(Duration::from_millis(500)))
        }
        _ => {
            timeline.line(job, attempt, "done");
            timeline.end();
            Ok(Action::Done)
        }
    }
}

/// Runs all jobs to their ends, then stops the queue; returns what it counted.
///
/// # Errors
///
/// If the queue cannot be built or run.
pub(crate) async fn run(report: Report) -> Result<QueueMetrics, Box<dyn std::error::Error + Send + Sync>> {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let timeline = Arc::new(Timeline {
        start: Instant::now(),
        attempts: Mutex::default(),
        report,
        ended,
    });

    // Building starts nothing.
    let back_off = ExponentialFailure::new(BACK_OFF, Duration::from_secs(5))?;
    let queue = Queue::builder("jobs")
        .reconciler(move |job: &'static str| {
            let timeline = Arc::clone(&timeline);
            async move { work(job, &timeline).await }
        })
        .rate_limiter(WithJitter::new(back_off, JITTER)?)
        .timeout(TIMEOUT)
        .max_attempts(MAX_ATTEMPTS)
        .concurrency(2)
        .build();

    for job in [
        "print-report",
        "print-poster",
        "resize-notes.txt",
        "scan-negative",
        "poll-mailbox",
        "send-invoice",
    ] {
        queue.add(&job);
    }
    // The same job twice is one job; it is waiting already, and now it is more urgent.
    queue.add_with(&"send-invoice", AddOptions::priority(10));
    queue.add_after(&"nightly-backup", Duration::from_millis(800));
    // What is queued and delayed, for a debug page: at most so many of each.
    let held = queue.snapshot(10);
    let jobs = held.queued_total + held.delayed_total;

    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { queue.run(&stop).await }
    });
    // Every job that was queued at the start was tried once.
    queue.synced().await?;
    for _ in 0..jobs {
        ends.recv().await.ok_or("the queue is gone")?;
    }
    stop.cancel();
    running.await??;
    Ok(queue.metrics())
}
