//! Tests of what a server tells of itself: open watches, and when it is at rest.

use tokio::time::timeout;

use super::*;
use crate::{Controller, OpenWatch};

#[tokio::test(start_paused = true)]
async fn open_watches_tell_who_watches_what_and_how_far_they_have_got() {
    // [F22] introspection
    let fake = FakeApiServer::new();
    let start = create(&fake, "a", json!({"app": "x"})).await;
    let stale = fake.view("stale");
    stale.freeze();
    let mut first = Watch::open(&stale, "labelSelector=app%3Dx").await;
    let uri = "/apis/apps/v1/namespaces/default/deployments?watch=1&fieldSelector=metadata.name%3Db&resourceVersion=1";
    let mut second = send(&fake, "GET", uri, Bytes::new()).await.unwrap().into_body();
    let shown = |watch: &OpenWatch| {
        (
            (watch.user_agent.clone(), watch.view.clone()),
            (watch.resource.clone(), watch.version.clone(), watch.namespace.clone()),
            (watch.label_selector.clone(), watch.field_selector.clone()),
        )
    };
    let open = fake.watches();
    assert_eq!(
        open.iter().map(shown).collect::<Vec<_>>(),
        [
            (
                ("tests/1".to_owned(), Some("stale".to_owned())),
                ("configmaps".to_owned(), "v1".to_owned(), None),
                ("app=x".to_owned(), String::new())
            ),
            (
                ("tests/1".to_owned(), None),
                (
                    "deployments.apps".to_owned(),
                    "v1".to_owned(),
                    Some("default".to_owned())
                ),
                (String::new(), "metadata.name=b".to_owned())
            ),
        ]
    );
    let reached = || {
        fake.watches()
            .iter()
            .map(|watch| watch.resource_version)
            .collect::<Vec<_>>()
    };
    assert_eq!(reached(), [None, None], "nobody has read anything");
    create(&fake, "b", json!({"app": "x"})).await;
    assert_eq!(first.brief().await.1, "a");
    assert_eq!(reached(), [None, None], "there may be more");
    let silent = Duration::from_secs(1);
    assert!(timeout(silent, first.next()).await.is_err() && timeout(silent, second.frame()).await.is_err());
    assert_eq!(
        reached(),
        [Some(start), Some(start + 1)],
        "one is as far as its view, the other as the log"
    );
    drop(second);
    assert_eq!(fake.watches().len(), 1);
}

/// Reads a watch to its end.
async fn read(mut watch: Watch) {
    while !watch.ends().await {}
}

#[tokio::test(start_paused = true)]
async fn wait_idle_waits_for_requests_watches_and_controllers() {
    // [F22] introspection: rest
    let fake = FakeApiServer::builder()
        .controller(Controller::ServiceAccounts)
        .build()
        .unwrap();
    fake.inject(Rule::new(Fault::Latency(Duration::from_secs(9))).verb(Verb::Create));
    let start = Instant::now();
    fake.wait_idle(Duration::ZERO).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    let watch = Watch::open(&fake, "").await;
    let asleep = fake.clone();
    let request = tokio::spawn(async move {
        let body = json!({"metadata": {"name": "n"}});
        call(&asleep, "POST", "/api/v1/namespaces", body).await.0
    });
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        read(watch).await;
    });
    tokio::task::yield_now().await;
    fake.wait_idle(Duration::ZERO).await;
    assert_eq!(start.elapsed().as_secs(), 20, "until the watch was read");
    assert_eq!(request.await.unwrap(), 201);
    assert!(fake.object("serviceaccounts", Some("n"), "default").is_some());
    assert_eq!(fake.watches()[0].resource_version, Some(fake.resource_version()));
}

#[tokio::test(start_paused = true)]
async fn wait_idle_gives_clients_the_quiet_time_to_go_on() {
    // [F22]
    let fake = FakeApiServer::new();
    let client = fake.clone();
    tokio::spawn(async move {
        for round in 0..5 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            create(&client, &format!("n{round}"), json!({})).await;
        }
    });
    let start = Instant::now();
    fake.wait_idle(Duration::from_secs(3)).await;
    assert_eq!((fake.object_count("configmaps"), start.elapsed().as_secs()), (5, 13));
    fake.wait_idle(Duration::from_secs(3)).await;
    assert_eq!(start.elapsed().as_secs(), 16);
}

#[tokio::test(start_paused = true)]
async fn wait_idle_waits_for_views_that_lag_and_not_for_those_that_stand_still() {
    // [F22]
    let fake = FakeApiServer::new();
    let (slow, stale) = (fake.view("slow"), fake.view("stale"));
    slow.lag(Duration::from_secs(7));
    let watches = [
        Watch::open(&slow, "").await,
        Watch::open(&stale, "").await,
        Watch::open(&fake, "").await,
    ];
    stale.hold("configmaps", Some("default"), "a");
    for watch in watches {
        tokio::spawn(read(watch));
    }
    let start = Instant::now();
    create(&fake, "a", json!({})).await;
    fake.wait_idle(Duration::ZERO).await;
    assert_eq!(start.elapsed().as_secs(), 7);
    stale.release_all();
    fake.wait_idle(Duration::ZERO).await;
    let reached: Vec<_> = fake.watches().iter().map(|watch| watch.resource_version).collect();
    assert_eq!(reached, [Some(fake.resource_version()); 3]);
    stale.freeze();
    create(&fake, "b", json!({})).await;
    fake.wait_idle(Duration::ZERO).await;
    assert_eq!(fake.watches()[1].resource_version, Some(fake.resource_version() - 1));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the server is not at rest: 1 watches have events to send, one of them OpenWatch")]
async fn wait_idle_fails_for_a_watch_that_nobody_reads() {
    let fake = FakeApiServer::new();
    let _unread = Watch::open(&fake, "").await;
    fake.wait_idle(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the server is not at rest: there is something to do again within each 5s")]
async fn wait_idle_fails_for_a_client_that_never_rests() {
    let fake = FakeApiServer::new();
    let client = fake.clone();
    let busy = async {
        loop {
            call(&client, "GET", "/version", Value::Null).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    };
    tokio::select! {
        () = fake.wait_idle(Duration::from_secs(5)) => {}
        () = busy => {}
    }
}
