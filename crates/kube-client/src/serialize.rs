//! How statistics are serialized: under the names of their fields, durations in seconds, for a program's own debug page.
//!
//! The forms that a derive would not give are here. There is no feature for it: `serde` decodes every object, so it is there.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::WatchErrorKind;
use crate::informer::options::Namespaces;

/// As a number of seconds.
#[expect(clippy::ref_option, reason = "the form that serde calls")]
pub(crate) fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

/// As a text.
pub(crate) fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// As a text or nothing.
#[expect(clippy::ref_option, reason = "the form that serde calls")]
pub(crate) fn optional_text<S: Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
}

/// As their names; null for all.
impl Serialize for Namespaces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Namespaces::All => serializer.serialize_none(),
            Namespaces::One(name) => serializer.collect_seq([&**name]),
            Namespaces::Many(names) => serializer.collect_seq(names.iter().map(|name| &**name)),
        }
    }
}

/// As metrics name it: [`WatchErrorKind::as_str`].
impl Serialize for WatchErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
