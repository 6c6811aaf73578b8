//! Replaces an object or a part of it. [`transact`] is the one path of all changes to an existing object.

use std::sync::Arc;

use super::Context;
use super::create::create_in;
use super::options::parse_uint;
use super::write::{self, WriteOptions, WrongType};
use crate::answer::Answer;
use crate::codec::settle_empty_lists;
use crate::hooks::{self, Kept, KeptByStatus};
use crate::kinds::Resource;
use crate::managed_fields::keep_times;
use crate::negotiate::Shape;
use crate::object::{Meta, Object};
use crate::services::Held;
use crate::status::{Cause, Status, Subject};
use crate::storage::{Change, Outcome, Versioned};
use crate::stored::Stored;
use crate::validation::{Written, keep_system_fields, validate_update, validate_update_of_any};

/// Which part of an object a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status, where that has a subresource.
    Main,
    /// The status.
    Status,
    /// The finalizers in the spec of a namespace.
    Finalize,
    /// What is decided about a request for a certificate.
    Approval,
}

/// Whether it is still to be recorded who owns what of a written object: an apply has done that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracking {
    Due,
    Done,
}

/// `PUT`.
///
/// # Errors
/// 400, 404, 406, 409, 415, 422, and 500 for a resourceVersion that is no number.
pub(super) fn update(context: Context<'_>, part: Part) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    write::check_size(context)?;
    let options = write::options(context, "UpdateOptions")?;
    let mut decoded = write::body(context, options)?;
    let wrong_type = WrongType::of(context.resource, &decoded);
    let is_of_path = write::check_version(&decoded).and_then(|()| check_identity(context, &mut decoded.object));
    if let Err(status) = is_of_path {
        return write::warned(Err(status), &decoded.warnings);
    }
    let mut warnings = decoded.warnings;
    warnings.extend(decoded.repeated_owners);
    let replaced = replace(context, part, options, decoded.object, wrong_type, &mut warnings);
    let answer = replaced.and_then(|(code, version)| write::shown(&view, code, &version));
    write::warned(answer, &warnings)
}

/// Replaces the object with a decoded one, or creates it where the resource allows that; the code says which.
fn replace(
    context: Context<'_>,
    part: Part,
    options: WriteOptions,
    mut object: Object,
    wrong_type: Option<WrongType>,
    warnings: &mut Vec<String>,
) -> Result<(u16, Versioned<Stored>), Status> {
    let mut of_finalizers = Vec::new();
    let result = transact(context, part, options, Tracking::Due, |_, current| {
        let (given, actual) = (&object.meta.uid, &current.meta.uid);
        if !given.is_empty() && given != actual {
            return Err(other_uid(context, options, given, actual));
        }
        if part == Part::Main {
            let (old, new) = (&current.meta.finalizers, &object.meta.finalizers);
            of_finalizers = write::finalizer_warnings(context.resource, old, new);
        }
        Ok((object.clone(), wrong_type.clone()))
    });
    let creates = context.resource.policy.put_creates && !matches!(part, Part::Finalize | Part::Approval);
    match result {
        Err(status) if status.reason == "NotFound" && creates => {
            if !object.meta.uid.is_empty() {
                return Err(other_uid(context, options, &object.meta.uid, ""));
            }
            if !object.meta.resource_version.is_empty() {
                parse_uint(&object.meta.resource_version).map_err(Status::untyped)?;
            }
            object.meta.resource_version.clear();
            Ok((201, create_in(context, object, options, wrong_type, Tracking::Due)?))
        }
        result => {
            let version = result?;
            warnings.extend(of_finalizers);
            Ok((200, version))
        }
    }
}

/// 409 for an update that is meant for an object of another uid.
pub(super) fn other_uid(context: Context<'_>, options: WriteOptions, given: &str, actual: &str) -> Status {
    let storage = &*context.resource.storage.0;
    // A dry run knows the key below the root of all keys.
    let root = if options.dry_run { "/registry" } else { "" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {given}, UID in object meta: {actual}",
        storage.strip_prefix(root).unwrap_or(storage),
        context.key(),
    );
    Status::conflict(context.subject(), context.name(), &why)
}

