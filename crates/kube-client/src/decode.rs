//! From the bytes of a response body to objects, each decoded once, straight from the buffer.
//!
//! `inflate` unpacks a compressed body; `lean` skips `managedFields` while decoding; `list` cuts the elements of a list body
//! out of its chunks, with `cut`, and decodes them, in `heap` that is asked for ahead; `lines` cuts a watch body into lines; `event` decodes one of them. Nothing here knows of stores or
//! retries.

mod cut;
pub(crate) mod event;
pub(crate) mod heap;
pub(crate) mod inflate;
pub(crate) mod lean;
pub(crate) mod lines;
pub(crate) mod list;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::decode::lean::{Full, Lean};
use crate::informer::deferred::discard;
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
    /// Its uid; empty if it could not be read.
    pub(crate) uid: String,
    /// Its resource version; empty if it could not be read.
    pub(crate) version: String,
    pub(crate) error: String,
}

impl<K: Object> Decoder<K> {
    /// Sets the types, runs the transform, and checks that the object can be told from others. The object goes to its final
    /// place here: a large one is not moved from result to result.
    fn finish(&self, mut object: K) -> Result<Arc<K>, Undecodable> {
        let checked = contain(|| {
            object.set_types(&self.resource);
            self.check(&mut object)
        });
        let bad = match checked {
            Some(Ok(())) => return Ok(Arc::new(object)),
            Some(Err(bad)) => bad,
            // Of metadata that cannot be read nothing is known, unless the text tells it.
            None => Undecodable {
                key: None,
                uid: String::new(),
                version: String::new(),
                error: PANICKED.to_owned(),
            },
        };
        discard(object);
        Err(bad)
    }

    fn check(&self, object: &mut K) -> Result<(), Undecodable> {
        let meta = object.metadata();
        if meta.name.is_empty() {
            return Err(Undecodable {
                key: None,
                uid: meta.uid.to_owned(),
                version: meta.resource_version.to_owned(),
                error: "the object has no name".to_owned(),
            });
        }
        if let Some(namespace) = self.only_in.as_deref()
            && meta.namespace != Some(namespace)
        {
            let is = meta.namespace.map_or_else(|| "none".to_owned(), |is| format!("{is:?}"));
            return Err(Undecodable {
                key: Some(meta.key()),
                uid: meta.uid.to_owned(),
                version: meta.resource_version.to_owned(),
                error: format!("the namespace of the object is {is}, not {namespace:?}"),
            });
        }
        let Some(transform) = &self.transform else {
            return Ok(());
        };
        let (key, uid, version) = (meta.key(), meta.uid.to_owned(), meta.resource_version.to_owned());
        let name = transform.name();
        let error = if catch_unwind(AssertUnwindSafe(|| transform.apply(object))).is_err() {
            format!("transform {name:?} panicked")
        } else {
            let meta = object.metadata();
            if meta.key_ref() == key.as_ref() && meta.uid == uid && meta.resource_version == version {
                return Ok(());
            }
            format!("transform {name:?} changed name, namespace, uid or resourceVersion")
        };
        Err(Undecodable {
            key: Some(key),
            uid,
            version,
            error,
        })
    }

    /// Decodes one object that is known to be whole.
    pub(crate) fn object(&self, text: &str) -> Result<Arc<K>, Undecodable> {
        let decoded = contain(|| {
            if self.keep_managed_fields {
                serde_json::from_str::<Full<K>>(text).map(|full| full.0)
            } else {
                serde_json::from_str::<Lean<K>>(text).map(|lean| lean.0)
            }
        });
        match decoded {
            Some(Ok(object)) => self.finish(object).map_err(|error| error.with_key_of(text)),
            Some(Err(error)) => Err(Undecodable::of(text, brief(error))),
            None => Err(Undecodable::of(text, PANICKED.to_owned())),
        }
    }
}

pub(crate) const PANICKED: &str = "decoding panicked";

/// Runs code of the decoded type; `None` if it panicked.
fn contain<R>(decode: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(decode)).ok()
}

impl Undecodable {
    /// What can be said of an object of which there is only the text.
    pub(crate) fn of(text: &str, error: String) -> Self {
        let none = Self {
            key: None,
            uid: String::new(),
            version: String::new(),
            error,
        };
        none.with_key_of(text)
    }

    /// What can be said of an object whose text was [mended](mend): what the mending touched is not known.
    pub(crate) fn of_mended(text: &str) -> Self {
        let mut bad = Self::of(text, NOT_UTF8.to_owned());
        bad.key = bad.key.filter(|key| !key.to_string().contains(MENDED));
        for text in [&mut bad.uid, &mut bad.version] {
            if text.contains(MENDED) {
                text.clear();
            }
        }
        bad
    }

    /// Reads key and version out of the object's text, if they are not known yet.
    pub(crate) fn with_key_of(mut self, text: &str) -> Self {
        if self.key.is_none()
            && let Ok(OnlyMetadata { metadata }) = serde_json::from_str(text)
        {
            let name: String = read(metadata.name);
            let namespace: String = read(metadata.namespace);
            self.uid = read(metadata.uid);
            self.version = read(metadata.resource_version);
            if !name.is_empty() {
                self.key = Some(ObjectKey::new(Some(&*namespace).filter(|text| !text.is_empty()), &name));
            }
        }
        self
    }
}

/// Stands where bytes are that are no UTF-8, one for each of them: a control character that JSON lets pass and that no name of
/// Kubernetes has.
const MENDED: char = '\x7f';

/// Why an object that holds such bytes does not decode.
pub(crate) const NOT_UTF8: &str = "the object holds bytes that are not UTF-8";

/// The text of the same length that has [`MENDED`] in the place of what is no UTF-8: to find out what the rest says.
pub(crate) fn mend(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(MENDED, chunk.invalid().len()));
    }
    text
}

/// The most bytes of an error's text that are kept.
const LONGEST_ERROR: usize = 400;

/// The text of an error, with its middle left out if it is long: errors of decoding quote what they met, which may be a
/// whole file, and the text is kept for each object that does not decode.
fn brief(error: impl Display) -> String {
    let mut text = error.to_string();
    if text.len() > LONGEST_ERROR {
        let (head, tail) = (
            text.floor_char_boundary(LONGEST_ERROR / 2),
            text.ceil_char_boundary(text.len() - LONGEST_ERROR / 2),
        );
        text.replace_range(head..tail, " … ");
        text.shrink_to_fit();
    }
    text
}

/// For fields of which null says the same as their absence, as it does to Go.
fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text, or an empty one where something else stands: one bad field must not hide the others.
fn read(value: Option<&RawValue>) -> String {
    value
        .and_then(|value| serde_json::from_str(value.get()).ok())
        .unwrap_or_default()
}

#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: OnlyKey<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnlyKey<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource_version: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
