//! Label selectors as objects have them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

/// Whether a selector selects what has these labels. One that is absent selects nothing, an empty one everything, and one
/// that is not valid nothing.
pub(crate) fn selects<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let Some(selector) = selector.as_object() else {
        return false;
    };
    let mut equal = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    equal.all(|(key, value)| label(key) == value.as_str())
        && expressions
            .into_iter()
            .flatten()
            .all(|expression| holds(expression, &label))
}

fn holds<'a>(expression: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let text = |name: &str| expression[name].as_str().unwrap_or_default();
    let found = label(text("key"));
    let values = expression["values"].as_array();
    let is_among = |found: &str| values.into_iter().flatten().any(|value| value == found);
    match text("operator") {
        "In" => found.is_some_and(is_among),
        "NotIn" => !found.is_some_and(is_among),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_selects_by_labels_and_expressions() {
        let selected = |selector: Value| selects(&selector, |key| (key == "a").then_some("x"));
        for selector in [
            json!({}),
            json!({"matchLabels": {"a": "x"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]}),
        ] {
            assert!(selected(selector.clone()), "{selector}");
        }
        for selector in [
            Value::Null,
            json!({"matchLabels": {"a": "y"}}),
            json!({"matchLabels": {"a": "x", "b": "x"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "b", "operator": "In", "values": ["x"]}]}),
        ] {
            assert!(!selected(selector.clone()), "{selector}");
        }
    }
}
