//! What two values of one type differ in.

use std::collections::BTreeMap;

use super::schema::{Form, ListType, MapType, Type};
use super::{Element, MAX_DEPTH, Set, element_of, equal, filled, zip};
use crate::json::{Kind, Value};
use crate::steps::step;

/// What differs: no field is in more than one of the sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison<'t> {
    /// What only the first value has.
    pub(crate) removed: Set<'t>,
    /// What both have, and is not equal.
    pub(crate) modified: Set<'t>,
    /// What only the second value has.
    pub(crate) added: Set<'t>,
}

impl Comparison<'_> {
    /// Whether the values are equal.
    pub(crate) fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// The same without these fields and all that is below them.
    pub(crate) fn without(mut self, fields: &Set<'_>) -> Self {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            *set = std::mem::take(set).recursive_difference(fields);
        }
        self
    }

    /// What of a set is equal in both values.
    pub(crate) fn unchanged<'s>(&self, set: Set<'s>) -> Set<'s> {
        set.difference(&self.modified)
            .difference(&self.added)
            .difference(&self.removed)
    }
}

/// What became of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Removed,
    Modified,
    Added,
}

impl<'t> Comparison<'t> {
    /// Puts what was found of a child under its element.
    fn put(&mut self, element: Element<'t>, change: Change, below: Comparison<'t>) {
        if below.is_same() {
            let set = match change {
                Change::None => return,
                Change::Removed => &mut self.removed,
                Change::Modified => &mut self.modified,
                Change::Added => &mut self.added,
            };
            set.put(element, true, Set::default());
            return;
        }
        let Comparison {
            removed,
            modified,
            added,
        } = below;
        self.removed.put(element.clone(), change == Change::Removed, removed);
        self.modified.put(element.clone(), change == Change::Modified, modified);
        self.added.put(element, change == Change::Added, added);
    }
}

/// Compares two values. Keys that the type does not declare are passed over.
///
/// # Errors
///
/// The text about an item that nothing tells apart.
pub(crate) fn compare<'t>(of: Type<'_>, old: Value<'t>, new: Value<'t>) -> Result<Comparison<'t>, String> {
    let mut found = Comparison::default();
    walk(of, Some(old), Some(new), 0, &mut found)?;
    Ok(found)
}

/// Compares two values, of which at least one is there; puts what is below them into `found` and returns what became
/// of the value itself.
fn walk<'t>(
    of: Type<'_>,
    old: Option<Value<'t>>,
    new: Option<Value<'t>>,
    depth: usize,
    found: &mut Comparison<'t>,
) -> Result<Change, String> {
    step();
    if depth > MAX_DEPTH {
        return Ok(leaf(old, new));
    }
    let (old_form, new_form) = (of.form(old), of.form(new));
    let mut change = Change::None;
    // A value of two forms is seen in both of them.
    let forms = match (old_form, new_form) {
        (old_form, _) if new.is_none() => [None, old_form],
        (Some(old_form), Some(new_form)) if old.is_some() && !old_form.is_same(new_form) => {
            [Some(old_form), Some(new_form)]
        }
        (_, new_form) => [None, new_form],
    };
    let mut in_leaf = true;
    for form in forms.into_iter().flatten() {
        let (found_change, is_leaf) = in_form(form, old, new, depth, found)?;
        if found_change != Change::None {
            change = found_change;
        }
        in_leaf = is_leaf;
    }
    if !in_leaf {
        if old.is_none() {
            return Ok(Change::Added);
        }
        if new.is_none() {
            return Ok(Change::Removed);
        }
    }
    Ok(change)
}

