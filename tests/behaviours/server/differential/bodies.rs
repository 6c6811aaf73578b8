//! Bodies: what can be odd about an object, a patch and the options of a delete.

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::noise::pick;
use super::kinds::Kind;
use super::probe::Content;

/// Values of every JSON type, for fields of any type.
fn any_value(rng: &mut Rng) -> Value {
    match rng.u8(..9) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(5),
        3 => json!(-1),
        4 => json!("x"),
        5 => json!([]),
        6 => json!({}),
        7 => json!(["x"]),
        _ => json!({"x": "y"}),
    }
}

const ODD_NAMES: &[&str] = &[
    "", "Bad_Name", "-a", "a-", "a.b", "a..b", "a b", "é", "a/b", "%41", "A", ".", "..", "1", "a:b", "system:a", "x_y",
];

/// A value for one field of `metadata`, odd or not.
fn metadata_field(rng: &mut Rng, kind: &Kind) -> (&'static str, Value) {
    let text = |rng: &mut Rng, choices: &[&str]| Value::from(pick(rng, choices));
    match rng.u8(..24) {
        0 | 1 => {
            let long = "a".repeat(254);
            let label = "a".repeat(64);
            let name = match rng.u8(..20) {
                0 => long,
                1 => label,
                2..=5 => kind.name("b"),
                _ => pick(rng, ODD_NAMES).to_owned(),
            };
            ("name", name.into())
        }
        2 => (
            "generateName",
            text(rng, &["g-", "G_", "", "g", "-", "g.", "a/", "Bad-", "g--"]),
        ),
        3 | 4 => (
            "namespace",
            text(rng, &["{ns}", "default", "", "Bad_", "absent", "{ns}", "a b"]),
        ),
        5 | 6 => ("labels", map(rng)),
        7 | 8 => ("annotations", map(rng)),
        9..=11 => ("finalizers", finalizers(rng)),
        12..=14 => ("ownerReferences", owners(rng)),
        15 => (
            "uid",
            text(
                rng,
                &["{uid}", "{uid}", "x", "", "00000000-0000-0000-0000-000000000000"],
            ),
        ),
        16 | 17 => (
            "resourceVersion",
            text(
                rng,
                &["{rv}", "{rv}", "1", "0", "", "abc", "-1", "00", "{rv}0", "1.5", " "],
            ),
        ),
        18 => (
            "creationTimestamp",
            text(
                rng,
                &[
                    "2024-01-01T00:00:00Z",
                    "x",
                    "",
                    "2024-01-01T00:00:00.5+02:00",
                    "2024-13-01T00:00:00Z",
                ],
            ),
        ),
        19 => ("deletionTimestamp", text(rng, &["2024-01-01T00:00:00Z", "x", ""])),
        20 => ("deletionGracePeriodSeconds", [0, 5, -1][rng.usize(..3)].into()),
        21 => ("generation", [0, 7, -1, 1][rng.usize(..4)].into()),
        22 => ("selfLink", text(rng, &["/x", ""])),
        _ => ("managedFields", managed_fields(rng)),
    }
}

fn map(rng: &mut Rng) -> Value {
    const KEYS: &[&str] = &[
        "a",
        "a/b",
        "x.io/y",
        "",
        "a b",
        "-",
        "a/b/c",
        "/a",
        "a/",
        "X.io/y",
        "é",
        "A_b.c",
        "kubernetes.io/metadata.name",
        "run",
        "a=b",
    ];
    const VALUES: &[&str] = &["b", "", "-", "a b", "A.b_c", "é", "x/y"];
    let mut map = json!({});
    for _ in 0..rng.usize(..4) {
        let key = match rng.u8(..24) {
            0 => "k".repeat(64),
            1 => format!("{}/k", "p".repeat(254)),
            _ => pick(rng, KEYS).to_owned(),
        };
        map[key] = match rng.u8(..16) {
            0 => "v".repeat(64).into(),
            1 => any_value(rng),
            _ => pick(rng, VALUES).into(),
        };
    }
    map
}

fn finalizers(rng: &mut Rng) -> Value {
    const NAMES: &[&str] = &[
        "x.io/y",
        "x.io/y",
        "x.io/z",
        "foregroundDeletion",
        "orphan",
        "kubernetes",
        "plain",
        "",
        "a b",
        "x/y/z",
        "A.io/y",
        "-",
        "é/x",
        "/x",
    ];
    let list: Vec<Value> = (0..rng.usize(..3)).map(|_| pick(rng, NAMES).into()).collect();
    list.into()
}

