//! Cases of the real server alone: it has rights, and connections with TLS.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::testing::TestClient;
use kube_client::{Client, InformerOptions, SyncError, SyncOptions, WatchErrorKind};
use tokio_util::sync::CancellationToken;

use super::create;
use super::packed::packed_stream_equals_plain;
use crate::harness::Server;

mod real {
    use super::*;

    // [I24] 403 under RBAC
    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn denied_lists_are_told_with_the_reason() {
        let server = Server::without_rights().await;
        let client = TestClient::new(Client::new(server.client()).unwrap());
        let _maps = client
            .informers()
            .typed::<ConfigMap>(InformerOptions::default())
            .unwrap();
        let stop = CancellationToken::new();
        let waiting = client.run_and_wait_with(&stop, SyncOptions::fail_fast()).await;
        let Err(SyncError::Blocked { informers }) = waiting else {
            panic!("{waiting:?}");
        };
        assert_eq!(informers[0].error.kind, WatchErrorKind::Forbidden);
        let text = informers[0].error.to_string();
        let expected = "forbidden: cannot list configmaps: configmaps is forbidden: User \"nobody\" cannot ";
        assert!(text.starts_with(expected), "{text}");
        client.end().await;
    }

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn streaming_list_comes_packed() {
        let server = Server::real().await;
        let namespace = server.namespace().await;
        for n in 0..30 {
            create(&namespace, &format!("m{n}"), &format!("{n} {}", "x".repeat(10_000))).await;
        }
        let config = kube::Config::from_kubeconfig(&kube::config::KubeConfigOptions::default())
            .await
            .expect("KUBECONFIG names the rig");
        packed_stream_equals_plain(config, &server, &namespace).await;
    }
}
