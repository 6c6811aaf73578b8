//! Rules for values that many kinds have: labels, selectors, quantities, counts, references.

use serde_json::Value;

use super::{At, Findings};
use crate::gotext::go_quote;
use crate::validation::{ErrorKind, label_key_errors, label_value_errors};

/// Finds wrong labels; all are told at the place of the map.
pub(super) fn labels(found: &mut Findings, labels: &At<'_>) {
    for (key, value) in labels.entries() {
        for error in label_key_errors(key) {
            found.invalid_as(labels, &go_quote(key), &error);
        }
        for error in label_value_errors(value.text()) {
            found.invalid_as(labels, &go_quote(value.text()), &error);
        }
    }
}

/// Finds what is wrong with a label selector.
pub(super) fn selector(found: &mut Findings, selector: &At<'_>) {
    labels(found, &selector.field("matchLabels"));
    for part in selector.field("matchExpressions").items() {
        let (key, operator, values) = (part.field("key"), part.field("operator"), part.field("values"));
        match operator.text() {
            "In" | "NotIn" => {
                if values.is_empty() {
                    found.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    found.forbidden(
                        &values,
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    );
                }
            }
            _ => found.invalid_text(&operator, "not a valid selector operator"),
        }
        found.text_errors(&key, label_key_errors(key.text()));
        for value in values.items() {
            found.text_errors(&value, label_value_errors(value.text()));
        }
    }
}

/// A selector as texts show it, in the order of its fields.
pub(super) fn selector_shown(selector: &At<'_>) -> String {
    let mut parts = Vec::new();
    for name in ["matchLabels", "matchExpressions"] {
        let at = selector.field(name);
        if at.is_empty() {
            continue;
        }
        let shown = if name == "matchLabels" {
            at.value.to_string()
        } else {
            let items: Vec<String> = at
                .items()
                .map(|part| ordered(part.value, &["key", "operator", "values"]))
                .collect();
            format!("[{}]", items.join(","))
        };
        parts.push(format!("\"{name}\":{shown}"));
    }
    if selector.is_set() {
        format!("{{{}}}", parts.join(","))
    } else {
        "null".to_owned()
    }
}

/// An object as JSON with these fields, in this order.
pub(super) fn ordered(value: &Value, names: &[&str]) -> String {
    let fields: Vec<String> = names
        .iter()
        .filter(|name| !value[**name].is_null())
        .map(|name| format!("\"{name}\":{}", value[*name]))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Whether a label selector selects these labels; none if it is no selector.
pub(super) fn selects(select: &At<'_>, labels: &At<'_>) -> Option<bool> {
    let mut wrong = Findings::default();
    selector(&mut wrong, select);
    wrong
        .is_empty()
        .then(|| crate::selector::selects(select.value, |key| labels.value[key].as_str()))
}

/// A canonical quantity as a number of thousandths; none of one that is too large for it.
pub(super) fn milli(quantity: &str) -> Option<i128> {
    let end = quantity
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '+' | '.')))
        .unwrap_or(quantity.len());
    let (digits, suffix) = quantity.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let power = |power: u32| 10_i128.checked_pow(power);
    let (times, by): (i128, i128) = match suffix {
        "" => (1000, 1),
        "n" => (1, 1_000_000),
        "u" => (1, 1000),
        "m" => (1, 1),
        "k" => (power(6)?, 1),
        "M" => (power(9)?, 1),
        "G" => (power(12)?, 1),
        "T" => (power(15)?, 1),
        "P" => (power(18)?, 1),
        "E" => (power(21)?, 1),
        "Ki" => (1000 << 10, 1),
        "Mi" => (1000 << 20, 1),
        "Gi" => (1000 << 30, 1),
        "Ti" => (1000 << 40, 1),
        "Pi" => (1000 << 50, 1),
        "Ei" => (1000 << 60, 1),
        exponent => {
            let exponent: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            (power(exponent.checked_add(3)?)?, 1)
        }
    };
    Some(scaled.checked_mul(times)? / by / power(places)?)
}

/// Finds a quantity below zero.
pub(super) fn quantity_not_negative(found: &mut Findings, at: &At<'_>) {
    if milli(at.text()).is_some_and(|milli| milli < 0) {
        found.invalid_text(at, "must be greater than or equal to 0");
    }
}

pub(super) fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|digits| digits.parse().unwrap_or(i64::MAX))
}

/// Finds what is neither a count nor a share.
pub(super) fn count_or_percent(found: &mut Findings, at: &At<'_>) {
    if at.value.is_string() {
        if percent(at.text()).is_none() {
            let text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
                        used for validation is '[0-9]+%')";
            found.invalid_text(at, text);
        }
    } else {
        found.not_negative(at);
    }
}

/// The number of a count or a share.
pub(super) fn count_of(at: &At<'_>) -> i64 {
    percent(at.text()).unwrap_or_else(|| at.text().parse().unwrap_or_else(|_| at.int()))
}

pub(super) fn at_most_all(found: &mut Findings, at: &At<'_>) {
    if percent(at.text()).is_some_and(|percent| percent > 100) {
        found.invalid_text(at, "must not be greater than 100%");
    }
}

/// Finds a value that does not exist elsewhere.
pub(super) fn not_found(found: &mut Findings, at: &At<'_>) {
    found.add(ErrorKind::NotFound, at, &go_quote(at.text()));
}
