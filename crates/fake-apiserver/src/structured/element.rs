//! One step of a path to a field, in the order and the text that the real server gives it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::gotext::go_quote;
use crate::json::{Kind, Value, canonical, write};

/// A value that is part of a path: of a key field, or an item of a set.
#[derive(Debug, Clone)]
pub(crate) enum Literal<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// A list or a map, as canonical JSON. No type allows one here; managed fields that a client sends may hold it.
    Other(String),
}

impl<'a> Literal<'a> {
    /// The literal of a parsed value.
    pub(crate) fn of(value: Value<'a>) -> Self {
        match value.kind() {
            Kind::Null => Self::Null,
            Kind::False => Self::Bool(false),
            Kind::True => Self::Bool(true),
            Kind::Number => {
                let digits = value.as_number().unwrap_or_default();
                digits
                    .parse()
                    .map_or_else(|_| Self::Float(digits.parse().unwrap_or_default()), Self::Int)
            }
            Kind::String => Self::Text(value.as_str().unwrap_or_default()),
            Kind::Array | Kind::Object => {
                let mut out = Vec::new();
                // A number out of range ends the text early: it then names another value, as any text would.
                let _ = canonical::write(&mut out, value);
                Self::Other(String::from_utf8(out).unwrap_or_default())
            }
        }
    }

    /// The same without the memory of what it was parsed from.
    pub(crate) fn into_owned(self) -> Literal<'static> {
        match self {
            Self::Null => Literal::Null,
            Self::Bool(value) => Literal::Bool(value),
            Self::Int(value) => Literal::Int(value),
            Self::Float(value) => Literal::Float(value),
            Self::Text(text) => Literal::Text(Cow::Owned(text.into_owned())),
            Self::Other(json) => Literal::Other(json),
        }
    }

    /// Appends the JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Int(value) => write::int(out, *value),
            Self::Float(value) => write::float(out, *value),
            Self::Text(text) => write::string(out, text),
            Self::Other(json) => out.extend_from_slice(json.as_bytes()),
        }
    }

    /// Numbers come first, then texts, booleans, containers, null.
    fn rank(&self) -> u8 {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::Text(_) => 1,
            Self::Bool(_) => 2,
            Self::Other(_) => 3,
            Self::Null => 4,
        }
    }
}

impl Ord for Literal<'_> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "as the real server compares the two kinds of numbers"
    )]
    fn cmp(&self, other: &Self) -> Ordering {
        let floats = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => floats(*a, *b),
            (Self::Int(a), Self::Float(b)) => floats(*a as f64, *b),
            (Self::Float(a), Self::Int(b)) => floats(*a, *b as f64),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Other(a), Self::Other(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Literal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Literal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Literal<'_> {}

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(_) => {
                let mut out = Vec::new();
                self.write(&mut out);
                f.write_str(&String::from_utf8_lossy(&out))
            }
            Self::Text(text) => f.write_str(&go_quote(text)),
            Self::Other(json) => f.write_str(json),
        }
    }
}

/// One step of a path. The order is the real server's: fields, then keys, values, indexes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element<'a> {
    /// A field of a struct, or a key of a map.
    Field(Cow<'a, str>),
    /// The item of a list whose key fields have these values. Invariant: sorted by name.
    Key(Vec<(Cow<'a, str>, Literal<'a>)>),
    /// An item of a set.
    Value(Literal<'a>),
    /// An item by its place.
    Index(i64),
}

impl<'a> Element<'a> {
    /// The element of key fields in any order.
    pub(crate) fn of_fields(mut fields: Vec<(Cow<'a, str>, Literal<'a>)>) -> Self {
        // By name alone, as on the real server: values of a name that a client says twice stay as they come.
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Element<'_> {
        Element::Field(name.into())
    }

    #[test]
    fn elements_order_as_on_the_real_server() {
        // [F11]
        let key = |value: Literal<'static>| Element::Key(vec![("name".into(), value)]);
        let sorted = [
            field("a"),
            field("b"),
            key(Literal::Int(9)),
            key(Literal::Float(9.5)),
            key(Literal::Text("a".into())),
            key(Literal::Bool(false)),
            key(Literal::Bool(true)),
            Element::Value(Literal::Int(1)),
            Element::Value(Literal::Text("".into())),
            Element::Value(Literal::Null),
            Element::Index(0),
            Element::Index(10),
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(a.cmp(b), at.cmp(&other), "{a} and {b}");
            }
        }
        assert_eq!(key(Literal::Int(80)), key(Literal::Float(80.0)));
    }

    #[test]
    fn elements_show_as_in_the_texts_of_conflicts() {
        // [F11]
        let key = Element::Key(vec![
            ("containerPort".into(), Literal::Int(80)),
            ("protocol".into(), Literal::Text("T\"CP".into())),
        ]);
        assert_eq!(key.to_string(), r#"[containerPort=80,protocol="T\"CP"]"#);
        assert_eq!(field("a").to_string(), ".a");
        assert_eq!(Element::Value(Literal::Text("x".into())).to_string(), r#"[="x"]"#);
        assert_eq!(Element::Value(Literal::Bool(true)).to_string(), "[=true]");
        assert_eq!(Element::Index(3).to_string(), "[3]");
    }
}
