//! The control plane, as collections: what each object is made of, and nothing of when.
//!
//! ```text
//! namespaces ─▶ meshed ─────┐
//! services ─────────────────┤
//! mesh config (a file) ─────┼─▶ workloads ─▶ guarded ─▶ configs
//! pods ─────────────────────┘                  ▲           ▲
//! policies (a kind that may come later) ───────┘   nodes ──┘
//! ```

use std::fmt;
use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use serde::Deserialize;
use watershed::kclient::{Filter, ReadClient};
use watershed::krt::{Collection, FileSingleton, KeyRef, Keyed, Krt, Labeled, Labels, Named, Namespaced, Text};
use watershed::kube_client::{Client, RegisterError};

use super::policy::AccessPolicy;

/// The label of the namespaces that are in the mesh.
pub(crate) const MESH: &str = "mesh";

/// What is the same for the whole mesh. It is read from a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MeshConfig {
    trust_domain: String,
}

impl Keyed for MeshConfig {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain("mesh")
    }
}

/// A pod of the mesh that runs.
#[derive(Debug, Clone, PartialEq)]
struct Workload {
    namespace: String,
    name: String,
    node: String,
    address: String,
    labels: Labels,
    identity: String,
    services: Vec<String>,
}

impl Keyed for Workload {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

/// A workload with what is said about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Guarded {
    workload: Workload,
    policies: Vec<String>,
    /// Who may call it; everybody, if no policy is about it.
    callers: Option<Vec<String>>,
}

impl Keyed for Guarded {
    fn key(&self) -> KeyRef<'_> {
        self.workload.key()
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload {
            address,
            identity,
            services,
            ..
        } = &self.workload;
        write!(f, "{} {address} is {identity}, in ", self.key())?;
        match &**services {
            [] => write!(f, "no service")?,
            services => write!(f, "{}", services.join(", "))?,
        }
        match &self.callers {
            None => write!(f, "; called by all"),
            Some(callers) if callers.is_empty() => write!(f, "; called by nobody, by {}", self.policies.join(", ")),
            Some(callers) => write!(f, "; called by {}, by {}", callers.join(", "), self.policies.join(", ")),
        }
    }
}

/// What the proxy of a node has to know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeConfig {
    pub(crate) node: String,
    pub(crate) workloads: Vec<Guarded>,
}

impl Keyed for NodeConfig {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.node)
    }
}

/// The collections that others read.
pub(crate) struct Mesh {
    pub(crate) config: FileSingleton<MeshConfig>,
    pub(crate) configs: Collection<NodeConfig>,
}

impl Mesh {
    /// Construction starts nothing, and reads nothing.
    pub(crate) fn new(krt: &Krt, cluster: &Client, config: &Path) -> Result<Self, RegisterError> {
        let config = krt.file::<MeshConfig>("mesh config", config);
        let namespaces = krt.from_client::<Namespace>(cluster, Filter::default())?;
        let nodes = krt.from_client::<Node>(cluster, Filter::default())?;
        let pods = krt.from_client::<Pod>(cluster, Filter::default())?;
        let services = krt.from_client::<Service>(cluster, Filter::default())?;
        // A kind that may not be installed: until it is, there are no policies, and nobody waits for any.
        let policies = krt.informer(&ReadClient::<AccessPolicy>::delayed(cluster, Filter::default())?);

        // Only what matters of a namespace, so that an annotation of it concerns nobody.
        let meshed = krt.collection("meshed", &namespaces, |_, namespace| {
            let is_on = namespace.labels().get(MESH).is_some_and(|value| value == "on");
            is_on.then(|| Text(namespace.name().to_owned()))
        });
        let workloads = krt.collection("workloads", &pods, {
            let config = config.clone();
            move |cx, pod| {
                if !cx.has_key(&meshed, pod.namespace()) {
                    return None;
                }
                let config = cx.fetch_one(config.query())?;
                let services = cx.fetch(
                    services
                        .query()
                        .namespace(pod.namespace())
                        .selecting_non_empty(pod.labels()),
                );
                workload(
                    pod,
                    &config,
                    services.iter().map(|service| service.name().to_owned()).collect(),
                )
            }
        });
        let guarded = krt.collection("guarded", &workloads, move |cx, workload| {
            let policies = cx.fetch(
                policies
                    .query()
                    .namespace(&workload.namespace)
                    .selecting(&workload.labels),
            );
            let mut callers: Vec<_> = policies.iter().flat_map(|policy| policy.spec.allow.clone()).collect();
            callers.sort();
            callers.dedup();
            Some(Guarded {
                workload: (**workload).clone(),
                policies: policies.iter().map(|policy| policy.name().to_owned()).collect(),
                callers: (!policies.is_empty()).then_some(callers),
            })
        });
        let by_node = guarded
            .index_by("node", |guarded| guarded.workload.node.clone())
            .expect("the first index of a new collection");
        let configs = krt.collection("configs", &nodes, move |cx, node| {
            let workloads = cx.fetch(by_node.at(node.name()));
            Some(NodeConfig {
                node: node.name().to_owned(),
                workloads: workloads.iter().map(|guarded| (**guarded).clone()).collect(),
            })
        });
        Ok(Self { config, configs })
    }
}

/// `None` while the pod has no node or no address, or does not run.
fn workload(pod: &Pod, config: &MeshConfig, services: Vec<String>) -> Option<Workload> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let account = spec.service_account_name.as_deref().unwrap_or("default");
    Some(Workload {
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        node: spec.node_name.clone()?,
        address: status.pod_ip.clone()?,
        labels: pod.labels().clone(),
        identity: format!("spiffe://{}/ns/{}/sa/{account}", config.trust_domain, pod.namespace()),
        services,
    })
}
