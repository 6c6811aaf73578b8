//! Turns what goes wrong on the wire into a [`WatchError`]: the class that decides what happens next, and one sentence
//! for people.

use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::core::{ApiResource, Status};
use tokio::time::timeout;

use crate::error::{Step, WatchError, WatchErrorKind, chain};

/// The most of an error's body that is read.
const LARGEST_STATUS: usize = 64 << 10;
/// How long an error's body is waited for.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);

/// Makes the errors of one informer, or of discovery.
#[derive(Debug, Clone)]
pub(crate) struct Failures {
    // `pods`, `deployments.apps`
    plural: String,
    version: String,
}

impl Failures {
    pub(crate) fn new(resource: &ApiResource) -> Self {
        let plural = if resource.group.is_empty() {
            resource.plural.clone()
        } else {
            format!("{}.{}", resource.plural, resource.group)
        };
        Self {
            plural,
            version: resource.version.clone(),
        }
    }

    /// For requests that are about no single resource.
    pub(crate) fn named(what: &str) -> Self {
        Self {
            plural: what.to_owned(),
            version: String::new(),
        }
    }

    /// An error with a sentence that begins with its class.
    pub(crate) fn of(&self, step: Step, kind: WatchErrorKind, detail: &str) -> WatchError {
        let what = &self.plural;
        let sentence = match &kind {
            WatchErrorKind::Unauthorized => "unauthorized: the credentials are missing or not accepted".to_owned(),
            WatchErrorKind::Forbidden => format!("forbidden: cannot {step} {what}"),
            WatchErrorKind::NotFound if self.version.is_empty() => format!("not found: cannot {step} {what}"),
            WatchErrorKind::NotFound => {
                format!(
                    "not found: the server does not serve {what} in version {} (is its CRD installed?)",
                    self.version
                )
            }
            WatchErrorKind::Refused => format!("refused: the server does not accept the {step} request for {what}"),
            WatchErrorKind::NotSupported => format!("not supported: the server cannot {step} {what}"),
            WatchErrorKind::Expired => format!("expired: cannot {step} {what} from this resource version"),
            WatchErrorKind::VersionTooLarge => format!("too early: cannot {step} {what} at this resource version yet"),
            WatchErrorKind::TooManyRequests { .. } => format!("too many requests: cannot {step} {what} now"),
            WatchErrorKind::Server { code } => format!("server error {code}: cannot {step} {what}"),
            WatchErrorKind::Unreachable => format!("unreachable: cannot {step} {what}"),
            WatchErrorKind::Tls => format!("TLS failed: cannot {step} {what}"),
            WatchErrorKind::NotKubernetes => "this is not a Kubernetes API server".to_owned(),
            WatchErrorKind::Protocol => format!("unexpected answer: cannot {step} {what}"),
            WatchErrorKind::Silent => format!("silent connection: cannot {step} {what}"),
            WatchErrorKind::NoAnswer => format!("no answer: cannot {step} {what}"),
            WatchErrorKind::Undecodable => format!("cannot decode one of {what}"),
            WatchErrorKind::VersionWentBack => {
                format!("the resource version of {what} went back, the cache is rebuilt")
            }
        };
        let message = if detail.is_empty() {
            sentence
        } else {
            format!("{sentence}: {detail}")
        };
        WatchError { step, kind, message }
    }

    /// No answer at all.
    pub(crate) fn transport(&self, step: Step, error: &kube::Error) -> WatchError {
        let detail = chain(error);
        let kind = match error {
            kube::Error::Auth(_) => WatchErrorKind::Unauthorized,
            _ if is_tls(&detail) => WatchErrorKind::Tls,
            _ => WatchErrorKind::Unreachable,
        };
        self.of(step, kind, &detail)
    }

