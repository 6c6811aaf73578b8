//! JSON as Go holds it without a type: kinds, scalars that can be compared, and what `fmt` shows of it.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::gotext::go_float;
use crate::json::{Kind, Value, canonical};
use crate::patch::Node;

/// What is nested deeper is cut short in texts.
const MAX_SHOWN_DEPTH: usize = 500;

/// What Go calls the type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoKind {
    Nil,
    Bool,
    Int,
    Float,
    Text,
    List,
    Map,
}

impl GoKind {
    /// As `%s` shows the type.
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Nil => "%!s(<nil>)",
            Self::Bool => "bool",
            Self::Int => "int64",
            Self::Float => "float64",
            Self::Text => "string",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
        }
    }
}

/// A value that is equal to others, or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scalar<'t> {
    Nil,
    Bool(bool),
    Int(i64),
    /// The bits, of one zero only.
    Float(u64),
    Text(Cow<'t, str>),
}

fn number(value: Value<'_>) -> Result<i64, f64> {
    let digits = value.as_number().unwrap_or_default();
    digits.parse().map_err(|_| digits.parse().unwrap_or_default())
}

/// The kind of a value.
pub(super) fn kind(node: &Node<'_>) -> GoKind {
    match node {
        Node::Null => GoKind::Nil,
        Node::Object(_) => GoKind::Map,
        Node::Array(_) => GoKind::List,
        Node::Parsed(value) => match value.kind() {
            Kind::Null => GoKind::Nil,
            Kind::False | Kind::True => GoKind::Bool,
            Kind::Number if number(*value).is_ok() => GoKind::Int,
            Kind::Number => GoKind::Float,
            Kind::String => GoKind::Text,
            Kind::Array => GoKind::List,
            Kind::Object => GoKind::Map,
        },
    }
}

/// A value to compare; `None` for lists and maps, of which Go compares none.
pub(super) fn scalar<'t>(node: &Node<'t>) -> Option<Scalar<'t>> {
    match node {
        Node::Null => Some(Scalar::Nil),
        Node::Object(_) | Node::Array(_) => None,
        Node::Parsed(value) => scalar_of(*value),
    }
}

fn scalar_of(value: Value<'_>) -> Option<Scalar<'_>> {
    Some(match value.kind() {
        Kind::Null => Scalar::Nil,
        Kind::False => Scalar::Bool(false),
        Kind::True => Scalar::Bool(true),
        Kind::Number => match number(value) {
            Ok(int) => Scalar::Int(int),
            Err(float) => Scalar::Float((float + 0.0).to_bits()),
        },
        Kind::String => Scalar::Text(value.as_str().unwrap_or_default()),
        Kind::Array | Kind::Object => return None,
    })
}

/// What a map has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found<'t> {
    NoMap,
    Missing,
    Scalar(Scalar<'t>),
    /// A list or a map.
    Other,
}

/// Looks a key up without changing the node.
pub(super) fn look_up<'t>(node: &Node<'t>, key: &str) -> Found<'t> {
    let found = match node {
        Node::Object(entries) => entries.get(key).map(scalar),
        Node::Parsed(value) if value.kind() == Kind::Object => value.get(key).map(scalar_of),
        _ => return Found::NoMap,
    };
    match found {
        None => Found::Missing,
        Some(Some(scalar)) => Found::Scalar(scalar),
        Some(None) => Found::Other,
    }
}

/// Which verb of `fmt` shows a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// `%v`
    Value,
    /// `%s`, to which everything but a text is wrong.
    Text,
}

/// A value as `fmt` shows it.
pub(super) fn shown(node: &Node<'_>, verb: Verb) -> String {
    let mut out = String::new();
    show(node, verb, 0, &mut out);
    out
}

/// Lists as `fmt` shows a list of them.
pub(super) fn shown_lists(lists: &[&[Node<'_>]]) -> String {
    let shown = |list: &&[Node<'_>]| shown_list(list);
    format!("[{}]", lists.iter().map(shown).collect::<Vec<_>>().join(" "))
}

/// A list as `%v` shows it.
pub(super) fn shown_list(items: &[Node<'_>]) -> String {
    let shown = |item: &Node<'_>| shown(item, Verb::Value);
    format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" "))
}

fn show(node: &Node<'_>, verb: Verb, depth: usize, out: &mut String) {
    if depth > MAX_SHOWN_DEPTH {
        out.push('…');
        return;
    }
    match node {
        Node::Null => show_scalar(&Scalar::Nil, verb, depth, out),
        Node::Object(entries) => show_map(entries.iter().map(|(key, node)| (&**key, node)), verb, depth, out),
        Node::Array(items) => show_list(items.iter(), verb, depth, out),
        Node::Parsed(value) => match value.kind() {
            Kind::Object => {
                let entries: Vec<_> = canonical::sorted_entries(*value)
                    .into_iter()
                    .map(|(key, value)| (key.as_str().unwrap_or_default(), Node::Parsed(value)))
                    .collect();
                show_map(entries.iter().map(|(key, node)| (&**key, node)), verb, depth, out);
            }
            Kind::Array => {
                let items: Vec<_> = value.items().map(Node::Parsed).collect();
                show_list(items.iter(), verb, depth, out);
            }
            _ => show_scalar(&scalar_of(*value).unwrap_or(Scalar::Nil), verb, depth, out),
        },
    }
}

fn show_map<'n, 't: 'n>(
    entries: impl Iterator<Item = (&'n str, &'n Node<'t>)>,
    verb: Verb,
    depth: usize,
    out: &mut String,
) {
    out.push_str("map[");
    for (at, (key, node)) in entries.enumerate() {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        show(node, verb, depth + 1, out);
    }
    out.push(']');
}

fn show_list<'n, 't: 'n>(items: impl Iterator<Item = &'n Node<'t>>, verb: Verb, depth: usize, out: &mut String) {
    out.push('[');
    for (at, node) in items.enumerate() {
        if at > 0 {
            out.push(' ');
        }
        show(node, verb, depth + 1, out);
    }
    out.push(']');
}

fn show_scalar(scalar: &Scalar<'_>, verb: Verb, depth: usize, out: &mut String) {
    let (of, text): (_, Cow<'_, str>) = match scalar {
        // Inside of something else it is not told to be wrong.
        Scalar::Nil if verb == Verb::Text && depth == 0 => (None, "%!s(<nil>)".into()),
        Scalar::Nil => (None, "<nil>".into()),
        Scalar::Bool(set) => (Some("bool"), set.to_string().into()),
        Scalar::Int(number) => (Some("int64"), number.to_string().into()),
        Scalar::Float(bits) => (Some("float64"), go_float(f64::from_bits(*bits)).into()),
        Scalar::Text(text) => (None, (&**text).into()),
    };
    // Writing to a string cannot fail.
    let _ = match of.filter(|_| verb == Verb::Text) {
        Some(of) => write!(out, "%!s({of}={text})"),
        None => write!(out, "{text}"),
    };
}
