//! The second version in protobuf, the only encoding of it that kubectl reads: the definitions, and no paths.
//!
//! What a schema says beyond these fields kubectl does not ask for; extensions are YAML, of which JSON is a part.

use serde_json::{Map, Value};

const LENGTH_DELIMITED: u64 = 2;

/// The document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, &info);
    // An empty message is there.
    out.message(8, &Message::default());
    out.message(9, &named(document["definitions"].as_object()));
    out.0
}

/// Schemas with their names: definitions, and the properties of a schema.
fn named(schemas: Option<&Map<String, Value>>) -> Message {
    let mut out = Message::default();
    for (name, schema) in schemas.into_iter().flatten() {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, &of_schema(schema));
        out.message(1, &entry);
    }
    out
}

fn of_schema(schema: &Value) -> Message {
    let mut out = Message::default();
    for (number, field) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        out.text(number, &schema[field]);
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        out.text(19, name);
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        out.message(20, &any(value));
    }
    if schema["additionalProperties"].is_object() {
        let mut item = Message::default();
        item.message(1, &of_schema(&schema["additionalProperties"]));
        out.message(21, &item);
    }
    if schema["type"].is_string() {
        let mut types = Message::default();
        types.text(1, &schema["type"]);
        out.message(22, &types);
    }
    if schema["items"].is_object() {
        let mut items = Message::default();
        items.message(1, &of_schema(&schema["items"]));
        out.message(23, &items);
    }
    if schema["properties"].is_object() {
        out.message(25, &named(schema["properties"].as_object()));
    }
    let extensions = schema.as_object().into_iter().flatten();
    for (name, value) in extensions.filter(|(name, _)| name.starts_with("x-")) {
        let mut extension = Message::default();
        extension.bytes(1, name.as_bytes());
        extension.message(2, &any(value));
        out.message(31, &extension);
    }
    out
}

/// Any value, as YAML.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, value.to_string().as_bytes());
    out
}

/// The fields of a message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A text, unless the value is none or is empty.
    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn message(&mut self, number: u64, message: &Message) {
        self.bytes(number, &message.0);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }
}
