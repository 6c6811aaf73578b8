//! Rules in the Common Expression Language: when they are good, and what they say of an object.
//!
//! The language and its functions are those of the `kube-cel` crate; what is here is what the real server does around
//! them. [`compile`] makes a rule ready, or says why it cannot be evaluated here: nothing is left unchecked in silence. [`validate`] walks an
//! object, with the one that it replaces. `types` is what is known of expressions without running them, `value` the objects
//! as expressions see them.
//!
//! What rules cost is not estimated, but `meter` counts it and stops them.

mod meter;
mod types;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::{ExecutionError, Program, Value as CelValue};

use super::check::{Correlation, Parts};
use super::value_schema::{Rule, ValueSchema};
use super::{Found, NOWHERE, Place, child, path_in, shown};
use crate::json::{Kind, Value};
use crate::steps::step;
use crate::validation::{ErrorKind, FieldError};

pub(crate) use meter::Budget;
use meter::{Metered, Spent};
use value::Values;

/// Longer rules are refused: reading them recurses.
const MAX_LENGTH: usize = 10_000;
/// What reading the longest rule takes at most.
const STACK: usize = 256 << 20;
/// The longest text that an expression may make for a finding.
const MAX_MESSAGE: usize = 5 * 1024;

/// A rule that is ready.
#[derive(Debug)]
pub(crate) struct Compiled {
    program: Metered,
    message: Option<Metered>,
    /// Whether it compares with an older value.
    pub(crate) uses_old: bool,
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Whether it is its expression for texts that is refused.
    pub(crate) of_message: bool,
    pub(crate) text: String,
}

/// What runs code that may have bugs: a panic is a failure like others.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// Makes a rule of a schema ready.
///
/// # Errors
/// Why it cannot be evaluated.
pub(crate) fn compile(rule: &Rule, schema: &ValueSchema, is_root: bool) -> Result<Compiled, Refusal> {
    // Deep expressions are refused only when they have been read, and reading recurses.
    let result = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let reader = reader.spawn_scoped(scope, || compile_here(rule, schema, is_root));
        reader.ok()?.join().ok()
    });
    result.unwrap_or_else(|| {
        Err(Refusal {
            of_message: false,
            text: "this server cannot read the expression".to_owned(),
        })
    })
}

fn compile_here(rule: &Rule, schema: &ValueSchema, is_root: bool) -> Result<Compiled, Refusal> {
    let optional = rule.optional_old_self == Some(true);
    let parse = |text: &str, wanted: types::Wanted| -> Result<Program, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!(
                "this server takes no expressions that are longer than {MAX_LENGTH} bytes"
            ));
        }
        let program = Program::compile(text).map_err(|errors| errors.to_string())?;
        types::check(program.expression(), schema, is_root, optional, wanted)?;
        Ok(program)
    };
    let refuse = |of_message: bool| move |text: String| Refusal { of_message, text };
    let program = parse(&rule.rule, types::Wanted::Bool).map_err(refuse(false))?;
    let message = match rule.message_expression.trim() {
        "" => None,
        _ => Some(parse(&rule.message_expression, types::Wanted::Text).map_err(refuse(true))?),
    };
    let uses_old = program.references().has_variable("oldSelf");
    let metered = |program: &Program| Metered::new(program.expression());
    Ok(Compiled {
        program: metered(&program),
        message: message.as_ref().map(metered),
        uses_old,
    })
}

/// What is wrong with an object by its rules, given the one that it replaces, as far as the budget reaches.
pub(crate) fn validate(
    schema: &ValueSchema,
    value: Value<'_>,
    old: Option<Value<'_>>,
    path: &Place<'_>,
    correlation: Option<Correlation<'_>>,
    is_root: bool,
    budget: &mut Budget,
) -> Vec<FieldError> {
    if !schema.has_rules() {
        return Vec::new();
    }
    let mut walk = Walk {
        values: Values::new(),
        found: Found::default(),
        budget,
    };
    let ratchet = Ratchet {
        own: correlation,
        above: None,
    };
    walk.node(schema, value, old, path, ratchet, is_root);
    walk.found.into_errors()
}

/// Where what was wrong before and has not changed is not told again.
#[derive(Clone, Copy)]
struct Ratchet<'t> {
    /// The value and the one that it replaces.
    own: Option<Correlation<'t>>,
    /// The nearest above it, if there is none.
    above: Option<Correlation<'t>>,
}

