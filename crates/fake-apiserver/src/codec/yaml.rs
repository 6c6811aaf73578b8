//! YAML bodies, turned into JSON text.
//!
//! The real server reads YAML with a Go library that takes what others refuse, and the other way round, so that no other parser
//! stands for it. This one goes in its steps: [`reader`] has the characters, [`scanner`] and [`scalars`] make tokens of them and
//! [`parser`] events, [`compose`] makes nodes of these, [`resolve`] says what a plain scalar is (YAML 1.1: `yes` is true, `012`
//! is ten), [`decode`] makes values, with anchors and merges, and [`emit`] writes them as JSON. The first document counts. No
//! step recurses, so that depth costs no stack.

mod compose;
mod decode;
mod emit;
mod parser;
mod reader;
mod resolve;
mod scalars;
mod scanner;
mod token;

/// The JSON text of the first document, its keys in order, and what is wrong with it if duplicate keys are forbidden.
///
/// # Errors
///
/// The real parser's text.
pub(super) fn to_json(body: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    let Some(document) = compose::document(body)? else {
        return Ok((b"null".to_vec(), Vec::new()));
    };
    let values = decode::values(&document)?;
    let json = emit::json(&values)?;
    let findings = if values.duplicates.is_empty() {
        Vec::new()
    } else {
        vec![format!("{DUPLICATES}  {}", values.duplicates.join("\n  "))]
    };
    Ok((json, findings))
}

/// What opens the text about duplicate keys.
const DUPLICATES: &str = "yaml: unmarshal errors:\n";

/// The findings of a text, one by one, as warnings tell them.
pub(super) fn findings(text: &str) -> impl Iterator<Item = &str> {
    let all = text
        .strip_prefix(DUPLICATES)
        .map(|list| list.split('\n').map(str::trim));
    let one = if all.is_none() { Some(text) } else { None };
    all.into_iter().flatten().chain(one)
}

#[cfg(test)]
mod tests;
