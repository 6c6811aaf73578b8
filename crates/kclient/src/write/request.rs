//! The HTTP requests of one kind, and what their answers mean.

use std::borrow::Cow;
use std::fmt::Write;

use http::header::{CONTENT_TYPE, HeaderValue};
use kube::api::{DeleteParams, ListParams, PatchParams, PostParams};
use kube::client::Body;
use kube::core::params::GetParams;
use kube::core::{ApiResource, DynamicObject, Request, Selector, Status, request};
use kube_client::{ObjectKey, Scope};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{Operation, WriteError};
use super::{Deleted, Patch, Subresource};

type HttpRequest = http::Request<Vec<u8>>;

/// Where the objects of one kind are on the server.
#[derive(Clone)]
pub(crate) struct Endpoint {
    kube: kube::Client,
    resource: ApiResource,
    scope: Scope,
}

/// One write: what is tried on what. Makes the errors.
struct Attempt<'a> {
    endpoint: &'a Endpoint,
    operation: Operation,
    key: ObjectKey,
}

impl Endpoint {
    pub(crate) fn new(kube: kube::Client, resource: ApiResource, scope: Scope) -> Self {
        Self { kube, resource, scope }
    }

    /// The error of a write to a kind that is known to be absent.
    pub(crate) fn not_installed(&self, operation: Operation, key: ObjectKey) -> WriteError {
        WriteError::KindNotInstalled {
            operation,
            kind: self.resource.kind.clone(),
            key,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) async fn fetch<K: DeserializeOwned>(&self, key: &ObjectKey) -> Result<K, WriteError> {
        let attempt = self.named(Operation::Fetch, key.clone())?;
        let request = attempt.build(|at, name| at.get(name, &GetParams::default()))?;
        attempt.object(request).await
    }

    pub(crate) async fn create<K: DeserializeOwned>(
        &self,
        key: ObjectKey,
        body: Vec<u8>,
        options: &PostParams,
    ) -> Result<K, WriteError> {
        // The name may be empty: generateName.
        let attempt = self.attempt(Operation::Create, key)?;
        let request = attempt.build(|at, _| at.create(options, body))?;
        attempt.object(request).await
    }

    pub(crate) async fn replace<K: DeserializeOwned>(
        &self,
        key: ObjectKey,
        body: Vec<u8>,
        subresource: Subresource,
        options: &PostParams,
    ) -> Result<K, WriteError> {
        let operation = match subresource {
            Subresource::Main => Operation::Update,
            Subresource::Status => Operation::UpdateStatus,
        };
        let attempt = self.named(operation, key)?;
        let request = attempt.build(|at, name| match subresource.path() {
            None => at.replace(name, options, body),
            Some(subresource) => at.replace_subresource(subresource, name, options, body),
        })?;
        attempt.object(request).await
    }

    pub(crate) async fn patch<K: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        let attempt = self.named(Operation::Patch, key.clone())?;
        let (is_json, patch) = match patch {
            // kube knows the type only with another JSON patch library: the content type is all the difference.
            Patch::Json(operations) => (true, kube::api::Patch::Merge(operations)),
            Patch::Merge(fields) => (false, kube::api::Patch::Merge(fields)),
            Patch::Strategic(fields) => (false, kube::api::Patch::Strategic(fields)),
            Patch::Apply(fields) => (false, kube::api::Patch::Apply(fields)),
        };
        let mut request = attempt.build(|at, name| match subresource.path() {
            None => at.patch(name, options, &patch),
            Some(subresource) => at.patch_subresource(subresource, name, options, &patch),
        })?;
        if is_json {
            let content_type = HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        attempt.object(request).await
    }

    pub(crate) async fn delete<K: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        options: &DeleteParams,
    ) -> Result<Deleted<K>, WriteError> {
        let attempt = self.named(Operation::Delete, key.clone())?;
        let request = attempt.build(|at, name| at.delete(name, options))?;
        let answer = attempt.send(request).await?;
        if is_status(&answer) {
            attempt.decode(&answer).map(|status| Deleted::Status(Box::new(status)))
        } else {
            attempt.decode(&answer).map(|object| Deleted::Object(Box::new(object)))
        }
    }

    pub(crate) async fn delete_collection<K: DeserializeOwned>(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError> {
        #[derive(Deserialize)]
        #[serde(bound = "K: DeserializeOwned")]
        struct List<K> {
            items: Vec<K>,
        }
        let attempt = self.attempt(Operation::DeleteCollection, ObjectKey::new(namespace, ""))?;
        let selected = ListParams::default().labels_from(selector);
        let request = attempt.build(|at, _| at.delete_collection(options, &selected))?;
        let answer = attempt.send(request).await?;
        if is_status(&answer) {
            return Ok(Vec::new());
        }
        attempt.decode::<List<K>>(&answer).map(|list| list.items)
    }

    /// An attempt at an object that must have a name.
    fn named(&self, operation: Operation, key: ObjectKey) -> Result<Attempt<'_>, WriteError> {
        if key.name().is_empty() {
            return Err(WriteError::NameRequired {
                operation,
                kind: self.kind().to_owned(),
            });
        }
        self.attempt(operation, key)
    }

