//! The parser of JSON, beside another one.

use serde_json::Value as Model;

use super::{JSON_WORDS, Target};
use crate::json::{Kind, Tape, Value, canonical, scan};

/// A text.
pub(super) const TARGET: Target = Target {
    name: "json",
    run,
    seeds: &[
        r#"{"a":[1,-2.5e-3,"x\n\u00e9\ud83d\ude00",true,false,null,{}],"b":{"a":{"a":[]}}}"#,
        r#" [ 0 , -0 , 1E+2 , 9223372036854775808 , "\u2028<&>" ] "#,
        r#"{"a":1,"a":2,"":"\/"}"#,
    ],
    words: JSON_WORDS,
};

fn run(data: &[u8]) {
    let model: Result<Model, _> = serde_json::from_slice(data);
    let tape = match Tape::parse(data) {
        Ok(tape) => tape,
        Err(error) => {
            assert!(model.is_err(), "refused: {error}");
            return;
        }
    };
    if let Ok(model) = &model {
        assert!(is_same(tape.root(), model), "{model}");
    }
    let mut text = Vec::new();
    if canonical::write(&mut text, tape.root()).is_err() {
        // The model has no numbers beyond a float either.
        assert!(model.is_err());
        return;
    }
    assert_eq!(scan::value_end(&text, 0), text.len());
    let again = Tape::parse(&text).expect("what was written is JSON");
    let mut twice = Vec::new();
    canonical::write(&mut twice, again.root()).expect("what was written has no numbers out of range");
    assert_eq!(
        String::from_utf8(twice),
        String::from_utf8(text),
        "the canonical form is one"
    );
}

/// Whether a value is that of a model; depth is limited by the model's parser.
pub(super) fn is_same(value: Value<'_>, model: &Model) -> bool {
    match (value.kind(), model) {
        (Kind::Null, Model::Null) | (Kind::True, Model::Bool(true)) | (Kind::False, Model::Bool(false)) => true,
        (Kind::Number, Model::Number(number)) => {
            let found: f64 = value
                .as_number()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(f64::NAN);
            // The model rounds the last digit as it likes.
            let model = number.as_f64().unwrap_or(f64::NAN);
            (found - model).abs() <= model.abs() * 1e-14
        }
        (Kind::String, Model::String(text)) => value.as_str().as_deref() == Some(text),
        (Kind::Array, Model::Array(items)) => {
            value.items().count() == items.len() && value.items().zip(items).all(|(value, model)| is_same(value, model))
        }
        (Kind::Object, Model::Object(entries)) => {
            let found = canonical::sorted_entries(value);
            let all = found.len() == entries.len();
            all && found.iter().all(|(key, value)| {
                let key = key.as_str().unwrap_or_default();
                entries.get(&*key).is_some_and(|model| is_same(*value, model))
            })
        }
        _ => false,
    }
}
