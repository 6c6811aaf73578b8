//! Collections of what a client shows: a client that a test plays, event by event, and one on an in-memory server.

pub(super) mod fed;
mod served;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::Rig;
use crate::sync::Mutex;
use crate::{Collection, Event};

/// A map with a value. The version is its own too.
fn map(name: &str, uid: &str, version: u64, value: &str) -> Arc<ConfigMap> {
    named(("n", name), uid, version, value)
}

pub(super) fn named((namespace, name): (&str, &str), uid: &str, version: u64, value: &str) -> Arc<ConfigMap> {
    let metadata = json!({"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version.to_string()});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "data": {"v": value}})).unwrap())
}

fn value(map: &ConfigMap) -> &str {
    map.data
        .as_ref()
        .and_then(|data| data.get("v"))
        .map_or("", String::as_str)
}

fn name(map: &ConfigMap) -> &str {
    map.metadata.name.as_deref().unwrap_or_default()
}

/// `+a=1`, `a=1>2`, `-a=2`.
fn line(event: &Event<ConfigMap>) -> String {
    let name = name(event.latest());
    match event {
        Event::Added(new) => format!("+{name}={}", value(new)),
        Event::Updated { old, new } => format!("{name}={}>{}", value(old), value(new)),
        Event::Deleted(old) => format!("-{name}={}", value(old)),
    }
}

/// The content as `name=value`, sorted.
fn content(collection: &Collection<ConfigMap>) -> Vec<String> {
    let mut lines: Vec<_> = collection
        .list()
        .iter()
        .map(|map| format!("{}={}", name(map), value(map)))
        .collect();
    lines.sort_unstable();
    lines
}

/// What a handler was told: each batch by itself, and what it comes to.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    batches: Vec<Vec<String>>,
    folded: BTreeMap<String, String>,
}

impl Told {
    fn follow(&self, collection: &Collection<ConfigMap>) -> crate::Registration {
        let told = self.clone();
        collection.on_batch(move |batch| {
            let state = &mut *told.0.lock();
            for event in batch.events() {
                let key = name(event.latest()).to_owned();
                let old = event.old().map(|old| value(old).to_owned());
                assert_eq!(state.folded.remove(&key), old, "what it was told last");
                if let Some(new) = event.new() {
                    state.folded.insert(key, value(new).to_owned());
                }
            }
            let mut lines: Vec<String> = batch.events().map(line).collect();
            // Of one key, the order counts.
            lines.sort_by_key(|line| line.trim_start_matches(['+', '-']).split('=').next().map(str::to_owned));
            state.batches.push(lines);
        })
    }

    /// The batches since the last time.
    fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.0.lock().batches)
    }

    fn folded(&self) -> Vec<String> {
        let state = self.0.lock();
        state
            .folded
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }
}
