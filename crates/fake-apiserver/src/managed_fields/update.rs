//! What a write other than an apply makes of the managers: it owns what it changed, and nobody else does.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;

use super::entries::{Entry, Identity, Managers, Operation, differ_in_times_only};
use super::versions::Version;
use super::{WriteContext, reset};
use crate::codec::zero_document;
use crate::json::{Kind, Tape};
use crate::kinds::Resource;
use crate::object::{Object, write_unmanaged};
use crate::structured::{Comparison, Set, compare, reconcile};

/// Managers of updates beyond so many are put together, the oldest first.
const MAX_UPDATERS: usize = 10;

/// Records in `new` who owns what. `old` is the stored object, `None` on create. What the client sent as managed fields
/// counts on the main resource, if it can be read.
pub(crate) fn track(context: &WriteContext<'_>, old: Option<&Object>, new: &mut Object) {
    let given = new.meta.managed_fields.take();
    let live = old.and_then(|old| old.meta.managed_fields.clone());
    let base = base(context, given, live.as_ref());
    let tracked = match (&base, old) {
        // Of an object of which nobody owned anything, nobody does until somebody applies.
        (None, Some(_)) => Ok(None),
        _ => updated(context, base.as_ref(), old, new),
    };
    new.meta.managed_fields = tracked.unwrap_or_else(|why| {
        // The real server keeps them as well where it cannot compare.
        tracing::debug!(name = new.meta.name, why, "managed fields stay as they were");
        live
    });
}

/// The managers before the write: those that the client sent, or those of the stored object.
fn base(context: &WriteContext<'_>, given: Option<Bytes>, live: Option<&Bytes>) -> Option<Bytes> {
    let readable = |fields: &Bytes| {
        let Ok(tape) = Tape::parse(fields) else { return false };
        Managers::decode(&tape).is_ok_and(|managers| !managers.is_empty())
    };
    let live = || live.filter(|live| readable(live)).cloned();
    match given {
        _ if !context.subresource.is_empty() => live(),
        Some(given) if is_reset(context.resource, &given) => None,
        Some(given) if readable(&given) => Some(given),
        _ => live(),
    }
}

/// Whether a client asks to forget all managers: by a list of one empty entry, or, of a built-in kind, of none.
fn is_reset(resource: &Resource, given: &[u8]) -> bool {
    let Ok(tape) = Tape::parse(given) else { return false };
    let mut items = tape.root().items();
    match (items.next(), items.next()) {
        (None, _) => !resource.custom,
        (Some(only), None) => only.kind() == Kind::Object && only.entries().next().is_none(),
        (Some(_), Some(_)) => false,
    }
}

/// The managers after the write.
///
/// # Errors
///
/// The text about objects that cannot be compared.
fn updated(
    context: &WriteContext<'_>,
    base: Option<&Bytes>,
    old: Option<&Object>,
    new: &Object,
) -> Result<Option<Bytes>, String> {
    let resource = context.resource;
    let (before, after) = differing(resource, old, new);
    // What the server has written itself stays; what a client sends is brought in order first, and what is said of a custom
    // resource in line with its definition.
    let is_stored = old.is_some_and(|old| old.meta.managed_fields.as_ref() == base);
    if is_stored && before == after && !resource.custom {
        return Ok(base.cloned());
    }
    let base_tape = Tape::parse(base.map_or(b"[]", |base| base)).map_err(|error| error.to_string())?;
    let mut managers = Managers::decode(&base_tape)?;
    let (old_tape, new_tape) = (parse(&before)?, parse(&after)?);
    let reset = reset::fields(resource, context.subresource);
    let comparison = compare(resource.structures.own.root(), old_tape.root(), new_tape.root())?.without(reset);
    let others = settle_versions(resource, &mut managers)?
        .into_iter()
        .map(|(name, version)| {
            let before = old.map_or_else(|| b"{}".to_vec(), |old| version.document(resource, old));
            let after = version.document(resource, new);
            (name, (version, before, after))
        });
    let changes = Changes {
        own: &comparison,
        reset,
        others: others.collect(),
    };
    changes.take(&mut managers, None)?;
    put_written(context, &mut managers, comparison);
    cap(&mut managers);
    Ok(managers.encode())
}

