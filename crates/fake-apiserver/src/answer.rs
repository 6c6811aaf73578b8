//! What a verb answers, before the transport makes an HTTP response of it.

use std::collections::HashSet;

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
    /// For `Warning` headers, as many as fit.
    pub(crate) warnings: Vec<String>,
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
            warnings: Vec::new(),
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
            warnings: Vec::new(),
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
            warnings: Vec::new(),
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
        self.warnings.extend_from_slice(warnings);
        self
    }

    /// Adds a `Warning` header before those that are there.
    pub(crate) fn warning_before(mut self, text: &str) -> Self {
        self.warnings.insert(0, text.to_owned());
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
        for value in warning_headers(&self.warnings) {
            response.headers_mut().append(WARNING, value);
        }
        response
    }
}

/// A tag as headers have it.
pub(crate) fn quoted(tag: &str) -> String {
    format!("\"{tag}\"")
}

/// The values of `Warning` headers, each text once. As on the real server they may have so many characters together; if they
/// have more, each is cut, and there are no more once the cut ones have as many.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    /// Characters of all warnings.
    const ALL: usize = 4 * 1024;
    /// Characters of each, if they are cut.
    const EACH: usize = 256;

    let mut seen = HashSet::new();
    let mut before = Vec::new();
    let mut headers = Vec::new();
    let mut total = 0;
    let mut is_cut = false;
    for text in warnings {
        if is_cut && total >= ALL {
            break;
        }
        if text.is_empty() || !seen.insert(text) {
            continue;
        }
        before.push(text);
        if !is_cut {
            let Some(header) = warning(text) else { continue };
            let size = text.chars().count();
            if total + size <= ALL {
                total += size;
                headers.push(header);
                continue;
            }
            // All are told once more, and this one with them.
            is_cut = true;
            total = 0;
            headers.clear();
        }
        for text in before.drain(..) {
            let end = text.char_indices().nth(EACH).map_or(text.len(), |(at, _)| at);
            if let Some(header) = warning(&text[..end]) {
                total += text[..end].chars().count();
                headers.push(header);
            }
        }
    }
    headers
}

/// The value of a `Warning` header. A warning that HTTP cannot carry is left out, as the real server does.
fn warning(text: &str) -> Option<HeaderValue> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_once_they_are_too_long_together() {
        // [F25] as k8s.io/apiserver's filter of warnings does it
        let sizes = |sizes: &[usize]| {
            let texts: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(at, size)| format!("{at:0size$}"))
                .collect();
            let headers = warning_headers(&texts);
            headers
                .iter()
                .map(|header| header.len() - "299 - \"\"".len())
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[4_000, 96]), [4_000, 96]);
        assert_eq!(sizes(&[4_000, 97]), [256, 97]);
        assert_eq!(sizes(&[5_000]), [256]);
        assert_eq!(sizes(&[300; 30]), [256; 16]);
        assert_eq!(sizes(&[100; 60]), [100; 41]);
        let texts = ["a\nb", "", "é", "é", "\"\\"].map(str::to_owned);
        let headers = warning_headers(&texts);
        let headers: Vec<&[u8]> = headers.iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(headers, ["299 - \"é\"".as_bytes(), br#"299 - "\"\\""#]);
    }
}
