//! Answers packed with gzip: asked for by default, unpacked as they come, the same as plain ones.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::testing::{EventLog, TestClient};
use kube_client::{Client, ListMode};
use tokio_util::sync::CancellationToken;

use super::bodies::in_namespace;
use super::{assert_folds_to_the_servers_state, create, delete, key, update};
use crate::harness::{Namespace, Server, cases, eventually};

/// A client over the server that notes the encoding of each successful answer.
fn noting_encodings(server: &Server, seen: &Arc<std::sync::Mutex<Vec<String>>>) -> kube::Client {
    let (inner, seen) = (server.client(), Arc::clone(seen));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, seen) = (inner.clone(), Arc::clone(&seen));
        async move {
            let response = inner.send(request).await?;
            let encoding = response.headers().get(http::header::CONTENT_ENCODING);
            let encoding = encoding.map_or("", |value| value.to_str().unwrap_or("?")).to_owned();
            seen.lock().unwrap().push(encoding);
            Ok::<_, kube::Error>(response)
        }
    });
    kube::Client::new(service, "default")
}

// A list of more than 128 KiB comes packed, if the client does not refuse it, and is the same.
async fn large_lists_come_packed_unless_refused(server: Server) {
    let namespace = server.namespace().await;
    for n in 0..30 {
        create(&namespace, &format!("m{n}"), &format!("{n} {}", "x".repeat(10_000))).await;
    }
    let mut caches = Vec::new();
    for packed in [true, false] {
        let encodings = Arc::default();
        let builder = Client::builder().compression(packed);
        let client = builder.build_with(noting_encodings(&server, &encodings));
        let client = TestClient::new(client.unwrap());
        let maps = client
            .informers()
            .typed::<ConfigMap>(in_namespace(&namespace, ListMode::Paged))
            .unwrap();
        let log = EventLog::new();
        log.register(&maps);
        client.run_and_wait(&CancellationToken::new()).await.unwrap();
        caches.push(super::cached(&maps));
        let first = encodings.lock().unwrap()[0].clone();
        assert_eq!(first, if packed { "gzip" } else { "" });
        // and what the watch after it brings
        let large = "y".repeat(20_000);
        update(&server, &namespace, "m0", &large).await;
        create(&namespace, "gone", &large).await;
        delete(&server, &namespace, "gone").await;
        assert_folds_to_the_servers_state(&server, &namespace.at("configmaps"), &maps, &log).await;
        update(&server, &namespace, "m0", &format!("0 {}", "x".repeat(10_000))).await;
        client.end().await;
    }
    assert_eq!(caches[0].len(), 30);
    assert_eq!(caches[0], caches[1]);
}

cases!(large_lists_come_packed_unless_refused);

// Over a socket, where a streaming list comes packed too: the fake on loopback, on the clock of the machine.
#[tokio::test]
async fn streaming_list_comes_packed_over_a_connection_of_our_own() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    for n in 0..30 {
        create(&namespace, &format!("m{n}"), &format!("{n} {}", "x".repeat(10_000))).await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let fake = server.in_memory().unwrap().clone();
    let serving = tokio::spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        fake.serve(listener, shutdown).await
    });
    packed_stream_equals_plain(kube::Config::new(url.parse().unwrap()), &server, &namespace).await;
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

/// One client that asks for packed answers and one that does not see the same list, and the same changes after it.
pub(super) async fn packed_stream_equals_plain(config: kube::Config, server: &Server, namespace: &Namespace) {
    let mut caches = Vec::new();
    for packed in [true, false] {
        let client = Client::builder()
            .config(config.clone())
            .compression(packed)
            .build()
            .await;
        let client = TestClient::new(client.unwrap());
        let maps = client
            .informers()
            .typed::<ConfigMap>(in_namespace(namespace, ListMode::Streaming))
            .unwrap();
        let log = EventLog::new();
        log.register(&maps);
        client.run_and_wait(&CancellationToken::new()).await.unwrap();
        let name = format!("packed-{packed}");
        create(namespace, &name, "1").await;
        eventually("the event", || async { maps.get(&key(namespace, &name)) }).await;
        assert_eq!((maps.stats().lists, maps.stats().failures), (1, 0));
        caches.push(super::cached(&maps));
        let large = "y".repeat(20_000);
        update(server, namespace, &name, &large).await;
        create(namespace, "gone", &large).await;
        delete(server, namespace, "gone").await;
        assert_folds_to_the_servers_state(server, &namespace.at("configmaps"), &maps, &log).await;
        update(server, namespace, &name, "1").await;
        client.end().await;
    }
    assert_eq!(caches[0].len(), 31);
    assert_eq!(caches[1].len(), 32);
    assert!(caches[0].iter().all(|(name, value)| caches[1].get(name) == Some(value)));
}