/// Records in `managers` a manager of everything that an object has.
///
/// # Errors
///
/// The text about an object that cannot be compared.
pub(super) fn put_everything<'a>(
    context: &WriteContext<'_>,
    managers: &mut Managers<'a>,
    zero: &'a Tape<'a>,
    object: &'a Tape<'a>,
) -> Result<(), String> {
    let comparison = compare(context.resource.structures.own.root(), zero.root(), object.root())?;
    let comparison = comparison.without(reset::fields(context.resource, context.subresource));
    put_written(context, managers, comparison);
    Ok(())
}

fn parse(text: &[u8]) -> Result<Tape<'_>, String> {
    Tape::parse(text).map_err(|error| error.to_string())
}

/// The two objects as documents that leave out what is the same in both.
fn differing(resource: &Resource, old: Option<&Object>, new: &Object) -> (Vec<u8>, Vec<u8>) {
    let Some(old) = old else {
        let mut after = Vec::with_capacity(size_of(new));
        write_unmanaged(new, &mut after);
        return (zero_document(resource), after);
    };
    let differs = |object: &Object, other: &Object| {
        let mut part = Object::default();
        let fields = object.fields.iter();
        part.fields = fields
            .filter(|(name, value)| other.field(name) != Some(value))
            .cloned()
            .collect();
        part.meta = object.meta.clone();
        part.meta.managed_fields = None;
        let mut out = Vec::with_capacity(size_of(&part));
        write_unmanaged(&part, &mut out);
        out
    };
    (differs(old, new), differs(new, old))
}

/// About how many bytes an object has.
fn size_of(object: &Object) -> usize {
    let fields = object.fields.iter();
    fields.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + 256
}

/// Drops the managers that speak of a version that there is no more, and brings the others in line with the schemas. Returns
/// the versions other than the request's.
///
/// # Errors
///
/// The text about a version that a custom resource has not got: the real server stops there.
pub(super) fn settle_versions(
    resource: &Resource,
    managers: &mut Managers<'_>,
) -> Result<HashMap<String, Version>, String> {
    let own = resource.api_version();
    let mut versions: HashMap<String, Option<Version>> = HashMap::new();
    managers.retain(|_, entry| {
        if *entry.api_version == *own {
            if resource.custom {
                entry.set = reconcile(resource.structures.own.root(), &entry.set);
            }
            return true;
        }
        let version = versions
            .entry(entry.api_version.to_string())
            .or_insert_with(|| Version::find(resource, &entry.api_version));
        if let Some(version) = version
            && resource.custom
        {
            entry.set = reconcile(version.schema.root(), &entry.set);
        }
        version.is_some()
    });
    let mut found = HashMap::with_capacity(versions.len());
    for (name, version) in versions {
        match version {
            Some(version) => {
                found.insert(name, version);
            }
            None if resource.custom => {
                return Err(format!("request to convert CR to an invalid group/version: {name}"));
            }
            None => {}
        }
    }
    Ok(found)
}

/// Fields that another manager owns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflicts<'a> {
    /// As texts show it.
    pub(super) manager: String,
    /// Invariant: not empty.
    pub(super) fields: Set<'a>,
}

/// An object before and after a write, in another version.
pub(super) type Documents = (Version, Vec<u8>, Vec<u8>);

/// A write in the versions of all managers.
pub(super) struct Changes<'c> {
    /// In the version of the request, without the fields that the write never changes.
    pub(super) own: &'c Comparison<'c>,
    /// What it never changes.
    pub(super) reset: &'c Set<'static>,
    /// The other versions, each with the object before and after.
    pub(super) others: HashMap<String, Documents>,
}

