//! The paths of printer columns: names, indexes, slices, wildcards and filters, as `kubectl` reads them.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From the end if negative.
    Index(i64),
    Slice(Option<i64>, Option<i64>, i64),
    Every,
    /// Everything below, wherever.
    Below(String),
    /// Items for which this holds of what a path leads to.
    Filter(Vec<Step>, Option<(Operator, Value)>),
    Union(Vec<Step>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The first value that a path leads to; nothing for a path that is none.
pub(crate) fn first(root: &Value, path: &str) -> Option<Value> {
    let steps = parse(path)?;
    find(root, &steps).into_iter().next().cloned()
}

fn find<'v>(root: &'v Value, steps: &[Step]) -> Vec<&'v Value> {
    let mut values = vec![root];
    for step in steps {
        values = values.into_iter().flat_map(|value| take(value, step)).collect();
    }
    values
}

fn take<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => at(items(), *index).into_iter().collect(),
        Step::Slice(start, end, step) => slice(items(), *start, *end, *step),
        Step::Every => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Below(name) => {
            let mut found: Vec<&Value> = value.get(name).into_iter().collect();
            for below in take(value, &Step::Every) {
                found.extend(take(below, step));
            }
            found
        }
        Step::Filter(path, test) => items()
            .iter()
            .filter(|item| passes(item, path, test.as_ref()))
            .collect(),
        Step::Union(steps) => steps.iter().flat_map(|step| take(value, step)).collect(),
    }
}

fn place(index: i64, count: usize) -> i64 {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if index < 0 { index.saturating_add(count) } else { index }
}

fn at(items: &[Value], index: i64) -> Option<&Value> {
    usize::try_from(place(index, items.len()))
        .ok()
        .and_then(|index| items.get(index))
}

fn slice(items: &[Value], start: Option<i64>, end: Option<i64>, step: i64) -> Vec<&Value> {
    let bound = |index: i64| {
        usize::try_from(place(index, items.len()).max(0))
            .unwrap_or_default()
            .min(items.len())
    };
    let (start, end) = (bound(start.unwrap_or(0)), end.map_or(items.len(), bound));
    let step = usize::try_from(step.max(1)).unwrap_or(1);
    items.get(start..end).unwrap_or_default().iter().step_by(step).collect()
}

fn passes(item: &Value, path: &[Step], test: Option<&(Operator, Value)>) -> bool {
    let Some(found) = find(item, path).into_iter().next() else {
        return false;
    };
    let Some((operator, wanted)) = test else { return true };
    let order = match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => found.as_f64().partial_cmp(&wanted.as_f64()),
        (Value::String(found), Value::String(wanted)) => Some(found.cmp(wanted)),
        (Value::Bool(found), Value::Bool(wanted)) => Some(found.cmp(wanted)),
        _ => None,
    };
    order.is_some_and(|order| match operator {
        Operator::Equal => order.is_eq(),
        Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    })
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, after) = if let Some(below) = rest.strip_prefix("..") {
            let (name, after) = name(below);
            (Step::Below(name), after)
        } else if let Some(named) = rest.strip_prefix('.') {
            // A dot before a bracket says nothing.
            if named.starts_with('[') || named.is_empty() {
                rest = named;
                continue;
            }
            let (name, after) = name(named);
            let step = if name == "*" { Step::Every } else { Step::Field(name) };
            (step, after)
        } else if let Some(inner) = rest.strip_prefix('[') {
            let end = bracket_end(inner)?;
            (bracket(&inner[..end])?, &inner[end + 1..])
        } else {
            return None;
        };
        steps.push(step);
        rest = after;
    }
    Some(steps)
}

/// A name up to the next dot or bracket; a backslash takes away what the next character means.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where a bracket ends.
fn bracket_end(text: &str) -> Option<usize> {
    let (mut quote, mut depth, mut escaped) = (None, 0, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::Every);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return self::filter(filter);
    }
    if let Some(name) = quoted(inner) {
        return Some(Step::Field(name));
    }
    if inner.contains(',') {
        let steps: Option<Vec<Step>> = inner.split(',').map(bracket).collect();
        return steps.map(Step::Union);
    }
    if inner.contains(':') {
        let mut parts = inner.split(':').map(|part| match part.trim() {
            "" => Some(None),
            digits => digits.parse().ok().map(Some),
        });
        let (start, end) = (parts.next()??, parts.next()??);
        let step = parts.next().unwrap_or(Some(None))?;
        return Some(Step::Slice(start, end, step.unwrap_or(1)));
    }
    inner.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote)).then(|| inner.replace('\\', ""))
}

fn filter(text: &str) -> Option<Step> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let found = OPERATORS.iter().find_map(|(sign, operator)| {
        let (left, right) = text.split_once(sign)?;
        Some((left, *operator, right))
    });
    let path_of = |text: &str| parse(text.trim().strip_prefix('@')?);
    let Some((left, operator, right)) = found else {
        return Some(Step::Filter(path_of(text)?, None));
    };
    let right = right.trim();
    let wanted = match quoted(right) {
        Some(text) => text.into(),
        None => serde_json::from_str(right).ok()?,
    };
    Some(Step::Filter(path_of(left)?, Some((operator, wanted))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_what_they_lead_to_on_a_real_server() {
        // [F17] [F4]
        let root = json!({
            "spec": {"list": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "map": {"k": "v"}},
            "metadata": {"labels": {"a.b/c": "l"}},
        });
        for (path, found) in [
            (".spec.list[0].name", json!("a")),
            (".spec.list[-1].name", json!("b")),
            (".spec.list[*].name", json!("a")),
            (".spec.list[1:].name", json!("b")),
            (".spec.list[-1:].name", json!("b")),
            (r#".spec.list[?(@.name=="b")].n"#, json!(2)),
            (".spec.list[?(@.n>1)].name", json!("b")),
            (".spec.list[?(@.nope)].name", Value::Null),
            (".spec.list[1,0].name", json!("b")),
            (".spec.map.*", json!("v")),
            (".spec['map'].k", json!("v")),
            ("..k", json!("v")),
            (r".metadata.labels.a\.b/c", json!("l")),
            (r".metadata.labels['a\.b/c']", json!("l")),
            (".spec.list[7].name", Value::Null),
            (".spec.list[", Value::Null),
            ("spec", Value::Null),
        ] {
            assert_eq!(first(&root, path).unwrap_or_default(), found, "{path}");
        }
    }
}
