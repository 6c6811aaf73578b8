//! What a recorder sees of an informer's life, value by value.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Fault, Rule, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use metrics::LocalRecorderGuard;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde_json::json;

use super::*;
use crate::event::Event;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::handler::{HandlerOptions, on_event, on_event_async};
use crate::informer::options::{InformerKey, InformerOptions, ListMode, Namespaces};
use crate::testing::{TestClient, assert_eventually, item};
use crate::{Client, Informer};

/// What this thread's recorder has seen. A snapshot of it gives what came since the one before, so they are added up here.
struct Seen {
    snapshotter: Snapshotter,
    _installed: LocalRecorderGuard<'static>,
    // By `name{label=value,…}`, without the labels `cluster` and `gvr`, which are checked.
    series: BTreeMap<String, DebugValue>,
}

impl Seen {
    /// Installs a recorder for this thread. It is leaked: the guard borrows it.
    fn begin() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        Self {
            snapshotter: recorder.snapshotter(),
            _installed: metrics::set_default_local_recorder(recorder),
            series: BTreeMap::new(),
        }
    }

    fn look(&mut self) -> &BTreeMap<String, DebugValue> {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let mut labels: BTreeMap<&str, &str> = key.labels().map(|label| (label.key(), label.value())).collect();
            assert_eq!(labels.remove("cluster"), Some("east"), "{key}");
            assert_eq!(labels.remove("gvr"), Some("configmaps/v1"), "{key}");
            let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let name = key.name().strip_prefix("watershed_informer_").unwrap();
            let series = format!("{name}{{{}}}", labels.join(","));
            match (self.series.get_mut(&series), value) {
                (Some(DebugValue::Counter(sum)), DebugValue::Counter(more)) => *sum += more,
                (Some(DebugValue::Gauge(sum)), DebugValue::Gauge(more)) => *sum += more,
                (Some(DebugValue::Histogram(all)), DebugValue::Histogram(more)) => all.extend(more),
                (_, value) => {
                    self.series.insert(series, value);
                }
            }
        }
        &self.series
    }
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

fn load(server: &FakeApiServer, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .unwrap();
}

fn client(server: &FakeApiServer) -> TestClient {
    TestClient::build_on(server, Client::builder().cluster_id("east"))
}

fn maps(client: &Client, options: InformerOptions<ConfigMap>) -> Informer<ConfigMap> {
    client
        .informers()
        .typed(options.namespaces(Namespaces::one("default")))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn recorder_sees_lists_watches_events_and_objects() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    for name in ["a", "b"] {
        load(&server, name);
    }
    server.inject(Rule::new(Fault::Latency(Duration::from_secs(2))).times(1));
    let client = client(&server);
    let informer = maps(&client, InformerOptions::default());
    let before = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    client.sync().await;
    let seen = recorded.look();
    assert_eq!(
        seen["lists_total{form=streaming,namespace=default,result=ok}"],
        counter(1)
    );
    assert_eq!(
        seen["list_duration_seconds{form=streaming,namespace=default}"],
        histogram(&[2.0])
    );
    assert_eq!(seen["watches_total{namespace=default}"], counter(1));
    assert_eq!(seen["objects{namespace=default}"], gauge(2.0));
    assert_eq!(seen["events_total{namespace=default}"], counter(0));
    let DebugValue::Gauge(moved) = seen["last_version_timestamp_seconds{namespace=default}"] else {
        panic!("not a gauge")
    };
    let after = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    assert!((before.as_secs_f64()..=after.as_secs_f64()).contains(&moved.0));

    load(&server, "c");
    assert_eventually("three maps", async || informer.len(), |len| *len == 3).await;
    let seen = recorded.look();
    assert_eq!(seen["objects{namespace=default}"], gauge(3.0));
    assert_eq!(seen["events_total{namespace=default}"], counter(1));
    assert_eq!(seen["watches_open{namespace=default}"], gauge(1.0));

    tokio::time::sleep(Duration::from_secs(10)).await;
    server.close_watches("configmaps");
    server.wait_for_requests(Verb::Watch, "configmaps", 2).await;
    let seen = recorded.look();
    assert_eq!(seen["restarts_total{namespace=default,reason=closed}"], counter(1));
    let DebugValue::Histogram(open) = &seen["watch_duration_seconds{namespace=default}"] else {
        panic!("not a histogram")
    };
    assert_eq!(open.iter().map(|open| open.0.round()).collect::<Vec<_>>(), [10.0]);
    assert_eq!(client.stats().informers[0].restarts, BTreeMap::from([("closed", 1)]));

    client.end().await;
    let seen = recorded.look();
    assert_eq!(seen["objects{namespace=default}"], gauge(0.0));
    assert_eq!(seen["watches_open{namespace=default}"], gauge(0.0));
}

