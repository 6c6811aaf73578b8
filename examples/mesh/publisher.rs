//! The end of the collections: each node's configuration gets a version, and is handed on with what changed in it.
//!
//! Versions are counted here and not in a collection: a transformation that counts would never give the same twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use watershed::krt::{Batch, Event, Keyed, Named};

use super::mesh::{Guarded, NodeConfig};
use super::policy::AccessPolicy;

/// Gives versions, and hands on what changes as text.
pub(crate) struct Publisher {
    versions: HashMap<String, u64>,
    publish: Arc<dyn Fn(String) + Send + Sync>,
}

impl Publisher {
    pub(crate) fn new(publish: Arc<dyn Fn(String) + Send + Sync>) -> Self {
        Self {
            versions: HashMap::new(),
            publish,
        }
    }

    /// Publishes the changes of one epoch, node by node.
    pub(crate) fn take(&mut self, batch: &Batch<NodeConfig>) {
        let changed: BTreeMap<&str, &Event<NodeConfig>> =
            batch.events().map(|event| (&*event.latest().node, event)).collect();
        for (node, event) in changed {
            let text = if let Some(config) = event.new() {
                let version = self.versions.entry(node.to_owned()).or_default();
                *version += 1;
                let known = event.old().map_or(&[][..], |old| &old.workloads);
                format!("{node}: version {version}{}", difference(known, &config.workloads))
            } else {
                self.versions.remove(node);
                format!("{node}: gone")
            };
            (self.publish)(text);
        }
    }
}

/// What is told of a policy since this change, if it is something else than before: what the server has by then, whoever wrote it.
pub(crate) fn news(event: &Event<AccessPolicy>) -> Option<String> {
    let told = event.new().and_then(|policy| policy.told())?;
    let before = event.old().and_then(|policy| policy.told());
    (before.as_ref() != Some(&told)).then(|| format!("policy {}: {told}", event.latest().name()))
}

/// One line for each workload that differs.
fn difference(known: &[Guarded], now: &[Guarded]) -> String {
    let is_in = |workloads: &[Guarded], one: &Guarded| workloads.iter().any(|other| other.key() == one.key());
    let changed = now.iter().filter(|workload| !known.contains(workload));
    let changed = changed.map(|workload| {
        let sign = if is_in(known, workload) { '~' } else { '+' };
        format!("\n         {sign} {workload}")
    });
    let gone = known.iter().filter(|workload| !is_in(now, workload));
    let lines = changed.chain(gone.map(|workload| format!("\n         - {}", workload.key())));
    lines.collect()
}
