//! What is sent, and how odd answers are taken, against a server that gives one answer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::core::{Expression, Selector};
use serde_json::{Value, json};

use super::*;

type Asked = Arc<Mutex<Vec<String>>>;

/// An endpoint of config maps whose server always answers this, and the paths that it was asked for.
fn answering(code: u16, body: &'static str) -> (Endpoint, Asked) {
    answering_with(code, None, body)
}

/// As [`answering`], with a `Retry-After` header.
fn answering_with(code: u16, retry_after: Option<&'static str>, body: &'static str) -> (Endpoint, Asked) {
    answering_as(code, retry_after.map(|value| ("Retry-After", value)), body)
}

/// As [`answering`], with a header.
fn answering_as(code: u16, header: Option<(&'static str, &'static str)>, body: &'static str) -> (Endpoint, Asked) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        seen.lock().unwrap().push(request.uri().to_string());
        let mut response = http::Response::builder().status(code);
        if let Some((name, value)) = header {
            response = response.header(name, value);
        }
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
                    .replace::<Value>(Operation::Update, key.clone(), Vec::new(), &put)
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

// [W2] a proxy's web page is no word of the API: nothing is concluded from its 404, or a clean-up would count as done
#[tokio::test]
async fn web_pages_are_not_the_api() {
    let key = ObjectKey::namespaced("ns", "a");
    let page = "\n<html><head><title>404 Not Found</title></head></html>";
    let html = Some(("Content-Type", "text/html; charset=utf-8"));
    for (header, body) in [(None, page), (html, page), (html, "no such route")] {
        let (endpoint, _paths) = answering_as(404, header, body);
        let error = endpoint.fetch::<Value>(&key).await.unwrap_err();
        assert!(!error.is_not_found() && !error.is_retryable(), "{error:?}");
        assert_eq!(
            error.to_string(),
            "cannot fetch ConfigMap ns/a: this is not the API server, its answer is 404 Not Found with a web page"
        );
        let (endpoint, _paths) = answering_as(409, header, body);
        assert!(!endpoint.fetch::<Value>(&key).await.unwrap_err().is_conflict());
    }
    // It may refuse, slow down and fail.
    for (code, retryable) in [(401, false), (403, false), (429, true), (502, true), (503, true)] {
        let (endpoint, _paths) = answering_as(code, html, page);
        let error = endpoint.fetch::<Value>(&key).await.unwrap_err();
        assert_eq!(error.is_retryable(), retryable, "{code}");
        assert_eq!(error.is_forbidden(), code == 403);
        assert_eq!(error.is_unauthorized(), code == 401);
    }
    // Plain text is what the server itself says of a path that it does not know.
    let (endpoint, _paths) = answering_as(404, Some(("Content-Type", "text/plain")), "404 page not found\n");
    assert!(endpoint.fetch::<Value>(&key).await.unwrap_err().is_not_found());
}

// [W1] an error quotes what it met, but not all of a large or secret value
#[tokio::test]
async fn errors_do_not_quote_whole_objects() {
    let (secret, key) = ("hunter2 ".repeat(10_000), ObjectKey::namespaced("ns", "a"));
    let body = json!({"metadata": {"name": "a"}, "data": secret}).to_string();
    let (endpoint, _paths) = answering(200, body.leak());
    let error = endpoint.fetch::<ConfigMap>(&key).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.len() < 500, "{} bytes", source.len());
    assert!(
        source.starts_with("invalid type: string") && source.contains(" at line 1 column "),
        "{source}"
    );
    assert!(format!("{error:?}").len() < 1_000);
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

// [W1] each predicate tells its reason, or the bare code, from all others
#[tokio::test]
async fn errors_are_told_apart() {
    const NAMES: [&str; 9] = [
        "conflict",
        "not found",
        "already exists",
        "forbidden",
        "unauthorized",
        "invalid",
        "bad request",
        "timeout",
        "too many requests",
    ];
    let told = |error: &WriteError| {
        let is = [
            error.is_conflict(),
            error.is_not_found(),
            error.is_already_exists(),
            error.is_forbidden(),
            error.is_unauthorized(),
            error.is_invalid(),
            error.is_bad_request(),
            error.is_timeout(),
            error.is_too_many_requests(),
        ];
        let told = NAMES.iter().zip(is).filter(|(_, is)| *is).map(|(name, _)| *name);
        (told.collect::<Vec<_>>().join(", "), error.is_retryable())
    };
    let key = ObjectKey::namespaced("ns", "a");
    // The reason and the code of the API; of the code alone, what the last column says.
    for (code, reason, with_reason, bare, retryable) in [
        (409, "Conflict", "conflict", "conflict", false),
        (409, "AlreadyExists", "already exists", "conflict", false),
        (404, "NotFound", "not found", "not found", false),
        (403, "Forbidden", "forbidden", "forbidden", false),
        (401, "Unauthorized", "unauthorized", "unauthorized", false),
        (422, "Invalid", "invalid", "invalid", false),
        (400, "BadRequest", "bad request", "bad request", false),
        (504, "Timeout", "timeout", "timeout", true),
        (500, "ServerTimeout", "timeout", "", true),
        (500, "InternalError", "", "", true),
        (501, "NotImplemented", "", "", false),
        (503, "ServiceUnavailable", "", "", true),
        (429, "TooManyRequests", "too many requests", "too many requests", true),
        (405, "MethodNotAllowed", "", "", false),
        (410, "Expired", "", "", false),
    ] {
        let status = json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "m"});
        for (body, expected) in [(status.to_string(), with_reason), ("proxy".to_owned(), bare)] {
            let (endpoint, _paths) = answering(code, Box::leak(body.into_boxed_str()));
            let error = endpoint.fetch::<Value>(&key).await.unwrap_err();
            assert_eq!(told(&error), (expected.to_owned(), retryable), "{code} {reason}");
        }
    }
    // A reason that contradicts the code, as no server sends it, is believed by none.
    let (endpoint, _paths) = answering(500, r#"{"code":500,"reason":"NotFound"}"#);
    let error = endpoint.fetch::<Value>(&key).await.unwrap_err();
    assert_eq!(told(&error), (String::new(), true));
}

