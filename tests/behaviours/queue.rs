//! The example of the work queue, as a test: what becomes of each of its jobs, and when.

#[path = "../../examples/work_queue/jobs.rs"]
mod jobs;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::{BACK_OFF, JITTER, Line, MAX_ATTEMPTS, TIMEOUT};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// [Q7] [Q10] [Q11] retries with back-off, requeues, a timeout, a terminal error, a give-up, each at its time
#[tokio::test(start_paused = true)]
async fn the_jobs_of_the_example_end_as_they_should() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let metrics = jobs::run(Arc::new(move |line| sink.lock().unwrap().push(line)))
        .await
        .unwrap();
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(
        lines[0],
        Line {
            at: ms(20),
            job: "send-invoice",
            attempt: 1,
            what: "done".to_owned()
        },
        "the most urgent one is the first"
    );
    let mut jobs: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in &lines {
        let attempts = jobs.entry(line.job).or_default();
        attempts.push(line);
        assert_eq!(line.attempt as usize, attempts.len());
    }
    let ends: BTreeMap<&str, (usize, &str)> = jobs
        .iter()
        .map(|(job, lines)| (*job, (lines.len(), &*lines[lines.len() - 1].what)))
        .collect();
    let expected = [
        ("nightly-backup", 1, "done"),
        ("poll-mailbox", 3, "done"),
        (
            "print-poster",
            MAX_ATTEMPTS as usize,
            "failed: the printer is out of paper, given up",
        ),
        ("print-report", 3, "done"),
        (
            "resize-notes.txt",
            1,
            "failed: the file is no picture, not to be retried",
        ),
        ("scan-negative", 2, "done"),
        ("send-invoice", 1, "done"),
    ];
    assert_eq!(
        ends,
        expected.map(|(job, attempts, what)| (job, (attempts, what))).into()
    );

    // Waits are as long as the queue was told, a little longer if both workers were busy: at most as long as an attempt hangs.
    let waits = |job: &str, wait: Duration, number: usize| {
        let between = jobs[job][number].at.saturating_sub(jobs[job][number - 1].at + ms(20));
        let longest = wait.mul_f64(1.0 + JITTER) + ms(60);
        assert!(
            (wait..longest).contains(&between),
            "{job}, attempt {}: {between:?} after the one before",
            number + 1
        );
    };
    for (number, factor) in [(1, 1), (2, 2), (3, 4)] {
        waits("print-poster", BACK_OFF * factor, number);
    }
    for number in [1, 2] {
        waits("print-report", BACK_OFF * (1 << (number - 1)), number);
        waits("poll-mailbox", ms(500), number);
    }
    waits("scan-negative", TIMEOUT.saturating_sub(ms(20)) + BACK_OFF, 1);
    let backup = jobs["nightly-backup"][0].at;
    assert!((ms(820)..ms(1000)).contains(&backup), "{backup:?}");

    assert_eq!(
        (
            metrics.succeeded_total,
            metrics.requeue_after_total,
            metrics.errors_total,
            metrics.terminal_errors_total,
            metrics.timeouts_total,
            metrics.gave_up_total
        ),
        (5, 2, 8, 1, 1, 1)
    );
    // Two of print-report, three of print-poster, one of scan-negative, two of poll-mailbox, and the delayed backup.
    assert_eq!(metrics.workqueue.retries_total, 9);
    assert_eq!(metrics.workqueue.depth, 0);
}
