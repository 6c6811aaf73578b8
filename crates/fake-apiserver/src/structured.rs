//! Structured merge: who owns which part of an object, and how two objects become one, by the types of their values.
//!
//! [`Set`] is a set of fields, [`fields_v1`] its wire form. [`Schema`] says of each value whether it is owned as a whole or
//! part by part, and what tells the items of a list apart. Four walks go over a type and its values: [`check`] finds
//! what is not of the type, [`fields_of`] gives the set of what is there, [`compare`] the sets of what two values
//! differ in, [`merge`] puts one over the other; [`remove`] takes a set away. [`reconcile`] fits a set to a schema that has
//! changed. Nothing here knows objects, managers or storage: that is `managed_fields`.
//!
//! The walks recurse over values, whose depth a body decides: below [`MAX_DEPTH`] levels a value is one leaf.

mod check;
mod compare;
mod element;
mod fields_of;
pub(crate) mod fields_v1;
mod gofmt;
mod merge;
mod reconcile;
mod remove;
mod schema;
mod set;

pub(crate) use check::check;
pub(crate) use compare::{Comparison, compare};
use element::{Element, Literal};
pub(crate) use fields_of::fields_of;
pub(crate) use gofmt::{plain as go_plain, type_of as go_type_of};
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove;
pub(crate) use schema::{Schema, Type, of_definition};
pub(crate) use set::{Set, of_paths};

use std::fmt;

use schema::ListType;

use crate::json::{Kind, Value, canonical};
use crate::told::Told;

/// Deeper levels are not told apart, so that the walks fit the stack of a thread.
const MAX_DEPTH: usize = 256;

/// Where a walk is: an element, and the place that holds it. Becomes a text only where something is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'p> {
    above: Option<&'p At<'p>>,
    element: &'p Element<'p>,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As deep as the walks.
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        self.element.fmt(f)
    }
}

/// What is wrong with a value, and where.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problems {
    texts: Vec<String>,
    told: Told,
}

impl Problems {
    fn add(&mut self, at: Option<&At<'_>>, text: impl FnOnce() -> String) {
        self.texts.extend(self.told.word(|| match at {
            None => text(),
            Some(at) => format!("{at}: {}", text()),
        }));
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len() + self.told.left_out()
    }

    /// The text of all problems.
    pub(crate) fn text(mut self) -> String {
        self.texts.extend(self.told.rest().map(|rest| rest.to_string()));
        match self.texts.as_slice() {
            [problem] => problem.clone(),
            many => {
                let lines: Vec<String> = many.iter().map(|problem| format!("\n  {problem}")).collect();
                format!("errors:{}", lines.concat())
            }
        }
    }
}

/// What tells an item of a list apart from the others.
///
/// # Errors
///
/// The text about an item that nothing tells apart.
fn element_of<'t>(list: ListType<'_>, item: Value<'t>) -> Result<Element<'t>, String> {
    let keys = list.keys();
    if keys.is_empty() {
        return match item.kind() {
            Kind::Object => Err("associative list without keys has an element that's a map type".to_owned()),
            Kind::Array => Err("not supported: associative list with lists as elements".to_owned()),
            Kind::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            _ => Ok(Element::Value(Literal::of(item))),
        };
    }
    match item.kind() {
        Kind::Null => return Err("associative list with keys may not have a null element".to_owned()),
        Kind::Object => {}
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    }
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        let value = match item.get(key) {
            Some(value) => Some(Literal::of(value)),
            None => list.default_of(key).cloned(),
        };
        fields.extend(value.map(|value| (key.clone(), value)));
    }
    if fields.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| crate::gotext::go_quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for \
             any key fields)",
            keys.join(" ")
        ));
    }
    Ok(Element::of_fields(fields))
}

/// Whether two values are equal.
pub(crate) fn equal(a: Value<'_>, b: Value<'_>) -> bool {
    if a.raw_quoted() == b.raw_quoted() {
        return true;
    }
    let canonical = |value: Value<'_>| {
        let mut out = Vec::with_capacity(value.raw().len());
        canonical::write(&mut out, value).map(|()| out)
    };
    matches!((canonical(a), canonical(b)), (Ok(a), Ok(b)) if a == b)
}

/// The entries of a map or struct; none for any other value.
fn entries(value: Option<Value<'_>>) -> Vec<(Value<'_>, Value<'_>)> {
    value.map(canonical::sorted_entries).unwrap_or_default()
}

/// The entries of two maps side by side, in key order.
fn zip<'t>(a: Option<Value<'t>>, b: Option<Value<'t>>) -> Vec<(Value<'t>, Option<Value<'t>>, Option<Value<'t>>)> {
    let (mut left, mut right) = (entries(a).into_iter().peekable(), entries(b).into_iter().peekable());
    let mut zipped = Vec::with_capacity(left.len().max(right.len()));
    if left.len() == 0 {
        // As of all that is new.
        zipped.extend(right.map(|(key, value)| (key, None, Some(value))));
        return zipped;
    }
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return zipped,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) if a.is_plain() && b.is_plain() => a.raw().cmp(b.raw()),
            (Some((a, _)), Some((b, _))) => a.as_str().cmp(&b.as_str()),
        };
        let a = if order.is_gt() { None } else { left.next() };
        let b = if order.is_lt() { None } else { right.next() };
        if let Some((key, _)) = a.or(b) {
            zipped.push((key, a.map(|(_, value)| value), b.map(|(_, value)| value)));
        }
    }
}

/// Two lists or two maps side by side, without what is of another kind; `None` if there is nothing in either.
fn filled<'t>(kind: Kind, a: Option<Value<'t>>, b: Option<Value<'t>>) -> Option<[Option<Value<'t>>; 2]> {
    let both = [a, b].map(|value| value.filter(|value| value.kind() == kind));
    both.iter().any(|value| !is_empty(*value)).then_some(both)
}

/// Whether a list or map has nothing in it, or is none.
fn is_empty(value: Option<Value<'_>>) -> bool {
    value.is_none_or(|value| value.size() == 1)
}
