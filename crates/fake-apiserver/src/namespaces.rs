//! The life of namespaces: which exist from the start, and what may be created in one.

use crate::kinds::Kinds;
use crate::object::Object;
use crate::server::Shared;
use crate::status::{Cause, Status, Subject};

/// The namespaces that every cluster has.
pub(crate) const INITIAL: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

const NAMESPACES: Subject<'static> = Subject {
    group: "",
    plural: "namespaces",
    kind: "Namespace",
};

/// Checks that the namespace of a new object exists and is not going away.
///
/// # Errors
/// 404 and 403.
pub(crate) fn check_create(server: &Shared, subject: Subject<'_>, object: &Object) -> Result<(), Status> {
    let namespace = object.meta.namespace.as_str();
    if namespace.is_empty() {
        return Ok(());
    }
    let kinds = server.registry.snapshot();
    let id = namespaces(&kinds).and_then(|resource| server.resource_id(resource));
    let stored = id.and_then(|id| server.storage.get(id, namespace));
    let Some(stored) = stored else {
        return Err(Status::not_found(NAMESPACES, namespace));
    };
    if !stored.object.terminating {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = Cause::new(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    );
    // Names are generated later.
    let meta = &object.meta;
    let names = [meta.name.as_str(), meta.generate_name.as_str(), "Unknown"];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    Err(Status::forbidden(subject, name, &why).cause(cause))
}

/// Checks that an object may be deleted: some namespaces may not.
///
/// # Errors
/// 403.
pub(crate) fn check_delete(subject: Subject<'_>, name: &str) -> Result<(), Status> {
    if subject.group.is_empty() && subject.plural == NAMESPACES.plural && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(NAMESPACES, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// The resource of namespaces.
pub(crate) fn namespaces(kinds: &Kinds) -> Option<&std::sync::Arc<crate::kinds::Resource>> {
    kinds.resource("", "v1", NAMESPACES.plural)
}
