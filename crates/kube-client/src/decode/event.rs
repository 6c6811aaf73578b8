//! Decodes one line of a watch stream.
//!
//! The line's `type` normally comes before its `object`, so the object is decoded right where it stands. If `object`
//! comes first, its text is kept until the type is known: bookmarks and errors are never decoded as the kind.

use std::fmt;
use std::sync::Arc;

use kube::core::Status;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::lean::{Full, Lean};
use crate::decode::{Decoder, PANICKED, Undecodable, brief, contain, mend, or_default};
use crate::object::Object;

/// One line of a watch stream.
#[derive(Debug)]
pub(crate) enum WatchEvent<K> {
    /// ADDED or MODIFIED.
    Upsert { object: Result<Arc<K>, Undecodable> },
    /// DELETED, with the object's last state.
    Deleted(Result<Arc<K>, Undecodable>),
    /// Nothing changed up to this resource version.
    Bookmark { version: String, initial_events_end: bool },
    /// The server ends the watch.
    Error(Box<Status>),
    /// A type that this version does not know.
    Unknown(String),
}

impl<K> WatchEvent<K> {
    /// Whether it is about an object that tells nothing of itself, since the type's own code panicked.
    fn is_anonymous(&self) -> bool {
        match self {
            WatchEvent::Upsert { object: Err(bad) } | WatchEvent::Deleted(Err(bad)) => bad.error == PANICKED,
            _ => false,
        }
    }
}

/// The line is not a watch event at all.
#[derive(Debug, thiserror::Error)]
#[error("not a watch event: {0}")]
pub(crate) struct NotAnEvent(String);

impl NotAnEvent {
    fn new(error: impl fmt::Display) -> Self {
        Self(brief(error))
    }
}

impl<K: Object> Decoder<K> {
    /// Decodes one line.
    pub(crate) fn event(&self, line: &[u8]) -> Result<WatchEvent<K>, NotAnEvent> {
        let Ok(text) = std::str::from_utf8(line) else {
            return Self::undecodable(&mend(line), Undecodable::of_mended);
        };
        let decoded = contain(|| {
            let mut json = serde_json::Deserializer::from_str(text);
            let event = LineSeed(self).deserialize(&mut json)?;
            json.end()?;
            Ok::<_, serde_json::Error>(event)
        });
        match decoded {
            Some(Ok(event)) if !event.is_anonymous() => Ok(event),
            Some(Err(error)) => Self::undecodable(text, |object| Undecodable::of(object, brief(error))),
            Some(Ok(_)) | None => Self::undecodable(text, |object| Undecodable::of(object, PANICKED.to_owned())),
        }
    }

    /// The second pass over a line whose object did not decode: is it an event at all, and of which object?
    fn undecodable(text: &str, of: impl FnOnce(&str) -> Undecodable) -> Result<WatchEvent<K>, NotAnEvent> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            kind: Kind,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let line: Line<'_> = serde_json::from_str(text).map_err(NotAnEvent::new)?;
        let undecodable = of(line.object.get());
        match line.kind {
            Kind::Added | Kind::Modified => Ok(WatchEvent::Upsert {
                object: Err(undecodable),
            }),
            Kind::Deleted => Ok(WatchEvent::Deleted(Err(undecodable))),
            Kind::Bookmark | Kind::Error | Kind::Unknown(_) => Err(NotAnEvent(undecodable.error)),
        }
    }

    /// Reads the value of `object` with the deserializer it stands in.
    fn read_object<'de, A: MapAccess<'de>>(&self, kind: Kind, map: &mut A) -> Result<WatchEvent<K>, A::Error> {
        Ok(match kind {
            Kind::Added | Kind::Modified => WatchEvent::Upsert {
                object: self.read_k(map)?,
            },
            Kind::Deleted => WatchEvent::Deleted(self.read_k(map)?),
            Kind::Bookmark => map.next_value::<Bookmark>()?.into_event(),
            Kind::Error => WatchEvent::Error(map.next_value()?),
            Kind::Unknown(kind) => {
                map.next_value::<IgnoredAny>()?;
                WatchEvent::Unknown(kind)
            }
        })
    }

    fn read_k<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Result<Arc<K>, Undecodable>, A::Error> {
        let object = if self.keep_managed_fields {
            map.next_value::<Full<K>>()?.0
        } else {
            map.next_value::<Lean<K>>()?.0
        };
        Ok(self.finish(object))
    }

    /// Decodes the text of an `object` that came before its `type`.
    fn parse_object(&self, kind: Kind, text: &str) -> Result<WatchEvent<K>, serde_json::Error> {
        Ok(match kind {
            Kind::Added | Kind::Modified => WatchEvent::Upsert {
                object: self.object(text),
            },
            Kind::Deleted => WatchEvent::Deleted(self.object(text)),
            Kind::Bookmark => serde_json::from_str::<Bookmark>(text)?.into_event(),
            Kind::Error => WatchEvent::Error(serde_json::from_str(text)?),
            Kind::Unknown(kind) => WatchEvent::Unknown(kind),
        })
    }
}

