//! The verbs: each a function of (request, storage) to an answer. They know no faults and no transport.
//!
//! [`run`] picks the verb. Reading: [`get`], [`list`], [`watch`]. Writing: [`create`], [`update`], [`patch`] (with
//! [`apply`], which creates too), [`delete`], which share [`write`](mod@write).

mod apply;
mod bodies;
mod collection;
mod create;
mod custom_scale;
mod delete;
mod get;
mod list;
mod options;
mod patch;
mod pods;
mod questions;
mod scale;
mod streams;
mod token;
mod update;
mod watch;
mod write;

pub(crate) use create::create_object;
pub(crate) use write::check as check_findings;
#[cfg(any(test, fuzzing))]
pub(crate) use {list::Token, options::ListOptions};

use std::sync::Arc;

use crate::answer::Answer;
use crate::gotext::go_quote;
use crate::kinds::{Resource, Verb as KindVerb};
use crate::negotiate::{Include, Representation, Shape, Wanted, representation, unfit};
use crate::replica::Replica;
use crate::request::{Request, ResourcePath, Verb};
use crate::server::Shared;
use crate::status::{Status, Subject};
use crate::storage::{Range, ResourceId, Revision};
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
    if context.resource.custom {
        if nobody_serves(context) {
            return Ok(Answer::page_not_found());
        }
        let answer = match custom_route(context).and_then(|()| check_name(context)) {
            Ok(()) => dispatch(context).await,
            Err(status) => Err(status),
        };
        let warnings = context.request.take_warnings();
        let answer = if warnings.is_empty() {
            answer
        } else {
            Ok(answer.unwrap_or_else(Answer::from).warnings(&warnings))
        };
        return match &context.resource.deprecation {
            Some(text) => Ok(answer.unwrap_or_else(Answer::from).warning_before(text)),
            None => answer,
        };
    }
    built_in_route(context)?;
    check_name(context)?;
    // What can only be created is a question to the server, not an object.
    if !context.resource.verbs.contains(KindVerb::Get) && context.path.subresource.is_none() {
        return if context.resource.plural == "bindings" {
            pods::bind(context)
        } else {
            questions::ask(context)
        };
    }
    let answer = dispatch(context).await;
    // The router in front of the built-in kinds answers without this.
    let routed = |status: &Status| !matches!(status.code, 406 | 415) || status.details.is_none();
    match &context.resource.deprecation {
        Some(text) if answer.as_ref().err().is_none_or(routed) => {
            Ok(answer.unwrap_or_else(Answer::from).warning_before(text))
        }
        _ => answer,
    }
}

