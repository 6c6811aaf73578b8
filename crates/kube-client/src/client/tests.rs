//! What a client says in the log: whom it waits for, by name; what the spans carry; what is watched more than once.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Fault, Rule};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ApiResource;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

use crate::error::SyncError;
use crate::informer::handler::{HandlerOptions, on_event, on_event_async};
use crate::informer::options::{InformerOptions, Namespaces};
use crate::object::{Metadata, Object, Scope};
use crate::sync::Mutex;
use crate::testing::{ServerExt, TestClient, assert_eventually, assert_eventually_within};
use crate::{Client, Event};

/// The log of one test: everything that its thread logs while the guard lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture() -> (Self, DefaultGuard) {
        // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock())
            .lines()
            .map(|line| line.trim().to_owned())
            .collect()
    }

    fn with(&self, part: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.contains(part)).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn load(server: &FakeApiServer, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .unwrap();
}

fn east(server: &FakeApiServer) -> TestClient {
    TestClient::build_on(server, Client::builder().cluster_id("east"))
}

// [I5] a wait says every five seconds whom it waits for, by name, and no longer whom it does not
#[tokio::test(start_paused = true)]
async fn wait_for_cache_sync_names_what_is_missing_every_five_seconds() {
    let (log, _guard) = Log::capture();
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = east(&server);
    let maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let secrets = client.informers().typed::<Secret>(InformerOptions::default()).unwrap();
    let slow = maps.add_handler(
        on_event_async(|_: Event<ConfigMap>| tokio::time::sleep(Duration::from_secs(7))),
        HandlerOptions::named("slow"),
    );
    server.inject(Rule::new(Fault::Latency(Duration::from_secs(12))).resource("secrets"));
    client.start();
    let caches = [
        ("maps", maps.synced().boxed()),
        ("slow handler", slow.synced().boxed()),
        ("secrets", secrets.synced().boxed()),
    ];
    client
        .wait_for_cache_sync("startup", &CancellationToken::new(), caches)
        .await
        .unwrap();
    let waits = log.with("startup: still waiting for");
    assert_eq!(waits.len(), 2, "at 5 s and at 10 s, of 12: {waits:?}");
    assert!(
        waits[0].ends_with("startup: still waiting for slow handler, secrets cluster=\"east\""),
        "{waits:?}"
    );
    assert!(
        waits[1].ends_with("startup: still waiting for secrets cluster=\"east\""),
        "{waits:?}"
    );
    client.end().await;
}

// [I5] caches of equal names are told apart: one that has synced does not take the other's name with it
#[tokio::test(start_paused = true)]
async fn wait_for_cache_sync_names_each_of_several_with_one_name() {
    let (log, _guard) = Log::capture();
    let client = east(&FakeApiServer::new());
    let after = |seconds| {
        tokio::time::sleep(Duration::from_secs(seconds))
            .map(|()| Ok(()))
            .boxed()
    };
    let caches = [("cache", after(7)), ("other", after(12)), ("cache", after(17))];
    let stop = CancellationToken::new();
    client.wait_for_cache_sync("startup", &stop, caches).await.unwrap();
    let waits = log.with("startup: still waiting for");
    let named = |wait: &String| {
        let (_, names) = wait.split_once("still waiting for ").unwrap();
        names.trim_end_matches(" cluster=\"east\"").to_owned()
    };
    let named: Vec<String> = waits.iter().map(named).collect();
    assert_eq!(named, ["cache, other, cache", "other, cache", "cache"]);
    client.end().await;
}

// [I5] what ends a wait is named, and the client's own stop is told from that of one cache
#[tokio::test(start_paused = true)]
async fn wait_for_cache_sync_names_the_cache_that_was_stopped() {
    let server = FakeApiServer::new();
    let client = east(&server);
    server.fault_on::<ConfigMap>(Fault::Refuse);
    let maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let secrets = client.informers().typed::<Secret>(InformerOptions::default()).unwrap();
    let stop = CancellationToken::new();
    let wait = || {
        let caches = [("secrets", secrets.synced().boxed()), ("maps", maps.synced().boxed())];
        client.wait_for_cache_sync("startup", &stop, caches)
    };
    // It starts nothing.
    assert!(tokio::time::timeout(Duration::from_mins(1), wait()).await.is_err());
    assert_eq!(server.requests().len(), 0);
    client.start();
    let (ended, ()) = tokio::join!(wait(), async { client.informers().remove(&maps) });
    let error = ended.unwrap_err();
    assert!(
        matches!(&error, SyncError::CacheStopped { wait, cache } if wait == "startup" && cache == "maps"),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "startup: maps was stopped before it had synced");
    let (ended, ()) = tokio::join!(
        client.wait_for_cache_sync("never", &stop, [("never", std::future::pending().boxed())]),
        client.shutdown()
    );
    assert!(matches!(ended, Err(SyncError::Stopped)), "{ended:?}");
    client.end().await;
}

