//! Cuts the body of a list into pieces of whole elements as it comes, and decodes such pieces.
//!
//! # Design
//!
//! A body is never held whole. Whatever has come is one contiguous buffer that starts where the unread part starts. Where elements end
//! is found by their brackets alone ([`Cutter`]), which reads each byte once; as soon as there is a piece's worth of whole ones they
//! are cut out, to be decoded by whoever has a processor free ([`Piece`]). What brackets cannot tell, such as a missing colon, shows as
//! the piece is decoded. The rest of a list, keys and `metadata`, is decoded here: a value that is cut off waits until the buffer has
//! doubled or the body has ended, so that it is tried O(log n) times however small the chunks are. `metadata` may come before or
//! after `items`.
//!
//! The text of a piece is checked for UTF-8 once, not once per element, and decoded as `&str`, which is faster than from bytes. Bytes
//! that are none end the text; the element they are in is passed over in a mended copy of it.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use crate::decode::cut::{Cut, Cutter};
use crate::decode::heap::HeapAhead;
use crate::decode::lean::{Full, Lean};
use crate::decode::{Decoder, PANICKED, Undecodable, brief, contain, mend, or_default};
use crate::object::Object;

/// The largest element that is accepted. The server's storage refuses objects of more than a few MiB.
const LARGEST: usize = 64 << 20;
/// How much text makes a piece: enough that handing it to another thread costs little beside decoding it (about 0.5 ms), little
/// enough that several threads share a list of a few hundred objects.
pub(crate) const PIECE: usize = 64 << 10;

/// Room for a piece, and for the chunk that completes it. With [`PIECE`], below the 128 KiB from which glibc's allocator maps each
/// buffer by itself.
pub(crate) fn room(piece: usize) -> usize {
    piece + piece / 2
}

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
#[derive(Debug)]
pub(crate) struct ListReader {
    buffer: Vec<u8>,
    at: At,
    // The buffer's length from which the next try makes sense. Not among elements.
    retry_at: usize,
    found: Found,
    // How far the buffer is looked at for the ends of elements. Among elements only.
    cutter: Cutter,
    // How much text makes a piece.
    piece: usize,
}

/// Whole elements of a list, with the commas between them, and the one before them unless they are its first.
#[derive(Debug)]
pub(crate) struct Piece {
    text: Vec<u8>,
    first: bool,
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

impl From<Pause> for NotAList {
    /// Where there is no more.
    fn from(pause: Pause) -> Self {
        match pause {
            Pause::More => NotAList::new("an element that does not end"),
            Pause::Broken(error) => error,
        }
    }
}

impl ListReader {
    /// Gives pieces of at least `piece` bytes while there are more.
    pub(crate) fn new(piece: usize) -> Self {
        Self {
            buffer: Vec::new(),
            at: At::Start,
            retry_at: 0,
            found: Found::default(),
            cutter: Cutter::default(),
            piece,
        }
    }

    /// Takes a chunk, and gives a piece to `each` if there is one now.
    pub(crate) fn push(&mut self, chunk: &[u8], each: &mut impl FnMut(Piece)) -> Result<(), NotAList> {
        self.buffer.extend_from_slice(chunk);
        if self.is_among_elements() || self.buffer.len() >= self.retry_at {
            self.go_on(each)?;
        }
        if self.buffer.len() > LARGEST {
            return Err(NotAList(format!("an element exceeds {} MiB", LARGEST >> 20)));
        }
        Ok(())
    }

    /// Whether there are whole elements that were not given out.
    pub(crate) fn holds_elements(&self) -> bool {
        self.cutter.whole() > 0
    }

    /// Gives what elements are whole to `each`, however few.
    pub(crate) fn flush(&mut self, each: &mut impl FnMut(Piece)) {
        if self.cutter.whole() > 0 {
            self.take_piece(self.cutter.whole(), 0, each);
        }
    }

    /// The body has ended: gives its last piece to `each`; what the list says of itself.
    pub(crate) fn finish(mut self, each: &mut impl FnMut(Piece)) -> Result<ListMeta, NotAList> {
        self.go_on(each)?;
        if self.at != At::End {
            return Err(NotAList::new("the body ends in the middle"));
        }
        if !self.found.items {
            return Err(NotAList::new("no items"));
        }
        self.found.meta.ok_or_else(|| NotAList::new("no metadata"))
    }