#[tokio::test(start_paused = true)]
async fn recorder_sees_failures_by_reason() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    let metadata = json!({"name": "bad", "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y"}}))
        .unwrap();
    server.inject(Rule::new(Fault::status(403)).times(2));
    server.inject(Rule::new(Fault::Refuse).times(1));
    let client = client(&server);
    let never = crate::Transform::new("never", |_: &mut ConfigMap| panic!("on purpose"));
    let options = InformerOptions::default().list_mode(ListMode::Paged).transform(never);
    let informer = maps(&client, options);
    client.sync().await;
    let seen = recorded.look();
    assert_eq!(
        seen["lists_total{form=paged,namespace=default,result=error}"],
        counter(3)
    );
    assert_eq!(seen["lists_total{form=paged,namespace=default,result=ok}"], counter(1));
    assert_eq!(seen["restarts_total{namespace=default,reason=forbidden}"], counter(2));
    assert_eq!(seen["restarts_total{namespace=default,reason=unreachable}"], counter(1));
    assert_eq!(seen["decode_failures_total{namespace=default}"], counter(1));
    assert_eq!(seen["undecodable_objects{namespace=default}"], gauge(1.0));
    assert_eq!(seen["failing{namespace=default}"], gauge(0.0));
    assert_eq!(seen["objects{namespace=default}"], gauge(0.0));
    assert_eq!(
        informer.stats().restarts,
        BTreeMap::from([("forbidden", 2), ("unreachable", 1)])
    );
    client.end().await;
}

// The alerts of docs/metrics.md that tell an informer that fails for ever.
#[tokio::test(start_paused = true)]
async fn one_informer_that_always_fails_raises_the_alerts() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    server.inject(Rule::new(Fault::status(403)));
    let client = client(&server);
    let _informer = maps(&client, InformerOptions::default());
    client.start();
    tokio::time::sleep(Duration::from_mins(20)).await; // the back-off has reached its longest step
    let restarts = |seen: &BTreeMap<String, DebugValue>| match seen["restarts_total{namespace=default,reason=forbidden}"]
    {
        DebugValue::Counter(count) => count,
        ref other => panic!("not a counter: {other:?}"),
    };
    let seen = recorded.look();
    assert_eq!(seen["failing{namespace=default}"], gauge(1.0));
    let before = restarts(seen);
    tokio::time::sleep(Duration::from_mins(10)).await;
    // rate(…[10m]) > 0.01
    let more = restarts(recorded.look());
    assert!(more > 6, "{before} restarts and {more} in ten minutes");
    client.end().await;
    assert_eq!(recorded.look()["failing{namespace=default}"], gauge(0.0));
}

#[tokio::test(start_paused = true)]
async fn recorder_sees_the_queue_and_calls_of_each_handler() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = client(&server);
    let informer = maps(&client, InformerOptions::default());
    let slow = informer.add_handler(
        on_event_async(|_: Event<ConfigMap>| tokio::time::sleep(Duration::from_secs(3))),
        HandlerOptions::named("slow").coalesce_above(1),
    );
    let panics = informer.add_handler(
        on_event(|_: &Event<ConfigMap>| panic!("on purpose")),
        HandlerOptions::named("panics"),
    );
    client.sync().await;
    panics.synced().await.unwrap();
    // While the slow one handles the first, three changes of one object come: the third one makes them merge.
    load(&server, "b");
    let api = kube::Api::<ConfigMap>::namespaced(client.kube().clone(), "default");
    for value in ["1", "2"] {
        let patch = kube::api::Patch::Merge(json!({"data": {"v": value}}));
        api.patch("b", &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
        let seen = async || value_of(&informer, "b");
        assert_eventually("the value", seen, |seen| seen.as_deref() == Some(value)).await;
    }
    let seen = recorded.look();
    assert_eq!(seen["handler_queue_depth{handler=slow,namespace=default}"], gauge(1.0));
    assert_eq!(
        seen["handler_coalesced_total{handler=slow,namespace=default}"],
        counter(2)
    );
    assert_eq!(seen["handler_events_total{handler=slow,namespace=default}"], counter(0));
    slow.synced().await.unwrap();
    let handled = async || informer.stats().handlers[0].handled;
    assert_eventually("two events", handled, |handled| *handled == 2).await;
    let seen = recorded.look();
    assert_eq!(seen["handler_queue_depth{handler=slow,namespace=default}"], gauge(0.0));
    assert_eq!(seen["handler_events_total{handler=slow,namespace=default}"], counter(2));
    assert_eq!(
        seen["handler_duration_seconds{handler=slow,namespace=default}"],
        histogram(&[3.0, 3.0])
    );
    assert_eq!(
        seen["handler_panics_total{handler=panics,namespace=default}"],
        counter(4)
    );
    assert_eq!(
        seen["handler_events_total{handler=panics,namespace=default}"],
        counter(4)
    );
    client.end().await;
}

