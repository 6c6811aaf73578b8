//! The writer of statuses on an API server. The services of these cases say in an annotation what their status is to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kclient::testing::{TestClient, TestWriter};
use kclient::{Filter, Patch, PatchParams, Subresource, WriteClient, Writer};
use krt::kube::conditions::{self, Is};
use krt::kube::{StatusStats, StatusWriter};
use krt::testing::Stepper;
use krt::{Collection, InformerCollection, Krt, Text, WithStatus};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{cluster, key, map};
use crate::harness::{Log, Namespace, Server, cases, eventually};

const WANTED: &str = "wanted";

/// One program that derives statuses and writes them while it leads.
struct Program {
    stepper: Stepper,
    cluster: TestClient,
    /// For everything that is written. It is never started.
    writes: TestClient,
    namespace: Namespace,
    /// The seconds of its clock.
    clock: Arc<AtomicI64>,
    services: InformerCollection<Service>,
    statuses: Collection<WithStatus<Service, ServiceStatus>>,
    writer: StatusWriter<Service, ServiceStatus>,
}

impl Program {
    async fn new(server: &Server, namespace: Namespace) -> Self {
        let (krt, cluster) = (Krt::builder("case").build(), cluster(server));
        let filter = Filter::default().namespace(namespace.name());
        let services = krt.from_client::<Service>(&cluster, filter).unwrap();
        let (statuses, _) = krt.status_collection("services", &services, |_, service| (wanted(service), None::<Text>));
        let writes = crate::client::cluster(server);
        let client = WriteClient::new(&writes);
        let writer = StatusWriter::builder("tester", client, &statuses, |service: &Service| service.status.as_ref());
        let clock = Arc::new(AtomicI64::new(0));
        let now = Arc::clone(&clock);
        let writer = writer.prepare(move |service, status| {
            let now = Timestamp::from_second(now.load(Ordering::Relaxed)).unwrap();
            let desired = status.conditions.as_deref_mut().unwrap_or_default();
            conditions::merge(conditions_of(service), desired, &Time(now));
        });
        let mut program = Self {
            stepper: Stepper::new(&krt).unwrap(),
            cluster,
            writes,
            namespace,
            clock,
            services,
            statuses,
            writer: writer.build(),
        };
        program.cluster.sync().await;
        program.until("the sync", |program| program.statuses.has_synced()).await;
        program
    }

    /// Lets the engine run until this holds.
    async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        eventually(what, || {
            self.stepper.settle();
            std::future::ready(holds(self).then_some(()))
        })
        .await;
    }

    /// Lets the engine run until this holds for what the writer has done.
    async fn until_stats(&mut self, what: &str, holds: impl Fn(StatusStats) -> bool) {
        self.until(what, |program| holds(program.writer.stats())).await;
    }

    /// Waits until there is nothing left to do for an object, as shown by a label of it: a change that nothing follows from. Returns the
    /// object.
    async fn at_rest(&mut self, name: &str) -> Service {
        let label = json!({"metadata": {"labels": {"seen": crate::harness::unique()}}});
        let labelled = self.users().merge(name, label).await;
        let namespace = self.namespace.name().to_owned();
        // The writer runs on the same thread, so it has not looked at the change when the engine has just told it.
        let mut unchanged = 0;
        self.until("the label", |program| {
            unchanged = program.writer.stats().unchanged;
            let known = program.services.get((&*namespace, name));
            known.is_some_and(|known| known.metadata.labels == labelled.metadata.labels)
        })
        .await;
        self.until_stats("nothing to do", |stats| stats.unchanged > unchanged)
            .await;
        self.users().fetch(name).await
    }

    fn lead(&self) -> (CancellationToken, JoinHandle<()>) {
        let (term, writer) = (CancellationToken::new(), self.writer.clone());
        let leading = term.clone();
        (term, tokio::spawn(async move { writer.run(&leading).await }))
    }

    fn users(&self) -> TestWriter<Service> {
        TestWriter::new(&self.writes).in_namespace(self.namespace.name())
    }

    async fn create(&self, name: &str, wanted: &str) {
        let service = json!({
            "metadata": {"name": name, "annotations": {WANTED: wanted}},
            "spec": {"ports": [{"port": 80}]},
        });
        self.users().create(&serde_json::from_value(service).unwrap()).await;
    }

    async fn want(&self, name: &str, wanted: &str) {
        let annotation = json!({"metadata": {"annotations": {WANTED: wanted}}});
        self.users().merge(name, annotation).await;
    }

    /// Somebody else applies one condition.
    async fn apply(&self, manager: &str, name: &str, type_: &str) -> Service {
        let time = "2026-01-01T00:00:00Z";
        let condition =
            json!({"type": type_, "status": "False", "reason": "Theirs", "message": "", "lastTransitionTime": time});
        let (key, params) = (key(&self.namespace, name), PatchParams::apply(manager).force());
        let patch = Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "status": {"conditions": [condition]},
        }));
        let client = WriteClient::<Service>::new(&self.writes);
        client.patch(&key, &patch, Subresource::Status, &params).await.unwrap()
    }
}

