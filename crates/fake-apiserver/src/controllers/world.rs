//! What stand-ins see of the server, and how they write to it: by requests of their own, which pass validation, admission and
//! the record of field managers as those of any client do. Faults do not meet them and the request log does not show them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::clock::time_text;
use crate::kinds::{Kinds, Resource, Verb};
use crate::object::{Object, TypeMeta, write_output};
use crate::request::Request;
use crate::route;
use crate::server::Shared;
use crate::storage::{Range, ResourceId, Versioned};
use crate::stored::{Stored, key_of, split_key};

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) resource: ResourceId,
    /// `namespace/name`, or `name`.
    pub(super) object: Arc<str>,
}

impl Key {
    /// The namespace; empty for a cluster-scoped object.
    pub(super) fn namespace(&self) -> &str {
        split_key(&self.object).0
    }

    pub(super) fn name(&self) -> &str {
        split_key(&self.object).1
    }
}

/// One write, as stand-ins see it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: Key,
    /// Absent if the kind is served no more.
    pub(super) resource: Option<Arc<Resource>>,
    /// Absent for a new object, and for one that was there when the stand-ins began to look.
    pub(super) prev: Option<Object>,
    /// Absent for a removal.
    pub(super) cur: Option<Object>,
}

impl Change {
    /// The object after the change if it is one of a built-in resource.
    pub(super) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource
            .as_ref()
            .is_some_and(|resource| resource.group == group && resource.plural == plural)
    }
}

/// In whose name a stand-in writes: the user agent, which gives the field manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    ControllerManager,
    Scheduler,
    Kubelet,
}

impl Agent {
    fn user_agent(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::ControllerManager => "kube-controller-manager/v1.37.2",
            Self::Scheduler => "kube-scheduler/v1.37.2",
            Self::Kubelet => "kubelet/v1.37.2",
        })
    }
}

/// Why the server refused a write.
#[derive(Debug, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub(super) struct Failure {
    code: u16,
    reason: String,
    message: String,
}

impl Failure {
    fn own(message: String) -> Self {
        Self {
            code: 0,
            reason: "Unsendable".to_owned(),
            message,
        }
    }

    /// The object has changed since it was read.
    pub(super) fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason == "Conflict"
    }

    /// There is no such object, or no such kind.
    pub(super) fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// There is such an object already.
    pub(super) fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The namespace is going away: nothing else is forbidden to a stand-in.
    pub(super) fn is_forbidden(&self) -> bool {
        self.code == 403
    }

    /// The text of the server.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

/// The served kinds by the place of their objects in the log.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    /// The snapshot that the table was made from; none if it lacked a place.
    of: Option<Arc<Kinds>>,
    by_id: HashMap<ResourceId, Arc<Resource>>,
    /// Each resource once per group, in its preferred version, in the order of discovery.
    preferred: Vec<(Arc<Resource>, ResourceId)>,
}

impl KindTable {
    /// Brings the table up to date; true if there may be other kinds than before.
    pub(super) fn refresh(&mut self, server: &Shared) -> bool {
        let kinds = server.registry.snapshot();
        if self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &kinds)) {
            return false;
        }
        self.by_id.clear();
        self.preferred.clear();
        let mut is_whole = true;
        for group in kinds.groups() {
            let first_of_group = self.preferred.len();
            for resource in group.versions.iter().flat_map(|version| &version.resources) {
                let stores = resource.verbs.contains(Verb::List);
                let is_known = self.preferred[first_of_group..]
                    .iter()
                    .any(|(known, _)| known.plural == resource.plural);
                if !stores || is_known {
                    continue;
                }
                // A kind is in the registry before its objects have a place.
                let Some(id) = server.resource_id(resource) else {
                    is_whole = false;
                    continue;
                };
                self.preferred.push((Arc::clone(resource), id));
                self.by_id.entry(id).or_insert_with(|| Arc::clone(resource));
            }
        }
        self.of = is_whole.then_some(kinds);
        true
    }

    /// The resource whose objects are there.
    pub(super) fn resource(&self, id: ResourceId) -> Option<&Arc<Resource>> {
        self.by_id.get(&id)
    }
}

/// The server as a stand-in sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'a> {
    pub(super) server: &'a Arc<Shared>,
    pub(super) kinds: &'a KindTable,
}