fn value_of(informer: &Informer<ConfigMap>, name: &str) -> Option<String> {
    let map = informer.get(&crate::ObjectKey::namespaced("default", name))?;
    map.data.as_ref()?.get("v").cloned()
}

// A queue that ends takes back what it added, so that handlers of one name add up.
#[tokio::test(start_paused = true)]
async fn removed_handler_takes_its_queue_out_of_the_sum() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    for name in ["a", "b", "c"] {
        load(&server, name);
    }
    let client = client(&server);
    let informer = maps(&client, InformerOptions::default());
    let stuck = || {
        informer.add_handler(
            on_event_async(|_: Event<ConfigMap>| std::future::pending()),
            HandlerOptions::named("stuck"),
        )
    };
    let streams = [(); 2].map(|()| informer.events(HandlerOptions::named("stuck")));
    let removed = stuck();
    client.sync().await;
    let mut depth = || match recorded.look()["handler_queue_depth{handler=stuck,namespace=default}"] {
        DebugValue::Gauge(depth) => depth.0,
        _ => panic!("not a gauge"),
    };
    // A handler takes a run of events at once, a stream when it is polled.
    assert_eventually(
        "the streams' events",
        async || depth(),
        |depth| (*depth - 6.0).abs() < 0.5,
    )
    .await;
    removed.remove();
    let [first, second] = streams;
    drop(first);
    assert_eq!(gauge(depth()), gauge(3.0));
    drop(second);
    assert_eq!(gauge(depth()), gauge(0.0));
    client.end().await;
}

// What was merged right before the end is counted, by the counter and by the statistics.
#[test]
fn merges_before_the_end_are_counted() {
    let mut recorded = Seen::begin();
    let resource = kube::core::ApiResource::erase::<ConfigMap>(&());
    let id = InformerKey::of::<kube::core::DynamicObject>(&resource, &InformerOptions::default()).id();
    let metrics = HandlerMetrics::new(&id, "east", "lags");
    let queue = HandlerQueue::new(HandlerOptions::named("lags").coalesce_above(0)).with_metrics(metrics);
    let updated = |version| Event::Updated {
        old: item("a", "u", version),
        new: item("a", "u", version + 1),
    };
    for version in 0..3 {
        queue.push(&vec![updated(version)].into(), 0, true).run();
    }
    queue.remove();
    assert_eq!((queue.stats().coalesced, queue.stats().queue_depth), (2, 0));
    let seen = recorded.look();
    assert_eq!(seen["handler_coalesced_total{handler=lags,namespace=}"], counter(2));
    assert!(
        !matches!(seen.get("handler_queue_depth{handler=lags,namespace=}"), Some(DebugValue::Gauge(depth)) if depth.0 != 0.0)
    );
}

#[test]
fn every_metric_is_described_once_and_named_by_convention() {
    let recorder = DebuggingRecorder::new();
    let once = Once::new();
    metrics::with_local_recorder(&recorder, || {
        describe(&once);
        describe(&once);
    });
    for (name, kind, unit, meaning) in DESCRIPTIONS {
        assert_eq!(name.ends_with("_total"), matches!(kind, Kind::Counter), "{name}");
        assert_eq!(name.ends_with("_seconds"), unit == Some(Unit::Seconds), "{name}");
        assert!(meaning.ends_with('.'), "{name}");
    }
}

// The list for users is complete, and names nothing that is not there.
#[test]
fn documentation_lists_every_metric() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `watershed_informer_")?.split('`').next())
        .collect();
    let exported: Vec<&str> = DESCRIPTIONS
        .iter()
        .map(|(name, ..)| name.strip_prefix("watershed_informer_").unwrap())
        .collect();
    assert_eq!(listed, exported);
}

