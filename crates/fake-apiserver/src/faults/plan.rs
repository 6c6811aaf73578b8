//! What the rules that fired want to happen to one request.

use std::time::Duration;

use super::{Cut, Fault, StatusFault};
use crate::request::{Request, Verb};
use crate::request_log::qualified;
use crate::status::{Details, Status};

/// The end of a request that never reaches its verb.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Answer with an error.
    Status(Box<Status>),
    /// Answer with a web page.
    Page { code: u16, body: String },
    /// No answer at all.
    Connection,
}

/// A fault in the body of the answer.
#[derive(Clone, Debug)]
pub(crate) enum BodyFault {
    /// End cleanly after that many events.
    End { after: usize },
    /// Send an ERROR event after that many events, then end.
    Error { after: usize, status: Box<Status> },
    /// Break after that many parts.
    Reset { after: usize, cut: Cut },
    /// Deliver nothing more after that many parts.
    Silence { after: usize },
    /// Drop bookmarks.
    WithholdBookmarks,
    /// Drop the bookmark that ends the initial events.
    WithholdInitialEventsEnd,
}

impl BodyFault {
    /// Whether it is for answers of any code, not for watches that the server has opened.
    pub(crate) fn meets_errors(&self) -> bool {
        match self {
            Self::Reset { .. } => true,
            Self::End { .. }
            | Self::Silence { .. }
            | Self::Error { .. }
            | Self::WithholdBookmarks
            | Self::WithholdInitialEventsEnd => false,
        }
    }
}

/// Everything that the rules want for one request.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Wait that long first.
    pub(crate) latency: Duration,
    /// Then compact the log.
    pub(crate) compact: bool,
    /// Then answer without the verb.
    pub(crate) refusal: Option<Refusal>,
    /// Or run the verb and drop its answer.
    pub(crate) lose_response: bool,
    /// Or spoil the body of its answer.
    pub(crate) body: Vec<BodyFault>,
    /// And pack it.
    pub(crate) packed: bool,
    /// And send it in chunks of so many bytes.
    pub(crate) chunks: Option<usize>,
}

impl Plan {
    pub(super) fn add(&mut self, fault: &Fault, request: &Request) {
        match fault {
            Fault::Latency(latency) => self.latency = self.latency.saturating_add(*latency),
            Fault::Status(status) => self.refusal = Some(Refusal::Status(Box::new(status.to_status(request)))),
            Fault::Refuse => self.refusal = Some(Refusal::Connection),
            Fault::LoseResponse => self.lose_response = true,
            Fault::Compact => self.compact = true,
            Fault::EndWatch { after } => self.body.push(BodyFault::End { after: *after }),
            Fault::WatchError { after, status } => {
                let status = Box::new(status.to_status(request));
                self.body.push(BodyFault::Error { after: *after, status });
            }
            Fault::Reset { after, cut } => self.body.push(BodyFault::Reset {
                after: *after,
                cut: *cut,
            }),
            Fault::Silence { after } => self.body.push(BodyFault::Silence { after: *after }),
            Fault::Packed => self.packed = true,
            Fault::Chunks { size } => self.chunks = Some((*size).max(1)),
            Fault::Page { code, body } => {
                self.refusal = Some(Refusal::Page {
                    code: *code,
                    body: body.clone(),
                });
            }
            Fault::WithholdBookmarks => self.body.push(BodyFault::WithholdBookmarks),
            Fault::WithholdInitialEventsEnd => self.body.push(BodyFault::WithholdInitialEventsEnd),
        }
    }
}

impl StatusFault {
    /// The status with the reason and text that a real server gives with this code.
    fn to_status(&self, request: &Request) -> Status {
        let path = request.path.clone().unwrap_or_default();
        let resource = qualified(&path.resource, &path.group);
        let named = path
            .name
            .as_ref()
            .map_or_else(|| resource.clone(), |name| format!("{resource} \"{name}\""));
        let (reason, message) = match self.code {
            400 => (
                "BadRequest",
                "the server rejected our request for an unknown reason".to_owned(),
            ),
            401 => ("Unauthorized", "Unauthorized".to_owned()),
            403 => ("Forbidden", forbidden(&named, &path, request.verb)),
            404 => (
                "NotFound",
                "the server could not find the requested resource".to_owned(),
            ),
            405 => (
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource".to_owned(),
            ),
            409 => (
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {named}: the object has been modified; please apply your changes \
                     to the latest version and try again"
                ),
            ),
            410 => (
                "Expired",
                "The resourceVersion for the provided watch is too old.".to_owned(),
            ),
            422 => (
                "Invalid",
                "the server rejected our request due to an error in our request".to_owned(),
            ),
            429 => (
                "TooManyRequests",
                "Too many requests, please try again later.".to_owned(),
            ),
            500 => ("InternalError", "Internal error occurred: fault injected".to_owned()),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request".to_owned(),
            ),
            504 => (
                "Timeout",
                "Timeout: request did not complete within the allotted timeout".to_owned(),
            ),
            code => (
                "",
                format!("an error on the server ({code}) has prevented the request from succeeding"),
            ),
        };
        let mut status = Status::new(
            self.code,
            self.reason.as_deref().unwrap_or(reason),
            self.message.clone().unwrap_or(message),
        );
        if matches!(self.code, 403 | 409) {
            status.details = Some(Box::new(Details {
                name: path.name.unwrap_or_default(),
                group: path.group,
                kind: path.resource,
                ..Details::default()
            }));
        }
        match self.retry_after {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        }
    }
}

fn forbidden(named: &str, path: &crate::request::ResourcePath, verb: Verb) -> String {
    let place = match &path.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    format!(
        "{named} is forbidden: User \"system:anonymous\" cannot {verb} resource \"{}\" in API group \"{}\" {place}",
        path.resource, path.group
    )
}
