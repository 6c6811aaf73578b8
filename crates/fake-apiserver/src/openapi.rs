//! The OpenAPI documents: as much as kubectl needs to find the kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::kinds::{Kinds, Resource};
use crate::request::Request;
use crate::server::Shared;
use crate::status::Status;

/// The document at the path, if there is one.
pub(crate) fn serve(server: &Arc<Shared>, request: &Request) -> Option<Result<Answer, Status>> {
    let path = request.uri.path();
    let kinds = server.registry.snapshot();
    let document = match path {
        "/openapi/v2" => v2(&kinds),
        "/openapi/v3" => index(&kinds),
        _ => match v3(&kinds, path.strip_prefix("/openapi/v3/")?) {
            Some(document) => document,
            None => return Some(Ok(Answer::nothing(404))),
        },
    };
    let accept = request.header(http::header::ACCEPT);
    if path == "/openapi/v2" && accept.contains("com.github.proto-openapi.spec.v2") {
        return Some(Ok(Answer::json(200, v2_protobuf()).content_type(V2_PROTOBUF)));
    }
    // The index does not look at what is accepted, and what is no media type is left out.
    let refused = accept.contains('/') && !accept.contains("json") && !accept.contains('*');
    if refused && path != "/openapi/v3" {
        return Some(Ok(Answer::nothing(406)));
    }
    let mut body = document.to_string().into_bytes();
    body.push(b'\n');
    Some(Ok(Answer::json(200, body)))
}

fn group_versions(kinds: &Kinds) -> impl Iterator<Item = (String, &[Arc<Resource>])> {
    kinds.groups().iter().flat_map(|group| {
        group.versions.iter().map(|version| {
            let path = if group.name.is_empty() {
                format!("api/{}", version.version)
            } else {
                format!("apis/{}/{}", group.name, version.version)
            };
            (path, version.resources.as_slice())
        })
    })
}

/// The index: one URL for each group version, with a hash that changes with the set of its kinds.
fn index(kinds: &Kinds) -> Value {
    let mut paths = serde_json::Map::new();
    for (path, resources) in group_versions(kinds) {
        let hash = hash(resources);
        let url = format!("/openapi/v3/{path}?hash={hash:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// FNV-1a over the names, which is stable between runs.
fn hash(resources: &[Arc<Resource>]) -> u64 {
    let names = resources
        .iter()
        .flat_map(|resource| [resource.plural.as_bytes(), b"/", resource.kind.as_bytes(), b";"]);
    names.flatten().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The document of one group version: its paths, so that clients find the kinds and see that the server validates
/// fields; schemas are open.
fn v3(kinds: &Kinds, wanted: &str) -> Option<Value> {
    let (prefix, resources) = group_versions(kinds).find(|(path, _)| path == wanted)?;
    let mut paths = serde_json::Map::new();
    let mut schemas = serde_json::Map::new();
    for resource in resources {
        let gvk = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let schema = schema_name(resource);
        let place = if resource.namespaced() {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let operation = |action: &str| {
            json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": gvk,
                "parameters": [
                    {"name": "dryRun", "in": "query", "schema": {"type": "string"}},
                    {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "OK"}},
            })
        };
        let collection = format!("/{prefix}{place}/{}", resource.plural);
        paths.insert(
            collection.clone(),
            json!({"get": operation("list"), "post": operation("post")}),
        );
        let object = json!({
            "get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete"),
        });
        paths.insert(format!("{collection}/{{name}}"), object);
        let open = json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [gvk],
            "x-kubernetes-preserve-unknown-fields": true,
            // What `kubectl explain` shows.
            "description": "This in-memory API server has no descriptions of kinds and fields.",
        });
        schemas.insert(schema, open);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.2"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// The old document: only the kinds, with open schemas.
fn v2(kinds: &Kinds) -> Value {
    let mut definitions = serde_json::Map::new();
    for (_, resources) in group_versions(kinds) {
        for resource in resources {
            let gvk = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            let open = json!({"type": "object", "x-kubernetes-group-version-kind": [gvk]});
            definitions.insert(schema_name(resource), open);
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.37.2"},
        "paths": {},
        "definitions": definitions,
    })
}

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The old document in protobuf, which is the only form that kubectl reads: no kinds, so that it asks nothing of them.
fn v2_protobuf() -> Vec<u8> {
    let mut info = Vec::new();
    write_field(1, b"Kubernetes", &mut info);
    write_field(2, b"v1.37.2", &mut info);
    let mut document = Vec::new();
    write_field(1, b"2.0", &mut document);
    write_field(2, &info, &mut document);
    write_field(8, b"", &mut document);
    document
}

/// Writes a protobuf field of bytes; number below 16, length below 128.
fn write_field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    const LENGTH_DELIMITED: u8 = 2;
    debug_assert!(number < 16 && bytes.len() < 128, "one byte each");
    out.push(number << 3 | LENGTH_DELIMITED);
    out.push(u8::try_from(bytes.len()).unwrap_or_default());
    out.extend_from_slice(bytes);
}

fn schema_name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() {
        "core"
    } else {
        resource.group.as_ref()
    };
    format!("{group}.{}.{}", resource.version, resource.kind)
}
