//! What a view costs: per watch event beside the same events without a view, and per change of its filter over 100,000
//! objects. The objects are tiny, so that the difference shows. Run with `cargo bench -p kube-client@0.1.0 --bench view`.
//!
//! The difference of an event is a few per cent of what decoding and applying it takes, less than what such a figure wanders in a
//! minute. So the forms take turns, in many short rounds, of which those count in which nothing else had the processor: the first
//! tenth, and the differences within a round. Criterion, which measures one after the other, gets the changes of filters, where no
//! difference is asked for.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use kube::core::{ApiResource, GroupVersionKind, Selector};
use kube_client::{
    Client, Event, FilterSubscriber, FilterSubscription, HandlerOptions, InformerOptions, ListMode, Metadata,
    NamespaceFilter, Object, ObjectFilter, Registration, Scope, View, ViewOptions, on_batch,
};
use serde::Deserialize;
use tokio::sync::{Notify, mpsc};

#[path = "support/scripted.rs"]
mod scripted;

use scripted::Server;

/// Objects in the cache while events come.
const WATCHED: u64 = 1_000;
/// Objects that a filter changes its mind about.
const FILTERED: u64 = 100_000;

#[derive(Debug, Deserialize)]
struct Tiny {
    metadata: TinyMeta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TinyMeta {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
}

impl Object for Tiny {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            namespace: Some(&self.metadata.namespace),
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            ..Metadata::default()
        }
    }
}

fn object(number: u64, version: u64) -> String {
    let namespace = if number.is_multiple_of(2) { "even" } else { "odd" };
    format!(
        r#"{{"metadata":{{"name":"object-{number}","namespace":"{namespace}","uid":"uid-{number}","resourceVersion":"{version}"}}}}"#
    )
}

fn list(objects: u64) -> Arc<Vec<Bytes>> {
    let items: Vec<String> = (0..objects).map(|number| object(number, number + 1)).collect();
    let body = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{objects}"}},"items":[{}]}}"#,
        items.join(",")
    );
    Arc::new(Bytes::from(body).chunks(64 << 10).map(Bytes::copy_from_slice).collect())
}

/// What was counted, and who waits for it.
#[derive(Default)]
struct Count {
    seen: AtomicU64,
    grown: Notify,
}

struct Rig {
    runtime: tokio::runtime::Runtime,
    client: Client,
    view: View<Tiny>,
    count: Arc<Count>,
    chunks: mpsc::UnboundedSender<Vec<Bytes>>,
    version: u64,
}

impl Rig {
    fn new(objects: u64, options: ViewOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let (server, chunks) = Server::new(&list(objects));
        let (client, view) = runtime.block_on(async {
            let client = Client::new(kube::Client::new(server, "default")).expect("inside a runtime");
            let informer = InformerOptions::default().list_mode(ListMode::Paged);
            let view = client.informers().view::<Tiny>(&(), informer, options);
            (client.clone(), view.expect("a fresh client"))
        });
        let count = Arc::new(Count::default());
        let registration = count_events(&view, &count);
        view.informer().start();
        runtime.block_on(registration.synced()).expect("synced");
        Self {
            runtime,
            client,
            view,
            count,
            chunks,
            version: 10_000_000,
        }
    }

