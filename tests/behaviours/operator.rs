//! The reference test of an operator, on the example's own: its kind comes late, objects are owned, cleaned up after, told of.

#[path = "../../examples/crd_operator/operator.rs"]
mod controller;
#[path = "../../examples/crd_operator/site.rs"]
mod site;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kclient::owner::{Owner, controller_of};
use kclient::{
    Activation, ObjectKey, Outcome, Patch, PatchParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
};
use kube_client::testing::{TestClient, assert_eventually};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{cluster, key, typed};
use crate::harness::{Namespace, Server, limited, own_server_cases};
use controller::{Did, Directory, FINALIZER, NAME, Operator, Report};
use site::{Site, install};

/// An operator that runs, and the hands of people and of the cluster's own controllers.
struct Running {
    cluster: TestClient,
    operator: Arc<Operator>,
    directory: Directory,
    did: mpsc::UnboundedReceiver<Did>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), kclient::Stopped>>,
    sites: WriteClient<Site>,
    deployments: WriteClient<Deployment>,
}

impl Running {
    /// Starts it while its kind is not installed.
    async fn start(server: &Server) -> Running {
        let (cluster, stop, directory) = (cluster(server), CancellationToken::new(), Directory::default());
        let (sender, did) = mpsc::unbounded_channel();
        let report: Report = Arc::new(move |what| sender.send(what).unwrap());
        let operator = Arc::new(Operator::new(&cluster, directory.clone(), report).unwrap());
        assert_eq!(cluster.stats().tasks, 0, "construction starts nothing");
        cluster.run_and_wait(&stop).await.unwrap();
        let task = tokio::spawn({
            let (operator, stop) = (Arc::clone(&operator), stop.clone());
            async move { operator.run(&stop).await }
        });
        limited("the first sync", operator.queue().synced()).await.unwrap();
        assert_eq!(*operator.sites().activation().borrow(), Activation::Absent);
        let (sites, deployments) = (WriteClient::new(&cluster), WriteClient::new(&cluster));
        Running {
            cluster,
            operator,
            directory,
            did,
            stop,
            task,
            sites,
            deployments,
        }
    }

    /// Installs the kind and waits until the operator watches it.
    async fn installed(&self) {
        assert!(matches!(install(&self.cluster).await.unwrap(), Outcome::Created(_)));
        let mut activation = self.operator.sites().activation();
        let active = activation.wait_for(|state| *state == Activation::Active);
        limited("the activation", active).await.unwrap();
    }

    async fn did(&mut self) -> Did {
        limited("a reconcile", self.did.recv()).await.unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        limited("the operator's end", self.task).await.unwrap().unwrap();
        self.operator
            .queue()
            .wait_for_close(Duration::from_secs(5))
            .await
            .unwrap();
        self.cluster.end().await;
    }
}

fn new_site(namespace: &Namespace, name: &str) -> Site {
    typed(json!({
        "apiVersion": "crd-operator.example/v1", "kind": "Site",
        "metadata": {"name": name, "namespace": namespace.name()},
        "spec": {"image": "registry.example/pages:1", "host": format!("{name}.example.org"), "replicas": 2},
    }))
}

/// What the controller of deployments tells of two pods, so many of which serve.
fn available_pods(available: i32) -> Patch {
    let status = json!({"replicas": 2, "readyReplicas": available, "availableReplicas": available});
    Patch::Merge(json!({"status": status}))
}

/// `Ready` as its status, reason, message and the generation that it is about.
fn ready(site: &Site) -> (String, String, String, Option<i64>) {
    let status = site.status.as_ref().unwrap();
    let [condition] = &status.conditions[..] else {
        panic!("one condition: {:?}", status.conditions)
    };
    assert_eq!(condition.type_, "Ready");
    let condition = condition.clone();
    (
        condition.status,
        condition.reason,
        condition.message,
        condition.observed_generation,
    )
}

