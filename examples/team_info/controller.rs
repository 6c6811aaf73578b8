//! Gives every namespace that belongs to a team a config map that says which one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use watershed::kclient::handler::{QueueHandlers, enqueue_for};
use watershed::kclient::queue::{Action, Queue, ReconcileError};
use watershed::kclient::{
    Client, Filter, HandlerOptions, Informer, ObjectKey, Patch, PatchParams, ReadWrite, Reader, RegisterError, Stopped,
    Subresource, WriterExt, ignore_not_found,
};
use watershed::kube_client;

/// The label that says which team a namespace belongs to.
pub(crate) const TEAM: &str = "example.com/team";

/// The name of the config map.
pub(crate) const INFO: &str = "team-info";

/// Brings one namespace in line.
pub(crate) async fn reconcile(
    namespaces: &impl Reader<Namespace>,
    maps: &impl ReadWrite<ConfigMap>,
    key: &ObjectKey,
) -> Result<Action, ReconcileError> {
    // A namespace that is gone, or going, takes its config maps along.
    let Some(namespace) = namespaces.get(key) else {
        return Ok(Action::Done);
    };
    if namespace.metadata.deletion_timestamp.is_some() {
        return Ok(Action::Done);
    }

    let team = namespace.metadata.labels.as_ref().and_then(|labels| labels.get(TEAM));
    let info = ObjectKey::namespaced(key.name(), INFO);
    match (team, maps.get(&info)) {
        (Some(team), None) => {
            maps.create_object(&config_map(&info, team)).await?;
        }
        (Some(team), Some(map)) if team_of(&map) != Some(team) => {
            let patch = Patch::Merge(json!({"data": {"team": team}}));
            maps.patch(&info, &patch, Subresource::Main, &PatchParams::default())
                .await?;
        }
        (None, Some(_)) => {
            ignore_not_found(maps.delete_object(&info).await)?;
        }
        (Some(_), Some(_)) | (None, None) => {} // as it should be
    }
    Ok(Action::Done)
}

fn config_map(key: &ObjectKey, team: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(key.name().to_owned()),
            namespace: key.namespace().map(str::to_owned),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("team".to_owned(), team.to_owned())])),
        ..ConfigMap::default()
    }
}

fn team_of(map: &ConfigMap) -> Option<&String> {
    map.data.as_ref()?.get("team")
}

/// The controller: two clients, a queue, and what connects them.
pub(crate) struct TeamInfo {
    namespaces: Client<Namespace>,
    maps: Client<ConfigMap>,
    queue: Queue,
}

impl TeamInfo {
    /// Puts it together. Nothing is started, nothing is sent.
    pub(crate) fn new(cluster: &kube_client::Client) -> Result<Self, RegisterError> {
        let namespaces = Client::<Namespace>::new(cluster)?;
        // Only the config maps of this name: the server leaves out the others.
        let filter = Filter::default().fields(format!("metadata.name={INFO}"));
        let maps = Client::<ConfigMap>::filtered(cluster, filter)?;

        let queue = Queue::builder("team-info")
            .reconciler({
                let (namespaces, maps) = (namespaces.clone(), maps.clone());
                move |key: ObjectKey| {
                    let (namespaces, maps) = (namespaces.clone(), maps.clone());
                    async move { reconcile(&namespaces, &maps, &key).await }
                }
            })
            .build();

        // A change of a namespace: look at that namespace.
        namespaces.add_handler(queue.handler::<Namespace>().boxed(), HandlerOptions::named("team-info"));
        // A change of a config map: look at the namespace that it is in. So what others change is put right.
        let of_its_namespace = |map: &ConfigMap| map.metadata.namespace.as_deref().map(ObjectKey::cluster);
        maps.add_handler(
            enqueue_for(&queue, of_its_namespace).boxed(),
            HandlerOptions::named("team-info"),
        );
        Ok(Self {
            namespaces,
            maps,
            queue,
        })
    }

    /// Works until `stop` is cancelled.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Result<(), Stopped> {
        // First know everything. A controller that begins with half of the config maps creates the other half again.
        tokio::select! {
            synced = async { self.namespaces.synced().await.and(self.maps.synced().await) } => synced?,
            () = stop.cancelled() => return Ok(()),
        }
        let ran = self.queue.run(stop).await;
        self.namespaces.shutdown_handlers();
        self.maps.shutdown_handlers();
        ran.map_err(|_already_run| Stopped)
    }
}

#[cfg(test)]
mod tests;
