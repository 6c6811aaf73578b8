//! Strategic merge patch: a merge patch that knows the types of the kind, so that lists can be merged by a key, and that may
//! hold directives: `$patch`, `$retainKeys`, `$setElementOrder/x`, `$deleteFromPrimitiveList/x`.
//!
//! # Design
//!
//! The patch is worked through member by member, in the order of their names (Go takes them as they come), and what is done
//! to the object is also done to the patch: the real server shows what is left of it in errors about the result, as
//! [`left_over`] does. Maps are here, [`lists`] are merged and ordered, [`value`] is what Go makes of JSON.
//!
//! What would be quadratic in the length of lists looks keys up in tables. Where the real server panics, which breaks the
//! connection, this is an error that says so.

mod lists;
mod value;

use std::borrow::Cow;

use self::lists::{Merge, merge_lists, set_element_orders};
use self::value::{GoKind, Verb, kind, scalar, shown};
use super::document::{Entries, Node, get, remove, set};
use super::{MAX_DEPTH, PatchError, check_depth};
use crate::codec::{GoType, Strategy};
use crate::json::{Kind, Tape};
use crate::steps::step;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a type.
pub(super) fn apply(current: &Tape<'_>, patch: &[u8], of: GoType) -> Result<Vec<u8>, PatchError> {
    let patch = parse(patch)?;
    let (document, _) = run(current, &patch, of)?;
    let mut out = Vec::with_capacity(current.root().raw().len() + patch.root().raw().len());
    document.write(&mut out);
    Ok(out)
}

/// What is left of a patch after it was applied, as Go shows it.
pub(super) fn left_over(current: &Tape<'_>, patch: &[u8], of: GoType) -> Result<String, PatchError> {
    let patch = parse(patch)?;
    let (_, patch) = run(current, &patch, of)?;
    Ok(shown(&patch, Verb::Value))
}

fn parse(patch: &[u8]) -> Result<Tape<'_>, PatchError> {
    Tape::parse(patch).map_err(|_| PatchError::BadRequest("invalid JSON patch".to_owned()))
}

/// The patched object and what is left of the patch.
fn run<'t>(current: &'t Tape<'t>, patch: &'t Tape<'t>, of: GoType) -> Result<(Node<'t>, Node<'t>), PatchError> {
    let root = patch.root();
    let bad = |what: String, of: &str| {
        PatchError::BadRequest(format!("json: cannot unmarshal {what} into Go value of type {of}"))
    };
    let mut left = match root.kind() {
        Kind::Object => Node::Parsed(root),
        Kind::Null => Node::Object(Entries::new()),
        kind => return Err(bad(kind.go_name().to_owned(), "map[string]interface {}")),
    };
    if let Some(number) = patch.too_large_number() {
        return Err(bad(format!("number {number}"), "float64"));
    }
    check_depth(root)?;
    let document = merge_maps(Node::Parsed(current.root()), &mut left, of, 0)?;
    Ok((document, left))
}

fn internal(text: String) -> PatchError {
    PatchError::Internal(text)
}

fn panics() -> PatchError {
    internal("the real server panics on this patch and breaks the connection".to_owned())
}