async fn dispatch(context: Context<'_>) -> Result<Answer, Status> {
    if let Some(name) = context.path.subresource.as_deref() {
        return subresource_verb(context, name).await;
    }
    match context.request.verb {
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

/// Custom resources are served behind a handler of their own, which has other answers for what is not there.
fn nobody_serves(context: Context<'_>) -> bool {
    let Context { path, request, .. } = context;
    let of_all = path.legacy_watch || path.name.is_none() && matches!(request.verb, Verb::List | Verb::Watch);
    context.is_misplaced() || context.lacks_namespace() && !of_all
}

/// What the handler of custom resources refuses before it looks at the request any closer.
fn custom_route(context: Context<'_>) -> Result<(), Status> {
    let Context {
        path,
        request,
        resource,
        ..
    } = context;
    // Where there is nothing in the place of the name, all objects are meant.
    let verb = match request.verb {
        Verb::Get if context.path.name.as_deref() == Some("") => Verb::List,
        Verb::Delete if context.path.name.as_deref() == Some("") => Verb::DeleteCollection,
        verb => verb,
    };
    // More segments do not count.
    let subresource = match path.subresource.as_deref() {
        Some(name) => Some(resource.subresource(name).ok_or_else(|| context.absent())?),
        None => None,
    };
    let Some(kind_verb) = kind_verb(verb) else {
        return Err(Status::method_not_supported(context.subject(), ""));
    };
    if subresource.is_some_and(|found| !found.verbs.contains(kind_verb)) {
        return Err(Status::method_not_supported(context.subject(), verb.as_str()));
    }
    if request.verb == Verb::Patch {
        patch::patch_type(context)?;
    }
    if matches!(request.verb, Verb::Update | Verb::Patch) && path.name.is_none() {
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(())
}

/// What the router of the built-in kinds refuses: paths and methods.
fn built_in_route(context: Context<'_>) -> Result<(), Status> {
    let Context {
        path,
        request,
        resource,
        ..
    } = context;
    let in_no_namespace = context.lacks_namespace() && !path.empty_namespace;
    // More segments are part of the path that a proxy is asked for.
    let proxied = path.subresource.as_deref() == Some("proxy");
    if path.tail && !proxied || context.is_misplaced() || in_no_namespace && path.name.is_some() && !path.legacy_watch {
        return Err(Status::unknown_resource());
    }
    // A path is there if the resource has any verb that needs it.
    let has_any = |verbs: &[KindVerb]| verbs.iter().any(|verb| resource.verbs.contains(*verb));
    let is_there = if path.legacy_watch {
        has_any(&[KindVerb::Watch])
    } else if path.subresource.is_some() {
        true
    } else if path.name.is_some() {
        has_any(&[KindVerb::Get, KindVerb::Update, KindVerb::Patch, KindVerb::Delete])
    } else {
        !in_no_namespace || has_any(&[KindVerb::List, KindVerb::Watch])
    };
    if !is_there {
        return Err(Status::unknown_resource());
    }
    let subresource = match path.subresource.as_deref() {
        Some(_) if path.legacy_watch => return Err(Status::unknown_resource()),
        Some(name) => Some(resource.subresource(name).ok_or_else(Status::unknown_resource)?),
        None => None,
    };
    let verb = kind_verb(request.verb).ok_or_else(Status::method_not_allowed)?;
    let verbs = subresource.map_or(resource.verbs, |subresource| subresource.verbs);
    let of_collection = path.name.is_none();
    let routed = match request.verb {
        Verb::Watch if path.legacy_watch => request.method == http::Method::GET,
        Verb::Create if subresource.is_none() => of_collection && !in_no_namespace,
        Verb::Update | Verb::Patch => !of_collection,
        Verb::DeleteCollection => !in_no_namespace,
        _ => true,
    };
    if routed && verbs.contains(verb) {
        Ok(())
    } else {
        Err(Status::method_not_allowed())
    }
}

/// Refuses a path with nothing in the place of the name.
fn check_name(context: Context<'_>) -> Result<(), Status> {
    if context.path.name.as_deref() == Some("") {
        return Err(Status::bad_request("name must be provided"));
    }
    Ok(())
}

async fn subresource_verb(context: Context<'_>, name: &str) -> Result<Answer, Status> {
    if name == "scale" && context.resource.custom {
        return custom_scale::run(context).await;
    }
    let of_pods = context.resource.group.is_empty() && context.resource.plural == "pods";
    let part = match name {
        "binding" if of_pods => return pods::bind(context),
        "eviction" if of_pods => return pods::evict(context),
        "log" | "exec" | "attach" | "portforward" if of_pods => return streams::stream(context, name),
        "token" if token::has_tokens(context) => return token::request(context),
        "status" => update::Part::Status,
        "finalize" => update::Part::Finalize,
        "approval" => update::Part::Approval,
        "scale" if !context.resource.custom => return scale::run(context).await,
        _ => {
            // Whether there is such an object is all that can be said; of a write, the body would come first.
            if context.request.verb == Verb::Get {
                get::get(context).await?;
            }
            return Err(not_implemented(&format!(
                "{}/{name}",
                context.resource.qualified_plural()
            )));
        }
    };
    match context.request.verb {
        Verb::Get => get::get(context).await,
        Verb::Update => update::update(context, part),
        Verb::Patch => patch::patch(context, part),
        _ => Err(Status::method_not_allowed()),
    }
}

fn not_implemented(what: &str) -> Status {
    Status::new(501, "NotImplemented", format!("this server does not implement {what}"))
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

    /// The path has a namespace, which the resource has not.
    fn is_misplaced(&self) -> bool {
        let given = self.path.namespace.is_some() || self.path.empty_namespace;
        given && !self.resource.namespaced()
    }

    /// The path has no namespace, which the resource has.
    fn lacks_namespace(&self) -> bool {
        self.resource.namespaced() && self.path.namespace.is_none()
    }

    /// What is said when the object that the path names is not there.
    pub(crate) fn absent(&self) -> Status {
        self.absent_as(self.name())
    }

    /// What is said when no object has this name: 404, or 400 if none can have it.
    pub(crate) fn absent_as(&self, name: &str) -> Status {
        let mut subject = self.subject();
        if (subject.group, subject.plural) == ("", "componentstatuses") {
            // The one that is called otherwise.
            subject.plural = "componentstatus";
        }
        self.check_key(name)
            .err()
            .unwrap_or_else(|| Status::not_found(subject, name))
    }

    /// Checks that there can be an object of this name where the path leads.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn check_key(&self, name: &str) -> Result<(), Status> {
        if self.path.empty_namespace && !self.resource.custom {
            return Err(Status::bad_request("Namespace parameter required."));
        }
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
    pub(crate) fn view(&self, shape: Shape) -> Result<WantedView, Status> {
        let accept = self.request.header(http::header::ACCEPT);
        let resource = self.resource;
        let reads = self.request.method == http::Method::GET;
        Ok(
            match representation(accept, shape, resource.custom, reads, self.has_table())? {
                Wanted::Form(Representation::Table(version, _)) => {
                    let include = Include::parse(self.request.query.get("includeObject").unwrap_or_default());
                    WantedView(
                        include
                            .map(|include| self.view_as(Representation::Table(version, include)))
                            .map_err(Box::new),
                    )
                }
                Wanted::Form(representation) => WantedView(Ok(self.view_as(representation))),
                Wanted::Unfit => WantedView(Err(Box::new(unfit(shape, resource)))),
            },
        )
    }

    /// Whether a real server reads the resource from its cache: it has none of events, and reads them from the store.
    fn is_cached(&self) -> bool {
        self.resource.is_cached()
    }

    /// The view that is asked, if it is behind the log: nobody is in what is not cached.
    fn replica(&self) -> Option<&'a Arc<Replica>> {
        self.request.replica.as_ref().filter(|_| self.is_cached())
    }

    /// The revision up to which whoever is asked sees the resource.
    fn seen(&self) -> Revision {
        let storage = &self.server.storage;
        self.replica()
            .map_or(Revision::MAX, |replica| replica.seen(storage, self.id))
    }

    /// Waits before a consistent list, which the real server serves from the cache when that has caught up, and from the store when
    /// it does not in time. Either way the answer shows every write before now.
    async fn catch_up(&self) {
        if let Some(replica) = self.replica() {
            let current = self.server.storage.current();
            let _ = self.server.wait_for_view(replica, self.id, current).await;
        }
    }

    /// Waits until the server has got to a revision.
    ///
    /// # Errors
    /// 504 if it does not in time. The store of a real server, which does not wait, names no time for the next attempt.
    async fn wait_for_revision(&self, rv: Revision) -> Result<(), Status> {
        if let Some(replica) = self.replica() {
            return self.server.wait_for_view(replica, self.id, rv).await;
        }
        if self.is_cached() {
            return self.server.wait_for_revision(rv).await;
        }
        let current = self.server.storage.current();
        if current >= rv {
            return Ok(());
        }
        Err(Status::too_large_resource_version(rv, current).retry_after(0))
    }

    /// Whether what the path names can be shown as a table: some subresources of the real server lack the converter.
    fn has_table(&self) -> bool {
        let group = &*self.resource.group;
        let plural = &*self.resource.plural;
        !matches!(
            (group, plural, self.path.subresource.as_deref()),
            ("apiextensions.k8s.io", "customresourcedefinitions", Some("status"))
                | ("apiregistration.k8s.io", "apiservices", Some("status"))
                | ("resource.k8s.io", "devicetaintrules" | "resourceclaims", Some("status"))
                | ("", "namespaces", Some("finalize"))
                | ("certificates.k8s.io", "certificatesigningrequests", Some("approval"))
        )
    }

    /// A view in a given representation.
    pub(crate) fn view_as(&self, representation: Representation) -> View {
        View::new(Arc::clone(self.resource), representation, self.server.clock.now())
    }
}

/// The form that a client wants; if that does not fit what is shown, the 406 for when it is shown: the real server does
/// first what the request asks for.
#[derive(Debug)]
pub(crate) struct WantedView(Result<View, Box<Status>>);

impl WantedView {
    /// The view.
    ///
    /// # Errors
    /// 406 if the form does not fit.
    pub(crate) fn get(&self) -> Result<&View, Status> {
        self.0.as_ref().map_err(|status| (**status).clone())
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
