//! Values as expressions see them: of the types that the schema says, and with no fields but those that it names.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Program, ResolveResult, Value as CelValue};

use super::super::value_schema::ValueSchema;
use super::meter::{BEGIN, Budget, GATHERED, Meter, Metered, PUT, Spent, TICK};
use super::{guarded, text_of};
use crate::json::{Kind, Value, canonical};

/// Names of types, which are values too: what `type` gives.
const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
];

const TIMESTAMP: &str = "timestamp(self)";
const DATE: &str = "timestamp(self + 'T00:00:00Z')";
const DURATION: &str = "duration(self)";
const BYTES: &str = "base64.decode(self)";
const SOME: &str = "optional.of(self)";
const NOTHING: &str = "optional.none()";

/// What makes values of the types that only the language itself makes.
static HELPERS: LazyLock<HashMap<&str, Program>> = LazyLock::new(|| {
    let ready = |text: &'static str| Some((text, guarded(|| Program::compile(text))?.ok()?));
    [TIMESTAMP, DATE, DURATION, BYTES, SOME, NOTHING]
        .into_iter()
        .filter_map(ready)
        .collect()
});

/// Whether a name is one of a type.
pub(super) fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

fn text(text: &str) -> CelValue {
    CelValue::String(Arc::new(text.to_owned()))
}

/// A type as a value: a text that no object has.
fn type_value(name: &str) -> CelValue {
    text(&format!("\u{0}type {name}"))
}

fn type_of(value: &CelValue) -> CelValue {
    type_value(match value {
        CelValue::Bool(_) => "bool",
        CelValue::Bytes(_) => "bytes",
        CelValue::Float(_) => "double",
        CelValue::Duration(_) => "duration",
        CelValue::Int(_) => "int",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        CelValue::String(_) => "string",
        CelValue::Timestamp(_) => "timestamp",
        _ => "",
    })
}

/// The argument of a function that has one.
fn one(arguments: &[CelValue]) -> ResolveResult {
    match arguments {
        [one] => Ok(one.clone()),
        all => Err(ExecutionError::invalid_argument_count(1, all.len())),
    }
}

/// Makes values, and runs expressions over them.
pub(super) struct Values {
    library: Context<'static>,
    meter: Meter,
}

impl Values {
    pub(super) fn new() -> Self {
        let mut library = Context::default().with_all();
        library.add_function("type", |Arguments(args): Arguments| {
            one(&args).map(|value| type_of(&value))
        });
        library.add_function("dyn", |Arguments(args): Arguments| one(&args));
        let meter = Meter::new();
        let ticks = meter.clone();
        library.add_function(TICK, move |Arguments(args): Arguments| ticks.tick(&args));
        for what in [BEGIN, PUT, GATHERED] {
            let meter = meter.clone();
            library.add_function(what, move |Arguments(args): Arguments| meter.gather(what, &args));
        }
        for name in TYPES {
            library.add_variable_from_value(name, type_value(name));
        }
        Self { library, meter }
    }

    /// A value of a schema. What is at the root has a type and a name, whatever the schema says.
    pub(super) fn of(&self, value: Value<'_>, schema: Option<&ValueSchema>, is_root: bool) -> CelValue {
        match value.kind() {
            Kind::Null => CelValue::Null,
            Kind::True => CelValue::Bool(true),
            Kind::False => CelValue::Bool(false),
            Kind::String => {
                let found = value.as_str().unwrap_or_default();
                let format = schema
                    .filter(|schema| schema.kind == "string")
                    .map(|schema| schema.format.as_str());
                let converted = match format {
                    Some("date-time") => self.converted(TIMESTAMP, text(&found)),
                    Some("date") => self.converted(DATE, text(&found)),
                    Some("duration") => self.converted(DURATION, text(&found)),
                    Some("byte") => self.converted(BYTES, text(&found)),
                    _ => None,
                };
                converted.unwrap_or_else(|| text(&found))
            }
            Kind::Number => {
                let digits = value.as_number().unwrap_or_default();
                let is_float = schema.is_some_and(|schema| schema.kind == "number");
                match digits.parse() {
                    Ok(int) if !is_float => CelValue::Int(int),
                    _ => CelValue::Float(digits.parse().unwrap_or(f64::NAN)),
                }
            }
            Kind::Array => {
                let of_item = schema.and_then(ValueSchema::item);
                let is_root = of_item.is_some_and(|item| item.embedded);
                let items = value.items().map(|item| self.of(item, of_item, is_root));
                CelValue::List(Arc::new(items.collect()))
            }
            Kind::Object => self.object(value, schema, is_root),
        }
    }

