//! The HTTP requests of one kind, and what their answers mean.

use http::header::{CONTENT_TYPE, HeaderValue};
use kube::api::{DeleteParams, ListParams, PatchParams, PostParams};
use kube::core::params::GetParams;
use kube::core::{ApiResource, DynamicObject, Request, Selector, request};
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

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) async fn fetch<K: DeserializeOwned>(&self, key: &ObjectKey) -> Result<K, WriteError> {
        let attempt = self.named(Operation::Fetch, key.clone())?;
        let request = attempt.build(|at| at.get(key.name(), &GetParams::default()))?;
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
        let request = attempt.build(|at| at.create(options, body))?;
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
        let name = attempt.key.name();
        let request = attempt.build(|at| match subresource.path() {
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
        let mut request = attempt.build(|at| match subresource.path() {
            None => at.patch(key.name(), options, &patch),
            Some(subresource) => at.patch_subresource(subresource, key.name(), options, &patch),
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
        let request = attempt.build(|at| at.delete(key.name(), options))?;
        let text = attempt.text(request).await?;
        if is_status(&text) {
            attempt.decode(&text).map(|status| Deleted::Status(Box::new(status)))
        } else {
            attempt.decode(&text).map(|object| Deleted::Object(Box::new(object)))
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
        let request = attempt.build(|at| at.delete_collection(options, &selected))?;
        let text = attempt.text(request).await?;
        if is_status(&text) {
            return Ok(Vec::new());
        }
        attempt.decode::<List<K>>(&text).map(|list| list.items)
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
        build: impl FnOnce(&Request) -> Result<HttpRequest, request::Error>,
    ) -> Result<HttpRequest, WriteError> {
        let path = <DynamicObject as kube::Resource>::url_path(&self.endpoint.resource, self.key.namespace());
        build(&Request::new(path)).map_err(|error| self.endpoint.invalid(self.operation, self.key.clone(), &error))
    }

    async fn text(&self, request: HttpRequest) -> Result<String, WriteError> {
        let answer = self.endpoint.kube.request_text(request).await;
        answer.map_err(|error| {
            let (operation, kind, key) = (self.operation, self.endpoint.kind().to_owned(), self.key.clone());
            match error {
                kube::Error::Api(status) => WriteError::Refused {
                    operation,
                    kind,
                    key,
                    status,
                },
                error => WriteError::Connection {
                    operation,
                    kind,
                    key,
                    source: Box::new(error),
                },
            }
        })
    }

    fn decode<T: DeserializeOwned>(&self, text: &str) -> Result<T, WriteError> {
        serde_json::from_str(text).map_err(|source| WriteError::Answer {
            operation: self.operation,
            kind: self.endpoint.kind().to_owned(),
            key: self.key.clone(),
            source,
        })
    }

    async fn object<K: DeserializeOwned>(&self, request: HttpRequest) -> Result<K, WriteError> {
        self.decode(&self.text(request).await?)
    }
}

/// Whether an answer is a `Status` of the API rather than an object.
fn is_status(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Types<'a> {
        #[serde(default, borrow)]
        kind: std::borrow::Cow<'a, str>,
        #[serde(default, rename = "apiVersion", borrow)]
        api_version: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<Types<'_>>(text).is_ok_and(|types| types.kind == "Status" && types.api_version == "v1")
}

/// An object as the body of a request.
pub(crate) fn body<K: serde::Serialize>(object: &K) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}