    /// The time until the handler has seen so many events.
    fn events(&mut self, events: u32) -> Duration {
        let mut lines = Vec::new();
        for _ in 0..events {
            self.version += 1;
            let object = object(self.version % WATCHED, self.version);
            lines.push(Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n")));
        }
        let target = self.count.seen.load(Ordering::SeqCst) + u64::from(events);
        let start = Instant::now();
        self.chunks.send(lines).expect("the watch is open");
        self.wait_for(target);
        start.elapsed()
    }

    fn wait_for(&self, target: u64) {
        self.runtime.block_on(async {
            while self.count.seen.load(Ordering::SeqCst) < target {
                self.count.grown.notified().await;
            }
        });
    }

    fn end(self) {
        self.runtime.block_on(self.client.shutdown());
    }
}

fn count_events(view: &View<Tiny>, count: &Arc<Count>) -> Registration {
    let count = Arc::clone(count);
    let handler = on_batch(move |events: &[Event<Tiny>]| {
        count.seen.fetch_add(events.len() as u64, Ordering::SeqCst);
        count.grown.notify_one();
    });
    // No merging: every event is delivered.
    view.add_handler(handler, HandlerOptions::named("count").coalesce_above(usize::MAX))
}

fn both() -> ViewOptions {
    ViewOptions::default().filter(Arc::new(NamespaceFilter::new(["even", "odd"])))
}

/// Rounds in which every form has its turn, and the events of a turn.
const ROUNDS: usize = 1_000;
const EVENTS: u32 = 2_000;

fn watch_events(_: &mut Criterion) {
    let two = both().filter(Arc::new(NamespaceFilter::new(["even", "odd"])));
    let forms = [
        ("without a view", ViewOptions::default()),
        // The same once more: what shows between these two is noise.
        ("without a view, again", ViewOptions::default()),
        ("through a view", both()),
        ("through a view with two filters", two),
    ];
    let mut rigs: Vec<(&str, Rig, Vec<f64>)> = forms
        .into_iter()
        .map(|(name, options)| (name, Rig::new(WATCHED, options), Vec::new()))
        .collect();
    for (_, rig, _) in &mut rigs {
        black_box(rig.events(10 * EVENTS)); // warms it up
    }
    let turns = rigs.len();
    for round in 0..ROUNDS {
        for turn in 0..turns {
            let (_, rig, times) = &mut rigs[(round + turn) % turns];
            times.push(rig.events(EVENTS).as_secs_f64() * 1e9 / f64::from(EVENTS));
        }
    }
    let plain = rigs[0].2.clone();
    println!(
        "ns per watch event, {ROUNDS} rounds of {EVENTS}: minimum, first tenth, median; added to the first form: by the first"
    );
    println!("tenth, by the median of the differences within a round");
    for (name, rig, times) in rigs {
        let added: Vec<f64> = times.iter().zip(&plain).map(|(time, plain)| time - plain).collect();
        println!(
            "{name:<34}{:>8.0}{:>8.0}{:>8.0}{:>+8.0}{:>+8.0}",
            quantile(&times, 0),
            quantile(&times, ROUNDS / 10),
            quantile(&times, ROUNDS / 2),
            quantile(&times, ROUNDS / 10) - quantile(&plain, ROUNDS / 10),
            quantile(&added, ROUNDS / 2)
        );
        rig.end();
    }
}

fn quantile(times: &[f64], at: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    times[at]
}

/// Counts the questions.
struct Counting {
    filter: NamespaceFilter,
    asked: AtomicU64,
}

impl ObjectFilter for Counting {
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.filter.allows(kind, metadata)
    }

    fn has_synced(&self) -> bool {
        self.filter.has_synced()
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        self.filter.subscribe(subscriber)
    }
}

/// A change asks once about each object, and shows the very objects that the informer has. (They could not be cloned, either.)
fn assert_one_pass() {
    let filter = Arc::new(Counting {
        filter: NamespaceFilter::new(["even"]),
        asked: AtomicU64::new(0),
    });
    let rig = Rig::new(FILTERED, ViewOptions::default().filter(Arc::clone(&filter) as _));
    filter.asked.store(0, Ordering::SeqCst);
    filter.filter.set(["odd"]);
    assert_eq!(filter.asked.load(Ordering::SeqCst), FILTERED);
    let shown = rig.view.list(None, &Selector::default());
    assert_eq!(shown.len() as u64, FILTERED / 2);
    for object in shown {
        let cached = rig.view.informer().get(&object.metadata().key());
        assert!(cached.is_some_and(|cached| Arc::ptr_eq(&cached, &object)));
    }
    rig.end();
}

fn filter_changes(criterion: &mut Criterion) {
    assert_one_pass();
    let filter = Arc::new(NamespaceFilter::new(["even"]));
    let rig = Rig::new(FILTERED, ViewOptions::default().filter(Arc::clone(&filter) as _));
    assert_eq!(rig.view.len() as u64, FILTERED / 2);
    let mut group = criterion.benchmark_group("filter change");
    group.sample_size(20);
    let shown = [["odd"], ["even"]];
    let mut turn = 0;
    group.bench_function("100,000 objects, of which half come and half go", |bencher| {
        bencher.iter_custom(|changes| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..changes {
                let target = rig.count.seen.load(Ordering::SeqCst) + FILTERED;
                let start = Instant::now();
                filter.set(shown[turn % 2]);
                elapsed += start.elapsed();
                turn += 1;
                rig.wait_for(target);
            }
            elapsed
        });
    });
    group.finish();
    rig.end();
}

criterion_group!(benches, watch_events, filter_changes);
criterion_main!(benches);
