//! Creates an object.

use std::sync::Arc;

use super::update::Tracking;
use super::write::{self, WriteOptions, WrongType};
use super::{Context, questions};
use crate::answer::Answer;
use crate::codec::settle_empty_lists;
use crate::crd;
use crate::hooks;
use crate::kinds::{GenerationMode, Resource};
use crate::namespaces;
use crate::negotiate::Shape;
use crate::object::Object;
use crate::server::Shared;
use crate::status::{Status, Subject};
use crate::storage::{Change, Outcome, ResourceId, Versioned};
use crate::stored::{Stored, key_of};
use crate::validation::validate_create;

/// How often a generated name that exists already is generated anew.
const NAME_ATTEMPTS: usize = 8;

/// `POST` to a collection.
///
/// # Errors
/// 400, 403, 404, 406, 409, 415, 422, and 500 for a given resourceVersion.
pub(super) fn create(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    // Unlike for an update, the format of the body comes before the options.
    write::content_type(context)?;
    write::check_size(context)?;
    let options = write::options(context, "CreateOptions")?;
    let mut decoded = write::body(context, options)?;
    let wrong_type = WrongType::of(context.resource, &decoded);
    let is_of_path = write::check_version(&decoded)
        .and_then(|()| write::settle_namespace(context.resource, context.namespace(), &mut decoded.object));
    if let Err(status) = is_of_path {
        return write::warned(Err(status), &decoded.warnings);
    }
    let mut warnings = decoded.warnings;
    warnings.extend(decoded.repeated_owners);
    let mut of_valid = write::finalizer_warnings(context.resource, &[], &decoded.object.meta.finalizers);
    of_valid.extend(hooks::name_warning(context.resource, &decoded.object));
    // Nobody owns what a new object cannot have; of one that an update creates, its writer does.
    decoded.object.meta.deletion_timestamp = None;
    decoded.object.meta.deletion_grace_period_seconds = None;
    let created = create_in(context, decoded.object, options, wrong_type, Tracking::Due);
    // Said of what is valid, also if it exists already.
    if created
        .as_ref()
        .err()
        .is_none_or(|status| status.reason == "AlreadyExists")
    {
        warnings.extend(of_valid);
    }
    let answer = created.and_then(|version| write::shown(&view, 201, &version));
    write::warned(answer, &warnings)
}

/// Creates a decoded object in the namespace of the path.
pub(super) fn create_in(
    context: Context<'_>,
    mut object: Object,
    options: WriteOptions,
    wrong_type: Option<WrongType>,
    tracking: Tracking,
) -> Result<Versioned<Stored>, Status> {
    let resource = context.resource;
    write::settle_namespace(resource, context.namespace(), &mut object)?;
    // What is no number counts as none.
    let has_version = object
        .meta
        .resource_version
        .parse()
        .is_ok_and(|version: u64| version > 0);
    namespaces::check_create(context.server, context.subject(), &object)?;
    crd::check_create(context.server, resource, context.subject(), &object.meta.name)?;
    if let Some(wrong_type) = wrong_type {
        return Err(wrong_type.refusal(resource, Vec::new()));
    }
    hooks::before_write(resource, &mut object);
    if !object.meta.name.is_empty() {
        hooks::named(resource, &mut object);
    }
    let mut object = write::settled(context, tracking, None, object);
    let resource = resource.settled_in();
    settle_empty_lists(resource, &mut object);
    prepare(context.server, resource, &mut object, StatusField::Policy);
    if let Some(write_asker) = hooks::on_asked(resource) {
        write_asker(&mut object, &questions::user(context));
    }
    hooks::admit(resource, &mut object);
    hooks::before_create(resource, &mut object);
    store_new(
        context.server,
        resource,
        context.id,
        object,
        options.dry_run,
        has_version,
    )
}

/// What happens to the status of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusField {
    /// Dropped or kept as the resource says.
    Policy,
    /// Kept: the object is put there by the test, not by a client.
    Kept,
}

