//! A watch, read line by line.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use super::server::limited;

/// An open watch. Dropping it closes it.
pub(crate) struct Watch {
    request: String,
    body: Body,
    /// Invariant: holds what was received and not yet given out; a whole line only between two calls.
    buffer: BytesMut,
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) object: Value,
}

impl Event {
    /// `metadata.name` of the object.
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The type and the object's name, which is all that most cases look at.
    pub(crate) fn brief(&self) -> (&str, &str) {
        (&self.kind, self.name())
    }

    /// The object's resource version.
    #[track_caller]
    pub(crate) fn version(&self) -> u64 {
        super::server::version(&self.object)
    }
}

impl Watch {
    pub(super) fn new(request: String, response: http::Response<Body>) -> Watch {
        Watch {
            request,
            body: response.into_body(),
            buffer: BytesMut::new(),
        }
    }

    /// The next line, without its line feed; `None` when the server has ended the watch.
    pub(crate) async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1).freeze();
                return Some(line.slice(..end));
            }
            let frame = limited(&self.request, self.body.frame()).await;
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => panic!("{}: {error}", self.request),
                None => {
                    assert!(self.buffer.is_empty(), "{}: half a line at the end", self.request);
                    return None;
                }
            }
        }
    }

    /// The next event; `None` when the server has ended the watch.
    pub(crate) async fn try_next(&mut self) -> Option<Event> {
        let line = self.line().await?;
        let text = String::from_utf8_lossy(&line);
        let value: Value = serde_json::from_slice(&line).unwrap_or_else(|e| panic!("{}: {e}: {text}", self.request));
        assert!(
            text.starts_with(r#"{"type":""#),
            "{}: the type comes first: {text}",
            self.request
        );
        let members = value.as_object().expect("an event is an object");
        assert_eq!(
            members.len(),
            2,
            "{}: an event has a type and an object: {text}",
            self.request
        );
        let kind = value["type"].as_str().expect("a type").to_owned();
        Some(Event {
            kind,
            object: value["object"].clone(),
        })
    }

    /// The next event, which must come.
    pub(crate) async fn next(&mut self) -> Event {
        let next = self.try_next().await;
        next.unwrap_or_else(|| panic!("{}: ended", self.request))
    }

    /// The next `n` events.
    pub(crate) async fn take(&mut self, n: usize) -> Vec<Event> {
        let mut events = Vec::with_capacity(n);
        while events.len() < n {
            events.push(self.next().await);
        }
        events
    }

    /// All events up to the end, which the server must make.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.try_next().await {
            events.push(event);
        }
        events
    }
}
