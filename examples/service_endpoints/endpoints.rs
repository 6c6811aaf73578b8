//! The addresses behind each service, as two collections: what of a pod matters, and what a service makes of it.
//!
//! Nothing here says what is to be done when a pod changes. Each function says what its output is; the engine finds out whom a change
//! concerns.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, Service};
use watershed::kclient::{Filter, RegisterError};
use watershed::krt::{Collection, Event, KeyRef, Keyed, Krt, Labeled, Labels, Namespaced};
use watershed::kube_client::{Client, Namespaces};

/// A pod that can be called: as much of it as matters here. A heartbeat of a kubelet changes the pod, but not this, so it goes no
/// further.
#[derive(Debug, Clone, PartialEq)]
struct Backend {
    namespace: String,
    name: String,
    labels: Labels,
    address: String,
}

impl Keyed for Backend {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

impl Namespaced for Backend {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Labeled for Backend {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Backend {
    /// `None` if nobody should call it.
    fn new(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True");
        if !ready || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(Self {
            namespace: pod.metadata.namespace.clone()?,
            name: pod.metadata.name.clone()?,
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            address: status.pod_ip.clone()?,
        })
    }
}

/// What a load balancer has to know of one service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Endpoints {
    namespace: String,
    service: String,
    ports: Vec<i32>,
    addresses: Vec<String>,
}

impl Keyed for Endpoints {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.service)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        write!(f, "{} [{}] -> ", self.key(), ports.join(","))?;
        match &*self.addresses {
            [] => f.write_str("nobody"),
            addresses => f.write_str(&addresses.join(" ")),
        }
    }
}

/// An event as it is printed.
pub(crate) fn line(event: &Event<Endpoints>) -> String {
    match event {
        Event::Added(endpoints) | Event::Updated { new: endpoints, .. } => endpoints.to_string(),
        Event::Deleted(endpoints) => format!("{} is gone", endpoints.key()),
    }
}

/// The endpoints of all services in these namespaces.
pub(crate) fn endpoints(
    krt: &Krt,
    cluster: &Client,
    namespaces: &Namespaces,
) -> Result<Collection<Endpoints>, RegisterError> {
    let services = krt.from_client::<Service>(cluster, Filter::default().namespaces(namespaces.clone()))?;
    let pods = krt.from_client::<Pod>(cluster, Filter::default().namespaces(namespaces.clone()))?;
    let backends = krt.collection("backends", &pods, |_, pod| Backend::new(pod));
    Ok(krt.collection("endpoints", &services, move |cx, service| {
        let spec = service.spec.as_ref()?;
        // Without a selector, somebody else looks after the endpoints.
        let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
        let namespace = service.namespace();
        // What is fetched here decides when this runs again: when a backend of these labels comes, changes or goes.
        let backends = cx.fetch(backends.query().namespace(namespace).labels(selector));
        let ports = spec.ports.as_deref().unwrap_or_default();
        Some(Endpoints {
            namespace: namespace.to_owned(),
            service: service.metadata.name.clone()?,
            ports: ports.iter().map(|port| port.port).collect(),
            addresses: backends.iter().map(|backend| backend.address.clone()).collect(),
        })
    }))
}
