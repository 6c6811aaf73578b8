//! The verbs: each a function of (request, storage) to an answer. They know no faults and no transport.
//!
//! [`run`] picks the verb. Reading: [`get`], [`list`], [`watch`]. Writing: [`create`], [`update`], [`patch`],
//! [`delete`], which share [`write`](mod@write).

mod collection;
mod create;
mod delete;
mod get;
mod list;
mod options;
mod patch;
mod update;
mod watch;
mod write;

pub(crate) use create::create_object;

use std::sync::Arc;

use crate::answer::Answer;
use crate::codec::go_quote;
use crate::kinds::{Resource, Verb as KindVerb};
use crate::negotiate::{Representation, Shape, representation};
use crate::request::{Request, ResourcePath, Verb};
use crate::server::Shared;
use crate::status::{Status, Subject};
use crate::storage::{Range, ResourceId};
use crate::stored::key_of;
use crate::view::View;

/// One request to one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) server: &'a Arc<Shared>,
    pub(crate) request: &'a Request,
    pub(crate) path: &'a ResourcePath,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) id: ResourceId,
}

/// Runs the verb that a request asks for.
///
/// # Errors
/// The status that the client gets.
pub(crate) async fn run(context: Context<'_>) -> Result<Answer, Status> {
    let Context {
        path,
        resource,
        request,
        ..
    } = context;
    let misplaced = path.namespace.is_some() && !resource.namespaced();
    let needs_namespace = resource.namespaced() && path.namespace.is_none();
    if resource.custom {
        // Custom resources are served behind a handler of their own, which has other answers for what is not there.
        let writes = matches!(request.verb, Verb::Create | Verb::DeleteCollection);
        if misplaced || needs_namespace && (path.name.is_some() && !path.legacy_watch || writes) {
            return Ok(Answer::page_not_found());
        }
    } else if path.tail || misplaced || needs_namespace && path.name.is_some() && !path.legacy_watch {
        return Err(Status::unknown_resource());
    }
    if let Some(name) = &path.name {
        check_name(name)?;
    }
    let unknown_subresource = |name: &str| !resource.custom && resource.subresource(name).is_none();
    let verb = match kind_verb(request.verb) {
        Some(verb) => verb,
        None if path.subresource.as_deref().is_some_and(unknown_subresource) => return Err(Status::unknown_resource()),
        None if resource.custom => return Err(Status::method_not_supported(context.subject(), "")),
        None => return Err(Status::method_not_allowed()),
    };
    if let Some(name) = path.subresource.as_deref() {
        let found = resource.subresource(name).filter(|_| !path.legacy_watch && !path.tail);
        return match found {
            Some(found) if found.verbs.contains(verb) => subresource_verb(context, name),
            Some(_) if resource.custom => Err(Status::method_not_supported(context.subject(), request.verb.as_str())),
            Some(_) => Err(Status::method_not_allowed()),
            None if resource.custom => Err(Status::not_found(context.subject(), context.name())),
            None => Err(Status::unknown_resource()),
        };
    }
    let of_collection = path.name.is_none();
    let whole_server = needs_namespace && matches!(verb, KindVerb::Create | KindVerb::DeleteCollection);
    let routed = match request.verb {
        Verb::Update | Verb::Patch if of_collection && resource.custom => {
            return Err(Status::bad_request("name must be provided"));
        }
        Verb::Update | Verb::Patch => !of_collection,
        Verb::Create => of_collection || resource.custom,
        _ => true,
    };
    if !routed || whole_server || !resource.verbs.contains(verb) {
        return Err(Status::method_not_allowed());
    }
    match request.verb {
        Verb::Get => get::get(context).await,
        Verb::List => list::list(context).await,
        Verb::Watch => watch::watch(context),
        Verb::Create => create::create(context),
        Verb::Update => update::update(context, update::Part::Main),
        Verb::Patch => patch::patch(context, update::Part::Main),
        Verb::Delete => delete::delete(context),
        Verb::DeleteCollection => collection::delete_collection(context).await,
        Verb::Other => Err(Status::method_not_allowed()),
    }
}

/// Refuses names that no object can have.
fn check_name(name: &str) -> Result<(), Status> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        name if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!(
        "Name parameter invalid: {}: {why}",
        go_quote(name)
    )))
}

fn subresource_verb(context: Context<'_>, name: &str) -> Result<Answer, Status> {
    let part = match name {
        "status" => update::Part::Status,
        "finalize" => update::Part::Finalize,
        _ => {
            get::get_now(context)?;
            let what = format!("{}/{name}", context.resource.qualified_plural());
            return Err(Status::new(
                501,
                "NotImplemented",
                format!("this server does not implement {what}"),
            ));
        }
    };
    match context.request.verb {
        Verb::Get => get::get_now(context),
        Verb::Update => update::update(context, part),
        Verb::Patch => patch::patch(context, part),
        _ => Err(Status::method_not_allowed()),
    }
}

fn kind_verb(verb: Verb) -> Option<KindVerb> {
    Some(match verb {
        Verb::Get => KindVerb::Get,
        Verb::List => KindVerb::List,
        Verb::Watch => KindVerb::Watch,
        Verb::Create => KindVerb::Create,
        Verb::Update => KindVerb::Update,
        Verb::Patch => KindVerb::Patch,
        Verb::Delete => KindVerb::Delete,
        Verb::DeleteCollection => KindVerb::DeleteCollection,
        Verb::Other => return None,
    })
}

impl<'a> Context<'a> {
    /// What statuses speak of.
    pub(crate) fn subject(&self) -> Subject<'a> {
        subject(self.resource)
    }

    /// The object name in the path; empty for a collection.
    pub(crate) fn name(&self) -> &'a str {
        self.path.name.as_deref().unwrap_or_default()
    }

    /// The namespace in the path.
    pub(crate) fn namespace(&self) -> Option<&'a str> {
        self.path.namespace.as_deref()
    }

    /// The storage key of the object that the path names.
    pub(crate) fn key(&self) -> String {
        key_of(self.namespace(), self.name())
    }

    /// The keys that a collection path covers.
    pub(crate) fn range(&self) -> Range {
        self.namespace()
            .map_or(Range::All, |namespace| Range::Namespace(namespace.to_owned()))
    }

    /// The form in which the client wants the answer.
    ///
    /// # Errors
    /// 406 if it cannot be had.
    pub(crate) fn view(&self, shape: Shape) -> Result<View, Status> {
        let accept = self.request.header(http::header::ACCEPT);
        let resource = self.resource;
        let reads = self.request.method == http::Method::GET;
        Ok(self.view_as(representation(accept, shape, &resource.kind, resource.custom, reads)?))
    }

    /// A view in a given representation.
    pub(crate) fn view_as(&self, representation: Representation) -> View {
        View::new(Arc::clone(self.resource), representation, self.server.clock.now())
    }
}

/// What statuses about a resource speak of.
pub(crate) fn subject(resource: &Resource) -> Subject<'_> {
    Subject {
        group: &resource.group,
        plural: &resource.plural,
        kind: &resource.kind,
    }
}
