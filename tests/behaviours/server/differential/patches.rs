//! Random patches of all types to a few objects whose lists and maps are merged in every way there is.

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::noise::pick;
use super::kinds::Kind;
use super::pair::Pair;
use super::probe::{Content, Probe};
use super::{Report, bodies, compare};

const SEEDS: [u64; 2] = [1, 2];
const PATCHES: usize = 400;

/// How many patches the same objects meet.
const EPOCH: usize = 40;

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The objects: resource, and what a creation sends.
fn objects() -> Vec<(&'static str, Value)> {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid});
    let metadata = json!({
        "name": "a",
        "labels": {"a": "1", "b": "2"},
        "annotations": {"a": "1"},
        "finalizers": ["x.io/a", "x.io/b", "x.io/c"],
        "ownerReferences": [owner("a"), owner("b")],
    });
    vec![
        (
            "serviceaccounts",
            json!({
                "metadata": metadata, "secrets": [{"name": "a"}, {"name": "b", "kind": "k"}, {"name": "c"}, {"name": "d"}],
                "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
            }),
        ),
        (
            "configmaps",
            json!({"metadata": metadata, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "dg=="}}),
        ),
        (
            "secrets",
            json!({"metadata": metadata, "data": {"a": "dg==", "b": "dg=="}}),
        ),
    ]
}

/// A value where another one belongs.
fn odd(rng: &mut Rng) -> Value {
    match rng.u8(..10) {
        0 | 1 => Value::Null,
        2 => json!(5),
        3 => json!(1.5),
        4 => json!("x"),
        5 => json!([]),
        6 => json!({}),
        7 => json!(["x", {"name": "a"}]),
        8 => json!({"$patch": "delete"}),
        _ => json!(true),
    }
}

/// A value, or rarely an odd one.
fn mostly(rng: &mut Rng, value: Value) -> Value {
    if rng.u8(..24) == 0 { odd(rng) } else { value }
}

fn directive(rng: &mut Rng) -> Value {
    let directive = pick(
        rng,
        &["delete", "delete", "delete", "replace", "replace", "merge", "nope"],
    );
    mostly(rng, directive.into())
}

/// A patch of a map of texts.
fn map(rng: &mut Rng) -> Value {
    let mut map = json!({});
    for _ in 0..rng.usize(..3) {
        let value = [Value::Null, json!("1"), json!("2"), json!("dg==")][rng.usize(..4)].clone();
        map[pick(rng, &["a", "b", "c", "d"])] = mostly(rng, value);
    }
    match rng.u8(..12) {
        0 => map["$patch"] = directive(rng),
        1 => {
            let keys = ["a", "b", "c", "d"]
                .into_iter()
                .filter(|_| rng.bool())
                .collect::<Vec<_>>();
            map["$retainKeys"] = json!(keys);
        }
        _ => {}
    }
    mostly(rng, map)
}

/// Some of these, in some order.
fn some<'a>(rng: &mut Rng, of: &[&'a str]) -> Vec<&'a str> {
    let mut chosen: Vec<_> = of.iter().copied().filter(|_| rng.u8(..3) == 0).collect();
    rng.shuffle(&mut chosen);
    chosen
}

/// An item of a list with a merge key.
fn item(rng: &mut Rng, key: &str, name: &str) -> Value {
    let mut item = json!({key: name});
    match rng.u8(..12) {
        0 | 1 => item["$patch"] = directive(rng),
        2 => item["nope"] = odd(rng),
        3 => item["kind"] = odd(rng),
        4 => item["kind"] = "x".into(),
        5 => item = json!({"kind": "x"}),
        // An item without a key makes the real server lose track of owners.
        6 => item[key] = Some(odd(rng)).filter(|odd| !odd.is_null()).unwrap_or(Value::Bool(true)),
        7 => item["$retainKeys"] = json!([key]),
        8 => item["namespace"] = "n".into(),
        9 if key == "uid" => item["controller"] = rng.bool().into(),
        _ => {}
    }
    if key == "uid" && rng.u8(..8) > 0 {
        for (field, value) in [("apiVersion", "v1"), ("kind", "ConfigMap"), ("name", "n")] {
            if item.get(field).is_none() {
                item[field] = value.into();
            }
        }
    }
    mostly(rng, item)
}

