//! Discovery: `/version`, `/api`, `/apis`, group and version documents, and the aggregated form.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::IF_NONE_MATCH;
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::digest;
use crate::kinds::{Group, GroupVersion, Kinds, Resource, Verbs};
use crate::negotiate::{self, Target};
use crate::request::Request;
use crate::server::Shared;
use crate::status::Status;

/// True if a GET of the path gives a document.
pub(crate) fn serves(server: &Shared, path: &str) -> bool {
    matches!(path, "/version" | "/version/") || document(server, &server.registry.snapshot(), path).is_some()
}

/// The document at the path, if there is one.
pub(crate) fn serve(server: &Arc<Shared>, request: &Request) -> Option<Result<Answer, Status>> {
    let path = request.uri.path();
    if path == "/version" || path == "/version/" {
        let accept = request.header(http::header::ACCEPT);
        let json = accept.is_empty()
            || accept.split(',').any(|range| {
                let media_type = range.split(';').next().unwrap_or_default().trim();
                matches!(media_type, "*/*" | "application/json")
            });
        return Some(if json {
            Ok(Answer::json(200, text(&version())))
        } else {
            Err(negotiate::unroutable("application/json"))
        });
    }
    let kinds = server.registry.snapshot();
    if matches!(path, "/api" | "/apis" | "/api/" | "/apis/") {
        return Some(root(&kinds, path.starts_with("/apis"), request));
    }
    if let Some(document) = document(server, &kinds, path) {
        return Some(plain(&kinds, path, request).map(|()| Answer::json(200, text(&document))));
    }
    // A group that is served knows that the version is not.
    Some(crate::route::absent(&kinds, group_of(path)?))
}

/// Checks that the client accepts a document of a group or a version as it is.
///
/// # Errors
/// 406: the router's for the versions of built-in groups, the handler's for all others.
fn plain(kinds: &Kinds, path: &str, request: &Request) -> Result<(), Status> {
    let accept = request.header(http::header::ACCEPT);
    let of_version = path.starts_with("/api/") || path.trim_end_matches('/').matches('/').count() == 3;
    let group = group_of(path).and_then(|group| kinds.group(group));
    if of_version && group.is_some_and(|group| !group.is_custom()) {
        negotiate::route(accept, "")?;
    }
    negotiate::negotiate(accept, false, |target| target.is_none().then_some(())).ok_or_else(negotiate::not_acceptable)
}

/// The group that a path below `/api` or `/apis` speaks of.
pub(crate) fn group_of(path: &str) -> Option<&str> {
    let mut parts = path.trim_start_matches('/').split('/');
    match parts.next() {
        Some("api") => Some(""),
        Some("apis") => parts.next(),
        _ => None,
    }
}

/// True for `/apis`, `/apis/GROUP` and the versions of custom groups, which answer every method as a GET.
pub(crate) fn takes_all_methods(server: &Shared, path: &str) -> bool {
    let Some(rest) = path
        .strip_prefix("/apis")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
    else {
        return false;
    };
    match rest.trim_matches('/').split_once('/') {
        None => true,
        Some((group, version)) => {
            let kinds = server.registry.snapshot();
            !version.contains('/') && kinds.group(group).is_some_and(Group::is_custom)
        }
    }
}

