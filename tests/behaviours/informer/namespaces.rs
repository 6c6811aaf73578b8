//! One informer over several namespaces: one cache, one sync, one order per handler, and each namespace by name where it
//! fails. [I37]

use std::time::Duration;

use fake_apiserver::{Fault, Rule, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::Selector;
use kube_client::{
    HandlerOptions, IndexDef, Informer, InformerOptions, Namespaces, Phase, SyncError, SyncOptions, WatchErrorKind,
};
use serde_json::json;

use super::{Diary, Rig, cached, create, delete, entry, key, next, update, value};
use crate::harness::{Namespace, Server, cases, eventually};

fn over(rig: &Rig, namespaces: &[&Namespace]) -> Informer<ConfigMap> {
    let names = namespaces.iter().map(|namespace| namespace.name());
    rig.maps(InformerOptions::default().namespaces(Namespaces::many(names)))
}

/// Waits until the cache shows an object.
async fn shows(informer: &Informer<ConfigMap>, name: &str) {
    eventually("the object in the cache", || async {
        cached(informer).contains_key(name).then_some(())
    })
    .await;
}

// [I37] one cache and index, one sync, one order of events; other namespaces are not seen
async fn several_namespaces_are_one_informer(server: Server) {
    let rig = Rig::new(server);
    let (one, two, other) = (
        rig.server.namespace().await,
        rig.server.namespace().await,
        rig.server.namespace().await,
    );
    create(&one, "a", "1").await;
    create(&two, "b", "1").await;
    create(&other, "c", "1").await;
    let informer = over(&rig, &[&two, &one]);
    let index = informer
        .add_index(&IndexDef::new("value", |map: &ConfigMap| [value(map)]))
        .unwrap();
    let diary = Diary::default();
    let early = diary.register(&informer);
    assert_eq!(informer.last_version(), None);
    rig.run().await;
    early.synced().await.unwrap();
    let mut first = diary.entries();
    first.sort_unstable();
    assert_eq!(first, ["+a=1!", "+b=1!"]);
    assert_eq!(index.get("1").len(), 2);

    let mut late = informer.events(HandlerOptions::default());
    for _ in 0..2 {
        assert!(next(&mut late).await.is_initial());
    }
    create(&other, "d", "1").await;
    // Each change is awaited before the next one: then they have an order over both namespaces.
    create(&one, "e", "1").await;
    shows(&informer, "e").await;
    update(&rig.server, &two, "b", "2").await;
    eventually("the update", || async { (cached(&informer)["b"] == "2").then_some(()) }).await;
    delete(&rig.server, &one, "a").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(entry(&next(&mut late).await));
    }
    assert_eq!(seen, ["+e=1", "b=1>2", "-a=1"]);
    assert_eq!(diary.wait(5).await[2..], seen);

    assert_eq!(
        informer.get(&key(&two, "b")).map(|map| value(&map)).as_deref(),
        Some("2")
    );
    assert_eq!(informer.get(&key(&other, "c")), None);
    let in_two = informer.list(Some(two.name()), &Selector::default());
    let in_two: Vec<String> = in_two.iter().map(|map| value(map)).filter(|v| !v.is_empty()).collect();
    assert_eq!(in_two, ["2"]);
    assert_eq!((index.get("1").len(), index.get("2").len()), (1, 1));

    let stats = informer.stats();
    assert_eq!((stats.watches_open, stats.lists, stats.handlers.len()), (2, 2, 2));
    let mut names = [one.name(), two.name()];
    names.sort_unstable();
    let told: Vec<(&str, bool, Phase)> = stats
        .namespaces
        .iter()
        .map(|stats| (&*stats.namespace, stats.has_synced, stats.phase))
        .collect();
    assert_eq!(told, names.map(|name| (name, true, Phase::Watching)));
    let versions = stats
        .namespaces
        .iter()
        .map(|stats| stats.last_version.parse::<u64>().unwrap());
    assert_eq!(
        informer.last_version(),
        versions.min().map(|version| version.to_string())
    );
    assert_eq!(
        informer.id().to_string(),
        format!("configmaps/v1 in namespaces {}, {}", names[0], names[1])
    );
    drop(late);
    rig.end().await;
}

cases!(several_namespaces_are_one_informer);

// [I37] asked for in any order, the same informer; one namespace is the informer of that namespace
#[tokio::test(start_paused = true)]
async fn equal_sets_share_one_informer() {
    let rig = Rig::fake();
    let (one, two) = (rig.server.namespace().await, rig.server.namespace().await);
    let (_first, _second) = (over(&rig, &[&one, &two]), over(&rig, &[&two, &one, &two]));
    let (_single, _same) = (over(&rig, &[&one]), rig.maps_in(&one));
    let nodes = InformerOptions::<Node>::default().namespaces(Namespaces::many([one.name(), two.name()]));
    let _nodes = rig.client.informers().typed(nodes).unwrap();
    rig.run().await;
    assert_eq!(rig.client.stats().informers.len(), 3);
    assert_eq!(rig.memory().open_watches("configmaps"), 3);
    assert_eq!(rig.memory().open_watches("nodes"), 1, "cluster-scoped kinds ignore it");
    rig.end().await;
}

