//! The OpenAPI documents, made when they are asked for: what kubectl needs for `explain`, `apply` and `diff`.
//!
//! The third version has a document for each group version, and an index of them with hashes; the second is one document
//! of all. [`schemas`] has the types of the built-in kinds, [`custom`] those of definitions, [`paths`] the operations, and
//! [`v2`] brings all of it into the older form, of which [`proto`] is another encoding.

mod custom;
mod paths;
mod proto;
mod schemas;
mod v2;

use std::sync::Arc;

use http::header::{HeaderValue, IF_NONE_MATCH, LOCATION};
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::digest;
use crate::kinds::{Kinds, Resource};
use crate::request::Request;
use crate::server::Shared;
use crate::status::Status;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document at the path, if there is one.
pub(crate) fn serve(server: &Arc<Shared>, request: &Request) -> Option<Result<Answer, Status>> {
    let path = request.uri.path();
    let kinds = server.registry.snapshot();
    if path == "/openapi/v3" {
        // The index does not look at what is accepted.
        let index = index(server, &kinds).to_string().into_bytes();
        return Some(Ok(Answer::json(200, index).content_type("text/plain; charset=utf-8")));
    }
    let version = match path.strip_prefix("/openapi/") {
        Some("v2") => None,
        Some(path) => Some(path.strip_prefix("v3/")?),
        None => return None,
    };
    let accept = request.header(http::header::ACCEPT);
    let protobuf = version.is_none() && accept.contains("com.github.proto-openapi.spec.v2");
    // What is no media type is left out.
    if accept.contains('/') && !accept.contains("json") && !accept.contains('*') && !protobuf {
        return Some(Ok(Answer::nothing(406)));
    }
    Some(Ok(match version {
        Some(path) => v3(server, &kinds, path, request),
        None => old(server, &kinds, protobuf, request),
    }))
}

/// The answer with the document of a group version.
fn v3(server: &Arc<Shared>, kinds: &Kinds, path: &str, request: &Request) -> Answer {
    let Some((_, resources)) = group_versions(kinds).find(|(found, _)| found == path) else {
        return Answer::nothing(404);
    };
    let hash = hash(server, resources);
    match request.query.get("hash") {
        Some(wanted) if wanted != hash => {
            let location = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}"));
            let mut answer = Answer::json(301, bytes::Bytes::new()).tag(&hash);
            answer.headers.extend(location.map(|location| (LOCATION, location)));
            answer
        }
        wanted => {
            let write = || line(&document(server, path, resources));
            let answer = Answer::tagged(&hash, is_known(request, &hash), write);
            // The URL changes with the document.
            if wanted.is_some() {
                answer.kept("public, immutable")
            } else {
                answer
            }
        }
    }
}

/// Whether the client says that it has the document with this tag.
fn is_known(request: &Request, tag: &str) -> bool {
    let quoted = answer::quoted(tag);
    let known = request.header(IF_NONE_MATCH).split(',').map(str::trim);
    let mut known = known.map(|known| known.strip_prefix("W/").unwrap_or(known));
    known.any(|known| known == "*" || known == quoted)
}

/// The answer with the document of the second version.
fn old(server: &Arc<Shared>, kinds: &Kinds, protobuf: bool, request: &Request) -> Answer {
    let hashes: String = group_versions(kinds)
        .map(|(_, resources)| hash(server, resources))
        .collect();
    let write = || {
        let documents = group_versions(kinds).map(|(path, resources)| document(server, &path, resources));
        let merged = v2::document(documents);
        if protobuf {
            proto::document(&merged)
        } else {
            line(&merged)
        }
    };
    let tag = digest::hex(hashes.as_bytes());
    let answer = Answer::tagged(&tag, is_known(request, &tag), write);
    if protobuf && answer.code == 200 {
        answer.content_type(V2_PROTOBUF)
    } else {
        answer
    }
}

fn line(document: &Value) -> Vec<u8> {
    let mut body = document.to_string().into_bytes();
    body.push(b'\n');
    body
}

/// All group versions, by the path of their document.
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

/// The index: one URL for each group version, with its hash.
fn index(server: &Arc<Shared>, kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for (path, resources) in group_versions(kinds) {
        let url = format!("/openapi/v3/{path}?hash={}", hash(server, resources));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// Changes with what the document of a group version is made of: the names of its resources, and the definitions of custom
/// ones. The types of built-in kinds never change.
fn hash(server: &Arc<Shared>, resources: &[Arc<Resource>]) -> String {
    let mut text = Vec::new();
    for resource in resources {
        for part in [&resource.group, &resource.version, &resource.plural, &resource.kind] {
            text.extend_from_slice(part.as_bytes());
            text.push(b'/');
        }
        if resource.custom {
            text.extend(crate::crd::spec_of(server, resource).unwrap_or_default());
        }
        text.push(b';');
    }
    digest::hex(&text)
}

/// The document of a group version.
fn document(server: &Arc<Shared>, path: &str, resources: &[Arc<Resource>]) -> Value {
    let mut found = schemas::Found::new();
    for resource in resources {
        if resource.custom {
            let schema = crate::crd::schema_of(server, resource);
            found.add(custom::name(resource), custom::object(resource, schema));
            found.add(custom::list_name(resource), custom::list(resource));
        }
    }
    let paths = paths::of(path, resources, &mut found);
    let custom = resources.iter().any(|resource| resource.custom);
    let info = if custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": "1.37"})
    };
    let of = resources.first().map(|resource| (&*resource.group, &*resource.version));
    json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": found.into_schemas(of.unwrap_or_default())},
    })
}

#[cfg(test)]
mod tests;
