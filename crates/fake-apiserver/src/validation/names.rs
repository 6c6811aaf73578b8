//! The texts about names, label keys and label values. An empty list means valid.

use crate::gotext;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_TEXT: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn regex_text(text: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{text} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

fn is_label(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// What is wrong with an RFC 1123 subdomain, as the names of groups and of most objects are.
pub(crate) fn subdomain_errors(text: &str) -> Vec<String> {
    subdomain_errors_in(text, "characters")
}

/// What is wrong with an RFC 1035 label, which begins with a letter.
pub(crate) fn label_1035_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if gotext::len(text) > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                     character, and end with an alphanumeric character";
        errors.push(regex_text(words, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

/// Newer validation of the server counts in bytes, and says so.
fn subdomain_errors_in(text: &str, unit: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if gotext::len(text) > 253 {
        errors.push(format!("must be no more than 253 {unit}"));
    }
    if !is_subdomain(text) {
        let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                     start and end with an alphanumeric character";
        errors.push(regex_text(words, &format!(r"{LABEL}(\.{LABEL})*"), &["example.com"]));
    }
    errors
}

/// What is wrong with an RFC 1123 label.
pub(crate) fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if gotext::len(text) > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) {
        if is_subdomain(text) {
            errors.push("must not contain dots".to_owned());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                         and end with an alphanumeric character";
            errors.push(regex_text(words, LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// What is wrong with one segment of a path; a prefix may be `.` or `..`.
pub(super) fn path_segment_errors(text: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// What is wrong with a label key (and with the keys of annotations, in lower case, and finalizers).
pub(crate) fn label_key_errors(key: &str) -> Vec<String> {
    let key_text = || regex_text(KEY_TEXT, KEY, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let texts = subdomain_errors_in(prefix, "bytes");
                errors.extend(texts.iter().map(|text| format!("prefix part {text}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key_text()
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if gotext::len(name) > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if name.is_empty() || !is_label_value(name) {
        errors.push(format!("name part {}", key_text()));
    }
    errors
}

fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.is_empty()
        || bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(inner)
}

/// What is wrong with a label value.
pub(crate) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if gotext::len(value) > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !is_label_value(value) {
        let words = format!(
            "a valid label must be an empty string or consist of {}",
            &KEY_TEXT["must consist of ".len()..]
        );
        errors.push(regex_text(
            &words,
            &format!("({KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}
