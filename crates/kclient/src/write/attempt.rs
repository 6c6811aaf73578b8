//! One request: its path, how it is sent, and what its answer means.

use std::borrow::Cow;
use std::fmt::Write;

use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use kube::client::Body;
use kube::core::response::StatusDetails;
use kube::core::{DynamicObject, Request, Status, request};
use kube_client::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{Operation, WriteError};
use super::request::Endpoint;

pub(super) type HttpRequest = http::Request<Vec<u8>>;

/// What is tried on what. Makes the errors.
pub(super) struct Attempt<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) operation: Operation,
    pub(super) key: ObjectKey,
    /// The subresource that is meant, as one segment of a path.
    pub(super) subresource: Option<Cow<'a, str>>,
}

impl<'a> Attempt<'a> {
    /// The same at a subresource.
    pub(super) fn at(mut self, subresource: Option<&'a str>) -> Result<Self, WriteError> {
        let Some(name) = subresource else {
            return Ok(self);
        };
        if name.is_empty() {
            return Err(self.invalid(&"the name of the subresource is empty"));
        }
        self.subresource = Some(segment(name).map_err(|reason| self.invalid(&reason))?);
        Ok(self)
    }

    /// The kind for errors, and the subresource as kubectl writes it.
    fn kind(&self) -> String {
        match &self.subresource {
            None => self.endpoint.kind().to_owned(),
            Some(subresource) => format!("{}/{subresource}", self.endpoint.kind()),
        }
    }

    pub(super) fn invalid(&self, reason: &dyn std::fmt::Display) -> WriteError {
        WriteError::Invalid {
            operation: self.operation,
            kind: self.kind(),
            key: self.key.clone(),
            reason: reason.to_string(),
        }
    }

    /// Makes the request. `build` is given the path of the collection and the name as one segment.
    pub(super) fn build(
        &self,
        build: impl FnOnce(&Request, &str) -> Result<HttpRequest, request::Error>,
    ) -> Result<HttpRequest, WriteError> {
        let namespace = self.key.namespace().map(|namespace| match namespace {
            "" => Err("the namespace is empty"),
            namespace => segment(namespace),
        });
        let namespace = namespace.transpose().map_err(|reason| self.invalid(&reason))?;
        // The name of an object to be created is in its body alone, but that of a subresource's owner is not.
        let name = if self.operation == Operation::Create && self.subresource.is_none() {
            Cow::Borrowed("")
        } else {
            segment(self.key.name()).map_err(|reason| self.invalid(&reason))?
        };
        let path = <DynamicObject as kube::Resource>::url_path(self.endpoint.resource(), namespace.as_deref());
        build(&Request::new(path), &name).map_err(|error| self.invalid(&error))
    }

    /// Sends the request and returns the body of a success. kube's own way takes a redirect for a success, and loses the
    /// HTTP status where the body is JSON but not a `Status`, as proxies answer.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<Vec<u8>, WriteError> {
        let lost = |error: kube::Error| WriteError::Connection {
            operation: self.operation,
            kind: self.kind(),
            key: self.key.clone(),
            source: Box::new(error),
        };
        let answer = self.endpoint.kube().send(request.map(Body::from)).await.map_err(lost)?;
        let (head, body) = answer.into_parts();
        let body = body.collect_bytes().await.map_err(lost)?;
        if head.status.is_success() {
            return Ok(body.into());
        }
        let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
        if is_web_page(&head.headers, &body) && matches!(head.status.as_u16(), 400 | 404 | 405 | 409 | 410 | 422 | 501)
        {
            // A proxy on the way may well refuse, slow down or fail. What else its codes mean is not what the API means with
            // them: that it has no such page does not say that there is no such object.
            NOT_THE_API.clone_into(&mut status.reason);
            status.message = format!(
                "this is not the API server, its answer is {} with a web page",
                head.status
            );
        }
        if status.code == 0 {
            status.code = head.status.as_u16();
        }
        if status.message.is_empty() {
            let text = String::from_utf8_lossy(&body);
            let first_line = text.lines().map(str::trim).find(|line| !line.is_empty());
            status.message =
                first_line.map_or_else(|| head.status.to_string(), |line| line.chars().take(500).collect());
        }
        if let Some(seconds) = retry_after(&head.headers) {
            let details = status.details.get_or_insert_with(no_details);
            if details.retry_after_seconds == 0 {
                details.retry_after_seconds = seconds;
            }
        }
        Err(WriteError::Refused {
            operation: self.operation,
            kind: self.kind(),
            key: self.key.clone(),
            status: Box::new(status),
        })
    }

    pub(super) fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, WriteError> {
        serde_json::from_slice(body).map_err(|source| WriteError::Answer {
            operation: self.operation,
            kind: self.kind(),
            key: self.key.clone(),
            source: brief(source),
        })
    }

    pub(super) async fn object<K: DeserializeOwned>(&self, request: HttpRequest) -> Result<K, WriteError> {
        self.decode(&self.send(request).await?)
    }
}

/// The reason of what a proxy answered in the place of the API server.
const NOT_THE_API: &str = "NotKubernetes";

/// Whether the answer is HTML, as proxies send it. The API server sends JSON, and plain text for paths it does not serve.
fn is_web_page(headers: &HeaderMap, body: &[u8]) -> bool {
    match headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
        Some(media_type) => media_type.to_ascii_lowercase().contains("html"),
        None => body.trim_ascii_start().starts_with(b"<"),
    }
}

/// The most bytes of a decoding error's text that are kept.
const LONGEST_ERROR: usize = 400;

/// The error, with the middle of its text left out if that is long: it quotes what it met, which may be a whole file or a secret.
pub(crate) fn brief(error: serde_json::Error) -> serde_json::Error {
    let mut text = error.to_string();
    if text.len() <= LONGEST_ERROR {
        return error;
    }
    let head = text.floor_char_boundary(LONGEST_ERROR / 2);
    let tail = text.ceil_char_boundary(text.len() - LONGEST_ERROR / 2);
    text.replace_range(head..tail, " … ");
    serde::de::Error::custom(text)
}

/// How long an overloaded server, or a proxy, asks to be left alone, where only the header says so. A date is not read.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(u32::try_from(seconds).unwrap_or(u32::MAX))
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
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
pub(super) fn is_status(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Types<'a> {
        #[serde(default, borrow)]
        kind: Cow<'a, str>,
        #[serde(default, rename = "apiVersion", borrow)]
        api_version: Cow<'a, str>,
    }
    serde_json::from_slice::<Types<'_>>(body).is_ok_and(|types| types.kind == "Status" && types.api_version == "v1")
}

/// An object as the body of a request.
pub(crate) fn body<K: serde::Serialize>(object: &K) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}