fn text(parts: (&str, &str, &str), generation: i64) -> (String, String, String, Option<i64>) {
    (
        parts.0.to_owned(),
        parts.1.to_owned(),
        parts.2.to_owned(),
        Some(generation),
    )
}

/// The reasons of all events of a namespace about this site, in any order.
async fn events(running: &Running, namespace: &Namespace, name: &str) -> Vec<String> {
    let events: kube::Api<Event> = kube::Api::namespaced(running.cluster.kube().clone(), namespace.name());
    let found = events.list(&kube::api::ListParams::default()).await.unwrap();
    let about = found
        .items
        .into_iter()
        .filter(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name));
    let mut reasons: Vec<_> = about.filter_map(|event| event.reason).collect();
    reasons.sort();
    reasons
}

// [D3] [W4] [W5] the life of a site: made, served, changed, deleted
async fn a_site_from_its_making_to_its_end(server: Server) {
    let namespace = server.namespace().await;
    let mut running = Running::start(&server).await;
    let of = key(&namespace, "blog");
    let early = running.sites.create_object(&new_site(&namespace, "blog")).await;
    assert!(early.unwrap_err().is_not_found(), "there is no such kind yet");
    running.installed().await;

    // Made: an owned deployment, an entry outside, a status, an event.
    let params = PatchParams::default();
    let made = running
        .sites
        .create_object(&new_site(&namespace, "blog"))
        .await
        .unwrap();
    assert_eq!(running.did().await, Did::Created(of.clone()));
    assert_eq!(running.did().await, Did::Told(of.clone(), "Progressing".to_owned()));
    let site = running.sites.fetch(&of).await.unwrap();
    assert_eq!(site.metadata.finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));
    assert_eq!(ready(&site), text(("False", "Progressing", "0 of 2 pods serve it"), 1));
    let deployment = running.deployments.fetch(&of).await.unwrap();
    assert!(Owner::new(&made).unwrap().is_owner_of(&deployment));
    assert_eq!(controller_of(&deployment).unwrap().kind, "Site");
    assert_eq!(deployment.spec.replicas, Some(2));
    assert_eq!(running.directory.hosts(), ["blog.example.org"]);
    assert_eq!(events(&running, &namespace, "blog").await, ["Created"]);

    // Served, as far as the cluster's controllers get.
    for (available, status) in [(1, ("False", "Progressing")), (2, ("True", "Serving"))] {
        running
            .deployments
            .patch_status(&of, &available_pods(available), &params)
            .await
            .unwrap();
        assert_eq!(running.did().await, Did::Told(of.clone(), status.1.to_owned()));
        let message = format!("{available} of 2 pods serve it");
        let site = running.sites.fetch(&of).await.unwrap();
        assert_eq!(ready(&site), text((status.0, status.1, &message), 1));
        assert_eq!(site.status.unwrap().available_replicas, available);
    }

    // Changed: the deployment follows, and keeps what others have set, as the server's defaults.
    let theirs = Patch::Merge(json!({"metadata": {"annotations": {"theirs": "kept"}}, "spec": {"paused": true}}));
    running
        .deployments
        .patch(&of, &theirs, Subresource::Main, &params)
        .await
        .unwrap();
    let image = Patch::Merge(json!({"spec": {"image": "registry.example/pages:2"}}));
    running
        .sites
        .patch(&of, &image, Subresource::Main, &params)
        .await
        .unwrap();
    assert_eq!(running.did().await, Did::Updated(of.clone()));
    assert_eq!(running.did().await, Did::Told(of.clone(), "Serving".to_owned()));
    let changed = running.deployments.fetch(&of).await.unwrap();
    let container = &changed.spec.template.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("registry.example/pages:2"));
    let before = &deployment.spec.template.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.termination_message_path, before.termination_message_path);
    assert_eq!(
        (
            changed.spec.paused,
            changed.metadata.annotations.unwrap()["theirs"].as_str()
        ),
        (Some(true), "kept")
    );
    assert_eq!(ready(&running.sites.fetch(&of).await.unwrap()).3, Some(2));

    // Deleted: cleaned up after, then gone. The deployment is for the garbage collector.
    running.sites.delete_object(&of).await.unwrap();
    assert_eq!(running.did().await, Did::CleanedUp(of.clone()));
    assert_eq!(running.did().await, Did::Gone(of.clone()));
    assert!(running.sites.fetch(&of).await.unwrap_err().is_not_found());
    assert!(running.directory.hosts().is_empty());
    assert_eq!(events(&running, &namespace, "blog").await, ["Created", "Withdrawn"]);
    running.end().await;
}

