//! Tests of views: what a client sees of a server that is behind, and what it never sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::timeout;

use super::*;
use crate::HoldHandle;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LIST_ANY: &str = "/api/v1/namespaces/default/configmaps?resourceVersion=0";

/// The names in a list, and its resourceVersion.
async fn list(server: &impl Serves, uri: &str) -> (Vec<String>, u64) {
    let (code, list) = call(server, "GET", uri, Value::Null).await;
    assert_eq!(code, 200, "{list}");
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    (list["items"].as_array().unwrap().iter().map(name).collect(), rv(&list))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn set(server: &impl Serves, name: &str, value: &str) -> u64 {
    let patch = json!({"data": {"k": value}});
    let (code, patched) = call(server, "PATCH", &format!("{MAPS}/{name}"), patch).await;
    assert_eq!(code, 200, "{patched}");
    rv(&patched)
}

async fn remove(server: &impl Serves, name: &str) {
    let (code, answer) = call(server, "DELETE", &format!("{MAPS}/{name}"), Value::Null).await;
    assert_eq!(code, 200, "{answer}");
}

/// Nothing comes of a watch within ten seconds of a paused clock.
async fn is_silent(watch: &mut Watch) -> bool {
    timeout(Duration::from_secs(10), watch.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn frozen_view_shows_the_past_where_any_version_will_do_and_nowhere_else() {
    // [F22] a named replica that is frozen: legal staleness
    let fake = FakeApiServer::new();
    let stale = fake.view("stale");
    let first = create(&fake, "a", json!({})).await;
    assert_eq!(stale.freeze(), first);
    create(&fake, "b", json!({})).await;
    let last = set(&fake, "a", "new").await;

    assert_eq!(list(&stale, LIST_ANY).await, (names(&["a"]), first));
    assert_eq!(list(&fake, LIST_ANY).await, (names(&["a", "b"]), last));
    let old = call(&stale, "GET", &format!("{MAPS}/a?resourceVersion=0"), Value::Null).await;
    assert_eq!((old.0, &old.1["data"]["k"], rv(&old.1)), (200, &json!("v"), first));
    let absent = call(&stale, "GET", &format!("{MAPS}/b?resourceVersion=0"), Value::Null).await;
    assert_eq!((absent.0, &absent.1["reason"]), (404, &json!("NotFound")));

    // What must be consistent is: an object at once, a list after the view had its time to catch up.
    let start = Instant::now();
    let new = call(&stale, "GET", &format!("{MAPS}/a"), Value::Null).await;
    assert_eq!((new.0, rv(&new.1), start.elapsed()), (200, last, Duration::ZERO));
    assert_eq!(list(&stale, MAPS).await, (names(&["a", "b"]), last));
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_eq!(
        (stale.resource_version(), fake.resource_version()),
        (first, last),
        "nothing moved it"
    );

    stale.thaw();
    assert_eq!(list(&stale, LIST_ANY).await, (names(&["a", "b"]), last));
    assert_eq!(
        fake.view("stale").resource_version(),
        last,
        "the same name, the same view"
    );
}

#[tokio::test(start_paused = true)]
async fn version_that_the_view_has_not_got_to_is_waited_for_then_refused() {
    // [F22] resourceVersions in the future of the view
    let fake = FakeApiServer::builder().max_page(1).build().unwrap();
    let stale = fake.view("stale");
    let old = create(&fake, "a", json!({})).await;
    stale.freeze();
    let new = create(&fake, "b", json!({})).await;
    let (_, page) = call(&fake, "GET", &format!("{MAPS}?limit=1"), Value::Null).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let asked = [
        format!("{MAPS}?resourceVersion={new}"),
        format!("{MAPS}?resourceVersion={new}&resourceVersionMatch=NotOlderThan"),
        format!("{MAPS}?resourceVersion={new}&resourceVersionMatch=Exact"),
        format!("{MAPS}?resourceVersion={new}&limit=1"),
        format!("{MAPS}?limit=1&continue={token}"),
        format!("{MAPS}/b?resourceVersion={new}"),
    ];
    for uri in &asked {
        let start = Instant::now();
        let (code, status) = call(&stale, "GET", uri, Value::Null).await;
        assert_eq!((code, start.elapsed().as_secs()), (504, 3), "{uri}");
        let text = format!("Timeout: Too large resource version: {new}, current: {old}");
        assert_eq!(status["message"], text, "{uri}");
        assert_eq!(status["details"]["retryAfterSeconds"], 1, "{uri}");
        assert_eq!(
            status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge",
            "{uri}"
        );
    }
    for (index, uri) in asked.iter().enumerate() {
        let late = fake.view(&format!("late-{index}"));
        late.freeze_at(old);
        // The view catches up while it is waited for.
        let (answer, ()) = tokio::join!(call(&late, "GET", uri, Value::Null), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            late.thaw();
        });
        assert_eq!(answer.0, 200, "{uri}: {}", answer.1);
    }
    assert_eq!(
        list(
            &stale,
            &format!("{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact")
        )
        .await,
        (names(&["a"]), old),
        "the past is there for every view"
    );
}

#[tokio::test(start_paused = true)]
async fn watch_through_a_frozen_view_waits_and_then_has_every_event_once() {
    // [F22] watches of a replica may be late; they lose nothing
    let fake = FakeApiServer::builder()
        .bookmark_interval(Duration::from_secs(4))
        .build()
        .unwrap();
    let stale = fake.view("stale");
    let start = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&stale, &format!("resourceVersion={start}&allowWatchBookmarks=true")).await;
    stale.freeze();
    let second = create(&fake, "b", json!({})).await;
    remove(&fake, "a").await;
    let third = fake.resource_version();
    // A client that comes from a server that is further: silent, as its version is not there yet.
    let mut ahead = Watch::open(&stale, &format!("resourceVersion={second}&allowWatchBookmarks=true")).await;
    assert!(is_silent(&mut ahead).await);
    for _ in 0..2 {
        assert_eq!(
            watch.brief().await,
            brief("BOOKMARK", "", start),
            "it says no more than was shown"
        );
    }
    stale.thaw();
    assert_eq!(watch.brief().await, brief("ADDED", "b", second));
    assert_eq!(watch.brief().await, brief("DELETED", "a", third));
    assert_eq!(watch.brief().await, brief("BOOKMARK", "", third));
    assert_eq!(ahead.brief().await, brief("DELETED", "a", third));
}

#[tokio::test(start_paused = true)]
async fn initial_events_of_a_frozen_view_are_as_old_as_the_client_allows() {
    // [F22] watches that begin with the state
    let fake = FakeApiServer::new();
    let stale = fake.view("stale");
    let old = create(&fake, "a", json!({})).await;
    stale.freeze();
    let new = create(&fake, "b", json!({})).await;
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for query in ["", "resourceVersion=0", &format!("{streaming}&resourceVersion=0")] {
        let mut watch = Watch::open(&stale, query).await;
        assert_eq!(watch.brief().await, brief("ADDED", "a", old), "{query}");
        if query.starts_with(streaming) {
            let (_, end) = watch.event().await;
            assert_eq!(
                (rv(&end), &end["metadata"]["annotations"]["k8s.io/initial-events-end"]),
                (old, &json!("true"))
            );
        }
        assert!(is_silent(&mut watch).await, "{query}");
    }
    for query in [streaming.to_owned(), format!("{streaming}&resourceVersion={new}")] {
        let start = Instant::now();
        let mut watch = Watch::open(&stale, &query).await;
        let (kind, status) = watch.event().await;
        assert_eq!((kind.as_str(), start.elapsed().as_secs()), ("ERROR", 3), "{query}");
        let text = format!("Timeout: Too large resource version: {new}, current: {old}");
        assert_eq!(status["message"], text, "{query}");
        assert!(watch.ends().await);
    }
    let mut watch = Watch::open(&stale, streaming).await;
    let (first, ()) = tokio::join!(watch.brief(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stale.thaw();
    });
    assert_eq!(first, brief("ADDED", "a", old));
    assert_eq!(watch.brief().await, brief("ADDED", "b", new));
}

#[tokio::test(start_paused = true)]
async fn lagging_view_shows_each_write_that_long_after_it_was_made() {
    // [F22] a replica that lags, on the paused clock
    let fake = FakeApiServer::new();
    let slow = fake.view("slow");
    create(&fake, "old", json!({})).await;
    slow.lag(Duration::from_secs(5));
    let mut watch = Watch::open(&slow, "").await;
    assert_eq!(watch.brief().await.1, "old", "what it had shown before stays");
    let start = Instant::now();
    let first = create(&fake, "a", json!({})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = create(&fake, "b", json!({})).await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", first));
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(list(&slow, LIST_ANY).await, (names(&["a", "old"]), first));
    assert_eq!(watch.brief().await, brief("ADDED", "b", second));
    assert_eq!(start.elapsed().as_secs(), 7);
    // A read that wants a new version waits for it, as long as a server waits.
    slow.lag(Duration::from_secs(2));
    let third = create(&fake, "c", json!({})).await;
    assert_eq!(list(&slow, &format!("{MAPS}?resourceVersion={third}")).await.1, third);
    assert_eq!(start.elapsed().as_secs(), 9);
    // A longer lag does not take back what was shown.
    slow.lag(Duration::from_hours(1));
    assert_eq!(list(&slow, LIST_ANY).await.1, third);
    // Longer than the clock has run at all.
    slow.lag(Duration::MAX);
    create(&fake, "d", json!({})).await;
    assert_eq!(list(&slow, LIST_ANY).await.1, third);
}

#[tokio::test(start_paused = true)]
async fn view_goes_on_step_by_step_and_never_back() {
    // [F22] frozen at a chosen write
    let fake = FakeApiServer::new();
    let view = fake.view("steps");
    let start = view.freeze();
    for name in ["a", "b", "c"] {
        create(&fake, name, json!({})).await;
    }
    let mut watch = Watch::open(&view, "").await;
    for (step, name) in (start + 1..).zip(["a", "b"]) {
        view.freeze_at(step);
        assert_eq!(watch.brief().await, brief("ADDED", name, step));
        assert!(is_silent(&mut watch).await);
    }
    view.freeze_at(start);
    assert_eq!(view.resource_version(), start + 2);
    // A version that is yet to come is where it will stop.
    view.freeze_at(start + 4);
    create(&fake, "d", json!({})).await;
    create(&fake, "e", json!({})).await;
    assert_eq!(list(&view, LIST_ANY).await, (names(&["a", "b", "c", "d"]), start + 4));
}

#[tokio::test(start_paused = true)]
async fn hold_keeps_a_change_and_what_follows_it_in_its_resource_back() {
    // [F22] hold and release per key: the order within a resource stays
    let fake = FakeApiServer::new();
    let view = fake.view("held");
    let start = create(&fake, "a", json!({})).await;
    let mut maps = Watch::open(&view, &format!("resourceVersion={start}")).await;
    let mut selected = Watch::open(&view, &format!("resourceVersion={start}&labelSelector=of%3Dothers")).await;
    let mut elsewhere = Watch::open(&fake, &format!("resourceVersion={start}")).await;
    let hold = view.hold("configmaps", Some("default"), "a");
    assert_eq!(hold.held(), None);
    let before = create(&fake, "b", json!({})).await;
    let (held, changed) = tokio::join!(hold.wait_held(), set(&fake, "a", "transient"));
    assert_eq!((held, hold.held()), (changed, Some(changed)));
    let behind = create(&fake, "c", json!({"of": "others"})).await;
    set(&fake, "a", "final").await;
    let secret = json!({"metadata": {"name": "s"}});
    call(&fake, "POST", "/api/v1/namespaces/default/secrets", secret).await;

    // What was before comes; nothing that is held or behind it, in no watch and no read of the view.
    assert_eq!(maps.brief().await, brief("ADDED", "b", before));
    assert!(is_silent(&mut maps).await && is_silent(&mut selected).await);
    assert_eq!(list(&view, LIST_ANY).await, (names(&["a", "b"]), changed - 1));
    // Other views and other resources go on.
    for _ in 0..4 {
        elsewhere.brief().await;
    }
    let secrets = list(&view, "/api/v1/namespaces/default/secrets?resourceVersion=0").await;
    assert_eq!(secrets, (names(&["s"]), fake.resource_version()));

    hold.release();
    assert_eq!(hold.held(), None);
    assert_eq!(maps.brief().await, brief("MODIFIED", "a", changed));
    assert_eq!(maps.brief().await, brief("ADDED", "c", behind));
    assert_eq!(maps.brief().await, brief("MODIFIED", "a", behind + 1));
    assert_eq!(selected.brief().await, brief("ADDED", "c", behind));
}

#[tokio::test(start_paused = true)]
async fn hold_is_for_creations_and_removals_too_and_several_hold_at_once() {
    // [F22]
    let fake = FakeApiServer::new();
    let view = fake.view("held");
    let start = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&view, &format!("resourceVersion={start}")).await;
    let of_a = view.hold("configmaps", Some("default"), "a");
    let of_b = view.hold("configmaps", Some("default"), "b");
    let created = create(&fake, "b", json!({})).await;
    remove(&fake, "a").await;
    assert_eq!((of_b.held(), of_a.held()), (Some(created), Some(created + 1)));
    assert!(is_silent(&mut watch).await);
    of_b.release();
    assert_eq!(watch.brief().await, brief("ADDED", "b", created));
    assert!(is_silent(&mut watch).await, "the other still holds");
    // What is held is from before the freeze.
    assert_eq!(view.freeze(), created + 1);
    create(&fake, "c", json!({})).await;
    view.release_all();
    assert_eq!(watch.brief().await, brief("DELETED", "a", created + 1));
    assert!(is_silent(&mut watch).await);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no resource \"pod\" is served")]