    fn is_among_elements(&self) -> bool {
        matches!(self.at, At::Item { .. })
    }

    fn go_on(&mut self, each: &mut impl FnMut(Piece)) -> Result<(), NotAList> {
        loop {
            if !self.is_among_elements() {
                self.read_fields()?;
            }
            if !self.is_among_elements() {
                return Ok(());
            }
            match self.cutter.read(&self.buffer, self.piece) {
                None => return Ok(()),
                Some(Cut::Piece(end)) => self.take_piece(end, room(self.piece), each),
                Some(Cut::End(end)) => {
                    self.take_piece(end, 0, each);
                    self.buffer.drain(..1); // the bracket
                    self.cutter = Cutter::default();
                    self.at = At::AfterValue;
                }
            }
        }
    }

    fn take_piece(&mut self, end: usize, room: usize, each: &mut impl FnMut(Piece)) {
        let mut rest = Vec::with_capacity(room.max(self.buffer.len() - end));
        rest.extend_from_slice(&self.buffer[end..]);
        let mut text = std::mem::replace(&mut self.buffer, rest);
        text.truncate(end);
        self.cutter.taken(end);
        if let At::Item { first } = self.at
            && !text.trim_ascii().is_empty()
        {
            self.at = At::Item { first: false };
            each(Piece { text, first });
        }
    }

    /// Reads what is not among elements, until they begin or something is cut off.
    fn read_fields(&mut self) -> Result<(), NotAList> {
        let (text, error) = valid(&self.buffer);
        let mut cursor = Cursor {
            text,
            read: 0,
            at: self.at,
            found: &mut self.found,
        };
        let pause = loop {
            if matches!(cursor.at, At::Item { .. }) {
                break None;
            }
            if let Err(pause) = cursor.step() {
                break Some(pause);
            }
        };
        let (read, at) = (cursor.read, cursor.at);
        self.at = at;
        self.buffer.drain(..read);
        match (pause, error) {
            (Some(Pause::Broken(error)), _) => return Err(error),
            (Some(Pause::More), Some(error)) => return Err(NotAList::new(error)),
            (Some(Pause::More), None) => self.retry_at = self.buffer.len() * 2,
            (None, _) => {}
        }
        Ok(())
    }
}

/// The front of these bytes that is text; and why it ends, unless with the bytes or in the middle of a character.
fn valid(bytes: &[u8]) -> (&str, Option<std::str::Utf8Error>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len().map(|_| error))
        }
    }
}

impl Piece {
    /// Decodes the elements, each by itself.
    pub(crate) fn decode<K: Object>(
        &self,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), NotAList> {
        let (mut rest, mut first) = (self.text.as_slice(), self.first);
        // Of the whole piece: mending what is left for each such element would take the square of their number.
        let mut mended = None;
        while !rest.trim_ascii().is_empty() {
            let (text, damage) = valid(rest);
            let mut elements = Elements { text, read: 0, first };
            let pause = elements.decode(decoder, each);
            (rest, first) = (&rest[elements.read..], elements.first);
            if rest.trim_ascii().is_empty() {
                break;
            }
            if damage.is_none() || matches!(pause, Pause::Broken(_)) {
                return Err(pause.into());
            }
            // The next element holds bytes that are no UTF-8.
            let mended = mended.get_or_insert_with(|| mend(&self.text));
            let mut elements = Elements {
                text: &mended[self.text.len() - rest.len()..],
                read: 0,
                first,
            };
            elements.pass_over(each)?;
            (rest, first) = (&rest[elements.read..], elements.first);
        }
        Ok(())
    }
}

/// One round over some text.
struct Cursor<'a, 'f> {
    text: &'a str,
    read: usize,
    at: At,
    found: &'f mut Found,
}

