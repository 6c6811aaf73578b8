//! JSON with lines and indents, for people: where the client asks for it, or is a browser or a command line tool.
//!
//! The text is laid out while it is sent, as Go's `json.MarshalIndent` does it, so that a long list stays a stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use http::header::{ACCEPT, CONTENT_TYPE};

use crate::answer::Answer;
use crate::body::{Body, BodyError, Part, Source};
use crate::request::{Request, Verb};

/// Whether an answer is laid out.
pub(crate) fn is_wanted(request: &Request, answer: &Answer) -> bool {
    let path = request.uri.path();
    // These are always shown so.
    let is_index = answer.code == 200 && matches!(path, "/" | "/version" | "/version/");
    let is_stream = answer.code == 200 && request.verb == Verb::Watch;
    let is_json = |(name, value): &(http::HeaderName, http::HeaderValue)| {
        name == CONTENT_TYPE && value.as_bytes() == b"application/json"
    };
    (is_index || is_asked(request))
        && !is_stream
        && !path.starts_with("/openapi/")
        && answer.headers.iter().any(is_json)
}

fn is_asked(request: &Request) -> bool {
    let of_accept = |part: &str| part.trim() == "pretty=1";
    if request.header(ACCEPT).split([',', ';']).any(of_accept) {
        return true;
    }
    match request.query.non_empty("pretty") {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|tool| request.user_agent().starts_with(tool)),
    }
}

/// A body of JSON, laid out. One whose length is known has one afterwards.
pub(crate) async fn printed(body: Body) -> Body {
    let is_whole = body.known_length().is_some();
    let mut printed = Printed {
        inner: body.into_source(),
        layout: Layout::default(),
    };
    if !is_whole {
        return Body::stream(printed);
    }
    let mut out = Vec::new();
    // What is whole does not break.
    while let Some(Ok(part)) = poll_fn(|cx| printed.poll_part(cx)).await {
        out.extend_from_slice(&part.bytes);
    }
    out.into()
}

struct Printed {
    inner: Box<dyn Source>,
    layout: Layout,
}

impl Source for Printed {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        // The inner source registers the waker.
        let part = ready!(self.inner.poll_part(cx));
        Poll::Ready(part.map(|part| {
            let part = part?;
            let mut out = Vec::with_capacity(part.bytes.len() * 2);
            self.layout.add(&part.bytes, &mut out);
            Ok(Part {
                bytes: out.into(),
                kind: part.kind,
            })
        }))
    }
}

/// How far a text has come.
#[derive(Debug, Default)]
struct Layout {
    depth: usize,
    in_text: bool,
    /// The next byte of a text is escaped.
    is_escaped: bool,
    /// Nothing has followed the last bracket.
    is_open: bool,
}

impl Layout {
    fn add(&mut self, json: &[u8], out: &mut Vec<u8>) {
        for byte in json {
            if self.in_text {
                out.push(*byte);
                self.in_text = self.is_escaped || *byte != b'"';
                self.is_escaped = !self.is_escaped && *byte == b'\\';
                continue;
            }
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.is_open) {
                        self.line(out);
                    }
                }
                _ => {
                    if std::mem::take(&mut self.is_open) {
                        self.line(out);
                    }
                }
            }
            out.push(*byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.is_open = true;
                }
                b',' => self.line(out),
                b':' => out.push(b' '),
                b'"' => self.in_text = true,
                _ => {}
            }
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_laid_out_wherever_it_is_cut() {
        // [F4] as the real server writes it
        let json = br#"{"a":{},"b":[],"c":[{"d":"x,{}\\\"[]:"},1,null],"e":-1.5}"#;
        let mut json = json.to_vec();
        json.push(b'\n');
        let expected = r#"{
  "a": {},
  "b": [],
  "c": [
    {
      "d": "x,{}\\\"[]:"
    },
    1,
    null
  ],
  "e": -1.5
}"#;
        for cut in 0..json.len() {
            let (mut layout, mut out) = (Layout::default(), Vec::new());
            layout.add(&json[..cut], &mut out);
            layout.add(&json[cut..], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{cut}");
        }
    }
}
