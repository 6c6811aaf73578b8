//! The scheduler and the kubelets of all nodes: pods get a node, an address and running containers, and end when their time is up.

mod node;
mod status;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::queue::Queue;
use super::timers::Timers;
use super::world::{Agent, Change, Failure, Key, World, delete_options, text};
use crate::json::scan;
use crate::object::Object;

/// The state of scheduler and kubelets.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    queue: Queue<Key>,
    /// When pods that are being deleted have to be gone.
    ends: Timers<Key>,
    /// Pods that no node runs: looked at again when nodes change.
    waiting: BTreeSet<Key>,
    nodes: Assigned,
    addresses: Addresses,
}

/// Which pods are on which node.
#[derive(Debug, Default)]
struct Assigned {
    of_pod: HashMap<Key, String>,
    /// Invariant: how often each node is in `of_pod`.
    counts: BTreeMap<String, usize>,
}

impl Assigned {
    fn set(&mut self, pod: &Key, node: Option<String>) {
        if let Some(old) = self.of_pod.remove(pod)
            && let Some(count) = self.counts.get_mut(&old)
        {
            *count -= 1;
        }
        if let Some(node) = node {
            *self.counts.entry(node.clone()).or_default() += 1;
            self.of_pod.insert(pod.clone(), node);
        }
    }
}

/// The addresses of pods: 10.244.0.1 and on, each given once until all have been.
#[derive(Debug, Default)]
struct Addresses {
    of_pod: HashMap<Key, u16>,
    /// Invariant: the values of `of_pod`.
    used: BTreeSet<u16>,
    last: u16,
}

impl Addresses {
    /// Takes note of the address that a pod has.
    fn set(&mut self, pod: &Key, address: Option<u16>) {
        if self.of_pod.get(pod).copied() == address {
            return;
        }
        if let Some(old) = self.of_pod.remove(pod) {
            self.used.remove(&old);
        }
        if let Some(address) = address {
            self.of_pod.insert(pod.clone(), address);
            self.used.insert(address);
            self.last = self.last.max(address);
        }
    }

    /// An address that no pod has; none if there is none left.
    fn give(&mut self) -> Option<u16> {
        let mut candidates = (self.last.saturating_add(1)..u16::MAX).chain(1..=self.last.min(u16::MAX - 1));
        let free = candidates.find(|candidate| !self.used.contains(candidate))?;
        self.last = free;
        Some(free)
    }
}

const NETWORK: &str = "10.244.";

fn address_text(address: u16) -> String {
    let [high, low] = address.to_be_bytes();
    format!("{NETWORK}{high}.{low}")
}

fn parse_address(text: &str) -> Option<u16> {
    let (high, low) = text.strip_prefix(NETWORK)?.split_once('.')?;
    Some(u16::from_be_bytes([high.parse().ok()?, low.parse().ok()?]))
}

/// A text of a field of an object, without reading the rest of it.
fn text_of(object: &Object, field: &str, name: &str) -> Option<String> {
    let value = scan::member(object.field(field)?, name)?;
    serde_json::from_slice(value)
        .ok()
        .filter(|text: &String| !text.is_empty())
}

