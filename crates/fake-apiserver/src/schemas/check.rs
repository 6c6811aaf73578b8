//! What is wrong with a value by the OpenAPI part of its schema, in the words of the real server.
//!
//! # Design
//!
//! The real server runs a chain of validators over each value and counts how many were content: where a value must be of one of
//! several schemas and is of none, it tells the findings of the one with the highest count. So the counts are kept here
//! too ([`Outcome`]). A value is first asked only whether it is good; what is wrong with a bad one is worded in a second walk. An update does not tell what was wrong before and has not changed since: a [`Correlation`] is a value
//! with the one that it replaces, wherever the two can be said to be one; lists are compared item by item by their keys only.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::formats;
use super::value_schema::{Additional, Json, ValueSchema};
use super::{NOWHERE, Place, shown};
use crate::gotext::{go_float, go_quote};
use crate::json::{Kind, Value, canonical};
use crate::steps::step;
use crate::structured::equal;
use crate::told::{Text, Told};
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

    /// What of the old value belongs to a part of the new one, by the schema of both.
    pub(super) fn parts(&self) -> Parts<'t> {
        Parts::of(self.schema, Some(self.old))
    }
}

/// The parts of an old value, to be found by what tells them apart.
pub(super) struct Parts<'t> {
    schema: &'t ValueSchema,
    fields: HashMap<Cow<'t, str>, Value<'t>>,
    /// The items of a list by their keys.
    items: HashMap<Vec<u8>, Value<'t>>,
}

impl<'t> Parts<'t> {
    /// The parts of a value of a schema; none of no value. Of items with the same keys the first one counts.
    pub(super) fn of(schema: &'t ValueSchema, old: Option<Value<'t>>) -> Self {
        let mut parts = Self {
            schema,
            fields: HashMap::new(),
            items: HashMap::new(),
        };
        match old.map(|old| (old, old.kind())) {
            Some((old, Kind::Object)) => {
                let fields = old.entries();
                parts.fields = fields
                    .map(|(key, value)| (key.as_str().unwrap_or_default(), value))
                    .collect();
            }
            Some((old, Kind::Array)) if schema.list_type.as_deref() == Some("map") => {
                for item in old.items().filter(|item| item.kind() == Kind::Object) {
                    step();
                    parts.items.entry(keys_of(schema, item)).or_insert(item);
                }
            }
            _ => {}
        }
        parts
    }

    /// The old value of a field.
    pub(super) fn field(&self, name: &str) -> Option<Value<'t>> {
        self.fields.get(name).copied()
    }

    /// The old item that has the keys of this one.
    pub(super) fn item(&self, item: Value<'_>) -> Option<Value<'t>> {
        if self.items.is_empty() || item.kind() != Kind::Object {
            return None;
        }
        self.items.get(&keys_of(self.schema, item)).copied()
    }

    /// A field and what it replaces.
    pub(super) fn with_field(&self, name: &str, new: Value<'t>) -> Option<Correlation<'t>> {
        Some(Correlation {
            new,
            old: self.field(name)?,
            schema: self.schema.property(name)?,
        })
    }

    /// An item and what it replaces.
    pub(super) fn with_item(&self, new: Value<'t>) -> Option<Correlation<'t>> {
        Some(Correlation {
            new,
            old: self.item(new)?,
            schema: self.schema.item()?,
        })
    }
}

/// The keys of an item of a list: equal ones are equal bytes.
fn keys_of(list: &ValueSchema, item: Value<'_>) -> Vec<u8> {
    let mut keys = Vec::new();
    for key in &list.list_keys {
        if let Some(value) = item.get(key) {
            // Numbers out of range are refused before.
            let _ = canonical::write(&mut keys, value);
        }
        keys.push(b',');
    }
    keys
}

/// What is wrong with a value, told as found at `base`.
pub(crate) fn check(
    schema: &ValueSchema,
    value: Value<'_>,
    base: &Place<'_>,
    correlation: Option<Correlation<'_>>,
) -> Vec<FieldError> {
    let mut checker = Checker {
        base,
        telling: RefCell::new(None),
    };
    let root = Place::from("");
    // Most objects are good.
    if checker.node(schema, value, &root, correlation).valid {
        return Vec::new();
    }
    checker.telling = RefCell::new(Some(Telling::default()));
    checker.node(schema, value, &root, correlation);
    let telling = checker.telling.take().unwrap_or_default();
    let mut findings = telling.findings;
    findings.extend(FieldError::rest(&telling.told));
    findings
}

/// The findings that are told.
#[derive(Default)]
struct Telling {
    findings: Vec<FieldError>,
    /// Their texts, by which one is told from others.
    seen: HashSet<String>,
    told: Told,
}

/// What clients read of a finding after its field, and the text that tells it from others.
struct Words {
    detail: String,
    text: String,
}

impl Words {
    /// Those of a finding whose text follows the value.
    fn of_value(value: &str, text: String) -> Self {
        Self {
            detail: format!("{value}: {text}"),
            text,
        }
    }
}

impl Text for (Words, FieldError) {
    fn size(&self) -> usize {
        self.0.text.len() + self.1.size()
    }
}

/// What a validator has found, and how many were content.
#[derive(Clone, Copy)]
struct Outcome {
    valid: bool,
    content: usize,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            valid: true,
            content: 0,
        }
    }
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.valid &= other.valid;
        self.content += other.content;
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
    base: &'a Place<'a>,
    /// What was found; nothing while it is only asked whether a value is good.
    telling: RefCell<Option<Telling>>,
}