// [W1] how long to wait: from the details, from the header where they are silent, from neither
#[tokio::test]
async fn retry_after_is_what_the_server_says() {
    let key = ObjectKey::namespaced("ns", "a");
    let detailed = r#"{"code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":7}}"#;
    let silent = r#"{"code":429,"reason":"TooManyRequests","details":{"name":"a"}}"#;
    for (header, body, seconds) in [
        (Some("3"), "Too many requests, please try again later.", Some(3)),
        (Some(" 3 "), silent, Some(3)),
        (Some("3"), detailed, Some(7)),
        (None, detailed, Some(7)),
        (None, silent, None),
        (Some("0"), silent, None),
        (Some("99999999999"), silent, Some(u64::from(u32::MAX))),
        (Some("Wed, 21 Oct 2026 07:28:00 GMT"), "later", None),
        (Some("-1"), "later", None),
    ] {
        let (endpoint, _paths) = answering_with(429, header, body);
        let error = endpoint.fetch::<Value>(&key).await.unwrap_err();
        assert!(error.is_too_many_requests() && error.is_retryable());
        assert_eq!(
            error.retry_after(),
            seconds.map(Duration::from_secs),
            "{header:?} {body}"
        );
    }
    let (endpoint, _paths) = answering(200, "{");
    assert_eq!(endpoint.fetch::<Value>(&key).await.unwrap_err().retry_after(), None);
}