fn no_merge_key(map: &Node<'_>, key: &str) -> PatchError {
    let map = shown(map, Verb::Value);
    internal(format!("map: {map} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Node<'_>, map: &Node<'_>) -> PatchError {
    let (directive, map) = (shown(directive, Verb::Text), shown(map, Verb::Value));
    internal(format!("unknown patch type: {directive} in map: {map}"))
}

fn bad_type(expected: GoKind, node: &Node<'_>) -> PatchError {
    let (expected, actual) = (expected.shown(), kind(node).shown());
    internal(format!("expected a {expected}, but received a {actual}"))
}

/// The text of a node.
fn text<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    match node {
        Node::Parsed(value) => value.as_str(),
        _ => None,
    }
}

/// Merges a map of the patch into one of the object.
fn merge_maps<'t>(
    mut original: Node<'t>,
    patch: &mut Node<'t>,
    of: GoType,
    depth: usize,
) -> Result<Node<'t>, PatchError> {
    if depth > MAX_DEPTH {
        return Err(PatchError::too_deep());
    }
    if let Some(directive) = patch.member(DIRECTIVE) {
        let directive = directive.clone();
        return match text(&directive).as_deref() {
            Some("replace") => {
                patch.remove_member(DIRECTIVE);
                Ok(patch.clone())
            }
            Some("delete") => Ok(Node::Object(Entries::new())),
            _ => Err(unknown_directive(&directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    set_element_orders(&mut original, patch, of, depth)?;
    let (Some(entries), Some(members)) = (original.object(), patch.object()) else {
        return Ok(original);
    };
    for (name, value) in members {
        let (name, merge) = match list_of(name, DELETE_FROM_LIST)? {
            Some("") => (name.clone(), Merge::Delete),
            Some(list) => (Cow::Owned(list.to_owned()), Merge::Delete),
            None => (name.clone(), Merge::Union),
        };
        merge_member(entries, name, value, of, merge, depth)?;
    }
    Ok(original)
}

/// The list that a directive is about; `None` for what is no such directive.
fn list_of<'n>(name: &'n str, directive: &str) -> Result<Option<&'n str>, PatchError> {
    let Some(rest) = name.strip_prefix(directive) else {
        return Ok(None);
    };
    rest.strip_prefix('/').map(Some).ok_or_else(|| {
        let what = if directive == SET_ORDER {
            "setElementOrder list"
        } else {
            "primitive list"
        };
        PatchError::BadRequest(format!("invalid patch format of {what}"))
    })
}

/// Merges one member of a map of the patch.
fn merge_member<'t>(
    entries: &mut Entries<'t>,
    name: Cow<'t, str>,
    value: &mut Node<'t>,
    of: GoType,
    merge: Merge,
    depth: usize,
) -> Result<(), PatchError> {
    step();
    let kind_of = kind(value);
    if kind_of == GoKind::Nil {
        remove(entries, &name);
        return Ok(());
    }
    let Some(old) = get(entries, &name).filter(|old| kind(old) == kind_of) else {
        if merge == Merge::Union {
            value.discard_nulls();
            match without_directives(value) {
                Some(new) => set(entries, name, new),
                None => drop(remove(entries, &name)),
            }
        }
        return Ok(());
    };
    match kind_of {
        GoKind::Map => {
            let member = of.member(&name).map_err(internal)?;
            *old = if member.strategy == Strategy::Replace {
                value.clone()
            } else {
                merge_maps(std::mem::replace(old, Node::Null), value, member.of, depth + 1)?
            };
        }
        GoKind::List => {
            let member = of.list_member(&name).map_err(internal)?;
            let list = std::mem::replace(old, Node::Null);
            *old = Node::Array(merge_lists(list, value, member, merge, depth)?.ordered);
        }
        _ => *old = value.clone(),
    }
    Ok(())
}

/// Does what `$retainKeys` says: members that it does not name go.
fn retain_keys(original: &mut Node<'_>, patch: &mut Node<'_>) -> Result<(), PatchError> {
    let Some(members) = patch.object() else { return Ok(()) };
    let Some(mut directive) = remove(members, RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let items = directive.array().ok_or_else(bad)?;
    if items.iter().any(|item| scalar(item).is_none()) {
        return Err(panics());
    }
    let retained: std::collections::HashSet<_> = items.iter().filter_map(text).collect();
    for (name, value) in members.iter() {
        let counts = !value.is_null() && !name.starts_with(DELETE_FROM_LIST) && !name.starts_with(SET_ORDER);
        if counts && !retained.contains(&**name) {
            return Err(bad());
        }
    }
    if let Some(entries) = original.object() {
        entries.retain(|name, _| retained.contains(&**name));
    }
    Ok(())
}

/// A value without the maps below it that hold a directive; `None` if it is one itself. What is in maps loses them in the
/// patch, too, a list by itself does not.
fn without_directives<'t>(node: &mut Node<'t>) -> Option<Node<'t>> {
    if kind(node) != GoKind::List {
        return strip(node).then(|| node.clone());
    }
    let items = node.array()?.iter_mut();
    Some(Node::Array(
        items.filter_map(|item| strip(item).then(|| item.clone())).collect(),
    ))
}

/// Takes the maps that hold a directive out of a value; says whether it is none itself.
fn strip(node: &mut Node<'_>) -> bool {
    if let Node::Parsed(value) = node
        && !value.may_hold(DIRECTIVE)
    {
        return true;
    }
    if let Some(entries) = node.object() {
        if get(entries, DIRECTIVE).is_some() {
            return false;
        }
        entries.retain(|_, node| strip(node));
    } else if let Some(items) = node.array() {
        items.retain_mut(strip);
    }
    true
}

#[cfg(test)]
mod tests;
