//! Formats of texts: which the real server knows, and what fits them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::regexp::compile;

/// Formats that a pattern says all about.
const PATTERNS: [(&str, &str); 11] = [
    ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
    (
        "uuid",
        "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
    ),
    (
        "uuid3",
        "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
    ),
    (
        "uuid4",
        "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
    ),
    (
        "uuid5",
        "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
    ),
    (
        "creditcard",
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
    ),
    ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    (
        "rgbcolor",
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    ),
    (
        "byte",
        "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
    ),
    ("k8sshortname", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
];

/// Formats with rules of their own.
const OTHERS: [&str; 15] = [
    "hostname",
    "uri",
    "email",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "isbn",
    "isbn10",
    "isbn13",
    "password",
    "date",
    "duration",
    "datetime",
    "k8slongname",
];

static READY: LazyLock<HashMap<&str, Regex>> = LazyLock::new(|| {
    let ready = |(name, pattern): &(&'static str, &str)| compile(pattern).ok().map(|regex| (*name, regex));
    PATTERNS.iter().filter_map(ready).collect()
});

/// Dashes in names of formats do not count.
fn normal(format: &str) -> String {
    format.replace('-', "")
}

/// Whether the real server knows a format of texts.
pub(super) fn is_known(format: &str) -> bool {
    let name = normal(format);
    PATTERNS.iter().any(|(known, _)| *known == name) || OTHERS.contains(&name.as_str())
}

/// Whether a text fits a known format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    let name = normal(format);
    let matches = |name: &str, text: &str| READY.get(name).is_some_and(|regex| regex.is_match(text));
    match name.as_str() {
        "creditcard" => {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            matches("creditcard", &digits) && is_luhn(&digits)
        }
        "ssn" => text.len() == 11 && matches("ssn", text),
        "k8sshortname" => text.len() <= 63 && matches("k8sshortname", text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(|label| matches("k8sshortname", label)),
        "hostname" => is_hostname(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "ipv4" => ipv4(text).is_some() || text.contains('.') && ipv6(text).is_some(),
        "ipv6" => ipv6(text).is_some(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "date" => is_date(text),
        "datetime" => is_datetime(text),
        "duration" => is_duration(text),
        "password" => true,
        name => matches(name, text),
    }
}

/// A short name, or labels before a domain of letters; symbols and letters of all scripts are good.
fn is_hostname(text: &str) -> bool {
    static SIGN: LazyLock<Option<Regex>> = LazyLock::new(|| compile(r"^[a-zA-Z0-9\p{S}\p{L}]$").ok());
    let is_sign = |c: char| {
        let matches = |regex: &Regex| regex.is_match(c.encode_utf8(&mut [0; 4]));
        c.is_ascii_alphanumeric() || SIGN.as_ref().is_some_and(matches)
    };
    if text.len() > 255 || text.split('.').any(|part| part.len() > 63) {
        return false;
    }
    let Some((labels, domain)) = text.rsplit_once('.') else {
        let mut rest = text.chars();
        let Some(first) = rest.next() else { return false };
        let rest = rest.as_str();
        return is_sign(first) && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_sign);
    };
    let is_label = |label: &str| {
        label.starts_with(is_sign) && label.ends_with(is_sign) && label.chars().all(|c| c == '-' || is_sign(c))
    };
    let count = domain.chars().count();
    labels.split('.').all(is_label) && (2..=63).contains(&count) && domain.chars().all(char::is_alphabetic)
}

fn is_luhn(digits: &str) -> bool {
    let digit = |(at, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0') * if at % 2 == 1 { 2 } else { 1 };
        if digit >= 10 { digit % 10 + 1 } else { digit }
    };
    digits
        .bytes()
        .rev()
        .enumerate()
        .map(digit)
        .sum::<u32>()
        .is_multiple_of(10)
}

/// Four numbers; zeros before them do not count.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<u8>().ok()).flatten()
    };
    let numbers: Option<Vec<u8>> = text.split('.').map(number).collect();
    <[u8; 4]>::try_from(numbers?).ok().map(Ipv4Addr::from)
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let max = match (ipv4(address), ipv6(address)) {
        (Some(_), _) => 32,
        (None, Some(_)) => 128,
        (None, None) => return false,
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u32>().is_ok_and(|length| length <= max)
}

fn is_mac(text: &str) -> bool {
    let is_hex = |part: &&str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let forms = [(':', 2, [6, 8, 20]), ('-', 2, [6, 8, 20]), ('.', 4, [3, 4, 10])];
    forms.iter().any(|(separator, digits, counts)| {
        let parts: Vec<&str> = text.split(*separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| is_hex(part, *digits))
    })
}

/// The digits of a number of a book.
fn isbn(text: &str) -> Vec<u8> {
    let is_left_out = |c: &char| matches!(c, '-' | '\t' | '\n' | '\u{c}' | '\r' | ' ');
    text.chars()
        .filter(|c| !is_left_out(c))
        .collect::<String>()
        .into_bytes()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn(text);
    let Some((last, first)) = digits.split_last() else {
        return false;
    };
    let good = first.len() == 9 && first.iter().all(u8::is_ascii_digit) && (last.is_ascii_digit() || *last == b'X');
    if !good {
        return false;
    }
    let last = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    let weighted = (1_u32..)
        .zip(first)
        .map(|(weight, digit)| weight * u32::from(digit - b'0'));
    (weighted.sum::<u32>() + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighted = digits[..12].iter().zip([1, 3].into_iter().cycle());
    let sum: u32 = weighted.map(|(digit, weight)| weight * u32::from(digit - b'0')).sum();
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn is_date(text: &str) -> bool {
    let form = text.len() == 10 && text.is_ascii() && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    form && Date::strptime("%Y-%m-%d", text).is_ok()
}

/// A date, `T`, and a time of a zone; what comes after a second `T` does not count.
fn is_datetime(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> =
        LazyLock::new(|| compile("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok());
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(found) = TIME.as_ref().and_then(|regex| regex.captures(time)) else {
        return false;
    };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// As Go reads a duration, or numbers with names of units anywhere in the text.
fn is_duration(text: &str) -> bool {
    static GO: LazyLock<Option<Regex>> =
        LazyLock::new(|| compile(r"^[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$").ok());
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| compile(r"(\d+)\s*([A-Za-zµ]+)").ok());
    const SHORT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if GO.as_ref().is_some_and(|regex| regex.is_match(text)) {
        return true;
    }
    let Some(named) = NAMED.as_ref() else { return false };
    let mut fits = false;
    for found in named.captures_iter(text) {
        if found[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = found[2].to_lowercase();
        fits |= SHORT.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long));
    }
    fits
}

/// An absolute path, or a URL with a scheme.
fn is_request_uri(text: &str) -> bool {
    let control = |c: char| c.is_ascii_control();
    if text.is_empty() || text.contains(control) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        // What has a colon before any slash and is no scheme is nothing.
        Some((before, _)) if !before.contains('/') => return false,
        _ => ("", text),
    };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        // An opaque URL needs a scheme.
        return !scheme.is_empty();
    }
    let after = if scheme.is_empty() {
        None
    } else {
        rest.strip_prefix("//")
    };
    let (authority, path) = match after {
        Some(after) => after.split_at(after.find('/').unwrap_or(after.len())),
        None => ("", rest),
    };
    is_authority(authority) && good_escapes(path)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some(parts) => parts,
            None => return false,
        },
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let good_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    good_port && good_escapes(host) && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
}

fn good_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    (0..bytes.len()).all(|at| bytes[at] != b'%' || is_hex(at + 1) && is_hex(at + 2))
}

/// One address, with or without a name before it.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((name, address)) if !name.contains(['<', '>', '@', ',', ';']) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let is_atom = |atom: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
        !atom.is_empty() && atom.chars().all(good)
    };
    let is_quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || local.split('.').all(is_atom)) && (is_literal || domain.split('.').all(is_atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_fit_as_on_the_real_server() {
        // [F17]
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
            ("date-time", "2026-01-02t03:04:05.123+01:00", "2026-13-02T03:04:05Z"),
            ("date", "2026-02-28", "2026-02-30"),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 moons"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
            ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123"),
            ("email", "a@b.c", "a.b.c"),
            ("uri", "https://a.b/c?d=e", "a b"),
            ("uri", "/path", "path"),
            ("hostname", "a.example.com", "-a"),
            ("hostname", "a-b", "a.b.c1"),
            ("byte", "aGVsbG8=", "a"),
            ("byte", "aGVs", ""),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "123-45-6789", "123"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(1, 2, 3)", "rgb(1, 2, 256)"),
            ("k8s-short-name", "a-b", "A"),
            ("k8s-long-name", "a.b-c", "a..b"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ] {
            assert!(is_known(format), "{format}");
            assert!(fits(format, good), "{format}: {good}");
            assert!(!fits(format, bad), "{format}: {bad}");
        }
        assert!(fits("password", ""));
        assert!(!is_known("color"));
        assert_eq!(READY.len(), PATTERNS.len(), "each pattern is one");
    }
}
