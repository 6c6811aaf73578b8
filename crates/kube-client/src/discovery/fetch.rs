//! The requests of discovery: the aggregated documents of `/api` and `/apis`, or, from servers that do not have them, one
//! document for each group and version.
//!
//! Bounded: each answer in time and size, and so many requests at a time. An `ETag` that the server gave is sent back, so
//! that an unchanged document costs neither a body nor its decoding.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};
use kube::client::Body;
use kube::core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscoveryList};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::discovery::apis::{ServedApis, Which};
use crate::discovery::document::{self, Group, Version};
use crate::discovery::error::DiscoveryError;
use crate::environment::Environment;
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::reflector::failure::Failures;

/// How long one answer may take, from its begin to the end of its body.
const ANSWER: Duration = Duration::from_secs(30);
/// The largest answer; that of a bare server has about 200 kB, and each definition adds about one.
const LARGEST: usize = 64 << 20;
/// How many groups are asked at the same time, if each has to be asked alone.
const AT_A_TIME: usize = 8;

/// Fetches what the server serves, and remembers what makes the next time cheap.
pub(super) struct Fetcher {
    core: Option<Part>,
    named: Option<Part>,
    // What `core` and `named` were made into; `None` if more than those went into it.
    apis: Option<Arc<ServedApis>>,
}

/// The groups below one root, as they came last.
struct Part {
    // Of an aggregated document.
    etag: Option<HeaderValue>,
    groups: Arc<Vec<Group>>,
}

/// What one root brought.
enum Root {
    /// Nothing new: the groups are those of the `Part`.
    Unchanged(Arc<Vec<Group>>),
    New {
        groups: Arc<Vec<Group>>,
        etag: Option<HeaderValue>,
    },
    /// It may not be read now: the groups are those of the `Part`, if there is one.
    Refused { groups: Arc<Vec<Group>>, reason: String },
}

impl Root {
    fn groups(&self) -> &[Group] {
        match self {
            Root::Unchanged(groups) | Root::New { groups, .. } | Root::Refused { groups, .. } => groups,
        }
    }

    /// Why it may not be read.
    fn refusal(&self) -> Option<&str> {
        match self {
            Root::Unchanged(_) | Root::New { .. } => None,
            Root::Refused { reason, .. } => Some(reason),
        }
    }

    fn remember(self, part: &mut Option<Part>) {
        if let Root::New { groups, etag } = self {
            *part = Some(Part { etag, groups });
        }
    }
}

impl Fetcher {
    pub(super) fn new() -> Self {
        Self {
            core: None,
            named: None,
            apis: None,
        }
    }

    /// Asks the server. Dropping the future loses nothing.
    pub(super) async fn fetch(
        &mut self,
        env: &Environment,
        previous: Option<Arc<ServedApis>>,
    ) -> Result<Arc<ServedApis>, DiscoveryError> {
        let ask = Ask {
            env,
            failures: Failures::named("API groups"),
        };
        let (core, named) = tokio::join!(
            ask.root("/api", self.core.as_ref()),
            ask.root("/apis", self.named.as_ref())
        );
        // A server may have named groups alone, or refuse one of the two: what the other says is worth having.
        let (core, named) = match (core, named) {
            (Err(core), Err(named)) => {
                let both_missing = core.kind == WatchErrorKind::NotFound && named.kind == WatchErrorKind::NotFound;
                let error = if both_missing { ask.not_kubernetes() } else { named };
                return Err(DiscoveryError::Request(error));
            }
            (core, named) => (settle(core, self.core.as_ref())?, settle(named, self.named.as_ref())?),
        };
        if let (Root::Unchanged(_), Root::Unchanged(_), Some(apis)) = (&core, &named, &self.apis) {
            return Ok(Arc::clone(apis));
        }
        let answers = [
            (Which::Core, core.groups(), core.refusal()),
            (Which::Named, named.groups(), named.refusal()),
        ];
        let apis = Arc::new(ServedApis::new(&answers, previous.as_deref()));
        for unavailable in apis.unavailable() {
            tracing::warn!(cluster = %env.cluster, "discovery: {unavailable}");
        }
        let whole = core.refusal().or(named.refusal()).is_none();
        self.apis = whole.then(|| Arc::clone(&apis));
        core.remember(&mut self.core);
        named.remember(&mut self.named);
        Ok(apis)
    }
}

/// What a root comes to that brought this, and `part` before. One that may not be read keeps what was known; one that was
/// never there is empty. Anything else fails the whole, and so does one that has vanished: what it had has not vanished with
/// it, rather is it somebody else who answers.
fn settle(root: Result<Root, WatchError>, part: Option<&Part>) -> Result<Root, DiscoveryError> {
    let known = || part.map_or_else(Arc::default, |part| Arc::clone(&part.groups));
    match root {
        Ok(root) => Ok(root),
        Err(error) if error.kind == WatchErrorKind::Forbidden => Ok(Root::Refused {
            groups: known(),
            reason: error.message,
        }),
        Err(error) if error.kind == WatchErrorKind::NotFound && known().is_empty() => Ok(Root::New {
            groups: known(),
            etag: None,
        }),
        Err(error) => Err(DiscoveryError::Request(error)),
    }
}

struct Ask<'a> {
    env: &'a Environment,
    failures: Failures,
}

