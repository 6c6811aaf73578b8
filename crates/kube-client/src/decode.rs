//! From the bytes of a response body to objects, each decoded once, straight from the buffer.
//!
//! `lean` skips `managedFields` while decoding; `list` cuts the elements of a list body out of its chunks; `lines` cuts a
//! watch body into lines; `event` decodes one of them. Nothing here knows of HTTP, stores or retries.

pub(crate) mod event;
pub(crate) mod lean;
pub(crate) mod lines;
pub(crate) mod list;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::ApiResource;
use serde::Deserialize;

use crate::decode::lean::{Full, Lean};
use crate::informer::transform::Transform;
use crate::key::ObjectKey;
use crate::object::Object;

/// How the objects of one informer are decoded.
pub(crate) struct Decoder<K> {
    pub(crate) resource: ApiResource,
    pub(crate) keep_managed_fields: bool,
    pub(crate) transform: Option<Transform<K>>,
    // The one namespace that objects may be of, where objects of others must not get into the cache.
    pub(crate) only_in: Option<Arc<str>>,
}

/// An object that is not one of the Rust type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecodable {
    /// Its key, if at least its metadata could be read.
    pub(crate) key: Option<ObjectKey>,
    pub(crate) error: String,
}

impl<K: Object> Decoder<K> {
    /// Sets the types, runs the transform, and checks that the object can be told from others.
    fn finish(&self, mut object: K) -> Result<K, Undecodable> {
        object.set_types(&self.resource);
        let meta = object.metadata();
        if meta.name.is_empty() {
            return Err(Undecodable {
                key: None,
                error: "the object has no name".to_owned(),
            });
        }
        if let Some(namespace) = self.only_in.as_deref()
            && meta.namespace != Some(namespace)
        {
            let is = meta.namespace.map_or_else(|| "none".to_owned(), |is| format!("{is:?}"));
            return Err(Undecodable {
                key: Some(meta.key()),
                error: format!("the namespace of the object is {is}, not {namespace:?}"),
            });
        }
        let Some(transform) = &self.transform else {
            return Ok(object);
        };
        let (key, uid, version) = (meta.key(), meta.uid.to_owned(), meta.resource_version.to_owned());
        let transformed = catch_unwind(AssertUnwindSafe(move || {
            transform.apply(&mut object);
            object
        }));
        let name = transform.name();
        let Ok(object) = transformed else {
            return Err(Undecodable {
                key: Some(key),
                error: format!("transform {name:?} panicked"),
            });
        };
        let meta = object.metadata();
        if meta.key_ref() == key.as_ref() && meta.uid == uid && meta.resource_version == version {
            return Ok(object);
        }
        let error = format!("transform {name:?} changed name, namespace, uid or resourceVersion");
        Err(Undecodable { key: Some(key), error })
    }

    /// Decodes one object that is known to be whole.
    pub(crate) fn object(&self, text: &str) -> Result<K, Undecodable> {
        let decoded = contain(|| {
            if self.keep_managed_fields {
                serde_json::from_str::<Full<K>>(text).map(|full| full.0)
            } else {
                serde_json::from_str::<Lean<K>>(text).map(|lean| lean.0)
            }
        });
        match decoded {
            Some(Ok(object)) => self.finish(object).map_err(|error| error.with_key_of(text)),
            Some(Err(error)) => Err(Undecodable {
                key: key_of(text),
                error: error.to_string(),
            }),
            None => Err(Undecodable {
                key: key_of(text),
                error: PANICKED.to_owned(),
            }),
        }
    }
}

pub(crate) const PANICKED: &str = "decoding panicked";

/// Runs code of the decoded type; `None` if it panicked.
fn contain<R>(decode: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(decode)).ok()
}

impl Undecodable {
    /// Reads the key out of the object's text, if it is not known yet.
    pub(crate) fn with_key_of(mut self, text: &str) -> Self {
        if self.key.is_none() {
            self.key = key_of(text);
        }
        self
    }
}

#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: OnlyKey,
}

#[derive(Deserialize)]
struct OnlyKey {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

/// The key of an object, read from its metadata alone.
pub(crate) fn key_of(text: &str) -> Option<ObjectKey> {
    let OnlyMetadata { metadata } = serde_json::from_str(text).ok()?;
    let namespace = metadata.namespace.filter(|namespace| !namespace.is_empty());
    (!metadata.name.is_empty()).then(|| ObjectKey::new(namespace.as_deref(), &metadata.name))
}
