//! The state machine against a scripted server, on a paused clock: what no well-behaved server does, exact requests,
//! exact waits. Behaviour against the in-memory API server is tested in the workspace's behaviour suites.

mod bounds;
mod crew;
mod misbehaving;
mod objects;
mod pace;
mod script;
mod table;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::core::{ApiResource, DynamicObject};
use tokio::time::Instant;

use self::script::{Script, bookmark, end_bookmark, error_event, event, item_json};
use crate::client::Client;
use crate::error::{WatchError, WatchErrorKind};
use crate::informer::handler::HandlerOptions;
use crate::informer::options::{InformerOptions, InitialList, ListMode, OnUndecodable};
use crate::informer::status::Phase;
use crate::informer::{Informer, InformerId};
use crate::key::ObjectKey;
use crate::sync::Mutex;
use crate::testing::{EventLog, Item, TestClient};

/// A client on the script, one started informer, and every failure it reports.
struct Rig {
    client: TestClient,
    informer: Informer<Item>,
    errors: Arc<Mutex<Vec<WatchError>>>,
}

fn rig(script: &Script, options: InformerOptions<Item>) -> Rig {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&errors);
    let client = Client::builder()
        .decode_threads(NonZeroUsize::new(3).unwrap()) // of no effect but on several pieces
        .watch_error_handler(move |_: &InformerId, error: &WatchError| sink.lock().push(error.clone()))
        .build_with(script.client())
        .unwrap();
    let informer = client.informers().typed::<Item>(options).unwrap();
    informer.start();
    Rig {
        client: TestClient::new(client),
        informer,
        errors,
    }
}

/// In pieces of an object or two, so that threads share even a small list.
fn in_pieces(mut options: InformerOptions<Item>) -> InformerOptions<Item> {
    options.tuning.piece = 100;
    options
}

fn paged() -> InformerOptions<Item> {
    InformerOptions::default().list_mode(ListMode::Paged)
}

impl Rig {
    fn values(&self) -> Vec<String> {
        let mut values: Vec<String> = self
            .informer
            .list(None, &kube::core::Selector::default())
            .iter()
            .map(|item| item.value.clone())
            .collect();
        values.sort_unstable();
        values
    }

    fn kinds(&self) -> Vec<WatchErrorKind> {
        self.errors.lock().iter().map(|error| error.kind.clone()).collect()
    }

    /// Waits until the cache is at this version.
    async fn at(&self, version: &str) {
        script::until(|| self.informer.last_version().as_deref() == Some(version)).await;
    }

    async fn end(self) {
        self.client.end().await;
    }
}

fn list(version: &str, items: &[String]) -> String {
    format!(
        r#"{{"kind":"ItemList","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

// [I20] synthetic ADDED events do not move the version, the end bookmark does; a bookmark without one resets nothing
#[tokio::test(start_paused = true)]
async fn version_moves_only_on_what_carries_one() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(&script, InformerOptions::default());
    script.requested(1).await;
    assert_eq!(
        script.query(0),
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    stream.send(&event("ADDED", &item_json("a", "u", 50)));
    stream.send(&end_bookmark("10"));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.informer.last_version().as_deref(), Some("10"));
    stream.send(&bookmark(""));
    let second = script.stream();
    tokio::time::advance(Duration::from_secs(2)).await;
    stream.end();
    script.requested(2).await;
    assert_eq!(script.query(1), "resourceVersion=10");
    // on a watch from an explicit version, ADDED moves it, and so does a bookmark
    second.send(&event("ADDED", &item_json("b", "u", 60)));
    rig.at("60").await;
    second.send(&bookmark("70"));
    rig.at("70").await;
    rig.end().await;
}

// [I14] no sync without the end bookmark and its value; changes before it are applied; then the watch just goes on
#[tokio::test(start_paused = true)]
async fn streaming_list_shows_nothing_before_its_end_bookmark() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(&script, InformerOptions::default());
    for line in [
        event("ADDED", &item_json("a", "u", 1)),
        event("ADDED", &item_json("b", "u", 2)),
        event("ADDED", &item_json("c", "u", 3)),
        event("MODIFIED", &item_json("b", "u", 4)),
        event("DELETED", &item_json("c", "u", 5)),
        end_bookmark("5").replace("\"true\"", "\"false\""),
        bookmark("5"),
    ] {
        stream.send(&line);
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!rig.informer.has_synced());
    assert!(rig.values().is_empty());
    assert_eq!(rig.informer.stats().phase, Phase::ListingStream);
    stream.send(&end_bookmark("5"));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values(), ["a@1", "b@4"]);
    stream.send(&event("ADDED", &item_json("d", "u", 6)));
    rig.at("6").await;
    assert_eq!(script.requests(), 1, "the stream stays the watch");
    rig.end().await;
}