// [I37] a relist of one namespace changes that namespace alone, in one step
#[tokio::test(start_paused = true)]
async fn relist_of_one_namespace_leaves_the_others_alone() {
    let rig = Rig::fake();
    let (one, two) = (rig.server.namespace().await, rig.server.namespace().await);
    for name in ["a", "b"] {
        create(&one, name, "1").await;
    }
    create(&two, "c", "1").await;
    let informer = over(&rig, &[&one, &two]);
    let diary = Diary::default();
    diary.register(&informer);
    rig.run().await;
    diary.wait(3).await;
    let kept = informer.get(&key(&two, "c")).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;

    // The watch of the first namespace is cut, and cannot go on from where it was.
    let cut = Rule::new(Fault::Refuse)
        .user_agent("informer-case")
        .namespace(one.name());
    let cut = rig.memory().inject(cut);
    rig.memory().close_watches("configmaps");
    cut.wait_fired(1).await;
    delete(&rig.server, &one, "a").await;
    update(&rig.server, &one, "b", "2").await;
    let version = create(&one, "d", "1").await;
    update(&rig.server, &two, "c", "2").await;
    assert_eq!(diary.wait(4).await[3..], ["c=1>2"], "the other namespace goes on");
    rig.memory().compact(version.parse().unwrap());
    let of_one = |informer: &Informer<ConfigMap>| informer.list(Some(one.name()), &Selector::default()).len();
    assert_eq!(of_one(&informer), 2);
    cut.remove();
    let entries = diary.wait(7).await;
    assert_eq!(entries[4..], ["-a=1?", "b=1>2", "+d=1"]);
    assert_eq!(informer.stats().lists, 3);
    assert_eq!(value(&kept), "1");
    assert_eq!(cached(&informer).len(), 3);
    rig.end().await;
}

// [I37] a namespace without rights shows by name everywhere; the others run; its rights complete the sync
#[tokio::test(start_paused = true)]
async fn namespace_without_rights_is_blocked_by_name() {
    let rig = Rig::fake();
    let (open, closed) = (rig.server.namespace().await, rig.server.namespace().await);
    create(&open, "a", "1").await;
    create(&closed, "b", "1").await;
    let forbid = rig
        .memory()
        .inject(Rule::new(Fault::status(403)).namespace(closed.name()).verb(Verb::Watch));
    let informer = over(&rig, &[&open, &closed]);
    let diary = Diary::default();
    let registration = diary.register(&informer);
    let error = rig
        .client
        .run_and_wait_with(&rig.stop, SyncOptions::fail_fast())
        .await
        .unwrap_err();
    let SyncError::Blocked { informers } = &error else {
        panic!("{error}")
    };
    assert_eq!(informers.len(), 1, "the namespace that is open does not block");
    assert_eq!(informers[0].error.namespace.as_deref(), Some(closed.name()));
    let cause = format!("forbidden: cannot list configmaps in namespace {}", closed.name());
    assert!(error.to_string().contains(&cause), "{error}");

    // The others run: reads, events, and changes, while the sync waits.
    assert_eq!(diary.wait(1).await, ["+a=1!"]);
    update(&rig.server, &open, "a", "2").await;
    create(&open, "c", "1").await;
    assert_eq!(diary.wait(3).await[1..], ["a=1>2", "+c=1"]);
    let middle = Diary::default();
    let amid = middle.register(&informer);
    middle.wait(2).await;
    assert!(!informer.has_synced() && !registration.has_synced() && !amid.has_synced());

    let stats = informer.stats();
    assert!(!stats.has_synced);
    assert_eq!((stats.phase, stats.last_version.as_str()), (Phase::Backoff, ""));
    for told in &stats.namespaces {
        let blocked = *told.namespace == *closed.name();
        assert_eq!((told.has_synced, told.error.is_some()), (!blocked, blocked), "{told:?}");
        assert_eq!(told.last_version.is_empty(), blocked);
    }
    for error in rig.errors() {
        assert_eq!(error.kind, WatchErrorKind::Forbidden);
        assert_eq!(
            error.namespace.as_deref(),
            Some(closed.name()),
            "the handler is told by name"
        );
    }
    assert!(!rig.errors().is_empty());

    forbid.remove();
    informer.synced().await.unwrap();
    for (registration, diary) in [(&registration, &diary), (&amid, &middle)] {
        registration.synced().await.unwrap();
        assert_eq!(diary.entries().last().map(String::as_str), Some("+b=1!"));
    }
    assert!(informer.stats().error.is_none());
    rig.end().await;
}

/// Lets the user "nobody" read the maps of a namespace.
async fn grant(server: &Server, namespace: &Namespace) {
    let group = "rbac.authorization.k8s.io";
    let at = format!("/apis/{group}/v1/namespaces/{}", namespace.name());
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let role = json!({"metadata": {"name": "reader"}, "rules": rules});
    server.post(&format!("{at}/roles"), &role).await.created();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "nobody"}],
    });
    server.post(&format!("{at}/rolebindings"), &binding).await.created();
}

// [I37] with the rights of a real server, which are given per namespace
#[tokio::test]
#[ignore = "needs the API server rig"]
async fn rights_of_a_real_server_block_by_name() {
    let admin = Server::with_rights().await;
    let (open, closed) = (admin.namespace().await, admin.namespace().await);
    create(&open, "a", "1").await;
    create(&closed, "b", "1").await;
    grant(&admin, &open).await;
    let rig = Rig::new(admin.as_nobody());
    // Rights are in force only after the authorizer has seen them.
    let granted = format!("/api/v1/namespaces/{}/configmaps", open.name());
    eventually("the rights", || async {
        (rig.server.get(&granted).await.code == 200).then_some(())
    })
    .await;
    let informer = over(&rig, &[&open, &closed]);
    let error = rig
        .client
        .run_and_wait_with(&rig.stop, SyncOptions::fail_fast())
        .await
        .unwrap_err();
    let text = error.to_string();
    let cause = format!("forbidden: cannot list configmaps in namespace {}: ", closed.name());
    assert!(text.contains(&cause), "{text}");
    shows(&informer, "a").await;
    assert!(!informer.has_synced());
    grant(&admin, &closed).await;
    informer.synced().await.unwrap();
    assert_eq!(cached(&informer).len(), 2);
    rig.end().await;
}