fn text(document: &Value) -> Vec<u8> {
    let mut out = document.to_string().into_bytes();
    out.push(b'\n');
    out
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
        "gitVersion": "v1.37.2", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    })
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api` or `/apis`, in the form that the client accepts.
fn root(kinds: &Kinds, named: bool, request: &Request) -> Result<Answer, Status> {
    let accept = request.header(http::header::ACCEPT);
    if !named {
        negotiate::route(accept, "")?;
    }
    let aggregated = Target {
        kind: "APIGroupDiscoveryList",
        group: "apidiscovery.k8s.io",
        version: "v2",
    };
    let form = negotiate::negotiate(accept, false, |target| match target {
        None => Some(false),
        Some(target) => (target == aggregated).then_some(true),
    });
    let aggregated = form.ok_or_else(negotiate::not_acceptable)?;
    if aggregated {
        let groups = kinds.groups().iter().filter(|group| group.name.is_empty() != named);
        let items: Vec<Value> = groups.map(aggregated_group).collect();
        let list = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        });
        let document = text(&list);
        let tag = digest::hex(&document);
        // Unlike for other documents, the client names this tag alone.
        let is_known = request.header(IF_NONE_MATCH) == answer::quoted(&tag);
        let answer = Answer::tagged(&tag, is_known, || document).kept("public");
        return Ok(if answer.code == 200 {
            answer.content_type(AGGREGATED)
        } else {
            answer
        });
    }
    let list = if named {
        let groups: Vec<Value> = kinds
            .groups()
            .iter()
            .filter(|group| !group.name.is_empty())
            .map(api_group)
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    } else {
        json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
        })
    };
    Ok(Answer::json(200, text(&list)))
}

/// The document of a group or of a version.
fn document(server: &Shared, kinds: &Kinds, path: &str) -> Option<Value> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    match parts.as_slice() {
        ["api" | "apis"] => Some(Value::Null),
        ["api", version] => Some(resource_list(server, "", find_version(kinds.group("")?, version)?)),
        ["apis", group] if !group.is_empty() => {
            let mut document = api_group(kinds.group(group)?);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            Some(document)
        }
        ["apis", group, version] if !group.is_empty() => Some(resource_list(
            server,
            group,
            find_version(kinds.group(group)?, version)?,
        )),
        _ => None,
    }
}

fn find_version<'a>(group: &'a Group, version: &str) -> Option<&'a GroupVersion> {
    group.versions.iter().find(|found| found.version == version)
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn api_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|found| json!({"groupVersion": group_version(&group.name, &found.version), "version": found.version}))
        .collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// The names of the verbs. The real server lists those of custom resources in another order than all others.
fn verbs(verbs: Verbs, custom: bool) -> Vec<&'static str> {
    let mut names: Vec<_> = verbs.iter().map(crate::kinds::Verb::as_str).collect();
    if custom && names.contains(&"delete") && names.first() == Some(&"create") {
        names.remove(0);
        let place = names.iter().position(|name| *name == "update").unwrap_or(names.len());
        names.insert(place, "create");
    }
    names
}

fn resource_list(server: &Shared, group: &str, version: &GroupVersion) -> Value {
    let mut resources = Vec::new();
    for resource in &version.resources {
        let mut document = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced(),
            "kind": resource.kind, "verbs": verbs(resource.verbs, resource.custom),
        });
        add_names(&mut document, resource);
        if let Some(hash) = storage_version_hash(server, resource) {
            document["storageVersionHash"] = hash.into();
        }
        resources.push(document);
        for sub in &resource.subresources {
            let mut document = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced(), "kind": sub.kind, "verbs": verbs(sub.verbs, resource.custom),
            });
            if !sub.version.is_empty() {
                document["version"] = sub.version.as_ref().into();
                if !sub.group.is_empty() {
                    document["group"] = sub.group.as_ref().into();
                }
            }
            resources.push(document);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group_version(group, &version.version), "resources": resources,
    });
    // The oldest document says nothing of its own version.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

/// The hash of the version in which objects are stored; none of what stores nothing.
fn storage_version_hash(server: &Shared, resource: &Resource) -> Option<String> {
    if !resource.verbs.contains(crate::kinds::Verb::Watch) {
        return None;
    }
    let (group, version) = if resource.custom {
        (&*resource.group, crate::crd::stored_version(server, resource)?)
    } else {
        let (group, version) = built_in_storage(resource);
        (group, version.to_owned())
    };
    let digest = digest::sha256(format!("{group}/{version}/{}", resource.kind).as_bytes());
    Some(BASE64_STANDARD.encode(&digest[..8]))
}

/// Where a built-in kind is stored that is not stored as it is served.
fn built_in_storage(resource: &Resource) -> (&str, &str) {
    match (&*resource.group, &*resource.plural) {
        ("events.k8s.io", "events") => ("", "v1"),
        ("autoscaling", _) => ("autoscaling", "v2"),
        ("apiextensions.k8s.io" | "certificates.k8s.io" | "storagemigration.k8s.io", plural)
            if plural != "certificatesigningrequests" =>
        {
            (&resource.group, "v1beta1")
        }
        ("resource.k8s.io", "devicetaintrules") => (&resource.group, "v1beta2"),
        (group, _) => (group, &resource.version),
    }
}

fn add_names(document: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        document["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        document["categories"] = json!(resource.categories);
    }
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = version
                .resources
                .iter()
                .map(|resource| aggregated_resource(group, version, resource))
                .collect();
            json!({"version": version.version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() {
        json!({})
    } else {
        json!({"name": group.name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(group: &Group, version: &GroupVersion, resource: &Resource) -> Value {
    let kind_of = |sub_group: &str, sub_version: &str, kind: &str| {
        // The document of built-in kinds leaves out what is the same as above it; that of custom kinds says it.
        let (sub_group, sub_version) = if sub_version.is_empty() && resource.custom {
            (group.name.as_ref(), version.version.as_ref())
        } else {
            (sub_group, sub_version)
        };
        json!({"group": sub_group, "version": sub_version, "kind": kind})
    };
    let scope = if resource.namespaced() { "Namespaced" } else { "Cluster" };
    let mut document = json!({
        "resource": resource.plural, "responseKind": kind_of("", "", &resource.kind), "scope": scope,
        "singularResource": resource.singular, "verbs": verbs(resource.verbs, resource.custom),
    });
    add_names(&mut document, resource);
    if !resource.subresources.is_empty() {
        let subresources: Vec<Value> = resource
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name, "responseKind": kind_of(&sub.group, &sub.version, &sub.kind),
                    "verbs": verbs(sub.verbs, resource.custom),
                })
            })
            .collect();
        document["subresources"] = json!(subresources);
    }
    document
}