struct LineSeed<'a, K>(&'a Decoder<K>);

impl<'de, K: Object> DeserializeSeed<'de> for LineSeed<'_, K> {
    type Value = WatchEvent<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, K: Object> Visitor<'de> for LineSeed<'_, K> {
    type Value = WatchEvent<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut kind = None;
        let mut early: Option<&'de RawValue> = None;
        let mut event = None;
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Type => kind = Some(map.next_value::<Kind>()?),
                Field::Object => match kind.take() {
                    Some(kind) => event = Some(self.0.read_object(kind, &mut map)?),
                    None => early = Some(map.next_value()?),
                },
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (event, kind, early) {
            (Some(event), _, _) => Ok(event),
            (None, Some(kind), Some(object)) => self.0.parse_object(kind, object.get()).map_err(A::Error::custom),
            (None, None, _) => Err(A::Error::missing_field("type")),
            (None, Some(_), None) => Err(A::Error::missing_field("object")),
        }
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Type,
    Object,
    #[serde(other)]
    Other,
}

enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    Unknown(String),
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindVisitor;

        impl Visitor<'_> for KindVisitor {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the type of a watch event")
            }

            fn visit_str<E>(self, kind: &str) -> Result<Kind, E> {
                Ok(match kind {
                    "ADDED" => Kind::Added,
                    "MODIFIED" => Kind::Modified,
                    "DELETED" => Kind::Deleted,
                    "BOOKMARK" => Kind::Bookmark,
                    "ERROR" => Kind::Error,
                    other => Kind::Unknown(other.to_owned()),
                })
            }
        }

        deserializer.deserialize_str(KindVisitor)
    }
}

