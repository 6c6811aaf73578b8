//! Turns what goes wrong on the wire into a [`WatchError`]: the class that decides what happens next, and one sentence
//! for people.

use std::sync::Arc;
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
    // `pods`, `deployments.apps in namespace prod`
    what: String,
    version: String,
    namespace: Option<Arc<str>>,
}

impl Failures {
    /// `namespace` is the one that is listed and watched; `None` if all are.
    pub(crate) fn new(resource: &ApiResource, namespace: Option<&Arc<str>>) -> Self {
        let mut what = resource.plural.clone();
        if !resource.group.is_empty() {
            what = format!("{what}.{}", resource.group);
        }
        if let Some(namespace) = namespace {
            what = format!("{what} in namespace {namespace}");
        }
        Self {
            what,
            version: resource.version.clone(),
            namespace: namespace.cloned(),
        }
    }

    /// For requests that are about no single resource.
    pub(crate) fn named(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            version: String::new(),
            namespace: None,
        }
    }

    /// An error with a sentence that begins with its class.
    pub(crate) fn of(&self, step: Step, kind: WatchErrorKind, detail: &str) -> WatchError {
        let what = &self.what;
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
            WatchErrorKind::Unfinished => format!("no end: cannot {step} {what}"),
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
        WatchError {
            step,
            kind,
            namespace: self.namespace.clone(),
            message,
        }
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
        let code = parts.status.as_u16();
        // If the body fails too, or does not come, the status code has to do.
        let bytes = match timeout(STATUS_PATIENCE, Limited::new(body, LARGEST_STATUS).collect()).await {
            Ok(Ok(collected)) => collected.to_bytes(),
            Ok(Err(_)) | Err(_) => bytes::Bytes::new(),
        };
        let text = String::from_utf8_lossy(&bytes);
        let status = if is_web_page(&parts.headers, &text) {
            // A proxy on the way answers. It may well refuse, slow down or fail; what else its codes mean is not what the
            // API means with them.
            let page = title(&text).map_or_else(String::new, |title| format!(" titled {title:?}"));
            let detail = format!("its answer is {} with a web page{page}", parts.status);
            if matches!(code, 400 | 404 | 405 | 410 | 422 | 501) {
                return self.of(step, WatchErrorKind::NotKubernetes, &detail);
            }
            Status::failure(&format!("this is not the API server, {detail}"), "")
        } else {
            serde_json::from_slice(&bytes).unwrap_or_else(|_| {
                let first_line = text.lines().next().unwrap_or_default().trim();
                Status::failure(first_line, "")
            })
        };
        let retry_after = retry_after(&parts.headers);
        self.status(step, code, retry_after, &status)
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

/// Whether the answer is HTML, as proxies send it. The API server sends JSON, and plain text for paths it does not serve.
fn is_web_page(headers: &HeaderMap, text: &str) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match media_type {
        Some(media_type) => media_type.to_ascii_lowercase().contains("html"),
        None => text.trim_start().starts_with('<'),
    }
}

/// The title of a web page, if it has a short one.
fn title(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(title.trim()).filter(|title| !title.is_empty() && title.len() <= 100)
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
        Failures::new(&ApiResource::erase::<Deployment>(&()), None)
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

    // [I37] the namespace is named
    #[test]
    fn refusals_name_the_namespace() {
        let resource = ApiResource::erase::<Deployment>(&());
        let error = Failures::new(&resource, Some(&Arc::from("prod"))).of(Step::Watch, WatchErrorKind::Forbidden, "");
        assert_eq!(
            error.to_string(),
            "forbidden: cannot watch deployments.apps in namespace prod"
        );
        assert_eq!(error.namespace.as_deref(), Some("prod"));
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

    // [I24] a proxy's page is told as what it is, not as what its code means in the API
    #[tokio::test]
    async fn web_pages_of_proxies_are_told_as_such() {
        let page = "<html><head><title>404 Not Found</title></head><body>nginx</body></html>";
        let answer = |code: u16, media_type: Option<&str>, body: &str| {
            let mut response = Response::builder().status(code);
            if let Some(media_type) = media_type {
                response = response.header("Content-Type", media_type);
            }
            let response = response.body(Body::from(body.as_bytes().to_vec())).unwrap();
            async move { failures().refusal(Step::List, response).await }
        };
        for (code, media_type) in [
            (404, Some("text/html; charset=utf-8")),
            (404, None),
            (405, None),
            (410, None),
        ] {
            let error = answer(code, media_type, page).await;
            assert_eq!(error.kind, WatchErrorKind::NotKubernetes, "{code}");
            assert!(error.is_blocking());
        }
        assert_eq!(
            answer(404, None, page).await.to_string(),
            "this is not a Kubernetes API server: its answer is 404 Not Found with a web page titled \"404 Not Found\""
        );
        let kinds = [
            (401, WatchErrorKind::Unauthorized),
            (403, WatchErrorKind::Forbidden),
            (429, WatchErrorKind::TooManyRequests { retry_after: None }),
            (503, WatchErrorKind::Server { code: 503 }),
        ];
        for (code, kind) in kinds {
            let error = answer(code, Some("text/html"), "<html></html>").await;
            assert_eq!(error.kind, kind);
            assert!(error.to_string().contains("with a web page"), "{error}");
        }
        // the API server's own text for a group that it does not serve
        let text = answer(404, Some("text/plain; charset=utf-8"), "404 page not found\n").await;
        assert_eq!(text.kind, WatchErrorKind::NotFound);
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
