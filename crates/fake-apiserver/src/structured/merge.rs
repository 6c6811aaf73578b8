//! One value put over another, part by part.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::{Form, ListType, MapType, Type};
use super::{Element, MAX_DEPTH, element_of, filled, zip};
use crate::json::{Kind, Value};
use crate::patch::Node;
use crate::steps::step;

/// What `live` is after `applied` was put over it. Nothing is removed; the items of a list that is merged are in the order
/// of `applied` where that has them.
///
/// `applied` is of the type: [`check`](super::check) has found nothing.
///
/// # Errors
///
/// The text about an item of `live` that nothing tells apart.
pub(crate) fn merge<'t>(of: Type<'_>, live: Value<'t>, applied: Value<'t>) -> Result<Node<'t>, String> {
    let merged = walk(of, Some(live), Some(applied), 0)?;
    Ok(merged.unwrap_or(Node::Null))
}

fn walk<'t>(
    of: Type<'_>,
    live: Option<Value<'t>>,
    applied: Option<Value<'t>>,
    depth: usize,
) -> Result<Option<Node<'t>>, String> {
    step();
    let leaf = applied.or(live);
    if depth > MAX_DEPTH {
        return Ok(leaf.map(Node::Parsed));
    }
    match of.form(leaf) {
        Some(Form::List(list)) if !list.atomic() => {
            if let Some([live, applied]) = filled(Kind::Array, live, applied) {
                return items(list, live, applied, depth).map(Some);
            }
        }
        Some(Form::Map(map)) if !map.atomic => {
            if let Some([live, applied]) = filled(Kind::Object, live, applied) {
                return fields(map, live, applied, depth).map(Some);
            }
        }
        _ => {}
    }
    Ok(leaf.map(Node::Parsed))
}

fn fields<'t>(
    map: MapType<'_>,
    live: Option<Value<'t>>,
    applied: Option<Value<'t>>,
    depth: usize,
) -> Result<Node<'t>, String> {
    let mut merged = Vec::new();
    for (key, live, applied) in zip(live, applied) {
        let name = key.as_str().unwrap_or_default();
        let value = match map.entry(&name) {
            Some((of, _)) => walk(of, live, applied, depth + 1)?,
            // What the schema does not know, nobody applies.
            None => live.map(Node::Parsed),
        };
        merged.extend(value.map(|value| (name, value)));
    }
    Ok(Node::Object(merged.into_iter().collect()))
}

/// A list's items with what tells each apart.
fn indexed<'t>(list: ListType<'_>, value: Option<Value<'t>>) -> Result<Vec<(Element<'t>, Value<'t>)>, String> {
    let items = value.into_iter().flat_map(Value::items).enumerate();
    items
        .map(|(at, item)| {
            let element = element_of(list, item).map_err(|text| format!("element {at}: {text}"))?;
            Ok((element, item))
        })
        .collect()
}

/// Merges two lists: shared items in the order of the applied list, items of the live list between them where they were.
fn items<'t>(
    list: ListType<'_>,
    live: Option<Value<'t>>,
    applied: Option<Value<'t>>,
    depth: usize,
) -> Result<Node<'t>, String> {
    let (live, applied) = (indexed(list, live)?, indexed(list, applied)?);
    // Of several items of the live list that are equal none is merged.
    let mut of_live: BTreeMap<&Element<'t>, Option<Value<'t>>> = BTreeMap::new();
    for (element, item) in &live {
        of_live
            .entry(element)
            .and_modify(|item| *item = None)
            .or_insert(Some(*item));
    }
    let is_applied: BTreeSet<&Element<'t>> = applied.iter().map(|(element, _)| element).collect();
    let mut shared = applied
        .iter()
        .map(|(element, _)| element)
        .filter(|element| of_live.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element<'t>> = BTreeSet::new();
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut put = |live, applied| -> Result<(), String> {
        merged.extend(walk(list.element(), live, applied, depth + 1)?);
        Ok(())
    };
    let merge_with = |element: &Element<'t>| of_live.get(element).copied().flatten();
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < applied.len() {
        step();
        match (live.get(l), applied.get(r)) {
            (Some((element, _)), Some((other, item))) if element == other => {
                put(merge_with(other), Some(*item))?;
                done.insert(other);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            (Some((element, _)), Some(_))
                if is_applied.contains(element) && next_shared.is_some_and(|next| next != element) =>
            {
                l += 1; // shared, but another one comes first
                continue;
            }
            _ => {}
        }
        if let Some((element, item)) = live.get(l) {
            if !is_applied.contains(element) {
                put(Some(*item), None)?;
                l += 1;
                continue;
            }
            // It is there already, or will not come any more.
            if done.contains(element) || r == applied.len() {
                l += 1;
            }
        }
        if let Some((element, item)) = applied.get(r) {
            put(merge_with(element), Some(*item))?;
            done.insert(element);
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    Ok(Node::Array(merged))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, of_definition};

    fn merged(schema: &Schema, live: &Json, applied: &Json) -> Json {
        let (live, applied) = (live.to_string(), applied.to_string());
        let (live, applied) = (
            Tape::parse(live.as_bytes()).unwrap(),
            Tape::parse(applied.as_bytes()).unwrap(),
        );
        let mut out = Vec::new();
        merge(schema.root(), live.root(), applied.root())
            .unwrap()
            .write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn maps_merge_key_by_key_and_atomic_ones_are_replaced() {
        // [F11]
        let pod = Schema::of_kind("", "v1", "Pod");
        let live = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"nodeSelector": {"a": "1"}, "x": 1}});
        let applied = json!({"metadata": {"labels": {"b": "2"}}, "spec": {"nodeSelector": {"b": "2"}}});
        assert_eq!(
            merged(&pod, &live, &applied),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeSelector": {"b": "2"}, "x": 1}})
        );
        let live = json!({"spec": {"hostAliases": null, "nodeSelector": {"a": "1"}}});
        assert_eq!(
            merged(&pod, &live, &json!({"spec": {"hostAliases": []}})).pointer("/spec/hostAliases"),
            Some(&json!([]))
        );
    }

    #[test]
    fn lists_merge_by_their_keys_in_the_order_of_what_is_applied() {
        // [F11]
        let set = of_definition(Some(&json!({
            "type": "object",
            "properties": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}},
        })));
        for (live, applied, result) in [
            (json!([1, 2, 3]), json!([2]), json!([1, 2, 3])),
            (json!([1, 2, 3]), json!([3, 1]), json!([2, 3, 1])),
            (json!([1, 2]), json!([3]), json!([1, 2, 3])),
            (json!([1, 2, 3]), json!([4, 2]), json!([1, 4, 2, 3])),
            (json!([]), json!([2, 1]), json!([2, 1])),
            (json!([1, 1, 2]), json!([1]), json!([1, 2])),
        ] {
            let found = merged(&set, &json!({"l": live}), &json!({"l": applied}));
            assert_eq!(found, json!({"l": result}), "{live} and {applied}");
        }
        let pod = Schema::of_kind("", "v1", "Pod");
        let live = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let applied = json!({"spec": {"containers": [{"name": "b", "args": ["x"]}]}});
        assert_eq!(
            merged(&pod, &live, &applied),
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["x"]}]}})
        );
    }
}
