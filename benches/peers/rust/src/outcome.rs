//! What one process measured: one flat JSON object, the same from every contestant whatever its language.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures by name; times in nanoseconds, memory in bytes.
///
/// | name | meaning |
/// | --- | --- |
/// | `sync_ns` | from the start of the informer until the handler has seen every listed pod |
/// | `sync_peak` | the most that was resident until then |
/// | `steady` | resident some time after |
/// | `relist_peak` | the most that was resident while an unchanged list came again |
/// | `events_ns` | from the order to send the events until the handler has seen the last |
/// | `…_cpu_ns` | processor time of the process meanwhile, all threads |
/// | `sync_ns` of the floor | decoding as many objects as there are pods, keeping them |
/// | `kept_ns` | as `events_ns`, of the floor that keeps the objects |
/// | `heap` | bytes in use after the sync, less those before: requested (Rust), or live after a collection (Go) |
/// | `allocations` | allocations during the events |
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Outcome(pub(crate) BTreeMap<String, u64>);

impl Outcome {
    pub(crate) fn set(&mut self, name: &str, value: impl TryInto<u64>) {
        if let Ok(value) = value.try_into() {
            self.0.insert(name.to_owned(), value);
        }
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
