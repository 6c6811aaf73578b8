//! Removes an object: preconditions, propagation, finalizers and grace, by the rules of Go's registry store.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::options::number;
use super::write::{self, dry_run_causes, options_subject};
use super::{Context, WantedView};
use crate::answer::Answer;
use crate::codec::{DeleteOptions, IGNORE_STORE_READ_ERROR, Preconditions, decode_delete_options};
use crate::hooks::{self, Kept, Marked};
use crate::json::write::quoted;
use crate::kinds::{DeleteReturns, Propagation, Resource};
use crate::namespaces;
use crate::negotiate::Shape;
use crate::object::Object;
use crate::request::{Query, Verb};
use crate::server::Shared;
use crate::status::{Cause, Status};
use crate::storage::{Change, Outcome, Versioned};
use crate::stored::{Stored, key_of};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a delete did.
#[derive(Debug)]
pub(super) enum Deleted {
    /// The object is gone; its last content, with the revision of the removal.
    Gone(Versioned<Stored>),
    /// The object stays for now.
    Stays(Versioned<Stored>),
}

/// `DELETE` of one object.
///
/// # Errors
/// 400, 403, 404, 406, 409, 415, 422.
pub(super) fn delete(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let options = options(context)?;
    if options.ignore_store_read_error {
        return Err(unsafe_delete(context));
    }
    write::warned(answer(context, &view, &options), &warnings(context, &options))
}

/// What a delete with these options warns of.
pub(super) fn warnings(context: Context<'_>, options: &DeleteOptions) -> Vec<String> {
    let unsaid = options.orphan_dependents.is_none() && options.propagation_policy.is_none();
    let warning = hooks::delete_warning(context.resource).filter(|_| unsaid);
    warning.map(str::to_owned).into_iter().collect()
}

fn answer(context: Context<'_>, view: &WantedView, options: &DeleteOptions) -> Result<Answer, Status> {
    namespaces::check_delete(context.subject(), context.name())?;
    let deleted = delete_one(context, context.namespace(), context.name(), options)?;
    let object_is_shown = context.resource.policy.delete_returns == DeleteReturns::Object;
    Ok(match deleted {
        Deleted::Gone(last) if object_is_shown => write::shown(view, 200, &last)?,
        Deleted::Gone(last) => {
            let uid = last.object.object().meta.uid;
            Status::deleted(context.subject(), context.name(), &uid).into()
        }
        Deleted::Stays(version) => {
            let code = if options.orphan_dependents == Some(false) {
                202
            } else {
                200
            };
            write::shown(view, code, &version)?
        }
    })
}

/// Reads the options, from the body or, if there is none, from the query.
///
/// # Errors
/// 400, 415, 422.
pub(super) fn options(context: Context<'_>) -> Result<DeleteOptions, Status> {
    write::check_size(context)?;
    let request = context.request;
    let options = if request.body.is_empty() {
        from_query(&request.query)?
    } else {
        let content_type = write::content_type_of_options(context)?;
        decode_delete_options(content_type, &request.body).map_err(|error| write::decode_status(&error))?
    };
    check_options(&options)?;
    Ok(options)
}

/// Checks options against each other.
///
/// # Errors
/// 422.
pub(super) fn check_options(options: &DeleteOptions) -> Result<(), Status> {
    let mut causes = Vec::new();
    if let (Some(_), Some(policy)) = (options.orphan_dependents, &options.propagation_policy) {
        let text = format!(
            "Invalid value: {}: orphanDependents and deletionPropagation cannot be both set",
            quoted(policy)
        );
        causes.push(Cause::new("FieldValueInvalid", text, "propagationPolicy"));
    }
    if let Some(policy) = &options.propagation_policy
        && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
    {
        let text = format!(
            "Unsupported value: {}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
            quoted(policy)
        );
        causes.push(Cause::new("FieldValueNotSupported", text, "propagationPolicy"));
    }
    causes.extend(dry_run_causes(options.dry_run.iter().map(String::as_str)));
    if options.ignore_store_read_error {
        let others = [
            ("propagationPolicy", options.propagation_policy.is_some()),
            ("orphanDependents", options.orphan_dependents.is_some()),
            ("gracePeriodSeconds", options.grace_period_seconds.is_some()),
            ("preconditions", options.preconditions.is_some()),
        ];
        let set = others.into_iter().filter(|(_, set)| *set);
        causes.extend(set.map(|(other, _)| unsafe_cause(&format!("cannot be set together with .{other}"))));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(options_subject("DeleteOptions"), "", causes))
    }
}

/// What is wrong with asking for the removal of what cannot be read.
pub(super) fn unsafe_cause(why: &str) -> Cause {
    Cause::new(
        "FieldValueInvalid",
        format!("Invalid value: true: {why}"),
        IGNORE_STORE_READ_ERROR,
    )
}

