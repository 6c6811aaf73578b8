//! The annotation that client-side apply keeps: objects on their way from there to server-side apply.
//!
//! Only one manager is concerned, [`MANAGER`]. What the annotation holds and the object still has, it may take from other
//! managers, and the annotation is written anew when it applies.

use super::WriteContext;
use super::update::Conflicts;
use crate::json::{Tape, Value, canonical, write};
use crate::kinds::Resource;
use crate::patch::Node;
use crate::structured::{Set, check, compare, fields_of};

/// The manager that is concerned.
const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The text of the annotation; `None` if there is none.
fn annotation(object: Value<'_>) -> Option<String> {
    let annotations = object.get("metadata")?.get("annotations")?;
    let text = annotations.get(ANNOTATION)?.as_str()?.into_owned();
    (!text.is_empty()).then_some(text)
}

/// The conflicts that are left when those do not count that the annotation explains.
pub(super) fn conflicts_left<'a>(
    context: &WriteContext<'_>,
    live: Value<'_>,
    mut conflicts: Vec<Conflicts<'a>>,
) -> Vec<Conflicts<'a>> {
    if conflicts.is_empty() || context.manager != MANAGER {
        return conflicts;
    }
    let Some(text) = annotation(live) else { return conflicts };
    let Ok(tape) = Tape::parse(text.as_bytes()) else {
        return conflicts;
    };
    if let Some(allowed) = allowed_fields(context.resource, live, tape.root()) {
        conflicts.retain_mut(|of| {
            of.fields = std::mem::take(&mut of.fields).difference(&allowed);
            !of.fields.is_empty()
        });
    }
    conflicts
}

/// The fields of what the annotation holds that are in the object as they are there.
fn allowed_fields<'t>(resource: &Resource, live: Value<'t>, applied: Value<'t>) -> Option<Set<'t>> {
    let of = resource.structures.own.root();
    if applied.get("apiVersion")?.as_str()? != resource.api_version() {
        return None;
    }
    let is_of_type = |value: Value<'_>| check(of, value).is_empty();
    if !is_of_type(applied) || !is_of_type(live) {
        return None;
    }
    let differs = compare(of, applied, live).ok()?;
    Some(differs.unchanged(fields_of(of, applied)))
}

/// The object with what was applied as its annotation; `None` if it stays as it is.
pub(super) fn annotated(context: &WriteContext<'_>, object: &[u8], patch: Value<'_>) -> Option<Vec<u8>> {
    if context.manager != MANAGER {
        return None;
    }
    let object_tape = Tape::parse(object).ok()?;
    let object = object_tape.root();
    annotation(object)?;
    let mut applied = Node::Parsed(patch);
    if let Some(annotations) = applied
        .member("metadata")
        .and_then(|metadata| metadata.member("annotations"))
    {
        annotations.remove_member(ANNOTATION);
    }
    let mut plain = Vec::new();
    applied.write(&mut plain);
    let tape = Tape::parse(&plain).ok()?;
    let mut text = Vec::new();
    canonical::write(&mut text, tape.root()).ok()?;
    text.push(b'\n');
    let mut quoted = Vec::new();
    write::string(&mut quoted, &String::from_utf8(text).ok()?);
    let value = Tape::parse(&quoted).ok()?;
    let mut node = Node::Parsed(object);
    node.member("metadata")?
        .member("annotations")?
        .set_member(ANNOTATION, Node::Parsed(value.root()));
    let mut out = Vec::new();
    node.write(&mut out);
    Some(out)
}