// [W1] the options of each write, and the client's own where they are silent
#[tokio::test]
async fn options_are_in_the_query() {
    let (mut endpoint, paths) = answering(200, "{}");
    endpoint.field_manager = Some("ours".to_owned());
    endpoint.field_validation = Some(ValidationDirective::Strict);
    let key = ObjectKey::namespaced("ns", "a");
    let query = || {
        paths
            .lock()
            .unwrap()
            .pop()
            .unwrap()
            .split_once('?')
            .unwrap()
            .1
            .to_owned()
    };
    let (silent, full) = (
        PostParams::default(),
        PostParams {
            dry_run: true,
            field_manager: Some("theirs".to_owned()),
        },
    );
    let strict = "&fieldManager=ours&fieldValidation=Strict";
    let create = async |options| {
        endpoint
            .create::<Value>(key.clone(), Vec::new(), options)
            .await
            .unwrap();
        query()
    };
    assert_eq!(create(&silent).await, strict);
    assert_eq!(
        create(&full).await,
        "&dryRun=All&fieldManager=theirs&fieldValidation=Strict"
    );
    let update = async |operation| {
        let key = key.clone();
        endpoint
            .replace::<Value>(operation, key, Vec::new(), &silent)
            .await
            .unwrap();
        query()
    };
    assert_eq!(update(Operation::Update).await, strict);
    assert_eq!(update(Operation::UpdateStatus).await, strict);
    let patch = async |patch: Patch, options: PatchParams| {
        let patched = endpoint.patch::<Value>(&key, &patch, Subresource::Main, &options);
        patched.await.unwrap();
        query()
    };
    assert_eq!(patch(Patch::Merge(json!({})), PatchParams::default()).await, strict);
    let options = PatchParams::apply("theirs").force().dry_run().validation_warn();
    assert_eq!(
        patch(Patch::Apply(json!({})), options).await,
        "&dryRun=All&force=true&fieldManager=theirs&fieldValidation=Warn"
    );
    for call in [
        SubresourceCall::Create(json!({}), silent.clone()),
        SubresourceCall::Replace(json!({}), silent.clone()),
        SubresourceCall::Patch(Patch::Merge(json!({})), PatchParams::default()),
    ] {
        endpoint.subresource(&key, "scale", &call).await.unwrap();
        assert_eq!(query(), strict, "{call:?}");
    }
    endpoint.field_manager = None;
    endpoint.field_validation = None;
    let created = endpoint.create::<Value>(key, Vec::new(), &silent).await;
    assert!(created.is_ok() && query().is_empty(), "nothing that nobody asked for");
}

// [W1] subresources are a segment of their own, and their errors name them
#[tokio::test]
async fn subresources_stay_one_segment_of_the_path() {
    let (endpoint, paths) = answering(404, "");
    let key = ObjectKey::namespaced("ns", "a");
    let (patch, options) = (Patch::Merge(json!({})), PatchParams::default());
    for (subresource, path) in [
        (Subresource::Main, ""),
        (Subresource::Status, "/status"),
        (Subresource::Named("resize"), "/resize"),
    ] {
        let patched = endpoint.patch::<Value>(&key, &patch, subresource, &options).await;
        let error = patched.unwrap_err();
        let start = format!("cannot patch ConfigMap{path} ns/a: ");
        assert!(error.to_string().starts_with(&start), "{error}");
        let asked = paths.lock().unwrap().pop().unwrap();
        assert_eq!(asked, format!("/api/v1/namespaces/ns/configmaps/a{path}?"));
    }
    let calls = [
        (SubresourceCall::Get, "fetch"),
        (SubresourceCall::Create(json!({}), PostParams::default()), "create"),
        (SubresourceCall::Replace(json!({}), PostParams::default()), "update"),
        (SubresourceCall::Patch(patch.clone(), PatchParams::default()), "patch"),
    ];
    for (call, verb) in &calls {
        let error = endpoint.subresource(&key, "scale", call).await.unwrap_err();
        let start = format!("cannot {verb} ConfigMap/scale ns/a: ");
        assert!(error.to_string().starts_with(&start) && error.is_not_found(), "{error}");
        let asked = paths.lock().unwrap().pop().unwrap();
        assert_eq!(asked.trim_end_matches('?'), "/api/v1/namespaces/ns/configmaps/a/scale");
    }
    for name in ["", ".", "..", "a/b", "%"] {
        for (call, _) in &calls {
            let refused = endpoint.subresource(&key, name, call).await.unwrap_err();
            assert!(refused.is_invalid(), "{name:?}: {refused:?}");
        }
        let named = Subresource::Named(String::from(name).leak());
        let refused = endpoint.patch::<Value>(&key, &patch, named, &options).await;
        assert!(refused.unwrap_err().is_invalid(), "{name:?}");
    }
    assert_eq!(*paths.lock().unwrap(), [""; 0], "no request");
}