/// The answer to a delete that is meant for objects which cannot be read: all can be, here.
fn unsafe_delete(context: Context<'_>) -> Status {
    let resource = context.resource;
    let (group, plural) = (&*resource.group, &*resource.plural);
    if group == "rbac.authorization.k8s.io" || (group, plural) == ("", "namespaces") {
        let why = format!("no unsafe deleter provided, can not honor {IGNORE_STORE_READ_ERROR}");
        let text = format!("Internal error occurred: {why}");
        return Status::new(500, "InternalError", text).cause(Cause::new("", why, ""));
    }
    let key = context.key();
    if context.server.storage.get(context.id, &key).is_none() {
        return context.absent();
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{key}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion \
         is not allowed because the object is decodable from storage",
        resource.storage.0
    );
    Status::conflict(context.subject(), context.name(), &why)
}

fn from_query(query: &Query) -> Result<DeleteOptions, Status> {
    let text = |key: &str| query.non_empty(key).map(str::to_owned);
    let preconditions = Preconditions {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    };
    Ok(DeleteOptions {
        grace_period_seconds: number(query, "gracePeriodSeconds")?,
        preconditions: (preconditions != Preconditions::default()).then_some(preconditions),
        orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
        propagation_policy: query.get("propagationPolicy").map(str::to_owned),
        dry_run: query.all("dryRun").map(str::to_owned).collect(),
        ignore_store_read_error: query.flag(IGNORE_STORE_READ_ERROR),
    })
}

/// Deletes one object of the context's resource.
///
/// # Errors
/// 404 and 409.
pub(super) fn delete_one(
    context: Context<'_>,
    namespace: Option<&str>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let server = context.server;
    let key = key_of(namespace, name);
    let dry_run = !options.dry_run.is_empty();
    let mut next = Next::Remove;
    let mut shown = None;
    let resource = context.resource.settled_in();
    let outcome = server.storage.update(context.id, &key, |old| {
        let old = old.ok_or_else(|| context.absent_as(name))?;
        let current = old.object.object_as(resource);
        check_preconditions(context, name, options, old, &current)?;
        let mut new = current.clone();
        next = begin(server, resource, options, &mut new);
        if next == Next::Remove {
            return Ok(if dry_run { Change::Keep } else { Change::Delete });
        }
        if new == current {
            shown = None;
            return Ok(Change::Keep);
        }
        let stored = Arc::new(Stored::of(resource, &new));
        shown = Some(write::unstored(Arc::clone(&stored), old.rv));
        Ok(if dry_run { Change::Keep } else { Change::Put(stored) })
    })?;
    let version = match outcome {
        Outcome::Deleted { last, rv } => return Ok(Deleted::Gone(write::unstored(last.object, rv))),
        Outcome::Written(version) => Some(version),
        Outcome::Kept(old) => shown.or(old),
    };
    let version = version.ok_or_else(|| context.absent_as(name))?;
    match next {
        Next::Stay => Ok(Deleted::Stays(version)),
        Next::Remove => Ok(Deleted::Gone(version)),
        Next::MarkThenRemove if dry_run => Ok(Deleted::Gone(version)),
        // The mark is an event of its own; the removal follows as a second one.
        Next::MarkThenRemove => Ok(Deleted::Gone(remove_marked(server, context, &key, version))),
    }
}

/// Removes what was marked, unless something has kept or replaced it meanwhile.
fn remove_marked(server: &Shared, context: Context<'_>, key: &str, marked: Versioned<Stored>) -> Versioned<Stored> {
    let uid = marked.object.object().meta.uid;
    let removed: Result<_, std::convert::Infallible> = server.storage.update(context.id, key, |old| {
        let meta = old.map(|old| old.object.object().meta);
        let still_marked = meta.is_some_and(|meta| {
            meta.uid == uid && meta.finalizers.is_empty() && meta.deletion_grace_period_seconds == Some(0)
        });
        Ok(if still_marked { Change::Delete } else { Change::Keep })
    });
    match removed {
        Ok(Outcome::Deleted { last, rv }) => write::unstored(last.object, rv),
        Ok(_) => marked,
        Err(never) => match never {},
    }
}

/// What a delete does to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Store the marked object; it stays.
    Stay,
    /// Store the marked object, then remove it.
    MarkThenRemove,
    /// Remove the object as it is.
    Remove,
}

