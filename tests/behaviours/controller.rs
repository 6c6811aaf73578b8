//! The reference test of a controller, on the example's own: seed, run, observe, stop, await the end, nothing is left.
//! And its unit test, with mocks and no server at all.

#[path = "../../examples/pod_controller/controller.rs"]
mod pod_controller;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kclient::mock::{MockReader, MockWriter};
use kclient::queue::Action;
use kclient::{Client, Filter, ObjectKey, Operation, Patch, PatchParams, Subresource, WriteError, Writer, WriterExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::{cluster, key, pod};
use crate::harness::{Server, cases, limited};
use pod_controller::{GREET, GREETING, PodController, Report, Seen, reconcile};

fn asking(mut pod: Pod) -> Pod {
    pod.metadata.labels = Some([(GREET.to_owned(), "please".to_owned())].into());
    pod
}

fn present(key: &ObjectKey, phase: &str) -> Seen {
    Seen::Present(key.clone(), phase.to_owned())
}

// [Q9] [Q12] [W1] the whole life of a controller
async fn a_controller_from_construction_to_its_end(server: Server) {
    let namespace = server.namespace().await;
    let (web, db) = (key(&namespace, "web"), key(&namespace, "db"));
    let users = Client::<Pod>::new(&cluster(&server)).unwrap();
    users.create_object(&pod(&namespace, "db")).await.unwrap();

    // Construction: no request, nothing runs.
    let (cluster, stop) = (cluster(&server), CancellationToken::new());
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let report: Report = Arc::new(move |seen| sender.send(seen).unwrap());
    let filter = Filter::default().namespace(namespace.name());
    let controller = Arc::new(PodController::new(&cluster, filter, report).unwrap());
    assert!(!controller.has_synced());
    assert_eq!(cluster.stats().tasks, 0);

    // Running: first the informers, then the controller.
    cluster.run_and_wait(&stop).await.unwrap();
    let running = tokio::spawn({
        let (controller, stop) = (Arc::clone(&controller), stop.clone());
        async move { controller.run(&stop).await }
    });
    let mut seen = async || limited("a reconcile", receiver.recv()).await.unwrap();
    assert_eq!(seen().await, present(&db, "Pending"), "what was there before");
    controller.queue().synced().await.unwrap();
    assert!(controller.has_synced());

    // Changes by others.
    users.create_object(&pod(&namespace, "web")).await.unwrap();
    assert_eq!(seen().await, present(&web, "Pending"));
    let started = Patch::Merge(json!({"status": {"phase": "Running"}}));
    users
        .patch_status(&web, &started, &PatchParams::default())
        .await
        .unwrap();
    assert_eq!(seen().await, present(&web, "Running"));
    let ask = Patch::Merge(json!({"metadata": {"labels": {GREET: "please"}}}));
    users
        .patch(&web, &ask, Subresource::Main, &PatchParams::default())
        .await
        .unwrap();
    assert_eq!(seen().await, present(&web, "Running"));
    assert_eq!(seen().await, Seen::Greeted(web.clone()));
    assert_eq!(
        seen().await,
        present(&web, "Running"),
        "its own write comes back, and needs no further one"
    );
    let greeted = users.fetch(&web).await.unwrap();
    assert_eq!(greeted.metadata.annotations.unwrap()[GREETING], "Hello, web!");
    let at_once = kclient::DeleteParams {
        grace_period_seconds: Some(0),
        ..kclient::DeleteParams::default()
    };
    users.delete(&web, &at_once).await.unwrap();
    // The real server may show the pod once more, as being deleted.
    loop {
        match seen().await {
            Seen::Gone(gone) => break assert_eq!(gone, web),
            still => assert_eq!(still, present(&web, "Running")),
        }
    }

    // Stop: the controller ends, then everything below it, and nothing is left.
    stop.cancel();
    limited("the controller's end", running).await.unwrap().unwrap();
    controller.queue().wait_for_close(Duration::from_secs(5)).await.unwrap();
    assert!(controller.has_synced(), "it stays true");
    cluster.end().await;
    users.create_object(&pod(&namespace, "late")).await.unwrap();
    // What a reconcile reads may be newer than the event that asked for it: that of the deletion's begin may find the pod
    // gone, and that of its end finds so again.
    while let Ok(seen) = receiver.try_recv() {
        assert_eq!(seen, Seen::Gone(web.clone()));
    }
}

cases!(a_controller_from_construction_to_its_end);

// Stopped before the caches are filled, the controller ends as well.
#[tokio::test(start_paused = true)]
async fn a_controller_can_be_stopped_before_it_has_begun() {
    let server = Server::fake();
    let (cluster, stop) = (cluster(&server), CancellationToken::new());
    let controller = PodController::new(&cluster, Filter::default(), Arc::new(|_| ())).unwrap();
    stop.cancel();
    assert!(controller.run(&stop).await.is_err());
    assert!(!controller.has_synced());
}

/// Collects reports.
fn reports() -> (Arc<Mutex<Vec<Seen>>>, Report) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    (seen, Arc::new(move |what| sink.lock().unwrap().push(what)))
}

