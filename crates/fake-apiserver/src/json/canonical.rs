//! The canonical form of a value without a schema: keys sorted, the last of duplicate keys, numbers normalised.

use super::{Kind, Value, write};
use crate::steps::step;

/// A number that has no canonical form, because it is beyond the range of a float.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NumberRange(pub(crate) String);

/// One open container.
enum Frame<'t> {
    Array(super::Items<'t>),
    Object(std::vec::IntoIter<(Value<'t>, Value<'t>)>),
}

/// Appends the canonical form of a value. Does not recurse.
///
/// # Errors
///
/// The first number out of range; `out` then ends with a part of the value.
pub(crate) fn write(out: &mut Vec<u8>, value: Value<'_>) -> Result<(), NumberRange> {
    write_with(out, value, write::number)
}

/// The same with the nearest float for each number, integers too: what went through YAML knows no others.
///
/// # Errors
///
/// As for [`write()`].
pub(crate) fn write_floats(out: &mut Vec<u8>, value: Value<'_>) -> Result<(), NumberRange> {
    write_with(out, value, write::nearest_float)
}

fn write_with(out: &mut Vec<u8>, value: Value<'_>, number: fn(&mut Vec<u8>, &str) -> bool) -> Result<(), NumberRange> {
    let mut open: Vec<Frame<'_>> = Vec::new();
    let mut current = Some(value);
    loop {
        step();
        if let Some(value) = current.take() {
            match value.kind() {
                Kind::Array => {
                    out.push(b'[');
                    open.push(Frame::Array(value.items()));
                }
                Kind::Object => {
                    out.push(b'{');
                    open.push(Frame::Object(sorted_entries(value).into_iter()));
                }
                _ => {
                    if !write::scalar(out, value, number) {
                        return Err(NumberRange(value.as_number().unwrap_or_default().to_owned()));
                    }
                }
            }
        }
        match open.last_mut() {
            None => return Ok(()),
            Some(Frame::Array(items)) => {
                if let Some(item) = items.next() {
                    write::comma(out);
                    current = Some(item);
                } else {
                    out.push(b']');
                    open.pop();
                }
            }
            Some(Frame::Object(entries)) => {
                if let Some((key, value)) = entries.next() {
                    write::comma(out);
                    write::parsed_string(out, key);
                    out.push(b':');
                    current = Some(value);
                } else {
                    out.push(b'}');
                    open.pop();
                }
            }
        }
    }
}

/// A key and its value.
type Entry<'t> = (Value<'t>, Value<'t>);

/// The entries of an object in key order, without all but the last of duplicates.
pub(crate) fn sorted_entries(object: Value<'_>) -> Vec<Entry<'_>> {
    merged_entries(&[object]).0
}

/// The entries of some objects in key order, without all but the last of duplicates; and these others.
pub(crate) fn merged_entries<'t>(objects: &[Value<'t>]) -> (Vec<Entry<'t>>, Vec<Entry<'t>>) {
    let size = objects.iter().map(|object| object.size() / 2).sum();
    let mut entries: Vec<Entry<'t>> = Vec::with_capacity(std::cmp::min(size, 16));
    entries.extend(objects.iter().flat_map(|object| object.entries()));
    let plain = entries.iter().all(|(key, _)| key.is_plain());
    let less = |a: &Value<'_>, b: &Value<'_>| {
        if plain {
            a.raw().cmp(b.raw())
        } else {
            a.as_str().cmp(&b.as_str())
        }
    };
    let mut others = Vec::new();
    if !entries.is_sorted_by(|a, b| less(&a.0, &b.0).is_lt()) {
        // Stable, so that the last of equal keys stays last; then reversed for `dedup_by`, which keeps the first.
        entries.sort_by(|a, b| less(&a.0, &b.0));
        entries.reverse();
        entries.dedup_by(|a, b| {
            let is_other = less(&a.0, &b.0).is_eq();
            others.extend(is_other.then_some(*a));
            is_other
        });
        entries.reverse();
    }
    (entries, others)
}