// [I14] a break before the end bookmark starts over, and nothing of the first try is left
#[tokio::test(start_paused = true)]
async fn streaming_list_that_breaks_starts_over() {
    let script = Script::new();
    let (first, second) = (script.stream(), script.stream());
    let rig = rig(&script, InformerOptions::default());
    first.send(&event("ADDED", &item_json("gone", "u", 1)));
    first.fail();
    script.requested(2).await;
    assert_eq!(
        script.query(1),
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    second.send(&event("ADDED", &item_json("a", "u", 2)));
    second.send(&end_bookmark("2"));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values(), ["a@2"]);
    assert_eq!(rig.kinds(), [WatchErrorKind::Unreachable]);
    rig.end().await;
}

// [I20] nor do the objects of a streaming list that breaks move the version: the next try asks for no other, and the version is
// that of the end bookmark, though objects of the list have later ones
#[tokio::test(start_paused = true)]
async fn objects_of_a_broken_streaming_list_do_not_move_the_version() {
    let script = Script::new();
    let (first, second) = (script.stream(), script.stream());
    let rig = rig(&script, InformerOptions::default());
    first.send(&event("ADDED", &item_json("a", "u", 50)));
    first.send(&event("MODIFIED", &item_json("a", "u", 60)));
    first.send(&bookmark(""));
    script.requested(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.informer.last_version(), None);
    first.fail();
    script.requested(2).await;
    assert_eq!(
        script.query(1),
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    second.send(&event("ADDED", &item_json("a", "u", 60)));
    second.send(&end_bookmark("55"));
    rig.at("55").await;
    // Neither a bookmark nor an object without a version resets it; the watch is resumed there.
    second.send(&bookmark(""));
    second.send(&event(
        "ADDED",
        r#"{"metadata":{"name":"b","namespace":"n","uid":"u"},"value":"bare"}"#,
    ));
    script::until(|| rig.informer.len() == 2).await;
    assert_eq!(rig.informer.last_version().as_deref(), Some("55"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    second.fail();
    script.requested(3).await;
    assert_eq!(script.query(2), "resourceVersion=55");
    rig.end().await;
}

// [I15] 400, 405, 422 and 501 fall back to pages and are remembered
#[tokio::test(start_paused = true)]
async fn refused_streaming_falls_back_to_pages_for_good() {
    for code in [400, 405, 422, 501] {
        let script = Script::new();
        script.status(code, "{}");
        script.json(&list("7", &[item_json("a", "u", 1)]));
        let watch = script.stream();
        let rig = rig(&script, InformerOptions::default());
        rig.informer.synced().await.unwrap();
        script.requested(3).await;
        assert_eq!(script.query(1), "list resourceVersion=0", "{code}");
        assert_eq!(script.query(2), "resourceVersion=7", "{code}");
        assert_eq!(rig.kinds(), [], "{code}: no failure to speak of");
        tokio::time::advance(Duration::from_secs(2)).await;
        script.json(&list("9", &[]));
        watch.send(&error_event(410, "Expired"));
        script.requested(4).await;
        assert_eq!(script.query(3), "list limit=500", "{code}: not tried as a stream again");
        rig.end().await;
    }
}

// [I15] 401, 403, 404, 429, 5xx and broken connections are no reason to fall back
#[tokio::test(start_paused = true)]
async fn other_failures_keep_streaming() {
    let script = Script::new();
    for code in [401, 403, 404, 429, 500, 503] {
        script.status(code, "{}");
    }
    script.refuse();
    let stream = script.stream();
    let rig = rig(&script, InformerOptions::default());
    stream.send(&end_bookmark("1"));
    rig.informer.synced().await.unwrap();
    for request in 0..8 {
        assert_eq!(
            script.query(request),
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
    }
    assert_eq!(
        rig.kinds(),
        [
            WatchErrorKind::Unauthorized,
            WatchErrorKind::Forbidden,
            WatchErrorKind::NotFound,
            WatchErrorKind::TooManyRequests { retry_after: None },
            WatchErrorKind::Server { code: 500 },
            WatchErrorKind::Server { code: 503 },
            WatchErrorKind::Unreachable,
        ]
    );
    rig.end().await;
}

// [I15] a server that never sends the end bookmark is asked for pages after two silences of 30 s, and again in an hour
#[tokio::test(start_paused = true)]
async fn silent_streaming_falls_back_for_an_hour() {
    let script = Script::new();
    let (first, second) = (script.stream(), script.stream());
    let start = Instant::now();
    let rig = rig(&script, InformerOptions::default());
    first.send(&event("ADDED", &item_json("a", "u", 1)));
    script.json(&list("7", &[item_json("b", "u", 2)]));
    let watch = script.stream();
    rig.informer.synced().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(rig.values(), ["b@2"]);
    assert_eq!(rig.kinds(), [WatchErrorKind::Silent, WatchErrorKind::Silent]);
    // within the hour: pages
    script.json(&list("9", &[]));
    let next = script.stream();
    watch.send(&error_event(410, "Expired"));
    script.requested(5).await;
    assert_eq!(script.query(3), "resourceVersion=7");
    assert_eq!(script.query(4), "list limit=500");
    // after it: a stream. The open watch is long overdue by then, and is cut.
    script.requested(6).await;
    script.status(410, "{}");
    let stream = script.stream();
    tokio::time::advance(Duration::from_hours(1)).await;
    script.requested(8).await;
    let queries: Vec<String> = (5..8).map(|at| script.query(at)).collect();
    assert_eq!(
        queries,
        [
            "resourceVersion=9",
            "resourceVersion=9",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ]
    );
    drop((second, next, stream));
    rig.end().await;
}

// [I16] 410 as an ERROR event and as an HTTP status: list again from the newest, deletes told as stale
#[tokio::test(start_paused = true)]
async fn expired_watch_lists_again_in_both_forms() {
    for as_event in [true, false] {
        let script = Script::new();
        script.json(&list("7", &[item_json("a", "u", 1), item_json("b", "u", 2)]));
        let watch = script.stream();
        let rig = rig(&script, paged());
        let mut events = rig.informer.events(HandlerOptions::default());
        rig.informer.synced().await.unwrap();
        for _ in 0..2 {
            assert!(events.next().await.unwrap().is_initial());
        }
        tokio::time::advance(Duration::from_secs(5)).await;
        if as_event {
            watch.send(&error_event(410, "Expired"));
        } else {
            script.status(410, r#"{"code":410,"reason":"Expired"}"#);
            watch.end();
        }
        script.json(&list("9", &[item_json("a", "u", 1)]));
        let next = script.stream();
        let told = events.next().await.unwrap();
        assert_eq!(format!("{told:?}"), "Deleted(n/b, stale: true)");
        next.send(&event("ADDED", &item_json("c", "u", 10)));
        // nothing about `a`, which is unchanged
        assert_eq!(
            format!("{:?}", events.next().await.unwrap()),
            "Added(n/c, initial: false)"
        );
        assert_eq!(rig.kinds(), [WatchErrorKind::Expired]);
        let queries: Vec<String> = (0..script.requests()).map(|at| script.query(at)).collect();
        let expected: &[&str] = if as_event {
            &[
                "list resourceVersion=0",
                "resourceVersion=7",
                "list limit=500",
                "resourceVersion=9",
            ]
        } else {
            &[
                "list resourceVersion=0",
                "resourceVersion=7",
                "resourceVersion=7",
                "list limit=500",
                "resourceVersion=9",
            ]
        };
        assert_eq!(queries, expected);
        drop(events);
        rig.end().await;
    }
}

// [I18] 429 waits as long as the server says, a refused connection backs off; both go on at the same version
#[tokio::test(start_paused = true)]
async fn watch_resumes_at_the_same_version_after_429_and_refusal() {
    let script = Script::new();
    script.json(&list("7", &[]));
    script.retry_after(429, 17);
    script.refuse();
    let watch = script.stream();
    let start = Instant::now();
    let rig = rig(&script, paged());
    script.requested(3).await;
    assert_eq!(start.elapsed().as_secs(), 17);
    script.requested(4).await;
    let waited = start.elapsed().as_millis();
    assert!((17_800..=18_250).contains(&waited), "{waited}");
    for request in 1..4 {
        assert_eq!(script.query(request), "resourceVersion=7", "no relist");
    }
    script::until(|| rig.informer.stats().error.is_none()).await;
    assert_eq!(rig.informer.stats().failures, 2);
    drop(watch);
    rig.end().await;
}

// [I19] "too large resource version" asks for the newest; a version that went back rebuilds the cache
#[tokio::test(start_paused = true)]
async fn lists_recover_from_versions_ahead_and_behind() {
    let script = Script::new();
    script.json(&list("70", &[item_json("a", "u", 1), item_json("b", "u", 2)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.informer.synced().await.unwrap();
    let mut events = rig.informer.events(HandlerOptions::default());
    for _ in 0..2 {
        events.next().await.unwrap();
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    watch.send(&error_event(504, "Timeout").replace("text", "Too large resource version: 70, current: 9"));
    // the restored server: an equal version of `a` is no longer the same object
    let changed = item_json("a", "u", 1).replace("a@1", "restored");
    script.json(&list("9", &[changed.clone(), item_json("b", "u", 2)]));
    script.json(&list("9", &[changed, item_json("b", "u", 2)]));
    let next = script.stream();
    assert_eq!(format!("{:?}", events.next().await.unwrap()), "Updated(n/a)");
    assert_eq!(rig.values(), ["b@2", "restored"]);
    assert_eq!(
        rig.kinds(),
        [WatchErrorKind::VersionTooLarge, WatchErrorKind::VersionWentBack]
    );
    rig.at("9").await;
    drop((next, events));
    rig.end().await;
}

// [I36] without uid and version every change is seen; the watch starts from nothing, and nothing is resumed: a delete
// while away would be missed
#[tokio::test(start_paused = true)]
async fn objects_without_uid_and_version_are_always_updated() {
    let script = Script::new();
    let bare = |value: &str| format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"value":"{value}"}}"#);
    script.json(&list("", &[bare("1")]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    let mut events = rig.informer.events(HandlerOptions::default());
    assert!(events.next().await.unwrap().is_initial());
    for _ in 0..2 {
        watch.send(&event("MODIFIED", &bare("1")));
        assert_eq!(format!("{:?}", events.next().await.unwrap()), "Updated(n/a)");
    }
    assert_eq!(script.query(1), "");
    tokio::time::advance(Duration::from_secs(2)).await;
    watch.end();
    script.json(&list("", &[]));
    assert_eq!(
        format!("{:?}", events.next().await.unwrap()),
        "Deleted(n/a, stale: true)"
    );
    assert_eq!(script.query(2), "list limit=500");
    drop(events);
    rig.end().await;
}

// [I36] nor does a bookmark, or a version of an object, make up for a list without a version: what was deleted between the
// list and the begin of the watch is told by another list alone, and only one with a version is resumed from
#[tokio::test(start_paused = true)]
async fn nothing_makes_up_for_a_list_without_a_version_but_another_list() {
    let script = Script::new();
    script.json(&list("", &[item_json("a", "u1", 1), item_json("b", "u2", 2)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    let mut events = rig.informer.events(HandlerOptions::default());
    for _ in 0..2 {
        assert!(events.next().await.unwrap().is_initial());
    }
    // `b` was deleted in between: the state that the watch begins with says nothing of it.
    watch.send(&event("ADDED", &item_json("a", "u1", 1)));
    watch.send(&bookmark("9"));
    watch.send(&event("MODIFIED", &item_json("a", "u1", 10)));
    watch.send(&bookmark("11"));
    assert_eq!(format!("{:?}", events.next().await.unwrap()), "Updated(n/a)");
    assert_eq!(script.query(1), "", "from nothing");
    assert_eq!(rig.informer.last_version(), None);
    tokio::time::advance(Duration::from_secs(2)).await;
    watch.end();
    script.requested(3).await;
    assert_eq!(script.query(2), "list limit=500");
    script.json(&list("12", &[item_json("a", "u1", 10)]));
    let next = script.stream();
    assert_eq!(
        format!("{:?}", events.next().await.unwrap()),
        "Deleted(n/b, stale: true)"
    );
    script.requested(4).await;
    assert_eq!(script.query(3), "resourceVersion=12");
    next.send(&bookmark("13"));
    rig.at("13").await;
    tokio::time::advance(Duration::from_secs(2)).await;
    next.end();
    script.requested(5).await;
    assert_eq!(script.query(4), "resourceVersion=13");
    drop(events);
    rig.end().await;
}

// [I36] without a uid, or without a version, equal objects are not taken for unchanged: every event is seen, in a watch and in
// a relist; with both, they are
#[tokio::test(start_paused = true)]
async fn objects_without_uid_or_without_version_are_always_updated() {
    for (uid, version, changes) in [("", "5", true), ("u", "", true), ("u", "5", false)] {
        let script = Script::new();
        let object = |value: &str| {
            format!(
                r#"{{"metadata":{{"name":"a","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}},"value":"{value}"}}"#
            )
        };
        let mark = |version| item_json("mark", "m", version);
        script.json(&list("7", &[object("1")]));
        let watch = script.stream();
        let rig = rig(&script, paged());
        let mut events = rig.informer.events(HandlerOptions::default());
        assert!(events.next().await.unwrap().is_initial());
        let (kept, updated) = (vec!["Added(n/mark, initial: false)"], "Updated(n/a)");
        let with = |told: Vec<&str>, first: bool| {
            let mut all: Vec<String> = told.into_iter().map(str::to_owned).collect();
            if changes {
                all.insert(if first { 0 } else { all.len() }, updated.to_owned());
            }
            all
        };
        let mut take = async |count: usize| {
            let mut told = Vec::new();
            for _ in 0..count {
                told.push(format!("{:?}", events.next().await.unwrap()));
            }
            told
        };
        watch.send(&event("MODIFIED", &object("2")));
        watch.send(&event("ADDED", &mark(8)));
        let expected = with(kept.clone(), true);
        assert_eq!(take(expected.len()).await, expected, "uid {uid:?}, version {version:?}");
        assert_eq!(rig.values()[0], if changes { "2" } else { "1" });
        tokio::time::advance(Duration::from_secs(2)).await;
        watch.send(&error_event(410, "Expired"));
        script.json(&list("9", &[object("3"), mark(9)]));
        let mut expected = with(vec!["Updated(n/mark)"], true);
        let mut told = take(expected.len()).await;
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "uid {uid:?}, version {version:?}: a relist");
        assert_eq!(rig.values()[0], if changes { "3" } else { "1" });
        drop(events);
        rig.end().await;
    }
}

// [I36] a kind that cannot be watched is a final status
#[tokio::test(start_paused = true)]
async fn watch_not_supported_is_final() {
    let script = Script::new();
    script.json(&list("7", &[item_json("a", "u", 1)]));
    script.status(405, r#"{"code":405,"reason":"MethodNotAllowed","message":"no watch"}"#);
    let rig = rig(&script, paged());
    script::until(|| rig.informer.stats().phase == Phase::WatchNotSupported).await;
    tokio::time::advance(Duration::from_hours(2)).await;
    assert_eq!(script.requests(), 2);
    assert_eq!(
        rig.errors.lock()[0].to_string(),
        "not supported: the server cannot watch items.test.io: no watch"
    );
    assert_eq!(rig.values(), ["a@1"]);
    rig.end().await;
}

// [I38] `items` before `metadata`, `object` before `type`, items without types; in small chunks
#[tokio::test(start_paused = true)]
async fn body_order_and_chunks_do_not_matter() {
    let script = Script::new();
    let body = r#"{"items":[{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}}],"metadata":{"resourceVersion":"7"}}"#;
    let chunked = script.stream();
    for chunk in body.as_bytes().chunks(5) {
        chunked.send_raw(chunk);
    }
    chunked.end();
    let watch = script.stream();
    let client = TestClient::new(Client::new(script.client()).unwrap());
    let resource: ApiResource = <Item as crate::Object>::api_resource(&());
    let options = InformerOptions::<DynamicObject>::default().list_mode(ListMode::Paged);
    let informer = client.informers().dynamic(&resource, options).unwrap();
    informer.start();
    informer.synced().await.unwrap();
    watch.send(
        r#"{"object":{"apiVersion":"test.io/v1","kind":"Item","metadata":{"name":"b","namespace":"n","uid":"u","resourceVersion":"8"}},"type":"ADDED"}"#,
    );
    script::until(|| informer.len() == 2).await;
    for name in ["a", "b"] {
        let types = informer
            .get(&ObjectKey::namespaced("n", name))
            .unwrap()
            .types
            .clone()
            .unwrap();
        assert_eq!(
            (types.api_version.as_str(), types.kind.as_str()),
            ("test.io/v1", "Item"),
            "{name}"
        );
    }
    client.end().await;
}

// [I21] an object that does not decode breaks nothing; the last good version stays; a good one or a delete clears it
#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_named_and_cleared() {
    let script = Script::new();
    let bad = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"value":[]}}"#);
    script.json(&list("7", &[item_json("a", "u", 1), bad("b"), item_json("c", "u", 2)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    let log = EventLog::new();
    log.register(&rig.informer);
    rig.informer.synced().await.unwrap();
    let names = || {
        rig.informer
            .undecodable()
            .iter()
            .map(|(key, _)| key.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (rig.values(), names()),
        (vec!["a@1".to_owned(), "c@2".to_owned()], vec!["n/b".to_owned()])
    );
    watch.send(&event("MODIFIED", &bad("a")));
    watch.send(&event("MODIFIED", &item_json("b", "u", 8)));
    rig.at("8").await;
    assert_eq!(rig.values(), ["a@1", "b@8", "c@2"]);
    assert_eq!(names(), ["n/a"]);
    watch.send(&event("DELETED", &bad("a")));
    watch.send(&bookmark("9"));
    rig.at("9").await;
    assert_eq!(
        (rig.values(), names()),
        (vec!["b@8".to_owned(), "c@2".to_owned()], vec![])
    );
    log.wait_for(4).await;
    // b was not there before, and how a was at its end nobody knows
    let told = log.lines(|item| item.value.clone());
    assert_eq!(told[2..], ["+n/b=b@8", "-n/a=a@1?"]);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn first_sync_can_wait_for_every_object_to_decode() {
    let script = Script::new();
    script.json(&list("7", &[r#"{"metadata":{"name":"b"},"value":[]}"#.to_owned()]));
    script.json(&list("8", &[r#"{"metadata":{"name":"b"},"value":"good"}"#.to_owned()]));
    let _watch = script.stream();
    let rig = rig(&script, paged().on_undecodable(OnUndecodable::BlockFirstSync));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values(), ["good"]);
    assert_eq!(script.query(1), "list resourceVersion=0");
    rig.end().await;
}

// [I22] an expired continue token restarts without pages and completes
#[tokio::test(start_paused = true)]
async fn expired_continue_lists_again_as_one() {
    let script = Script::new();
    let page = |item: &str, token: &str| {
        format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"{token}"}},"items":[{item}]}}"#)
    };
    script.json(&page(&item_json("a", "u", 1), "t1"));
    script.json(&page(&item_json("b", "u", 2), "t2"));
    script.status(410, r#"{"code":410,"reason":"Expired"}"#);
    script.json(&list("9", &[item_json("b", "u", 2), item_json("c", "u", 3)]));
    let _watch = script.stream();
    let rig = rig(&script, paged().initial_list(InitialList::Consistent).page_size(1));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values(), ["b@2", "c@3"]);
    let queries: Vec<String> = (0..4).map(|at| script.query(at)).collect();
    assert_eq!(
        queries,
        [
            "list limit=1",
            "list continue=t1&limit=1",
            "list continue=t2&limit=1",
            "list "
        ]
    );
    rig.end().await;
}

// [I33] a watch with bookmarks that falls silent is resumed within three minutes, at the same version
#[tokio::test(start_paused = true)]
async fn silent_watch_is_resumed() {
    let script = Script::new();
    script.json(&list("7", &[]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.informer.synced().await.unwrap();
    let start = Instant::now();
    watch.send(&bookmark("8"));
    rig.at("8").await;
    let _next = script.stream();
    script.requested(3).await;
    assert_eq!(start.elapsed().as_secs(), 180);
    assert_eq!(script.query(2), "resourceVersion=8");
    assert_eq!(rig.kinds(), [WatchErrorKind::Silent]);
    rig.end().await;
}

// a poisoned stream is left and resumed, not followed
#[tokio::test(start_paused = true)]
async fn garbage_on_the_watch_reconnects() {
    let script = Script::new();
    script.json(&list("7", &[]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.informer.synced().await.unwrap();
    watch.send(&event("ADDED", &item_json("a", "u", 8)));
    watch.send("<html>");
    let _next = script.stream();
    script.requested(3).await;
    assert_eq!(
        script.query(2),
        "resourceVersion=8",
        "what came before the garbage counts"
    );
    assert_eq!(rig.kinds(), [WatchErrorKind::Protocol]);
    rig.end().await;
}

// a panicking error handler does not stop the informer
#[tokio::test(start_paused = true)]
async fn panicking_error_handler_is_contained() {
    let script = Script::new();
    script.status(500, "{}");
    script.json(&list("7", &[]));
    let _watch = script.stream();
    let client = Client::builder()
        .watch_error_handler(|_, _| panic!("on purpose"))
        .build_with(script.client());
    let client = TestClient::new(client.unwrap());
    let informer = client.informers().typed::<Item>(paged()).unwrap();
    informer.start();
    informer.synced().await.unwrap();
    client.end().await;
}

/// A kind of which the own code panics.
mod unreadable {
    use super::*;
    use crate::object::{Metadata, Object, Scope};
    use serde::Deserialize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    // How often the metadata of a `fuse` may be read before that panics, once.
    static FUSE: AtomicUsize = AtomicUsize::new(1);

    #[derive(Debug, Deserialize)]
    struct Unreadable(Item);

    impl Object for Unreadable {
        type DynamicType = ();

        fn api_resource(unit: &()) -> ApiResource {
            Item::api_resource(unit)
        }

        fn scope(unit: &()) -> Scope {
            Item::scope(unit)
        }

        fn metadata(&self) -> Metadata<'_> {
            assert_ne!(self.0.value, "bad", "on purpose");
            let burnt = self.0.metadata.name == "fuse" && FUSE.fetch_sub(1, Ordering::SeqCst) == 0;
            assert!(!burnt, "on purpose");
            self.0.metadata()
        }
    }

    fn informer(script: &Script) -> (TestClient, Informer<Unreadable>) {
        let client = TestClient::new(Client::new(script.client()).unwrap());
        let options = InformerOptions::default().list_mode(ListMode::Paged);
        let informer = client.informers().typed::<Unreadable>(options).unwrap();
        informer.start();
        (client, informer)
    }

    // a panic of the type's own code is a failure that shows, not the end of the informer
    #[tokio::test(start_paused = true)]
    async fn informer_starts_over_after_a_panic() {
        let script = Script::new();
        script.json(&list("7", &[item_json("fuse", "u", 1)]));
        let (client, informer) = informer(&script);
        script::until(|| informer.stats().failures == 1).await;
        assert!(informer.stats().error.unwrap().to_string().contains("panicked"));
        script.json(&list("7", &[item_json("fuse", "u", 1)]));
        let _watch = script.stream();
        informer.synced().await.unwrap();
        assert_eq!(informer.len(), 1);
        client.end().await;
    }

    // [I21] [I39] an object of which the metadata cannot be read, ever, is one that does not decode: its neighbours are there
    #[tokio::test(start_paused = true)]
    async fn object_whose_metadata_panics_does_not_decode() {
        let bad = |name: &str| item_json(name, "u", 1).replace(&format!("{name}@1"), "bad");
        let keys = |informer: &Informer<Unreadable>| -> Vec<String> {
            let mut keys: Vec<String> = informer.undecodable().iter().map(|(key, _)| key.to_string()).collect();
            keys.sort_unstable();
            keys
        };
        let script = Script::new();
        script.json(&list("7", &[item_json("a", "u", 1), bad("b"), item_json("c", "u", 1)]));
        let watch = script.stream();
        let (client, informer) = informer(&script);
        informer.synced().await.unwrap();
        assert_eq!((informer.len(), keys(&informer)), (2, vec!["n/b".to_owned()]));
        watch.send(&event("ADDED", &bad("d")));
        watch.send(&event("DELETED", &bad("a")));
        watch.send(&event("ADDED", &item_json("e", "u", 9)));
        script::until(|| informer.last_version().as_deref() == Some("9")).await;
        assert_eq!(
            (informer.len(), keys(&informer)),
            (2, vec!["n/b".to_owned(), "n/d".to_owned()])
        );
        assert!(
            informer.get(&ObjectKey::namespaced("n", "a")).is_none(),
            "it was deleted"
        );
        assert_eq!(informer.stats().restarts.get("panicked"), None);
        client.end().await;
    }
}
