//! What is known of an expression without running it: that its fields are those of the schema, that its functions are there, and
//! of what type its value is. Less than the checker of the real server knows: what is not sure passes, and fails when it is run.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::super::value_schema::ValueSchema;
use super::value::{has_type, is_type, unescaped};

/// Deeper expressions are refused: evaluation recurses.
const MAX_DEPTH: usize = 100;

/// Of what type the value of an expression must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    Text,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
enum Known<'s> {
    Bool,
    Int,
    Float,
    Text,
    /// A list or a map of a schema, which may stand at the root of a resource.
    Of(&'s ValueSchema, bool),
    /// Metadata, of which the names are known.
    Metadata,
    /// A list, a map or another value that is no scalar.
    Other,
    Anything,
}

impl<'s> Known<'s> {
    fn of(schema: &'s ValueSchema, is_root: bool) -> Self {
        match (schema.kind.as_str(), schema.format.as_str()) {
            ("boolean", _) => Self::Bool,
            ("integer", _) => Self::Int,
            ("number", _) => Self::Float,
            ("string", "date" | "date-time" | "duration" | "byte") => Self::Other,
            ("string", _) => Self::Text,
            ("", _) => Self::Anything,
            _ => Self::Of(schema, is_root),
        }
    }

    /// The scalar type, if it is sure.
    fn scalar(self) -> Option<&'static str> {
        match self {
            Self::Bool => Some("bool"),
            Self::Int => Some("int"),
            Self::Float => Some("double"),
            Self::Text => Some("string"),
            _ => None,
        }
    }
}

/// Variables, the nearest last.
type Scope<'s, 'e> = Vec<(&'e str, Known<'s>)>;

/// Checks an expression of a schema.
///
/// # Errors
/// Why it cannot be evaluated, in the words of the real server where it has any.
pub(super) fn check(
    expression: &IdedExpr,
    schema: &ValueSchema,
    is_root: bool,
    optional: bool,
    wanted: Wanted,
) -> Result<(), String> {
    let own = Known::of(schema, is_root);
    let old = if optional { Known::Anything } else { own };
    let mut scope = vec![("self", own), ("oldSelf", old)];
    let found = infer(expression, &mut scope, 0)?;
    match (wanted, found) {
        (_, Known::Anything) | (Wanted::Bool, Known::Bool) | (Wanted::Text, Known::Text) => Ok(()),
        (Wanted::Bool, _) => Err("cel expression must evaluate to a bool".to_owned()),
        (Wanted::Text, _) => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn infer<'s, 'e>(expression: &'e IdedExpr, scope: &mut Scope<'s, 'e>, depth: usize) -> Result<Known<'s>, String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "this server takes no expressions that are nested deeper than {MAX_DEPTH} levels"
        ));
    }
    let depth = depth + 1;
    Ok(match &expression.expr {
        Expr::Unspecified => Known::Anything,
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(_) => Known::Bool,
            LiteralValue::Double(_) => Known::Float,
            LiteralValue::Int(_) => Known::Int,
            LiteralValue::String(_) => Known::Text,
            LiteralValue::Bytes(_) | LiteralValue::UInt(_) => Known::Other,
            LiteralValue::Null => Known::Anything,
        },
        Expr::Ident(name) => match scope.iter().rev().find(|(known, _)| known == name) {
            Some((_, known)) => *known,
            None if is_type(name) => Known::Anything,
            None => return Err(format!("undeclared reference to '{name}' (in container '')")),
        },
        Expr::Select(select) => {
            let operand = infer(&select.operand, scope, depth)?;
            let found = field(operand, &select.field)?;
            if select.test { Known::Bool } else { found }
        }
        Expr::List(list) => {
            for element in &list.elements {
                infer(element, scope, depth)?;
            }
            Known::Other
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    infer(&entry.key, scope, depth)?;
                    infer(&entry.value, scope, depth)?;
                }
            }
            Known::Other
        }
        Expr::Struct(literal) => {
            let name = &literal.type_name;
            return Err(format!("undeclared reference to '{name}' (in container '')"));
        }
        Expr::Comprehension(all) => {
            let range = infer(&all.iter_range, scope, depth)?;
            if all.iter_var2.is_some() {
                return Err("this server does not know macros of two variables".to_owned());
            }
            let start = infer(&all.accu_init, scope, depth)?;
            let before = scope.len();
            scope.push((&all.iter_var, item_of(range)));
            // What is gathered is of one type from the start, if that is a scalar.
            let gathered = if start.scalar().is_some() {
                start
            } else {
                Known::Anything
            };
            scope.push((&all.accu_var, gathered));
            infer(&all.loop_cond, scope, depth)?;
            infer(&all.loop_step, scope, depth)?;
            let result = infer(&all.result, scope, depth)?;
            scope.truncate(before);
            result
        }
        Expr::Call(call) => self::call(call, scope, depth)?,
    })
}

