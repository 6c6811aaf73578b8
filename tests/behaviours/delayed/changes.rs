//! The kind goes, comes again, changes its versions, and flaps.

use std::sync::Arc;

use kclient::{Activation, Client, Event, Filter, Informer, ObjectKey, Reader, WriteError, WriterExt};
use kube::core::DynamicObject;
use kube_client::testing::{TestClient, assert_eventually};
use kube_client::{CrdOptions, NamespaceFilter};

use super::{Watching, cluster, create, resource, watch, widget};
use crate::discovery::Widgets;
use crate::harness::{Server, cases, limited};
use crate::views::{lines, log, names, told};

// [D5] [D3] the kind is deleted: Deleted for each object, no watch, no error loop; and again: Added
async fn kind_goes_and_comes_again(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    widgets.define().await;
    for name in ["a", "b"] {
        create(&server, &widgets, &namespace, name).await;
    }
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    cluster.sync().await;
    limited("the sync", watching.client.synced()).await.unwrap();
    watching.reach(Activation::Active).await;
    assert_eq!(told(&watching.log, 2).await, ["+a!", "+b!"]);
    let informer = format!("widgets.{}/v1", widgets.group);
    for round in 0..2 {
        widgets.undefine().await;
        watching.reach(Activation::Absent).await;
        assert_eq!(told(&watching.log, 2).await, ["-a", "-b"], "round {round}");
        watching.assert_empty();
        assert!(
            watching.client.has_synced() && watching.registration.has_synced(),
            "it never goes back"
        );
        let refused = watching.client.create_object(&widget(&widgets, &namespace, "c")).await;
        assert!(matches!(refused, Err(WriteError::KindNotInstalled { .. })));
        // Nothing is tried any more, however long it lasts.
        let before = cluster.stats().informer(&informer).unwrap().clone();
        assert_eq!((before.watches_open, before.phase), (0, kube_client::Phase::Absent));
        if server.in_memory().is_some() {
            tokio::time::advance(std::time::Duration::from_mins(10)).await;
            let after = cluster.stats().informer(&informer).unwrap().clone();
            assert_eq!((before.failures, before.lists), (after.failures, after.lists));
        }
        widgets.define().await;
        for name in ["a", "b"] {
            create(&server, &widgets, &namespace, name).await;
        }
        watching.reach(Activation::Active).await;
        watching.log.wait_for(2).await;
        let events = watching.log.take();
        assert!(
            events.iter().all(|event| matches!(event, Event::Added { .. })),
            "{events:?}"
        );
        assert_eq!(names(&watching.client, None), ["a", "b"]);
        assert_eq!(watching.by_name.get("a").len(), 1);
    }
    widgets.remove().await;
    cluster.end().await;
}

// [D2] a definition that does not serve the version is as none; two versions are two kinds, each with its own life
async fn versions_come_and_go(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    let cluster = cluster(&server);
    let (one, two) = (watch(&cluster, &widgets, "v1"), watch(&cluster, &widgets, "v2"));
    cluster.sync().await;
    one.reach(Activation::Active).await;
    limited("the sync", two.client.synced()).await.unwrap();
    assert_eq!(*two.client.activation().borrow(), Activation::Absent);
    two.assert_empty();
    assert_eq!(lines(&one.log), ["+a!"]);

    widgets.serve(&[("v1", true), ("v2", true)]).await;
    two.reach(Activation::Active).await;
    two.log.wait_for(1).await;
    assert_eq!(names(&two.client, None), ["a"]);
    two.log.take();
    widgets.serve(&[("v1", false), ("v2", true)]).await;
    one.reach(Activation::Absent).await;
    assert_eq!(told(&one.log, 1).await, ["-a"]);
    one.assert_empty();
    assert_eq!(*two.client.activation().borrow(), Activation::Active);
    assert!(two.log.events().is_empty() && one.client.has_synced());
    two.client
        .delete_object(&ObjectKey::namespaced(namespace.name(), "a"))
        .await
        .unwrap();
    assert_eq!(told(&two.log, 1).await, ["-a"]);
    widgets.remove().await;
    cluster.end().await;
}

