//! Media types in `Content-Type`, with Go's rules on what is well-formed.

/// The media type of a header in lower case, without its parameters; none if the header is malformed.
pub(super) fn parse(header: &str) -> Option<String> {
    let (media_type, parameters) = match header.find(';') {
        Some(at) => header.split_at(at),
        None => (header, ""),
    };
    let media_type = media_type.trim().to_ascii_lowercase();
    let (kind, subtype) = media_type.split_once('/')?;
    let good = !kind.is_empty() && !subtype.is_empty() && kind.bytes().chain(subtype.bytes()).all(is_token);
    (good && parameters_are_good(parameters)).then_some(media_type)
}

/// Whether a text is a list of `; key=value`. A semicolon at the end is let pass, a key with two values is not.
fn parameters_are_good(mut rest: &str) -> bool {
    let mut seen: Vec<(String, &str)> = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return true;
        }
        let Some(parameter) = rest.strip_prefix(';') else {
            return false;
        };
        if parameter.trim().is_empty() {
            return true;
        }
        let Some((key, value, after)) = parameter_of(parameter.trim_start()) else {
            return false;
        };
        let key = key.to_ascii_lowercase();
        if seen
            .iter()
            .any(|(other, other_value)| *other == key && *other_value != value)
        {
            return false;
        }
        seen.push((key, value));
        rest = after;
    }
}

/// Splits `key=value` off; the value is a token or a quoted text.
fn parameter_of(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = token(text)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted_text(quoted)?,
        None => token(rest)?,
    };
    Some((key, value, rest))
}

fn token(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !is_token(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The text up to the closing quote, and what follows that.
fn quoted_text(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn malformed_headers_name_no_type() {
        // [F18] as a real server reads them
        for good in [
            "application/json",
            "APPLICATION/JSON",
            " application/json ; charset=utf-8",
            "application/json;",
            "application/json; x=\"a;b\"; y=z",
            "application/json; x=y; X=y",
        ] {
            assert_eq!(parse(good).as_deref(), Some("application/json"), "{good}");
        }
        for bad in [
            "",
            ";",
            "application",
            "/",
            "application/json x",
            "application/json;x",
            "application/json;x=",
            "application/json;=y",
            "application/json; x=y; x=z",
            "application/json,",
            "application/json;x=\"y",
            "application/json/x",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
