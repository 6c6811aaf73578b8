//! What a user sees when the cluster cannot be used: no server, wrong TLS, wrong credentials, missing rights, a bad
//! kubeconfig. Each is one clear sentence at once. [I24] [I5]

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::config::KubeConfigOptions;
use kube_client::testing::TestClient;
use kube_client::{Client, ClientError, InformerOptions, SyncError, SyncOptions, WatchErrorKind};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::harness::Server;

/// What `fail_fast` says, and of which class it is.
async fn fails(client: Client) -> (WatchErrorKind, String) {
    let _maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let error = client
        .run_and_wait_with(&CancellationToken::new(), SyncOptions::fail_fast())
        .await
        .unwrap_err();
    TestClient::new(client).end().await;
    let SyncError::Blocked { informers } = &error else {
        panic!("{error}")
    };
    (informers[0].error.kind.clone(), error.to_string())
}

async fn client_for(config: kube::Config) -> Client {
    Client::builder().config(config).build().await.unwrap()
}

#[tokio::test]
async fn unreachable_server_is_named_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener); // nobody listens there now
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let (kind, text) = fails(client_for(config).await).await;
    assert_eq!(kind, WatchErrorKind::Unreachable);
    let expected = "cannot fill the cache: configmaps/v1: unreachable: cannot list configmaps: ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[tokio::test]
async fn server_without_tls_is_named_as_a_tls_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The client hangs up on this answer; whether all of it is written does not matter.
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let config = kube::Config::new(format!("https://{address}").parse().unwrap());
    let (kind, text) = fails(client_for(config).await).await;
    assert_eq!(kind, WatchErrorKind::Tls, "{text}");
    assert!(text.contains("TLS failed: cannot list configmaps: "), "{text}");
    server.abort();
}

#[tokio::test]
async fn bad_kubeconfig_is_named_by_path() {
    let path = std::env::temp_dir().join(format!("kubeconfig-that-does-not-exist-{}", std::process::id()));
    let missing = Client::builder().kubeconfig(&path, None).build().await.unwrap_err();
    assert!(matches!(missing, ClientError::Kubeconfig { .. }), "{missing}");
    assert_eq!(missing.to_string(), format!("cannot use kubeconfig {}", path.display()));

    let file = std::env::temp_dir().join(format!("kubeconfig-without-context-{}", std::process::id()));
    std::fs::write(
        &file,
        "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    )
    .unwrap();
    let no_context = Client::builder()
        .kubeconfig(&file, Some("absent"))
        .build()
        .await
        .unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(no_context, ClientError::Kubeconfig { .. }), "{no_context}");
}

#[tokio::test]
async fn bad_user_agent_is_refused() {
    let builder = Client::builder().user_agent("a\nb");
    let error = builder.build_with(Server::fake().client()).unwrap_err();
    assert!(
        matches!(&error, ClientError::UserAgent { value } if value == "a\nb"),
        "{error}"
    );
}

/// The state of the TCP timer of the connection from this local port, as Linux shows it: `02` is keepalive, and when it is due,
/// in hundredths of a second.
#[cfg(target_os = "linux")]
fn tcp_timer(port: u16) -> Option<(String, u64)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let row = table.lines().find(|row| {
        row.split_whitespace()
            .nth(1)
            .is_some_and(|address| address.ends_with(&local))
    })?;
    let (timer, due) = row.split_whitespace().nth(5)?.split_once(':')?;
    Some((timer.to_owned(), u64::from_str_radix(due, 16).ok()?))
}

// [I33] the connections that we build probe a silent peer after half a minute
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connection_of_informers_is_kept_alive_by_probes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let client = client_for(config).await;
    let maps = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    maps.start();
    let (socket, peer) = listener.accept().await.unwrap();
    // While the request is not acknowledged, another timer runs.
    let due = crate::harness::eventually("the keepalive timer", || async {
        tcp_timer(peer.port())
            .filter(|(timer, _)| timer == "02")
            .map(|(_, due)| due)
    })
    .await;
    assert!(due <= 3_000, "due in {due} hundredths of a second");
    drop(socket);
    client.shutdown().await;
}

/// Cases of the real server alone: the in-memory one has neither TLS nor rights.
mod real {
    use super::*;

    async fn config() -> kube::Config {
        kube::Config::from_kubeconfig(&KubeConfigOptions::default())
            .await
            .expect("KUBECONFIG names the rig")
    }

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn unknown_authority_is_a_tls_failure() {
        let mut config = config().await;
        config.root_cert = None; // the authorities of the machine do not know the rig's
        config.root_cert_file = None;
        let (kind, text) = fails(client_for(config).await).await;
        assert_eq!(kind, WatchErrorKind::Tls, "{text}");
        assert!(text.contains("certificate"), "{text}");
    }

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn wrong_token_is_unauthorized() {
        let mut config = config().await;
        config.auth_info = kube::config::AuthInfo {
            token: Some("wrong".to_owned().into()),
            ..Default::default()
        };
        let (kind, text) = fails(client_for(config).await).await;
        assert_eq!(kind, WatchErrorKind::Unauthorized, "{text}");
    }

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn unsupported_field_selector_is_refused() {
        let client = client_for(config().await).await;
        let options = InformerOptions::default().fields("spec.nothing=1");
        let _secrets = client.informers().typed::<Secret>(options).unwrap();
        let (kind, text) = fails(client).await;
        assert_eq!(kind, WatchErrorKind::Refused, "{text}");
        assert!(text.contains("field label not supported: spec.nothing"), "{text}");
    }
}
