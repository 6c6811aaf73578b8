//! What is wrong with a value by the OpenAPI part of its schema, in the words of the real server.
//!
//! # Design
//!
//! The real server runs a chain of validators over each value and counts how many were content: where a value must be of one of
//! several schemas and is of none, it tells the findings of the one with the highest count. So the counts are kept here
//! too ([`Outcome`]). An update does not tell what was wrong before and has not changed since: a [`Correlation`] is a value
//! with the one that it replaces, wherever the two can be said to be one; lists are compared item by item by their keys only.

use super::formats;
use super::value_schema::{Additional, Json, ValueSchema};
use super::{NOWHERE, shown};
use crate::gotext::{go_float, go_quote};
use crate::json::{Kind, Value, canonical};
use crate::structured::equal;
use crate::validation::{ErrorKind, FieldError};

/// A value and the one that it replaces.
#[derive(Clone, Copy)]
pub(crate) struct Correlation<'t> {
    pub(crate) new: Value<'t>,
    pub(crate) old: Value<'t>,
    /// What tells which parts of them belong together.
    pub(crate) schema: &'t ValueSchema,
}

impl<'t> Correlation<'t> {
    /// Whether the two are equal.
    pub(crate) fn unchanged(&self) -> bool {
        equal(self.new, self.old)
    }

    /// The two values of a field.
    pub(crate) fn field(&self, name: &str) -> Option<Correlation<'t>> {
        Some(Correlation {
            new: self.new.get(name)?,
            old: self.old.get(name)?,
            schema: self.schema.property(name)?,
        })
    }

    /// The two items of a list that is told apart by keys.
    pub(crate) fn item(&self, item: Value<'t>) -> Option<Correlation<'t>> {
        let schema = self.schema.item()?;
        let old = correlated(self.schema, self.old, item)?;
        Some(Correlation { new: item, old, schema })
    }
}

/// The item of an old list that has the same keys.
pub(crate) fn correlated<'t>(list: &ValueSchema, old: Value<'t>, item: Value<'_>) -> Option<Value<'t>> {
    if list.list_type.as_deref() != Some("map") || item.kind() != Kind::Object {
        return None;
    }
    old.items().find(|old| {
        old.kind() == Kind::Object
            && list.list_keys.iter().all(|key| match (old.get(key), item.get(key)) {
                (Some(old), Some(new)) => equal(old, new),
                (None, None) => true,
                _ => false,
            })
    })
}

/// What is wrong with a value at a path, whose findings are told below `base`.
pub(crate) fn check(
    schema: &ValueSchema,
    value: Value<'_>,
    base: &str,
    correlation: Option<Correlation<'_>>,
) -> Vec<FieldError> {
    let checker = Checker { base };
    let outcome = checker.node(schema, value, "", correlation);
    outcome.findings.into_iter().map(|finding| finding.error).collect()
}

/// One finding: what clients read, and the text that tells it from others.
struct Finding {
    text: String,
    error: FieldError,
}

/// What a validator has found, and how many were content.
#[derive(Default)]
struct Outcome {
    findings: Vec<Finding>,
    content: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, finding: Finding) {
        if !self.findings.iter().any(|known| known.text == finding.text) {
            self.findings.push(finding);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.content += other.content;
        for finding in other.findings {
            self.add(finding);
        }
    }
}

impl From<Finding> for Outcome {
    fn from(finding: Finding) -> Self {
        Self {
            findings: vec![finding],
            content: 0,
        }
    }
}

/// A number as Go has it.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn of(value: Value<'_>) -> Option<Self> {
        let digits = value.as_number()?;
        match digits.parse() {
            Ok(int) => Some(Self::Int(int)),
            Err(_) => digits.parse().ok().map(Self::Float),
        }
    }

    fn as_float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as Go does it")]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// Whether a float counts as an integer.
fn is_integer(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > MAX {
        return false;
    }
    let rounded = float.round();
    let off = (float - rounded).abs();
    off == 0.0 || rounded != 0.0 && off < 1e-9 * rounded.abs()
}

