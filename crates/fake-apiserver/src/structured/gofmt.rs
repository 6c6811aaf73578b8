//! Values as Go's `fmt` shows them in error texts.

use std::fmt::Write as _;

use crate::gotext::{go_float, go_quote};
use crate::json::{Kind, Value, canonical};

/// Containers nested deeper than this are cut short.
const MAX_DEPTH: usize = 64;

/// As `%v` shows a value.
pub(crate) fn plain(value: Value<'_>) -> String {
    let mut out = String::new();
    show(value, false, 0, &mut out);
    out
}

/// As `%#v` shows a value.
pub(super) fn syntax(value: Value<'_>) -> String {
    let mut out = String::new();
    show(value, true, 0, &mut out);
    out
}

/// As `%T` shows the type of a value.
pub(crate) fn type_of(value: Value<'_>) -> &'static str {
    match value.kind() {
        Kind::Null => "<nil>",
        Kind::False | Kind::True => "bool",
        Kind::Number => "float64",
        Kind::String => "string",
        Kind::Array => "[]interface {}",
        Kind::Object => "map[string]interface {}",
    }
}

fn show(value: Value<'_>, syntax: bool, depth: usize, out: &mut String) {
    if depth > MAX_DEPTH {
        out.push('…');
        return;
    }
    match value.kind() {
        Kind::Null => out.push_str(if syntax { "interface {}(nil)" } else { "<nil>" }),
        Kind::False => out.push_str("false"),
        Kind::True => out.push_str("true"),
        Kind::Number => {
            let number: f64 = value
                .as_number()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or_default();
            out.push_str(&go_float(number));
        }
        Kind::String => {
            let text = value.as_str().unwrap_or_default();
            if syntax {
                out.push_str(&go_quote(&text));
            } else {
                out.push_str(&text);
            }
        }
        Kind::Array => {
            out.push_str(if syntax { "[]interface {}{" } else { "[" });
            for (at, item) in value.items().enumerate() {
                if at > 0 {
                    out.push_str(if syntax { ", " } else { " " });
                }
                show(item, syntax, depth + 1, out);
            }
            out.push(if syntax { '}' } else { ']' });
        }
        Kind::Object => {
            out.push_str(if syntax { "map[string]interface {}{" } else { "map[" });
            for (at, (key, value)) in canonical::sorted_entries(value).into_iter().enumerate() {
                if at > 0 {
                    out.push_str(if syntax { ", " } else { " " });
                }
                let key = key.as_str().unwrap_or_default();
                // Writing to a string cannot fail.
                let _ = if syntax {
                    write!(out, "{}:", go_quote(&key))
                } else {
                    write!(out, "{key}:")
                };
                show(value, syntax, depth + 1, out);
            }
            out.push(if syntax { '}' } else { ']' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    #[test]
    fn values_show_as_in_go() {
        // [F11]
        let text = br#"{"b":[1,"x",null],"a":{"c":true,"d":1e+25}}"#;
        let tape = Tape::parse(text).unwrap();
        assert_eq!(plain(tape.root()), "map[a:map[c:true d:1e+25] b:[1 x <nil>]]");
        assert_eq!(
            syntax(tape.root()),
            r#"map[string]interface {}{"a":map[string]interface {}{"c":true, "d":1e+25}, "b":[]interface {}{1, "x", interface {}(nil)}}"#
        );
    }
}