/// 400 for a body without a name.
pub(super) fn undeterminable_name(context: Context<'_>) -> Status {
    let name = context.name();
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Checks that the body is about the object that the path names.
pub(super) fn check_identity(context: Context<'_>, object: &mut Object) -> Result<(), Status> {
    write::settle_namespace(context.resource, context.namespace(), object)?;
    let (name, found) = (context.name(), object.meta.name.as_str());
    if found.is_empty() {
        return Err(undeterminable_name(context));
    }
    if found != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Changes an existing object: `make` gives the wanted object from the current one, and the error that it has if
/// nothing graver is wrong; ownership, system fields, generation, validation and removal follow. Runs `make` again if the
/// object changed meanwhile.
pub(super) fn transact(
    context: Context<'_>,
    part: Part,
    options: WriteOptions,
    tracking: Tracking,
    mut make: impl FnMut(&Versioned<Stored>, &Object) -> Result<(Object, Option<WrongType>), Status>,
) -> Result<Versioned<Stored>, Status> {
    let mut shown = None;
    // What the object was given, until it is stored.
    let mut _held = None;
    let resource = context.resource.settled_in();
    let outcome = context.server.storage.update(context.id, &context.key(), |old| {
        // What an attempt that was overtaken has taken is free for the next one.
        _held = None;
        let old = old.ok_or_else(|| context.absent())?;
        let current = old.object.object_as(context.resource);
        let (wanted, wrong_type) = make(old, &current)?;
        check_version(context, old, &wanted)?;
        if let Some(wrong_type) = wrong_type {
            return Err(refused_type(context, part, &wrong_type, wanted.meta, &current.meta));
        }
        let wanted = tracked(context, tracking, &current, wanted);
        let current = if context.resource.settles_as_served() {
            current
        } else {
            old.object.object_as(resource)
        };
        let mut new;
        (new, _held) = settle(context, part, &current, wanted)?;
        let removes = removed_by_update(resource, &current, &new);
        if !options.dry_run && !removes {
            // It is dropped on the way to the store, which these do not take.
            new.meta.self_link.clear();
        }
        let stored = Arc::new(Stored::of(resource, &new));
        if !removes && stored.canonical == old.object.canonical {
            shown = None;
            return Ok(Change::Keep);
        }
        shown = Some(write::unstored(Arc::clone(&stored), old.rv));
        Ok(match (options.dry_run, removes) {
            (true, _) => Change::Keep,
            (false, true) => Change::Delete,
            (false, false) => Change::Put(stored),
        })
    })?;
    let written = match outcome {
        Outcome::Written(version) => Some(version),
        // The answer to the write that removes the last finalizer shows the version that it replaced.
        Outcome::Deleted { .. } => shown,
        Outcome::Kept(old) => shown.or(old),
    };
    written.ok_or_else(|| context.absent())
}

/// 422 for an update to another type. The metadata is looked at first, as that of any kind, and nothing after it.
fn refused_type(context: Context<'_>, part: Part, wrong_type: &WrongType, mut new: Meta, old: &Meta) -> Status {
    let of_metadata = if part == Part::Main {
        new.namespace.clone_from(&old.namespace);
        keep_system_fields(&mut new, old);
        validate_update_of_any(context.resource, &new, old)
    } else {
        Vec::new()
    };
    wrong_type.refusal(context.resource, of_metadata)
}

fn check_version(context: Context<'_>, old: &Versioned<Stored>, wanted: &Object) -> Result<(), Status> {
    let given = wanted.meta.resource_version.as_str();
    let unversioned = || {
        if context.resource.policy.unconditional_update {
            return Ok(());
        }
        Err(version_required(context))
    };
    if given.is_empty() {
        return unversioned();
    }
    match parse_uint(given).map_err(Status::untyped)? {
        0 => unversioned(),
        given if given == old.rv => Ok(()),
        _ => Err(Status::stale(context.subject(), context.name())),
    }
}

/// 422 for an update that needs a resourceVersion: here the text names the plural, not the Kind.
fn version_required(context: Context<'_>) -> Status {
    let subject = context.subject();
    let subject = Subject {
        kind: subject.plural,
        ..subject
    };
    let text = "Invalid value: 0: must be specified for an update";
    let cause = Cause::new("FieldValueInvalid", text, "metadata.resourceVersion");
    Status::invalid(subject, context.name(), vec![cause])
}

/// The wanted object with its defaults, and with the record of who owns it once it replaces `old`, in the version in which
/// writes are settled. What the server itself changes after that is nobody's.
fn tracked(context: Context<'_>, tracking: Tracking, old: &Object, mut wanted: Object) -> Object {
    hooks::before_write(context.resource, &mut wanted);
    hooks::named(context.resource, &mut wanted);
    let mut settled = write::settled(context, tracking, Some(old), wanted);
    settle_empty_lists(context.resource.settled_in(), &mut settled);
    settled
}

/// The object that is stored when `wanted` replaces `old`, all in the version in which writes are settled, and what the
/// server has handed out to it.
fn settle<'a>(
    context: Context<'a>,
    part: Part,
    old: &Object,
    wanted: Object,
) -> Result<(Object, Option<Held<'a>>), Status> {
    let resource = context.resource.settled_in();
    let mut new = match part {
        Part::Main => {
            let mut new = wanted;
            if resource.policy.status.subresource {
                copy_field(resource, "status", old, &mut new);
            }
            if let Some(kept) = hooks::kept_on_update(resource) {
                copy_field(resource, kept, old, &mut new);
            }
            new
        }
        Part::Status => {
            let mut new = old.clone();
            copy_field(resource, "status", &wanted, &mut new);
            new.meta = if resource.custom {
                Meta {
                    managed_fields: wanted.meta.managed_fields,
                    ..new.meta
                }
            } else {
                meta_of_status(resource, &old.meta, wanted.meta)
            };
            hooks::on_status(resource, old, &mut new, context.server.clock.now());
            new
        }
        Part::Approval => {
            let mut new = wanted;
            hooks::approve(old, &mut new, context.server.clock.now());
            new
        }
        Part::Finalize => {
            let mut new = wanted;
            copy_field(resource, "status", old, &mut new);
            new
        }
    };
    new.meta.resource_version.clear();
    new.meta.namespace.clone_from(&old.meta.namespace);
    keep_system_fields(&mut new.meta, &old.meta);
    if part != Part::Main {
        hooks::before_write(resource, &mut new);
    }
    let held = match part {
        Part::Main => {
            let held = hooks::allocate(context.server, resource, context.id, Some(old), &mut new)?;
            hooks::admit(resource, &mut new);
            held
        }
        Part::Status | Part::Finalize | Part::Approval => None,
    };
    hooks::on_update(resource, old, &mut new);
    hooks::named(resource, &mut new);
    new.meta.generation = old.meta.generation;
    // A subresource's write is no change of the spec, whatever metadata it takes over.
    if matches!(part, Part::Main) {
        write::advance_generation(resource, old, &mut new);
    }
    keep_times(old, &mut new);
    let of_metadata = validate_update(resource, &new.meta, &old.meta, part != Part::Main);
    let written = Written {
        new: &new,
        old: Some(old),
        of_status: part == Part::Status,
    };
    let found = hooks::validate_changed(resource, &written, of_metadata);
    let (spared, errors): (Vec<_>, Vec<_>) = found.into_iter().partition(|error| error.spared);
    context.request.warn(spared.iter().map(ToString::to_string).collect());
    write::check(resource, context.name(), &errors)?;
    hooks::before_store(resource, &mut new);
    Ok((new, held))
}

/// The metadata that a write of the status stores: all that is not held back.
fn meta_of_status(resource: &Resource, old: &Meta, mut new: Meta) -> Meta {
    let kept = hooks::kept_by_status(resource);
    if kept == KeptByStatus::Metadata {
        return Meta {
            managed_fields: new.managed_fields,
            ..old.clone()
        };
    }
    let status = &resource.policy.status;
    if !status.writes_labels {
        new.labels.clone_from(&old.labels);
    }
    if !status.writes_annotations {
        new.annotations.clone_from(&old.annotations);
    }
    if !status.writes_finalizers {
        new.finalizers.clone_from(&old.finalizers);
    }
    if !status.writes_annotations || kept == KeptByStatus::Owners {
        new.owner_references.clone_from(&old.owner_references);
        new.deletion_timestamp = old.deletion_timestamp;
    }
    new
}

/// Makes a top-level field the same as in `from`, present or absent, at its place in the output.
fn copy_field(resource: &Resource, name: &'static str, from: &Object, to: &mut Object) {
    let Some(value) = from.field(name) else {
        to.remove_field(name);
        return;
    };
    // Custom resources are written in alphabetical order.
    let place = to.fields.iter().position(|(field, _)| field.as_ref() > name);
    match place {
        Some(place) if resource.custom && to.field(name).is_none() => {
            to.fields.insert(place, (name.into(), value.clone()));
        }
        _ => to.set_field(name, value.clone()),
    }
}

/// True if the update takes away the last thing that kept a deleted object.
fn removed_by_update(resource: &Resource, old: &Object, new: &Object) -> bool {
    old.meta.deletion_timestamp.is_some()
        && old.meta.deletion_grace_period_seconds.unwrap_or_default() == 0
        && new.meta.finalizers.is_empty()
        && hooks::keeps(resource, new) == Kept::No
}