// Where all is well nothing is written: not after its own writes, not when it looks again
async fn an_operator_comes_to_rest(server: Server) {
    let namespace = server.namespace().await;
    let mut running = Running::start(&server).await;
    running.installed().await;
    let of = key(&namespace, "blog");
    running
        .sites
        .create_object(&new_site(&namespace, "blog"))
        .await
        .unwrap();
    assert_eq!(running.did().await, Did::Created(of.clone()));
    assert_eq!(running.did().await, Did::Told(of.clone(), "Progressing".to_owned()));
    let queue = running.operator.queue();
    let at_rest = async || {
        let snapshot = queue.snapshot(0);
        snapshot.queued_total + snapshot.processing_total + snapshot.delayed_total
    };
    assert_eventually("the queue at rest", at_rest, |keys| *keys == 0).await;
    let written = (
        running.sites.fetch(&of).await.unwrap(),
        running.deployments.fetch(&of).await.unwrap(),
    );
    for _ in 0..3 {
        let reconciled = queue.metrics().succeeded_total;
        queue.add(&of);
        assert_eventually(
            "a reconcile",
            async || queue.metrics().succeeded_total,
            |now| *now > reconciled,
        )
        .await;
    }
    assert_eq!(running.sites.fetch(&of).await.unwrap(), written.0);
    assert_eq!(running.deployments.fetch(&of).await.unwrap(), written.1);
    assert_eq!(running.did.try_recv().ok(), None);
    let again = install(&running.cluster).await.unwrap();
    assert!(!matches!(again, Outcome::Created(_)), "it is there already: {again:?}");
    running.end().await;
}

// A deployment of the name that is not the operator's is left alone, and people are told
async fn deployments_of_others_are_left_alone(server: Server) {
    let namespace = server.namespace().await;
    let mut running = Running::start(&server).await;
    running.installed().await;
    let (free, held) = (key(&namespace, "free"), key(&namespace, "held"));
    let foreign = |name: &str, owners: serde_json::Value| -> Deployment {
        let template = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
        });
        typed(json!({
            "metadata": {"name": name, "namespace": namespace.name(), "ownerReferences": owners},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
        }))
    };
    let other =
        json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": true}]);
    let mut theirs = Vec::new();
    for deployment in [foreign("free", json!([])), foreign("held", other)] {
        theirs.push(running.deployments.create_object(&deployment).await.unwrap());
    }
    for (of, message) in [
        (
            &free,
            "deployment free: there is one already, and it was not made for a site".to_owned(),
        ),
        (
            &held,
            format!("deployment held: {held} is controlled by Widget w already"),
        ),
    ] {
        running
            .sites
            .create_object(&new_site(&namespace, of.name()))
            .await
            .unwrap();
        assert_eq!(running.did().await, Did::Told(of.clone(), "NameTaken".to_owned()));
        let site = running.sites.fetch(of).await.unwrap();
        assert_eq!(ready(&site), text(("False", "NameTaken", &message), 1));
        let told = async || events(&running, &namespace, of.name()).await;
        assert_eventually("the event", told, |reasons| *reasons == ["NameTaken"]).await;
    }
    for (of, theirs) in [&free, &held].into_iter().zip(theirs) {
        assert_eq!(running.deployments.fetch(of).await.unwrap(), theirs);
    }
    running.end().await;
}