/// The type of a value and, of a number, its format.
fn type_of(value: Value<'_>) -> (&'static str, &'static str) {
    match value.kind() {
        Kind::Null => ("null", ""),
        Kind::True | Kind::False => ("boolean", ""),
        Kind::String => ("string", ""),
        Kind::Array => ("array", ""),
        Kind::Object => ("object", ""),
        Kind::Number => match Number::of(value) {
            Some(Number::Int(_)) => ("integer", "int64"),
            _ => ("number", "float64"),
        },
    }
}

struct Checker<'a> {
    base: &'a str,
}

impl Checker<'_> {
    /// The field that a finding about a path names.
    fn field(&self, path: &str) -> String {
        let path = path.strip_prefix('.').unwrap_or(path);
        match (self.base, path) {
            ("", "") => NOWHERE.to_owned(),
            (base, "") => base.to_owned(),
            (base, path) => super::child(base, path),
        }
    }

    fn finding(&self, kind: ErrorKind, path: &str, detail: &str, text: String) -> Finding {
        Finding {
            error: FieldError::new(kind, self.field(path), detail),
            text,
        }
    }

    /// A finding whose text follows the value.
    fn invalid(&self, path: &str, value: &str, text: String) -> Finding {
        let detail = format!("{value}: {text}");
        self.finding(ErrorKind::Invalid, path, &detail, text)
    }

    /// A finding about no field.
    fn general(&self, text: String) -> Finding {
        self.invalid("", "\"\"", text)
    }

    fn wrong_type(&self, path: &str, wanted: &str, found: &str) -> Finding {
        let text = format!("{path} in body must be of type {wanted}: {}", go_quote(found));
        let detail = format!("{}: {text}", go_quote(found));
        self.finding(ErrorKind::TypeInvalid, path, &detail, text)
    }

    /// Checks a value; what was wrong before and has not changed is not told.
    fn node(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &str,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = self.value(schema, value, path, correlation);
        if !outcome.is_valid() && correlation.is_some_and(|both| both.unchanged()) {
            outcome.findings.clear();
        }
        outcome
    }

    fn value(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &str,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            outcome.merge(self.of_type(schema, value, path));
            outcome.merge(self.listed(schema, value, path));
            return outcome;
        }
        let mut ran = |found: Outcome| {
            outcome.merge(found);
            outcome.content += 1;
        };
        if !types(schema).is_empty() || !format(schema).is_empty() {
            ran(self.of_type(schema, value, path));
        }
        ran(self.combined(schema, value, path, correlation));
        match value.kind() {
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                ran(self.text(schema, &text, path));
                let format = format(schema);
                if formats::is_known(format) {
                    ran(self.formatted(format, &text, path));
                }
            }
            Kind::Number => {
                if let Some(number) = Number::of(value) {
                    ran(self.number(schema, number, value, path));
                }
            }
            Kind::Array => ran(self.list(schema, value, path, correlation)),
            _ => {}
        }
        ran(self.listed(schema, value, path));
        if value.kind() == Kind::Object {
            ran(self.object(schema, value, path, correlation));
        }
        outcome.content += 1;
        outcome
    }

    fn of_type(&self, schema: &ValueSchema, value: Value<'_>, path: &str) -> Outcome {
        let content = Outcome {
            content: 1,
            ..Outcome::default()
        };
        let types = types(schema);
        let wanted = || types.join(",");
        if value.is_null() {
            if !types.is_empty() && !schema.nullable {
                return self.wrong_type(path, &wanted(), "null").into();
            }
            return content;
        }
        let format = format(schema);
        let (found, found_format) = type_of(value);
        let has = |kind: &str| types.contains(&kind);
        let as_integer = matches!(Number::of(value), Some(Number::Float(float)) if is_integer(float)) && has("integer");
        let as_number = found == "integer" && has("number");
        let is_text_or_list = matches!(value.kind(), Kind::String | Kind::Array);
        let is_of_type = has(found) || as_integer || as_number;
        if !(is_text_or_list || format.is_empty() || is_of_type || found_format == format) {
            return self.wrong_type(path, format, found_format).into();
        }
        let is_of_number = has("number") || has("integer");
        let is_left_to_format = is_text_or_list && !(is_of_number || format.is_empty());
        if !(is_of_type || is_left_to_format) {
            return self.wrong_type(path, &wanted(), found).into();
        }
        content
    }

    /// What `anyOf`, `oneOf`, `allOf` and `not` say.
    fn combined(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &str,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let each = |schema: &ValueSchema| self.value(schema, value, path, correlation);
        let quoted = go_quote(path);
        if !schema.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for schema in &schema.any_of {
                let found = each(schema);
                let ends = found.is_valid();
                if ends || best.as_ref().is_none_or(|best| found.content > best.content) {
                    best = Some(found);
                }
                if ends {
                    break;
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                outcome.add(self.general(format!("{quoted} must validate at least one schema (anyOf)")));
            }
            outcome.merge(best.unwrap_or_default());
        }
        if !schema.one_of.is_empty() {
            let (mut valid, mut best, mut first): (usize, Option<Outcome>, Option<Outcome>) = (0, None, None);
            for schema in &schema.one_of {
                let found = each(schema);
                if found.is_valid() {
                    valid += 1;
                    best = None;
                    first.get_or_insert(found);
                } else if valid == 0 && best.as_ref().is_none_or(|best| found.content > best.content) {
                    best = Some(found);
                }
            }
            if valid == 1 {
                outcome.merge(first.unwrap_or_default());
            } else {
                let how_many = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let text = format!("{quoted} must validate one and only one schema (oneOf). {how_many}");
                outcome.add(self.general(text));
                outcome.merge(best.unwrap_or_default());
            }
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for schema in &schema.all_of {
                let found = each(schema);
                valid += usize::from(found.is_valid());
                outcome.merge(found);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.general(format!("{quoted} must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = &schema.not
            && each(not).is_valid()
        {
            outcome.add(self.general(format!("{quoted} must not validate the schema (not)")));
        }
        outcome.content += 1;
        outcome
    }

    fn text(&self, schema: &ValueSchema, text: &str, path: &str) -> Outcome {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            let text = format!("{path} in body should be at most {max} chars long");
            let bytes = if max == 1 { "byte" } else { "bytes" };
            let detail = if max >= 0 {
                format!("may not be more than {max} {bytes}")
            } else {
                "value is too long".to_owned()
            };
            return self.finding(ErrorKind::TooLong, path, &detail, text).into();
        }
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            let why = format!("{path} in body should be at least {min} chars long");
            return self.invalid(path, &go_quote(text), why).into();
        }
        if schema.pattern.is_empty() {
            return Outcome::default();
        }
        let pattern = &schema.pattern;
        let wrong = match schema.pattern() {
            Ok(regex) if regex.is_match(text) => return Outcome::default(),
            Ok(_) => format!("'{pattern}'"),
            Err(error) => format!("'{pattern}, but pattern is invalid: {error}'"),
        };
        let why = format!("{path} in body should match {wrong}");
        self.invalid(path, &go_quote(text), why).into()
    }

    fn formatted(&self, format: &str, text: &str, path: &str) -> Outcome {
        if formats::fits(format, text) {
            return Outcome::default();
        }
        self.wrong_type(path, format, text).into()
    }

    fn number(&self, schema: &ValueSchema, number: Number, value: Value<'_>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let of_value = |text: String| self.invalid(path, &shown(value), text);
        let no_bound = |number: Number, what: &str| out_of_range(schema, number, what, path);
        if let Some(text) = no_bound(number, "Checked") {
            outcome.add(self.general(text));
        }
        if let Some(factor) = schema.multiple_of {
            let wrong = no_bound(Number::Float(factor), "MultipleOf");
            let no_multiple = not_a_multiple(number, factor, wrong.is_none(), path);
            if let Some(text) = wrong {
                outcome.add(self.general(text));
            }
            if let Some(text) = no_multiple {
                outcome.add(of_value(text));
            }
        }
        for (bound, exclusive, side) in [
            (schema.minimum, schema.exclusive_minimum, Side::Minimum),
            (schema.maximum, schema.exclusive_maximum, Side::Maximum),
        ] {
            let Some(bound) = bound else { continue };
            let wrong = no_bound(Number::Float(bound), side.name());
            let beyond = side.passed(number, bound, exclusive, wrong.is_none());
            if let Some(text) = wrong {
                outcome.add(self.general(text));
            }
            if let Some(limit) = beyond {
                let than = side.than(exclusive);
                outcome.add(of_value(format!("{path} in body should be {than} {limit}")));
            }
        }
        outcome.content += 1;
        outcome
    }

    fn list(&self, schema: &ValueSchema, list: Value<'_>, path: &str, correlation: Option<Correlation<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut count = 0_i64;
        for (index, item) in list.items().enumerate() {
            count += 1;
            let Some(of_item) = schema.item() else { continue };
            let path = format!("{path}[{index}]");
            let both = correlation.and_then(|both| both.new.items().nth(index).and_then(|item| both.item(item)));
            outcome.merge(match both {
                Some(both) => self.node(of_item, item, &path, Some(both)),
                None => self.value(of_item, item, &path, None),
            });
        }
        if let Some(min) = schema.min_items.filter(|min| count < *min) {
            let why = format!("{path} in body should have at least {min} items");
            outcome.add(self.invalid(path, &count.to_string(), why));
        }
        if let Some(max) = schema.max_items.filter(|max| count > *max) {
            outcome.add(self.too_many(path, count, max, "items"));
        }
        outcome.content += 1;
        outcome
    }

    fn too_many(&self, path: &str, count: i64, max: i64, what: &str) -> Finding {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("{count}: must have at most {max} {items}");
        let text = format!("{path} in body should have at most {max} {what}");
        self.finding(ErrorKind::TooMany, path, &detail, text)
    }

    /// Whether a value is among those that are listed.
    fn listed(&self, schema: &ValueSchema, value: Value<'_>, path: &str) -> Outcome {
        if schema.values.is_empty() {
            return Outcome::default();
        }
        let mut bytes = Vec::with_capacity(value.raw().len());
        // Numbers out of range are refused before.
        let _ = canonical::write(&mut bytes, value);
        let is = |listed: &Json| !listed.is_null() && (listed.0 == bytes || is_truncated(value, listed.text()));
        if schema.values.iter().any(is) {
            return Outcome::default();
        }
        let values: Vec<String> = schema.values.iter().map(|listed| go_quote(&plain(listed))).collect();
        let detail = format!("{}: supported values: {}", shown(value), values.join(", "));
        let text = format!("{path} in body should be one of {}", values.join(" "));
        self.finding(ErrorKind::NotSupported, path, &detail, text).into()
    }

    fn object(
        &self,
        schema: &ValueSchema,
        object: Value<'_>,
        path: &str,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let entries = canonical::sorted_entries(object);
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_properties.filter(|min| count < *min) {
            let why = format!("{path} in body should have at least {min} properties");
            outcome.add(self.invalid(path, &count.to_string(), why));
        }
        if let Some(max) = schema.max_properties.filter(|max| count > *max) {
            outcome.add(self.too_many(path, count, max, "properties"));
        }
        let below = |name: &str, value: Value<'_>, schema: &ValueSchema, path: &str, is_root: bool| {
            let is_of_type = is_root && matches!(name, "kind" | "apiVersion");
            match correlation.filter(|_| !is_of_type).and_then(|both| both.field(name)) {
                Some(both) => self.node(schema, value, path, Some(both)),
                None => self.value(schema, value, path, None),
            }
        };
        let is_root = path.is_empty();
        let names: Vec<_> = entries
            .iter()
            .map(|(name, value)| (name.as_str().unwrap_or_default(), *value))
            .collect();
        for (name, value) in &names {
            if schema.properties.contains_key(&**name) {
                continue;
            }
            match &schema.additional_properties {
                Some(Additional::Any(false)) => {
                    let why = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(self.invalid(path, &go_quote(name), why));
                }
                Some(Additional::Values(of_value)) => {
                    outcome.merge(below(name, *value, of_value, &format!("{path}.{name}"), is_root));
                }
                _ => {}
            }
        }
        for (name, value) in &names {
            if let Some(property) = schema.properties.get(&**name) {
                let path = super::child(path, name);
                outcome.merge(below(name, *value, property, &path, is_root));
            }
        }
        for name in &schema.required {
            if !names.iter().any(|(there, _)| there == name) {
                let path = format!("{path}.{name}");
                let text = format!("{path} in body is required");
                outcome.add(self.finding(ErrorKind::Required, &path, "", text));
            }
        }
        outcome
    }
}

