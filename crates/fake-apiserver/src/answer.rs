//! What a verb answers, before the transport makes an HTTP response of it.

use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, VARY, WARNING, X_CONTENT_TYPE_OPTIONS,
};

use crate::body::Body;
use crate::request::Request;
use crate::status::Status;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Body,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    /// A JSON answer.
    pub(crate) fn json(code: u16, body: impl Into<Body>) -> Self {
        let no_cache = (CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Self {
            code,
            headers: vec![no_cache, (CONTENT_TYPE, JSON)],
            body: body.into(),
        }
    }

    /// A plain text answer.
    pub(crate) fn text(code: u16, text: &'static str) -> Self {
        let body = bytes::Bytes::from_static(text.as_bytes());
        let no_sniff = (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let mut answer = Self::json(code, body).content_type(TEXT);
        answer.headers.push(no_sniff);
        answer
    }

    /// What HTTP itself says of a request that is none.
    pub(crate) fn bad_request() -> Self {
        Self {
            code: 400,
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static(TEXT))],
            body: bytes::Bytes::from_static(b"400 Bad Request").into(),
        }
    }

    /// An answer with a document that has a tag, or that the client has it already. The document is made only if it is sent.
    pub(crate) fn tagged(tag: &str, is_known: bool, document: impl FnOnce() -> Vec<u8>) -> Self {
        let answer = if is_known {
            Self::json(304, bytes::Bytes::new()).without(&CONTENT_TYPE)
        } else {
            Self::json(200, document())
        };
        answer.tag(tag)
    }

    /// Adds the tag of a document, which has several forms.
    pub(crate) fn tag(mut self, tag: &str) -> Self {
        let tag = HeaderValue::from_str(&quoted(tag));
        self.headers.extend(tag.map(|tag| (ETAG, tag)));
        self.headers.push((VARY, HeaderValue::from_static("Accept")));
        self
    }

    /// Replaces what is said about keeping the answer.
    pub(crate) fn kept(self, how: &'static str) -> Self {
        let mut answer = self.without(&CACHE_CONTROL);
        answer.headers.push((CACHE_CONTROL, HeaderValue::from_static(how)));
        answer
    }

    fn without(mut self, header: &HeaderName) -> Self {
        self.headers.retain(|(name, _)| name != header);
        self
    }

    /// An answer without a body.
    pub(crate) fn nothing(code: u16) -> Self {
        Self {
            code,
            headers: Vec::new(),
            body: bytes::Bytes::new().into(),
        }
    }

    /// A plain text answer of a text that is made for it.
    pub(crate) fn text_of(text: String) -> Self {
        Self {
            body: text.into_bytes().into(),
            ..Self::text(200, "")
        }
    }

    /// The answer for a path of which the server cannot tell what it is about.
    pub(crate) fn untold(request: &Request) -> Self {
        let uri = request.uri.path_and_query().map_or("", |uri| uri.as_str());
        let shown = uri.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text = format!(
            "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and namespace from url, {shown}\n",
            crate::gotext::go_quote(&shown)
        );
        Self {
            body: text.into_bytes().into(),
            ..Self::text(500, "")
        }
    }

    /// The answer for a path that nothing serves.
    pub(crate) fn page_not_found() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// Replaces the content type.
    pub(crate) fn content_type(mut self, value: &'static str) -> Self {
        self.headers.retain(|(name, _)| *name != CONTENT_TYPE);
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static(value)));
        self
    }

    /// Adds `Warning` headers.
    pub(crate) fn warnings(mut self, warnings: &[String]) -> Self {
        self.headers
            .extend(warnings.iter().filter_map(|text| Some((WARNING, warning(text)?))));
        self
    }

    /// Adds a `Warning` header before those that are there.
    pub(crate) fn warning_before(mut self, text: &str) -> Self {
        self.headers.splice(0..0, warning(text).map(|value| (WARNING, value)));
        self
    }

    /// The HTTP response.
    pub(crate) fn into_response(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

/// A tag as headers have it.
pub(crate) fn quoted(tag: &str) -> String {
    format!("\"{tag}\"")
}

/// The value of a `Warning` header. A warning that HTTP cannot carry is left out, as the real server does.
fn warning(text: &str) -> Option<HeaderValue> {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{text}\"")).ok()
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        let mut body = status.to_json();
        body.push(b'\n');
        let mut answer = Self::json(status.code, body);
        if let Some(seconds) = status.retry_after_seconds() {
            answer.headers.push((RETRY_AFTER, HeaderValue::from(seconds)));
        }
        answer
    }
}
