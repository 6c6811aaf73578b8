//! An HTTP answer that has been read to its end, and how it is compared with the expected one.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

/// A whole HTTP answer, with the request that it belongs to for the messages of failed comparisons.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{self}: the body is no JSON: {error}"))
    }

    /// The body as text.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|error| panic!("{}: the body is no text: {error}", self.request))
    }

    /// The value of a header, or the empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a header of ASCII text"))
    }

    /// The body of an answer with this code.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{self}");
        self.json()
    }

    /// The body of an answer with code 200.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        self.expect(200)
    }

    /// The body of an answer with code 201.
    #[track_caller]
    pub(crate) fn created(&self) -> Value {
        self.expect(201)
    }

    /// Asserts that the whole answer is a `Status` of this code, reason, message and details, and nothing else.
    ///
    /// An empty reason stands for none, and so do details of `null`. A text that ends in `…` is compared up to that
    /// mark: what follows on the real server is a Go type name, a parser position or a struct dump.
    #[track_caller]
    pub(crate) fn is(&self, code: u16, reason: &str, message: &str, details: Value) {
        let mut body = self.json();
        let mut wanted = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "code": code,
        });
        if !reason.is_empty() {
            wanted["reason"] = reason.into();
        }
        if !details.is_null() {
            wanted["details"] = details;
        }
        cut_tails(&mut body, &mut wanted);
        assert_eq!(self.code, code, "{self}");
        assert_eq!(body, wanted, "{}", self.request);
        assert_eq!(self.header("content-type"), "application/json", "{}", self.request);
        if let Some(seconds) = body.pointer("/details/retryAfterSeconds") {
            assert_eq!(self.header("retry-after"), seconds.to_string(), "{}", self.request);
        }
    }

    /// Asserts a 422 about an object: details hold group, kind and name, and one cause for each `(reason, field,
    /// message)`; the text is made of them as the API server does.
    #[track_caller]
    pub(crate) fn invalid(&self, group: &str, kind: &str, name: &str, causes: &[(&str, &str, &str)]) {
        let subject = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut texts = Vec::new();
        for (_, field, message) in causes {
            let text = format!("{field}: {message}");
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = if texts.len() == 1 {
            texts[0].clone()
        } else {
            format!("[{}]", texts.join(", "))
        };
        let causes: Vec<_> = causes
            .iter()
            .map(|(reason, field, message)| json!({"reason": reason, "message": message, "field": field}))
            .collect();
        let mut details = json!({"kind": kind, "causes": causes});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        self.is(
            422,
            "Invalid",
            &format!("{subject} {name:?} is invalid: {list}"),
            details,
        );
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} -> {} {}",
            self.request,
            self.code,
            String::from_utf8_lossy(&self.body)
        )
    }
}

/// Cuts both texts where the wanted one ends in `…`, at any depth.
fn cut_tails(found: &mut Value, wanted: &mut Value) {
    match (found, wanted) {
        (Value::String(found), Value::String(wanted)) => {
            if let Some(head) = wanted.strip_suffix('…')
                && found.starts_with(head)
            {
                found.truncate(head.len());
                found.push('…');
            }
        }
        (Value::Array(found), Value::Array(wanted)) => {
            for (found, wanted) in found.iter_mut().zip(wanted) {
                cut_tails(found, wanted);
            }
        }
        (Value::Object(found), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                if let Some(found) = found.get_mut(key) {
                    cut_tails(found, wanted);
                }
            }
        }
        _ => {}
    }
}
