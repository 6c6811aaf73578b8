//! Server-side apply: what a manager wants is merged into the object, what it wants no more goes if nobody else owns it.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;

use super::entries::{Entry, Managers, Operation};
use super::update::{Changes, Conflicts, Documents, put_everything, settle_versions};
use super::versions::{Version, Versions};
use super::{WriteContext, last_applied, reset};
use crate::codec::zero_document;
use crate::json::{Kind, Tape, Value};
use crate::kinds::Resource;
use crate::patch::Node;
use crate::structured::{Set, Type, check, compare, equal, fields_of, merge, remove};
use crate::told::Told;

/// The object that is applied to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live<'a> {
    /// The whole object as it is served; `None` if there is none yet.
    pub(crate) json: Option<&'a [u8]>,
    /// Its managed fields.
    pub(crate) managed_fields: Option<&'a Bytes>,
}

/// What an apply makes of an object.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The whole object.
    pub(crate) json: Vec<u8>,
    pub(crate) managed_fields: Option<Bytes>,
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ApplyError {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 409, with the manager and the path of each conflict.
    #[error("{message}")]
    Conflict {
        message: String,
        causes: Vec<(String, String)>,
    },
    /// 500 without reason.
    #[error("{0}")]
    Internal(String),
}

/// Whether fields of other managers are taken from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    No,
    Yes,
}

/// Applies `patch`, a canonical object, to the live one.
///
/// # Errors
///
/// [`ApplyError`]; one of conflicts is gone when the other managers give their fields up, or with force.
pub(crate) fn apply(
    context: &WriteContext<'_>,
    live: Live<'_>,
    patch: &[u8],
    force: Force,
) -> Result<Applied, ApplyError> {
    let internal = ApplyError::Internal;
    let patch_tape = parse(patch)?;
    let patch_root = patch_tape.root();
    check_type(context.resource, patch_root)?;
    let fields = live.managed_fields.map_or(&b"[]"[..], |fields| fields);
    let fields_tape = parse(fields)?;
    let mut managers = Managers::decode(&fields_tape)
        .map_err(|error| internal(format!("failed to decode managed fields: {error}")))?;
    let zero = zero_document(context.resource);
    let zero_tape = parse(&zero)?;
    let live_tape = parse(live.json.unwrap_or(&zero))?;
    if managers.is_empty() && live.json.is_some() {
        // From now on somebody owns what was there before.
        let before = WriteContext {
            manager: Cow::Borrowed("before-first-apply"),
            ..context.clone()
        };
        put_everything(&before, &mut managers, &zero_tape, &live_tape)
            .map_err(|error| internal(format!("failed to create manager for existing fields: {error}")))?;
    }
    if holds_managed_fields(patch_root) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let schema = &context.resource.structures.own;
    let problems = check(schema.root(), patch_root);
    if !problems.is_empty() {
        let problems = problems.text();
        let who = described(context.resource, patch_root);
        return Err(internal(format!(
            "failed to create typed patch object ({who}): {problems}"
        )));
    }
    let apply = Apply {
        context,
        live: live_tape.root(),
        exists: live.json.is_some(),
        patch: patch_root,
    };
    apply.run(managers, force)
}

fn parse(text: &[u8]) -> Result<Tape<'_>, ApplyError> {
    Tape::parse(text).map_err(|error| ApplyError::Internal(error.to_string()))
}

/// The texts of `apiVersion` and `kind`.
fn type_of(patch: Value<'_>) -> (String, String) {
    let text = |name: &str| patch.get(name).and_then(Value::as_str).unwrap_or_default().into_owned();
    (text("apiVersion"), text("kind"))
}

