//! The JSON merge patch (RFC 7396) that leads from one state of an object to another.

use serde_json::{Map, Value};

/// The patch that turns `from` into `to`; `None` if they are equal.
///
/// It names only what differs, so that fields which neither side knows survive on the server. A `null` inside of `to`
/// means the same as a missing field, as it does in the Kubernetes API.
pub(crate) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return Some(to.clone());
    };
    let mut patch = Map::new();
    for (field, old) in from {
        match to.get(field) {
            None => {
                patch.insert(field.clone(), Value::Null);
            }
            Some(new) => patch.extend(merge_patch(old, new).map(|change| (field.clone(), change))),
        }
    }
    let added = to.iter().filter(|(field, _)| !from.contains_key(*field));
    patch.extend(added.map(|(field, value)| (field.clone(), value.clone())));
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 7396, section 2, written down as it stands there.
    fn apply(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(target) => target,
            _ => Map::new(),
        };
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                let old = target.remove(name).unwrap_or(Value::Null);
                target.insert(name.clone(), apply(old, value));
            }
        }
        Value::Object(target)
    }

    #[test]
    fn patch_names_only_what_differs() {
        let from = json!({"spec": {"a": 1, "b": [1, 2], "c": {"d": 1, "e": 2}}, "gone": true});
        let to = json!({"spec": {"a": 1, "b": [2], "c": {"d": 1, "e": 3}}, "new": {"x": 1}});
        let patch = merge_patch(&from, &to).unwrap();
        assert_eq!(
            patch,
            json!({"spec": {"b": [2], "c": {"e": 3}}, "gone": null, "new": {"x": 1}})
        );
        assert_eq!(apply(from, &patch), to);
        assert_eq!(merge_patch(&to, &to), None);
    }

    /// A random value without nulls, as the API server's canonical form has none.
    fn random(rng: &mut fastrand::Rng, depth: u32) -> Value {
        match rng.u32(..if depth == 0 { 3 } else { 5 }) {
            0 => json!(rng.bool()),
            1 => json!(rng.u8(..3)),
            2 => json!(format!("text{}", rng.u8(..3))),
            3 => (0..rng.usize(..3)).map(|_| random(rng, depth - 1)).collect(),
            _ => {
                let fields = 0..rng.usize(..4);
                Value::Object(
                    fields
                        .map(|_| (format!("f{}", rng.u8(..4)), random(rng, depth - 1)))
                        .collect(),
                )
            }
        }
    }

    // [W3] the patch between any two states leads from the one to the other
    #[test]
    fn applying_the_patch_gives_the_other_state() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..5_000 {
            let object = |rng: &mut fastrand::Rng| json!({"spec": random(rng, 3), "status": random(rng, 3)});
            let (from, to) = (object(&mut rng), object(&mut rng));
            let patched = merge_patch(&from, &to).map_or_else(|| from.clone(), |patch| apply(from.clone(), &patch));
            assert_eq!(patched, to, "seed {seed}, from {from}");
        }
    }
}
