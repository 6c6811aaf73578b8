//! Random requests to the in-memory server: whatever a client sends, it gets an HTTP answer and nothing panics.
//!
//! The requests are near misses of good ones (real paths, parameters and objects, shuffled, cut and damaged), because
//! plain noise never gets past the router. Each run takes another seed and prints it; `FUZZ_SEED` repeats one.

use std::cell::Cell;
use std::sync::Once;

use fastrand::Rng;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use super::noise::{damage, escape, pick};
use crate::harness::Server;

const REQUESTS: usize = 20_000;

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the panics of each thread, also those that somebody catches.
fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

const ROOTS: &[&str] = &[
    "api/v1",
    "apis/apps/v1",
    "apis/coordination.k8s.io/v1",
    "apis/fuzz.example.com/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis",
    "api",
    "api/v1/watch",
    "apis/nope/v1",
    "version",
    "openapi/v3",
    "",
];
const RESOURCES: &[&str] = &[
    "pods",
    "configmaps",
    "namespaces",
    "nodes",
    "secrets",
    "services",
    "events",
    "deployments",
    "leases",
    "widgets",
    "customresourcedefinitions",
    "serviceaccounts",
    "nope",
    "",
];
const NAMES: &[&str] = &[
    "a",
    "b",
    "default",
    "Bad_Name",
    "widgets.fuzz.example.com",
    "..",
    "",
    "a/b",
];
const SUBRESOURCES: &[&str] = &[
    "status", "scale", "finalize", "binding", "log", "eviction", "token", "nope",
];

/// Collections that exist, or that a request of this run can make exist.
const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/configmaps",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/fuzz.example.com/v1/namespaces/default/widgets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

/// A path that is served, for the method: an object's for those that need one, mostly.
fn good_path(rng: &mut Rng, method: &str) -> String {
    let mut path = pick(rng, COLLECTIONS).to_owned();
    if (method != "POST" && rng.u8(..4) > 0) || rng.u8(..16) == 0 {
        path += if path.ends_with("definitions") {
            "/widgets.fuzz.example.com"
        } else {
            "/a"
        };
        if rng.u8(..8) == 0 {
            path += "/status";
        }
    }
    path
}

fn path(rng: &mut Rng) -> String {
    let mut path = format!("/{}", pick(rng, ROOTS));
    if rng.bool() {
        path += "/namespaces/";
        path += pick(rng, &["default", "kube-system", "absent", "fuzz", "Bad_", ""]);
    }
    if rng.u8(..8) > 0 {
        path += "/";
        path += pick(rng, RESOURCES);
        if rng.bool() {
            path += "/";
            path += &escape(pick(rng, NAMES).as_bytes()).replace("%2F", "/");
            if rng.u8(..4) == 0 {
                path += "/";
                path += pick(rng, SUBRESOURCES);
            }
        }
    }
    if rng.u8(..16) == 0 {
        path = format!("/{}", escape(&damage(rng, &path)));
    }
    path
}

const PARAMETERS: &[&str] = &[
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "force",
    "pretty",
    "nope",
    "shardSelector",
];
const VALUES: &[&str] = &[
    "1",
    "0",
    "-1",
    "true",
    "false",
    "",
    "All",
    "Exact",
    "NotOlderThan",
    "18446744073709551615",
    "99999999999999999999",
    "9223372036854775807",
    "-9223372036854775808",
    "a=b",
    "a in (b,c),!d",
    "a notin (",
    "metadata.name=a",
    "spec.nodeName!=x",
    "a>1",
    ",,,",
    "\\",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
    "Foreground",
    "Orphan",
    "Background",
    "Strict",
    "Warn",
    "é",
    "\u{0}",
    "%",
];

fn query(rng: &mut Rng) -> String {
    let mut query = String::new();
    for _ in 0..rng.usize(..5) {
        let value = pick(rng, VALUES);
        let value = if rng.u8(..6) == 0 {
            damage(rng, value)
        } else {
            value.as_bytes().to_vec()
        };
        query += if query.is_empty() { "?" } else { "&" };
        query += pick(rng, PARAMETERS);
        if rng.u8(..16) > 0 {
            query += "=";
            query += &escape(&value);
        }
    }
    query
}

