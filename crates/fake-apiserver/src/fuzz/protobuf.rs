//! Bodies in protobuf.

use super::{Target, body, resources};
use crate::codec::{ContentType, FieldValidation, decode, decode_delete_options};

/// A letter that picks a kind, and a message of it; after a zero, a whole body.
pub(super) const TARGET: Target = Target {
    name: "protobuf",
    run,
    seeds: &[
        "c\u{a}\u{7}\u{a}\u{1}a\u{12}\u{0}\u{1a}\u{0}\u{12}\u{6}\u{a}\u{1}k\u{12}\u{1}v",
        "p\u{a}\u{5}\u{a}\u{3}pod\u{12}\u{e}\u{12}\u{c}\u{a}\u{1}c\u{12}\u{7}nginx:1",
        "d\u{a}\u{3}\u{a}\u{1}d\u{12}\u{2}\u{8}\u{3}",
        "q\u{a}\u{3}\u{a}\u{1}q\u{12}\u{d}\u{a}\u{b}\u{a}\u{3}cpu\u{12}\u{4}\u{a}\u{2}1m",
        "l\u{a}\u{3}\u{a}\u{1}l\u{12}\u{c}\u{a}\u{1}h\u{10}\u{f}\u{1a}\u{5}\u{8}\u{1}\u{10}\u{e8}\u{7}",
        "\0k8s\u{0}\u{a}\u{f}\u{a}\u{2}v1\u{12}\u{9}ConfigMap\u{12}\u{9}\u{a}\u{7}\u{a}\u{1}a\u{12}\u{0}\u{1a}\u{0}",
    ],
    words: &[
        "\u{a}", "\u{12}", "\u{1a}", "\u{8}", "\u{10}", "\u{22}", "\u{7f}", "\0", "\u{9}", "\u{d}", "\u{b}", "\u{c}",
    ],
};

fn run(data: &[u8]) {
    let Some((pick, message)) = data.split_first() else {
        return;
    };
    let resource = resources::picked(*pick);
    if *pick == 0 {
        let maps = resources::built_in("configmaps");
        let _ = decode(maps, ContentType::Protobuf, message, FieldValidation::Strict);
        let _ = decode_delete_options(ContentType::Protobuf, message);
        return;
    }
    let mut types = Vec::new();
    put(&mut types, 1, resource.api_version().as_bytes());
    put(&mut types, 2, resource.kind.as_bytes());
    let mut whole = b"k8s\0".to_vec();
    put(&mut whole, 1, &types);
    put(&mut whole, 2, message);
    let Ok(decoded) = decode(resource, ContentType::Protobuf, &whole, FieldValidation::Strict) else {
        return;
    };
    body::is_canonical(resource, &decoded.object);
}

/// Appends a field of bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend_from_slice(bytes);
}