// [I1] [I40] everything that tells two informers of one resource apart is in their names
#[tokio::test(start_paused = true)]
async fn names_tell_informers_of_one_resource_apart() {
    let client = east(&FakeApiServer::new());
    let plain = InformerOptions::<ConfigMap>::default;
    let one = client.informers().typed(plain()).unwrap();
    let whole = client.informers().typed(plain().keep_managed_fields()).unwrap();
    let tiny = client
        .informers()
        .of::<MapName>(&(), InformerOptions::default())
        .unwrap();
    let ids = [one.id(), whole.id(), tiny.id()];
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
    assert_eq!(ids.map(|id| id.keeps_managed_fields), [false, true, false]);
    assert_eq!(
        ids.map(|id| id.object_type),
        [
            std::any::type_name::<ConfigMap>(),
            std::any::type_name::<ConfigMap>(),
            std::any::type_name::<MapName>()
        ]
    );
    assert_eq!(whole.id().to_string(), "configmaps/v1 with managed fields");
    // One is removed: the others, whose text may be the same, stay.
    client.informers().remove(&one);
    let left = client.stats().informers;
    assert!(left.len() == 2 && left.iter().all(|stats| stats.informer != *ids[0]));
    client.end().await;
}

/// A tiny type of maps.
#[derive(Debug, serde::Deserialize)]
struct MapName {
    metadata: NameOnly,
}

#[derive(Debug, serde::Deserialize)]
struct NameOnly {
    name: Box<str>,
}

impl Object for MapName {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<ConfigMap>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            ..Metadata::default()
        }
    }
}

// [I5] the start says the same of its informers, with the cause
#[tokio::test(start_paused = true)]
async fn run_and_wait_names_what_is_missing_and_why() {
    let (log, _guard) = Log::capture();
    let server = FakeApiServer::new();
    let client = east(&server);
    let _maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let _secrets = client.informers().typed::<Secret>(InformerOptions::default()).unwrap();
    let forbidden = server.fault_on::<Secret>(Fault::status(403));
    let stop = CancellationToken::new();
    let lifted = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        forbidden.remove();
    };
    let (synced, ()) = tokio::join!(client.run_and_wait(&stop), lifted);
    synced.unwrap();
    let waits = log.with("still waiting for the first sync");
    assert!(waits[0].contains("forbidden: cannot list secrets"), "{waits:?}");
    assert!(
        waits
            .iter()
            .all(|line| line.contains("informer=secrets/v1") && line.contains("cluster=\"east\""))
    );
    client.end().await;
}

// Whatever an informer or a handler does, also the user's own code in it, is logged in a span that says for whom.
#[tokio::test(start_paused = true)]
async fn spans_carry_resource_and_cluster() {
    let (log, _guard) = Log::capture();
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = east(&server);
    let options = InformerOptions::default().namespaces(Namespaces::one("default"));
    let maps = client.informers().typed::<ConfigMap>(options).unwrap();
    let told = maps.add_handler(
        on_event(|_: &Event<ConfigMap>| tracing::info!("the handler's own words")),
        HandlerOptions::named("words"),
    );
    client.sync().await;
    told.synced().await.unwrap();
    let fields = "gvr=configmaps/v1 informer=configmaps/v1 in namespace default cluster=east";
    let listed = log.with(" listed ");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0].contains(&format!("informer{{{fields}}}")), "{listed:?}");
    let words = log.with("the handler's own words");
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(
        words[0].contains(&format!("informer{{{fields}}}:handler{{handler=\"words\"}}")),
        "{words:?}"
    );
    client.end().await;
}