// A handler that is stuck shows while it is: in the gauge by when its call began, in the statistics by how long that is ago.
#[tokio::test(start_paused = true)]
async fn call_that_does_not_return_shows() {
    let mut recorded = Seen::begin();
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = client(&server);
    let informer = maps(&client, InformerOptions::default());
    let go_on = std::sync::Arc::new(tokio::sync::Notify::new());
    let stuck = on_event_async({
        let go_on = std::sync::Arc::clone(&go_on);
        move |_: Event<ConfigMap>| std::sync::Arc::clone(&go_on).notified_owned()
    });
    let quick = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::named("quick"));
    let registration = informer.add_handler(stuck, HandlerOptions::named("stuck"));
    let _stream = informer.events(HandlerOptions::named("stream"));
    assert!(client.stats().longest_running().is_none());
    let before = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    client.sync().await;
    quick.synced().await.unwrap();
    let running = async || client.stats().informers[0].handlers[1].running_for;
    assert_eventually("the call", running, Option::is_some).await;
    tokio::time::sleep(Duration::from_mins(7)).await;
    let stats = client.stats();
    let (id, handler) = stats.longest_running().unwrap();
    assert_eq!(
        (id.resource.as_str(), handler.name.as_str()),
        ("configmaps/v1", "stuck")
    );
    let since = handler.running_for.unwrap();
    assert!((7 * 60..8 * 60).contains(&since.as_secs()), "{since:?}");
    assert_eq!(stats.informers[0].handlers[0].running_for, None);
    let started = |seen: &BTreeMap<String, DebugValue>, handler: &str| {
        let series = format!("handler_call_started_timestamp_seconds{{handler={handler},namespace=default}}");
        match seen[&series] {
            DebugValue::Gauge(at) => at.0,
            ref other => panic!("not a gauge: {other:?}"),
        }
    };
    let seen = recorded.look();
    let after = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let began = started(seen, "stuck");
    assert!((before.as_secs_f64()..=after.as_secs_f64()).contains(&began), "{began}");
    assert!(started(seen, "quick").abs() < 0.5);
    let page = serde_json::to_value(&stats).unwrap();
    let shown = page["informers"][0]["handlers"][1]["running_for"].as_f64().unwrap();
    assert!((shown - since.as_secs_f64()).abs() < 0.001, "{page}");

    go_on.notify_one();
    registration.synced().await.unwrap();
    assert_eventually("the end of the call", running, Option::is_none).await;
    assert!(started(newest(&mut recorded), "stuck").abs() < 0.5);

    // A call that the stop drops is no longer under way either.
    load(&server, "b");
    assert_eventually("the next call", running, Option::is_some).await;
    assert!(started(newest(&mut recorded), "stuck") >= began);
    client.end().await;
    assert!(started(newest(&mut recorded), "stuck").abs() < 0.5);
}

/// The last value of each gauge: a time is set, not added to.
fn newest(seen: &mut Seen) -> &BTreeMap<String, DebugValue> {
    seen.series.clear();
    seen.look()
}

/// A metrics recorder that panics whatever it is asked for.
#[derive(Debug)]
struct Broken;

impl Recorder for Broken {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }

    fn describe_gauge(&self, _: metrics::KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }

    fn describe_histogram(&self, _: metrics::KeyName, _: Option<Unit>, _: SharedString) {
        panic!("on purpose");
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        panic!("on purpose");
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("on purpose");
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("on purpose");
    }
}

// [I39] neither who registers and starts, nor the informer, notices a recorder that panics whenever it is asked for a metric
#[tokio::test(start_paused = true)]
async fn recorder_that_panics_at_the_start_reaches_nobody() {
    let _guard = metrics::set_default_local_recorder(&Broken);
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = client(&server);
    let informer = maps(&client, InformerOptions::default());
    let early = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::named("early"));
    client.start();
    client.sync().await;
    let late = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::named("late"));
    early.synced().await.unwrap();
    late.synced().await.unwrap();
    late.remove();
    let stats = informer.stats();
    assert_eq!((stats.objects, stats.failures, stats.handlers.len()), (1, 0, 1));
    client.end().await;
}

/// A gauge that panics when it goes down, as at an end.
struct OneWay;

impl metrics::GaugeFn for OneWay {
    fn increment(&self, by: f64) {
        assert!(by >= 0.0, "on purpose");
    }

    fn decrement(&self, _: f64) {
        panic!("on purpose");
    }

    fn set(&self, _: f64) {}
}

// [I39] gauges that panic as they are taken back, several of one informer, do not abort the process as they are dropped; nor
// do those of a handler reach who removes it
#[tokio::test(start_paused = true)]
async fn gauges_that_panic_at_the_end_reach_nobody() {
    let id = InformerKey::of::<ConfigMap>(&(), &InformerOptions::default()).id();
    let gauge = || Gauge::from_arc(std::sync::Arc::new(OneWay));
    let mut informer = InformerMetrics::new(&id, "east", None);
    informer.objects = Share::new(gauge());
    informer.failing = Share::new(gauge());
    informer.undecodable = Share::new(gauge());
    informer.cached(3);
    informer.failing(true);
    informer.left_out(2);
    drop(informer);
    let metrics = HandlerMetrics {
        queue_depth: gauge(),
        ..HandlerMetrics::default()
    };
    let queue = HandlerQueue::new(HandlerOptions::named("doomed")).with_metrics(metrics);
    let added = Event::Added {
        object: item("a", "u", 1),
        initial: false,
    };
    queue.push(&vec![added].into(), 0, true).run();
    queue.report();
    queue.remove();
    assert!(queue.is_ended());
}
