//! The writes of one kind, each as an HTTP request.

use std::borrow::Cow;

use http::Uri;
use kube::api::{DeleteParams, ListParams, PatchParams, PostParams, ValidationDirective};
use kube::core::ApiResource;
use kube::core::params::GetParams;
use kube_client::{ObjectKey, Scope, check_labels};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::attempt::{Attempt, HttpRequest, body, is_status};
use super::error::{Operation, WriteError};
use super::{Deleted, Patch, Selection, Subresource, SubresourceCall};

/// Where the objects of one kind are on the server, and how this client writes them.
#[derive(Clone)]
pub(crate) struct Endpoint {
    kube: kube::Client,
    resource: ApiResource,
    scope: Scope,
    /// For writes whose options name no field manager.
    pub(crate) field_manager: Option<String>,
    /// For writes whose options say nothing of it.
    pub(crate) field_validation: Option<ValidationDirective>,
}

impl Endpoint {
    pub(crate) fn new(kube: kube::Client, resource: ApiResource, scope: Scope) -> Self {
        Self {
            kube,
            resource,
            scope,
            field_manager: None,
            field_validation: None,
        }
    }

    pub(super) fn kube(&self) -> &kube::Client {
        &self.kube
    }

    pub(super) fn resource(&self) -> &ApiResource {
        &self.resource
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
        let request = attempt.build(|at, _| at.create(&self.post(options), body))?;
        attempt.object(self.validated(&attempt, request)?).await
    }

    /// Replaces the object, or its status.
    pub(crate) async fn replace<K: DeserializeOwned>(
        &self,
        operation: Operation,
        key: ObjectKey,
        body: Vec<u8>,
        options: &PostParams,
    ) -> Result<K, WriteError> {
        let attempt = self.named(operation, key)?;
        let options = self.post(options);
        let request = attempt.build(|at, name| match operation {
            Operation::UpdateStatus => at.replace_subresource("status", name, &options, body),
            _ => at.replace(name, &options, body),
        })?;
        attempt.object(self.validated(&attempt, request)?).await
    }

    pub(crate) async fn patch<K: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        let attempt = self.named(Operation::Patch, key.clone())?.at(subresource.path())?;
        let request = self.patching(&attempt, patch, options)?;
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
        selection: &Selection,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError> {
        #[derive(Deserialize)]
        #[serde(bound = "K: DeserializeOwned")]
        struct List<K> {
            // An empty list may be written as null, by aggregated APIs above all.
            items: Option<Vec<K>>,
        }
        let attempt = self.attempt(Operation::DeleteCollection, ObjectKey::new(namespace, ""))?;
        check_labels(&selection.labels).map_err(|reason| attempt.invalid(&reason))?;
        let mut selected = ListParams::default();
        if !selection.labels.selects_all() {
            selected = selected.labels_from(&selection.labels);
        }
        if !selection.fields.is_empty() {
            selected = selected.fields(&selection.fields);
        }
        let request = attempt.build(|at, _| at.delete_collection(options, &selected))?;
        let answer = attempt.send(request).await?;
        if is_status(&answer) {
            return Ok(Vec::new());
        }
        let list: List<K> = attempt.decode(&answer)?;
        Ok(list.items.unwrap_or_default())
    }

    /// Calls a subresource that has a form of its own.
    pub(crate) async fn subresource(
        &self,
        key: &ObjectKey,
        name: &str,
        call: &SubresourceCall,
    ) -> Result<Value, WriteError> {
        let attempt = self.named(call.operation(), key.clone())?.at(Some(name))?;
        let to_body = |sent: &Value| body(sent).map_err(|error| attempt.invalid(&error));
        let segment = attempt.subresource.as_deref().unwrap_or_default();
        let request = match call {
            SubresourceCall::Get => attempt.build(|at, name| at.get_subresource(segment, name))?,
            SubresourceCall::Create(sent, options) => {
                let (sent, options) = (to_body(sent)?, self.post(options));
                let request = attempt.build(|at, name| at.create_subresource(segment, name, &options, sent))?;
                self.validated(&attempt, request)?
            }
            SubresourceCall::Replace(sent, options) => {
                let (sent, options) = (to_body(sent)?, self.post(options));
                let request = attempt.build(|at, name| at.replace_subresource(segment, name, &options, sent))?;
                self.validated(&attempt, request)?
            }
            SubresourceCall::Patch(patch, options) => self.patching(&attempt, patch, options)?,
        };
        attempt.object(request).await
    }

    fn patching(&self, attempt: &Attempt<'_>, patch: &Patch, options: &PatchParams) -> Result<HttpRequest, WriteError> {
        let mut options = options.clone();
        options.field_manager = options.field_manager.or_else(|| self.field_manager.clone());
        options.field_validation = options.field_validation.or_else(|| self.field_validation.clone());
        let nameless = options.field_manager.as_deref().unwrap_or_default().is_empty();
        if nameless && matches!(patch, Patch::Apply(_)) {
            return Err(attempt.invalid(&"server-side apply needs a field manager"));
        }
        attempt.build(|at, name| match &attempt.subresource {
            None => at.patch(name, &options, patch),
            Some(subresource) => at.patch_subresource(subresource, name, &options, patch),
        })
    }

    /// The options with what this client writes by default.
    fn post<'a>(&self, options: &'a PostParams) -> Cow<'a, PostParams> {
        match &self.field_manager {
            Some(_) if options.field_manager.is_none() => Cow::Owned(PostParams {
                field_manager: self.field_manager.clone(),
                ..options.clone()
            }),
            _ => Cow::Borrowed(options),
        }
    }

    /// The request with the field validation of this client, of which kube's options for a POST and a PUT know nothing.
    fn validated(&self, attempt: &Attempt<'_>, mut request: HttpRequest) -> Result<HttpRequest, WriteError> {
        if let Some(validation) = &self.field_validation {
            let uri = request.uri();
            let separator = if uri.query().is_none_or(str::is_empty) { "" } else { "&" };
            let text = format!(
                "{}?{}{separator}fieldValidation={}",
                uri.path(),
                uri.query().unwrap_or_default(),
                validation.as_str()
            );
            *request.uri_mut() = text.parse::<Uri>().map_err(|error| attempt.invalid(&error))?;
        }
        Ok(request)
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
                subresource: None,
            }),
        }
    }

    /// The error of a write to a kind that is known to be absent.
    pub(crate) fn not_installed(&self, operation: Operation, key: ObjectKey) -> WriteError {
        WriteError::KindNotInstalled {
            operation,
            kind: self.resource.kind.clone(),
            key,
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

#[cfg(test)]
mod tests;
