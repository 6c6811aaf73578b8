//! What is wrong with YAML, in the words of the real server's parser: those that people see when they have made the usual
//! mistakes. Other texts stay those of the parser here.

/// A body as text.
///
/// # Errors
/// What the real reader, which comes before the parser, says of bytes that are no text.
pub(super) fn readable(body: &[u8]) -> Result<&str, String> {
    let wrong = |what: &str| Err(format!("yaml: {what}"));
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => return wrong(unreadable(&body[error.valid_up_to()..])),
    };
    let is_allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
            && c != '\u{feff}'
    };
    // The mark of the order of bytes may open a text.
    if text.strip_prefix('\u{feff}').unwrap_or(text).chars().all(is_allowed) {
        return Ok(text);
    }
    wrong("control characters are not allowed")
}

/// Why bytes begin with no character.
fn unreadable(bytes: &[u8]) -> &'static str {
    let first = bytes.first().copied().unwrap_or_default();
    let width = match first {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    if bytes.len() < width {
        return "incomplete UTF-8 octet sequence";
    }
    if bytes[1..width].iter().any(|byte| byte & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let value = bytes[1..width]
        .iter()
        .fold(u32::from(first) & (0x7f >> width), |value, byte| {
            value << 6 | u32::from(byte & 0x3f)
        });
    let least = [0x80, 0x800, 0x1_0000][width - 2];
    if value < least {
        return "invalid length of a UTF-8 sequence";
    }
    "invalid Unicode character"
}

/// Refuses directives that there are not, before the document.
///
/// # Errors
/// The real parser's text.
pub(super) fn check_directives(text: &str) -> Result<(), String> {
    let lines = text.lines().enumerate();
    let head = lines.take_while(|(_, line)| line.is_empty() || line.starts_with(['%', '#']));
    for (at, line) in head.filter(|(_, line)| line.starts_with('%')) {
        let name = line[1..].split([' ', '\t']).next().unwrap_or_default();
        if !matches!(name, "YAML" | "TAG") {
            return Err(format!("yaml: {}found unknown directive name", of_scanner(at)));
        }
    }
    Ok(())
}

/// The place that a text names which is about a line, counted from 0: none in the first line, in which the real parser
/// takes a place for no place.
fn of_parser(line: usize) -> String {
    if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    }
}

/// The same where the scanner has found it, which counts from 1.
fn of_scanner(line: usize) -> String {
    if line == 0 {
        String::new()
    } else {
        format!("line {}: ", line + 1)
    }
}

/// The real parser's text about the mistake that this one has found.
pub(super) fn translate(body: &[u8], error: &str) -> String {
    let text = String::from_utf8_lossy(body);
    let Some((what, line, column)) = located(error) else {
        return error.to_owned();
    };
    let line = line.saturating_sub(1);
    let last = text.matches('\n').count();
    // The end of a text is a line of its own.
    let end = if text.ends_with('\n') { last } else { last + 1 };
    let has = |part: &str| what.contains(part);
    if has("unknown anchor") {
        let from = text
            .lines()
            .nth(line)
            .map(|line| line.chars().skip(column.saturating_sub(1)));
        let name: String = from
            .into_iter()
            .flatten()
            .skip_while(|c| *c == '*')
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            .collect();
        return format!("unknown anchor '{name}' referenced");
    }
    let (place, problem) = if has("unclosed quote") {
        (of_scanner(last), "found unexpected end of stream")
    } else if has("unclosed bracket") {
        let problem = match (text.trim_end().chars().next_back(), innermost(&text)) {
            (Some('[' | '{' | ',' | ':'), _) => "did not find expected node content",
            (_, '[') => "did not find expected ',' or ']'",
            _ => "did not find expected ',' or '}'",
        };
        (of_parser(end), problem)
    } else if has("flow mapping") {
        (of_parser(line), "did not find expected ',' or '}'")
    } else if has("flow sequence") {
        (of_parser(line), "did not find expected ',' or ']'")
    } else if has("block mapping, did not find expected key") {
        (of_parser(line), "did not find expected key")
    } else if has("expected '-' indicator") {
        (of_parser(line), "did not find expected '-' indicator")
    } else if has("expected node content") || has("misplaced bracket") {
        (of_parser(line), "did not find expected node content")
    } else if has("expected <document start>") {
        (of_parser(line), "did not find expected <document start>")
    } else if has("simple key expected ':'") {
        (of_scanner(line), "could not find expected ':'")
    } else if has("mapping values are not allowed") {
        (of_scanner(line), "mapping values are not allowed in this context")
    } else if has("mapping keys are not allowed") {
        (of_scanner(line), "mapping keys are not allowed in this context")
    } else if has("block sequence entries are not allowed") {
        (
            of_scanner(line),
            "block sequence entries are not allowed in this context",
        )
    } else if has("unknown escape") {
        (of_scanner(line), "found unknown escape character")
    } else if has("tabs disallowed") || has("unexpected character") || has("tab cannot be used") {
        (of_scanner(line), "found character that cannot start any token")
    } else {
        return error.to_owned();
    };
    format!("{place}{problem}")
}

/// The bracket that is open at the end of a text.
fn innermost(text: &str) -> char {
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for c in text.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(mark), c) if mark == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => open.push(c),
            (None, '}' | ']') => drop(open.pop()),
            (Some(_) | None, _) => {}
        }
    }
    open.pop().unwrap_or('{')
}

/// Splits the place off a text of this parser.
fn located(error: &str) -> Option<(&str, usize, usize)> {
    let (what, place) = error.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(", column ")?;
    Some((what, line.parse().ok()?, column.parse().ok()?))
}