/// The items of a list, or the keys of a map.
fn item_of(range: Known<'_>) -> Known<'_> {
    match range {
        Known::Of(schema, _) if schema.kind == "array" => schema
            .item()
            .map_or(Known::Anything, |item| Known::of(item, item.embedded)),
        Known::Of(..) => Known::Text,
        _ => Known::Anything,
    }
}

fn field<'s>(of: Known<'s>, name: &str) -> Result<Known<'s>, String> {
    let undefined = || format!("undefined field '{name}'");
    match of {
        Known::Of(_, true) if matches!(name, "apiVersion" | "kind") => Ok(Known::Text),
        Known::Of(_, true) if name == "metadata" => Ok(Known::Metadata),
        Known::Of(schema, _) if schema.kind == "array" => {
            Err("type 'list' does not support field selection".to_owned())
        }
        Known::Of(schema, _) => {
            if let Some(value) = schema.value() {
                return Ok(Known::of(value, value.embedded));
            }
            let found = unescaped(name).and_then(|name| schema.properties.get(&name));
            let property = found.filter(|property| has_type(property)).ok_or_else(undefined)?;
            Ok(Known::of(property, property.embedded))
        }
        Known::Metadata if matches!(name, "name" | "generateName") => Ok(Known::Text),
        Known::Metadata => Err(undefined()),
        Known::Bool | Known::Int | Known::Float | Known::Text => {
            let kind = of.scalar().unwrap_or_default();
            Err(format!("type '{kind}' does not support field selection"))
        }
        Known::Other | Known::Anything => Ok(Known::Anything),
    }
}

fn call<'s, 'e>(call: &'e CallExpr, scope: &mut Scope<'s, 'e>, depth: usize) -> Result<Known<'s>, String> {
    let name = call.func_name.as_str();
    let mut wanted = name.to_owned();
    if let Some(target) = call.target.as_deref() {
        match &target.expr {
            // A namespace of functions, such as `math`.
            Expr::Ident(space) if !scope.iter().any(|(known, _)| known == space) && !is_type(space) => {
                wanted = format!("{space}.{name}");
            }
            Expr::Call(inner) if inner.func_name.is_empty() => {}
            _ => drop(infer(target, scope, depth)?),
        }
    }
    // The field of an optional selection is no expression.
    let count = if name == "_?._" { 1 } else { call.args.len() };
    let mut arguments = Vec::with_capacity(count);
    for argument in call.args.iter().take(count) {
        arguments.push(infer(argument, scope, depth)?);
    }
    if !is_known(&wanted) {
        return Err(format!(
            "undeclared reference to '{wanted}' (in container ''): this server does not know the function"
        ));
    }
    mismatched(name, &arguments)?;
    Ok(result_of(&wanted, &arguments))
}

/// What a function gives.
fn result_of<'s>(name: &str, arguments: &[Known<'s>]) -> Known<'s> {
    match (name, arguments) {
        (
            "_&&_" | "_||_" | "!_" | "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in" | "contains"
            | "startsWith" | "endsWith" | "matches" | "hasValue",
            _,
        ) => Known::Bool,
        ("@not_strictly_false" | "-_", [inner]) => *inner,
        ("size" | "int", _) => Known::Int,
        (
            "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "charAt" | "join" | "format",
            _,
        ) => Known::Text,
        ("double", _) => Known::Float,
        ("_?_:_", [_, yes, no]) if yes.scalar() == no.scalar() => *yes,
        ("_[_]", [Known::Of(schema, _), _]) => {
            let below = schema.item().or_else(|| schema.value());
            below.map_or(Known::Anything, |below| Known::of(below, below.embedded))
        }
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [left, right]) if left.scalar() == right.scalar() => *left,
        _ => Known::Anything,
    }
}

