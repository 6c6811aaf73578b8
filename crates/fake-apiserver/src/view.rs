//! How stored objects appear in answers: one object, a list, a watch event, in each representation.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::body::{Body, BodyError, Part, PartKind, Source};
use crate::codec::{ContentType, FieldValidation, decode};
use crate::kinds::Resource;
use crate::negotiate::{MetaVersion, Representation};
use crate::object::{TypeMeta, write_metadata, write_output};
use crate::storage::{Encoding, Revision, Versioned};
use crate::stored::Stored;
use crate::table;

/// What a watch event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One served version of a resource in one representation.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) resource: Arc<Resource>,
    pub(crate) representation: Representation,
    api_version: Arc<str>,
    /// The time that ages in tables are relative to.
    now: jiff::Timestamp,
}

/// The type of an object of which the metadata alone is shown.
pub(crate) fn metadata_only(version: MetaVersion) -> TypeMeta<'static> {
    TypeMeta {
        api_version: version.api_version(),
        kind: "PartialObjectMetadata",
    }
}

impl View {
    pub(crate) fn new(resource: Arc<Resource>, representation: Representation, now: jiff::Timestamp) -> Self {
        let api_version = resource.api_version().into();
        Self {
            resource,
            representation,
            api_version,
            now,
        }
    }

    /// The same representation of another resource.
    pub(crate) fn of(&self, resource: &Arc<Resource>) -> Self {
        Self::new(Arc::clone(resource), self.representation, self.now)
    }

    /// Sets the time that ages in tables are relative to.
    pub(crate) fn tell_time(&mut self, now: jiff::Timestamp) {
        self.now = now;
    }

    fn type_meta(&self) -> TypeMeta<'_> {
        TypeMeta {
            api_version: &self.api_version,
            kind: &self.resource.kind,
        }
    }

    /// Writes one object that stands alone. A revision of 0 is left out.
    pub(crate) fn write_object(&self, stored: &Stored, rv: Revision, out: &mut Vec<u8>) {
        match self.representation {
            Representation::Full => write_output(&stored.canonical_as(&self.resource), Some(self.type_meta()), rv, out),
            Representation::Metadata(version) => {
                write_metadata(&stored.canonical, Some(metadata_only(version)), rv, out);
            }
            Representation::Table(version, include) => {
                let shown = table::Columns::Shown;
                table::write_head(&self.resource, (shown, version), rv, None, None, out);
                table::write_row(&self.resource, (version, include), stored, rv, self.now, out);
                out.extend_from_slice(b"]}");
            }
        }
    }

    /// The body for one object.
    pub(crate) fn object(&self, stored: &Stored, rv: Revision) -> Body {
        let mut out = Vec::with_capacity(stored.canonical.len() + 96);
        self.write_object(stored, rv, &mut out);
        out.push(b'\n');
        out.into()
    }

    fn write_item(&self, stored: &Stored, rv: Revision, out: &mut Vec<u8>) {
        match self.representation {
            // Items of built-in lists carry no type, custom resources do.
            Representation::Full => {
                let type_meta = self.resource.custom.then(|| self.type_meta());
                write_output(&stored.canonical_as(&self.resource), type_meta, rv, out);
            }
            Representation::Metadata(version) => {
                write_metadata(&stored.canonical, Some(metadata_only(version)), rv, out);
            }
            Representation::Table(version, include) => {
                table::write_row(&self.resource, (version, include), stored, rv, self.now, out);
            }
        }
    }

    /// The body for a list, encoded while it is read.
    pub(crate) fn list(&self, list: List) -> Body {
        let mut head = Vec::with_capacity(160);
        let empty = list.items.is_empty();
        match self.representation {
            Representation::Full => {
                let kind = json_text(&self.resource.list_kind);
                let api_version = json_text(&self.api_version);
                let type_meta = if self.resource.custom {
                    format!("{{\"apiVersion\":{api_version},\"items\":[")
                } else {
                    format!("{{\"kind\":{kind},\"apiVersion\":{api_version},")
                };
                head.extend_from_slice(type_meta.as_bytes());
                if !self.resource.custom {
                    list.write_metadata(false, &mut head);
                    head.extend_from_slice(b",\"items\":[");
                }
            }
            Representation::Metadata(version) => {
                head.extend_from_slice(b"{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"");
                head.extend_from_slice(version.api_version().as_bytes());
                head.extend_from_slice(b"\",");
                list.write_metadata(false, &mut head);
                // A list that is made item by item is not there until there is one.
                head.extend_from_slice(if empty { b",\"items\":null" } else { b",\"items\":[" });
            }
            Representation::Table(version, _) => {
                let more = list.continue_token.as_deref();
                table::write_head(
                    &self.resource,
                    (table::Columns::Shown, version),
                    list.rv,
                    more,
                    list.remaining,
                    &mut head,
                );
            }
        }
        // Go writes the keys of a custom resource list in alphabetical order.
        let mut tail = if empty && self.representation.is_metadata() {
            Vec::new()
        } else {
            b"]".to_vec()
        };
        if self.resource.custom && self.representation == Representation::Full {
            tail.extend_from_slice(format!(",\"kind\":{},", json_text(&self.resource.list_kind)).as_bytes());
            list.write_metadata(true, &mut tail);
        }
        tail.extend_from_slice(b"}\n");
        let mut source = ListSource {
            view: self.clone(),
            items: list.items.into_iter(),
            head,
            tail,
            first: true,
        };
        let first = source.chunk();
        if source.is_done() {
            return first.unwrap_or_default().into();
        }
        Body::stream(Chunks { first, source })
    }

    /// Names the encoded form of an event; `first` is about tables, whose columns the first line of a watch shows.
    pub(crate) fn encoding(&self, event: EventType, first: bool) -> Encoding {
        let is_table = self.representation.is_table();
        Encoding {
            api_version: Arc::clone(&self.api_version),
            // A changed schema shows what was stored before in another form.
            definition: self.resource.defined.as_ref().map_or(0, |defined| defined.number),
            form: (self.representation.number() * 2 + u8::from(is_table && first)) * 3 + event as u8,
            // Ages in tables are in seconds.
            at: if is_table { self.now.as_second() } else { 0 },
        }
    }

    /// One line of a watch; `first` shows the columns of a table.
    pub(crate) fn event(&self, event: EventType, stored: &Stored, rv: Revision, first: bool) -> Bytes {
        self.line(event.as_str(), stored, rv, first)
    }

    /// The bookmark line for a revision: an empty object of the kind, as Go writes it.
    pub(crate) fn bookmark(&self, rv: Revision, ends_initial_events: bool, first: bool) -> Bytes {
        let empty = decode(&self.resource, ContentType::Json, b"{}", FieldValidation::Ignore);
        let mut object = empty.map(|decoded| decoded.object).unwrap_or_default();
        if ends_initial_events {
            object.meta.annotations.insert("k8s.io/initial-events-end", "true");
        }
        self.line("BOOKMARK", &Stored::of(&self.resource, &object), rv, first)
    }

    fn line(&self, event: &str, stored: &Stored, rv: Revision, first: bool) -> Bytes {
        let mut out = Vec::with_capacity(stored.canonical.len() + 128);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.representation {
            Representation::Table(version, include) if !first => {
                let omitted = table::Columns::Omitted;
                table::write_head(&self.resource, (omitted, version), rv, None, None, &mut out);
                table::write_row(&self.resource, (version, include), stored, rv, self.now, &mut out);
                out.extend_from_slice(b"]}");
            }
            _ => self.write_object(stored, rv, &mut out),
        }
        out.extend_from_slice(b"}\n");
        out.into()
    }
}