// [I40] who watches a resource twice is told so, once, with both types
#[tokio::test(start_paused = true)]
async fn watching_a_resource_twice_is_logged_as_a_hint() {
    let (log, _guard) = Log::capture();
    let client = east(&FakeApiServer::new());
    let informers = client.informers();
    let one = |namespace| InformerOptions::<ConfigMap>::default().namespaces(Namespaces::one(namespace));
    let _same = [(); 2].map(|()| informers.typed(one("a")).unwrap());
    let _other = informers.typed(one("b")).unwrap();
    assert_eq!(log.with("watched more than once"), Vec::<String>::new());
    assert!(client.stats().watched_twice.is_empty());
    let resource = ApiResource::erase::<ConfigMap>(&());
    let _twice = [(); 2].map(|()| informers.metadata(&resource, InformerOptions::default()).unwrap());
    let hints = log.with("watched more than once");
    assert_eq!(hints.len(), 1, "{hints:?}");
    for part in [
        "gvr=configmaps/v1",
        "cluster=east",
        "ConfigMap",
        "configmaps/v1 (metadata only) as kube_core",
    ] {
        assert!(hints[0].contains(part), "{part}: {hints:?}");
    }
    assert_eq!(client.stats().watched_twice, ["configmaps/v1"]);
    client.end().await;
}

// What a failure is about is said in the log and to the error handler; one that panics is contained.
#[tokio::test(start_paused = true)]
async fn panicking_watch_error_handler_is_contained() {
    let (log, _guard) = Log::capture();
    let server = FakeApiServer::new();
    let options = Client::builder().watch_error_handler(|_, _| panic!("on purpose"));
    let client = TestClient::build_on(&server, options);
    let maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    server.inject(Rule::new(Fault::Refuse).times(2));
    client.sync().await;
    assert_eq!(maps.stats().failures, 2);
    let panics = log.with("the watch error handler panicked");
    assert_eq!(panics.len(), 2, "{panics:?}");
    assert!(
        panics[0].contains("informer=configmaps/v1") && panics[0].contains("cluster=default"),
        "{panics:?}"
    );
    client.end().await;
}

// [I23] while a request waits for the client's own limit
#[tokio::test(start_paused = true)]
async fn stop_and_drop_end_a_wait_for_the_own_limit() {
    for dropped in [false, true] {
        let server = FakeApiServer::new();
        let one = NonZeroU32::MIN;
        let client = TestClient::build_on(&server, Client::builder().qps(one, one));
        let _informers: Vec<_> = (0..5)
            .map(|n| {
                client
                    .informers()
                    .typed::<ConfigMap>(InformerOptions::default().fields(format!("metadata.name={n}")))
            })
            .collect();
        client.start();
        assert_eventually(
            "one request",
            async || server.requests().len(),
            |requests| *requests == 1,
        )
        .await;
        assert!(client.stats().tasks >= 5);
        let now = tokio::time::Instant::now();
        if dropped {
            client.drop_and_assert_idle().await;
        } else {
            client.end().await;
        }
        assert_eq!(now.elapsed(), Duration::ZERO);
    }
}

// Statistics: how large the objects are, and when the server was last heard.
#[tokio::test(start_paused = true)]
async fn stats_estimate_bytes_and_tell_the_age_of_the_last_news() {
    let server = FakeApiServer::new();
    let client = TestClient::on(&server);
    let maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    assert_eq!((maps.stats().json_bytes, maps.stats().last_heard), (0, None));
    client.sync().await;
    let text = "x".repeat(10_000);
    for name in ["a", "b", "c"] {
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}});
        server.load(&map).unwrap();
    }
    assert_eventually("three maps", async || maps.len(), |len| *len == 3).await;
    let stats = maps.stats();
    assert!((30_000..31_500).contains(&stats.json_bytes), "{}", stats.json_bytes);
    assert_eq!(stats.object_type, std::any::type_name::<ConfigMap>());
    let before = stats.last_heard.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(
        maps.stats().last_heard.unwrap().checked_sub(before).unwrap(),
        Duration::from_secs(20)
    );
    // a bookmark is news too: one a minute
    let age = async || maps.stats().last_heard.unwrap();
    assert_eventually_within(Duration::from_mins(2), "a bookmark", age, |age| {
        *age < Duration::from_secs(20)
    })
    .await;
    client.end().await;
}
