//! The controller: it watches four kinds and publishes one configuration of them, anew after each change that matters.
//!
//! What it shows: several kinds behind one queue; one of them custom, with a definition that may come and go; objects hidden by
//! the labels of their namespaces, by their own labels, by fields, or for their kind; many changes made into one.
//! Its reference test is `tests/behaviours/multi_kind.rs`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::GroupVersionKind;
use tokio_util::sync::CancellationToken;
use watershed::kclient::queue::{Action, Queue};
use watershed::kclient::{
    Client, DiscoveryNamespaces, Filter, Informer, InformerExt, Object, Reader, RegisterError, Selector, Stopped,
    Transform,
};
use watershed::kube_client::{
    self, ClientBuilder, CrdOptions, FilterSubscriber, FilterSubscription, Metadata, ObjectFilter,
};

use super::policy::RoutePolicy;
use super::snapshot::{Config, ConfigKey, Kind, Snapshot};

/// The label that hides a service.
pub(crate) const HIDDEN: &str = "mesh.example/hidden";

/// How long changes are collected before they are published together.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(100);

/// Where snapshots go.
pub(crate) type Report = Arc<dyn Fn(Snapshot) + Send + Sync>;

/// The only key of the queue: whatever changed, the whole configuration is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Publish;

/// How the cluster's client has to be built for this controller: which namespaces and kinds it is to see.
pub(crate) fn options(discovery: &DiscoveryNamespaces, crds: CrdOptions) -> ClientBuilder {
    kube_client::Client::builder()
        .user_agent("multi-kind")
        // Of every kind, only objects in namespaces that are selected. It follows the labels of the namespaces, and the
        // selectors may be changed at any time: objects then come and go as if they were created and deleted.
        .object_filter(Arc::new(discovery.clone()))
        // Kinds that are ignored count as not installed, whatever the cluster serves.
        .crds(crds)
}

/// Watches services, endpoint slices, pods and route policies.
pub(crate) struct Watcher {
    kinds: Arc<Kinds>,
    queue: Queue<Publish>,
}

struct Kinds {
    services: Client<Service>,
    slices: Client<EndpointSlice>,
    pods: Client<Pod>,
    policies: Client<RoutePolicy>,
}

impl Watcher {
    /// Builds clients and queue, and registers the handlers. Nothing runs yet.
    pub(crate) fn new(cluster: &kube_client::Client, report: Report) -> Result<Self, RegisterError> {
        let kinds = Arc::new(Kinds::new(cluster)?);
        let changed = Arc::new(Mutex::new(BTreeSet::new()));
        let publisher = Arc::new(Publisher {
            kinds: Arc::clone(&kinds),
            changed: Arc::clone(&changed),
            last: Mutex::default(),
            report,
        });
        let queue = Queue::builder("config")
            .reconciler(move |Publish| {
                publisher.publish();
                async { Ok(Action::Done) }
            })
            .build();
        on_change(Kind::Service, &kinds.services, &queue, &changed);
        on_change(Kind::EndpointSlice, &kinds.slices, &queue, &changed);
        on_change(Kind::Pod, &kinds.pods, &queue, &changed);
        on_change(Kind::RoutePolicy, &kinds.policies, &queue, &changed);
        Ok(Self { kinds, queue })
    }

    /// Works until `stop` is cancelled. The informers are started by the owner of the cluster's client.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Result<(), Stopped> {
        // Every kind first, or the first configuration would lack what is still being read. A kind that is not installed is
        // known to be empty, and so is no reason to wait.
        tokio::select! {
            synced = self.kinds.synced() => synced?,
            () = stop.cancelled() => return Err(Stopped),
        }
        // Publish the first one at once, be there changes or none. What is queued now is what `has_synced` waits for.
        self.queue.add(&Publish);
        let ran = self.queue.run(stop).await;
        self.kinds.shutdown_handlers();
        ran.map_err(|_already_run| Stopped)
    }

    /// The queue; it has synced when the first configuration was published.
    pub(crate) fn queue(&self) -> &Queue<Publish> {
        &self.queue
    }
}

impl Kinds {
    fn new(cluster: &kube_client::Client) -> Result<Self, RegisterError> {
        // What of a pod matters here is its labels and its node. The cache keeps no more, and so no more costs memory.
        let pods = Filter::default()
            .fields("status.phase=Running")
            .transform(Transform::new("labels and node", |pod: &mut Pod| {
                let node = pod.spec.take().and_then(|spec| spec.node_name);
                pod.status = None;
                pod.metadata.annotations = None;
                let spec = pod.spec.get_or_insert_default();
                spec.node_name = node;
            }));
        Ok(Self {
            services: Client::filtered(cluster, Filter::default().objects(Arc::new(NotHidden)))?,
            slices: Client::new(cluster)?,
            pods: Client::filtered(cluster, pods)?,
            // A definition that comes while the program runs activates this client by itself; one that goes takes its objects
            // along. No special case is needed anywhere else.
            policies: Client::delayed(cluster, Filter::default())?,
        })
    }

    async fn synced(&self) -> Result<(), Stopped> {
        self.services.synced().await?;
        self.slices.synced().await?;
        self.pods.synced().await?;
        self.policies.synced().await
    }

    fn shutdown_handlers(&self) {
        self.services.shutdown_handlers();
        self.slices.shutdown_handlers();
        self.pods.shutdown_handlers();
        self.policies.shutdown_handlers();
    }

    /// Reads every kind. The four lists may differ by some milliseconds; whatever comes late is a change, and published next.
    fn config(&self) -> Config {
        let all = Selector::default();
        Config::build(
            &self.services.list(None, &all),
            &self.slices.list(None, &all),
            &self.pods.list(None, &all),
            &self.policies.list(None, &all),
        )
    }
}

type Changed = Arc<Mutex<BTreeSet<ConfigKey>>>;

/// Notes each change of a kind, and has it published soon.
fn on_change<K: Object>(kind: Kind, client: &Client<K>, queue: &Queue<Publish>, changed: &Changed) {
    let (queue, changed) = (queue.clone(), Arc::clone(changed));
    client.on_event("multi-kind", move |event| {
        let object = event.key();
        changed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(ConfigKey { kind, object });
        // The earliest time wins, so a stream of changes cannot put the publication off: it is at most this late.
        queue.add_after(&Publish, DEBOUNCE);
    });
}

struct Publisher {
    kinds: Arc<Kinds>,
    /// What changed since the last look. Bounded by the number of objects, since each has one name.
    changed: Changed,
    last: Mutex<Option<(u64, Config)>>,
    report: Report,
}

impl Publisher {
    /// Publishes the configuration, if it is another one than the last. One queue with one worker calls it, never twice at
    /// once.
    fn publish(&self) {
        // First take the changes, then read: what comes in between is published now and found unchanged next time. The other way
        // round it could be lost.
        let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        let config = self.kinds.config();
        let version = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let version = match &*last {
                Some((_, known)) if *known == config => return,
                Some((version, _)) => version + 1,
                None => 1,
            };
            *last = Some((version, config.clone()));
            version
        };
        (self.report)(Snapshot {
            version,
            changed,
            config,
        });
    }
}

/// Hides services that say so. It never changes its mind about the same labels, so nobody has to be told.
struct NotHidden;

impl ObjectFilter for NotHidden {
    fn allows(&self, _: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        metadata.labels.get(HIDDEN) != Some("true")
    }

    fn has_synced(&self) -> bool {
        true
    }

    fn subscribe(&self, _: FilterSubscriber) -> FilterSubscription {
        FilterSubscription::never()
    }
}