async fn hold_fails_for_a_resource_that_is_not_served() {
    FakeApiServer::new().view("x").hold("pod", Some("default"), "a");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the hold was released before a change came")]
async fn wait_held_fails_when_the_hold_is_released() {
    let view = FakeApiServer::new().view("x");
    let hold = view.hold("configmaps", Some("default"), "a");
    tokio::join!(hold.wait_held(), async {
        tokio::task::yield_now().await;
        view.release_all();
    });
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no change has come to be held within 600s")]
async fn wait_held_fails_when_nothing_comes() {
    let view = FakeApiServer::new().view("x");
    view.hold("configmaps", Some("default"), "a").wait_held().await;
}

#[tokio::test(start_paused = true)]
async fn writes_through_a_frozen_view_count_at_once_and_stale_ones_conflict() {
    // [F22] writes go to the log
    let fake = FakeApiServer::new();
    let stale = fake.view("stale");
    create(&fake, "a", json!({})).await;
    stale.freeze();
    let new = set(&stale, "a", "new").await;
    assert_eq!(rv(&fake.object("configmaps", Some("default"), "a").unwrap()), new);
    let (_, old) = call(&stale, "GET", &format!("{MAPS}/a?resourceVersion=0"), Value::Null).await;
    assert_eq!(old["data"]["k"], "v", "its own write is not in what it reads");
    let (code, conflict) = call(&stale, "PUT", &format!("{MAPS}/a"), old).await;
    assert_eq!((code, &conflict["reason"]), (409, &json!("Conflict")));
}

#[tokio::test(start_paused = true)]
async fn events_are_never_stale() {
    // [F22] real servers do not cache them
    let fake = FakeApiServer::new();
    let stale = fake.view("stale");
    stale.freeze();
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    let (code, created) = call(&fake, "POST", events, event).await;
    assert_eq!(code, 201, "{created}");
    let found = list(&stale, &format!("{events}?resourceVersion=0")).await;
    assert_eq!(found, (names(&["e"]), rv(&created)));
}

#[tokio::test(start_paused = true)]
async fn compaction_takes_a_frozen_view_along_and_ends_its_watches() {
    // [F22] a server that has lost its place in the store
    let fake = FakeApiServer::new();
    let stale = fake.view("stale");
    let old = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&stale, &format!("resourceVersion={old}")).await;
    stale.freeze();
    let hold = stale.hold("configmaps", Some("default"), "b");
    let middle = create(&fake, "b", json!({})).await;
    let new = create(&fake, "c", json!({})).await;
    fake.compact(middle);
    assert!(watch.ends().await, "events are missing");
    assert_eq!(hold.held(), None, "the change is part of what was read anew");
    assert_eq!(list(&stale, LIST_ANY).await, (names(&["a", "b"]), middle));
    let mut watch = Watch::open(&stale, &format!("resourceVersion={old}")).await;
    assert_eq!(watch.event().await.1["reason"], "Expired");
    let mut watch = Watch::open(&stale, &format!("resourceVersion={middle}")).await;
    assert!(is_silent(&mut watch).await);
    stale.thaw();
    assert_eq!(watch.brief().await, brief("ADDED", "c", new));
}

#[tokio::test(start_paused = true)]
async fn compaction_wakes_who_waits_for_a_frozen_view() {
    // [F22] by name, and by itself when the log is full
    for is_asked in [true, false] {
        let fake = FakeApiServer::builder().max_log(8).build().unwrap();
        let stale = fake.view("stale");
        let old = create(&fake, "a", json!({})).await;
        let mut watch = Watch::open(&stale, &format!("resourceVersion={old}")).await;
        stale.freeze();
        let new = create(&fake, "b", json!({})).await;
        let uri = format!("{MAPS}/b?resourceVersion={new}");
        let start = Instant::now();
        let (ends, read, ()) = tokio::join!(
            biased;
            watch.ends(),
            call(&stale, "GET", &uri, Value::Null),
            async {
                if is_asked {
                    fake.compact(new);
                    return;
                }
                for name in 0..12 {
                    let secret = json!({"metadata": {"name": format!("s{name}")}});
                    let (code, _) = call(&fake, "POST", "/api/v1/namespaces/default/secrets", secret).await;
                    assert_eq!(code, 201);
                }
            }
        );
        assert!(ends, "events are missing");
        assert_eq!((read.0, rv(&read.1)), (200, new));
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody waits for a clock");
    }
}

#[tokio::test(start_paused = true)]
async fn restore_takes_all_views_back() {
    // [F22] a store from a backup is one for all servers
    let fake = FakeApiServer::new();
    let (frozen, slow) = (fake.view("frozen"), fake.view("slow"));
    slow.lag(Duration::from_mins(1));
    let old = create(&fake, "a", json!({})).await;
    create(&fake, "b", json!({})).await;
    frozen.freeze();
    let hold = frozen.hold("configmaps", Some("default"), "c");
    create(&fake, "c", json!({})).await;
    assert!(hold.held().is_some());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(slow.resource_version(), fake.resource_version());
    assert!(fake.restore(old));
    assert_eq!(
        (frozen.resource_version(), slow.resource_version(), hold.held()),
        (old, old, None)
    );
    let again = create(&fake, "d", json!({})).await;
    assert_eq!(again, old + 1);
    assert_eq!(list(&frozen, LIST_ANY).await, (names(&["a"]), old));
    assert_eq!(list(&slow, LIST_ANY).await, (names(&["a"]), old));
}

#[tokio::test(start_paused = true)]
async fn rule_and_request_log_tell_views_apart() {
    // [F22] a fault of one server of several
    let fake = FakeApiServer::new();
    let (one, other) = (fake.view("one"), fake.view("other"));
    let rule = fake.inject(Rule::new(Fault::status(503)).view("one"));
    let mut codes = Vec::new();
    for server in [&one, &other] {
        codes.push(call(server, "GET", MAPS, Value::Null).await.0);
    }
    codes.push(call(&fake, "GET", MAPS, Value::Null).await.0);
    assert_eq!((codes, rule.fired()), (vec![503, 200, 200], 1));
    let views: Vec<_> = fake.requests().into_iter().map(|record| record.view).collect();
    assert_eq!(views, [Some("one".to_owned()), Some("other".to_owned()), None]);
}

/// Follows the config maps of a view, and checks on the way that every event is the next one.
async fn follow(mut watch: Watch, end: Arc<AtomicU64>) -> BTreeMap<String, u64> {
    let mut state = BTreeMap::new();
    let mut last = 0;
    loop {
        let (kind, object) = watch.event().await;
        let (name, version) = (
            object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            rv(&object),
        );
        if kind == "BOOKMARK" {
            assert!(version >= last, "a bookmark goes back");
            if version >= end.load(Ordering::SeqCst) {
                return state;
            }
            continue;
        }
        // The initial events have no order of versions.
        assert!(
            version > last || kind == "ADDED",
            "{kind} {name} {version} after {last}"
        );
        last = last.max(version);
        match kind.as_str() {
            "ADDED" => assert_eq!(state.insert(name, version), None, "added twice"),
            "MODIFIED" => assert!(state.insert(name, version).is_some_and(|old| old < version)),
            "DELETED" => assert!(state.remove(&name).is_some(), "it was not there"),
            other => panic!("{other}"),
        }
    }
}

/// One random history, seen through a view that does everything that views do.
async fn random_history(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let fake = FakeApiServer::builder()
        .bookmark_interval(Duration::from_secs(1))
        .build()
        .unwrap();
    let view = fake.view("any");
    let watch = Watch::open(&view, "resourceVersion=0&allowWatchBookmarks=true").await;
    let end = Arc::new(AtomicU64::new(u64::MAX));
    let follower = tokio::spawn(follow(watch, Arc::clone(&end)));
    let mut holds: Vec<HoldHandle> = Vec::new();
    let mut shown = 0;
    for _ in 0..60 {
        let name = format!("n{}", random.u8(..4));
        match random.u8(..12) {
            0 => drop(view.freeze()),
            1 => view.thaw(),
            2 => view.lag(Duration::from_millis(random.u64(..3000))),
            3 => view.freeze_at(fake.resource_version() + random.u64(..4)),
            4 => holds.push(view.hold("configmaps", Some("default"), &name)),
            5 => drop(holds.pop().map(|hold| hold.release())),
            6 => tokio::time::sleep(Duration::from_millis(random.u64(..2000))).await,
            7 | 8 => drop(call(&fake, "DELETE", &format!("{MAPS}/{name}"), Value::Null).await),
            _ => {
                let body = json!({"metadata": {"name": name}});
                if call(&fake, "POST", MAPS, body).await.0 == 409 {
                    set(&fake, &name, &random.u32(..).to_string()).await;
                }
            }
        }
        let (code, stale) = call(&view, "GET", LIST_ANY, Value::Null).await;
        assert_eq!(code, 200);
        assert!(rv(&stale) >= shown, "it goes back from {shown} to {}", rv(&stale));
        shown = rv(&stale);
        let exact = format!("{MAPS}?resourceVersion={shown}&resourceVersionMatch=Exact");
        assert_eq!(
            stale,
            call(&fake, "GET", &exact, Value::Null).await.1,
            "no state that ever was"
        );
    }
    view.thaw();
    view.release_all();
    end.store(fake.resource_version(), Ordering::SeqCst);
    let seen = follower.await.unwrap();
    let stored: BTreeMap<_, _> = fake
        .objects("configmaps")
        .iter()
        .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), rv(object)))
        .collect();
    assert_eq!(seen, stored);
}

#[tokio::test(start_paused = true)]
async fn view_shows_only_states_that_were_and_its_watches_lose_nothing() {
    // [F22] random histories of writes, freezes, lags and holds
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 100 {
        println!("seed {seed}");
        random_history(seed).await;
    }
}
