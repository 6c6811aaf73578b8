//! Cuts the elements of a list body out of its chunks and decodes each as soon as it is whole.
//!
//! # Design
//!
//! A body is never held whole. Whatever has come is one contiguous buffer that starts where the unread part starts. The
//! validated text of it is decoded in place, element after element; an element that is cut off ends the round, the rest
//! moves to the front, and the next try waits until the buffer has doubled or the body has ended: an element of n bytes
//! is tried O(log n) times however small the chunks are. `metadata` may come before or after `items`.
//!
//! The text is checked for UTF-8 once per round, not once per element, and decoded as `&str`, which is faster than from
//! bytes. Bytes that are none end the text; the element they are in is passed over in a mended copy of it.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use crate::decode::lean::{Full, Lean};
use crate::decode::{Decoder, PANICKED, Undecodable, brief, contain, mend, or_default};
use crate::object::Object;

/// The largest element that is accepted. The server's storage refuses objects of more than a few MiB.
const LARGEST: usize = 64 << 20;

/// What a list says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    #[serde(deserialize_with = "or_default")]
    pub(crate) resource_version: String,
    #[serde(rename = "continue", deserialize_with = "or_default")]
    pub(crate) next: String,
}

/// The body is not a list.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a list: {0}")]
pub(crate) struct NotAList(String);

impl NotAList {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(brief(error))
    }
}

/// Where in the body the unread part starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the opening brace.
    Start,
    /// Before a key, or the closing brace if no key is due.
    Key { first: bool },
    /// Before an element, or the closing bracket if none is due.
    Item { first: bool },
    /// After a value: a comma or the closing brace.
    AfterValue,
    /// After the closing brace.
    End,
}

/// A list body on its way in.
pub(crate) struct ListReader {
    buffer: Vec<u8>,
    at: At,
    // The buffer's length from which the next try makes sense.
    retry_at: usize,
    found: Found,
}

/// What of a list has come. Any object has metadata; without `items` it is none, and no empty list either.
#[derive(Debug, Default)]
struct Found {
    meta: Option<ListMeta>,
    items: bool,
}

/// Why a round ended.
enum Pause {
    /// The rest is cut off.
    More,
    Broken(NotAList),
}

impl From<NotAList> for Pause {
    fn from(error: NotAList) -> Self {
        Pause::Broken(error)
    }
}

impl ListReader {
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            at: At::Start,
            retry_at: 0,
            found: Found::default(),
        }
    }

    /// Takes a chunk and gives every element that is whole now to `each`.
    pub(crate) fn push<K: Object>(
        &mut self,
        chunk: &[u8],
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), NotAList> {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() >= self.retry_at {
            self.round(decoder, each)?;
        }
        if self.buffer.len() > LARGEST {
            return Err(NotAList(format!("an element exceeds {} MiB", LARGEST >> 20)));
        }
        Ok(())
    }

    /// The body has ended: what the list says of itself.
    pub(crate) fn finish<K: Object>(
        mut self,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<ListMeta, NotAList> {
        self.round(decoder, each)?;
        if self.at != At::End {
            return Err(NotAList::new("the body ends in the middle"));
        }
        if !self.found.items {
            return Err(NotAList::new("no items"));
        }
        self.found.meta.ok_or_else(|| NotAList::new("no metadata"))
    }

    fn round<K: Object>(
        &mut self,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), NotAList> {
        loop {
            let (valid, not_utf8) = match std::str::from_utf8(&self.buffer) {
                Ok(text) => (text, None),
                Err(error) => {
                    let valid = std::str::from_utf8(&self.buffer[..error.valid_up_to()]).map_err(NotAList::new)?;
                    // Otherwise a character is cut off at the end.
                    (valid, error.error_len().map(|_| error))
                }
            };
            let mut cursor = Cursor {
                text: valid,
                read: 0,
                at: self.at,
                found: &mut self.found,
            };
            let pause = loop {
                match cursor.step(decoder, each) {
                    Ok(()) => {}
                    Err(pause) => break pause,
                }
            };
            let (read, at) = (cursor.read, cursor.at);
            self.at = at;
            self.buffer.drain(..read);
            let pause = match (pause, not_utf8) {
                (Pause::Broken(error), _) => return Err(error),
                (Pause::More, None) => Pause::More,
                (Pause::More, Some(error)) => match self.pass_over(each) {
                    Some(Ok(())) => continue,
                    Some(Err(pause)) => pause,
                    None => return Err(NotAList::new(error)),
                },
            };
            return match pause {
                Pause::More => {
                    self.retry_at = self.buffer.len() * 2;
                    Ok(())
                }
                Pause::Broken(error) => Err(error),
            };
        }
    }

    /// Passes over the element at the front, which holds bytes that are no UTF-8. `None` if there is no element.
    fn pass_over<K>(&mut self, each: &mut impl FnMut(Result<Arc<K>, Undecodable>)) -> Option<Result<(), Pause>> {
        let At::Item { first } = self.at else { return None };
        let mended = mend(&self.buffer);
        let mut cursor = Cursor {
            text: &mended,
            read: 0,
            at: self.at,
            found: &mut self.found,
        };
        let passed = cursor.mended_item(first, each);
        let (read, at) = (cursor.read, cursor.at);
        self.at = at;
        self.buffer.drain(..read);
        Some(passed)
    }
}