    fn object(&self, object: Value<'_>, schema: Option<&ValueSchema>, is_root: bool) -> CelValue {
        let mut map = HashMap::new();
        let mut add = |name: String, value: CelValue| drop(map.insert(Key::String(Arc::new(name)), value));
        for (name, value) in canonical::sorted_entries(object) {
            let name = name.as_str().unwrap_or_default();
            let declared = schema.and_then(|schema| schema.properties.get(&*name));
            if is_root && matches!(&*name, "apiVersion" | "kind") {
                add(name.into_owned(), self.of(value, None, false));
            } else if is_root && name == "metadata" {
                add(name.into_owned(), self.metadata(value));
            } else if let Some(property) = declared.filter(|property| has_type(property)) {
                if let Some(escaped) = escaped(&name) {
                    add(escaped, self.of(value, Some(property), property.embedded));
                }
            } else if let Some(of_value) = schema.and_then(ValueSchema::value) {
                // The keys of maps are data.
                add(name.into_owned(), self.of(value, Some(of_value), of_value.embedded));
            }
        }
        CelValue::Map(Map { map: Arc::new(map) })
    }

    /// The only metadata that expressions see: names.
    fn metadata(&self, metadata: Value<'_>) -> CelValue {
        let mut map = HashMap::new();
        for name in ["name", "generateName"] {
            if let Some(value) = metadata.get(name) {
                map.insert(Key::String(Arc::new(name.to_owned())), self.of(value, None, false));
            }
        }
        CelValue::Map(Map { map: Arc::new(map) })
    }

    /// What an expression makes of a text; nothing if it fails, which the schema has told by then.
    fn converted(&self, expression: &str, text: CelValue) -> Option<CelValue> {
        self.execute(HELPERS.get(expression)?.expression(), text, None).ok()
    }

    /// Runs an expression, as far as the budget reaches; the text about what went wrong stands for its value.
    ///
    /// # Errors
    /// Where the budget ended.
    pub(super) fn run(
        &self,
        metered: &Metered,
        own: &CelValue,
        old: Option<&CelValue>,
        is_optional: bool,
        budget: &mut Budget,
    ) -> Result<Result<CelValue, String>, Spent> {
        self.meter.run(metered, (own, old), budget, || {
            let old = if is_optional {
                Some(self.optional(old.cloned())?)
            } else {
                old.cloned()
            };
            self.execute(&metered.expression, own.clone(), old)
        })
    }

    fn execute(&self, expression: &IdedExpr, own: CelValue, old: Option<CelValue>) -> Result<CelValue, String> {
        let ran = guarded(|| {
            let mut context = self.library.new_inner_scope();
            context.add_variable_from_value("self", own);
            if let Some(old) = old {
                context.add_variable_from_value("oldSelf", old);
            }
            context.resolve(expression)
        });
        match ran {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(text_of(&error)),
            None => Err("this server fails".to_owned()),
        }
    }

    /// A value that may be missing.
    fn optional(&self, value: Option<CelValue>) -> Result<CelValue, String> {
        let (expression, value) = match value {
            Some(value) => (SOME, value),
            None => (NOTHING, CelValue::Null),
        };
        let program = HELPERS.get(expression).ok_or("this server has no optional values")?;
        self.execute(program.expression(), value, None)
    }
}

/// Whether expressions see a field: what is of any type, they do not.
pub(super) fn has_type(schema: &ValueSchema) -> bool {
    !schema.kind.is_empty() || schema.int_or_string
}

/// The name by which expressions know a field; some have none.
pub(super) fn escaped(name: &str) -> Option<String> {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let good = |c: char| c.is_ascii_alphanumeric() || "-./_".contains(c);
    if !name.chars().all(good) {
        return None;
    }
    let name = name.replace("__", "\u{0}");
    let name = name
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(name.replace('\u{0}', "__underscores__"))
}

/// The field that has a name in expressions, if there is one: what [`escaped`] makes of it is the name.
pub(super) fn unescaped(name: &str) -> Option<String> {
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    let reserved = inner.filter(|inner| escaped(inner).as_deref() == Some(name));
    let field = reserved.map_or_else(
        || {
            name.replace("__underscores__", "\u{0}")
                .replace("__slash__", "/")
                .replace("__dash__", "-")
                .replace("__dot__", ".")
                .replace('\u{0}', "__")
        },
        str::to_owned,
    );
    (escaped(&field).as_deref() == Some(name)).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::{escaped, unescaped};

    #[test]
    fn fields_have_the_names_of_the_real_server() {
        // [F17]
        for (name, found) in [
            ("plain", Some("plain")),
            ("my_field", Some("my_field")),
            ("a__b", Some("a__underscores__b")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("1a", None),
            ("a b", None),
        ] {
            assert_eq!(escaped(name).as_deref(), found, "{name}");
            if let Some(found) = found {
                assert_eq!(unescaped(found).as_deref(), Some(name));
            }
        }
    }
}