impl<'t> Ratchet<'t> {
    fn spares(self) -> bool {
        self.own.or(self.above).is_some_and(|both| both.unchanged())
    }

    /// The one of a part of the value, which may replace an older one.
    fn below(self, part: Option<Correlation<'t>>) -> Self {
        match self.own {
            Some(own) => Self {
                own: part,
                above: Some(own),
            },
            None => self,
        }
    }
}

struct Walk<'b> {
    values: Values,
    found: Found,
    budget: &'b mut Budget,
}

impl Walk<'_> {
    fn node<'t>(
        &mut self,
        schema: &ValueSchema,
        value: Value<'t>,
        old: Option<Value<'t>>,
        path: &Place<'_>,
        ratchet: Ratchet<'t>,
        is_root: bool,
    ) {
        if self.budget.is_spent() || value.is_null() || !schema.has_rules() {
            return;
        }
        step();
        if !schema.rules.is_empty() {
            self.rules(schema, value, old.filter(|old| !old.is_null()), path, ratchet, is_root);
        }
        let before = Parts::of(schema, old);
        let both = ratchet.own.map(|own| own.parts());
        match value.kind() {
            Kind::Array => {
                let Some(of_item) = schema.item() else { return };
                for (index, item) in value.items().enumerate() {
                    let old = before.item(item);
                    let ratchet = ratchet.below(both.as_ref().and_then(|both| both.with_item(item)));
                    self.node(of_item, item, old, &path.index(index), ratchet, of_item.embedded);
                }
            }
            Kind::Object => {
                for (name, below) in crate::json::canonical::sorted_entries(value) {
                    let name = name.as_str().unwrap_or_default();
                    let (of_field, path) = match (schema.properties.get(&*name), schema.value()) {
                        (Some(property), _) => (property, path.field(&name)),
                        (None, Some(of_value)) => (of_value, path.entry(&name)),
                        (None, None) => continue,
                    };
                    let is_of_type = is_root && matches!(&*name, "apiVersion" | "kind");
                    let both = both.as_ref().filter(|_| !is_of_type);
                    let ratchet = ratchet.below(both.and_then(|both| both.with_field(&name, below)));
                    self.node(of_field, below, before.field(&name), &path, ratchet, of_field.embedded);
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        schema: &ValueSchema,
        value: Value<'_>,
        old: Option<Value<'_>>,
        path: &Place<'_>,
        ratchet: Ratchet<'_>,
        is_root: bool,
    ) {
        let compiled = schema.compiled_rules(is_root);
        let own = self.values.of(value, Some(schema), is_root);
        let before = old.map(|old| self.values.of(old, Some(schema), is_root));
        for (rule, compiled) in schema.rules.iter().zip(compiled) {
            let rule_text = if rule.message.is_empty() {
                &rule.rule
            } else {
                &rule.message
            };
            let rule_text = rule_text.trim();
            let compiled = match compiled {
                Ok(compiled) => compiled,
                Err(refusal) => {
                    self.fails(schema, path, &format!("rule compile error: {}", refusal.text));
                    continue;
                }
            };
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.uses_old && before.is_none() && !is_optional {
                continue;
            }
            let old = before.as_ref().filter(|_| compiled.uses_old);
            let failed = match self.values.run(&compiled.program, &own, old, is_optional, self.budget) {
                Ok(Ok(CelValue::Bool(true))) => continue,
                Ok(Ok(CelValue::Bool(false))) => None,
                Ok(Ok(_)) => Some("cel expression must evaluate to a bool".to_owned()),
                Ok(Err(text)) => Some(text),
                Err(Spent::Object) => {
                    let why = "validation failed due to running out of cost budget";
                    return self.fails(schema, path, &format!("{why}, {NO_MORE}"));
                }
                Err(Spent::Rule) => {
                    let why = "'operation cancelled: actual cost limit exceeded'";
                    let of_rule = format!("due to call cost exceeds limit for rule: {rule_text}");
                    return self.fails(schema, path, &format!("{why}: {NO_MORE} {of_rule}"));
                }
            };
            if let Some(text) = failed {
                self.fails(schema, path, &format!("{text} evaluating rule: {rule_text}"));
                continue;
            }
            let own_text = compiled.message.as_ref().and_then(|message| {
                let text = self
                    .values
                    .run(message, &own, before.as_ref(), is_optional, self.budget);
                match text {
                    Ok(Ok(CelValue::String(text))) => good_message(&text),
                    _ => None,
                }
            });
            let detail = own_text.unwrap_or_else(|| match rule.message.trim() {
                "" => format!("failed rule: {}", rule.rule.trim()),
                message => message.to_owned(),
            });
            let spared = !compiled.uses_old && ratchet.spares();
            self.found.add(path, |path| {
                let of_field = match path_in(schema, &rule.field_path, true) {
                    Ok((below, _)) if !rule.field_path.is_empty() => child(&path, &below),
                    _ => or_nowhere(path),
                };
                let mut error = finding(rule, schema, value, of_field, &detail);
                error.spared = spared;
                error
            });
            if self.budget.is_spent() {
                return;
            }
        }
    }

    /// Tells of a rule that says nothing of the value.
    fn fails(&mut self, schema: &ValueSchema, path: &Place<'_>, text: &str) {
        self.found.add(path, |path| {
            let text = format!("\"{}\": {text}", schema.kind);
            FieldError::new(ErrorKind::Invalid, or_nowhere(path), &text)
        });
    }
}

/// What is said when rules are stopped.
const NO_MORE: &str = "no further validation rules will be run";

/// The path as findings name it.
fn or_nowhere(path: String) -> String {
    if path.is_empty() { NOWHERE.to_owned() } else { path }
}

/// A text that an expression has made, if it may stand in a finding.
fn good_message(text: &str) -> Option<String> {
    let text = text.trim();
    let good = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    good.then(|| text.to_owned())
}

fn finding(rule: &Rule, schema: &ValueSchema, value: Value<'_>, field: String, detail: &str) -> FieldError {
    // What is too large to be shown is left out.
    let shown = (!matches!(schema.kind.as_str(), "object" | "array")).then(|| shown(value));
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::new(ErrorKind::Forbidden, field, detail),
        Some("FieldValueRequired") => FieldError::new(ErrorKind::Required, field, detail),
        Some("FieldValueDuplicate") => FieldError::new(ErrorKind::Duplicate, field, &shown.unwrap_or_default()),
        _ => match shown {
            Some(shown) => FieldError::new(ErrorKind::Invalid, field, &format!("{shown}: {detail}")),
            None => FieldError::new(ErrorKind::Invalid, field, detail),
        },
    }
}

/// A failure in the words of the real server, where it has any.
fn text_of(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..) => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rule: &str) -> Option<String> {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
        let schema = ValueSchema::parse(schema.as_bytes()).unwrap();
        let rule = Rule {
            rule: rule.to_owned(),
            ..Rule::default()
        };
        compile(&rule, &schema, false).err().map(|refusal| refusal.text)
    }

    #[test]
    fn hostile_rules_are_refused() {
        // [F25] [F17] none of them may end the process
        assert_eq!(refused("self.n > 1"), None);
        // Of these little is left when they have been read.
        for small in [
            format!("{}true{}", "(".repeat(1_000), ")".repeat(1_000)),
            format!("{}true", "!".repeat(9_001)),
            format!("{}1 > 0", "-".repeat(9_001)),
        ] {
            let _ = refused(&small);
        }
        for hostile in [
            format!("self.n{} > 1", " + 1".repeat(2_000)),
            format!("self.n == {}1{}", "[".repeat(1_000), "]".repeat(1_000)),
            format!("self{} > 1", ".n".repeat(2_000)),
            "true ".repeat(10_000),
            "\u{0}".to_owned(),
            "'".to_owned(),
            "self.n > 99999999999999999999".to_owned(),
        ] {
            let shown: String = hostile.chars().take(40).collect();
            assert!(refused(&hostile).is_some(), "{shown}");
        }
    }

    #[test]
    fn rules_that_cannot_be_evaluated_are_refused() {
        // [F17] never passed in silence
        for rule in [
            "[1].sortBy(x, x) == [1]",
            "cel.bind(x, 1, x == 1)",
            "[1].all(i, x, x == i)",
            "url('https://a').getHost() == 'a'",
            "nobody()",
        ] {
            assert!(refused(rule).is_some(), "{rule}");
        }
    }
}
