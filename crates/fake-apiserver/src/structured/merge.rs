//! One value put over another, part by part.

use super::schema::{Form, ListType, MapType, Type};
use super::{Element, MAX_DEPTH, element_of, is_empty, zip};
use crate::json::{Kind, Value};
use crate::patch::Node;

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
    let leaf = || Ok(applied.or(live).map(Node::Parsed));
    if depth > MAX_DEPTH {
        return leaf();
    }
    let form = if applied.is_some() {
        of.form(applied)
    } else {
        of.form(live)
    };
    let kept = |kind: Kind| {
        let of_kind = move |value: Option<Value<'t>>| value.filter(|value| value.kind() == kind);
        (of_kind(live), of_kind(applied))
    };
    match form {
        Some(Form::List(list)) if !list.atomic() => {
            let (live, applied) = kept(Kind::Array);
            if is_empty(live) && is_empty(applied) {
                return leaf();
            }
            items(list, live, applied, depth).map(Some)
        }
        Some(Form::Map(map)) if !map.atomic => {
            let (live, applied) = kept(Kind::Object);
            if is_empty(live) && is_empty(applied) {
                return leaf();
            }
            fields(map, live, applied, depth).map(Some)
        }
        _ => leaf(),
    }
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
    Ok(Node::Object(merged))
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

/// Two lists on their way into one.
struct Weave<'l, 't> {
    list: ListType<'l>,
    live: Vec<(Element<'t>, Value<'t>)>,
    applied: Vec<(Element<'t>, Value<'t>)>,
    depth: usize,
    merged: Vec<Node<'t>>,
}

impl<'t> Weave<'_, 't> {
    fn is_applied(&self, element: &Element<'_>) -> bool {
        self.applied.iter().any(|(other, _)| other == element)
    }

    /// The item of the live list; none if several are equal, since none of them is merged then.
    fn of_live(&self, element: &Element<'_>) -> Option<Value<'t>> {
        let mut found = self.live.iter().filter(|(other, _)| other == element);
        let first = found.next().map(|(_, item)| *item);
        first.filter(|_| found.next().is_none())
    }

    fn push(&mut self, live: Option<Value<'t>>, applied: Option<Value<'t>>) -> Result<(), String> {
        let merged = walk(self.list.element(), live, applied, self.depth + 1)?;
        self.merged.extend(merged);
        Ok(())
    }

    fn push_applied(&mut self, at: usize) -> Result<(), String> {
        let (element, item) = self.applied[at].clone();
        self.push(self.of_live(&element), Some(item))
    }
}

/// Merges two lists: shared items in the order of the applied list, items of the live list between them where they were.
fn items<'t>(
    list: ListType<'_>,
    live: Option<Value<'t>>,
    applied: Option<Value<'t>>,
    depth: usize,
) -> Result<Node<'t>, String> {
    let mut weave = Weave {
        list,
        live: indexed(list, live)?,
        applied: indexed(list, applied)?,
        depth,
        merged: Vec::new(),
    };
    let is_live = |weave: &Weave<'_, 't>, element: &Element<'t>| weave.live.iter().any(|(other, _)| other == element);
    let shared: Vec<Element<'t>> = weave.applied.iter().map(|(element, _)| element.clone()).collect();
    let mut shared = shared
        .into_iter()
        .filter(|element| is_live(&weave, element))
        .collect::<Vec<_>>()
        .into_iter();
    let mut next_shared = shared.next();
    let mut done: Vec<Element<'t>> = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < weave.live.len() || r < weave.applied.len() {
        if l < weave.live.len() && r < weave.applied.len() {
            let element = weave.live[l].0.clone();
            if element == weave.applied[r].0 {
                weave.push_applied(r)?;
                done.push(element);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if weave.is_applied(&element) && next_shared.as_ref().is_some_and(|next| *next != element) {
                l += 1; // shared, but another one comes first
                continue;
            }
        }
        if l < weave.live.len() {
            let (element, item) = weave.live[l].clone();
            if !weave.is_applied(&element) {
                weave.push(Some(item), None)?;
                l += 1;
                continue;
            }
            if done.contains(&element) {
                l += 1;
            }
        }
        if r < weave.applied.len() {
            let element = weave.applied[r].0.clone();
            weave.push_applied(r)?;
            r += 1;
            if next_shared.as_ref() == Some(&element) {
                next_shared = shared.next();
            }
            done.push(element);
        }
    }
    Ok(Node::Array(weave.merged))
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
