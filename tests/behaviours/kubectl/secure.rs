//! kubectl over TLS: it trusts what the server gives it to trust, and nothing else. [F19]

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fake_apiserver::TlsIdentity;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Kubectl;
use crate::harness::{Server, limited};

/// A kubeconfig for a server with this authority.
fn kubeconfig(folder: &Path, url: &str, authority: &str) -> String {
    let path = folder.join("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(authority)}}],
        // Over TLS kubectl asks whoever has no credentials for a name and a password.
        "users": [{"name": "a", "user": {"token": "anybody"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    });
    std::fs::write(&path, config.to_string()).expect("a file in our folder");
    path.to_str().expect("a path of text").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl"]
async fn kubectl_works_over_tls() {
    let server = Server::fake();
    let fake = server.in_memory().expect("the in-memory server").clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let identity = || TlsIdentity::self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (ours, others) = (identity(), identity());
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let authority = ours.authority().to_owned();
    let serving = tokio::spawn(async move { fake.serve_tls(listener, &ours, stopped).await });
    let kubectl = Kubectl {
        program: super::program(),
        home: super::home(),
        server,
        url: None,
        stop: CancellationToken::new(),
        serving: None,
    };
    let config = kubeconfig(&kubectl.home, &url, &authority);
    let with = |arguments: &[&'static str]| [&["--kubeconfig", config.as_str()], arguments].concat().join(" ");
    let run = async |arguments: &[&'static str]| {
        let all = with(arguments);
        let all: Vec<&str> = all.split(' ').collect();
        kubectl.ok(&all).await
    };
    assert_eq!(
        run(&["create", "configmap", "a", "--from-literal=b=c"]).await,
        "configmap/a created"
    );
    assert_eq!(run(&["get", "configmap", "a", "-o", "jsonpath={.data.b}"]).await, "c");
    let config = kubeconfig(&kubectl.home, &url, others.authority());
    let refused = kubectl.refused(&["--kubeconfig", &config, "get", "configmap"]).await;
    assert!(refused.contains("certificate signed by unknown authority"), "{refused}");
    stop.cancel();
    let served = limited("the server's end", serving).await;
    served
        .expect("the server did not panic")
        .expect("the server ended without an error");
}