// A definition below its minimum version is as none, until it is upgraded
async fn minimum_version_of_a_delayed_kind(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let crds = CrdOptions::default()
        .minimum_version(widgets.name(), "1.4.0")
        .version_annotation("example.com/bundle");
    let options = kube_client::Client::builder().crds(crds);
    let cluster = TestClient::new(options.build_with(server.client()).unwrap());
    widgets.define().await;
    widgets.annotate("example.com/bundle", "v1.3.0").await;
    create(&server, &widgets, &namespace, "a").await;
    let watching = watch(&cluster, &widgets, "v1");
    cluster.sync().await;
    limited("the sync", watching.client.synced()).await.unwrap();
    watching.assert_empty();
    widgets.annotate("example.com/bundle", "v1.4.0").await;
    watching.reach(Activation::Active).await;
    assert_eq!(told(&watching.log, 1).await, ["+a!"]);
    widgets.annotate("example.com/bundle", "v1.3.0").await;
    watching.reach(Activation::Absent).await;
    assert_eq!(told(&watching.log, 1).await, ["-a"]);
    widgets.remove().await;
    cluster.end().await;
}

// [V2] a filter that changes, on a kind that comes and goes
async fn filter_over_a_delayed_kind(server: Server) {
    let (one, two, widgets) = (
        server.namespace().await,
        server.namespace().await,
        Widgets::new(&server),
    );
    let filter = Arc::new(NamespaceFilter::new([one.name()]));
    let cluster = cluster(&server);
    let choose = Filter::default().objects(Arc::clone(&filter) as _);
    let client = Client::<DynamicObject>::delayed_of(&cluster, &resource(&widgets, "v1"), choose).unwrap();
    let (log, _) = log(&client);
    cluster.sync().await;
    filter.set([two.name()]);
    widgets.define().await;
    for (namespace, name) in [(&one, "a"), (&two, "b")] {
        create(&server, &widgets, namespace, name).await;
    }
    log.wait_for(1).await;
    assert_eq!(names(&client, None), ["b"]);
    log.take();
    assert_eventually("both in the cache", async || client.informer().len(), |len| *len == 2).await;
    filter.set([one.name()]);
    assert_eq!(told(&log, 2).await, ["+a", "-b"]);
    widgets.undefine().await;
    assert_eq!(told(&log, 1).await, ["-a"]);
    filter.set([one.name(), two.name()]);
    assert!(log.events().is_empty() && client.view().is_empty());
    cluster.end().await;
}

// The kind flaps a thousand times: nothing is left behind, nothing told twice, and at the end all is as it is
async fn flapping_kind(server: Server) {
    let rounds: usize = if server.in_memory().is_some() { 1000 } else { 4 };
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let Watching { client, log, .. } = watch(&cluster, &widgets, "v1");
    cluster.sync().await;
    limited("the sync", client.synced()).await.unwrap();
    let tasks = cluster.stats().tasks;
    for round in 0..rounds {
        widgets.define().await;
        if round % 3 == 0 {
            create(&server, &widgets, &namespace, "a").await;
            assert_eventually("the object", async || client.view().len(), |len| *len == 1).await;
        }
        widgets.undefine().await;
        assert!(client.has_synced());
    }
    let mut activation = client.activation();
    limited("the end", activation.wait_for(|now| *now == Activation::Absent))
        .await
        .unwrap();
    assert_eventually("the last delete", async || log.folded().len(), |held| *held == 0).await;
    assert!(
        log.events().len() >= 2 * rounds.div_ceil(3),
        "{} events",
        log.events().len()
    );
    assert!(client.view().is_empty());
    assert_eventually(
        "the tasks of before",
        async || cluster.stats().tasks,
        |now| *now == tasks,
    )
    .await;
    let stats = cluster.stats();
    let informer = stats.informer(&format!("widgets.{}/v1", widgets.group)).unwrap();
    assert_eq!((informer.watches_open, informer.objects), (0, 0));
    widgets.define().await;
    create(&server, &widgets, &namespace, "b").await;
    assert_eventually("the object", async || names(&client, None), |names| *names == ["b"]).await;
    widgets.remove().await;
    cluster.end().await;
}