/// A list that is ready to be written.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) items: Vec<(Arc<str>, Versioned<Stored>)>,
    pub(crate) rv: Revision,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl List {
    /// Writes `"metadata":{…}`. Go writes the keys of a typed list in the order of the struct, and those of a custom
    /// resource list in alphabetical order.
    fn write_metadata(&self, alphabetical: bool, out: &mut Vec<u8>) {
        let mut parts = vec![format!("\"resourceVersion\":\"{}\"", self.rv)];
        // Tokens are base64: nothing to escape.
        // Lists of custom resources say so where there is nothing to continue.
        let token = self.continue_token.as_deref().or(alphabetical.then_some(""));
        parts.extend(token.map(|token| format!("\"continue\":\"{token}\"")));
        parts.extend(
            self.remaining
                .map(|remaining| format!("\"remainingItemCount\":{remaining}")),
        );
        if alphabetical {
            parts.sort();
        }
        out.extend_from_slice(format!("\"metadata\":{{{}}}", parts.join(",")).as_bytes());
    }
}

/// A text as a JSON string.
pub(crate) fn json_text(text: &str) -> String {
    // A string cannot fail to become JSON.
    serde_json::to_string(text).unwrap_or_default()
}

/// Encodes a list piece by piece.
struct ListSource {
    view: View,
    items: std::vec::IntoIter<(Arc<str>, Versioned<Stored>)>,
    head: Vec<u8>,
    tail: Vec<u8>,
    first: bool,
}

impl ListSource {
    /// How many bytes a piece has at least, but for the last one.
    const CHUNK: usize = 64 * 1024;

    fn is_done(&self) -> bool {
        self.tail.is_empty()
    }

    fn chunk(&mut self) -> Option<Bytes> {
        if self.is_done() {
            return None;
        }
        let mut out = std::mem::take(&mut self.head);
        while out.len() < Self::CHUNK {
            let Some((_, item)) = self.items.next() else {
                out.append(&mut self.tail);
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            self.view.write_item(&item.object, item.rv, &mut out);
        }
        Some(out.into())
    }
}

/// The first piece, then the rest.
struct Chunks {
    first: Option<Bytes>,
    source: ListSource,
}

impl Source for Chunks {
    fn poll_part(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        let bytes = self.first.take().or_else(|| self.source.chunk());
        Poll::Ready(bytes.map(|bytes| {
            Ok(Part {
                bytes,
                kind: PartKind::Data,
            })
        }))
    }
}
