//! From a path to what serves it.

use std::sync::Arc;

use http::Method;

use crate::answer::Answer;
use crate::crd;
use crate::discovery;
use crate::openapi;
use crate::request::Request;
use crate::server::Shared;
use crate::status::Status;
use crate::verbs::{self, Context};

/// The paths of the health checks.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Answers a request.
pub(crate) async fn route(server: &Arc<Shared>, request: &Request) -> Answer {
    let answer = match &request.path {
        Some(path) => resource(server, request, path).await,
        None => other(server, request),
    };
    let mut answer = answer.unwrap_or_else(Answer::from);
    if request.method == Method::HEAD {
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
        return if kinds.group(&path.group).is_some() {
            Err(Status::unknown_resource())
        } else {
            Ok(Answer::page_not_found())
        };
    }
    let resource = kinds
        .resource(&path.group, &path.version, &path.resource)
        .ok_or_else(Status::unknown_resource)?;
    let id = server.resource_id(resource).ok_or_else(Status::unknown_resource)?;
    let context = Context {
        server,
        request,
        path,
        resource,
        id,
    };
    let answer = verbs::run(context).await;
    if answer.is_ok() && request.verb.writes() && crd::is_definition(resource) {
        crd::reconcile(server);
    }
    answer
}

fn other(server: &Arc<Shared>, request: &Request) -> Result<Answer, Status> {
    let path = request.uri.path();
    if let Some(check) = HEALTH.iter().find(|check| {
        path.strip_prefix(**check)
            .is_some_and(|rest| matches!(rest, "" | "/ping"))
    }) {
        let verbose = request.query.get("verbose").is_some();
        return Ok(if verbose {
            Answer::health(check)
        } else {
            Answer::text(200, "ok")
        });
    }
    if request.method != Method::GET {
        return if discovery::serves(server, path) || openapi::serves(path) {
            Err(Status::method_not_allowed())
        } else {
            Ok(Answer::page_not_found())
        };
    }
    openapi::serve(server, request)
        .or_else(|| discovery::serve(server, request))
        .unwrap_or_else(|| Ok(Answer::page_not_found()))
}