// [D2] [D5] two versions of one kind, each served or not, the definition there or not, five hundred times at random: each client
// ends with its own truth
async fn flapping_versions(server: Server) {
    let rounds = if server.in_memory().is_some() { 500 } else { 6 };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = [watch(&cluster, &widgets, "v1"), watch(&cluster, &widgets, "v2")];
    cluster.sync().await;
    let tasks = cluster.stats().tasks;
    let (mut defined, mut objects) = (false, Vec::new());
    for round in 0..=rounds {
        let mut served = [false, false];
        if !defined {
            widgets.define().await;
            (defined, served[0]) = (true, true); // v1 alone
        } else if random.u8(..3) == 0 {
            widgets.undefine().await;
            defined = false;
            objects.clear();
        } else {
            // One of them at least, or the server refuses it.
            served = [[true, true], [true, false], [false, true]][random.usize(..3)];
            widgets.serve(&[("v1", served[0]), ("v2", served[1])]).await;
        }
        // To look each time would leave no race.
        if random.u8(..8) > 0 && round < rounds {
            continue;
        }
        if served[0] {
            objects.push(format!("w{round:03}"));
            create(&server, &widgets, &namespace, &objects[objects.len() - 1]).await;
        }
        for (watching, served) in watching.iter().zip(served) {
            let (state, expected) = if served {
                (Activation::Active, objects.clone())
            } else {
                (Activation::Absent, Vec::new())
            };
            watching.reach(state).await;
            let read = async || names(&watching.client, None);
            assert_eventually("what is there", read, |names| *names == expected).await;
            let told = async || {
                let held = watching.log.folded();
                held.keys().map(|key| key.name().to_owned()).collect::<Vec<_>>()
            };
            assert_eventually("what the handler holds", told, |names| *names == expected).await;
            assert!(watching.client.has_synced());
        }
    }
    if defined {
        widgets.undefine().await;
    }
    for watching in &watching {
        watching.reach(Activation::Absent).await;
        watching.assert_empty();
    }
    assert_eventually(
        "the tasks of before",
        async || cluster.stats().tasks,
        |now| *now == tasks,
    )
    .await;
    cluster.end().await;
}

cases!(
    flapping_versions,
    kind_goes_and_comes_again,
    versions_come_and_go,
    minimum_version_of_a_delayed_kind,
    filter_over_a_delayed_kind,
    flapping_kind,
);

// [D5] while the server misbehaves as the kind goes: the watch breaks and lists are refused, and nothing is told twice
#[tokio::test(start_paused = true)]
async fn kind_goes_while_the_server_refuses() {
    use fake_apiserver::{Fault, Rule, Verb};
    let server = Server::fake();
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    cluster.sync().await;
    watching.reach(Activation::Active).await;
    assert_eq!(lines(&watching.log), ["+a!"]);
    let (fake, plural) = (server.in_memory().unwrap(), format!("widgets.{}", widgets.group));
    for verb in [Verb::List, Verb::Watch] {
        fake.inject(
            Rule::new(Fault::status(503))
                .verb(verb)
                .resource(plural.as_str())
                .user_agent("delayed-case"),
        );
    }
    fake.close_watches(&plural);
    assert_eventually(
        "a failure",
        async || {
            cluster
                .stats()
                .informer(&format!("widgets.{}/v1", widgets.group))
                .unwrap()
                .failures
        },
        |failures| *failures > 0,
    )
    .await;
    widgets.undefine().await;
    watching.reach(Activation::Absent).await;
    let events = watching.log.wait_for(1).await;
    assert!(
        matches!(&events[..], [Event::Deleted { stale: true, .. }]),
        "{events:?}"
    );
    fake.clear_faults();
    watching.log.take();
    widgets.define().await;
    create(&server, &widgets, &namespace, "b").await;
    watching.reach(Activation::Active).await;
    assert_eventually(
        "the new object",
        async || names(&watching.client, None),
        |names| *names == ["b"],
    )
    .await;
    assert_eq!(lines(&watching.log).len(), 1);
    assert!(
        watching
            .client
            .get(&ObjectKey::namespaced(namespace.name(), "b"))
            .is_some()
    );
    cluster.end().await;
}