/// One round over the text that has come.
struct Cursor<'a> {
    text: &'a str,
    read: usize,
    at: At,
    found: &'a mut Found,
}

impl<'a> Cursor<'a> {
    /// Reads one token or value; nothing is consumed unless it is whole.
    fn step<K: Object>(
        &mut self,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), Pause> {
        self.skip_space();
        let next = self.text.as_bytes().get(self.read).copied().ok_or(Pause::More)?;
        match (self.at, next) {
            (At::Start, b'{') => self.advance(1, At::Key { first: true }),
            (At::Key { first: true } | At::AfterValue, b'}') => self.advance(1, At::End),
            (At::AfterValue, b',') => self.advance(1, At::Key { first: false }),
            (At::Key { .. }, b'"') => self.field()?,
            (At::Item { first: true }, b']') => self.advance(1, At::AfterValue),
            (At::Item { first }, _) => self.item(first, decoder, each)?,
            (_, other) => return Err(NotAList(format!("unexpected {:?}", char::from(other))).into()),
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize, at: At) {
        self.read += bytes;
        self.at = at;
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.read..];
        self.read += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// A key, its colon, and what follows: a whole value, or the opening bracket of `items`.
    fn field(&mut self) -> Result<(), Pause> {
        let (key, used) = value::<std::borrow::Cow<'a, str>>(&self.text[self.read..])?;
        let mut ahead = Cursor {
            text: self.text,
            read: self.read + used,
            at: self.at,
            found: &mut Found::default(),
        };
        ahead.skip_space();
        match self.text.as_bytes().get(ahead.read) {
            None => return Err(Pause::More),
            Some(b':') => ahead.read += 1,
            Some(_) => return Err(NotAList::new("a key without a value").into()),
        }
        ahead.skip_space();
        let start = ahead.read;
        let first = self.text.as_bytes().get(start).ok_or(Pause::More)?;
        if key == "items" && *first == b'[' {
            self.found.items = true;
            self.read = start;
            self.advance(1, At::Item { first: true });
            return Ok(());
        }
        let rest = &self.text[start..];
        let used = if key == "metadata" {
            let (meta, used) = value::<ListMeta>(rest)?;
            self.found.meta = Some(meta);
            used
        } else if key == "items" && *first != b'n' {
            return Err(NotAList::new("items is not an array").into());
        } else {
            value::<IgnoredAny>(rest)?.1
        };
        if start + used == self.text.len() {
            return Err(Pause::More); // a number may go on in the next chunk
        }
        self.found.items |= key == "items"; // null, which is what an empty list of Go's is
        self.read = start;
        self.advance(used, At::AfterValue);
        Ok(())
    }

    /// Where the next element begins, behind the comma that parts it from the one before; `None` if there was none, and the
    /// bracket is read.
    fn next_item(&mut self, first: bool) -> Result<Option<usize>, Pause> {
        let mut start = self.read;
        if !first {
            match self.text.as_bytes()[start] {
                b']' => {
                    self.advance(1, At::AfterValue);
                    return Ok(None);
                }
                b',' => start += 1,
                other => return Err(NotAList(format!("unexpected {:?} after an item", char::from(other))).into()),
            }
        }
        if self.text[start..].trim_start().is_empty() {
            return Err(Pause::More);
        }
        Ok(Some(start))
    }

    /// An element of which the text was mended.
    fn mended_item<K>(&mut self, first: bool, each: &mut impl FnMut(Result<Arc<K>, Undecodable>)) -> Result<(), Pause> {
        self.skip_space();
        let Some(start) = self.next_item(first)? else {
            return Ok(());
        };
        let rest = &self.text[start..];
        let (_, used) = value::<IgnoredAny>(rest)?;
        each(Err(Undecodable::of_mended(&rest[..used])));
        self.read = start;
        self.advance(used, At::Item { first: false });
        Ok(())
    }

    /// An element and, before it, the comma that parts it from the one before.
    fn item<K: Object>(
        &mut self,
        first: bool,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), Pause> {
        let Some(start) = self.next_item(first)? else {
            return Ok(());
        };
        let rest = &self.text[start..];
        let decoded = contain(|| {
            if decoder.keep_managed_fields {
                value::<Full<K>>(rest).map(|(full, used)| (full.0, used))
            } else {
                value::<Lean<K>>(rest).map(|(lean, used)| (lean.0, used))
            }
        });
        let used = match decoded {
            Some(Ok((object, used))) => {
                each(decoder.finish(object).map_err(|error| error.with_key_of(&rest[..used])));
                used
            }
            Some(Err(Pause::More)) => return Err(Pause::More),
            failed => {
                let error = match failed {
                    Some(Err(Pause::Broken(NotAList(error)))) => error,
                    _ => PANICKED.to_owned(),
                };
                // Not one of the type; find its end, so that its neighbours are read.
                let (_, used) = value::<IgnoredAny>(rest)?;
                each(Err(Undecodable::of(&rest[..used], error)));
                used
            }
        };
        self.read = start;
        self.advance(used, At::Item { first: false });
        Ok(())
    }
}

/// Decodes one value at the front of the text; also says how long it was.
fn value<'a, T: Deserialize<'a>>(text: &'a str) -> Result<(T, usize), Pause> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    match values.next() {
        None => Err(Pause::More),
        Some(Ok(value)) => Ok((value, values.byte_offset())),
        Some(Err(error)) if error.classify() == Category::Eof => Err(Pause::More),
        Some(Err(error)) => Err(NotAList::new(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;

    fn decoder() -> Decoder<ConfigMap> {
        Decoder {
            resource: ApiResource::erase::<ConfigMap>(&()),
            keep_managed_fields: false,
            transform: None,
            only_in: None,
        }
    }

    type Read = (Vec<Result<String, Undecodable>>, ListMeta);

    fn read(body: impl AsRef<[u8]>, size: usize) -> Result<Read, NotAList> {
        let mut seen = Vec::new();
        let mut each = |object: Result<Arc<ConfigMap>, Undecodable>| {
            seen.push(object.map(|object| object.metadata.name.clone().unwrap_or_default()));
        };
        let mut reader = ListReader::new();
        for chunk in body.as_ref().chunks(size) {
            reader.push(chunk, &decoder(), &mut each)?;
        }
        let meta = reader.finish(&decoder(), &mut each)?;
        Ok((seen, meta))
    }

    // [I38] items before metadata, list items without apiVersion and kind; in every split of the body
    #[test]
    fn list_reads_the_same_in_any_order_and_any_split() {
        let items =
            r#"[ {"metadata":{"name":"a","managedFields":[{}]},"data":{"k":"v\"]}"}} , {"metadata":{"name":"bü"}}]"#;
        let meta = r#"{"resourceVersion":"42","continue":"tok"}"#;
        for body in [
            format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{meta},"items":{items}}}"#),
            format!(r#"{{"items": {items} , "metadata" : {meta}, "n": 12}} "#),
        ] {
            for size in 1..=body.len() {
                let (seen, meta) = read(&body, size).unwrap();
                assert_eq!(seen, [Ok("a".to_owned()), Ok("bü".to_owned())], "chunks of {size}");
                assert_eq!(
                    meta,
                    ListMeta {
                        resource_version: "42".into(),
                        next: "tok".into()
                    }
                );
            }
        }
    }

    #[test]
    fn empty_and_null_items_are_an_empty_list() {
        for items in ["[]", "null", "[ ]"] {
            let body = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":{items}}}"#);
            for size in 1..=body.len() {
                assert_eq!(read(&body, size).unwrap().0, []);
            }
        }
    }

    // one bad item does not break its neighbours
    #[test]
    fn undecodable_item_is_reported_with_its_key_and_skipped() {
        let body = r#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"n"},"data":7},{"metadata":{"name":"c"}},{"x":1}],"metadata":{}}"#;
        for size in [1, 7, body.len()] {
            let (seen, _) = read(body, size).unwrap();
            assert_eq!(seen.len(), 4);
            assert_eq!(seen[0], Ok("a".to_owned()));
            assert_eq!(seen[1].as_ref().unwrap_err().key.as_ref().unwrap().to_string(), "n/b");
            assert_eq!(seen[2], Ok("c".to_owned()));
            assert_eq!(seen[3].as_ref().unwrap_err().key, None);
        }
    }

    // [I21] bytes that are no UTF-8 cost the object that holds them, wherever the body is cut; of a name that holds them nothing
    // is known
    #[test]
    fn bytes_that_are_no_text_cost_their_object_alone() {
        let body = [
            b"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\x7f\"}} , ".as_slice(),
            b"{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",",
            b"\"uid\":\"u\",\"resourceVersion\":\"7\"},\"data\":{\"k\":\"\xff\xfe}]\",\"l\":\"\xc3\",\"m\":\"\xe2\x82\"}},",
            b"{\"metadata\":{\"name\":\"c\xed\xa0\x80\",\"namespace\":\"n\",\"uid\":\"\xff\",\"resourceVersion\":\"8\"}},",
            "{\"metadata\":{\"name\":\"bü\"}},".as_bytes(),
            b"{\"metadata\":{\"name\":\"d\"},\"data\":{\"\x80\":\"\"}}],\"metadata\":{\"resourceVersion\":\"9\"}}",
        ]
        .concat();
        let bad = |key: Option<&str>, uid: &str, version: &str| {
            Err(Undecodable {
                key: key.map(|key| key.parse().unwrap()),
                uid: uid.to_owned(),
                version: version.to_owned(),
                error: "the object holds bytes that are not UTF-8".to_owned(),
            })
        };
        let expected = [
            Ok("a".to_owned()),
            bad(Some("n/b"), "u", "7"),
            bad(None, "", "8"),
            Ok("bü".to_owned()),
            bad(Some("d"), "", ""),
        ];
        for size in 1..=body.len() {
            let (seen, meta) = read(&body, size).unwrap();
            assert_eq!(seen, expected, "chunks of {size}");
            assert_eq!(meta.resource_version, "9");
        }
        // Elsewhere they cost the list: what is not an object is not known to be what it looks like.
        for body in [
            &b"{\"items\":[],\"metadata\":{\"resourceVersion\":\"\xff\"}}"[..],
            b"{\"items\":[\xff],\"metadata\":{}}",
            b"{\"items\":[{}\xff],\"metadata\":{}}",
            b"{\"items\":[],\"metadata\":{},\"\xff\":1}",
            b"{\"items\":[],\"metadata\":{}}\xff",
        ] {
            for size in 1..=body.len() {
                assert!(read(body, size).is_err(), "{}", String::from_utf8_lossy(body));
            }
        }
    }

    thread_local! {
        static TRIED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// A type that nothing decodes into, and that counts how often it was tried.
    #[derive(Debug)]
    struct Never;

    impl<'de> Deserialize<'de> for Never {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            TRIED.set(TRIED.get() + 1);
            IgnoredAny::deserialize(deserializer)?;
            Err(serde::de::Error::custom("never"))
        }
    }

    impl Object for Never {
        type DynamicType = ();

        fn api_resource((): &()) -> ApiResource {
            ApiResource::erase::<ConfigMap>(&())
        }

        fn scope((): &()) -> crate::Scope {
            crate::Scope::Namespaced
        }

        fn metadata(&self) -> crate::Metadata<'_> {
            crate::Metadata::default()
        }
    }

    // [I21] nothing but such objects: each is tried once, but for the one at the end of a piece; the work grows with the list
    #[test]
    fn list_of_undecodable_items_is_read_in_one_pass() {
        let (items, piece) = (3_000, 16 << 10);
        let texts: Vec<String> = (0..items)
            .map(|n| {
                format!(
                    r#"{{"metadata":{{"name":"i{n}","namespace":"n"}},"data":{{"k":"{}"}}}}"#,
                    "x".repeat(50)
                )
            })
            .collect();
        let body = format!(
            r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#,
            texts.join(",")
        );
        let decoder: Decoder<Never> = Decoder {
            resource: ApiResource::erase::<ConfigMap>(&()),
            keep_managed_fields: false,
            transform: None,
            only_in: None,
        };
        let mut names = Vec::new();
        let mut each =
            |object: Result<Arc<Never>, Undecodable>| names.push(object.unwrap_err().key.unwrap().to_string());
        let mut reader = ListReader::new();
        for piece in body.as_bytes().chunks(piece) {
            reader.push(piece, &decoder, &mut each).unwrap();
        }
        reader.finish(&decoder, &mut each).unwrap();
        assert!(
            names
                .iter()
                .eq((0..items).map(|n| format!("n/i{n}")).collect::<Vec<_>>().iter())
        );
        let most = items + 2 * (body.len() / piece + 1);
        assert!((items..=most).contains(&TRIED.get()), "{} tries", TRIED.get());
    }

    #[test]
    fn body_that_is_no_list_or_is_cut_off_is_refused() {
        for body in [
            "",
            "[]",
            "x",
            r#"{"items":[]}"#,
            r#"{"items":5,"metadata":{}}"#,
            r#"{"items":[{}"#,
            r#"{"items":[{} {}],"metadata":{}}"#,
            r#"{"metadata":{}"#,
            r#"{"metadata" {}}"#,
            r#"{"metadata":{},"items":[{"metadata":{"name":"a"}}"#,
        ] {
            assert!(read(body, 3).is_err(), "{body}");
        }
        assert!(
            ListReader::new()
                .push(b"{\"a\xff\":1}", &decoder(), &mut |_| ())
                .is_err()
        );
    }
}
