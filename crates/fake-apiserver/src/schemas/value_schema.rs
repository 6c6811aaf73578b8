//! A schema as a definition has it: every keyword that a definition may hold, those among them that are refused too.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use regex::Regex;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use super::cel::{self, Compiled, Refusal};
use super::regexp;
use crate::json::{Tape, canonical};

/// Schemas nested deeper than this are refused: walks recurse over them.
pub(crate) const MAX_DEPTH: usize = 60;

/// Whether the values of a text are nested too deep for a schema: one of a property lies two levels below its parent's.
pub(crate) fn is_too_deep(json: &[u8]) -> bool {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = crate::json::scan::value_end(json, at) - 1,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest > 2 * MAX_DEPTH
}

/// A JSON value in canonical form: equal values are equal bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json(pub(crate) Bytes);

impl Json {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let tape = Tape::parse(raw.get().as_bytes()).map_err(D::Error::custom)?;
        let mut out = Vec::with_capacity(raw.get().len());
        canonical::write(&mut out, tape.root()).map_err(|range| D::Error::custom(range.0))?;
        Ok(Self(out.into()))
    }
}

/// The schema of the items of a list.
#[derive(Debug)]
pub(crate) enum Items {
    One(Box<ValueSchema>),
    /// One for each place, which no definition may have.
    Many(Vec<ValueSchema>),
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let items = if raw.starts_with('[') {
            serde_json::from_str(raw).map(Self::Many)
        } else {
            serde_json::from_str(raw).map(Self::One)
        };
        items.map_err(D::Error::custom)
    }
}

/// What a map may have beside its properties.
#[derive(Debug)]
pub(crate) enum Additional {
    Any(bool),
    Values(Box<ValueSchema>),
}

impl<'de> Deserialize<'de> for Additional {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw {
            "true" => Ok(Self::Any(true)),
            "false" => Ok(Self::Any(false)),
            schema => serde_json::from_str(schema).map(Self::Values).map_err(D::Error::custom),
        }
    }
}

/// A rule in the expression language.
#[expect(clippy::struct_field_names, reason = "the names that definitions have")]
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub(crate) rule: String,
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: Option<String>,
    pub(crate) field_path: String,
    pub(crate) optional_old_self: Option<bool>,
}

/// One node of a schema.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent keywords, as definitions have them"
)]
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueSchema {
    pub(crate) id: String,
    #[serde(rename = "$schema")]
    pub(crate) schema: String,
    #[serde(rename = "$ref")]
    pub(crate) reference: Option<String>,
    pub(crate) description: String,
    pub(crate) title: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) default: Option<Json>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: String,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    #[serde(rename = "enum")]
    pub(crate) values: Vec<Json>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) items: Option<Items>,
    pub(crate) all_of: Vec<ValueSchema>,
    pub(crate) one_of: Vec<ValueSchema>,
    pub(crate) any_of: Vec<ValueSchema>,
    pub(crate) not: Option<Box<ValueSchema>>,
    pub(crate) properties: BTreeMap<String, ValueSchema>,
    pub(crate) additional_properties: Option<Additional>,
    pub(crate) pattern_properties: BTreeMap<String, ValueSchema>,
    pub(crate) dependencies: Option<serde_json::Map<String, serde_json::Value>>,
    pub(crate) additional_items: Option<serde::de::IgnoredAny>,
    pub(crate) definitions: BTreeMap<String, ValueSchema>,
    pub(crate) external_docs: Option<serde::de::IgnoredAny>,
    pub(crate) example: Option<serde::de::IgnoredAny>,
    pub(crate) nullable: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub(crate) preserves: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub(crate) embedded: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub(crate) int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub(crate) list_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-list-type")]
    pub(crate) list_type: Option<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub(crate) map_type: Option<String>,
    #[serde(rename = "x-kubernetes-validations")]
    pub(crate) rules: Vec<Rule>,
    /// The pattern, made ready on its first use.
    #[serde(skip)]
    pub(super) compiled: OnceLock<Result<Regex, String>>,
    /// The rules, made ready on their first use.
    #[serde(skip)]
    pub(super) programs: OnceLock<Vec<Result<Compiled, Refusal>>>,
    /// Whether this or a schema below has rules.
    #[serde(skip)]
    pub(super) with_rules: OnceLock<bool>,
}

impl ValueSchema {
    /// Reads one from the canonical bytes of a definition.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The pattern that texts must match.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn pattern(&self) -> Result<&Regex, &str> {
        let compiled = self.compiled.get_or_init(|| regexp::compile(&self.pattern));
        compiled.as_ref().map_err(String::as_str)
    }

    /// The rules, ready. Where the schema stands is always the same.
    pub(super) fn compiled_rules(&self, is_root: bool) -> &[Result<Compiled, Refusal>] {
        self.programs.get_or_init(|| {
            self.rules
                .iter()
                .map(|rule| cel::compile(rule, self, is_root))
                .collect()
        })
    }

    /// Whether there are rules, here or below.
    pub(super) fn has_rules(&self) -> bool {
        *self.with_rules.get_or_init(|| {
            let below = self
                .item()
                .into_iter()
                .chain(self.value())
                .chain(self.properties.values());
            !self.rules.is_empty() || below.into_iter().any(Self::has_rules)
        })
    }

    /// The schema of all items.
    pub(crate) fn item(&self) -> Option<&ValueSchema> {
        match &self.items {
            Some(Items::One(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of the values of a map.
    pub(crate) fn value(&self) -> Option<&ValueSchema> {
        match &self.additional_properties {
            Some(Additional::Values(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Whether a value has to be of a type.
    pub(crate) fn has_type(&self) -> bool {
        !self.kind.is_empty() || self.int_or_string
    }

    /// The default, if there is one: null is none.
    pub(crate) fn fallback(&self) -> Option<&Json> {
        self.default.as_ref().filter(|default| !default.is_null())
    }

    /// Whether unknown fields are kept.
    pub(crate) fn preserves(&self) -> bool {
        self.preserves == Some(true)
    }

    /// The type of a property of an object, or of the values of a map.
    pub(crate) fn property(&self, name: &str) -> Option<&ValueSchema> {
        self.properties.get(name).or_else(|| self.value())
    }
}
