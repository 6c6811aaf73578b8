//! Bodies cut at every byte, in every decode path: the objects are the same as of the whole body.

use std::fmt::Debug;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, PartialObjectMeta};

use super::*;
use crate::decode::event::WatchEvent;
use crate::decode::inflate::Inflate;
use crate::decode::lines::Lines;
use crate::decode::list::{ListReader, PIECE, Piece};
use crate::testing::Item;

/// Escapes of every kind, characters of one to four bytes, brackets in texts, managed fields, a number at the end.
const OBJECTS: [&str; 4] = [
    r#"{"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"1","managedFields":[{"fieldsV1":{"f:x]}":{}}}]},"data":{"k":"\"}],\\\n\t\/\u00fc"}}"#,
    r#" {"metadata" : {"managedFields":[],"name":"bü€😀","namespace":"n","uid":"u2","resourceVersion":"2"}, "value":"\ud83d\ude00 ü€😀" ,"immutable":false}"#,
    r#"{"data":{"k":"v"},"metadata":{"name":"c","namespace":"n","uid":"u3","resourceVersion":"3","generation":12}}"#,
    // no ConfigMap, no Item; as a DynamicObject it decodes
    r#"{"metadata":{"name":"bad","namespace":"n","uid":"u4","resourceVersion":"4"},"data":"]}","value":[1,2]}"#,
];

fn decoder<K>(keep_managed_fields: bool) -> Decoder<K> {
    Decoder {
        resource: ApiResource::erase::<ConfigMap>(&()),
        keep_managed_fields,
        transform: None,
        only_in: None,
    }
}

/// Cuts in two at every byte, and into pieces of one byte.
fn cuts(body: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let in_two = (1..body.len()).map(move |at| vec![&body[..at], &body[at..]]);
    in_two.chain([body.chunks(1).collect()])
}