/// Compares two values in one form; says also whether they are a leaf in it.
fn in_form<'t>(
    form: Form<'_>,
    old: Option<Value<'t>>,
    new: Option<Value<'t>>,
    depth: usize,
    found: &mut Comparison<'t>,
) -> Result<(Change, bool), String> {
    match form {
        Form::List(list) if !list.atomic() => {
            if let Some([old, new]) = filled(Kind::Array, old, new) {
                items(list, old, new, depth, found)?;
                return Ok((Change::None, false));
            }
        }
        Form::Map(map) if !map.atomic => {
            if let Some([old, new]) = filled(Kind::Object, old, new) {
                fields(map, old, new, depth, found)?;
                return Ok((Change::None, false));
            }
        }
        _ => {}
    }
    Ok((leaf(old, new), true))
}

fn leaf(old: Option<Value<'_>>, new: Option<Value<'_>>) -> Change {
    match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        (Some(old), Some(new)) if equal(old, new) => Change::None,
        _ => Change::Modified,
    }
}

fn fields<'t>(
    map: MapType<'_>,
    old: Option<Value<'t>>,
    new: Option<Value<'t>>,
    depth: usize,
    found: &mut Comparison<'t>,
) -> Result<(), String> {
    for (key, old, new) in zip(old, new) {
        if matches!((old, new), (Some(old), Some(new)) if old.raw_quoted() == new.raw_quoted()) {
            continue;
        }
        let name = key.as_str().unwrap_or_default();
        if let Some((of, _)) = map.entry(&name) {
            let mut below = Comparison::default();
            let change = walk(of, old, new, depth + 1, &mut below)?;
            found.put(Element::Field(name), change, below);
        }
    }
    Ok(())
}

/// The items of both lists that one element stands for.
type Pairs<'t> = BTreeMap<Element<'t>, (Vec<Value<'t>>, Vec<Value<'t>>)>;

fn items<'t>(
    list: ListType<'_>,
    old: Option<Value<'t>>,
    new: Option<Value<'t>>,
    depth: usize,
    found: &mut Comparison<'t>,
) -> Result<(), String> {
    let mut pairs = Pairs::new();
    for (at, item) in old.into_iter().flat_map(Value::items).enumerate() {
        pairs.entry(element(list, at, item)?).or_default().0.push(item);
    }
    for (at, item) in new.into_iter().flat_map(Value::items).enumerate() {
        pairs.entry(element(list, at, item)?).or_default().1.push(item);
    }
    let of = list.element();
    for (element, (old, new)) in pairs {
        let mut below = Comparison::default();
        let change = match (old.as_slice(), new.as_slice()) {
            ([_, _, ..], [_, _, ..]) => {
                // Equal items are compared as one value.
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(*old, *new));
                if same { Change::None } else { Change::Modified }
            }
            ([_, _, ..], new) => {
                let mut change = Change::None;
                if let Some(new) = new.first() {
                    change = walk(of, None, Some(*new), depth + 1, &mut below)?;
                }
                found.put(element.clone(), Change::Removed, Comparison::default());
                change
            }
            (old, [_, _, ..]) => {
                let mut change = Change::None;
                if let Some(old) = old.first() {
                    change = walk(of, Some(*old), None, depth + 1, &mut below)?;
                }
                found.put(element.clone(), Change::Added, Comparison::default());
                change
            }
            (old, new) => walk(of, old.first().copied(), new.first().copied(), depth + 1, &mut below)?,
        };
        found.put(element, change, below);
    }
    Ok(())
}