/// A bound of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Minimum,
    Maximum,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Minimum => "Minimum boundary",
            Self::Maximum => "Maximum boundary",
        }
    }

    const fn than(self, exclusive: bool) -> &'static str {
        match (self, exclusive) {
            (Self::Minimum, true) => "greater than",
            (Self::Minimum, false) => "greater than or equal to",
            (Self::Maximum, true) => "less than",
            (Self::Maximum, false) => "less than or equal to",
        }
    }

    /// The bound as texts show it, if a number lies beyond; compared as integers if the bound is of the type.
    fn passed(self, number: Number, bound: f64, exclusive: bool, is_of_type: bool) -> Option<String> {
        let (order, limit) = match number {
            #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
            Number::Int(int) if is_of_type => {
                let bound = bound as i64;
                (Some(int.cmp(&bound)), bound.to_string())
            }
            number => (number.as_float().partial_cmp(&bound), go_float(bound)),
        };
        let beyond = order.is_some_and(|order| match self {
            Self::Minimum => order.is_lt() || exclusive && order.is_eq(),
            Self::Maximum => order.is_gt() || exclusive && order.is_eq(),
        });
        beyond.then_some(limit)
    }
}

/// Why a number is none of the type and format.
fn out_of_range(schema: &ValueSchema, number: Number, what: &str, path: &str) -> Option<String> {
    let types = types(schema);
    let format = format(schema);
    let fits = match (types.as_slice(), format) {
        (["integer"], format) => match number {
            Number::Int(int) => format != "int32" || i32::try_from(int).is_ok(),
            #[expect(clippy::cast_possible_truncation, reason = "within the bounds that are looked at")]
            Number::Float(float) => {
                float.fract() == 0.0
                    && float.abs() < 9.3e18
                    && (format != "int32" || i32::try_from(float as i64).is_ok())
            }
        },
        (["number"], "float") => number.as_float().abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if fits {
        return None;
    }
    let kind = types.first().copied().unwrap_or_default();
    Some(if format.is_empty() {
        format!("{what} value must be of type {kind} (default format) in {path}")
    } else {
        format!("{what} value must be of type {kind} with format {format} in {path}")
    })
}

/// The types that a value may be of.
fn types(schema: &ValueSchema) -> Vec<&str> {
    if schema.int_or_string {
        return vec!["integer", "string"];
    }
    if schema.kind.is_empty() {
        Vec::new()
    } else {
        vec![&schema.kind]
    }
}

/// The format, if the real server knows it of the type.
fn format(schema: &ValueSchema) -> &str {
    let known = match types(schema).as_slice() {
        [] | ["string"] | [_, _] => formats::is_known(&schema.format),
        ["integer"] => matches!(schema.format.as_str(), "int32" | "int64"),
        ["number"] => matches!(schema.format.as_str(), "float" | "double"),
        _ => false,
    };
    if known { &schema.format } else { "" }
}

/// Why a number is no multiple; compared as an integer if it is one and the factor is of the type.
fn not_a_multiple(number: Number, factor: f64, is_of_type: bool, path: &str) -> Option<String> {
    let no_multiple = |factor: &str| format!("{path} in body should be a multiple of {factor}");
    let not_positive = |factor: &str| format!("factor MultipleOf declared for {path} must be positive: {factor}");
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
        Number::Int(int) if is_of_type => {
            let factor = factor as i64;
            if factor <= 0 {
                return Some(not_positive(&factor.to_string()));
            }
            (int % factor != 0).then(|| no_multiple(&factor.to_string()))
        }
        number => {
            if factor <= 0.0 {
                return Some(not_positive(&go_float(factor)));
            }
            let times = if factor < 1.0 {
                1.0 / factor * number.as_float()
            } else {
                number.as_float() / factor
            };
            (!is_integer(times)).then(|| no_multiple(&go_float(factor)))
        }
    }
}

/// A listed value as texts show it: a text without quotes.
fn plain(listed: &Json) -> String {
    serde_json::from_slice(&listed.0).unwrap_or_else(|_| listed.text().to_owned())
}

/// Go compares a float with an integer that is listed by what is left of it as an integer.
fn is_truncated(value: Value<'_>, listed: &str) -> bool {
    match (Number::of(value), listed.parse::<i64>()) {
        #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
        (Some(Number::Float(float)), Ok(listed)) => float as i64 == listed,
        _ => false,
    }
}
