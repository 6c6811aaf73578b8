//! What a recorder sees of a queue's life, value by value.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::queue::{Action, Queue, ReconcileError, WorkQueue};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What the recorder has, by `name{label=value,…}`. Every series has the label `name=jobs`, which is left out here.
///
/// A recorder of this kind gives what came since the last look, the movement of gauges too.
fn look(recorder: &DebuggingRecorder) -> BTreeMap<String, DebugValue> {
    let seen = recorder.snapshotter().snapshot().into_vec().into_iter();
    seen.map(|(key, _, _, value)| {
        let key = key.key();
        let mut labels: BTreeMap<&str, &str> = key.labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!(labels.remove("name"), Some("jobs"), "{key}");
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        (format!("{}{labels}", key.name()), value)
    })
    .collect()
}

fn counter(value: u64) -> DebugValue {
    DebugValue::Counter(value)
}

fn gauge(value: f64) -> DebugValue {
    DebugValue::Gauge(value.into())
}

fn histogram(values: &[f64]) -> DebugValue {
    DebugValue::Histogram(values.iter().map(|value| (*value).into()).collect())
}

// [Q6] the metrics facade gets client-go's series, with its names, its label and its meaning
#[tokio::test(start_paused = true)]
async fn a_recorder_sees_client_gos_series() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = WorkQueue::new("jobs");
    queue.add(&"a");
    queue.add(&"a"); // collapses: no add
    queue.add(&"b");
    queue.add_after(&"late", ms(1000)); // a retry; no add yet, no depth
    tokio::time::advance(ms(250)).await;
    let a = queue.get().await.unwrap();
    queue.add(&"a"); // counts, in the depth too
    tokio::time::advance(ms(500)).await;
    queue.report_unfinished();
    let seen = look(&recorder);
    for (name, value) in [
        ("workqueue_depth", gauge(2.0)),
        ("workqueue_adds_total", counter(3)),
        ("workqueue_retries_total", counter(1)),
        ("workqueue_queue_duration_seconds", histogram(&[0.25])),
        ("workqueue_work_duration_seconds", histogram(&[])),
        ("workqueue_unfinished_work_seconds", gauge(0.5)),
        ("workqueue_longest_running_processor_seconds", gauge(0.5)),
    ] {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
    assert_eq!(seen.len(), 7, "{seen:?}");

    a.done();
    tokio::time::advance(ms(250)).await;
    assert_eq!(queue.len(), 3, "`late` is ready now");
    queue.report_unfinished();
    let seen = look(&recorder);
    assert_eq!(seen["workqueue_depth"], gauge(1.0), "from two to three");
    assert_eq!(seen["workqueue_adds_total"], counter(1));
    assert_eq!(seen["workqueue_work_duration_seconds"], histogram(&[0.5]));
    assert_eq!(seen["workqueue_unfinished_work_seconds"], gauge(0.0));

    // What a queue had in a gauge goes with it.
    drop(queue);
    assert_eq!(look(&recorder)["workqueue_depth"], gauge(-3.0));
}

// [Q6] two queues of one name add up, and one that ends takes back its own share only
#[test]
fn queues_of_one_name_add_up() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (one, other) = (WorkQueue::new("jobs"), WorkQueue::new("jobs"));
    one.add(&1);
    other.add(&1);
    other.add(&2);
    drop(one);
    assert_eq!(look(&recorder)["workqueue_depth"], gauge(2.0));
}

// [Q6] [Q10] [Q11] what became of reconciles, by result; and the gauges of what runs are kept up to date while it runs
#[tokio::test(start_paused = true)]
async fn a_recorder_sees_how_reconciles_end() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = Queue::builder("jobs")
        .reconciler(|key: &'static str| async move {
            match key {
                "again" => Ok(Action::RequeueAfter(Duration::from_hours(24))),
                "fails" => Err(ReconcileError::msg("no")),
                "fails for good" => Err(ReconcileError::msg("no").terminal()),
                "panics" => panic!("on purpose"),
                "hangs" => std::future::pending().await,
                _ => Ok(Action::Done),
            }
        })
        .max_attempts(2)
        .timeout(ms(1600))
        .concurrency(2)
        .build();
    for key in ["done", "again", "fails", "fails for good", "panics", "hangs"] {
        queue.add(&key);
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { queue.run(&stop).await }
    });
    tokio::time::sleep(ms(1550)).await;
    let seen = look(&recorder);
    assert_eq!(
        seen["workqueue_longest_running_processor_seconds"],
        gauge(1.5),
        "brought up to date every half second"
    );
    assert_eq!(seen["watershed_queue_active_workers"], gauge(1.0));
    assert_eq!(seen["workqueue_depth"], gauge(0.0));
    for (result, count) in [
        ("done", 1),
        ("requeue_after", 1),
        ("error", 2),
        ("terminal_error", 1),
        ("panic", 2),
        ("timeout", 0),
    ] {
        let name = format!("watershed_queue_reconciles_total{{result={result}}}");
        assert_eq!(seen[&name], counter(count), "{name}");
    }
    assert_eq!(seen["watershed_queue_gave_up_total"], counter(2));

    tokio::time::sleep(ms(3000)).await;
    let seen = look(&recorder);
    assert_eq!(seen["watershed_queue_reconciles_total{result=timeout}"], counter(2));
    assert_eq!(seen["watershed_queue_gave_up_total"], counter(1));
    assert_eq!(seen["watershed_queue_active_workers"], gauge(-1.0), "from one to none");
    assert_eq!(queue.metrics().errors_total, 7);
    stop.cancel();
    running.await.unwrap().unwrap();
}

// The documentation for users names every metric.
#[test]
fn every_metric_is_documented() {
    let text = include_str!("../../../../../docs/metrics.md");
    for (name, ..) in DESCRIPTIONS {
        assert!(
            text.contains(&format!("`{name}`")),
            "{name} is missing in docs/metrics.md"
        );
    }
}