fn unit_pod() -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("ns".to_owned());
    pod
}

// A unit test of the reconciler alone: the reader and the writer are mocks.
#[tokio::test]
async fn reconcile_greets_once_and_passes_errors_on() {
    let key = ObjectKey::namespaced("ns", "web");
    let reader = |pod: Option<Pod>| {
        let (mut reader, wanted) = (MockReader::<Pod>::new(), key.clone());
        reader
            .expect_get()
            .withf(move |key| *key == wanted)
            .returning(move |_| pod.clone().map(Arc::new));
        reader
    };
    let (seen, report) = reports();

    // It asks and has none: one patch of exactly the annotation.
    let mut writer = MockWriter::<Pod>::new();
    let expected = Patch::Merge(json!({"metadata": {"annotations": {GREETING: "Hello, web!"}}}));
    writer
        .expect_patch()
        .withf(move |key, patch, subresource, _| {
            key.name() == "web" && *patch == expected && *subresource == Subresource::Main
        })
        .times(1)
        .returning(|_, _, _, _| Ok(unit_pod()));
    let action = reconcile(&reader(Some(asking(unit_pod()))), &writer, &key, &report)
        .await
        .unwrap();
    assert_eq!(action, Action::Done);
    assert_eq!(
        std::mem::take(&mut *seen.lock().unwrap()),
        [present(&key, "Pending"), Seen::Greeted(key.clone())]
    );

    // It has one already, does not ask, or is gone: nothing is written. A mock without expectations panics when called.
    let idle = MockWriter::<Pod>::new();
    let mut greeted = asking(unit_pod());
    greeted.metadata.annotations = Some([(GREETING.to_owned(), "Hello, web!".to_owned())].into());
    for pod in [Some(greeted), Some(unit_pod()), None] {
        reconcile(&reader(pod), &idle, &key, &report).await.unwrap();
    }
    let expected = [
        present(&key, "Pending"),
        present(&key, "Pending"),
        Seen::Gone(key.clone()),
    ];
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), expected);

    // A failed write is an error, for the queue to retry; a pod that is gone meanwhile is not.
    for (code, reason, fails) in [(409, "Conflict", true), (404, "NotFound", false)] {
        let mut writer = MockWriter::<Pod>::new();
        writer.expect_patch().returning(move |key, _, _, _| {
            let status = kube::core::Status {
                code,
                reason: reason.to_owned(),
                ..kube::core::Status::default()
            };
            let (kind, key) = ("Pod".to_owned(), key.clone());
            Err(WriteError::Refused {
                operation: Operation::Patch,
                kind,
                key,
                status: Box::new(status),
            })
        });
        let outcome = reconcile(&reader(Some(asking(unit_pod()))), &writer, &key, &report).await;
        assert_eq!(outcome.is_err(), fails);
    }
    assert!(!seen.lock().unwrap().contains(&Seen::Greeted(key)));
}
