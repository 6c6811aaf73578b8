//! What every namespace has: the service account `default` and the certificate of the server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::queue::Queue;
use super::world::{Agent, Change, Failure, World, text};

const WHO: Agent = Agent::ControllerManager;
const ACCOUNT: &str = "default";
const ROOT: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
                         the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
                         Kubernetes clusters.";

/// A certificate that nobody has the key of: this server speaks no TLS.
const CERTIFICATE: &str = include_str!("root-ca.crt");

/// The state of the controllers that keep these objects there.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    queue: Queue<Arc<str>>,
}

impl Accounts {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        let name = change.key.name();
        let concerns = change.is_of("", "serviceaccounts") && name == ACCOUNT && change.cur.is_none()
            || change.is_of("", "configmaps") && name == ROOT;
        if concerns {
            self.queue.push(change.key.namespace().into());
        } else if change.is_of("", "namespaces") && change.cur.is_some() {
            self.queue.push(Arc::clone(&change.key.object));
        }
    }

    /// Works on one namespace; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        let Some(name) = self.queue.pop() else { return false };
        for result in [account(world, &name).await, root(world, &name).await] {
            match result {
                Ok(()) => {}
                Err(failure) if failure.is_conflict() => self.queue.push(Arc::clone(&name)),
                // The namespace is gone or going, or somebody else was faster.
                Err(failure) if failure.is_not_found() || failure.is_forbidden() || failure.is_already_exists() => {}
                Err(failure) => tracing::warn!(
                    namespace = &*name,
                    "an object of every namespace was refused: {failure}"
                ),
            }
        }
        true
    }
}

/// Makes the service account.
async fn account(world: &World<'_>, namespace: &str) -> Result<(), Failure> {
    let Some(found) = world.get("", "namespaces", "", namespace) else {
        return Ok(());
    };
    let is_there = world.get("", "serviceaccounts", namespace, ACCOUNT).is_some();
    let Some((resource, _)) = world.built_in("", "serviceaccounts") else {
        return Ok(());
    };
    if is_there || text(&found, "/status/phase") != "Active" {
        return Ok(());
    }
    let account = json!({"metadata": {"name": ACCOUNT, "namespace": namespace}});
    world.create(WHO, resource, &account).await.map(drop)
}

/// Makes the config map with the certificate, or puts it right.
async fn root(world: &World<'_>, namespace: &str) -> Result<(), Failure> {
    let Some((resource, _)) = world.built_in("", "configmaps") else {
        return Ok(());
    };
    let data = json!({"ca.crt": CERTIFICATE});
    let Some(mut map) = world.get("", "configmaps", namespace, ROOT) else {
        let annotations = json!({DESCRIPTION: DESCRIBED});
        let metadata = json!({"name": ROOT, "namespace": namespace, "annotations": annotations});
        let map = json!({"metadata": metadata, "data": data});
        return world.create(WHO, resource, &map).await.map(drop);
    };
    let is_described = map["metadata"]["annotations"][DESCRIPTION]
        .as_str()
        .is_some_and(|text| !text.is_empty());
    if map["data"] == data && is_described {
        return Ok(());
    }
    map["data"] = data;
    if let Value::Object(metadata) = &mut map["metadata"]
        && let Some(annotations) = metadata
            .entry("annotations")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        annotations.insert(DESCRIPTION.to_owned(), DESCRIBED.into());
    }
    world.update(WHO, resource, None, &map).await.map(drop)
}
