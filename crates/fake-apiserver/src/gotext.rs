//! Text as Go has it: any bytes, with Go's quotes.
//!
//! In Go a string is bytes, and paths and queries may hold any. Here they are `String`s in which each byte that is no
//! UTF-8 stands as a character of its own, at the end of the last plane of private use, so that parsers need not know of
//! it: [`decode`] makes them, [`bytes`] gives back what was sent, [`go_quote`] quotes that, and [`shown`] is what Go's
//! encoder of JSON makes of it. Owns no grammar.
//!
//! Bodies are not decoded so: should one hold such a character, an error text that quotes it shows a byte.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The byte `b` stands as the character `MARKS + b`.
const MARKS: u32 = 0x0010_FF00;
/// Every mark, and little else, begins with this byte in UTF-8.
const FIRST_BYTE: u8 = 0xF4;

fn mark(byte: u8) -> char {
    char::from_u32(MARKS + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for.
fn marked(c: char) -> Option<u8> {
    u32::from(c)
        .checked_sub(MARKS)
        .and_then(|byte| u8::try_from(byte).ok())
        .filter(|byte| *byte >= 0x80)
}

fn has_marks(text: &str) -> bool {
    text.as_bytes().contains(&FIRST_BYTE) && text.contains(|c| marked(c).is_some())
}

/// The text of any bytes.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !has_marks(&text) => return text,
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len() * 4);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if marked(c).is_some() {
                // Sent as it is: its bytes are marked, so that they come back.
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(mark));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(mark));
    }
    text
}

/// The bytes of a text.
pub(crate) fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_marks(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match marked(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// How many bytes a text has.
pub(crate) fn len(text: &str) -> usize {
    bytes(text).len()
}

/// A text as a client sees it: each byte that is no UTF-8 is a replacement character.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if has_marks(text) {
        Cow::Owned(replaced(text, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A text with each byte that is no UTF-8 replaced.
pub(crate) fn replaced(text: &str, by: &str) -> String {
    let bytes = bytes(text);
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for _ in chunk.invalid() {
            out.push_str(by);
        }
    }
    out
}

/// A string in Go's quotes.
pub(crate) fn go_quote(text: &str) -> String {
    let bytes = bytes(text);
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    // Writing to a string cannot fail.
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\u{b}' => out.push_str("\\v"),
                '\u{c}' => out.push_str("\\f"),
                c if is_printable(c) => out.push(c),
                c if c.is_ascii() => drop(write!(out, "\\x{:02x}", u32::from(c))),
                c if u32::from(c) < 0x1_0000 => drop(write!(out, "\\u{:04x}", u32::from(c))),
                c => drop(write!(out, "\\U{:08x}", u32::from(c))),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// A text in the quotes of Go's package of times, which has its own: all but ASCII is shown byte by byte.
pub(crate) fn time_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &byte in bytes(text).iter() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..0x80 => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols and the space.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Rust knows the same set, but tells of it only for a character that follows another one.
    let mut after_another = [0; 5];
    after_another[0] = b'a';
    let length = 1 + c.encode_utf8(&mut after_another[1..]).len();
    std::str::from_utf8(&after_another[..length]).is_ok_and(|text| text.escape_debug().count() == 2)
}

/// A float as `%v` shows it: an exponent outside of 1e-4..1e21, of at least two digits.
pub(crate) fn go_float(number: f64) -> String {
    let abs = number.abs();
    if abs == 0.0 || (1e-4..1e21).contains(&abs) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for sent in [
            b"plain".as_slice(),
            b"",
            b"\x8a",
            b"a\xe2\x82b\xff",
            b"\xed\xa0\x80",
            "é\u{fffd}\u{10ffff}\u{10ff8a}\u{10fe00}".as_bytes(),
        ] {
            let text = decode(sent.to_vec());
            assert_eq!(&*bytes(&text), sent, "{sent:?}");
            assert_eq!(len(&text), sent.len(), "{sent:?}");
        }
    }

    #[test]
    fn each_bad_byte_is_shown_on_its_own() {
        let text = decode(b"a\xe2\x82b".to_vec());
        assert_eq!(shown(&text), "a\u{fffd}\u{fffd}b");
        assert_eq!(go_quote(&text), r#""a\xe2\x82b""#);
        assert_eq!(shown(&decode(b"b".to_vec())), "b");
    }

    // What `strconv.Quote` makes of each.
    #[test]
    fn go_quotes() {
        for (text, quoted) in [
            ("a b", r#""a b""#),
            ("\"\\\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\"\\\n\r\t\a\b\v\f""#),
            ("\0\u{1f}\u{7f}", r#""\x00\x1f\x7f""#),
            ("é\u{301}€😀\u{fffd}", "\"é\u{301}€😀\u{fffd}\""),
            (
                "\u{80}\u{a0}\u{ad}\u{2028}\u{3000}\u{e000}\u{feff}",
                r#""\u0080\u00a0\u00ad\u2028\u3000\ue000\ufeff""#,
            ),
            ("\u{e0001}\u{10fe00}", r#""\U000e0001\U0010fe00""#),
        ] {
            assert_eq!(go_quote(text), quoted);
        }
    }
}