impl Changes<'_> {
    /// Calls `change` with each manager's entry, but for `writer`, and what the write changed in its version.
    ///
    /// # Errors
    ///
    /// The text about objects that cannot be compared.
    fn each<'a>(
        &self,
        managers: &mut Managers<'a>,
        writer: Option<&Identity>,
        mut change: impl FnMut(&mut Entry<'a>, &Comparison<'_>),
    ) -> Result<(), String> {
        let mut result = Ok(());
        managers.retain(|identity, entry| {
            if Some(identity) == writer {
                return true;
            }
            let Some((version, before, after)) = self.others.get(&*entry.api_version) else {
                change(entry, self.own);
                return true;
            };
            let (before, after) = match (parse(before), parse(after)) {
                (Ok(before), Ok(after)) => (before, after),
                (Err(text), _) | (_, Err(text)) => {
                    result = Err(text);
                    return true;
                }
            };
            match compare(version.schema.root(), before.root(), after.root()) {
                Ok(comparison) => change(entry, &comparison.without(self.reset)),
                Err(text) => result = Err(text),
            }
            true
        });
        result
    }

    /// Which managers own what the write sets.
    ///
    /// # Errors
    ///
    /// The text about objects that cannot be compared.
    pub(super) fn conflicts<'a>(
        &self,
        managers: &mut Managers<'a>,
        writer: &Identity,
    ) -> Result<Vec<Conflicts<'a>>, String> {
        let mut conflicts = Vec::new();
        self.each(managers, Some(writer), |entry, changes| {
            let set = changes.modified.clone().union(changes.added.clone());
            let fields = entry.set.intersection(&set);
            if !fields.is_empty() {
                let manager = entry.shown();
                conflicts.push(Conflicts { manager, fields });
            }
        })?;
        Ok(conflicts)
    }

    /// Takes from all managers what the write changed.
    ///
    /// # Errors
    ///
    /// The text about objects that cannot be compared.
    pub(super) fn take(&self, managers: &mut Managers<'_>, writer: Option<&Identity>) -> Result<(), String> {
        self.each(managers, writer, |entry, changes| {
            entry.set = changes.unchanged(std::mem::take(&mut entry.set));
        })
    }
}

/// Adds what a write has set to the entry of its manager.
fn put_written<'a>(context: &WriteContext<'_>, managers: &mut Managers<'a>, changes: Comparison<'a>) {
    let written = reset::owned(changes.modified.union(changes.added));
    if written.is_empty() {
        return;
    }
    managers.put_more(Entry {
        manager: Cow::Owned(context.manager.to_string()),
        operation: Operation::Update,
        api_version: Cow::Owned(context.resource.api_version()),
        subresource: Cow::Owned(context.subresource.to_owned()),
        time: Some(context.now),
        set: written,
    });
}

/// Puts the oldest managers of updates together until there are no more than allowed.
fn cap(managers: &mut Managers<'_>) {
    let is_update = |(identity, entry): (&Identity, &Entry<'_>)| {
        (entry.operation == Operation::Update).then(|| (entry.seconds(), identity.clone()))
    };
    let mut updaters: Vec<(i64, Identity)> = managers.iter().filter_map(is_update).collect();
    if updaters.len() <= MAX_UPDATERS {
        return;
    }
    updaters.sort();
    let mut left = updaters.len();
    let mut first_of: HashMap<String, Identity> = HashMap::new();
    for (_, identity) in updaters {
        if left <= MAX_UPDATERS {
            return;
        }
        let Some(version) = managers.get(&identity).map(|entry| entry.api_version.to_string()) else {
            continue;
        };
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, identity);
            continue;
        };
        let Some(merged) = managers.take(&identity) else {
            continue;
        };
        let mut bucket = Entry {
            manager: "ancient-changes".into(),
            subresource: "".into(),
            ..merged
        };
        let known = managers.take(&bucket.identity()).or_else(|| managers.take(first));
        bucket.set = bucket.set.union(known.map(|known| known.set).unwrap_or_default());
        managers.put(bucket);
        left -= 1;
    }
}

/// Gives an object back the managed fields that it had, if it differs from the stored one in nothing but their times: such
/// a write changes nothing.
pub(crate) fn keep_times(old: &Object, new: &mut Object) {
    let (Some(before), Some(after)) = (&old.meta.managed_fields, &new.meta.managed_fields) else {
        return;
    };
    if old.fields == new.fields && differ_in_times_only(before, after) {
        let with_new_times = new.meta.managed_fields.replace(before.clone());
        if old.meta != new.meta {
            new.meta.managed_fields = with_new_times;
        }
    }
}