fn owners(rng: &mut Rng) -> Value {
    let mut list = Vec::new();
    for _ in 0..rng.usize(1..3) {
        let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
        for _ in 0..rng.usize(..3) {
            match rng.u8(..8) {
                0 => owner["apiVersion"] = pick(rng, &["", "a/b", "a/b/c", "/v1", "v1/", "é"]).into(),
                1 => owner["kind"] = pick(rng, &["", "Event", "x"]).into(),
                2 => owner["name"] = pick(rng, &["", "Bad_", "a/b"]).into(),
                3 => owner["uid"] = pick(rng, &["", "{uid}"]).into(),
                4 => owner["controller"] = true.into(),
                5 => owner["blockOwnerDeletion"] = any_value(rng),
                6 => owner["nope"] = 1.into(),
                _ => owner["controller"] = any_value(rng),
            }
        }
        list.push(if rng.u8(..16) == 0 { any_value(rng) } else { owner });
    }
    list.into()
}

fn managed_fields(rng: &mut Rng) -> Value {
    match rng.u8(..5) {
        0 => json!([]),
        1 => json!([{}]),
        2 => {
            json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}])
        }
        3 => json!([{"manager": "m", "operation": "Nope"}]),
        _ => any_value(rng),
    }
}

/// Makes one thing odd about a body of JSON; leaves others as they are.
pub(super) fn spoil(rng: &mut Rng, kind: &Kind, body: &mut Content) {
    let Content::Json(value) = body else { return };
    if value.is_array() {
        if let Some(list) = value.as_array_mut() {
            list.push(operation(rng, kind));
        }
        return;
    }
    if !value.is_object() {
        return;
    }
    match rng.u8(..20) {
        0 => {
            let root = kind.root.strip_prefix("apis/").unwrap_or("v1");
            value["apiVersion"] = match rng.u8(..6) {
                0 => any_value(rng),
                1 => root.into(),
                _ => pick(
                    rng,
                    &["v1", "v2", "apps/v1", "nope/v1", "", "a/b/c", "meta.k8s.io/v1", "V1"],
                )
                .into(),
            };
        }
        1 => value["kind"] = odd_kind(rng),
        2 => {
            for field in ["apiVersion", "kind"] {
                if rng.bool() {
                    remove(value, field);
                }
            }
        }
        3 => value[pick(rng, &["nope", "Metadata", "metaData", "data ", "é"])] = any_value(rng),
        4 => {
            let odd = any_value(rng);
            value["metadata"] = odd;
        }
        5 => {
            let fields: Vec<String> = value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect();
            let Some(field) = fields.get(rng.usize(..fields.len().max(1))) else {
                return;
            };
            if rng.bool() {
                remove(value, field);
            } else {
                value[field] = any_value(rng);
            }
        }
        6 if matches!(kind.plural, "configmaps" | "secrets") => {
            let field = pick(rng, &["data", "binaryData", "stringData", "immutable"]);
            value[field] = match rng.u8(..3) {
                0 => any_value(rng),
                1 => {
                    json!({(pick(rng, &["k", "a b", "", "..", "é", "x/y"])): pick(rng, &["dg==", "v", "", "=", "dg"])})
                }
                _ => json!({"k": any_value(rng)}),
            };
        }
        _ if value["metadata"].is_object() || value["metadata"].is_null() => {
            let (field, mut odd) = metadata_field(rng, kind);
            match rng.u8(..12) {
                0 => odd = any_value(rng),
                1 if field != "name" => odd = Value::Null,
                2 => {
                    value["metadata"][pick(rng, &["nope", "Name", "clusterName"])] = any_value(rng);
                    return;
                }
                _ => {}
            }
            value["metadata"][field] = odd;
            if field == "generateName" && rng.bool() {
                remove(&mut value["metadata"], "name");
            }
        }
        _ => {}
    }
}

fn odd_kind(rng: &mut Rng) -> Value {
    match rng.u8(..4) {
        0 => any_value(rng),
        _ => pick(
            rng,
            &[
                "Pod",
                "Nope",
                "",
                "Status",
                "DeleteOptions",
                "PatchOptions",
                "WatchEvent",
                "configmap",
                "ConfigMapList",
                "List",
                "ConfigMap",
                "Deployment",
            ],
        )
        .into(),
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(key);
    }
}

