//! The control plane, as collections: what each object is made of, and nothing of when.
//!
//! ```text
//! namespaces ──▶ meshed ──┐
//! services ───────────────┤
//! mesh config (a file) ───┼──▶ workloads ──▶ guarded ──▶ configs, one for each node
//! pods ───────────────────┘        │            ▲          ▲
//!                                  ▼            │   nodes ─┘
//! policies (a kind that may ───▶ rules ─────────┘
//! come later, or never)            └──▶ statuses, which are written back
//! ```
//!
//! A pod that changes runs through all of it in one step: no configuration is ever made of a part of a change, and a configuration that
//! comes out as it was is not published.

use std::fmt;
use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use serde::Deserialize;
use watershed::kclient::{Filter, ReadClient};
use watershed::krt::kube::conditions::{self, Is};
use watershed::krt::{
    Collection, FileSingleton, InformerCollection, KeyRef, Keyed, Krt, Labeled, Labels, Named, Namespaced, Selecting,
    SelectorRef, Text, WithStatus,
};
use watershed::kube_client::{Client, RegisterError};

use super::policy::{AccessPolicy, PolicyStatus};

/// The label of the namespaces that are in the mesh, with the value `on`.
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

/// A pod of the mesh that runs: as much of it as matters here. A heartbeat of a kubelet goes no further than this.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
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

impl Namespaced for Workload {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Labeled for Workload {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// What a policy comes to.
#[derive(Debug, PartialEq)]
struct Rule {
    namespace: String,
    name: String,
    selector: Labels,
    allow: Vec<String>,
}

impl Keyed for Rule {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

impl Namespaced for Rule {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// So that fetches find the rules of a workload by its labels.
impl Selecting for Rule {
    fn selector(&self) -> SelectorRef<'_> {
        SelectorRef::Equals(&self.selector)
    }
}

/// A workload with what the policies say about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Guarded {
    workload: Workload,
    policies: Vec<String>,
    /// Who may call it; anybody, if no policy is about it.
    callers: Vec<String>,
}

impl Keyed for Guarded {
    fn key(&self) -> KeyRef<'_> {
        self.workload.key()
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[String], none: &str| match items {
            [] => none.to_owned(),
            items => items.join(", "),
        };
        let Workload { address, identity, .. } = &self.workload;
        write!(f, "{} at {address}, {identity}, ", self.key())?;
        write!(f, "behind {}; ", list(&self.workload.services, "no service"))?;
        match &*self.policies {
            [] => f.write_str("anybody may call it"),
            policies => write!(
                f,
                "{} may call it ({})",
                list(&self.callers, "nobody"),
                policies.join(", ")
            ),
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
    pub(crate) policies: InformerCollection<AccessPolicy>,
    pub(crate) statuses: Collection<WithStatus<AccessPolicy, PolicyStatus>>,
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
            let (meshed, config) = (meshed.clone(), config.clone());
            move |cx, pod| {
                if !cx.has_key(&meshed, pod.namespace()) {
                    return None;
                }
                let config = cx.fetch_one(config.query())?;
                let services = services.query().namespace(pod.namespace());
                let services = cx.fetch(services.selecting_non_empty(pod.labels()));
                let services = services.iter().map(|service| service.name().to_owned());
                workload(pod, &config, services.collect())
            }
        });

        // Two collections of one function: what is to be told of a policy, and the rule that it makes.
        let (statuses, rules) = krt.status_collection("rules", &policies, {
            let workloads = workloads.clone();
            move |cx, policy| {
                if !cx.has_key(&meshed, policy.namespace()) {
                    return (None, None);
                }
                let workloads = workloads.query().namespace(policy.namespace());
                let count = cx.fetch(workloads.labels(&policy.spec.selector)).len();
                // A policy that makes no sense lets nobody in: that is the safe side.
                let (allow, status) = match policy.mistake() {
                    Some(mistake) => (vec![], status(policy, count, Is::False, "Invalid", &mistake)),
                    None => (policy.spec.allow.clone(), status(policy, count, Is::True, "Valid", "")),
                };
                (Some(status), Some(rule(policy, allow)))
            }
        });

        let guarded = krt.collection("guarded", &workloads, move |cx, workload| {
            let rules = rules.query().namespace(&workload.namespace);
            let rules = cx.fetch(rules.selecting(&workload.labels));
            let mut callers: Vec<_> = rules.iter().flat_map(|rule| rule.allow.clone()).collect();
            callers.sort();
            callers.dedup();
            Some(Guarded {
                workload: (**workload).clone(),
                policies: rules.iter().map(|rule| rule.name.clone()).collect(),
                callers,
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
        Ok(Self {
            config,
            configs,
            policies,
            statuses,
        })
    }
}

/// `None` while the pod has no node or no address, or does not run.
fn workload(pod: &Pod, config: &MeshConfig, services: Vec<String>) -> Option<Workload> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    if status.phase.as_deref() != Some("Running") || pod.metadata.deletion_timestamp.is_some() {
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

fn rule(policy: &AccessPolicy, mut allow: Vec<String>) -> Rule {
    allow.sort();
    Rule {
        namespace: policy.namespace().to_owned(),
        name: policy.name().to_owned(),
        selector: policy.spec.selector.clone(),
        allow,
    }
}

/// Without the time of the condition: that is the writer's to find.
fn status(policy: &AccessPolicy, workloads: usize, accepted: Is, reason: &str, message: &str) -> PolicyStatus {
    let mut accepted = conditions::new("Accepted", accepted, reason, message);
    accepted.observed_generation = policy.metadata.generation;
    PolicyStatus {
        workloads,
        conditions: vec![accepted],
    }
}