impl Checker<'_> {
    /// The field that a finding about a path names.
    fn field(&self, path: &Place<'_>) -> String {
        let path = path.to_string();
        let path = path.strip_prefix('.').unwrap_or(&path);
        match (self.base.is_root(), path) {
            (true, "") => NOWHERE.to_owned(),
            (true, path) => path.to_owned(),
            (false, "") => self.base.to_string(),
            (false, path) => format!("{}.{path}", self.base),
        }
    }

    /// A finding about a place, which is worded only if it is told.
    fn found(&self, kind: ErrorKind, path: &Place<'_>, word: impl FnOnce() -> Words) -> Outcome {
        if let Some(telling) = &mut *self.telling.borrow_mut() {
            let finding = telling.told.word(|| {
                let words = word();
                let error = FieldError::new(kind, self.field(path), &words.detail);
                (words, error)
            });
            if let Some((words, error)) = finding
                && telling.seen.insert(words.text)
            {
                telling.findings.push(error);
            }
        }
        Outcome {
            valid: false,
            content: 0,
        }
    }

    fn invalid(&self, path: &Place<'_>, word: impl FnOnce() -> Words) -> Outcome {
        self.found(ErrorKind::Invalid, path, word)
    }

    /// A finding about no field.
    fn general(&self, text: impl FnOnce() -> String) -> Outcome {
        self.invalid(&Place::from(""), || Words::of_value("\"\"", text()))
    }

    fn wrong_type(&self, path: &Place<'_>, wanted: &str, found: &str) -> Outcome {
        self.found(ErrorKind::TypeInvalid, path, || {
            let text = format!("{path} in body must be of type {wanted}: {}", go_quote(found));
            Words::of_value(&go_quote(found), text)
        })
    }

    /// What is found where nothing is told of it.
    fn silently(&self, run: impl FnOnce() -> Outcome) -> Outcome {
        let telling = self.telling.take();
        let outcome = run();
        self.telling.replace(telling);
        outcome
    }

    /// Checks a value; what was wrong before and has not changed is not told.
    fn node(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &Place<'_>,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let run = || self.value(schema, value, path, correlation);
        let is_telling = self.telling.borrow().is_some();
        let unchanged = || correlation.is_some_and(|both| both.unchanged());
        if is_telling && unchanged() {
            return Outcome {
                valid: true,
                ..self.silently(run)
            };
        }
        let mut outcome = run();
        if !outcome.valid && !is_telling && unchanged() {
            outcome.valid = true;
        }
        outcome
    }

    fn value(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &Place<'_>,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        step();
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

    fn of_type(&self, schema: &ValueSchema, value: Value<'_>, path: &Place<'_>) -> Outcome {
        let content = Outcome {
            content: 1,
            ..Outcome::default()
        };
        let types = types(schema);
        let wanted = || types.join(",");
        if value.is_null() {
            if !types.is_empty() && !schema.nullable {
                return self.wrong_type(path, &wanted(), "null");
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
            return self.wrong_type(path, format, found_format);
        }
        let is_of_number = has("number") || has("integer");
        let is_left_to_format = is_text_or_list && !(is_of_number || format.is_empty());
        if !(is_of_type || is_left_to_format) {
            return self.wrong_type(path, &wanted(), found);
        }
        content
    }

    /// What `anyOf`, `oneOf`, `allOf` and `not` say. Alternatives are first tried in silence: only one of them is told of.
    fn combined(
        &self,
        schema: &ValueSchema,
        value: Value<'_>,
        path: &Place<'_>,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let each = |schema: &ValueSchema| self.value(schema, value, path, correlation);
        let tried = |schema: &ValueSchema| self.silently(|| each(schema));
        let must = |what: &str| format!("{} must {what}", go_quote(&path.to_string()));
        // Only who is told needs it once more.
        let told = |best: &(&ValueSchema, Outcome)| {
            if self.telling.borrow().is_some() {
                each(best.0);
            }
        };
        if !schema.any_of.is_empty() {
            let mut best: Option<(&ValueSchema, Outcome)> = None;
            for schema in &schema.any_of {
                let found = tried(schema);
                if found.valid || best.is_none_or(|(_, best)| found.content > best.content) {
                    best = Some((schema, found));
                }
                if found.valid {
                    break;
                }
            }
            if let Some(best) = best {
                if !best.1.valid {
                    self.general(|| must("validate at least one schema (anyOf)"));
                    told(&best);
                }
                outcome.merge(best.1);
            }
        }
        if !schema.one_of.is_empty() {
            let (mut valid, mut best, mut first): (usize, Option<(&ValueSchema, Outcome)>, Option<Outcome>) =
                (0, None, None);
            for schema in &schema.one_of {
                let found = tried(schema);
                if found.valid {
                    valid += 1;
                    best = None;
                    first.get_or_insert(found);
                } else if valid == 0 && best.is_none_or(|(_, best)| found.content > best.content) {
                    best = Some((schema, found));
                }
            }
            if valid == 1 {
                outcome.merge(first.unwrap_or_default());
            } else {
                outcome.merge(self.general(|| {
                    let how_many = match valid {
                        0 => "Found none valid".to_owned(),
                        valid => format!("Found {valid} valid alternatives"),
                    };
                    must(&format!("validate one and only one schema (oneOf). {how_many}"))
                }));
                if let Some(best) = best {
                    told(&best);
                    outcome.merge(best.1);
                }
            }
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for schema in &schema.all_of {
                let found = each(schema);
                valid += usize::from(found.valid);
                outcome.merge(found);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.merge(self.general(|| must(&format!("validate all the schemas (allOf){none}"))));
            }
        }
        if let Some(not) = &schema.not
            && tried(not).valid
        {
            outcome.merge(self.general(|| must("not validate the schema (not)")));
        }
        outcome.content += 1;
        outcome
    }

    fn text(&self, schema: &ValueSchema, text: &str, path: &Place<'_>) -> Outcome {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            return self.found(ErrorKind::TooLong, path, || {
                let bytes = if max == 1 { "byte" } else { "bytes" };
                let detail = if max >= 0 {
                    format!("may not be more than {max} {bytes}")
                } else {
                    "value is too long".to_owned()
                };
                let text = format!("{path} in body should be at most {max} chars long");
                Words { detail, text }
            });
        }
        let of_value = |word: &dyn Fn() -> String| {
            self.invalid(path, || {
                Words::of_value(&go_quote(text), format!("{path} in body should {}", word()))
            })
        };
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            return of_value(&|| format!("be at least {min} chars long"));
        }
        let pattern = &schema.pattern;
        if pattern.is_empty() {
            return Outcome::default();
        }
        match schema.pattern() {
            Ok(regex) if regex.is_match(text) => Outcome::default(),
            Ok(_) => of_value(&|| format!("match '{pattern}'")),
            Err(error) => of_value(&|| format!("match '{pattern}, but pattern is invalid: {error}'")),
        }
    }

    fn formatted(&self, format: &str, text: &str, path: &Place<'_>) -> Outcome {
        if formats::fits(format, text) {
            return Outcome::default();
        }
        self.wrong_type(path, format, text)
    }

    fn number(&self, schema: &ValueSchema, number: Number, value: Value<'_>, path: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let of_value = |word: &dyn Fn() -> String| self.invalid(path, || Words::of_value(&shown(value), word()));
        let is_of_type = |number: Number| is_in_range(schema, number);
        let no_bound = |number: Number, what: &str| {
            if is_of_type(number) {
                return Outcome::default();
            }
            self.general(|| out_of_range(schema, what, path))
        };
        outcome.merge(no_bound(number, "Checked"));
        if let Some(factor) = schema.multiple_of {
            outcome.merge(no_bound(Number::Float(factor), "MultipleOf"));
            if let Some(wrong) = not_a_multiple(number, factor, is_of_type(Number::Float(factor))) {
                outcome.merge(of_value(&|| wrong.text(path)));
            }
        }
        for (bound, exclusive, side) in [
            (schema.minimum, schema.exclusive_minimum, Side::Minimum),
            (schema.maximum, schema.exclusive_maximum, Side::Maximum),
        ] {
            let Some(bound) = bound else { continue };
            let beyond = side.passed(number, bound, exclusive, is_of_type(Number::Float(bound)));
            outcome.merge(no_bound(Number::Float(bound), side.name()));
            if let Some(limit) = beyond {
                let than = side.than(exclusive);
                outcome.merge(of_value(&|| format!("{path} in body should be {than} {limit}")));
            }
        }
        outcome.content += 1;
        outcome
    }

    fn list(
        &self,
        schema: &ValueSchema,
        list: Value<'_>,
        path: &Place<'_>,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut count = 0_i64;
        let before = correlation.map(|both| both.parts());
        for (index, item) in list.items().enumerate() {
            count += 1;
            let Some(of_item) = schema.item() else { continue };
            let path = path.index(index);
            outcome.merge(match before.as_ref().and_then(|before| before.with_item(item)) {
                Some(both) => self.node(of_item, item, &path, Some(both)),
                None => self.value(of_item, item, &path, None),
            });
        }
        if let Some(min) = schema.min_items.filter(|min| count < *min) {
            outcome.merge(self.too_few(path, count, min, "items"));
        }
        if let Some(max) = schema.max_items.filter(|max| count > *max) {
            outcome.merge(self.too_many(path, count, max, "items"));
        }
        outcome.content += 1;
        outcome
    }

    fn too_few(&self, path: &Place<'_>, count: i64, min: i64, what: &str) -> Outcome {
        self.invalid(path, || {
            let text = format!("{path} in body should have at least {min} {what}");
            Words::of_value(&count.to_string(), text)
        })
    }

    fn too_many(&self, path: &Place<'_>, count: i64, max: i64, what: &str) -> Outcome {
        self.found(ErrorKind::TooMany, path, || {
            let items = if max == 1 { "item" } else { "items" };
            Words {
                detail: format!("{count}: must have at most {max} {items}"),
                text: format!("{path} in body should have at most {max} {what}"),
            }
        })
    }

    /// Whether a value is among those that are listed.
    fn listed(&self, schema: &ValueSchema, value: Value<'_>, path: &Place<'_>) -> Outcome {
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
        self.found(ErrorKind::NotSupported, path, || {
            let values: Vec<String> = schema.values.iter().map(|listed| go_quote(&plain(listed))).collect();
            Words {
                detail: format!("{}: supported values: {}", shown(value), values.join(", ")),
                text: format!("{path} in body should be one of {}", values.join(" ")),
            }
        })
    }

    fn object(
        &self,
        schema: &ValueSchema,
        object: Value<'_>,
        path: &Place<'_>,
        correlation: Option<Correlation<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let entries = canonical::sorted_entries(object);
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_properties.filter(|min| count < *min) {
            outcome.merge(self.too_few(path, count, min, "properties"));
        }
        if let Some(max) = schema.max_properties.filter(|max| count > *max) {
            outcome.merge(self.too_many(path, count, max, "properties"));
        }
        let is_root = path.is_root();
        let before = correlation.map(|both| both.parts());
        let below = |name: &str, value: Value<'_>, schema: &ValueSchema, path: &Place<'_>| {
            let is_of_type = is_root && matches!(name, "kind" | "apiVersion");
            let before = before.as_ref().filter(|_| !is_of_type);
            match before.and_then(|before| before.with_field(name, value)) {
                Some(both) => self.node(schema, value, path, Some(both)),
                None => self.value(schema, value, path, None),
            }
        };
        // Sorted by name.
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
                    outcome.merge(self.invalid(path, || {
                        let text = format!("{path}.{name} in body is a forbidden property");
                        Words::of_value(&go_quote(name), text)
                    }));
                }
                Some(Additional::Values(of_value)) => {
                    outcome.merge(below(name, *value, of_value, &path.member(name)));
                }
                _ => {}
            }
        }
        for (name, value) in &names {
            if let Some(property) = schema.properties.get(&**name) {
                outcome.merge(below(name, *value, property, &path.field(name)));
            }
        }
        for name in &schema.required {
            if names.binary_search_by(|(there, _)| (**there).cmp(name)).is_err() {
                let path = path.member(name);
                outcome.merge(self.found(ErrorKind::Required, &path, || Words {
                    detail: String::new(),
                    text: format!("{path} in body is required"),
                }));
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

/// Whether a number is one of the type and format.
fn is_in_range(schema: &ValueSchema, number: Number) -> bool {
    match (types(schema).as_slice(), format(schema)) {
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
    }
}

/// What is said of a number that is not.
fn out_of_range(schema: &ValueSchema, what: &str, path: &Place<'_>) -> String {
    let kind = types(schema).first().copied().unwrap_or_default();
    match format(schema) {
        "" => format!("{what} value must be of type {kind} (default format) in {path}"),
        format => format!("{what} value must be of type {kind} with format {format} in {path}"),
    }
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

/// Why a number is no multiple, with the factor.
enum NoMultiple {
    OfThis(String),
    NotPositive(String),
}

impl NoMultiple {
    fn text(&self, path: &Place<'_>) -> String {
        match self {
            Self::OfThis(factor) => format!("{path} in body should be a multiple of {factor}"),
            Self::NotPositive(factor) => format!("factor MultipleOf declared for {path} must be positive: {factor}"),
        }
    }
}

/// Why a number is no multiple, if it is none; compared as an integer if it is one and the factor is of the type.
fn not_a_multiple(number: Number, factor: f64, is_of_type: bool) -> Option<NoMultiple> {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Go does it")]
        Number::Int(int) if is_of_type => {
            let factor = factor as i64;
            if factor <= 0 {
                return Some(NoMultiple::NotPositive(factor.to_string()));
            }
            (int % factor != 0).then(|| NoMultiple::OfThis(factor.to_string()))
        }
        number => {
            if factor <= 0.0 {
                return Some(NoMultiple::NotPositive(go_float(factor)));
            }
            let times = if factor < 1.0 {
                1.0 / factor * number.as_float()
            } else {
                number.as_float() / factor
            };
            (!is_integer(times)).then(|| NoMultiple::OfThis(go_float(factor)))
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