/// A version and kind as Go shows them. A version of more than two parts is none, and then there is no kind.
fn shown_type((api_version, kind): (String, String)) -> String {
    match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] => format!("/{version}, Kind={kind}"),
        [group, version] => format!("{group}/{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

fn check_type(resource: &Resource, patch: Value<'_>) -> Result<(), ApplyError> {
    let (api_version, kind) = type_of(patch);
    if api_version == resource.api_version() && kind == *resource.kind {
        return Ok(());
    }
    let shown = shown_type((api_version, kind));
    Err(ApplyError::BadRequest(format!("invalid object type: {shown}")))
}

/// Namespace, name, version and kind, as texts describe an object.
fn described(resource: &Resource, patch: Value<'_>) -> String {
    let metadata = patch.get("metadata");
    let text = |name: &str| {
        let value = metadata.and_then(|metadata| metadata.get(name));
        value.and_then(Value::as_str).unwrap_or_default().into_owned()
    };
    let shown = shown_type((resource.api_version(), resource.kind.to_string()));
    format!("{}/{}; {shown}", text("namespace"), text("name"))
}

/// Whether a patch holds managed fields, be it none.
fn holds_managed_fields(patch: Value<'_>) -> bool {
    let fields = patch.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    fields.is_some_and(|fields| fields.kind() == Kind::Array)
}

fn conflict_error(conflicts: &[Conflicts<'_>]) -> ApplyError {
    let mut told = Told::default();
    let mut lines = Vec::new();
    let mut causes = Vec::new();
    let mut last = "";
    for Conflicts { manager, fields } in conflicts {
        fields.each(&mut |at| {
            let Some(path) = told.word(|| at.to_string()) else {
                return;
            };
            if last != manager {
                lines.push(format!("conflicts with {manager}:"));
                last = manager;
            }
            lines.push(format!("- {path}"));
            causes.push((format!("conflict with {manager}"), path));
        });
    }
    let count = causes.len() + told.left_out();
    if let Some(rest) = told.rest() {
        lines.push(format!("- {rest}"));
        causes.push((rest.to_string(), NOWHERE.to_owned()));
    }
    let message = match causes.as_slice() {
        [(with, path)] => format!("Apply failed with 1 conflict: {with}: {path}"),
        _ => format!("Apply failed with {count} conflicts: {}", lines.join("\n")),
    };
    ApplyError::Conflict { message, causes }
}

/// Where no field is named.
const NOWHERE: &str = "<nil>";

/// One apply whose parts were read and checked.
struct Apply<'p> {
    context: &'p WriteContext<'p>,
    live: Value<'p>,
    exists: bool,
    patch: Value<'p>,
}

impl<'p> Apply<'p> {
    fn run(&self, mut managers: Managers<'p>, force: Force) -> Result<Applied, ApplyError> {
        let context = self.context;
        let resource = context.resource;
        let of = resource.structures.own.root();
        let versions = settle_versions(resource, &mut managers).map_err(ApplyError::Internal)?;
        let merged = merge(of, self.live, self.patch)
            .map_err(|text| ApplyError::Internal(format!("failed to merge config: {text}")))?;
        let merged = written(&merged);
        let reset = reset::fields(resource, context.subresource);
        let set = fields_of(of, self.patch).recursive_difference(reset);
        let mut entry = Entry {
            manager: Cow::Owned(context.manager.to_string()),
            operation: Operation::Apply,
            api_version: Cow::Owned(resource.api_version()),
            subresource: Cow::Owned(context.subresource.to_owned()),
            time: None,
            set: set.clone(),
        };
        let identity = entry.identity();
        let last = managers.take(&identity);
        entry.time = last.as_ref().and_then(|last| last.time);
        managers.put(entry.clone());
        let new = match last {
            Some(last) => {
                let versions = Versions {
                    own: resource,
                    others: &versions,
                };
                self.pruned(merged, &last, &set, &managers, versions)?
            }
            None => merged,
        };
        let new_tape = parse(&new)?;
        let compared = |text: String| ApplyError::Internal(format!("failed to compare objects: {text}"));
        let comparison = compare(of, self.live, new_tape.root()).map_err(compared)?;
        let comparison = comparison.without(reset);
        let changes = Changes {
            own: &comparison,
            reset,
            others: self.in_versions(versions, &new).map_err(ApplyError::Internal)?,
        };
        if force == Force::No {
            let found = changes.conflicts(&mut managers, &identity).map_err(compared)?;
            let conflicts = last_applied::conflicts_left(context, self.live, found);
            if !conflicts.is_empty() {
                return Err(conflict_error(&conflicts));
            }
        }
        changes.take(&mut managers, Some(&identity)).map_err(compared)?;
        managers.take(&identity);
        entry.set = reset::owned(set);
        // What changes nothing but who owns it is no reason for a new time.
        if !self.exists || !equal(self.live, new_tape.root()) {
            entry.time = Some(context.now);
        }
        if !entry.set.is_empty() {
            managers.put(entry);
        }
        Ok(Applied {
            json: last_applied::annotated(context, &new, self.patch).unwrap_or(new),
            managed_fields: managers.encode(),
        })
    }

    /// The object before and after, in the versions of other managers.
    fn in_versions(&self, others: HashMap<String, Version>, new: &[u8]) -> Result<HashMap<String, Documents>, String> {
        let own = self.context.resource.api_version();
        let versions = Versions {
            own: self.context.resource,
            others: &others,
        };
        let mut documents = HashMap::with_capacity(others.len());
        for name in others.keys() {
            let before = versions.convert(self.live.raw().to_vec(), &own, name)?;
            documents.insert(name.clone(), (before, versions.convert(new.to_vec(), &own, name)?));
        }
        let with_documents = |(name, version): (String, Version)| {
            let (before, after) = documents.remove(&name).unwrap_or_default();
            (name, (version, before, after))
        };
        Ok(others.into_iter().map(with_documents).collect())
    }

    /// The merged object without what the manager applied last time, does not apply now, and nobody else owns.
    fn pruned(
        &self,
        merged: Vec<u8>,
        last: &Entry<'_>,
        set: &Set<'_>,
        managers: &Managers<'_>,
        versions: Versions<'_>,
    ) -> Result<Vec<u8>, ApplyError> {
        let own = self.context.resource.api_version();
        if last.set.is_empty() || last.set == *set && *last.api_version == *own {
            return Ok(merged);
        }
        let convert = |json: Vec<u8>, from: &str, to: &str| {
            let failed = |text| ApplyError::Internal(format!("failed to prune fields: {text}"));
            versions.convert(json, from, to).map_err(failed)
        };
        let of = versions.schema(&last.api_version).root();
        let last_set = last.set.with_named_fields(Some(of));
        let merged = convert(merged, &own, &last.api_version)?;
        let merged_tape = parse(&merged)?;
        let merged_root = merged_tape.root();
        let mut pruned = written(&remove(of, merged_root, &last_set));
        // Back comes what anybody owns now, the version of the last apply first.
        let mut names: Vec<&str> = managers.iter().map(|(_, entry)| &*entry.api_version).collect();
        names.sort_unstable();
        names.dedup();
        names.sort_by_key(|name| *name != last.api_version);
        let mut at = &*last.api_version;
        for name in names {
            let of = versions.schema(name).root();
            let merged = convert(merged.clone(), &last.api_version, name)?;
            let merged_tape = parse(&merged)?;
            let merged_root = merged_tape.root();
            pruned = convert(pruned, at, name)?;
            at = name;
            let owned = managers.iter().filter(|(_, entry)| entry.api_version == name);
            let owned = owned.fold(Set::default(), |owned, (_, entry)| owned.union(entry.set.clone()));
            let all = named_fields(of, merged_root);
            let pruned_tape = parse(&pruned)?;
            let kept = named_fields(of, pruned_tape.root()).union(owned.with_named_fields(Some(of)));
            let back = written(&remove(of, merged_root, &all.difference(&kept)));
            drop(pruned_tape);
            pruned = back;
        }
        // And what the manager never owned, although it was in something that it did.
        let pruned = convert(pruned, at, &last.api_version)?;
        let pruned_tape = parse(&pruned)?;
        let all = named_fields(of, merged_root);
        let gone = all.difference(&named_fields(of, pruned_tape.root()));
        let left = written(&remove(of, merged_root, &gone.intersection(&last_set)));
        convert(left, &last.api_version, &own)
    }
}

/// The fields of an object, with those of structs that hold them.
fn named_fields<'t>(of: Type<'_>, object: Value<'t>) -> Set<'t> {
    fields_of(of, object).with_named_fields(Some(of))
}

fn written(node: &Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    node.write(&mut out);
    out
}
