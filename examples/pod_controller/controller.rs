//! The canonical controller: the shape that yours should have.
//!
//! It watches pods, reports what it sees, and does one thing: a pod with the label [`GREET`] gets the annotation
//! [`GREETING`]. Pods without the label are never written.
//!
//! Read it from top to bottom; every line that is subtle says why. Its reference test is `tests/behaviours/controller.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use watershed::kclient::handler::QueueHandlers;
use watershed::kclient::queue::{Action, Queue, ReconcileError};
use watershed::kclient::{
    Client, Filter, HandlerOptions, Informer, ObjectKey, Patch, PatchParams, Reader, RegisterError, Stopped,
    Subresource, Writer, ignore_not_found,
};
use watershed::kube_client;

/// The label by which a pod asks to be greeted.
pub(crate) const GREET: &str = "pod-controller.example/greet";

/// The annotation that such a pod gets.
pub(crate) const GREETING: &str = "pod-controller.example/greeting";

/// What a reconcile saw or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The pod exists, in this phase.
    Present(ObjectKey, String),
    /// The pod is gone.
    Gone(ObjectKey),
    /// The pod asked for a greeting and got it.
    Greeted(ObjectKey),
}

/// Where reconciles report to.
pub(crate) type Report = Arc<dyn Fn(Seen) + Send + Sync>;

/// Watches pods, and greets those that ask for it.
pub(crate) struct PodController {
    pods: Client<Pod>,
    queue: Queue,
}

impl PodController {
    /// Builds the clients and the queue, and registers the handlers. Nothing runs yet and nothing is sent, so controllers
    /// can be built in any order, before anything is started.
    pub(crate) fn new(
        cluster: &kube_client::Client,
        filter: Filter<Pod>,
        report: Report,
    ) -> Result<Self, RegisterError> {
        // The client shares its cache and its watch with everyone who asks for pods with the same filter.
        let pods = Client::filtered(cluster, filter)?;
        let queue = Queue::builder("pods")
            .reconciler({
                let pods = pods.clone();
                move |key: ObjectKey| {
                    let (pods, report) = (pods.clone(), Arc::clone(&report));
                    // The reconciler gets a key, never an object: it reads the newest state when it runs, however many
                    // events have merged into this one run.
                    async move { reconcile(&pods, &pods, &key, &report).await }
                }
            })
            // No `max_attempts`: an error is retried with back-off until it is gone, so one conflict too many cannot leave
            // a pod ungreeted for ever.
            .build();
        // The handler only adds keys. All work is done by the queue, where it is retried, and a slow reconcile never holds up
        // the delivery of events.
        pods.add_handler(queue.handler::<Pod>().boxed(), HandlerOptions::named("pod-controller"));
        Ok(Self { pods, queue })
    }

    /// Works until `stop` is cancelled. The informers must be started by the owner of `cluster`, once for all controllers.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Result<(), Stopped> {
        // First wait until the handlers have seen the whole initial state, not only until the cache is filled: from here on
        // the queue holds every pod that existed at the start. A controller that starts earlier may see an empty world and
        // act on it.
        tokio::select! {
            synced = self.pods.synced() => synced?,
            () = stop.cancelled() => return Err(Stopped),
        }
        // The queue marks what it holds at this instant; `has_synced` turns true when all of it was reconciled once.
        // It can run only once, and only this function runs it.
        let ran = self.queue.run(stop).await;
        // The informer outlives this controller and others share it, so the handler has to be taken away. After the queue, so
        // that nothing is lost while it still works.
        self.pods.shutdown_handlers();
        ran.map_err(|_already_run| Stopped)
    }

    /// Whether every pod that existed at the start was reconciled at least once. Not whether the cache is filled: others wait
    /// for what this controller does, not for what it has read.
    pub(crate) fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// The queue, for its metrics and its end.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }
}

/// Brings one pod to where it should be. Called again after every change and after every error, so it looks at the whole
/// state, and does nothing if that is right already.
///
/// It takes the traits rather than the client, so that a unit test can give it mocks.
pub(crate) async fn reconcile(
    reader: &impl Reader<Pod>,
    writer: &impl Writer<Pod>,
    key: &ObjectKey,
    report: &Report,
) -> Result<Action, ReconcileError> {
    // Read from the cache: no request. A missing pod is no error, it was deleted.
    let Some(pod) = reader.get(key) else {
        report(Seen::Gone(key.clone()));
        return Ok(Action::Done);
    };
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.clone())
        .unwrap_or_else(|| "Pending".to_owned());
    report(Seen::Present(key.clone(), phase));

    let asks = pod
        .metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(GREET));
    let greeting = format!("Hello, {}!", key.name());
    let has = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(GREETING));
    if !asks || has == Some(&greeting) {
        return Ok(Action::Done);
    }
    // A patch of just this field, not an update of the object: the cached pod may be old already, and an update would then
    // conflict, or undo what somebody else wrote. The cache shows our own write a little later, by the watch; should a
    // reconcile run before that, it sends the same patch once more, which changes nothing.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {GREETING: greeting}}}));
    let written = writer
        .patch(key, &patch, Subresource::Main, &PatchParams::default())
        .await;
    // The pod may have been deleted since it was cached. Every other error goes to the queue, which retries with back-off.
    if ignore_not_found(written)?.is_some() {
        report(Seen::Greeted(key.clone()));
    }
    Ok(Action::Done)
}
