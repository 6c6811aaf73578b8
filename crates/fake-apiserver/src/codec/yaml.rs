//! YAML bodies, turned into JSON text.
//!
//! The real server reads YAML with a Go library that takes what others refuse, and the other way round, so that no other parser
//! stands for it; `libyaml-safer`, of the same descent, also panics, as on a block scalar whose last line has no end. This one
//! goes in the steps of the Go library: [`reader`] has the characters, [`scanner`] and [`scalars`] make tokens of them and
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

/// The JSON text of the first document, its keys in order, and what is wrong with it if duplicate keys are forbidden: all of
/// them in one text.
///
/// # Errors
///
/// The real parser's text.
pub(crate) fn to_json(body: &[u8]) -> Result<(Vec<u8>, Option<String>), String> {
    let Some(document) = compose::document(body)? else {
        return Ok((b"null".to_vec(), None));
    };
    let values = decode::values(&document)?;
    let json = emit::json(&values)?;
    let duplicates = &values.duplicates;
    let text = (!duplicates.is_empty()).then(|| format!("{DUPLICATES}  {}", duplicates.join("\n  ")));
    Ok((json, text))
}

/// What opens the text about duplicate keys.
const DUPLICATES: &str = "yaml: unmarshal errors:\n";

/// The findings of a text, one by one, as warnings tell them.
pub(crate) fn findings(text: &str) -> Vec<String> {
    match text.strip_prefix(DUPLICATES) {
        Some(list) => list.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests;