impl<'a> Cursor<'a, '_> {
    /// Reads one token or value outside of elements; nothing is consumed unless it is whole.
    fn step(&mut self) -> Result<(), Pause> {
        self.skip_space();
        let next = self.text.as_bytes().get(self.read).copied().ok_or(Pause::More)?;
        match (self.at, next) {
            (At::Start, b'{') => self.advance(1, At::Key { first: true }),
            (At::Key { first: true } | At::AfterValue, b'}') => self.advance(1, At::End),
            (At::AfterValue, b',') => self.advance(1, At::Key { first: false }),
            (At::Key { .. }, b'"') => self.field()?,
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
}

/// One round over the text of elements.
struct Elements<'a> {
    text: &'a str,
    read: usize,
    // No element was read yet, so that no comma is due.
    first: bool,
}

impl Elements<'_> {
    /// Decodes the elements that are left, until something stops it.
    fn decode<K: Object>(&mut self, decoder: &Decoder<K>, each: &mut impl FnMut(Result<Arc<K>, Undecodable>)) -> Pause {
        let (mut heap, mut last) = (HeapAhead::default(), 1);
        loop {
            heap.expect(last);
            let before = self.read;
            if let Err(pause) = self.decode_one(decoder, each) {
                return pause;
            }
            last = self.read - before; // about what the next one is
        }
    }

    /// Where the next element begins, behind the comma that parts it from the one before.
    fn next(&self) -> Result<usize, Pause> {
        let rest = &self.text.as_bytes()[self.read..];
        let mut start = self.read + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if !self.first {
            match self.text.as_bytes().get(start) {
                None => return Err(Pause::More),
                Some(b',') => start += 1,
                Some(other) => {
                    return Err(NotAList(format!("unexpected {:?} after an item", char::from(*other))).into());
                }
            }
        }
        if start == self.text.len() {
            Err(Pause::More)
        } else {
            Ok(start)
        }
    }

    fn advance(&mut self, to: usize) {
        self.read = to;
        self.first = false;
    }

    /// Passes over an element of which the text was mended.
    fn pass_over<K>(&mut self, each: &mut impl FnMut(Result<Arc<K>, Undecodable>)) -> Result<(), Pause> {
        let start = self.next()?;
        let rest = &self.text[start..];
        let (_, used) = value::<IgnoredAny>(rest)?;
        each(Err(Undecodable::of_mended(&rest[..used])));
        self.advance(start + used);
        Ok(())
    }

    fn decode_one<K: Object>(
        &mut self,
        decoder: &Decoder<K>,
        each: &mut impl FnMut(Result<Arc<K>, Undecodable>),
    ) -> Result<(), Pause> {
        let start = self.next()?;
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
        self.advance(start + used);
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
        let mut broken = Ok(());
        let mut decode = |piece: Piece| {
            if broken.is_ok() {
                broken = piece.decode(&decoder(), &mut each);
            }
        };
        let mut reader = ListReader::new(1);
        for chunk in body.as_ref().chunks(size) {
            reader.push(chunk, &mut decode)?;
        }
        let meta = reader.finish(&mut decode)?;
        broken?;
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

    // [I21] nothing but such objects: each is tried once; the work grows with the list
    #[test]
    fn list_of_undecodable_items_is_read_in_one_pass() {
        let (items, chunk) = (3_000, 16 << 10);
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
        let mut decode = |piece: Piece| piece.decode(&decoder, &mut each).unwrap();
        let mut reader = ListReader::new(PIECE);
        for chunk in body.as_bytes().chunks(chunk) {
            reader.push(chunk, &mut decode).unwrap();
        }
        reader.finish(&mut decode).unwrap();
        assert!(
            names
                .iter()
                .eq((0..items).map(|n| format!("n/i{n}")).collect::<Vec<_>>().iter())
        );
        assert_eq!(TRIED.get(), items);
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
            "{\"items\":[{},\x0c{}],\"metadata\":{}}",
            r#"{"metadata":{}"#,
            r#"{"metadata" {}}"#,
            r#"{"metadata":{},"items":[{"metadata":{"name":"a"}}"#,
        ] {
            assert!(read(body, 3).is_err(), "{body}");
        }
        assert!(ListReader::new(PIECE).push(b"{\"a\xff\":1}", &mut |_| ()).is_err());
    }
}
