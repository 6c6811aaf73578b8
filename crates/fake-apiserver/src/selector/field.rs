//! `fieldSelector=`: the grammar and the texts of the server's parser, and the fields that it may name.

use std::borrow::Cow;

use super::SelectorError;
use crate::{
    gotext,
    json::{Tape, scan},
    kinds::{Name, Resource},
    object::Object,
};

/// Labels that are not the path of the field that they name, and what an absent field counts as.
const SPECIAL: [(&str, &str, &str); 6] = [
    ("spec.hostNetwork", "spec.hostNetwork", "false"),
    ("status.replicas", "status.replicas", "0"),
    ("status.successful", "status.succeeded", "0"),
    ("source", "source.component", ""),
    ("reportingComponent", "reportingComponent", ""),
    ("reportingController", "reportingController", ""),
];

/// The values of an object's selectable fields; a missing one is the empty string, as on the real server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSet {
    /// Only non-empty values, without `metadata.name` and `metadata.namespace`.
    values: Vec<(Name, String)>,
}

impl FieldSet {
    /// Takes the selectable fields of `resource` from an object in the stored version.
    pub(crate) fn of(resource: &Resource, object: &Object) -> Self {
        let mut values = Vec::new();
        for field in resource.stored_fields() {
            let label = &*field.label;
            if label.starts_with("metadata.") || canonical_label(label) != label {
                continue;
            }
            let (path, absent) = SPECIAL
                .iter()
                .find(|(special, _, _)| *special == label)
                .map_or((label, ""), |(_, path, absent)| (*path, *absent));
            let value = lookup(object, path).unwrap_or(Cow::Borrowed(absent));
            if !value.is_empty() {
                values.push((field.label.clone(), value.into_owned()));
            }
        }
        Self { values }
    }

    fn get(&self, label: &str) -> &str {
        self.values
            .iter()
            .find(|(name, _)| name == label)
            .map_or("", |(_, value)| value)
    }
}

/// The label that an old name stands for.
fn canonical_label(label: &str) -> &str {
    if label == "spec.host" { "spec.nodeName" } else { label }
}

/// The scalar at a path, as text.
fn lookup<'o>(object: &'o Object, path: &str) -> Option<Cow<'o, str>> {
    let mut names = path.split('.');
    let mut value: &[u8] = object.field(names.next()?)?;
    for name in names {
        value = scan::member(value, name)?;
    }
    match value.first()? {
        b'"' => {
            let text = &value[1..value.len() - 1];
            if text.contains(&b'\\') {
                let tape = Tape::parse(value).ok()?;
                tape.root().as_str().map(|text| Cow::Owned(text.into_owned()))
            } else {
                std::str::from_utf8(text).ok().map(Cow::Borrowed)
            }
        }
        b'{' | b'[' | b'n' => None,
        _ => std::str::from_utf8(value).ok().map(Cow::Borrowed),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    equal: bool,
    value: String,
}

/// A parsed field selector: all terms must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Parses the query parameter; the empty text selects everything. The labels are not looked at.
    ///
    /// # Errors
    ///
    /// The parser's text.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        parse(text).map(|terms| Self { terms }).map_err(SelectorError)
    }

    /// The selector for a resource, with the labels under their present names.
    ///
    /// # Errors
    ///
    /// The resource's text about a label that it does not know.
    pub(crate) fn of_resource(self, resource: &Resource) -> Result<Self, SelectorError> {
        let selectors = &resource.policy.field_selectors;
        let mut terms = self.terms;
        // No label with no value is a term that always holds.
        terms.retain(|term| !(term.label.is_empty() && term.value.is_empty()));
        for term in &mut terms {
            if !selectors.supports(&term.label) {
                return Err(SelectorError(selectors.unsupported(&term.label)));
            }
            term.label = resource.stored_label(canonical_label(&term.label)).to_owned();
        }
        Ok(Self { terms })
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `label` must have, if the selector says so with `=`.
    pub(crate) fn requires_exact(&self, label: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.label == label)
            .map(|term| term.value.as_str())
    }

    /// Whether an object of this name, namespace and these fields matches.
    pub(crate) fn matches(&self, name: &str, namespace: &str, fields: &FieldSet) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.label.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                label => fields.get(label),
            };
            (value == term.value) == term.equal
        })
    }
}

/// The terms, in the order of their texts: that is the order in which the server finds what is wrong.
fn parse(text: &str) -> Result<Vec<Term>, String> {
    let mut parts = split_terms(text);
    parts.sort_by(|a, b| gotext::bytes(a).cmp(&gotext::bytes(b)));
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some((label, operator, value)) = split_term(part) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        terms.push(Term {
            label: label.to_owned(),
            equal: operator != "!=",
            value: unescape(value)?,
        });
    }
    Ok(terms)
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    let at = term
        .bytes()
        .enumerate()
        .position(|(at, byte)| byte == b'=' || byte == b'!' && term[at..].starts_with("!="))?;
    let length = if term[at..].starts_with("==") || term[at..].starts_with("!=") {
        2
    } else {
        1
    };
    Some((&term[..at], &term[at..at + length], &term[at + length..]))
}

fn unescape(value: &str) -> Result<String, String> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(value.to_owned());
    }
    // From here on the real parser goes by characters, of which a byte that is no UTF-8 makes a replacement.
    let value = gotext::shown(value);
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{shown}"));
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
