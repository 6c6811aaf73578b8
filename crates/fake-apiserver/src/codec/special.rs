//! Small rules of single shapes: compact raw JSON, and where Go sees a base64 error.

use base64::DecodeError;

use crate::json::Value;

/// Appends a value as it is in the text, without white space between tokens and with Go's HTML escapes.
pub(super) fn compact(out: &mut Vec<u8>, value: Value<'_>) {
    let raw = value.raw_quoted();
    let mut in_string = false;
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        match byte {
            b'"' => {
                in_string = !in_string;
                out.push(byte);
            }
            b'\\' if in_string => {
                out.push(byte);
                out.extend(raw.get(at));
                at += 1;
            }
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => {}
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            0x80.. => {
                // A run of other bytes is copied at once, each invalid one as U+FFFD.
                let end = raw[at..]
                    .iter()
                    .position(u8::is_ascii)
                    .map_or(raw.len(), |length| at + length);
                out.extend_from_slice(String::from_utf8_lossy(&raw[at - 1..end]).as_bytes());
                at = end;
            }
            _ => out.push(byte),
        }
    }
}

/// The input byte that Go's decoder names.
pub(super) fn base64_error_at(text: &str, error: &DecodeError) -> usize {
    match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => *at,
        // Go finds the end of an incomplete group at the end of the text.
        _ => text.len() / 4 * 4,
    }
}