/// Refuses operators between scalars of types that never go together.
fn mismatched(name: &str, arguments: &[Known<'_>]) -> Result<(), String> {
    let is_equality = matches!(name, "_==_" | "_!=_");
    let compares = is_equality || matches!(name, "_<_" | "_<=_" | "_>_" | "_>=_");
    let computes = matches!(name, "_+_" | "_-_" | "_*_" | "_/_" | "_%_");
    let connects = matches!(name, "_&&_" | "_||_" | "!_");
    let kinds: Vec<&str> = arguments.iter().filter_map(|known| known.scalar()).collect();
    if kinds.len() != arguments.len() {
        return Ok(());
    }
    let is_number = |kind: &str| matches!(kind, "int" | "double");
    let fits = match kinds.as_slice() {
        [left, right] if compares => left == right || is_number(left) && is_number(right) && !is_equality,
        [left, right] if computes => left == right && *left != "bool",
        kinds if connects => kinds.iter().all(|kind| *kind == "bool"),
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let kinds = kinds.join(", ");
    Err(format!(
        "found no matching overload for '{name}' applied to '({kinds})'"
    ))
}

/// Whether the server knows a function, a method or an operator. Sorted.
fn is_known(name: &str) -> bool {
    const FUNCTIONS: [&str; 148] = include!("functions.rs");
    FUNCTIONS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::Program;

    use super::*;

    fn checked(text: &str, schema: &str) -> Result<(), String> {
        let schema = ValueSchema::parse(schema.as_bytes()).unwrap();
        let program = Program::compile(text).unwrap();
        check(program.expression(), &schema, true, false, Wanted::Bool)
    }

    #[test]
    fn expressions_are_held_against_the_schema() {
        // [F17]
        let schema = r#"{"type":"object","properties":{
            "n":{"type":"integer"},"text":{"type":"string"},"list":{"type":"array","items":{"type":"object","properties":{
            "a":{"type":"string"}}}},"map":{"type":"object","additionalProperties":{"type":"integer"}},
            "any":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
        for good in [
            "self.n > 1 && self.text.startsWith('a')",
            "self.list.all(x, x.a == 'b')",
            "self.list.exists_one(x, size(x.a) > 1)",
            "self.list.map(x, x.a).size() > 1",
            "self.map.all(k, self.map[k] > 1)",
            "self.metadata.name != self.kind",
            "has(self.n) ? self.n == oldSelf.n : true",
            "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "sets.contains(['a'], ['a'])",
            "type(self.n) == int",
        ] {
            assert_eq!(checked(good, schema), Ok(()), "{good}");
        }
        for (bad, text) in [
            ("self.nope", "undefined field 'nope'"),
            ("self.any == 1", "undefined field 'any'"),
            ("self.list.all(x, x.b)", "undefined field 'b'"),
            ("self.metadata.labels == 1", "undefined field 'labels'"),
            ("self.n.a", "type 'int' does not support field selection"),
            ("self.n", "cel expression must evaluate to a bool"),
            (
                "self.n == 'a'",
                "found no matching overload for '_==_' applied to '(int, string)'",
            ),
            ("other", "undeclared reference to 'other' (in container '')"),
        ] {
            assert_eq!(checked(bad, schema), Err(text.to_owned()), "{bad}");
        }
        let unknown = checked("self.list.sortBy(x, x.a) == []", schema).unwrap_err();
        assert!(unknown.contains("undeclared reference"), "{unknown}");
    }
}
