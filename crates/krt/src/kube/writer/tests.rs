//! The writer on an in-memory API server and a paused clock; the engine is driven step by step. The services of the test say in an
//! annotation what their status is to be.

use std::time::Duration;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kclient::testing::{Fault, Rule, TestClient, TestWriter, Verb};
use kclient::{Client, Filter, ObjectKey, Patch, PatchParams, Subresource, WriteClient, Writer};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::kube::conditions::{self, Is};
use crate::testing::Stepper;
use crate::{Collection, Krt, Text};

const WANTED: &str = "wanted";

struct Show {
    stepper: Stepper,
    cluster: TestClient,
    users: TestWriter<Service>,
    statuses: Collection<WithStatus<Service, ServiceStatus>>,
    writer: StatusWriter<Service, ServiceStatus>,
}

impl Show {
    async fn new() -> Self {
        Self::with(TestClient::fake(), Filter::default()).await
    }

    async fn with(cluster: TestClient, filter: Filter<Service>) -> Self {
        let krt = Krt::builder("test").build();
        let services = krt.informer(&Client::<Service>::filtered(&cluster, filter).unwrap());
        let (statuses, _) = krt.status_collection("services", &services, |_, service| (wanted(service), None::<Text>));
        let start = Instant::now();
        let writer = StatusWriter::builder("tester", WriteClient::new(&cluster), &statuses, |service: &Service| {
            service.status.as_ref()
        })
        .prepare(move |service, status| {
            let now = i64::try_from(start.elapsed().as_secs()).unwrap();
            let desired = status.conditions.as_deref_mut().unwrap_or_default();
            conditions::merge(
                conditions_of(service),
                desired,
                &Time(Timestamp::from_second(now).unwrap()),
            );
        })
        .build();
        let mut show = Self {
            stepper: Stepper::new(&krt).unwrap(),
            users: TestWriter::new(&cluster).in_namespace("default"),
            cluster,
            statuses,
            writer,
        };
        show.cluster.sync().await;
        show.pass(Duration::from_secs(1)).await;
        show
    }

    /// Lets time pass, and the engine run.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let pause = (time / 100).clamp(Duration::from_millis(20), Duration::from_secs(1));
        while Instant::now() < end {
            self.stepper.settle();
            tokio::time::sleep(pause).await;
        }
        self.stepper.settle();
    }

    /// Time enough for everything that is not held up.
    async fn calm(&mut self) {
        self.pass(Duration::from_millis(500)).await;
    }

    fn run(&self) -> (CancellationToken, JoinHandle<()>) {
        let (term, writer) = (CancellationToken::new(), self.writer.clone());
        let running = tokio::spawn({
            let term = term.clone();
            async move { writer.run(&term).await }
        });
        (term, running)
    }

    async fn create(&self, name: &str, wanted: &str) {
        self.users.create(&service(name, wanted)).await;
    }

    async fn want(&self, name: &str, wanted: &str) {
        self.users
            .merge(name, json!({"metadata": {"annotations": {WANTED: wanted}}}))
            .await;
    }

    async fn fetch(&self, name: &str) -> Service {
        self.users.fetch(name).await
    }

    /// The conditions on the server, as `type=reason@time`.
    async fn shown(&self, name: &str) -> Vec<String> {
        let service = self.fetch(name).await;
        let line = |condition: &Condition| {
            let since = condition.last_transition_time.0.as_second();
            format!("{}={}@{since}", condition.type_, condition.reason)
        };
        conditions_of(&service).iter().map(line).collect()
    }

    /// Statuses written, fields given up, requests that failed.
    fn requests(&self) -> [u64; 3] {
        let stats = self.writer.stats();
        [stats.written, stats.released, stats.failed]
    }

    /// Somebody else applies conditions.
    async fn apply(&self, manager: &str, name: &str, conditions: serde_json::Value) {
        let (key, params) = (
            ObjectKey::namespaced("default", name),
            PatchParams::apply(manager).force(),
        );
        let patch = Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "status": {"conditions": conditions},
        }));
        let users = WriteClient::<Service>::new(&self.cluster);
        users.patch(&key, &patch, Subresource::Status, &params).await.unwrap();
    }
}

fn service(name: &str, wanted: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {WANTED: wanted}},
        "spec": {"ports": [{"port": 80}]},
    }))
    .unwrap()
}

