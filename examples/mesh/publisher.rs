//! The end of the collections: each node's configuration gets a version, and is handed on with what changed.
//!
//! Versions are counted here and not in a collection: a transformation that counts would never give the same twice.

use std::collections::HashMap;
use std::fmt::Write;

use watershed::krt::{Batch, Keyed};

use super::mesh::NodeConfig;

/// Hands on what changes, as text.
pub(crate) struct Publisher {
    versions: HashMap<String, u64>,
    publish: Box<dyn FnMut(String) + Send>,
}

impl Publisher {
    pub(crate) fn new(publish: impl FnMut(String) + Send + 'static) -> Self {
        Self {
            versions: HashMap::new(),
            publish: Box::new(publish),
        }
    }

    /// Publishes the changes of one epoch.
    pub(crate) fn take(&mut self, batch: &Batch<NodeConfig>) {
        let mut changed: Vec<_> = batch.events().collect();
        changed.sort_by_key(|event| event.latest().node.clone());
        for event in changed {
            let node = &event.latest().node;
            let Some(config) = event.new() else {
                self.versions.remove(node);
                (self.publish)(format!("{node} is gone"));
                continue;
            };
            let version = self.versions.entry(node.clone()).or_default();
            *version += 1;
            let mut text = format!("{node} version {version}");
            let known = event.old().map_or(&[][..], |old| &old.workloads);
            for workload in config.workloads.iter().filter(|workload| !known.contains(workload)) {
                write!(text, "\n    {workload}").expect("text takes text");
            }
            let is_left = |key: &str| config.workloads.iter().any(|one| one.key().to_string() == key);
            for key in known.iter().map(|workload| workload.key().to_string()) {
                if !is_left(&key) {
                    write!(text, "\n    {key} is gone").expect("text takes text");
                }
            }
            (self.publish)(text);
        }
    }
}