fn element<'t>(list: ListType<'_>, at: usize, item: Value<'t>) -> Result<Element<'t>, String> {
    element_of(list, item).map_err(|text| format!("element {at}: {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, of_definition};

    fn difference(schema: &Schema, old: &serde_json::Value, new: &serde_json::Value) -> [Vec<String>; 3] {
        let (old, new) = (old.to_string(), new.to_string());
        let (old, new) = (
            Tape::parse(old.as_bytes()).unwrap(),
            Tape::parse(new.as_bytes()).unwrap(),
        );
        let found = compare(schema.root(), old.root(), new.root()).unwrap();
        [found.removed.paths(), found.modified.paths(), found.added.paths()]
    }

    fn pod(containers: &serde_json::Value) -> serde_json::Value {
        json!({"spec": {"containers": containers}})
    }

    #[test]
    fn maps_and_scalars_differ_key_by_key() {
        // [F11]
        let schema = Schema::of_kind("", "v1", "ConfigMap");
        let none: [&str; 0] = [];
        let old = json!({"data": {"a": "1", "b": "2"}});
        assert_eq!(difference(&schema, &old, &old), [none; 3]);
        let new = json!({"data": {"a": "3", "c": "2"}, "immutable": true});
        assert_eq!(
            difference(&schema, &old, &new),
            [vec![".data.b"], vec![".data.a"], vec![".immutable", ".data.c"]]
        );
        // A map that was not there is added itself; one that is null was there.
        let all = [none.to_vec(), none.to_vec(), vec![".data", ".data.a", ".data.b"]];
        assert_eq!(difference(&schema, &json!({}), &old), all);
        let entries = [none.to_vec(), none.to_vec(), vec![".data.a", ".data.b"]];
        assert_eq!(difference(&schema, &json!({"data": null}), &old), entries);
        let empty = [none.to_vec(), vec![".data"], none.to_vec()];
        assert_eq!(difference(&schema, &json!({"data": null}), &json!({"data": {}})), empty);
    }

    #[test]
    fn lists_differ_by_their_keys_whatever_their_order() {
        // [F11]
        let schema = Schema::of_kind("", "v1", "Pod");
        let none: [&str; 0] = [];
        let old = pod(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["x"]}]));
        let new = pod(&json!([{"name": "b", "image": "1", "args": ["y"]}, {"name": "c"}, {"name": "a", "image": "1"}]));
        assert_eq!(
            difference(&schema, &old, &new),
            [
                none.to_vec(),
                vec![r#".spec.containers[name="b"].args"#],
                vec![r#".spec.containers[name="c"]"#, r#".spec.containers[name="c"].name"#],
            ]
        );
    }

    #[test]
    fn repeated_items_are_compared_as_one_value() {
        // [F11]
        let schema = Schema::of_kind("", "v1", "Pod");
        let env = |values: &[&str]| {
            let env: Vec<_> = values
                .iter()
                .map(|value| json!({"name": "x", "value": value}))
                .collect();
            pod(&json!([{"name": "a", "env": env}]))
        };
        let none: [&str; 0] = [];
        let path = r#".spec.containers[name="a"].env[name="x"]"#;
        let inner = [format!("{path}.name"), format!("{path}.value")];
        assert_eq!(difference(&schema, &env(&["1", "2"]), &env(&["1", "2"])), [none; 3]);
        assert_eq!(
            difference(&schema, &env(&["1", "2"]), &env(&["2", "1"])),
            [vec![], vec![path.to_owned()], vec![]]
        );
        let [removed, modified, added] = difference(&schema, &env(&["1", "2"]), &env(&["2"]));
        assert_eq!((removed, modified), (vec![path.to_owned()], vec![]));
        assert_eq!(added, [vec![path.to_owned()], inner.to_vec()].concat());
        let [removed, modified, added] = difference(&schema, &env(&["1"]), &env(&["1", "2"]));
        assert_eq!((modified, added), (vec![], vec![path.to_owned()]));
        assert_eq!(removed, [vec![path.to_owned()], inner.to_vec()].concat());
    }

    #[test]
    fn a_value_that_changes_its_kind_is_seen_in_both() {
        // [F11]
        let schema = of_definition(None);
        let none: [&str; 0] = [];
        assert_eq!(
            difference(&schema, &json!({"a": {"b": 1}}), &json!({"a": 2})),
            [vec![".a.b"], vec![".a"], none.to_vec()]
        );
        assert_eq!(
            difference(&schema, &json!({"a": 1}), &json!({"a": {"b": 1}})),
            [none.to_vec(), vec![".a"], vec![".a.b"]]
        );
    }
}