fn prepare(server: &Shared, resource: &Resource, object: &mut Object, status: StatusField) {
    let policy = &resource.policy;
    let meta = &mut object.meta;
    meta.resource_version.clear();
    meta.self_link.clear();
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.creation_timestamp = Some(server.clock.now());
    meta.uid = server.names.uid();
    match policy.generation {
        GenerationMode::Managed
        | GenerationMode::ManagedWithAnnotations
        | GenerationMode::ManagedWithLabels
        | GenerationMode::Fixed => meta.generation = 1,
        GenerationMode::Client | GenerationMode::ClientThenIncrement => {}
    }
    for finalizer in &policy.finalizers_on_create {
        if !meta.finalizers.iter().any(|present| present == finalizer) {
            meta.finalizers.push(finalizer.to_string());
        }
    }
    let drops_status = policy.status.subresource && !policy.status.kept_on_create;
    if status == StatusField::Policy && drops_status {
        hooks::reset_status(resource, object);
    }
}

fn store_new(
    server: &Shared,
    resource: &Resource,
    id: ResourceId,
    unnamed: Object,
    dry_run: bool,
    has_version: bool,
) -> Result<Versioned<Stored>, Status> {
    let prefix = unnamed.meta.generate_name.clone();
    let generated = unnamed.meta.name.is_empty() && !prefix.is_empty();
    let attempts = if generated { NAME_ATTEMPTS } else { 1 };
    let mut result = Err(Status::untyped("no name was generated"));
    let mut unnamed = Some(unnamed);
    for attempt in 1..=attempts {
        // Each attempt begins with the object as it was: what is made of one name does not stay with the next.
        let next = if attempt == attempts {
            unnamed.take()
        } else {
            unnamed.clone()
        };
        let Some(mut object) = next else { break };
        if generated {
            object.meta.name = server.names.name(&object.meta.generate_name);
        } else if object.meta.name.is_empty() && hooks::names_itself(resource) {
            object.meta.name = server.names.uid();
        }
        // A name that was not given is not looked at twice.
        if !generated {
            hooks::named(resource, &mut object);
        }
        hooks::name_settled(resource, &mut object);
        // What is handed out is refused before the rest is looked at.
        let _held = hooks::allocate(server, resource, id, None, &mut object)?;
        let of_metadata = validate_create(resource, &object.meta);
        let errors = hooks::validate_new(resource, &object, of_metadata);
        write::check(resource, &object.meta.name, &errors)?;
        hooks::named(resource, &mut object);
        hooks::before_store(resource, &mut object);
        // A dry run does not get as far.
        if has_version && !dry_run {
            return Err(Status::untyped(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        result = insert(server, super::subject(resource), resource, id, &object, dry_run);
        if !matches!(&result, Err(status) if status.reason == "AlreadyExists") {
            break;
        }
    }
    // Said of every name beside a prefix, generated or not.
    result.map_err(|mut status| {
        if status.reason == "AlreadyExists" && !prefix.is_empty() {
            status.message += ", the server was not able to generate a unique name for the object";
            return status.retry_after(1);
        }
        status
    })
}

fn insert(
    server: &Shared,
    subject: Subject<'_>,
    resource: &Resource,
    id: ResourceId,
    object: &Object,
    dry_run: bool,
) -> Result<Versioned<Stored>, Status> {
    let name = object.meta.name.as_str();
    let key = key_of(Some(&object.meta.namespace), name);
    let stored = Arc::new(Stored::of(resource, object));
    let outcome = server.storage.update(id, &key, |old| match old {
        Some(old) if old.object.terminating => Err(Status::being_deleted(subject, name)),
        Some(_) => Err(Status::already_exists(subject, name)),
        None if dry_run => Ok(Change::Keep),
        None => Ok(Change::Put(Arc::clone(&stored))),
    })?;
    Ok(match outcome {
        Outcome::Written(version) | Outcome::Deleted { last: version, .. } => version,
        Outcome::Kept(_) => write::unstored(stored, 0),
    })
}

/// Puts an object there without a request, with the status that it has.
///
/// # Errors
/// As for a create.
pub(crate) fn create_object(
    server: &Shared,
    resource: &Resource,
    id: ResourceId,
    mut object: Object,
) -> Result<Versioned<Stored>, Status> {
    let namespace = object.meta.namespace.clone();
    write::settle_namespace(resource, Some(&namespace), &mut object)?;
    if resource.namespaced() && namespace.is_empty() {
        return Err(Status::bad_request(
            "an object of a namespaced resource needs a namespace",
        ));
    }
    namespaces::check_create(server, super::subject(resource), &object)?;
    prepare(server, resource, &mut object, StatusField::Kept);
    hooks::before_write(resource, &mut object);
    settle_empty_lists(resource, &mut object);
    hooks::admit(resource, &mut object);
    hooks::before_create(resource, &mut object);
    store_new(server, resource, id, object, false, false)
}
