//! What is made of all the kinds: one configuration, such as a control plane sends to its proxies.
//!
//! [`Config::build`] is a function of objects to values: no client, no cache, nothing to wait for. So it is easy to test, and
//! the controller needs to know only when to call it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use watershed::kclient::{Object, ObjectKey};

use super::policy::RoutePolicy;

/// The label by which a slice names its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The kinds that the configuration is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Service,
    EndpointSlice,
    Pod,
    RoutePolicy,
}

/// The name of one thing that changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConfigKey {
    pub(crate) kind: Kind,
    pub(crate) object: ObjectKey,
}

/// A configuration at one time, and what led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// One more than that of the snapshot before.
    pub(crate) version: u64,
    /// What changed since then, as far as it was told.
    pub(crate) changed: BTreeSet<ConfigKey>,
    pub(crate) config: Config,
}

/// Services, and how they are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) services: BTreeMap<ObjectKey, Route>,
}

/// How one service is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) ports: Vec<i32>,
    pub(crate) endpoints: BTreeSet<Endpoint>,
    pub(crate) policy: Option<Policy>,
}

/// One ready address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    /// From the pod, if there is one: the node that it runs on, and its label `version`.
    pub(crate) node: Option<String>,
    pub(crate) version: Option<String>,
}

/// What a `RoutePolicy` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) timeout_seconds: u32,
    pub(crate) retries: u32,
}

impl Config {
    /// Joins the kinds: services with their slices, these with their pods, and the services with their policies.
    pub(crate) fn build(
        services: &[Arc<Service>],
        slices: &[Arc<EndpointSlice>],
        pods: &[Arc<Pod>],
        policies: &[Arc<RoutePolicy>],
    ) -> Self {
        let pods: BTreeMap<ObjectKey, &Pod> = pods.iter().map(|pod| (pod.metadata().key(), &**pod)).collect();
        let mut routes: BTreeMap<ObjectKey, Route> = services
            .iter()
            .map(|service| (service.metadata().key(), Route::of(service)))
            .collect();
        for slice in slices {
            let metadata = slice.metadata();
            // A slice without a service is somebody else's; one of a service that is hidden waits for it.
            let service = metadata.labels.get(SERVICE_NAME);
            let Some(route) = service.and_then(|name| routes.get_mut(&ObjectKey::new(metadata.namespace, name))) else {
                continue;
            };
            route.endpoints.extend(endpoints(slice, &pods));
        }
        // If two policies name one service, the older one holds; sorting makes that so whatever order the cache gives.
        let mut policies: Vec<&RoutePolicy> = policies.iter().map(|policy| &**policy).collect();
        policies.sort_by_key(|policy| (&policy.metadata.creation_timestamp, &policy.metadata.name));
        for policy in policies {
            let service = ObjectKey::new(policy.metadata().namespace, &policy.spec.service);
            if let Some(route) = routes.get_mut(&service) {
                route.policy.get_or_insert_with(|| Policy::of(policy));
            }
        }
        Self { services: routes }
    }
}

impl Route {
    fn of(service: &Service) -> Self {
        let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
        Self {
            ports: ports.into_iter().flatten().map(|port| port.port).collect(),
            ..Self::default()
        }
    }
}

impl Policy {
    fn of(policy: &RoutePolicy) -> Self {
        Self {
            name: policy.metadata().name.to_owned(),
            timeout_seconds: policy.spec.timeout_seconds,
            retries: policy.spec.retries,
        }
    }
}

/// The ready addresses of a slice.
fn endpoints(slice: &EndpointSlice, pods: &BTreeMap<ObjectKey, &Pod>) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for endpoint in slice.endpoints.iter().flatten() {
        // Unknown counts as ready, as the API says.
        if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(false) {
            continue;
        }
        let target = endpoint
            .target_ref
            .as_ref()
            .filter(|target| target.kind.as_deref() == Some("Pod"));
        let pod = target
            .and_then(|target| target.name.as_deref())
            .and_then(|name| pods.get(&ObjectKey::new(slice.metadata().namespace, name)));
        found.extend(endpoint.addresses.iter().map(|address| Endpoint {
            address: address.clone(),
            node: pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()),
            version: pod.and_then(|pod| pod.metadata().labels.get("version").map(str::to_owned)),
        }));
    }
    found
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.version)?;
        let shown: Vec<String> = self.changed.iter().take(4).map(ToString::to_string).collect();
        if !shown.is_empty() {
            write!(f, ": {}", shown.join(", "))?;
        }
        match self.changed.len() - shown.len() {
            0 => writeln!(f)?,
            more => writeln!(f, " and {more} more")?,
        }
        write!(f, "{}", self.config)
    }
}

impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.object)
    }
}

/// One line for each service.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (service, route) in &self.services {
            writeln!(f, "    {service} {route}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ->", self.ports)?;
        if self.endpoints.is_empty() {
            f.write_str(" nobody")?;
        }
        for Endpoint { address, node, version } in &self.endpoints {
            write!(f, " {address}")?;
            let of_pod: Vec<&str> = [node, version].into_iter().flatten().map(String::as_str).collect();
            if !of_pod.is_empty() {
                write!(f, " ({})", of_pod.join(", "))?;
            }
        }
        if let Some(policy) = &self.policy {
            let Policy {
                name,
                timeout_seconds,
                retries,
            } = policy;
            write!(f, "; {name}: {timeout_seconds} s, {retries} retries")?;
        }
        Ok(())
    }
}