fn gzip(texts: &[&[u8]]) -> Vec<u8> {
    let member = |text: &&[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    texts.iter().flat_map(member).collect()
}

fn read_list<K: Object + Debug>(pieces: &[&[u8]], inflate: Inflate, decoder: &Decoder<K>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut each = |object: Result<Arc<K>, Undecodable>| seen.push(format!("{object:?}"));
    let mut decode = |piece: Piece| piece.decode(decoder, &mut each).unwrap();
    let (mut reader, mut inflate) = (ListReader::new(1), inflate);
    for piece in pieces {
        let unpacked = inflate.push(piece).unwrap();
        reader.push(&unpacked, &mut decode).unwrap();
    }
    let meta = reader.finish(&mut decode).unwrap();
    seen.push(format!("{meta:?}"));
    seen
}

fn read_watch<K: Object + Debug>(pieces: &[&[u8]], inflate: Inflate, decoder: &Decoder<K>) -> Vec<String> {
    let (mut lines, mut inflate) = (Lines::default(), inflate);
    let mut seen = Vec::new();
    for piece in pieces {
        lines.push(Bytes::from(inflate.push(piece).unwrap().into_owned()));
        while let Some(event) = lines.next(|line| decoder.event(line)).unwrap() {
            seen.push(match event {
                Ok(WatchEvent::Upsert { object, .. }) => format!("{object:?}"),
                other => format!("{other:?}"),
            });
        }
    }
    seen
}

fn list_is_the_same_in_every_cut<K: Object + Debug>(good: usize) {
    let items = OBJECTS.join(" ,\n");
    let meta = r#""metadata":{"continue":"tük\"","resourceVersion":"42"}"#;
    for body in [
        format!(r#"{{"kind":"List","apiVersion":"v1",{meta},"items":[{items}]}}"#),
        format!("{{\"items\" : [ {items} ] , \"x\":[1,{{}}],\"n\":12, {meta} }}\n"),
    ] {
        for keep in [false, true] {
            let decoder = decoder::<K>(keep);
            let whole = read_list(&[body.as_bytes()], Inflate::plain(), &decoder);
            assert_eq!(whole.len(), OBJECTS.len() + 1);
            assert_eq!(
                whole.iter().filter(|text| text.starts_with("Ok(")).count(),
                good,
                "{whole:?}"
            );
            assert!(whole[4].contains("42") && whole[4].contains("tük"), "{}", whole[4]);
            for pieces in cuts(body.as_bytes()) {
                let lengths = (pieces.len(), pieces[0].len());
                assert_eq!(read_list(&pieces, Inflate::plain(), &decoder), whole, "{lengths:?}");
            }
            let packed = gzip(&[body.as_bytes()]);
            for pieces in cuts(&packed) {
                assert_eq!(read_list(&pieces, Inflate::gzip(), &decoder), whole);
            }
        }
    }
}

fn watch_is_the_same_in_every_cut<K: Object + Debug>(good: usize) {
    let [a, b, c, bad] = OBJECTS;
    let lines = [
        format!("{{\"type\":\"ADDED\",\"object\":{a}}}\n"),
        format!("{{\"object\":{b},\"type\":\"MODIFIED\"}}\n\n"),
        format!("{{\"type\":\"DELETED\",\"object\":{c}}}\n"),
        format!("{{\"type\":\"ADDED\",\"object\":{bad}}}\n"),
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}"#.to_owned() + "\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"zu alt: ü€😀\"}}\n".to_owned(),
    ];
    let body = lines.concat();
    let members: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    for keep in [false, true] {
        let decoder = decoder::<K>(keep);
        let whole = read_watch(&[body.as_bytes()], Inflate::plain(), &decoder);
        assert_eq!(whole.len(), 7, "six events, and an empty line: {whole:?}");
        assert_eq!(
            whole.iter().filter(|text| text.starts_with("Ok(")).count(),
            good,
            "{whole:?}"
        );
        for pieces in cuts(body.as_bytes()) {
            assert_eq!(read_watch(&pieces, Inflate::plain(), &decoder), whole);
        }
        let packed = gzip(&members);
        for pieces in cuts(&packed) {
            assert_eq!(read_watch(&pieces, Inflate::gzip(), &decoder), whole);
        }
    }
}

// [I38] [I21] list items before and after the metadata, managed fields skipped and kept, plain and packed
#[test]
fn list_cut_at_every_byte_reads_the_same() {
    list_is_the_same_in_every_cut::<ConfigMap>(3);
    list_is_the_same_in_every_cut::<DynamicObject>(4);
    list_is_the_same_in_every_cut::<PartialObjectMeta<ConfigMap>>(4);
    list_is_the_same_in_every_cut::<Item>(3);
}

// [I38] [I21] types before and after the object, bookmarks and errors among them, plain and packed
#[test]
fn watch_cut_at_every_byte_reads_the_same() {
    // two upserts that decode (the deletion is told apart), and the bookmark and the error are results, too
    watch_is_the_same_in_every_cut::<ConfigMap>(2 + 3);
    watch_is_the_same_in_every_cut::<DynamicObject>(3 + 3);
    watch_is_the_same_in_every_cut::<PartialObjectMeta<ConfigMap>>(3 + 3);
    watch_is_the_same_in_every_cut::<Item>(2 + 3);
}

#[test]
fn key_uid_and_version_are_read_whatever_else_is_wrong() {
    let read = |text: &str| {
        let bad = Undecodable::of(text, "why".to_owned());
        (bad.key.map(|key| key.to_string()), bad.uid, bad.version)
    };
    let is = |key: &str, uid: &str, version: &str| (Some(key.to_owned()), uid.to_owned(), version.to_owned());
    assert_eq!(
        read(r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"},"data":7}"#),
        is("n/a", "u", "7")
    );
    assert_eq!(
        read(r#"{"metadata":{"name":"a","uid":7,"resourceVersion":8,"labels":[]}}"#),
        is("a", "", "")
    );
    assert_eq!(read(r#"{"metadata":{"name":"a","namespace":null}}"#), is("a", "", ""));
    for text in [
        "7",
        "{}",
        r#"{"metadata":5}"#,
        r#"{"metadata":{"name":["a"]}}"#,
        r#"{"metadata":{"name":""}}"#,
    ] {
        assert_eq!(read(text).0, None, "{text}");
    }
}

// [I21] errors of decoding quote what they met: of a large object, or a secret, not all of it is kept and logged
#[test]
fn errors_do_not_quote_whole_objects() {
    let long = "ü".repeat(1 << 20);
    let object = format!(r#"{{"metadata":{{"name":"a"}},"data":"{long}"}}"#);
    let decoder: Decoder<ConfigMap> = decoder(false);
    let alone = decoder.object(&object).unwrap_err();
    let line = format!(r#"{{"type":"ADDED","object":{object}}}"#);
    let Ok(WatchEvent::Upsert { object: Err(watched) }) = decoder.event(line.as_bytes()) else {
        panic!("not an undecodable object");
    };
    let mut listed = Vec::new();
    let mut each = |item: Result<Arc<ConfigMap>, Undecodable>| listed.push(item.unwrap_err());
    let mut reader = ListReader::new(PIECE);
    let body = format!(r#"{{"metadata":{{}},"items":[{object}]}}"#);
    let mut decode = |piece: Piece| piece.decode(&decoder, &mut each).unwrap();
    reader.push(body.as_bytes(), &mut decode).unwrap();
    reader.finish(&mut decode).unwrap();
    let no_event = decoder.event(format!(r#"{{"type":"BOOKMARK","object":"{long}"}}"#).as_bytes());
    for error in [
        &alone.error,
        &watched.error,
        &listed[0].error,
        &no_event.unwrap_err().to_string(),
    ] {
        assert!(error.len() < 500, "{} bytes", error.len());
        assert!(error.contains("invalid type: string"), "{error}");
        assert!(
            error.contains("expected "),
            "what was expected comes at the end: {error}"
        );
    }
}