#[derive(Deserialize)]
struct Bookmark {
    #[serde(default, deserialize_with = "or_default")]
    metadata: BookmarkMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMeta {
    #[serde(deserialize_with = "or_default")]
    resource_version: String,
    #[serde(deserialize_with = "or_default")]
    annotations: BookmarkAnnotations,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end", deserialize_with = "or_default")]
    initial_events_end: String,
}

impl Bookmark {
    fn into_event<K>(self) -> WatchEvent<K> {
        WatchEvent::Bookmark {
            version: self.metadata.resource_version,
            initial_events_end: self.metadata.annotations.initial_events_end == "true",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::core::{ApiResource, DynamicObject};

    fn decoder<K: Object>(resource: ApiResource) -> Decoder<K> {
        Decoder {
            resource,
            keep_managed_fields: false,
            transform: None,
            only_in: None,
        }
    }

    fn pods() -> Decoder<Pod> {
        decoder(ApiResource::erase::<Pod>(&()))
    }

    const POD: &str =
        r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","managedFields":[{}]}}"#;

    // [I38] object before type
    #[test]
    fn object_may_come_before_type() {
        for line in [
            format!(r#"{{"type":"ADDED","object":{POD}}}"#),
            format!(r#"{{"object":{POD},"x":1,"type":"ADDED"}}"#),
        ] {
            let WatchEvent::Upsert { object: Ok(pod) } = pods().event(line.as_bytes()).unwrap() else {
                panic!("not an upsert: {line}");
            };
            assert_eq!(pod.metadata.resource_version.as_deref(), Some("7"));
            assert_eq!(pod.metadata.managed_fields, None);
        }
    }

    // [I38] bookmarks and errors are not objects of the kind, wherever the type stands
    #[test]
    fn bookmark_and_error_are_never_decoded_as_the_kind() {
        // as a ConfigMap, `data: 5` would not decode
        let maps: Decoder<ConfigMap> = decoder(ApiResource::erase::<ConfigMap>(&()));
        let object =
            r#"{"data":5,"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        for line in [
            format!(r#"{{"type":"BOOKMARK","object":{object}}}"#),
            format!(r#"{{"object":{object},"type":"BOOKMARK"}}"#),
        ] {
            let event = maps.event(line.as_bytes()).unwrap();
            assert!(
                matches!(&event, WatchEvent::Bookmark { version, initial_events_end: true } if version == "9"),
                "{event:?}"
            );
        }
        let object = r#"{"kind":"Status","data":5,"code":410,"reason":"Expired","message":"too old"}"#;
        for line in [
            format!(r#"{{"type":"ERROR","object":{object}}}"#),
            format!(r#"{{"object":{object},"type":"ERROR"}}"#),
        ] {
            let event = maps.event(line.as_bytes()).unwrap();
            assert!(
                matches!(&event, WatchEvent::Error(status) if status.code == 410),
                "{event:?}"
            );
        }
    }

    // [I14] the annotation's value counts, not its presence
    #[test]
    fn bookmark_ends_the_initial_events_only_with_the_value_true() {
        for (annotations, expected) in [
            (r#"{"k8s.io/initial-events-end":"false"}"#, false),
            (r#"{"other":"true"}"#, false),
            ("{}", false),
        ] {
            let line = format!(
                r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"9","annotations":{annotations}}}}}}}"#
            );
            let event = pods().event(line.as_bytes()).unwrap();
            let WatchEvent::Bookmark { initial_events_end, .. } = event else {
                panic!("{event:?}")
            };
            assert_eq!(initial_events_end, expected, "{annotations}");
        }
    }

    #[test]
    fn undecodable_object_keeps_its_key_and_type() {
        let line = br#"{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n"},"spec":{"containers":7}}}"#;
        let WatchEvent::Upsert { object: Err(bad) } = pods().event(line).unwrap() else {
            panic!("not an undecodable upsert");
        };
        assert_eq!(bad.key.unwrap().to_string(), "n/a");
        assert!(bad.error.contains("invalid type"), "{}", bad.error);
    }

    // [I21] bytes that are no UTF-8 cost the object that holds them; what they stand in is not known
    #[test]
    fn bytes_that_are_no_text_cost_their_object_alone() {
        let line = |kind: &str, name: &[u8], value: &[u8]| {
            let parts: [&[u8]; 5] = [
                br#"{"type":""#,
                kind.as_bytes(),
                br#"","object":{"metadata":{"namespace":"n","uid":"u","resourceVersion":"7","name":""#,
                name,
                br#""},"data":{"k":""#,
            ];
            [parts.concat().as_slice(), value, br#""}}}"#].concat()
        };
        let maps: Decoder<ConfigMap> = decoder(ApiResource::erase::<ConfigMap>(&()));
        let bad = Undecodable {
            key: Some("n/a".parse().unwrap()),
            uid: "u".to_owned(),
            version: "7".to_owned(),
            error: "the object holds bytes that are not UTF-8".to_owned(),
        };
        for value in [&b"\xff"[..], b"x\xc3", b"\xed\xa0\x80y", b"\xf0\x9f\x98"] {
            for kind in ["ADDED", "MODIFIED"] {
                let event = maps.event(&line(kind, b"a", value)).unwrap();
                let WatchEvent::Upsert { object: Err(met) } = event else {
                    panic!("{event:?}")
                };
                assert_eq!(met, bad, "{value:?}");
            }
            let event = maps.event(&line("DELETED", b"a", value)).unwrap();
            let WatchEvent::Deleted(Err(met)) = event else {
                panic!("{event:?}")
            };
            assert_eq!(met, bad);
            for kind in ["BOOKMARK", "ERROR", "ADD\u{7f}D"] {
                assert!(maps.event(&line(kind, b"a", value)).is_err(), "{kind}");
            }
        }
        let event = maps.event(&line("ADDED", b"a\xff", b"x")).unwrap();
        let WatchEvent::Upsert { object: Err(met) } = event else {
            panic!("{event:?}")
        };
        assert_eq!(met, Undecodable { key: None, ..bad });
        // the character that stands in for such bytes is one like any other
        let event = maps.event(&line("ADDED", b"a", b"\x7f")).unwrap();
        assert!(matches!(event, WatchEvent::Upsert { object: Ok(_) }), "{event:?}");
    }

    #[test]
    fn line_that_is_no_event_is_refused() {
        for line in [
            &b"{"[..],
            b"[]",
            br#"{"type":"ADDED"}"#,
            br#"{"object":{}}"#,
            b"\xff",
            br#"{"type":"BOOKMARK","object":5}"#,
        ] {
            assert!(pods().event(line).is_err(), "{}", String::from_utf8_lossy(line));
        }
        let event = pods().event(br#"{"type":"NEW","object":{}}"#).unwrap();
        assert!(
            matches!(&event, WatchEvent::Unknown(kind) if kind == "NEW"),
            "{event:?}"
        );
    }

    // [I38] a dynamic object is equal whether its types came along (watch) or not (list item)
    #[test]
    fn dynamic_objects_get_their_types_from_the_resource() {
        let resource = ApiResource::erase::<Pod>(&());
        let decoder: Decoder<DynamicObject> = decoder(resource);
        let without = decoder.object(POD).unwrap();
        let with = decoder
            .object(&POD.replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1))
            .unwrap();
        assert_eq!(without, with);
        assert_eq!(with.types.as_ref().unwrap().kind, "Pod");
    }
}