impl Ask<'_> {
    /// Every group below `/api` or `/apis`.
    async fn root(&self, path: &str, known: Option<&Part>) -> Result<Root, WatchError> {
        let etag = known.and_then(|part| part.etag.as_ref());
        let mut response = self.send(path, ACCEPT_AGGREGATED_DISCOVERY_V2, etag).await;
        if response
            .as_ref()
            .is_ok_and(|response| response.status() == StatusCode::NOT_ACCEPTABLE)
        {
            response = self.send(path, "application/json", None).await;
        }
        let response = response?;
        if response.status() == StatusCode::NOT_MODIFIED
            && let Some(part) = known
        {
            return Ok(Root::Unchanged(Arc::clone(&part.groups)));
        }
        let is_aggregated = header_text(&response, &header::CONTENT_TYPE).contains("as=APIGroupDiscoveryList");
        let etag = response.headers().get(header::ETAG).cloned();
        if is_aggregated {
            let list: APIGroupDiscoveryList = self.read(path, response).await?;
            return Ok(Root::New {
                groups: Arc::new(document::aggregated(list)),
                etag,
            });
        }
        let groups = if path == "/api" {
            let versions: APIVersions = self.read(path, response).await?;
            vec![self.group("/api", String::new(), versions.versions).await]
        } else {
            let list: APIGroupList = self.read(path, response).await?;
            self.groups(list).await
        };
        Ok(Root::New {
            groups: Arc::new(groups),
            etag: None,
        })
    }

    /// Each group by itself, in the order of the list.
    async fn groups(&self, list: APIGroupList) -> Vec<Group> {
        let groups = list.groups.into_iter().map(|group| {
            let preferred = group.preferred_version.map(|preferred| preferred.version);
            let listed = group.versions.into_iter().map(|version| version.version);
            let mut versions: Vec<String> = listed.filter(|version| Some(version) != preferred.as_ref()).collect();
            versions.splice(0..0, preferred);
            self.group("/apis", group.name, versions)
        });
        stream::iter(groups).buffered(AT_A_TIME).collect().await
    }

    /// The versions of one group, one after the other. One that fails is named and does not break the others.
    async fn group(&self, root: &str, name: String, versions: Vec<String>) -> Group {
        let prefix = if name.is_empty() {
            root.to_owned()
        } else {
            format!("{root}/{name}")
        };
        let mut found = Vec::with_capacity(versions.len());
        for version in versions {
            let path = format!("{prefix}/{version}");
            let list = match self.send(&path, "application/json", None).await {
                Ok(response) => self.read::<APIResourceList>(&path, response).await,
                Err(error) => Err(error),
            };
            let (resources, unavailable) = match list {
                Ok(list) => (document::resources(&name, &version, list), None),
                Err(error) => (Vec::new(), Some(error.message)),
            };
            found.push(Version {
                name: version,
                resources,
                unavailable,
            });
        }
        Group { name, versions: found }
    }

    /// Sends a request. An answer that is neither a success, nor "unchanged", nor "not in this form" is an error.
    async fn send(&self, path: &str, accept: &str, etag: Option<&HeaderValue>) -> Result<Response<Body>, WatchError> {
        let mut request = Request::get(path).header(header::ACCEPT, accept);
        if let Some(etag) = etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let request = request
            .body(Body::empty())
            .map_err(|error| self.failed(WatchErrorKind::Protocol, path, &error.to_string()))?;
        // The client's own limit is no silence of the server.
        self.env.limit.admit().await;
        let response = match timeout(ANSWER, self.env.kube.send(request)).await {
            Err(_) => return Err(self.no_answer(path)),
            Ok(Err(error)) => return Err(self.failures.transport(Step::Discover, &error)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status.is_success() || matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NOT_ACCEPTABLE) {
            return Ok(response);
        }
        Err(self.failures.refusal(Step::Discover, response).await)
    }

    /// Reads and decodes a body.
    async fn read<T: DeserializeOwned>(&self, path: &str, response: Response<Body>) -> Result<T, WatchError> {
        let media_type = header_text(&response, &header::CONTENT_TYPE).to_owned();
        if !media_type.is_empty() && !media_type.to_ascii_lowercase().starts_with("application/json") {
            let detail = format!("its answer is {media_type}, not JSON");
            return Err(self.failed(WatchErrorKind::NotKubernetes, path, &detail));
        }
        let body = match timeout(ANSWER, Limited::new(response.into_body(), LARGEST).collect()).await {
            Err(_) => return Err(self.no_answer(path)),
            Ok(Err(error)) => return Err(self.failed(WatchErrorKind::Unreachable, path, &error.to_string())),
            Ok(Ok(body)) => body.to_bytes(),
        };
        serde_json::from_slice(&body).map_err(|error| self.failed(WatchErrorKind::Protocol, path, &error.to_string()))
    }

    fn failed(&self, kind: WatchErrorKind, path: &str, detail: &str) -> WatchError {
        self.failures.of(Step::Discover, kind, &format!("{path}: {detail}"))
    }

    fn no_answer(&self, path: &str) -> WatchError {
        let detail = format!("the server has not answered within {} s", ANSWER.as_secs());
        self.failed(WatchErrorKind::NoAnswer, path, &detail)
    }

    fn not_kubernetes(&self) -> WatchError {
        let detail = "it has neither /api nor /apis";
        self.failures.of(Step::Discover, WatchErrorKind::NotKubernetes, detail)
    }
}

fn header_text<'a>(response: &'a Response<Body>, name: &header::HeaderName) -> &'a str {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