// The status is applied: its fields are the operator's, a condition of somebody else's stays.
async fn the_status_is_applied(server: Server) {
    let namespace = server.namespace().await;
    let mut running = Running::start(&server).await;
    running.installed().await;
    let of = key(&namespace, "blog");
    running
        .sites
        .create_object(&new_site(&namespace, "blog"))
        .await
        .unwrap();
    assert_eq!(running.did().await, Did::Created(of.clone()));
    assert_eq!(running.did().await, Did::Told(of.clone(), "Progressing".to_owned()));
    let applied_by = |site: &Site| {
        let entries = site.metadata.managed_fields.clone().unwrap();
        let status = entries.into_iter().filter(|entry| {
            entry.subresource.as_deref() == Some("status") && entry.operation.as_deref() == Some("Apply")
        });
        status.filter_map(|entry| entry.manager).collect::<Vec<_>>()
    };
    assert_eq!(applied_by(&running.sites.fetch(&of).await.unwrap()), [NAME]);

    let checked = json!({
        "type": "Checked", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let theirs = json!({"apiVersion": "crd-operator.example/v1", "kind": "Site", "status": {"conditions": [checked]}});
    let params = PatchParams::apply("checker");
    let both = running.sites.apply_status(&of, &theirs, &params).await.unwrap();
    assert_eq!(both.status.unwrap().conditions.len(), 2);
    let pods = available_pods(2);
    running
        .deployments
        .patch_status(&of, &pods, &PatchParams::default())
        .await
        .unwrap();
    let site = assert_eventually(
        "the status",
        async || running.sites.fetch(&of).await.unwrap(),
        |site| {
            site.status
                .as_ref()
                .is_some_and(|status| status.available_replicas == 2)
        },
    )
    .await;
    let conditions = site.status.unwrap().conditions;
    let mut types: Vec<_> = conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.reason.as_str()))
        .collect();
    types.sort_unstable();
    assert_eq!(types, [("Checked", "Fine"), ("Ready", "Serving")]);
    running.end().await;
}

own_server_cases!(
    a_site_from_its_making_to_its_end,
    an_operator_comes_to_rest,
    deployments_of_others_are_left_alone,
    the_status_is_applied,
);

// Trouble on the way is retried, until the site is what it should be
#[tokio::test(start_paused = true)]
async fn trouble_is_retried() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let mut running = Running::start(&server).await;
    running.installed().await;
    let memory = server.in_memory().unwrap();
    let rule = |fault, verb| fake_apiserver::Rule::new(fault).verb(verb).times(2);
    let lost = memory.inject(
        rule(fake_apiserver::Fault::LoseResponse, fake_apiserver::Verb::Patch).resource("sites.crd-operator.example"),
    );
    let busy = memory
        .inject(rule(fake_apiserver::Fault::status(500), fake_apiserver::Verb::Create).resource("deployments.apps"));
    let deaf = memory.inject(
        rule(fake_apiserver::Fault::status(403), fake_apiserver::Verb::Create).resource("events.events.k8s.io"),
    );
    let of: ObjectKey = key(&namespace, "blog");
    running
        .sites
        .create_object(&new_site(&namespace, "blog"))
        .await
        .unwrap();
    assert_eq!(running.did().await, Did::Created(of.clone()));
    while running.did().await != Did::Told(of.clone(), "Progressing".to_owned()) {}
    assert_eq!((lost.fired(), busy.fired(), deaf.fired()), (2, 2, 1));
    assert!(running.operator.queue().metrics().errors_total >= 2);
    let gone: Result<Site, WriteError> = {
        running.sites.delete_object(&of).await.unwrap();
        while running.did().await != Did::Gone(of.clone()) {}
        running.sites.fetch(&of).await
    };
    assert!(gone.unwrap_err().is_not_found());
    assert!(running.directory.hosts().is_empty());
    running.end().await;
}
