//! Packs the table of defaults: by type, the values of its fields and the rule that looks at several of them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::{object, text};

/// The statics that `defaults` includes.
pub(crate) fn defaults(table: &Value, structs: &Value, ids: &BTreeMap<&str, usize>) -> String {
    let types = object(&structs["types"]);
    let mut entries: BTreeMap<usize, &Value> = BTreeMap::new();
    for (name, entry) in object(&table["types"]) {
        let full = match name.strip_prefix("kube-aggregator.") {
            Some(rest) => format!("io.k8s.kube-aggregator.pkg.apis.{rest}"),
            None => format!("io.k8s.api.{name}"),
        };
        let id = ids.get(full.as_str()).unwrap_or_else(|| panic!("no type {full}"));
        for field in entry["values"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| field)
        {
            let known = fields(&types[&full]).any(|known| text(&known["name"]) == field);
            assert!(known, "{full} has no field {field}");
        }
        entries.insert(*id, entry);
    }
    let mut out = String::from("static ENTRIES: &[Entry] = &[\n");
    for entry in entries.values() {
        let values: Vec<(&String, String)> = entry["values"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, value)| (field, value.to_string()))
            .collect();
        let rule = entry["rule"]
            .as_str()
            .map_or_else(|| "None".to_owned(), |rule| format!("Some(rules::{rule})"));
        writeln!(out, "Entry {{ values: &{values:?}, rule: {rule} }},").expect("strings take all");
    }
    let places = places(types, ids, &entries);
    write!(out, "];\nstatic PLACES: [u16; {}] = {places:?};\n", places.len()).expect("strings take all");
    out
}

fn fields(ty: &Value) -> impl Iterator<Item = &Value> {
    ty["fields"].as_array().into_iter().flatten()
}

/// By type: 0 if nothing in it has a default, 1 if something below has, and from 2 on the place of its own entry.
fn places(
    types: &serde_json::Map<String, Value>,
    ids: &BTreeMap<&str, usize>,
    entries: &BTreeMap<usize, &Value>,
) -> Vec<usize> {
    let mut places = vec![0; types.len()];
    for (at, id) in entries.keys().enumerate() {
        places[*id] = at + 2;
    }
    loop {
        let mut changed = false;
        for (name, ty) in types {
            let id = ids[name.as_str()];
            let reaches = || {
                fields(ty).any(|field| {
                    text(&field["name"]) != "metadata"
                        && (field["go"] == "v1.ResourceList"
                            || inner(&field["t"]).is_some_and(|inner| ids.get(inner).is_some_and(|id| places[*id] > 0)))
                })
            };
            if places[id] == 0 && reaches() {
                places[id] = 1;
                changed = true;
            }
        }
        if !changed {
            return places;
        }
    }
}

/// The name of the type of a field, of an element if it is a list or a map.
fn inner(t: &Value) -> Option<&str> {
    match t {
        Value::String(name) => Some(name),
        _ => inner(t.get("list").or_else(|| t.get("map"))?),
    }
}
