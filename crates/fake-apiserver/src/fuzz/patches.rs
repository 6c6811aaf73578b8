//! JSON patch and merge patch, beside naive models over another library's documents.

use serde_json::{Map, Value};

use super::{Target, parts};
use crate::codec::FieldValidation;
use crate::patch::{PatchType, apply, field_findings};

/// A document and a patch, which is tried as either type.
pub(super) const TARGET: Target = Target {
    name: "patches",
    run,
    seeds: &[
        "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"e\"}\n[{\"op\":\"add\",\"path\":\"/a/b/1\",\"value\":{\"x\":1}},{\"op\":\"test\",\"path\":\"/d\",\"value\":\"e\"},{\"op\":\"move\",\"from\":\"/a/b\",\"path\":\"/f\"},{\"op\":\"copy\",\"from\":\"/f/0\",\"path\":\"/a/~0~1\"},{\"op\":\"remove\",\"path\":\"/d\"},{\"op\":\"replace\",\"path\":\"/f/-1\",\"value\":[]}]",
        "{\"a\":{\"b\":1,\"c\":[{\"d\":null}]}}\n{\"a\":{\"b\":null,\"c\":[{\"d\":null,\"e\":1}],\"f\":{\"g\":null}}}",
        "{\"a\":[]}\n[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":null},{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/0\"},{\"op\":\"test\",\"path\":\"\",\"value\":{}}]",
    ],
    words: &[
        "{\"op\":\"add\",\"path\":\"/a\",\"value\":1}",
        "\"move\"",
        "\"copy\"",
        "\"test\"",
        "\"remove\"",
        "\"replace\"",
        "\"from\":\"/a\"",
        "/-",
        "/-1",
        "/0",
        "~1",
        "~0",
        "/",
        "null",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"\"",
    ],
};

fn run(data: &[u8]) {
    let Some([document, patch]) = parts(data) else { return };
    let (Ok(current), true) = (serde_json::from_slice::<Value>(document), document.starts_with(b"{")) else {
        return;
    };
    for patch_type in [PatchType::Json, PatchType::Merge] {
        // Whatever is found, nothing breaks.
        let _ = field_findings(patch_type, patch);
        let strict = apply(patch_type, document, patch, FieldValidation::Strict);
        let loose = apply(patch_type, document, patch, FieldValidation::Ignore);
        let Ok(model) = serde_json::from_slice::<Value>(patch) else {
            continue;
        };
        let mut copied = 0;
        let wanted = match patch_type {
            PatchType::Json => json_patch(current.clone(), &model, &mut copied),
            _ => model.is_object().then(|| {
                let mut merged = current.clone();
                merge(&mut merged, &model);
                merged
            }),
        };
        // What would grow out of hand is refused, by limits that the model does not know.
        let too_much = copied > COPIED || wanted.as_ref().is_some_and(|wanted| depth(wanted) > DEPTH);
        if too_much {
            continue;
        }
        let found = strict.as_ref().ok().map(|text| read(text));
        assert_eq!(found, wanted, "{patch_type:?} of {current} and {model}: {strict:?}");
        if strict.is_ok() {
            assert_eq!(loose, strict, "validation does not change the result");
        }
    }
    for (patch_type, nothing) in [(PatchType::Json, "[]"), (PatchType::Merge, "{}")] {
        let same = apply(patch_type, document, nothing.as_bytes(), FieldValidation::Strict).expect("nothing to do");
        assert_eq!(read(&same), current);
    }
}

/// So many bytes may be copied, and so deep may a document be, without any limit of the server, or of the reader of results.
const COPIED: usize = 100_000;
const DEPTH: usize = 120;

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or_default()
}

fn read(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

/// RFC 7386, and nulls inside of lists go as well, unless the list takes the place of an object.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(entries) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                entries.remove(key);
            }
            Value::Object(_) => merge(entries.entry(key.clone()).or_insert(Value::Null), value),
            Value::Array(_) if !entries.get(key).is_some_and(Value::is_object) => {
                entries.insert(key.clone(), without_nulls(value.clone()));
            }
            other => {
                entries.insert(key.clone(), other.clone());
            }
        }
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// RFC 6902 with the leniency of the real server; none if the patch is refused.
fn json_patch(mut document: Value, patch: &Value, copied: &mut usize) -> Option<Value> {
    let operations = match patch {
        Value::Null => &[][..],
        Value::Array(operations) => operations,
        _ => return None,
    };
    // All are looked at before the first is run.
    for operation in operations {
        let members = match operation {
            Value::Null => continue,
            Value::Object(members) => members,
            _ => return None,
        };
        let is_text = |name| {
            members
                .get(name)
                .is_none_or(|value| value.is_string() || value.is_null())
        };
        if !["op", "path", "from"].into_iter().all(is_text) {
            return None;
        }
    }
    for operation in operations {
        operate(&mut document, operation, copied)?;
    }
    Some(document)
}

fn operate(document: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = operation.get("value").cloned();
    let path = text("path");
    match text("op")? {
        "add" => add(document, path?, value.unwrap_or_default()),
        "remove" => take(document, path?).map(drop),
        "replace" if path?.is_empty() => {
            *document = value.filter(|value| value.is_object() || value.is_array())?;
            Some(())
        }
        "replace" => {
            let (container, key) = find(document, path?)?;
            match container {
                Value::Object(entries) => {
                    entries.insert(key, value.unwrap_or_default());
                }
                Value::Array(items) => {
                    let at = index(&key, items.len())?;
                    items[at] = value.unwrap_or_default();
                }
                _ => return None,
            }
            Some(())
        }
        "move" => {
            let value = take(document, text("from")?)?;
            add(document, path?, value)
        }
        "copy" => {
            let value = look(document, text("from")?)?;
            *copied += value.to_string().len();
            if *copied > COPIED {
                return None;
            }
            add(document, path?, value)
        }
        "test" => {
            let wanted = value.unwrap_or_default();
            let found = if path?.is_empty() {
                document.clone()
            } else {
                look(document, path?)?
            };
            equal(&found, &wanted).then_some(())
        }
        _ => None,
    }
}

/// Numbers are equal by value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn find<'v>(document: &'v mut Value, path: &str) -> Option<(&'v mut Value, String)> {
    let mut keys: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = keys.pop()?;
    let mut at = document;
    for key in keys {
        at = match at {
            Value::Object(entries) => entries.get_mut(&key)?,
            Value::Array(items) => {
                let at = index(&key, items.len())?;
                &mut items[at]
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then_some((at, last))
}

fn index(key: &str, length: usize) -> Option<usize> {
    let at: i64 = key.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at.checked_add(length)? } else { at };
    usize::try_from(at).ok().filter(|_| at < length)
}

fn look(document: &mut Value, path: &str) -> Option<Value> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(entries) => Some(entries.get(&key).cloned().unwrap_or_default()),
        Value::Array(items) => Some(items[index(&key, items.len())?].clone()),
        _ => None,
    }
}

fn take(document: &mut Value, path: &str) -> Option<Value> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(entries) => entries.remove(&key),
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(entries) => {
            entries.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}