const BODIES: &[&str] = &[
    "",
    "null",
    "[]",
    "{}",
    r#"{"metadata":{"name":"a"}}"#,
    r#"{"metadata":{"name":"b","labels":{"a":"b"},"finalizers":["x.io/y"],"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"u"}]},"data":{"k":"v"}}"#,
    r#"{"metadata":{"generateName":"g-","resourceVersion":"1"}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}]}}"#,
    r#"{"metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    r#"{"apiVersion":"fuzz.example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"x":1e5,"y":[null]}}"#,
    r#"{"metadata":{"name":"widgets.fuzz.example.com"},"spec":{"group":"fuzz.example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    r#"{"preconditions":{"uid":"x","resourceVersion":"1"},"gracePeriodSeconds":0,"propagationPolicy":"Foreground"}"#,
    r#"[{"op":"add","path":"/data/k","value":"v"},{"op":"move","from":"/data/k","path":"/metadata/labels"}]"#,
    r#"[{"op":"test","path":"/metadata/name","value":"a"},{"op":"remove","path":"/metadata"},{"op":"copy","from":"","path":"/data/x/-1"}]"#,
    r#"{"metadata":{"finalizers":null,"deletionTimestamp":null,"uid":null},"spec":null,"data":{"a":null}}"#,
    r#"{"metadata":{"name":"a","creationTimestamp":"2024-01-01T00:00:00Z","generation":-5},"spec":{"renewTime":"2024-01-01T00:00:00.123456Z"}}"#,
    "metadata:\n  name: y\n",
    "k8s\u{0}\u{a}\u{f}\u{a}\u{2}v1\u{12}\u{9}ConfigMap\u{12}\u{9}\u{a}\u{7}\u{a}\u{1}a\u{12}\u{0}\u{1a}\u{0}",
];
const TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "garbage",
];
const METHODS: &[&str] = &[
    "GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "FOO",
];
const ACCEPTS: &[&str] = &[
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "text/html",
    "garbage",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
];

fn body(rng: &mut Rng) -> Vec<u8> {
    let whole = pick(rng, BODIES);
    match rng.u8(..16) {
        0..=3 => damage(rng, whole),
        4 => {
            let depth = rng.usize(1..20_000);
            let mut deep = "[".repeat(depth);
            deep += &"]".repeat(depth);
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{deep}}}"#).into_bytes()
        }
        _ => whole.as_bytes().to_vec(),
    }
}

#[tokio::test(start_paused = true)]
async fn random_requests_always_get_an_answer() {
    count_panics();
    let seed = std::env::var("FUZZ_SEED").map_or_else(
        |_| fastrand::u64(..),
        |text| text.parse().expect("FUZZ_SEED is a number"),
    );
    println!("FUZZ_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let server = Server::fake();
    let client = server.client();
    let mut accepted = 0;
    for number in 0..REQUESTS {
        let method = pick(&mut rng, METHODS);
        // Each part is good more often than not, so that the others get as far as they can.
        let path = if rng.u8(..4) > 0 {
            good_path(&mut rng, method)
        } else {
            path(&mut rng)
        };
        let query = if rng.u8(..4) > 0 {
            String::new()
        } else {
            query(&mut rng)
        };
        let content_type = match method {
            _ if rng.u8(..4) == 0 => pick(&mut rng, TYPES),
            "PATCH" => pick(
                &mut rng,
                &["application/merge-patch+json", "application/json-patch+json"],
            ),
            _ => "application/json",
        };
        let accept = if rng.u8(..4) > 0 {
            "application/json"
        } else {
            pick(&mut rng, ACCEPTS)
        };
        let body = if method == "GET" { Vec::new() } else { body(&mut rng) };
        let shown = format!(
            "FUZZ_SEED={seed}, request {number}: {method} {path}{query} ({content_type}, accept {accept}) {:?}",
            String::from_utf8_lossy(&body[..body.len().min(2_000)])
        );
        let request = http::Request::builder().method(method).uri(format!("{path}{query}"));
        let request = request
            .header("content-type", content_type)
            .header("accept", accept)
            .body(Body::from(body));
        let request = request.unwrap_or_else(|error| panic!("{shown}: {error}"));
        let response = client
            .send(request)
            .await
            .unwrap_or_else(|error| panic!("{shown}: no answer: {error}"));
        let code = response.status().as_u16();
        accepted += usize::from(code < 300);
        let is_json = response
            .headers()
            .get("content-type")
            .is_some_and(|value| value == "application/json");
        let streams = query.contains("watch") || path.contains("/watch");
        let mut body = response.into_body();
        if code == 200 && streams {
            // An open watch: its first frame, or its end, must come or the clock moves on.
            if let Ok(Some(Err(error))) = tokio::time::timeout(std::time::Duration::from_mins(1), body.frame()).await {
                panic!("{shown}: {error}");
            }
        } else {
            let bytes = body
                .collect()
                .await
                .unwrap_or_else(|error| panic!("{shown}: {error}"))
                .to_bytes();
            if code >= 400 && is_json && method != "HEAD" {
                let status: Value = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert_eq!(status["kind"], "Status", "{shown}");
                assert_eq!(status["code"], code, "{shown}");
            }
        }
        assert_eq!(PANICS.get(), 0, "{shown}: something panicked");
    }
    println!("{accepted} of {REQUESTS} requests were accepted");
    assert!(
        accepted > REQUESTS / 50,
        "the requests are too far from good ones: {accepted} were accepted"
    );
    let namespace = server.namespace().await;
    namespace.config_map("after").await;
    assert_eq!(
        server.get(&namespace.at("configmaps/after")).await.ok()["metadata"]["name"],
        "after"
    );
}