impl<'a> World<'a> {
    /// The resource of a key.
    pub(super) fn resource(&self, key: &Key) -> Option<&'a Arc<Resource>> {
        self.kinds.resource(key.resource)
    }

    /// The resources of all groups, each in its preferred version.
    pub(super) fn preferred(&self) -> &'a [(Arc<Resource>, ResourceId)] {
        &self.kinds.preferred
    }

    /// A built-in resource.
    pub(super) fn built_in(&self, group: &str, plural: &str) -> Option<(&'a Arc<Resource>, ResourceId)> {
        let mut all = self.kinds.preferred.iter();
        let found = all.find(|(resource, _)| resource.group == group && resource.plural == plural)?;
        Some((&found.0, found.1))
    }

    /// The resource of a kind, as an owner reference names it.
    pub(super) fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<(Arc<Resource>, ResourceId)> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.server.registry.snapshot();
        let resource = kinds.resource_of_kind(group, version, kind)?;
        let id = self.server.resource_id(resource)?;
        Some((Arc::clone(resource), id))
    }

    /// The newest version of an object.
    pub(super) fn latest(&self, key: &Key) -> Option<Versioned<Stored>> {
        self.server.storage.get(key.resource, &key.object)
    }

    /// An object as the API shows it.
    pub(super) fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let (resource, id) = self.built_in(group, plural)?;
        let version = self.server.storage.get(id, &key_of(Some(namespace), name))?;
        Some(shown(resource, &version))
    }

    /// The object of a key as the API shows it.
    pub(super) fn show(&self, key: &Key) -> Option<Value> {
        Some(shown(self.resource(key)?, &self.latest(key)?))
    }

    /// The objects of a namespace, or all if that is empty, ordered by key.
    pub(super) fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let Some((resource, id)) = self.built_in(group, plural) else {
            return Vec::new();
        };
        let stored = self.stored_in(id, namespace);
        stored.iter().map(|(_, version)| shown(resource, version)).collect()
    }

    /// What is stored in a namespace, or everywhere if that is empty, ordered by key.
    pub(super) fn stored_in(&self, id: ResourceId, namespace: &str) -> Vec<(Arc<str>, Versioned<Stored>)> {
        let range = if namespace.is_empty() {
            Range::All
        } else {
            Range::Namespace(namespace.to_owned())
        };
        self.server.storage.all(id, range)
    }

    /// Gives an object these owners and no others, unless it has changed.
    pub(super) async fn set_owners(
        &self,
        who: Agent,
        resource: &Resource,
        key: &Key,
        version: &Versioned<Stored>,
        owners: &Value,
    ) -> Result<Value, Failure> {
        let patch = json!({"metadata": {"resourceVersion": version.rv.to_string(), "ownerReferences": owners}});
        self.merge(who, resource, key, None, &patch).await
    }

    /// The time, as the API writes it.
    pub(super) fn now(&self) -> String {
        time_text(self.server.clock.now())
    }

    /// Creates an object; it has its namespace in its metadata.
    pub(super) async fn create(&self, who: Agent, resource: &Resource, object: &Value) -> Result<Value, Failure> {
        let namespace = text(object, "/metadata/namespace");
        let path = path(resource, namespace, None, None);
        self.send(who, Method::POST, path, "application/json", Some(object))
            .await
    }

    /// Replaces an object, or a part of it.
    pub(super) async fn update(
        &self,
        who: Agent,
        resource: &Resource,
        subresource: Option<&str>,
        object: &Value,
    ) -> Result<Value, Failure> {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let path = path(resource, namespace, Some(name), subresource);
        self.send(who, Method::PUT, path, "application/json", Some(object))
            .await
    }

    /// Changes an object by a merge patch.
    pub(super) async fn merge(
        &self,
        who: Agent,
        resource: &Resource,
        key: &Key,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, Failure> {
        let path = path(resource, key.namespace(), Some(key.name()), subresource);
        self.send(who, Method::PATCH, path, "application/merge-patch+json", Some(patch))
            .await
    }

    /// Posts to a subresource.
    pub(super) async fn post(
        &self,
        who: Agent,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        let path = path(resource, key.namespace(), Some(key.name()), Some(subresource));
        self.send(who, Method::POST, path, "application/json", Some(body)).await
    }

    /// Deletes an object.
    pub(super) async fn delete(
        &self,
        who: Agent,
        resource: &Resource,
        key: &Key,
        options: &Value,
    ) -> Result<Value, Failure> {
        let path = path(resource, key.namespace(), Some(key.name()), None);
        self.send(who, Method::DELETE, path, "application/json", Some(options))
            .await
    }

    /// Deletes all objects of a namespace.
    pub(super) async fn delete_collection(
        &self,
        who: Agent,
        resource: &Resource,
        namespace: &str,
        options: &Value,
    ) -> Result<Value, Failure> {
        let path = path(resource, namespace, None, None);
        self.send(who, Method::DELETE, path, "application/json", Some(options))
            .await
    }

    async fn send(
        &self,
        who: Agent,
        method: Method,
        path: String,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let uri: Uri = path
            .parse()
            .map_err(|error| Failure::own(format!("{path} is no path: {error}")))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, who.user_agent());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::new(method, uri, headers, body);
        let answer = Box::pin(route::route(self.server, &request)).await;
        let code = answer.code;
        let bytes = match answer.body.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) => return Err(Failure::own(error.to_string())),
        };
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if (200..300).contains(&code) {
            return Ok(value);
        }
        Err(Failure {
            code,
            reason: text(&value, "/reason").to_owned(),
            message: text(&value, "/message").to_owned(),
        })
    }
}

/// The object as the API shows it in the version of `resource`.
pub(super) fn shown(resource: &Resource, version: &Versioned<Stored>) -> Value {
    let mut out = Vec::new();
    let api_version = resource.api_version();
    let types = TypeMeta {
        kind: &resource.kind,
        api_version: &api_version,
    };
    write_output(
        &version.object.canonical_as(resource),
        Some(types),
        version.rv,
        &mut out,
    );
    // What the server writes is JSON.
    serde_json::from_slice(&out).unwrap_or(Value::Null)
}

/// The text at a pointer; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The options of a delete.
pub(super) fn delete_options(rest: Value) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if let (Some(options), Value::Object(rest)) = (options.as_object_mut(), rest) {
        options.extend(rest);
    }
    options
}

fn path(resource: &Resource, namespace: &str, name: Option<&str>, subresource: Option<&str>) -> String {
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let mut push = |part: &str| {
        path.push('/');
        escape(part, &mut path);
    };
    if !namespace.is_empty() {
        push("namespaces");
        push(namespace);
    }
    push(&resource.plural);
    for part in [name, subresource].into_iter().flatten() {
        push(part);
    }
    path
}

/// Appends a segment of a path: some kinds have names with characters that mean something there.
fn escape(part: &str, out: &mut String) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}