fn begin(server: &Shared, resource: &Resource, options: &DeleteOptions, object: &mut Object) -> Next {
    let now = server.clock.now();
    let graceful = resource.policy.graceful_deletion;
    if graceful && object.meta.deletion_timestamp.is_some() {
        return shorten(options, object);
    }
    let kept = hooks::keeps(resource, object) == Kept::Yes;
    let own_deletion = hooks::own_deletion(resource);
    if own_deletion && kept && object.meta.deletion_timestamp.is_some() {
        return Next::Stay;
    }
    set_propagation_finalizers(resource, options, own_deletion, object);
    if graceful {
        let grace = grace_of(options, object);
        mark(object, now, grace);
        return if grace == 0 && object.meta.finalizers.is_empty() {
            Next::MarkThenRemove
        } else {
            Next::Stay
        };
    }
    // The first delete only begins a deletion of its own, also where nothing keeps the object.
    let begins = own_deletion && object.meta.deletion_timestamp.is_none();
    if object.meta.finalizers.is_empty() && !kept && !begins {
        return Next::Remove;
    }
    if object.meta.deletion_timestamp.is_none() {
        match hooks::on_delete(resource, object, now) {
            Marked::Here => mark(object, now, 0),
            Marked::ByHook => object.meta.deletion_timestamp = Some(now),
        }
    }
    Next::Stay
}

fn mark(object: &mut Object, now: Timestamp, grace: i64) {
    let meta = &mut object.meta;
    if meta.generation > 0 {
        meta.generation += 1;
    }
    meta.deletion_timestamp = Some(later(now, grace));
    meta.deletion_grace_period_seconds = Some(grace);
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// A second delete of a pod can only shorten the time that it has left.
fn shorten(options: &DeleteOptions, object: &mut Object) -> Next {
    let meta = &mut object.meta;
    let Some(grace) = meta.deletion_grace_period_seconds else {
        return Next::Remove;
    };
    match options.grace_period_seconds {
        Some(wanted) if wanted < grace => {
            let wanted = wanted.max(0);
            meta.deletion_timestamp = meta.deletion_timestamp.map(|time| later(time, wanted - grace));
            meta.deletion_grace_period_seconds = Some(wanted);
            if wanted == 0 && meta.finalizers.is_empty() {
                Next::MarkThenRemove
            } else {
                Next::Stay
            }
        }
        _ => Next::Stay,
    }
}

/// How long a pod may run on: not at all unless a node runs it.
fn grace_of(options: &DeleteOptions, object: &Object) -> i64 {
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        node_name: String,
        termination_grace_period_seconds: Option<i64>,
    }
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct PodStatus {
        phase: String,
    }
    let spec: Spec = part(object, "spec");
    let status: PodStatus = part(object, "status");
    let grace = options
        .grace_period_seconds
        .or(spec.termination_grace_period_seconds)
        .unwrap_or(30);
    // A negative time stands for the shortest one.
    let grace = if grace < 0 { 1 } else { grace };
    if spec.node_name.is_empty() || matches!(status.phase.as_str(), "Succeeded" | "Failed") {
        0
    } else {
        grace.max(0)
    }
}

fn part<T: serde::de::DeserializeOwned + Default>(object: &Object, field: &str) -> T {
    // Canonical bytes of a decoded object; a field that is absent gives the defaults.
    object
        .field(field)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

fn set_propagation_finalizers(resource: &Resource, options: &DeleteOptions, own_deletion: bool, object: &mut Object) {
    if resource.policy.default_propagation == Propagation::Unsupported {
        return;
    }
    let has = |finalizer: &str| object.meta.finalizers.iter().any(|present| present == finalizer);
    let by_default = resource.policy.default_propagation == Propagation::Orphan;
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(orphan), _) => (orphan, own_deletion && !orphan),
        (None, Some("Orphan")) => (true, false),
        (None, Some("Foreground")) => (false, true),
        (None, Some(_)) => (false, false),
        (None, None) if has(ORPHAN) => (true, false),
        (None, None) if has(FOREGROUND) => (false, true),
        (None, None) => (by_default, false),
    };
    if (has(ORPHAN), has(FOREGROUND)) == (orphan, foreground) {
        return;
    }
    object
        .meta
        .finalizers
        .retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    if orphan {
        object.meta.finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        object.meta.finalizers.push(FOREGROUND.to_owned());
    }
}

/// Checks that the object is the one that is meant.
///
/// # Errors
/// 409.
pub(super) fn check_preconditions(
    context: Context<'_>,
    name: &str,
    options: &DeleteOptions,
    old: &Versioned<Stored>,
    current: &Object,
) -> Result<(), Status> {
    let Some(preconditions) = &options.preconditions else {
        return Ok(());
    };
    let own = hooks::precondition(context.resource).filter(|_| context.request.verb == Verb::Delete);
    let failed = |what: &str, wanted: &str, actual: &str, then: &str| {
        if let Some(head) = own {
            let why = format!("{head}: {what} in precondition: {wanted}, {what} in object meta: {actual}");
            return Err(Status::conflict(context.subject(), name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). The object \
             might have been {then}"
        );
        Err(Status::precondition(context.subject(), name, &why))
    };
    if let Some(uid) = &preconditions.uid
        && *uid != current.meta.uid
    {
        return failed("UID", uid, &current.meta.uid, "deleted and then recreated");
    }
    if let Some(version) = &preconditions.resource_version
        && *version != old.rv.to_string()
    {
        return failed("ResourceVersion", version, &old.rv.to_string(), "modified");
    }
    Ok(())
}