fn conditions_of(service: &Service) -> &[Condition] {
    let status = service.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

/// What the transformation says of a service: the condition `Ready`, false if the reason is `Down`; nothing without an annotation, and
/// for `None`; for `Toggle` only if it has no condition yet.
fn wanted(service: &Service) -> Option<ServiceStatus> {
    let reason = service.metadata.annotations.as_ref()?.get(WANTED)?;
    assert!(reason != "Panic", "as it was told to");
    let is_none = reason == "None" || reason == "Toggle" && !conditions_of(service).is_empty();
    (!is_none).then(|| ServiceStatus {
        conditions: Some(vec![conditions::new("Ready", Is::from(reason != "Down"), reason, "")]),
        load_balancer: Some(LoadBalancerStatus::default()),
    })
}

fn another(reason: &str) -> serde_json::Value {
    let time = "2026-01-01T00:00:00Z";
    json!({"type": "Other", "status": "True", "reason": reason, "message": "", "lastTransitionTime": time})
}

// [K37] written once for each change, and not again because of its own event; the time of a condition stays while its status does
#[tokio::test(start_paused = true)]
async fn a_status_is_written_when_it_changes_and_at_no_other_time() {
    let mut show = Show::new().await;
    show.create("web", "Up").await;
    show.calm().await;
    assert_eq!(show.shown("web").await, [""; 0], "nobody leads yet");
    let (term, running) = show.run();
    show.calm().await;
    let first = show.shown("web").await;
    assert_eq!(first.len(), 1);
    let since = first[0].strip_prefix("Ready=Up@").unwrap().to_owned();
    assert_eq!(show.requests(), [1, 0, 0]);

    show.pass(Duration::from_mins(10)).await;
    show.users
        .merge("web", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    show.calm().await;
    assert_eq!(show.requests(), [1, 0, 0]);
    show.want("web", "Fine").await;
    show.calm().await;
    assert_eq!(show.shown("web").await, [format!("Ready=Fine@{since}")]);
    show.want("web", "Down").await;
    show.calm().await;
    let down = show.shown("web").await;
    assert!(
        down[0].starts_with("Ready=Down@6") && down[0] != format!("Ready=Down@{since}"),
        "{down:?}"
    );
    assert_eq!(show.requests(), [3, 0, 0]);

    // By a field manager of its own, and nothing but its status.
    let fields = show.fetch("web").await.metadata.managed_fields.unwrap();
    let own: Vec<_> = fields
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some("tester"))
        .collect();
    assert_eq!(own.len(), 1);
    assert_eq!(
        (own[0].operation.as_deref(), own[0].subresource.as_deref()),
        (Some("Apply"), Some("status"))
    );
    let patches = show.cluster.server().requests();
    let patches = patches.iter().filter(|request| request.subresource.is_some());
    assert_eq!(patches.count(), 3);
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] whoever leads next begins with everything there is, and writes what is not as it should be; nobody writes in between
#[tokio::test(start_paused = true)]
async fn the_next_leader_writes_what_changed_in_between() {
    let mut show = Show::new().await;
    for name in ["a", "b", "c"] {
        show.create(name, "Up").await;
    }
    let (term, running) = show.run();
    show.calm().await;
    assert!(show.writer.stats().is_running);
    assert_eq!(show.requests(), [3, 0, 0]);
    let handlers = show.stepper.handlers();
    term.cancel();
    running.await.unwrap();
    assert!(!show.writer.stats().is_running);
    assert_eq!(show.stepper.handlers(), handlers - 2);

    show.want("a", "Fine").await;
    show.want("b", "None").await;
    show.create("d", "Up").await;
    show.pass(Duration::from_mins(5)).await;
    assert_eq!(show.requests(), [3, 0, 0]);

    // One that waits for the end of the other.
    let (term, running) = show.run();
    let (second, waiting) = show.run();
    show.calm().await;
    assert_eq!(show.requests(), [5, 1, 0], "a and d; b is to have none; c is as it was");
    assert_eq!(show.shown("b").await, [""; 0]);
    term.cancel();
    running.await.unwrap();
    show.want("c", "Fine").await;
    show.calm().await;
    assert_eq!(
        show.requests(),
        [6, 1 + 1, 0],
        "b has a status still, of the server's own"
    );
    second.cancel();
    waiting.await.unwrap();

    // Dropped half-way, nothing is left either.
    let (_term, running) = show.run();
    show.calm().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert!(!show.writer.stats().is_running);
    assert_eq!(show.stepper.handlers(), handlers - 2);
    show.cluster.end().await;
}

// [K37] None on a live object gives up our fields once, and nobody else's; managed fields tell whether there are any
#[tokio::test(start_paused = true)]
async fn no_status_gives_up_the_own_fields_once() {
    let mut show = Show::with(TestClient::fake(), Filter::default().keep_managed_fields()).await;
    show.create("web", "Up").await;
    show.create("never", "None").await;
    show.apply("somebody", "web", json!([another("Told")])).await;
    let (term, running) = show.run();
    show.calm().await;
    assert_eq!(show.shown("web").await.len(), 2);
    show.want("web", "None").await;
    show.calm().await;
    assert_eq!(show.shown("web").await, ["Other=Told@1767225600"]);
    assert_eq!(show.requests(), [1, 1, 0]);
    show.want("web", "Up").await;
    show.calm().await;
    show.want("web", "None").await;
    show.calm().await;
    assert_eq!(show.requests(), [2, 2, 0]);
    show.apply("somebody", "web", json!([another("Said")])).await;
    show.pass(Duration::from_mins(5)).await;
    term.cancel();
    running.await.unwrap();
    let (term, running) = show.run();
    show.calm().await;
    assert_eq!(show.requests(), [2, 2, 0]);
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] a transformation that panics says nothing of its status, so what an earlier leader wrote stays
#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_known_is_left_alone() {
    let mut show = Show::new().await;
    show.apply_to_new("web", "Panic").await;
    let (term, running) = show.run();
    show.calm().await;
    assert_eq!((show.requests(), show.shown("web").await.len()), ([0, 0, 0], 1));
    show.want("web", "None").await;
    show.calm().await;
    // The transformation has said it now, but there has been no status before, so nobody is told. The next leader finds it.
    term.cancel();
    running.await.unwrap();
    let (term, running) = show.run();
    show.calm().await;
    assert_eq!((show.requests(), show.shown("web").await.len()), ([0, 1, 0], 0));
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

impl Show {
    /// Creates a service with a condition that an earlier leader wrote.
    async fn apply_to_new(&self, name: &str, wanted: &str) {
        self.create(name, wanted).await;
        self.apply("tester", name, json!([another("Told")])).await;
    }
}

// [K37] nothing is written for what is gone, nor for another object of its name before that is known
#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_a_deleted_object() {
    let mut show = Show::new().await;
    let down = Rule::new(Fault::status(503)).verb(Verb::Patch).subresource("status");
    let down = show.cluster.server().inject(down);
    show.create("web", "Up").await;
    show.create("db", "Up").await;
    let (term, running) = show.run();
    show.calm().await;
    let failed = show.requests()[2];
    assert!(failed >= 4, "each was tried again");
    // The engine has not heard of it yet: the server refuses.
    show.users.delete("web").await;
    show.users.delete("db").await;
    show.create("db", "None").await;
    down.remove();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(show.requests()[..2], [0, 0]);
    assert_eq!(show.shown("db").await, [""; 0]);
    let refused = show.requests()[2];
    show.pass(Duration::from_hours(1)).await;
    assert_eq!(
        show.requests()[..2],
        [0, 1],
        "the new one has a status of the server's own"
    );
    assert!(show.requests()[2] <= refused + 1);
    assert!(show.statuses.is_empty());
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] what fails is tried again, with the status that is desired by then
#[tokio::test(start_paused = true)]
async fn a_failed_write_is_tried_again() {
    let mut show = Show::new().await;
    let down = Rule::new(Fault::status(500))
        .verb(Verb::Patch)
        .subresource("status")
        .times(3);
    show.cluster.server().inject(down);
    show.create("web", "Up").await;
    let (term, running) = show.run();
    show.calm().await;
    assert_eq!(show.requests(), [1, 0, 3]);
    assert_eq!(show.shown("web").await.len(), 1);
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] what others write beside us is asked about once and left alone; what they write over ours is written again
#[tokio::test(start_paused = true)]
async fn others_may_write_beside_it_but_not_over_it() {
    let mut show = Show::new().await;
    show.create("web", "Up").await;
    let (term, running) = show.run();
    show.calm().await;
    for (number, reason) in (1..).zip(["One", "Two", "Three"]) {
        show.apply("somebody", "web", json!([another(reason)])).await;
        let version = show.fetch("web").await.metadata.resource_version;
        show.pass(Duration::from_mins(1)).await;
        assert_eq!(show.requests(), [1 + number, 0, 0]);
        assert_eq!(
            show.fetch("web").await.metadata.resource_version,
            version,
            "it changed nothing"
        );
    }
    let mut over = another("Wrong");
    over["type"] = "Ready".into();
    show.apply("rude", "web", json!([over])).await;
    show.calm().await;
    let shown = show.shown("web").await;
    assert!(shown.iter().any(|line| line.starts_with("Ready=Up@")), "{shown:?}");
    assert_eq!((shown.len(), show.requests()), (2, [5, 0, 0]));
    assert_eq!(show.writer.stats().contended, 0);
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] two who will not agree: ten writes, then fewer and fewer
#[tokio::test(start_paused = true)]
async fn a_status_that_is_always_undone_is_written_ever_less_often() {
    let mut show = Show::new().await;
    show.create("web", "Up").await;
    let (term, running) = show.run();
    let mut over = another("Wrong");
    over["type"] = "Ready".into();
    // So that the time of our condition is another one each time.
    over["status"] = "False".into();
    let mut written = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_mins(10) {
        show.stepper.settle();
        if show.writer.stats().written > written.len() as u64 {
            written.push(start.elapsed().as_secs());
            show.apply("rude", "web", json!([over])).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(show.writer.stats().contended, 1);
    let pauses: Vec<u64> = written.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(written[9] <= 1, "{written:?}");
    // On a machine's clock each pause would be a little longer.
    let expected = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60, 60];
    assert!(pauses.len() >= 9 + expected.len(), "{written:?}");
    for (pause, expected) in pauses[9..].iter().zip(expected) {
        assert!(pause.abs_diff(expected) <= 1, "{written:?}");
    }
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

// [K37] what follows before the event of a write is decided by its answer
#[tokio::test(start_paused = true)]
async fn the_own_write_is_known_before_its_event() {
    let mut show = Show::new().await;
    let term = Term::new(Arc::clone(&show.writer.inner));
    let key = ObjectKey::namespaced("default", "web");
    show.create("web", "Up").await;
    show.calm().await;
    // The engine stands still; some time passes, so that a condition whose time is taken anew differs.
    for requests in [[1, 0, 0], [1, 0, 0]] {
        term.reconcile(&key).await.unwrap();
        assert_eq!(show.requests(), requests);
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let shown = show.shown("web").await;
    show.want("web", "Fine").await;
    show.calm().await;
    term.reconcile(&key).await.unwrap();
    assert_eq!(show.shown("web").await, [shown[0].replace("Up", "Fine")]);
    show.want("web", "None").await;
    show.calm().await;
    for requests in [[2, 1, 0], [2, 1, 0]] {
        term.reconcile(&key).await.unwrap();
        assert_eq!(show.requests(), requests);
    }
    show.cluster.end().await;
}

// What is known of an object is forgotten when it goes, whether it has a status by then or not.
#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_objects_that_are_gone() {
    let mut show = Show::new().await;
    let term = Arc::new(Term::new(Arc::clone(&show.writer.inner)));
    let reconcile = Arc::clone(&term);
    let queue = Queue::builder("test").reconciler(move |key| {
        let term = Arc::clone(&reconcile);
        async move { term.reconcile(&key).await }
    });
    let (queue, stop) = (queue.build(), CancellationToken::new());
    let handlers = Handlers::new(&show.writer.inner, &queue);
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { queue.run(&stop).await }
    });
    for name in ["status", "none"] {
        show.create(name, "Up").await;
        show.apply("somebody", name, json!([another("Told")])).await;
    }
    show.calm().await;
    show.want("none", "None").await;
    show.calm().await;
    assert_eq!((show.requests()[1], term.remembered()), (1, 2));
    for name in ["status", "none"] {
        show.users.delete(name).await;
    }
    show.calm().await;
    assert_eq!(term.remembered(), 0);
    drop(handlers);
    stop.cancel();
    running.await.unwrap().unwrap();
    show.cluster.end().await;
}

