//! Random choices and damage, for the tests that send random requests.

use fastrand::Rng;

/// One of the choices.
pub(super) fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(..choices.len())]
}

/// Changes, drops or inserts a few bytes.
pub(super) fn damage(rng: &mut Rng, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..4) {
            0 if at < bytes.len() => bytes[at] = rng.u8(..),
            1 if at < bytes.len() => drop(bytes.drain(at..)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.insert(at, rng.u8(..)),
        }
    }
    bytes
}

/// All but unreserved characters as `%XX`.
pub(super) fn escape(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes everything");
        }
    }
    text
}
