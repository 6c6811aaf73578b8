//! YAML bodies, turned into JSON text.
//!
//! The first document counts, as on the real server. Scalars resolve by YAML 1.1 (`yes` is true, `012` is ten).

mod error;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::json::write;

/// Nesting deeper than this is refused: the YAML library and its visitors recurse.
const MAX_DEPTH: usize = 64;

/// The JSON text of the first document, and its duplicate keys in the server's words.
///
/// # Errors
///
/// The parser's text.
pub(super) fn to_json(body: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    let text = first_document(error::readable(body)?);
    error::check_directives(text)?;
    let mut out = Vec::with_capacity(text.len() + text.len() / 4);
    let mut duplicates = Vec::new();
    if text
        .lines()
        .all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#'))
    {
        return Ok((b"null".to_vec(), duplicates));
    }
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Node {
            out: &mut out,
            duplicates: &mut duplicates,
            depth: 0,
        }
        .deserialize(deserializer)
    })
    .map_err(|error| {
        let text = error.to_string();
        if text.contains(UNSUPPORTED_VALUE) {
            format!("{UNSUPPORTED_VALUE} +Inf")
        } else {
            format!("yaml: {}", error::translate(body, &text))
        }
    })?;
    let duplicates = if duplicates.is_empty() {
        duplicates
    } else {
        vec![format!("{DUPLICATES}{}", duplicates.join("\n"))]
    };
    Ok((out, duplicates))
}

/// What opens the text about duplicate keys.
const DUPLICATES: &str = "yaml: unmarshal errors:\n";

/// The findings of a text, one by one, as warnings tell them.
pub(super) fn findings(text: &str) -> impl Iterator<Item = &str> {
    let all = text
        .strip_prefix(DUPLICATES)
        .map(|list| list.split('\n').map(str::trim));
    let one = if all.is_none() { Some(text) } else { None };
    all.into_iter().flatten().chain(one)
}

const UNSUPPORTED_VALUE: &str = "json: unsupported value:";

/// The text up to the end of the first document. A marker in the first column is never content.
fn first_document(text: &str) -> &str {
    let mut started = false;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end();
        let is_start = marker == "---" || marker.starts_with("--- ");
        if started && (is_start || marker == "...") {
            return &text[..offset];
        }
        started |= is_start && marker.len() > 4 || !is_start && !marker.is_empty() && !marker.starts_with(['#', '%']);
        offset += line.len();
    }
    text
}

/// Writes one node as JSON.
struct Node<'o> {
    out: &'o mut Vec<u8>,
    /// Lines of the server's text about duplicate keys.
    duplicates: &'o mut Vec<String>,
    depth: usize,
}

impl Node<'_> {
    fn child(&mut self) -> Node<'_> {
        Node {
            out: self.out,
            duplicates: self.duplicates,
            depth: self.depth + 1,
        }
    }

    fn check_depth<E: serde::de::Error>(&self) -> Result<(), E> {
        if self.depth > MAX_DEPTH {
            Err(E::custom("exceeded max depth"))
        } else {
            Ok(())
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        write::int(self.out, value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(UNSUPPORTED_VALUE));
        }
        write::float(self.out, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        write::string(self.out, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.check_depth()?;
        self.out.push(b'[');
        loop {
            let before = self.out.len();
            write::comma(self.out);
            if items.next_element_seed(self.child())?.is_none() {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.check_depth()?;
        self.out.push(b'{');
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            let key = key.value;
            write::comma(self.out);
            write::string(self.out, &key);
            self.out.push(b':');
            entries.next_value_seed(self.child())?;
            if !seen.insert(key.clone()) {
                self.duplicates.push(format!(
                    "  line {line}: key {} already set in map",
                    crate::gotext::go_quote(&key)
                ));
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}
