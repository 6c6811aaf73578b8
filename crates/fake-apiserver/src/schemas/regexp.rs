//! Go's regular expressions: those of the `regex` crate are of the same family, but for details of the syntax.

use regex::{Regex, RegexBuilder};

/// Makes a pattern of Go's ready.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translated(pattern))
        .size_limit(1 << 22)
        .build()
        .map_err(|error| match error {
            regex::Error::Syntax(text) => text.lines().last().unwrap_or_default().trim().to_owned(),
            other => other.to_string(),
        })
}

/// The pattern in the syntax of the crate: `\d`, `\s`, `\w` and `\b` are about ASCII, brackets and doubled signs inside of a class
/// are nothing but characters, `\Q` quotes.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('Q') if !in_class => {
                    let quoted: String = rest.by_ref().collect();
                    let (text, after) = quoted.split_once("\\E").unwrap_or((&quoted, ""));
                    out += &regex::escape(text);
                    out += &translated(after);
                    return out;
                }
                Some('d') => out += "[0-9]",
                Some('D') => out += "[^0-9]",
                Some('s') => out += r"[\t\n\f\r ]",
                Some('S') => out += r"[^\t\n\f\r ]",
                Some('w') => out += "[0-9A-Za-z_]",
                Some('W') => out += "[^0-9A-Za-z_]",
                Some('b') if !in_class => out += r"(?-u:\b)",
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if in_class && rest.peek() == Some(&':') => {
                // A named class.
                out.push('[');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' if in_class => out += r"\[",
            '[' => {
                in_class = true;
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if rest.next_if_eq(&']').is_some() {
                    out += r"\]";
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && (rest.peek() == Some(&'-') || opens_class(rest.clone())) => out += r"\-",
            c => out.push(c),
        }
    }
    out
}

/// Whether a class of its own follows, before which a dash is nothing but a dash.
fn opens_class(mut rest: impl Iterator<Item = char>) -> bool {
    rest.next() == Some('\\') && matches!(rest.next(), Some('p' | 'P' | 'd' | 'D' | 's' | 'S' | 'w' | 'W'))
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn patterns_are_those_of_go() {
        // [F17]
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{663}", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[\w.-]+$", "ä", false),
            (r"^[[a]+$", "[a", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "xy", true),
            (r"^[[:alpha:]-]+$", "ab-", true),
            (r"^[a&&b]+$", "&", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\S+$", "a\u{a0}b", true),
            (r"^[a-c-\d]+$", "b-1", true),
            ("^a$", "a\n", false),
            (r"\bword\b", "a word", true),
        ] {
            assert_eq!(
                compile(pattern).unwrap().is_match(text),
                matches,
                "{pattern} on {text:?}"
            );
        }
        assert!(compile("[a").is_err());
        assert!(compile("(?=x)").is_err(), "there is no looking ahead");
    }
}
