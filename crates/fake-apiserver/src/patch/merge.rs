//! Merge patch (RFC 7386).

use super::{
    MAX_DEPTH, PatchError, check_depth,
    document::{Entries, Node, get, remove, set},
};
use crate::codec::FieldValidation;
use crate::json::{Kind, Tape, Value, canonical};
use crate::steps::step;

/// Applies a merge patch.
pub(super) fn apply(current: &Tape<'_>, patch: &[u8], validation: FieldValidation) -> Result<Vec<u8>, PatchError> {
    let patch = Tape::parse(patch).map_err(|_| PatchError::BadRequest("invalid JSON patch".to_owned()))?;
    let root = patch.root();
    match root.kind() {
        Kind::Object => {}
        // Whatever it is then, it replaces the object.
        Kind::Array if validation == FieldValidation::Ignore => return Ok(root.raw_quoted().to_vec()),
        _ if validation == FieldValidation::Ignore => {
            return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned()));
        }
        Kind::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        kind => {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                kind.go_name()
            )));
        }
    }
    if validation != FieldValidation::Ignore {
        canonical::write(&mut Vec::new(), root).map_err(|range| {
            let number = range.0;
            PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal number {number} into Go value of type float64"
            ))
        })?;
    }
    let mut document = Node::Parsed(current.root());
    merge(&mut document, root, 0)?;
    let mut out = Vec::with_capacity(current.root().raw().len() + root.raw().len());
    document.write(&mut out);
    Ok(out)
}

/// Merges an object of the patch into a node: null removes, an object merges, anything else replaces.
fn merge<'t>(target: &mut Node<'t>, patch: Value<'t>, depth: usize) -> Result<(), PatchError> {
    if depth > MAX_DEPTH {
        return Err(PatchError::too_deep());
    }
    if target.object().is_none() {
        *target = Node::Object(Entries::new());
    }
    let Some(entries) = target.object() else { return Ok(()) };
    // The last of duplicates is all that there is.
    for (key, value) in canonical::sorted_entries(patch) {
        step();
        let key = key.as_str().unwrap_or_default();
        match value.kind() {
            Kind::Null => {
                remove(entries, &key);
            }
            Kind::Object => {
                if let Some(old) = get(entries, &key) {
                    merge(old, value, depth + 1)?;
                } else {
                    // A new object loses its nulls too.
                    let mut new = Node::Object(Entries::new());
                    merge(&mut new, value, depth + 1)?;
                    set(entries, key, new);
                }
            }
            Kind::Array if get(entries, &key).is_none_or(|old| old.object().is_none()) => {
                // It loses the nulls of objects in it, but for where it replaces an object.
                let mut new = Node::Parsed(value);
                if value.may_hold("null") {
                    check_depth(value)?;
                    new.discard_nulls();
                }
                set(entries, key, new);
            }
            _ => set(entries, key, Node::Parsed(value)),
        }
    }
    Ok(())
}
