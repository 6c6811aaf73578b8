//! Objects as clients send them, and requests that go into the service as bytes, with no HTTP client in between.

use bytes::Bytes;
use fake_apiserver::{Body, FakeApiServer};
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

#[path = "../../../../benches/data/pod.rs"]
#[expect(dead_code, reason = "one pod is enough here")]
mod data;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const JSON: &str = "application/json";

pub(crate) type Request = http::Request<Full<Bytes>>;
/// Makes the object of a number.
pub(crate) type Make = fn(usize) -> Bytes;

pub(crate) fn request(method: &str, uri: &str, accept: &str, body: Bytes) -> Request {
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("accept", accept)
        .header("content-type", JSON)
        .header("user-agent", "bench/1 (linux/amd64)");
    request.body(Full::new(body)).expect("a well-formed request")
}

pub(crate) async fn send(fake: &FakeApiServer, request: Request) -> http::Response<Body> {
    fake.service().oneshot(request).await.expect("no fault rules")
}

/// Sends a request that is granted; returns all of the answer.
pub(crate) async fn granted(fake: &FakeApiServer, request: Request) -> Bytes {
    let response = send(fake, request).await;
    let status = response.status();
    let answer = response.into_body().collect().await.expect("a whole body").to_bytes();
    assert!(status.is_success(), "{status} {answer:?}");
    answer
}

/// Gets a list part by part; returns how many bytes it has.
pub(crate) async fn list(fake: &FakeApiServer, uri: &str, mut seen: impl FnMut(&Bytes)) -> usize {
    let mut body = send(fake, request("GET", uri, JSON, Bytes::new())).await.into_body();
    let mut bytes = 0;
    while let Some(part) = body.frame().await {
        let part = part.expect("no fault rules").into_data().unwrap_or_default();
        seen(&part);
        bytes += part.len();
    }
    bytes
}

/// About 0.5 KB when it is stored.
pub(crate) fn config_map(n: usize) -> Bytes {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{n}","labels":{{"app":"bench"}}}},"data":{{"key":"value","n":"{n}"}}}}"#
    );
    text.into()
}

/// About 1.4 KB when it is stored: most are defaults and their owners.
pub(crate) fn small_pod(n: usize) -> Bytes {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{n}","labels":{{"app":"bench"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
    );
    text.into()
}

/// About 4.3 KB when it is stored.
pub(crate) fn pod(n: usize) -> Bytes {
    let mut pod = data::pod(n as u64, 0, false);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        for of_server in ["resourceVersion", "uid", "creationTimestamp", "namespace"] {
            metadata.remove(of_server);
        }
    }
    pod.to_string().into()
}