    /// An answer that is not a success.
    pub(crate) async fn refusal(&self, step: Step, response: Response<Body>) -> WatchError {
        let (parts, body) = response.into_parts();
        // If the body fails too, or does not come, the status code has to do.
        let bytes = match timeout(STATUS_PATIENCE, Limited::new(body, LARGEST_STATUS).collect()).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(_)) | Err(_) => bytes::Bytes::new(),
        };
        let status: Status = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&bytes);
            let first_line = text.lines().next().unwrap_or_default().trim();
            Status::failure(first_line, "")
        });
        let retry_after = retry_after(&parts.headers);
        self.status(step, parts.status.as_u16(), retry_after, &status)
    }

    /// A `Status`, from an answer or an ERROR event.
    pub(crate) fn status(&self, step: Step, code: u16, retry_after: Option<Duration>, status: &Status) -> WatchError {
        let kind = match StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR) {
            StatusCode::UNAUTHORIZED => WatchErrorKind::Unauthorized,
            StatusCode::FORBIDDEN => WatchErrorKind::Forbidden,
            StatusCode::NOT_FOUND => WatchErrorKind::NotFound,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => WatchErrorKind::Refused,
            StatusCode::METHOD_NOT_ALLOWED => WatchErrorKind::NotSupported,
            StatusCode::GONE => WatchErrorKind::Expired,
            _ if is_too_large(status) => WatchErrorKind::VersionTooLarge,
            StatusCode::TOO_MANY_REQUESTS => {
                let in_body = status.details.as_ref().map(|details| details.retry_after_seconds);
                let in_body = in_body
                    .filter(|seconds| *seconds > 0)
                    .map(|seconds| Duration::from_secs(seconds.into()));
                WatchErrorKind::TooManyRequests {
                    retry_after: retry_after.or(in_body),
                }
            }
            _ => WatchErrorKind::Server { code },
        };
        self.of(step, kind, &status.message)
    }
}

/// The server has not seen that resource version yet. Old servers say so in the text alone.
fn is_too_large(status: &Status) -> bool {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The connection stands, but what came was not the TLS that was expected. The types of the TLS library are not part
/// of kube's API, so the text has to tell.
fn is_tls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["certificate", "tls", "ssl", "invalidcontenttype", "corrupt message"]
        .iter()
        .any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;

    fn failures() -> Failures {
        Failures::new(&ApiResource::erase::<Deployment>(&()))
    }

    async fn refusal(code: u16, body: &str) -> WatchError {
        let response = Response::builder().status(code).header("Retry-After", "7");
        failures()
            .refusal(Step::List, response.body(Body::from(body.as_bytes().to_vec())).unwrap())
            .await
    }

    // [I24] the class and the cause are readable
    #[tokio::test]
    async fn refusals_say_class_kind_and_cause() {
        let error = refusal(
            403,
            r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"User \"u\" cannot"}"#,
        )
        .await;
        assert_eq!(error.kind, WatchErrorKind::Forbidden);
        assert_eq!(
            error.to_string(),
            "forbidden: cannot list deployments.apps: User \"u\" cannot"
        );
        assert!(error.is_blocking());
        let error = refusal(404, "404 page not found\n").await;
        assert_eq!(error.kind, WatchErrorKind::NotFound);
        assert_eq!(
            error.to_string(),
            "not found: the server does not serve deployments.apps in version v1 (is its CRD installed?): \
             404 page not found"
        );
        let error = refusal(429, "").await;
        assert_eq!(
            error.kind,
            WatchErrorKind::TooManyRequests {
                retry_after: Some(Duration::from_secs(7))
            }
        );
        assert!(!error.is_blocking());
    }

    #[tokio::test]
    async fn too_large_versions_are_told_by_cause_or_text() {
        let by_cause = r#"{"code":504,"reason":"Timeout","message":"x","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        let by_text =
            r#"{"code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 1"}"#;
        for body in [by_cause, by_text] {
            assert_eq!(refusal(504, body).await.kind, WatchErrorKind::VersionTooLarge);
        }
        assert_eq!(refusal(504, "{}").await.kind, WatchErrorKind::Server { code: 504 });
    }

    #[test]
    fn tls_failures_are_told_from_missing_servers() {
        assert!(is_tls(
            "client error (Connect): invalid peer certificate: UnknownIssuer"
        ));
        assert!(is_tls("received corrupt message of type InvalidContentType"));
        assert!(!is_tls(
            "client error (Connect): tcp connect error: Connection refused (os error 111)"
        ));
    }
}
