//! From a path to what serves it.

use std::sync::Arc;

use http::Method;
use http::header::{CONTENT_LENGTH, HeaderValue};

use crate::answer::Answer;
use crate::crd;
use crate::deadline;
use crate::discovery;
use crate::index;
use crate::kinds::Kinds;
use crate::openapi;
use crate::pretty;
use crate::request::{Request, well_escaped};
use crate::server::Shared;
use crate::status::Status;
use crate::verbs::{self, Context};

/// Answers a request.
pub(crate) async fn route(server: &Arc<Shared>, request: &Request) -> Answer {
    if !well_escaped(request.uri.path()) {
        return Answer::bad_request();
    }
    let answer = match (deadline::check(request), &request.path) {
        _ if request.lacks_target() => Ok(Answer::untold(request)),
        (Err(status), _) => Err(status),
        (Ok(()), Some(path)) => resource(server, request, path).await,
        (Ok(()), None) => other(server, request),
    };
    let mut answer = answer.unwrap_or_else(Answer::from);
    if pretty::is_wanted(request, &answer) {
        answer.body = pretty::printed(answer.body).await;
    }
    if request.method == Method::HEAD {
        // The real server does not know how long what it cannot buffer is.
        let length = answer.body.known_length().filter(|length| *length <= 2048);
        answer
            .headers
            .extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        answer.body = bytes::Bytes::new().into();
    }
    answer
}

async fn resource(
    server: &Arc<Shared>,
    request: &Request,
    path: &crate::request::ResourcePath,
) -> Result<Answer, Status> {
    let kinds = server.registry.snapshot();
    let version = kinds
        .group(&path.group)
        .and_then(|group| group.versions.iter().find(|version| version.version == path.version));
    if version.is_none() {
        // A group that is served knows that the version is not; nobody is there for other groups.
        return absent(&kinds, &path.group);
    }
    let Some(resource) = kinds.resource(&path.group, &path.version, &path.resource) else {
        return absent(&kinds, &path.group);
    };
    let id = server.resource_id(resource).ok_or_else(Status::unknown_resource)?;
    let head;
    let request = if resource.custom && request.method == Method::HEAD {
        let mut asked = Request::new(
            Method::GET,
            request.uri.clone(),
            request.headers.clone(),
            bytes::Bytes::new(),
        );
        asked.replica.clone_from(&request.replica);
        head = asked;
        &head
    } else {
        request
    };
    let context = Context {
        server,
        request,
        path,
        resource,
        id,
    };
    let answer = verbs::run(context).await;
    if answer.is_ok() && request.verb.writes() {
        crd::after_write(server, resource);
    }
    answer
}

/// The answer for what a group does not serve: a group of built-in kinds says so, for all others nobody is there.
pub(crate) fn absent(kinds: &Kinds, group: &str) -> Result<Answer, Status> {
    match kinds.group(group) {
        Some(group) if !group.is_custom() => Err(Status::unknown_resource()),
        _ => Ok(Answer::page_not_found()),
    }
}

fn other(server: &Arc<Shared>, request: &Request) -> Result<Answer, Status> {
    let path = request.uri.path();
    if let Some(answer) = index::serve(&server.registry.snapshot(), request) {
        return Ok(answer);
    }
    if path.starts_with("//") || path.starts_with("/apis//") {
        return Ok(Answer::page_not_found());
    }
    // What answers for `/version` is asked about all that is below it.
    let below_version = path.strip_prefix("/version/").map(|rest| rest.trim_end_matches('/'));
    if below_version.is_some_and(|rest| !rest.is_empty()) {
        return Err(Status::unknown_resource());
    }
    // These documents do not look at the method.
    if let Some(answer) = openapi::serve(server, request) {
        return answer;
    }
    if request.method != Method::GET && !discovery::takes_all_methods(server, path) {
        if discovery::serves(server, path) {
            return Err(Status::method_not_allowed());
        }
        let absent = discovery::group_of(path).map(|group| absent(&server.registry.snapshot(), group));
        return absent.unwrap_or_else(|| Ok(Answer::page_not_found()));
    }
    discovery::serve(server, request).unwrap_or_else(|| Ok(Answer::page_not_found()))
}
