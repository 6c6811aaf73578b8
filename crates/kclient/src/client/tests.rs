//! Which handlers count for the sync of a client.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Event;
use kube_client::testing::TestClient;

use super::*;
use crate::ext::InformerExt;

// `synced` waits for the handlers of its beginning, but `has_synced` must not forget those that came since.
#[tokio::test(start_paused = true)]
async fn handlers_registered_during_a_wait_count_for_has_synced() {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".to_owned());
    map.metadata.namespace = Some("default".to_owned());
    let cluster = TestClient::new(kube_client::Client::fake([map]).unwrap());
    let maps = Client::<ConfigMap>::new(&cluster).unwrap();
    let synced = maps.synced();
    maps.on_event_async("stuck", |_: Event<ConfigMap>| std::future::pending());
    cluster.sync().await;
    synced.await.unwrap();
    assert!(!maps.has_synced(), "a handler has yet to handle its initial state");
    cluster.end().await;
}