/// Adds to a patch what it says of a list: its items, their order, and which of them go.
fn list(rng: &mut Rng, patch: &mut Value, field: &str, key: Option<&str>) {
    let names: &[&str] = match key {
        Some(_) => &["a", "b", "c", "d", "e", "f"],
        None => &["x.io/a", "x.io/b", "x.io/c", "x.io/d", "x.io/e"],
    };
    let chosen = some(rng, names);
    let items = |rng: &mut Rng, names: &[&str], with_directives: bool| -> Value {
        let items = names.iter().map(|name| match key {
            Some(key) if with_directives => item(rng, key, name),
            Some(key) => json!({key: name}),
            None => mostly(rng, (*name).into()),
        });
        items.collect()
    };
    let ways = rng.u8(1..8);
    if ways & 1 > 0 {
        let mut value = items(rng, &chosen, true);
        if let Some(list) = value.as_array_mut()
            && key.is_some()
            && rng.u8(..12) == 0
        {
            list.push(json!({"$patch": "replace"}));
        }
        patch[field] = mostly(rng, value);
    }
    if ways & 2 > 0 {
        // An order that fits, mostly, and names more.
        let mut order = chosen.clone();
        if rng.u8(..6) == 0 {
            rng.shuffle(&mut order);
        }
        for name in some(rng, names) {
            if !order.contains(&name) {
                order.insert(rng.usize(..=order.len()), name);
            }
        }
        let value = items(rng, &order, false);
        patch[format!("$setElementOrder/{field}")] = mostly(rng, value);
    }
    if ways & 4 > 0 && (key.is_none() || rng.u8(..6) == 0) {
        let gone = some(rng, names);
        let value = items(rng, &gone, false);
        patch[format!("$deleteFromPrimitiveList/{field}")] = mostly(rng, value);
    }
}

fn strategic(rng: &mut Rng, plural: &str) -> Value {
    let mut patch = json!({});
    let mut metadata = json!({});
    match rng.u8(..6) {
        0 => metadata["labels"] = map(rng),
        1 => metadata["annotations"] = map(rng),
        2 => list(rng, &mut metadata, "finalizers", None),
        3 => list(rng, &mut metadata, "ownerReferences", Some("uid")),
        4 if rng.u8(..4) == 0 => metadata[pick(rng, &["nope", "name", "generation", "creationTimestamp"])] = odd(rng),
        _ => {}
    }
    if metadata != json!({}) {
        patch["metadata"] = mostly(rng, metadata);
    }
    match plural {
        "serviceaccounts" => {
            if rng.bool() {
                list(rng, &mut patch, "secrets", Some("name"));
            }
            if rng.u8(..3) == 0 {
                list(rng, &mut patch, "imagePullSecrets", Some("name"));
            }
        }
        _ => patch[pick(rng, &["data", "data", "binaryData", "stringData"])] = map(rng),
    }
    match rng.u8(..32) {
        0 => patch["$patch"] = directive(rng),
        1 => patch["$retainKeys"] = json!(["metadata", "data", "secrets"]),
        2 => patch["nope"] = odd(rng),
        _ => {}
    }
    mostly(rng, patch)
}

fn probe(rng: &mut Rng, plural: &'static str) -> Probe {
    let (content_type, body) = match (Kind::of(plural), rng.u8(..8)) {
        (Some(kind), 0) => bodies::patch(rng, kind),
        (_, 1) => ("application/merge-patch+json", Content::Json(strategic(rng, plural))),
        _ => (STRATEGIC, Content::Json(strategic(rng, plural))),
    };
    let mut query = Vec::new();
    if rng.u8(..3) == 0 {
        query.push(
            pick(
                rng,
                &["fieldValidation=Strict", "fieldValidation=Ignore", "fieldManager=m"],
            )
            .to_owned(),
        );
    }
    Probe {
        method: "PATCH",
        path: format!("/api/v1/namespaces/{{ns}}/{plural}/a"),
        query,
        headers: vec![("content-type", content_type.to_owned())],
        body,
        resource: plural,
    }
}

/// The next request of a stretch: first the objects, then patches of them.
fn next(rng: &mut Rng, step: usize) -> Probe {
    let objects = objects();
    let Some((plural, object)) = objects.get(step) else {
        let (plural, _) = objects[rng.usize(..objects.len())];
        return probe(rng, plural);
    };
    Probe {
        method: "POST",
        path: format!("/api/v1/namespaces/{{ns}}/{plural}"),
        query: Vec::new(),
        headers: vec![("content-type", "application/json".to_owned())],
        body: Content::Json(object.clone()),
        resource: plural,
    }
}

// [F10] patches of all types, strategic ones with directives above all, do the same
#[tokio::test]
#[ignore = "needs the API server rig"]
async fn both_servers_apply_random_patches_alike() {
    let number = super::number;
    let patches = number("DIFFERENTIAL_REQUESTS").map_or(PATCHES, |number| usize::try_from(number).expect("a count"));
    let seeds = number("DIFFERENTIAL_SEED").map_or(SEEDS.to_vec(), |seed| vec![seed]);
    let mut pair = Pair::new().await;
    let mut report = Report::default();
    for seed in seeds {
        compare(&mut pair, seed, (patches, EPOCH), &mut report, &mut |rng, _, step| {
            next(rng, step)
        })
        .await;
    }
    assert!(
        report.accepted > report.requests / 5 && report.refused > report.requests / 20,
        "the patches are all too good or all too odd"
    );
    report.conclude();
}
