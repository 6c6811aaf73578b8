//! The work queue on its own, no Kubernetes: jobs that succeed, fail and are retried with back-off, hang, come back on request,
//! fail for good, or are given up.
//!
//! Run it with `cargo run --example work_queue`. It prints a timeline and ends by itself after about two seconds. The jobs are in
//! `jobs.rs`: start reading there.

mod jobs;

use std::sync::Arc;

use jobs::Line;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let print = |Line { at, job, attempt, what }: Line| {
        println!("{:>6} ms  {job:<16} attempt {attempt} {what}", at.as_millis());
    };
    let metrics = jobs::run(Arc::new(print)).await?;
    println!(
        "\n{} succeeded, {} came back on request, {} attempts failed ({} terminally, {} by timeout), {} jobs were given up; \
         {} retries",
        metrics.succeeded_total,
        metrics.requeue_after_total,
        metrics.errors_total,
        metrics.terminal_errors_total,
        metrics.timeouts_total,
        metrics.gave_up_total,
        metrics.workqueue.retries_total,
    );
    Ok(())
}
