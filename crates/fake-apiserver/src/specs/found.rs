//! What is found, in the words of the server.

use serde_json::Value;

use super::At;
use crate::gotext::go_quote;
use crate::told::Told;
use crate::validation::{ErrorKind, FieldError};

/// Findings in the order in which they are told.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<FieldError>,
    /// What the server finds with its newer rules, which it asks after the others.
    late: Vec<FieldError>,
    told: Told,
}

impl Findings {
    pub(crate) fn into_errors(mut self) -> Vec<FieldError> {
        self.errors.append(&mut self.late);
        self.errors.extend(FieldError::rest(&self.told));
        self.errors
    }

    /// Finds, after all else, a value that is not there.
    pub(crate) fn required_late(&mut self, at: &At<'_>) {
        let word = || FieldError::new(ErrorKind::Required, at.path.clone(), "");
        self.late.extend(self.told.word(word));
    }

    /// Finds, after all else, a number that is too small.
    pub(crate) fn below_late(&mut self, at: &At<'_>, least: i64) {
        let word = || {
            let detail = format!("must be greater than or equal to {least}");
            FieldError::invalid_raw(at.path.clone(), &at.int().to_string(), &detail)
        };
        self.late.extend(self.told.word(word));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.errors.len() + self.told.left_out()
    }

    pub(crate) fn add(&mut self, kind: ErrorKind, at: &At<'_>, detail: &str) {
        let word = || FieldError::new(kind, at.path.clone(), detail);
        self.errors.extend(self.told.word(word));
    }

    fn add_shown(&mut self, kind: ErrorKind, at: &At<'_>, shown: &str, detail: &str) {
        let text = if detail.is_empty() {
            shown.to_owned()
        } else {
            format!("{shown}: {detail}")
        };
        self.add(kind, at, &text);
    }

    pub(crate) fn required(&mut self, at: &At<'_>, detail: &str) {
        self.add(ErrorKind::Required, at, detail);
    }

    pub(crate) fn forbidden(&mut self, at: &At<'_>, detail: &str) {
        self.add(ErrorKind::Forbidden, at, detail);
    }

    /// `Invalid value: …`, with the value that stands there.
    pub(crate) fn invalid(&mut self, at: &At<'_>, detail: &str) {
        self.add_shown(ErrorKind::Invalid, at, &shown(at.value), detail);
    }

    /// The same with a value that is shown in other words.
    pub(crate) fn invalid_as(&mut self, at: &At<'_>, shown: &str, detail: &str) {
        self.add_shown(ErrorKind::Invalid, at, shown, detail);
    }

    /// The same of a text, which is empty where it is absent.
    pub(crate) fn invalid_text(&mut self, at: &At<'_>, detail: &str) {
        self.invalid_as(at, &go_quote(at.text()), detail);
    }

    /// The same of a number, which is zero where it is absent.
    pub(crate) fn invalid_int(&mut self, at: &At<'_>, detail: &str) {
        self.invalid_as(at, &at.int().to_string(), detail);
    }

    /// What a function finds wrong with a text.
    pub(crate) fn text_errors(&mut self, at: &At<'_>, errors: impl IntoIterator<Item = String>) {
        for error in errors {
            self.invalid_text(at, &error);
        }
    }

    pub(crate) fn duplicate(&mut self, at: &At<'_>) {
        self.add(ErrorKind::Duplicate, at, &shown(at.value));
    }

    pub(crate) fn duplicate_as(&mut self, at: &At<'_>, shown: &str) {
        self.add(ErrorKind::Duplicate, at, shown);
    }

    /// A text that is none of those that there are.
    pub(crate) fn not_supported(&mut self, at: &At<'_>, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|text| go_quote(text)).collect();
        let detail = format!("{}: supported values: {}", go_quote(at.text()), supported.join(", "));
        self.add(ErrorKind::NotSupported, at, &detail);
    }

    /// Finds a text that is not there, or is none of those that there are.
    pub(crate) fn one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if at.text().is_empty() {
            self.required(at, "");
        } else if !supported.contains(&at.text()) {
            self.not_supported(at, supported);
        }
    }

    /// Finds a number below zero.
    pub(crate) fn not_negative(&mut self, at: &At<'_>) {
        if at.int() < 0 {
            self.invalid_int(at, "must be greater than or equal to 0");
        }
    }

    /// Finds a value that has changed.
    pub(crate) fn immutable(&mut self, new: &At<'_>, old: &At<'_>) {
        if new.value != old.value {
            self.invalid(new, "field is immutable");
        }
    }
}

/// A value as texts show it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        other => other.to_string(),
    }
}
