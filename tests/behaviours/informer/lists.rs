//! The two forms of a list. [I14] [I15] [I20] [I22]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, Verb};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::testing::{EventLog, TestClient};
use kube_client::{Client, HandlerOptions, InformerOptions, InitialList, ListMode, Phase, WatchErrorKind};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bodies::in_namespace;
use super::expired::through;
use super::{Diary, Rig, cached, create, delete, next, update};
use crate::harness::{Server, cases, eventually, version};

// [I14] after the streaming list the same watch goes on, and shows each kind of change
async fn streaming_list_becomes_the_watch(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let options = InformerOptions::default()
        .namespaces(kube_client::Namespaces::one(namespace.name()))
        .list_mode(ListMode::Streaming);
    let informer = rig.maps(options);
    let mut events = informer.events(HandlerOptions::default());
    rig.run().await;
    assert_eq!(super::entry(&next(&mut events).await), "+a=1!");
    create(&namespace, "b", "1").await;
    assert_eq!(super::entry(&next(&mut events).await), "+b=1");
    update(&rig.server, &namespace, "a", "2").await;
    assert_eq!(super::entry(&next(&mut events).await), "a=1>2");
    delete(&rig.server, &namespace, "a").await;
    assert_eq!(super::entry(&next(&mut events).await), "-a=2");
    let stats = informer.stats();
    assert_eq!((stats.watches, stats.lists, stats.phase), (1, 1, Phase::Watching));
    assert_eq!(rig.errors().len(), 0);
    drop(events);
    rig.end().await;
}

// [I14] both forms give the same cache
async fn both_forms_of_a_list_give_the_same_cache(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    for n in 0..7 {
        create(&namespace, &format!("m{n}"), &n.to_string()).await;
    }
    let in_namespace = || InformerOptions::default().namespaces(kube_client::Namespaces::one(namespace.name()));
    let streaming = rig.maps(in_namespace().list_mode(ListMode::Streaming));
    rig.run().await;
    let streamed = cached(&streaming);
    assert_eq!(streamed.len(), 7);
    rig.client.informers().remove(&streaming);
    let paged = rig.maps(
        in_namespace()
            .list_mode(ListMode::Paged)
            .initial_list(InitialList::Consistent)
            .page_size(3),
    );
    paged.synced().await.unwrap();
    assert_eq!(cached(&paged), streamed);
    let of = |informer: &kube_client::Informer<_>| informer.list(None, &kube::core::Selector::default());
    for object in of(&streaming) {
        let key = kube_client::Object::metadata(&*object).key();
        assert_eq!(*paged.get(&key).unwrap(), *object, "equal whichever form brought it");
    }
    rig.end().await;
}

// [I20] the version is the list's, not that of its newest object, and moves with each change from then on
async fn version_is_the_lists_and_then_that_of_each_change(server: Server) {
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let rig = Rig::new(server.clone());
        let namespace = rig.server.namespace().await;
        let number = |text: String| text.parse::<u64>().unwrap();
        let newest = number(create(&namespace, "a", "1").await);
        let secret = namespace.create("secrets", &json!({"metadata": {"name": "s"}})).await;
        let informer = rig.maps(in_namespace(&namespace, mode));
        let current = || number(informer.last_version().unwrap());
        rig.run().await;
        assert!(
            current() >= version(&secret) && version(&secret) > newest,
            "{mode:?}: {}",
            current()
        );
        let mut before = current();
        let mut changed = |written: u64| {
            let (moved, in_memory) = (current(), rig.server.in_memory().is_some());
            // A bookmark may have come on top; the paused clock brings none here.
            assert!(
                moved == written || moved > written && !in_memory,
                "{mode:?}: {moved}, not {written}"
            );
            assert!(moved > before, "{mode:?}: {moved} after {before}");
            before = moved;
        };
        let mut events = informer.events(HandlerOptions::default());
        next(&mut events).await;
        let created = number(create(&namespace, "b", "1").await);
        next(&mut events).await;
        changed(created);
        let updated = version(&update(&rig.server, &namespace, "a", "2").await);
        next(&mut events).await;
        changed(updated);
        delete(&rig.server, &namespace, "a").await;
        let gone = next(&mut events).await;
        changed(number(gone.object().metadata.resource_version.clone().unwrap()));
        drop(events);
        rig.end().await;
    }
}