impl Kubelet {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.is_of("", "nodes") {
            for pod in std::mem::take(&mut self.waiting) {
                self.queue.push(pod);
            }
        }
        if !change.is_of("", "pods") {
            return;
        }
        let key = &change.key;
        let Some(pod) = &change.cur else {
            self.ends.clear(key);
            self.waiting.remove(key);
            self.nodes.set(key, None);
            self.addresses.set(key, None);
            return;
        };
        let node = text_of(pod, "spec", "nodeName");
        let is_on_host = pod
            .field("spec")
            .and_then(|spec| scan::member(spec, "hostNetwork"))
            .is_some_and(|value| value == b"true");
        let address = text_of(pod, "status", "podIP").filter(|_| !is_on_host);
        self.addresses.set(key, address.as_deref().and_then(parse_address));
        match pod.meta.deletion_timestamp {
            // A pod without time left is gone, or waits for others.
            Some(end) if node.is_some() && pod.meta.deletion_grace_period_seconds != Some(0) => {
                self.ends.set(key, end);
            }
            Some(_) => self.ends.clear(key),
            None => {
                let phase = text_of(pod, "status", "phase");
                if phase.is_none_or(|phase| phase == "Pending") {
                    self.queue.push(key.clone());
                }
            }
        }
        self.nodes.set(key, node);
    }

    /// When there is something to do although nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.ends.next()
    }

    /// Works on one pod; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        if let Some(key) = self.ends.pop(world.server.clock.now()) {
            report("end", &key, end(world, &key).await);
            return true;
        }
        let Some(key) = self.queue.pop() else { return false };
        let result = self.look(world, &key).await;
        if result.as_ref().is_err_and(Failure::is_conflict) {
            self.queue.push(key);
        } else {
            report("run", &key, result);
        }
        true
    }

    async fn look(&mut self, world: &World<'_>, key: &Key) -> Result<(), Failure> {
        let Some(pod) = world.show(key) else { return Ok(()) };
        if pod["metadata"]["deletionTimestamp"].is_string() {
            return Ok(());
        }
        match text(&pod, "/spec/nodeName") {
            "" => self.schedule(world, key, &pod).await,
            node => {
                let Some(node) = world.get("", "nodes", "", node) else {
                    self.waiting.insert(key.clone());
                    return Ok(());
                };
                self.start(world, key, pod, &node).await
            }
        }
    }

    /// Gives a pod a node.
    async fn schedule(&mut self, world: &World<'_>, key: &Key, pod: &Value) -> Result<(), Failure> {
        let is_gated = pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| !gates.is_empty());
        if is_gated || text(pod, "/spec/schedulerName") != "default-scheduler" {
            return Ok(());
        }
        let mut nodes = world.list("", "nodes", "");
        if nodes.is_empty() {
            nodes.push(node::create(world).await?);
        }
        let count = |node: &Value| self.nodes.counts.get(text(node, "/metadata/name")).copied();
        let fitting = nodes.iter().filter(|node| node::fits(pod, node));
        // The first of those with the fewest pods.
        let Some(node) = fitting.min_by_key(|node| count(node).unwrap_or_default()) else {
            self.waiting.insert(key.clone());
            return status::unschedulable(world, key, pod, nodes.len()).await;
        };
        let Some((resource, _)) = world.built_in("", "pods") else {
            return Ok(());
        };
        let name = text(node, "/metadata/name");
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": key.name(), "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": name},
        });
        world.post(Agent::Scheduler, resource, key, "binding", &binding).await?;
        // The log tells of it later than the next pod may need to know.
        self.nodes.set(key, Some(name.to_owned()));
        Ok(())
    }

    /// Brings a pod one step nearer to running.
    async fn start(&mut self, world: &World<'_>, key: &Key, mut pod: Value, node: &Value) -> Result<(), Failure> {
        let Some((resource, _)) = world.built_in("", "pods") else {
            return Ok(());
        };
        let host = node::address(node);
        match status::stage(&pod) {
            status::Stage::New => status::creating(world, &mut pod, &host),
            status::Stage::Creating => {
                let address = if pod["spec"]["hostNetwork"] == true {
                    host
                } else {
                    let Some(address) = self.addresses.give() else {
                        tracing::warn!(pod = &*key.object, "no address is left for the pod");
                        return Ok(());
                    };
                    address_text(address)
                };
                status::running(world, &mut pod, &address);
            }
            // Somebody else tells what becomes of it.
            status::Stage::Other => return Ok(()),
        }
        world
            .update(Agent::Kubelet, resource, Some("status"), &pod)
            .await
            .map(drop)
    }
}

/// Says what the server did not accept. A pod that is gone, or that somebody changed, is told by the log.
fn report(what: &str, key: &Key, result: Result<(), Failure>) {
    match result {
        Ok(()) => {}
        Err(failure) if failure.is_not_found() || failure.is_conflict() => {}
        Err(failure) => tracing::warn!(pod = &*key.object, "cannot {what} the pod: {failure}"),
    }
}

/// Removes a pod whose time is up.
async fn end(world: &World<'_>, key: &Key) -> Result<(), Failure> {
    let (Some(resource), Some(version)) = (world.resource(key), world.latest(key)) else {
        return Ok(());
    };
    let meta = version.object.object().meta;
    if meta.deletion_timestamp.is_none_or(|end| end > world.server.clock.now()) {
        return Ok(());
    }
    let options = delete_options(json!({"gracePeriodSeconds": 0, "preconditions": {"uid": meta.uid}}));
    world.delete(Agent::Kubelet, resource, key, &options).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_in_order_and_anew_when_all_were() {
        let mut addresses = Addresses::default();
        assert_eq!([addresses.give(), addresses.give()], [Some(1), Some(2)]);
        addresses.last = u16::MAX - 1;
        addresses.used.insert(1);
        assert_eq!(addresses.give(), Some(2));
        assert_eq!(address_text(0x0203), "10.244.2.3");
        assert_eq!(parse_address("10.244.2.3"), Some(0x0203));
        assert_eq!(parse_address("10.0.2.3"), None);
    }
}