fn conditions_of(service: &Service) -> &[Condition] {
    let status = service.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// What the transformation says of a service: the condition `Ready`, false if the reason is `Down`; nothing without an annotation.
fn wanted(service: &Service) -> Option<ServiceStatus> {
    let reason = service.metadata.annotations.as_ref()?.get(WANTED)?;
    let ready = || conditions::new("Ready", Is::from(reason != "Down"), reason, "");
    (reason != "None").then(|| ServiceStatus {
        conditions: Some(vec![ready()]),
        load_balancer: None,
    })
}

/// `type=reason`, sorted.
fn reasons(service: &Service) -> Vec<String> {
    let conditions = conditions_of(service).iter();
    let mut reasons: Vec<_> = conditions.map(|one| format!("{}={}", one.type_, one.reason)).collect();
    reasons.sort_unstable();
    reasons
}

/// The managers of the status.
fn managers(service: &Service) -> Vec<&str> {
    let entries = service.metadata.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    entries.filter_map(|entry| entry.manager.as_deref()).collect()
}

// [K37] one write for one change, none because of its own events; the time of a condition stays while its status does; None gives up the
// own fields, once, and leaves those of others
async fn status_is_written_when_it_changes(server: Server) {
    let mut program = Program::new(&server, server.namespace().await).await;
    program.create("web", "Up").await;
    program.apply("somebody", "web", "Theirs").await;
    let (term, leading) = program.lead();
    program.until_stats("the status", |stats| stats.written == 1).await;
    let first = program.at_rest("web").await;
    assert_eq!(reasons(&first), ["Ready=Up", "Theirs=Theirs"]);
    assert_eq!(managers(&first), ["somebody", "tester"]);
    assert_eq!(program.writer.stats().written, 1);

    let since = |service: &Service| {
        let mut ready = conditions_of(service).iter().filter(|one| one.type_ == "Ready");
        ready.next().map(|one| one.last_transition_time.0.as_second())
    };
    assert_eq!(since(&first), Some(0));
    program.clock.store(60, Ordering::Relaxed);
    program.want("web", "Fine").await;
    program.until_stats("another reason", |stats| stats.written == 2).await;
    let fine = program.at_rest("web").await;
    assert_eq!(reasons(&fine), ["Ready=Fine", "Theirs=Theirs"]);
    assert_eq!(since(&fine), Some(0));
    program.want("web", "Down").await;
    program.until_stats("another status", |stats| stats.written == 3).await;
    let down = program.at_rest("web").await;
    assert_eq!(since(&down), Some(60));

    program.want("web", "None").await;
    program.until_stats("no status", |stats| stats.released == 1).await;
    let none = program.users().fetch("web").await;
    assert_eq!(
        (reasons(&none), managers(&none)),
        (vec!["Theirs=Theirs".to_owned()], vec!["somebody"])
    );
    // Nobody is told of changes of what has no status; so it is another service that shows that all is done.
    program.apply("somebody", "web", "Others").await;
    program.create("db", "Up").await;
    program.until_stats("another service", |stats| stats.written == 4).await;
    program.at_rest("db").await;
    let stats = program.writer.stats();
    assert_eq!(
        (stats.written, stats.released, stats.failed, stats.contended),
        (4, 1, 0, 0)
    );
    term.cancel();
    leading.await.unwrap();
    program.cluster.end().await;
}

// [K37] of two programs, one writes: the other one begins where the first has ended, and changes nothing that is right
async fn leadership_is_handed_over(server: Server) {
    let namespace = server.namespace().await;
    let mut one = Program::new(&server, namespace.clone()).await;
    one.create("web", "Up").await;
    one.create("old", "Up").await;
    let (term, leading) = one.lead();
    one.until_stats("both", |stats| stats.written == 2).await;
    let before = one.at_rest("web").await;
    one.at_rest("old").await;
    term.cancel();
    leading.await.unwrap();

    // Nobody leads.
    one.want("old", "None").await;
    one.create("new", "Up").await;
    let mut other = Program::new(&server, namespace).await;
    let (term, leading) = other.lead();
    other
        .until_stats("what changed meanwhile", |stats| {
            (stats.written, stats.released) == (2, 1)
        })
        .await;
    let [web, old, new] = [
        other.users().fetch("web").await,
        other.users().fetch("old").await,
        other.users().fetch("new").await,
    ];
    assert_eq!(
        web.metadata.resource_version, before.metadata.resource_version,
        "asked, and nothing changed"
    );
    assert_eq!((reasons(&old), reasons(&new)), (vec![], vec!["Ready=Up".to_owned()]));
    other.at_rest("new").await;
    let (first, second) = (one.writer.stats(), other.writer.stats());
    assert_eq!((first.written, first.released, first.is_running), (2, 0, false));
    assert_eq!((second.written, second.released, second.failed), (2, 1, 0));
    term.cancel();
    leading.await.unwrap();
    one.cluster.end().await;
    other.cluster.end().await;
}

// [K37] nothing is written for an object that is gone, nor for another one of its name, although the engine has not heard of it
async fn status_of_what_is_gone_is_not_written(server: Server) {
    let mut program = Program::new(&server, server.namespace().await).await;
    program.create("gone", "Up").await;
    program.create("again", "Up").await;
    program.until("both", |program| program.statuses.len() == 2).await;
    // From here on, nobody tells the engine of anything.
    program.cluster.shutdown().await;
    program.users().delete("gone").await;
    program.users().delete("again").await;
    program.create("again", "None").await;
    let (term, leading) = program.lead();
    program.until_stats("the attempts", |stats| stats.failed >= 4).await;
    let stats = program.writer.stats();
    assert_eq!((stats.written, stats.released, program.statuses.len()), (0, 0, 2));
    assert_eq!(reasons(&program.users().fetch("again").await), [""; 0]);
    term.cancel();
    leading.await.unwrap();
    program.cluster.end().await;
}

// [K37] two who will not agree are reported, with the names, and do not go on as fast as they can
async fn status_that_is_always_undone_is_reported(server: Server) {
    let (log, _guard) = Log::capture();
    let mut program = Program::new(&server, server.namespace().await).await;
    program.create("web", "Up").await;
    let (term, leading) = program.lead();
    let mut undone = 0;
    while program.writer.stats().contended == 0 {
        if program.writer.stats().written > undone {
            undone += 1;
            // So that the time of our condition is another one each time.
            program.clock.fetch_add(60, Ordering::Relaxed);
            program.apply("rude", "web", "Ready").await;
        }
        program.stepper.settle();
        tokio::task::yield_now().await;
    }
    let stats = program.writer.stats();
    assert_eq!((stats.written, undone, stats.contended, stats.failed), (10, 10, 1, 0));
    let warnings = log.with("a status is written again and again");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let name = format!("{}/web", program.namespace.name());
    for part in ["WARN", "writer=\"tester\"", "kind=Service", &name] {
        assert!(warnings[0].contains(part), "{part} is not in {}", warnings[0]);
    }
    program.until_stats("the eleventh", |stats| stats.written == 11).await;
    assert_eq!(reasons(&program.at_rest("web").await), ["Ready=Up"]);
    term.cancel();
    leading.await.unwrap();
    program.cluster.end().await;
}

// [K37] a kind that has no status to write is no object that is gone: it is told and tried again
async fn status_of_a_kind_without_status_fails(server: Server) {
    let namespace = server.namespace().await;
    let (krt, cluster) = (Krt::builder("case").build(), cluster(&server));
    let mut stepper = Stepper::new(&krt).unwrap();
    let maps = TestWriter::<ConfigMap>::new(&cluster);
    maps.create(&map(&namespace, "a", "1")).await;
    let filter = Filter::default().namespace(namespace.name()).fields("metadata.name=a");
    let source = krt.from_client::<ConfigMap>(&cluster, filter).unwrap();
    let (statuses, _) = krt.status_collection("maps", &source, |_, _| (Some(json!({"seen": true})), None::<Text>));
    let writer = StatusWriter::builder("tester", WriteClient::new(&cluster), &statuses, |_: &ConfigMap| {
        None::<&Value>
    });
    let writer = writer.build();
    cluster.sync().await;
    let (term, running) = (CancellationToken::new(), writer.clone());
    let leading = tokio::spawn({
        let term = term.clone();
        async move { running.run(&term).await }
    });
    eventually("the failures", || {
        stepper.settle();
        std::future::ready((writer.stats().failed >= 3).then_some(()))
    })
    .await;
    assert_eq!(writer.stats().written, 0);
    maps.delete(key(&namespace, "a")).await;
    eventually("the end", || {
        stepper.settle();
        std::future::ready((statuses.is_empty() && writer.stats().unchanged >= 1).then_some(()))
    })
    .await;
    term.cancel();
    leading.await.unwrap();
    cluster.end().await;
}

cases!(
    status_is_written_when_it_changes,
    leadership_is_handed_over,
    status_of_what_is_gone_is_not_written,
    status_that_is_always_undone_is_reported,
    status_of_a_kind_without_status_fails,
);