// [I22] 5,000 objects at 500 a page, with writes between the pages: what the handler is told as initial is the state of the
// first page, and the writes come after it as changes. The real server gets a tenth of them, in as many pages.
async fn list_of_many_pages_is_the_state_of_its_first_one(server: Server) {
    let namespace = server.namespace().await;
    let page_size: u32 = if server.in_memory().is_some() { 500 } else { 50 };
    let count = 10 * page_size as usize;
    let (last, last_but_one) = (format!("m{:04}", count - 1), format!("m{:04}", count - 2));
    let names: Vec<String> = (0..count).map(|n| format!("m{n:04}")).collect();
    futures_util::stream::iter(&names)
        .for_each_concurrent(16, |name| {
            let namespace = &namespace;
            async move {
                create(namespace, name, "1").await;
            }
        })
        .await;
    let pages = Arc::new(AtomicUsize::new(0));
    let (asked, at, writes) = (Arc::clone(&pages), server.clone(), namespace.clone());
    let (changed, deleted) = (last.clone(), last_but_one.clone());
    let kube = through(&server, move |request| {
        let (asked, at, writes) = (Arc::clone(&asked), at.clone(), writes.clone());
        let (changed, deleted) = (changed.clone(), deleted.clone());
        async move {
            if request.uri().query().is_some_and(|query| query.contains("limit=")) {
                let page = asked.fetch_add(1, Ordering::SeqCst) + 1;
                if page == 3 {
                    // of a page that has come, and of one that has not
                    update(&at, &writes, "m0000", "2").await;
                    update(&at, &writes, &changed, "2").await;
                    delete(&at, &writes, &deleted).await;
                    create(&writes, "n", "1").await;
                }
            }
            request
        }
    });
    let client = TestClient::new(Client::new(kube).unwrap());
    let options = in_namespace::<ConfigMap>(&namespace, ListMode::Paged)
        .initial_list(InitialList::Consistent)
        .page_size(page_size)
        .fields("metadata.name!=kube-root-ca.crt");
    let maps = client.informers().typed(options).unwrap();
    let log = EventLog::new();
    let options = HandlerOptions::named("log").coalesce_above(usize::MAX);
    let registration = maps.add_handler(log.handler(), options);
    client.run_and_wait(&CancellationToken::new()).await.unwrap();
    registration.synced().await.unwrap();
    let told = log.wait_for(count + 4).await;
    let (initial, changes) = told.split_at(count);
    let listed: BTreeSet<String> = initial
        .iter()
        .map(|event| {
            assert!(event.is_initial() && super::value(event.object()) == "1", "{event:?}");
            event.key().name().to_owned()
        })
        .collect();
    assert!(listed.iter().eq(&names), "{} objects", listed.len());
    let changes: Vec<String> = changes.iter().map(super::entry).collect();
    let expected = [
        "m0000=1>2",
        &format!("{last}=1>2"),
        &format!("-{last_but_one}=1"),
        "+n=1",
    ];
    assert_eq!(changes, expected);
    assert_eq!(pages.load(Ordering::SeqCst), 10);
    assert_eq!((maps.stats().lists, maps.stats().failures), (1, 0));
    client.end().await;
}

cases!(
    streaming_list_becomes_the_watch,
    both_forms_of_a_list_give_the_same_cache,
    version_is_the_lists_and_then_that_of_each_change,
    list_of_many_pages_is_the_state_of_its_first_one,
);

// [I14] a stream that breaks before its end bookmark starts over; what it brought is not shown
#[tokio::test(start_paused = true)]
async fn broken_streaming_list_shows_nothing_and_starts_over() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for name in ["a", "b", "c"] {
        create(&namespace, name, "1").await;
    }
    let cut = Rule::new(Fault::Reset {
        after: 2,
        cut: fake_apiserver::Cut::MidLine,
    })
    .resource("configmaps");
    let rule = rig.memory().inject(cut.times(2));
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    diary.register(&informer);
    informer.start();
    rule.wait_fired(2).await;
    assert!(!informer.has_synced());
    assert!(cached(&informer).is_empty() && diary.entries().is_empty());
    rig.run().await;
    assert_eq!(diary.wait(3).await, ["+a=1!", "+b=1!", "+c=1!"]);
    assert_eq!(rig.errors().len(), 2);
    rig.end().await;
}

