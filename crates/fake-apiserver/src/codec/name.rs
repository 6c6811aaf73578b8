//! The name of an object in a body, without a look at anything else.

use super::{ContentType, proto, yaml};
use crate::json::Tape;

/// `metadata.name` of a body; none if it has none, or cannot be read.
pub(crate) fn name_in(content_type: ContentType, body: &[u8]) -> Option<String> {
    let in_json = |json: &[u8]| {
        let tape = Tape::parse(json).ok()?;
        let name = tape.root().get("metadata")?.get("name")?.as_str()?.into_owned();
        Some(name)
    };
    match content_type {
        ContentType::Json => in_json(body),
        ContentType::Yaml => in_json(&yaml::to_json(body).ok()?.0),
        ContentType::Protobuf => proto::name(proto::open(body).ok()?.raw),
    }
}