/// A value as YAML in block style; texts stand in quotes, as in JSON.
pub(super) fn yaml(value: &Value) -> String {
    fn block(value: &Value, indent: usize, out: &mut String) {
        let open = |value: &Value| match value {
            Value::Object(members) => !members.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        let mut entry = |head: &str, value: &Value| {
            *out += &" ".repeat(indent);
            *out += head;
            if open(value) {
                *out += "\n";
                block(value, indent + 2, out);
            } else {
                *out += " ";
                *out += &value.to_string();
                *out += "\n";
            }
        };
        match value {
            Value::Object(members) => members
                .iter()
                .for_each(|(key, member)| entry(&format!("{}:", Value::from(key.as_str())), member)),
            Value::Array(items) => items.iter().for_each(|item| entry("-", item)),
            _ => {}
        }
    }
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

/// A patch with its media type.
pub(super) fn patch(rng: &mut Rng, kind: &Kind) -> (&'static str, Content) {
    if rng.u8(..3) == 0 {
        let list: Vec<Value> = (0..rng.usize(1..3)).map(|_| operation(rng, kind)).collect();
        return ("application/json-patch+json", Content::Json(list.into()));
    }
    let mut patch = json!({"metadata": {"annotations": {"n": rng.u8(..).to_string()}}});
    match rng.u8(..8) {
        0 => patch["spec"] = any_value(rng),
        1 => patch["status"] = json!({"phase": "Active"}),
        2 => {
            let (field, value) = metadata_field(rng, kind);
            patch["metadata"][field] = value;
        }
        3 if kind.plural == "configmaps" => patch["data"] = json!({"k": null, "n": "v"}),
        4 => patch["metadata"]["finalizers"] = Value::Null,
        _ => {}
    }
    let strategic = !kind.root.contains("{group}") && rng.bool();
    let content_type = if strategic {
        "application/strategic-merge-patch+json"
    } else {
        "application/merge-patch+json"
    };
    (content_type, Content::Json(patch))
}

fn operation(rng: &mut Rng, kind: &Kind) -> Value {
    const PATHS: &[&str] = &[
        "/metadata/annotations",
        "/metadata/annotations/a",
        "/metadata/labels/a",
        "/metadata/finalizers",
        "/metadata/finalizers/-",
        "/metadata/finalizers/0",
        "/metadata/finalizers/5",
        "/data/k",
        "/data/nope",
        "",
        "/",
        "nope",
        "/metadata/name",
        "/metadata/uid",
        "/metadata/resourceVersion",
        "/metadata/nope",
        "/nope",
        "/nope/x",
        "/metadata",
        "/kind",
        "/apiVersion",
        "/spec",
        "/metadata/labels/a~1b",
        "/metadata/labels/~2",
        "/metadata/namespace",
        "/metadata/deletionTimestamp",
    ];
    let mut operation = json!({
        "op": pick(rng, &["add", "add", "replace", "remove", "test", "copy", "move", "nope", ""]),
        "path": pick(rng, PATHS),
    });
    if rng.u8(..5) > 0 {
        operation["value"] = if rng.bool() {
            metadata_field(rng, kind).1
        } else {
            any_value(rng)
        };
    }
    if matches!(operation["op"].as_str(), Some("copy" | "move")) && rng.u8(..8) > 0 {
        operation["from"] = pick(rng, PATHS).into();
    }
    match rng.u8(..24) {
        0 => operation["path"] = any_value(rng),
        1 => operation["op"] = any_value(rng),
        2 => remove(&mut operation, "path"),
        3 => remove(&mut operation, "op"),
        4 => operation["nope"] = 1.into(),
        _ => {}
    }
    operation
}

/// The options of a delete.
pub(super) fn delete_options(rng: &mut Rng) -> Content {
    let mut options = json!({});
    if rng.bool() {
        options["apiVersion"] = pick(rng, &["v1", "v1", "meta.k8s.io/v1", "apps/v1", "v7", ""]).into();
        options["kind"] = pick(rng, &["DeleteOptions", "DeleteOptions", "Pod", ""]).into();
    }
    for _ in 0..rng.usize(..3) {
        match rng.u8(..9) {
            0 => options["gracePeriodSeconds"] = [0, 1, -1, 30][rng.usize(..4)].into(),
            1 => options["propagationPolicy"] = pick(rng, &["Foreground", "Orphan", "Background", "", "nope"]).into(),
            2 => options["orphanDependents"] = rng.bool().into(),
            3 => {
                options["dryRun"] =
                    [json!(["All"]), json!(["All", "All"]), json!(["x"]), json!([""])][rng.usize(..4)].clone();
            }
            4 => options["preconditions"] = json!({"uid": pick(rng, &["{uid}", "x", ""])}),
            5 => options["preconditions"] = json!({"resourceVersion": pick(rng, &["{rv}", "1", "x", ""])}),
            6 => options["preconditions"] = json!({"uid": "{uid}", "resourceVersion": "{rv}"}),
            7 => {
                options[pick(
                    rng,
                    &["gracePeriodSeconds", "preconditions", "dryRun", "propagationPolicy"],
                )] = any_value(rng);
            }
            _ => options["nope"] = any_value(rng),
        }
    }
    Content::Json(options)
}
