//! Paths to fields, as definitions write them: `.spec.replicas`, `.spec['a.b']`.

use super::value_schema::ValueSchema;

/// The schema of the field that a path leads to, and the path as findings name the field.
///
/// # Errors
/// Why there is no such field.
pub(crate) fn path_in<'s>(
    schema: &'s ValueSchema,
    path: &str,
    allows_brackets: bool,
) -> Result<(String, &'s ValueSchema), String> {
    let tokens = tokens(path);
    let mut tokens = tokens.iter().map(String::as_str);
    let (mut found, mut schema) = (String::new(), schema);
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescaped(inner)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let nowhere = || "does not refer to a valid field".to_owned();
        if schema.properties.is_empty() {
            schema = schema.value().ok_or_else(nowhere)?;
            found = format!("{found}[{name}]");
        } else {
            schema = schema.properties.get(&name).ok_or_else(nowhere)?;
            found = super::child(&found, &name);
        }
    }
    Ok((found, schema))
}

/// Dots, brackets, texts in quotes, and what is between them.
fn tokens(path: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut current = String::new();
    let mut is_quoted = false;
    let mut last = ' ';
    for c in path.chars() {
        if is_quoted {
            current.push(c);
            if c == '\'' && last != '\\' {
                tokens.push(std::mem::take(&mut current));
                is_quoted = false;
            }
        } else if matches!(c, '.' | '[' | ']') {
            if !current.is_empty() {
                tokens.push(std::mem::take(&mut current));
            }
            tokens.push(c.to_string());
        } else {
            is_quoted = c == '\'' && current.is_empty();
            current.push(c);
        }
        last = c;
    }
    if !current.is_empty() {
        tokens.push(current);
    }
    tokens
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(format!("invalid string literal: invalid escape char \\{shown}"));
            }
        });
    }
    Ok(out)
}