// [W1] keys that cannot be one, options that contradict each other, applies without a manager: refused before any request
#[tokio::test]
async fn requests_that_make_no_sense_are_not_sent() {
    let (endpoint, paths) = answering(200, "{}");
    let (dynamic, dynamic_paths) = answering(200, "{}");
    let dynamic = Endpoint::new(dynamic.kube().clone(), dynamic.resource().clone(), Scope::Unknown);
    let (key, put) = (ObjectKey::namespaced("ns", "a"), PatchParams::default());
    let nameless = ObjectKey::namespaced("ns", "");
    let nowhere = [ObjectKey::cluster("a"), ObjectKey::namespaced("", "a")];
    let error = endpoint.fetch::<Value>(&nameless).await.unwrap_err();
    assert!(matches!(error, WriteError::NameRequired { .. }) && error.is_invalid());
    for key in &nowhere {
        let error = endpoint.fetch::<Value>(key).await.unwrap_err();
        assert!(matches!(error, WriteError::NamespaceRequired { .. }) && error.is_invalid());
    }
    let error = dynamic.fetch::<Value>(&nowhere[1]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot fetch ConfigMap /a: the namespace is empty");
    let error = endpoint.subresource(&nameless, "scale", &SubresourceCall::Get).await;
    assert!(matches!(error, Err(WriteError::NameRequired { .. })));

    let long = "m".repeat(129);
    for (patch, options) in [
        (Patch::Apply(json!({})), put.clone()),
        (Patch::Apply(json!({})), PatchParams::apply("")),
        (Patch::Apply(json!({})), PatchParams::apply(&long)),
        (Patch::Merge(json!({})), PatchParams::default().force()),
    ] {
        let patched = endpoint.patch::<Value>(&key, &patch, Subresource::Main, &options);
        assert!(matches!(patched.await, Err(WriteError::Invalid { .. })), "{patch:?}");
    }
    assert_eq!(*paths.lock().unwrap(), [""; 0], "no request");
    assert_eq!(*dynamic_paths.lock().unwrap(), [""; 0], "no request");
}

// [W1] a selector that would mean another one as text deletes nothing: an empty key alone would select all
#[tokio::test]
async fn selectors_of_a_delete_mean_what_they_say() {
    let (endpoint, paths) = answering(200, r#"{"items":[]}"#);
    let text = str::to_owned;
    let delete = async |selection: Selection| {
        endpoint
            .delete_collection::<Value>(Some("ns"), &selection, &DeleteParams::default())
            .await
    };
    for odd in [
        Expression::Exists(text("")),
        Expression::DoesNotExist(text("")),
        Expression::Exists(text("a,b")),
        Expression::Equal(text("a"), text("b,c")),
        Expression::NotEqual(text("a"), text("b c")),
        Expression::Equal(text("a"), text("b)")),
        Expression::In(text("a"), [].into()),
        Expression::NotIn(text("a"), [text("b,!c")].into()),
    ] {
        let refused = delete(Selector::from(odd.clone()).into()).await;
        assert!(matches!(refused, Err(WriteError::Invalid { .. })), "{odd}: {refused:?}");
    }
    assert_eq!(*paths.lock().unwrap(), [""; 0], "no request");

    let (nulled, _paths) = answering(200, r#"{"items":null}"#);
    let (all, options) = (Selection::default(), DeleteParams::default());
    let deleted = nulled.delete_collection::<Value>(Some("ns"), &all, &options).await;
    assert_eq!(deleted.unwrap(), [Value::Null; 0], "as Go writes an empty list");

    let labels = Selector::from_iter([
        Expression::Equal(text("app.kubernetes.io/name"), text("")),
        Expression::In(text("b"), [text("x"), text("y_1")].into()),
        Expression::DoesNotExist(text("c")),
    ]);
    let selection = Selection::from(labels).fields("metadata.name=a,b==c");
    assert_eq!(delete(selection).await.unwrap(), [Value::Null; 0]);
    assert_eq!(delete(Selection::default()).await.unwrap(), [Value::Null; 0]);
    let fields = "&fieldSelector=metadata.name%3Da%2Cb%3D%3Dc";
    let labels = "&labelSelector=app.kubernetes.io%2Fname%3D%2Cb+in+%28x%2Cy_1%29%2C%21c";
    let path = "/api/v1/namespaces/ns/configmaps";
    let asked = paths.lock().unwrap().clone();
    assert_eq!(asked, [format!("{path}?{fields}{labels}"), format!("{path}?")]);
}
