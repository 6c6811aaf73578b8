//! `fieldSelector=`: the grammar and the texts of the server's parser, and the fields that it may name.

use std::borrow::Cow;

use super::SelectorError;
use crate::steps::step;
use crate::{
    gotext,
    json::{Tape, scan},
    kinds::Resource,
    object::{Canonical, Object},
};

/// Labels of built-in kinds that are not the path of the field that they name, and what an absent field counts as. Those of custom
/// resources are always their paths.
const SPECIAL: [(&str, &str, &str); 6] = [
    ("spec.hostNetwork", "spec.hostNetwork", "false"),
    ("status.replicas", "status.replicas", "0"),
    ("status.successful", "status.succeeded", "0"),
    ("source", "source.component", ""),
    ("reportingComponent", "reportingComponent", ""),
    ("reportingController", "reportingController", ""),
];

/// Where an object's selectable fields are in its canonical bytes; a missing one is the empty string, as on the real server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSet {
    /// Only non-empty values, without `metadata.name` and `metadata.namespace`.
    values: Box<[Found]>,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Its place among the selectable fields of the stored version, which are the same for all that share a storage.
    field: u32,
    start: u32,
    /// Invariant: not before `start`; there if the field is absent, and counts as something.
    end: u32,
}

/// A field that is looked for.
struct Sought<'r> {
    field: u32,
    /// What is left of the path.
    path: &'r str,
    /// Whether an absent one counts as something.
    has_default: bool,
    found: Option<(u32, u32)>,
}

impl FieldSet {
    /// Takes the selectable fields of `resource` from an object in the stored version.
    pub(crate) fn of(resource: &Resource, object: &Object, canonical: &Canonical) -> Self {
        let mut sought: Vec<Sought<'_>> = Vec::new();
        for (field, label) in (0..).zip(resource.stored_fields().iter().map(|field| &*field.label)) {
            if label.starts_with("metadata.") || canonical_label(resource, label) != label {
                continue;
            }
            let special = special(label).filter(|_| !resource.custom);
            let (path, absent) = special.unwrap_or((label, ""));
            sought.push(Sought {
                field,
                path,
                has_default: !absent.is_empty(),
                found: None,
            });
        }
        if sought.is_empty() {
            return Self::default();
        }
        for (name, start, value) in canonical.fields(object) {
            let mut is_inside = false;
            for sought in &mut sought {
                match sought.path.split_once('.') {
                    None if sought.path == name => sought.found = place_of_scalar(value, start),
                    Some((first, _)) => is_inside |= first == name,
                    None => {}
                }
            }
            // All that are inside of the same field are found in one go.
            let members = is_inside.then(|| scan::members(value)).into_iter().flatten();
            for (key, at, value) in members {
                for sought in &mut sought {
                    match sought.path.split_once('.') {
                        Some((first, path)) if first == name => {
                            if let Some(found) = place_in_member(path, key, value, start + at) {
                                sought.found = Some(found);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        let found = |sought: Sought<'_>| {
            let place = sought.found.or(sought.has_default.then_some((0, 0)));
            place.map(|(start, end)| Found {
                field: sought.field,
                start,
                end,
            })
        };
        Self {
            values: sought.into_iter().filter_map(found).collect(),
        }
    }

    /// The value of a selectable field of `resource`, by its place among those of the stored version.
    fn get<'c>(&self, field: Option<u32>, label: &str, canonical: &'c [u8]) -> Cow<'c, str> {
        let found = field.and_then(|field| self.values.iter().find(|found| found.field == field));
        match found {
            None => Cow::Borrowed(""),
            Some(found) if found.start == found.end => Cow::Borrowed(special(label).map_or("", |(_, absent)| absent)),
            Some(found) => text(&canonical[found.start as usize..found.end as usize]),
        }
    }
}

/// Where the value of a label is that is not its path, and what an absent one counts as.
fn special(label: &str) -> Option<(&'static str, &'static str)> {
    let row = SPECIAL.iter().find(|(special, _, _)| *special == label);
    row.map(|(_, path, absent)| (*path, *absent))
}

/// The place of the scalar at a path, if it leads to or into this member of an object.
fn place_in_member(path: &str, key: &[u8], value: &[u8], start: usize) -> Option<(u32, u32)> {
    match path.split_once('.') {
        None if path.as_bytes() == key => place_of_scalar(value, start),
        Some((first, rest)) if first.as_bytes() == key => {
            scan::members(value).find_map(|(key, at, value)| place_in_member(rest, key, value, start + at))
        }
        _ => None,
    }
}

/// The place of a value that is a scalar and not the empty text.
fn place_of_scalar(value: &[u8], start: usize) -> Option<(u32, u32)> {
    let counts = !matches!(value.first(), None | Some(b'{' | b'[' | b'n')) && value != b"\"\"";
    let end = start + value.len();
    counts.then_some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
}

/// A scalar as text.
fn text(value: &[u8]) -> Cow<'_, str> {
    let plain = match value {
        [b'"', text @ .., b'"'] => text,
        other => other,
    };
    if !plain.contains(&b'\\') {
        return std::str::from_utf8(plain).map_or_else(|_| Cow::default(), Cow::Borrowed);
    }
    let tape = Tape::parse(value).ok();
    let text = tape.as_ref().and_then(|tape| tape.root().as_str());
    text.map_or_else(Cow::default, |text| Cow::Owned(text.into_owned()))
}

/// The label that an old name of a built-in kind stands for.
fn canonical_label<'l>(resource: &Resource, label: &'l str) -> &'l str {
    if label == "spec.host" && !resource.custom {
        "spec.nodeName"
    } else {
        label
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    /// The place of the field among the selectable ones of the stored version.
    field: Option<u32>,
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

    /// A text that is read as this selector; the same one whatever the order of the terms.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn to_text(&self) -> String {
        let one = |term: &Term| {
            let operator = if term.equal { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            format!("{}{operator}{value}", term.label)
        };
        let mut parts: Vec<String> = self.terms.iter().map(one).collect();
        parts.sort();
        parts.join(",")
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
            term.label = resource.stored_label(canonical_label(resource, &term.label)).to_owned();
            let mut fields = (0..).zip(resource.stored_fields());
            term.field = fields.find_map(|(at, field)| (field.label == term.label).then_some(at));
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

    /// Whether an object of this name, namespace and these fields of its canonical bytes matches.
    pub(crate) fn matches(&self, name: &str, namespace: &str, fields: &FieldSet, canonical: &[u8]) -> bool {
        self.terms.iter().all(|term| {
            let value = match term.label.as_str() {
                "metadata.name" => Cow::Borrowed(name),
                "metadata.namespace" => Cow::Borrowed(namespace),
                label => fields.get(term.field, label, canonical),
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
        step();
        let Some((label, operator, value)) = split_term(part) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        terms.push(Term {
            label: label.to_owned(),
            field: None,
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