    fn attempt(&self, operation: Operation, key: ObjectKey) -> Result<Attempt<'_>, WriteError> {
        let kind = || self.kind().to_owned();
        match (self.scope, key.namespace()) {
            (Scope::Namespaced, None | Some("")) => Err(WriteError::NamespaceRequired {
                operation,
                kind: kind(),
                name: key.name().to_owned(),
            }),
            (Scope::Cluster, Some(_)) => Err(WriteError::NamespaceNotAllowed {
                operation,
                kind: kind(),
                key,
            }),
            _ => Ok(Attempt {
                endpoint: self,
                operation,
                key,
            }),
        }
    }

    pub(crate) fn partial(&self, operation: Operation, key: ObjectKey) -> WriteError {
        WriteError::PartialObject {
            operation,
            kind: self.kind().to_owned(),
            key,
        }
    }

    pub(crate) fn invalid(&self, operation: Operation, key: ObjectKey, reason: &dyn std::fmt::Display) -> WriteError {
        WriteError::Invalid {
            operation,
            kind: self.kind().to_owned(),
            key,
            reason: reason.to_string(),
        }
    }
}

impl Attempt<'_> {
    fn build(
        &self,
        build: impl FnOnce(&Request, &str) -> Result<HttpRequest, request::Error>,
    ) -> Result<HttpRequest, WriteError> {
        let invalid = |reason: &dyn std::fmt::Display| self.endpoint.invalid(self.operation, self.key.clone(), reason);
        let namespace = self.key.namespace().map(|namespace| match namespace {
            "" => Err("the namespace is empty"),
            namespace => segment(namespace),
        });
        let namespace = namespace.transpose().map_err(|reason| invalid(&reason))?;
        // The name of an object to be created is in its body alone.
        let name = match self.operation {
            Operation::Create => Cow::Borrowed(""),
            _ => segment(self.key.name()).map_err(|reason| invalid(&reason))?,
        };
        let path = <DynamicObject as kube::Resource>::url_path(&self.endpoint.resource, namespace.as_deref());
        build(&Request::new(path), &name).map_err(|error| invalid(&error))
    }

    /// Sends the request and returns the body of a success. kube's own way takes a redirect for a success, and loses the
    /// HTTP status where the body is JSON but not a `Status`, as proxies answer.
    async fn send(&self, request: HttpRequest) -> Result<Vec<u8>, WriteError> {
        let (operation, kind, key) = (self.operation, self.endpoint.kind(), &self.key);
        let lost = |error: kube::Error| WriteError::Connection {
            operation,
            kind: kind.to_owned(),
            key: key.clone(),
            source: Box::new(error),
        };
        let answer = self.endpoint.kube.send(request.map(Body::from)).await.map_err(lost)?;
        let code = answer.status();
        let body = answer.into_body().collect_bytes().await.map_err(lost)?;
        if code.is_success() {
            return Ok(body.into());
        }
        let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
        if status.code == 0 {
            status.code = code.as_u16();
        }
        if status.message.is_empty() {
            let text = String::from_utf8_lossy(&body);
            let first_line = text.lines().map(str::trim).find(|line| !line.is_empty());
            status.message = first_line.map_or_else(|| code.to_string(), |line| line.chars().take(500).collect());
        }
        Err(WriteError::Refused {
            operation,
            kind: kind.to_owned(),
            key: key.clone(),
            status: Box::new(status),
        })
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, WriteError> {
        serde_json::from_slice(body).map_err(|source| WriteError::Answer {
            operation: self.operation,
            kind: self.endpoint.kind().to_owned(),
            key: self.key.clone(),
            source,
        })
    }

    async fn object<K: DeserializeOwned>(&self, request: HttpRequest) -> Result<K, WriteError> {
        self.decode(&self.send(request).await?)
    }
}

/// A name as one segment of a path. The server splits paths after decoding them, so what would part a segment is refused;
/// all else that a path cannot hold is encoded.
fn segment(name: &str) -> Result<Cow<'_, str>, &'static str> {
    if name == "." || name == ".." || name.contains(['/', '%']) {
        return Err("names and namespaces cannot be `.` or `..`, nor contain `/` or `%`");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':');
    if name.bytes().all(plain) {
        return Ok(Cow::Borrowed(name));
    }
    let mut encoded = String::with_capacity(name.len() * 3);
    for byte in name.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Ok(Cow::Owned(encoded))
}

/// Whether an answer is a `Status` of the API rather than an object.
fn is_status(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Types<'a> {
        #[serde(default, borrow)]
        kind: std::borrow::Cow<'a, str>,
        #[serde(default, rename = "apiVersion", borrow)]
        api_version: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Types<'_>>(body).is_ok_and(|types| types.kind == "Status" && types.api_version == "v1")
}

/// An object as the body of a request.
pub(crate) fn body<K: serde::Serialize>(object: &K) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}

#[cfg(test)]
mod tests;