// [I15] refused streaming falls back to pages; the refusal is remembered
#[tokio::test(start_paused = true)]
async fn refused_streaming_falls_back_and_is_remembered() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let refuse = rig.memory().inject(
        Rule::new(Fault::status(422))
            .verb(Verb::Watch)
            .resource("configmaps")
            .times(1),
    );
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    assert_eq!(cached(&informer).len(), 1);
    assert_eq!(refuse.fired(), 1);
    assert_eq!(rig.memory().request_count(Verb::List, "configmaps"), 1);
    // a relist later: pages again, no new attempt to stream
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.memory()
        .inject(Rule::new(Fault::Compact).verb(Verb::Watch).times(1));
    update(&rig.server, &namespace, "a", "2").await;
    let version = create(&namespace, "b", "1").await;
    rig.memory().close_watches("configmaps");
    eventually("the last write", || async {
        (informer.last_version() == Some(version.clone())).then_some(())
    })
    .await;
    let streaming = |query: &str| query.contains("sendInitialEvents");
    let streams = rig
        .memory()
        .requests()
        .iter()
        .filter(|request| streaming(&request.query))
        .count();
    assert_eq!(streams, 1);
    rig.end().await;
}

// [I15] an end bookmark that never comes: pages after two silences of 30 s
#[tokio::test(start_paused = true)]
async fn withheld_end_bookmark_falls_back_to_pages() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    rig.memory()
        .inject(Rule::new(Fault::WithholdInitialEventsEnd).resource("configmaps"));
    // regular bookmarks would count as a sign of life
    rig.memory()
        .inject(Rule::new(Fault::WithholdBookmarks).resource("configmaps"));
    let start = Instant::now();
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(cached(&informer).len(), 1);
    let kinds: Vec<WatchErrorKind> = rig.errors().iter().map(|error| error.kind.clone()).collect();
    assert_eq!(kinds, [WatchErrorKind::Silent, WatchErrorKind::Silent]);
    assert_eq!(rig.memory().request_count(Verb::List, "configmaps"), 1);
    rig.end().await;
}

// [I22] 5,000 objects at 500 a page: one version; then the same with a token that expires on the way
#[tokio::test(start_paused = true)]
async fn paged_list_is_one_state_and_survives_an_expired_token() {
    let rig = Rig::fake();
    for n in 0..5000 {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("m{n}"), "namespace": "default"}, "data": {"v": "1"}
        });
        rig.memory().load(&object).unwrap();
    }
    let version = rig.memory().resource_version();
    let options = || {
        InformerOptions::default()
            .list_mode(ListMode::Paged)
            .initial_list(InitialList::Consistent)
            .page_size(500)
    };
    let informer = rig.maps(options());
    rig.run().await;
    assert_eq!(cached(&informer).len(), 5000);
    assert_eq!(informer.last_version(), Some(version.to_string()));
    assert_eq!(rig.memory().request_count(Verb::List, "configmaps"), 10);
    rig.client.informers().remove(&informer);

    rig.memory().clear_requests();
    // The third page is slow. Meanwhile there is a write, and when the fourth is asked for the history is gone: the new
    // list has what was written.
    rig.memory().inject(
        Rule::new(Fault::Compact)
            .verb(Verb::List)
            .resource("configmaps")
            .page(4),
    );
    let slow = Fault::Latency(Duration::from_mins(1));
    let slow = rig
        .memory()
        .inject(Rule::new(slow).verb(Verb::List).resource("configmaps").page(3));
    let again = rig.maps(options());
    again.start();
    slow.wait_fired(1).await;
    let namespace = rig.server.namespace().await;
    let last = create(&namespace, "late", "1").await;
    again.synced().await.unwrap();
    eventually("the late write", || async {
        (again.last_version() == Some(last.clone())).then_some(())
    })
    .await;
    assert_eq!(cached(&again).len(), 5001);
    let queries: Vec<String> = rig
        .memory()
        .requests()
        .iter()
        .filter(|request| request.verb == Verb::List && request.resource == "configmaps")
        .map(|request| request.query.clone())
        .collect();
    assert_eq!(
        queries.len(),
        5,
        "three pages, the expired one, and all at once: {queries:?}"
    );
    assert_eq!(queries[4], "");
    assert!(rig.errors().iter().any(|error| error.kind == WatchErrorKind::Expired));
    rig.end().await;
}