// [K37] a transformation that undoes its own status, by having none once it has one, is no loop that never rests
#[tokio::test(start_paused = true)]
async fn a_status_that_undoes_itself_is_held_up() {
    let mut show = Show::new().await;
    show.create("web", "Toggle").await;
    let (term, running) = show.run();
    show.pass(Duration::from_mins(10)).await;
    let stats = show.writer.stats();
    assert_eq!((stats.contended, stats.failed), (1, 0));
    let all = stats.written + stats.released;
    assert!((18..=30).contains(&all), "{stats:?}");
    term.cancel();
    running.await.unwrap();
    show.cluster.end().await;
}

#[tokio::test]
#[should_panic(expected = "outputs is no collection of statuses with their inputs")]
async fn statuses_of_anything_else_are_refused() {
    let cluster = kube_client::Client::fake_builder().build().unwrap();
    let krt = Krt::builder("test").build();
    let services = krt.from_client::<Service>(&cluster, Filter::default()).unwrap();
    let (statuses, _) = krt.status_collection("services", &services, |_, service| (wanted(service), None::<Text>));
    let joined = krt.join("outputs", [statuses]);
    let _ = StatusWriter::builder("tester", WriteClient::new(&cluster), &joined, |service: &Service| {
        service.status.as_ref()
    });
}
