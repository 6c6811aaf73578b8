//! What is sent, and how odd answers are taken, against a server that gives one answer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;

/// An endpoint of config maps whose server always answers this, and the paths that it was asked for.
fn answering(code: u16, body: &'static str) -> (Endpoint, Arc<Mutex<Vec<String>>>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        seen.lock().unwrap().push(request.uri().to_string());
        let response = http::Response::builder().status(code);
        let answer = response.body(Body::from(body.as_bytes().to_vec())).unwrap();
        async { Ok::<_, Infallible>(answer) }
    });
    let kube = kube::Client::new(service, "default");
    let resource = ApiResource::erase::<ConfigMap>(&());
    (Endpoint::new(kube, resource, Scope::Namespaced), paths)
}

// [W1] a name never becomes more than one segment of the path: what cannot be one is refused before any request
#[tokio::test]
async fn names_stay_one_segment_of_the_path() {
    let (endpoint, paths) = answering(200, "{}");
    for odd in [".", "..", "a/b", "../../nodes/n", "/", "a%2Fb"] {
        for key in [ObjectKey::namespaced("ns", odd), ObjectKey::namespaced(odd, "a")] {
            let patch = Patch::Merge(json!({}));
            let put = PostParams::default();
            let outcomes = [
                endpoint.fetch::<Value>(&key).await.map(drop),
                endpoint.delete::<Value>(&key, &DeleteParams::default()).await.map(drop),
                endpoint
                    .patch::<Value>(&key, &patch, Subresource::Status, &PatchParams::default())
                    .await
                    .map(drop),
                endpoint
                    .replace::<Value>(key.clone(), Vec::new(), Subresource::Main, &put)
                    .await
                    .map(drop),
            ];
            for outcome in outcomes {
                assert!(matches!(outcome, Err(WriteError::Invalid { .. })), "{key}: {outcome:?}");
            }
        }
        let key = ObjectKey::namespaced(odd, "a");
        let created = endpoint.create::<Value>(key, Vec::new(), &PostParams::default()).await;
        assert!(matches!(created, Err(WriteError::Invalid { .. })), "{created:?}");
    }
    assert_eq!(*paths.lock().unwrap(), [""; 0], "no request");

    for (name, segment) in [
        ("system:node", "system:node"),
        ("a?dryRun=All", "a%3FdryRun%3DAll"),
        ("a#b c", "a%23b%20c"),
        ("\u{e4}", "%C3%A4"),
    ] {
        endpoint
            .fetch::<Value>(&ObjectKey::namespaced("ns", name))
            .await
            .unwrap();
        let path = paths.lock().unwrap().pop().unwrap();
        assert_eq!(path, format!("/api/v1/namespaces/ns/configmaps/{segment}"));
    }
}

// [W2] the HTTP status counts where the body says nothing of it: plain text, foreign JSON, nothing, a redirect
#[tokio::test]
async fn answers_that_are_no_status_keep_their_code() {
    let key = ObjectKey::namespaced("ns", "a");
    let fetch = async |code, body| {
        let (endpoint, _paths) = answering(code, body);
        endpoint.fetch::<Value>(&key).await.unwrap_err()
    };
    for body in ["404 page not found\n", "{}", "{\"error\":\"no such route\"}", ""] {
        let error = fetch(404, body).await;
        assert!(error.is_not_found() && !error.is_retryable(), "{body:?}: {error:?}");
        assert_eq!(error.status().unwrap().code, 404);
    }
    for body in ["upstream", "{\"message\":\"no upstream\"}", "\u{fffd}"] {
        let error = fetch(503, body).await;
        assert!(error.is_retryable() && !error.is_not_found(), "{body:?}: {error:?}");
    }
    let error = fetch(409, "").await;
    assert!(error.is_conflict() && !error.is_already_exists());
    let error = fetch(302, "moved").await;
    assert!(matches!(error, WriteError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), "cannot fetch ConfigMap ns/a: moved");
    let error = fetch(200, "<html>").await;
    assert!(matches!(error, WriteError::Answer { .. }), "{error:?}");
}

// [W1] a delete answered by a `Status`, and one answered by the object
#[tokio::test]
async fn deletes_are_answered_in_two_forms() {
    let key = ObjectKey::namespaced("ns", "a");
    let status = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Success\"}";
    let delete = async |code, body| {
        let (endpoint, _paths) = answering(code, body);
        endpoint
            .delete::<ConfigMap>(&key, &DeleteParams::default())
            .await
            .unwrap()
    };
    assert!(matches!(delete(200, status).await, Deleted::Status(_)));
    let object = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}";
    assert!(matches!(delete(202, object).await, Deleted::Object(_)));
}
