//! What can go wrong when the server is asked what it serves.

use crate::error::{WatchError, WatchErrorKind};

/// A resource could not be looked up.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// No resource that the server serves fits. A retry helps once the kind is installed; the server is asked at most
    /// once in 5 s.
    #[error("the server does not serve {what}{}", hints(.close, .unavailable))]
    NotServed {
        /// What was looked up.
        what: String,
        /// What comes near: the same name in another group or version, or names that are spelled much alike.
        close: Vec<String>,
        /// Groups that could not be asked: it may be in one of them.
        unavailable: Vec<String>,
    },
    /// The group cannot be asked now, so it is not known whether it has the resource: typically the server of an
    /// aggregated API is down. A retry can help.
    #[error("cannot tell whether the server serves {what}: {group_version} is unavailable: {reason}")]
    Unavailable {
        /// What was looked up.
        what: String,
        /// The group and version that do not answer.
        group_version: String,
        /// Why, as far as it is known.
        reason: String,
    },
    /// The server could not be asked at all: unreachable, forbidden, or no Kubernetes API server.
    #[error("cannot find out what the server serves")]
    Request(#[source] WatchError),
}

impl DiscoveryError {
    /// Whether the resource is known not to be served, as opposed to not being known.
    pub fn is_not_served(&self) -> bool {
        matches!(self, DiscoveryError::NotServed { .. })
    }

    /// Whether a retry can help without anybody changing something: not for a kind that is not installed, nor for
    /// missing rights.
    pub fn is_retryable(&self) -> bool {
        match self {
            DiscoveryError::NotServed { unavailable, .. } => !unavailable.is_empty(),
            DiscoveryError::Unavailable { .. } => true,
            DiscoveryError::Request(error) => !matches!(
                error.kind,
                WatchErrorKind::Unauthorized | WatchErrorKind::Forbidden | WatchErrorKind::NotKubernetes
            ),
        }
    }
}

fn hints(close: &[String], unavailable: &[String]) -> String {
    let mut hints = Vec::new();
    if !close.is_empty() {
        hints.push(format!("did you mean {}?", close.join(" or ")));
    }
    if !unavailable.is_empty() {
        hints.push(format!("could not ask {}", unavailable.join(", ")));
    }
    if hints.is_empty() {
        String::new()
    } else {
        format!(" ({})", hints.join("; "))
    }
}
