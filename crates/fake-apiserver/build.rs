//! Turns the fact tables of `data/` into Rust statics, so that the server starts without parsing anything.
//!
//! Four files go to `OUT_DIR`: `types.rs` (every struct type of the served kinds, for the codec), `resources.rs`
//! (every served resource with its policy, for `kinds`), `defaults.rs` (what is filled in) and `structures.rs` (how lists
//! and maps are merged and owned, for `structured`). The statics name only types that the including module
//! defines; this script knows their field names and nothing else of the crate.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use serde_json::Value;

#[path = "build/defaults.rs"]
mod defaults;
#[path = "build/structures.rs"]
mod structures;

const DEFAULTS: &str = "data/kubernetes-1.37-defaults.json";
const DISCOVERY: &str = "data/kubernetes-1.37-discovery.json";
const FACTS: &str = "data/kubernetes-1.37-facts.json";
const STRUCTS: &str = "data/kubernetes-1.37-structs.json";
const TYPES: &str = "data/kubernetes-1.37-types.json";

fn main() {
    for file in [
        "build.rs",
        "build/defaults.rs",
        "build/structures.rs",
        DEFAULTS,
        DISCOVERY,
        FACTS,
        STRUCTS,
        TYPES,
    ] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let structs = read(STRUCTS);
    let type_ids: BTreeMap<&str, usize> = object(&structs["types"])
        .keys()
        .enumerate()
        .map(|(id, name)| (name.as_str(), id))
        .collect();
    fs::write(Path::new(&out).join("types.rs"), types(&structs, &type_ids)).expect("OUT_DIR is writable");
    let defaults = defaults::defaults(&read(DEFAULTS), &structs, &type_ids);
    fs::write(Path::new(&out).join("defaults.rs"), defaults).expect("OUT_DIR is writable");
    let facts = read(FACTS);
    let (structures, places) = structures::structures(&read(TYPES), &facts, &structs);
    fs::write(Path::new(&out).join("structures.rs"), structures).expect("OUT_DIR is writable");
    let resources =
        resources(&read(DISCOVERY), &facts, &structs, &type_ids, &places) + &scale(&structs, &type_ids, &places);
    fs::write(Path::new(&out).join("resources.rs"), resources).expect("OUT_DIR is writable");
}

fn read(file: &str) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn object(value: &Value) -> &serde_json::Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("an object, not {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a string, not {value}"))
}

/// The strings of an array; an absent one has none.
fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map_or_else(Vec::new, |items| items.iter().map(text).collect())
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

fn types(structs: &Value, ids: &BTreeMap<&str, usize>) -> String {
    let mut out = String::new();
    let types = object(&structs["types"]);
    writeln!(out, "pub(super) static TYPES: [Type; {}] = [", types.len()).expect("strings take all");
    for ty in types.values() {
        let fields = ty["fields"].as_array().expect("fields");
        let mut sorted: Vec<usize> = (0..fields.len()).collect();
        sorted.sort_by_key(|&at| text(&fields[at]["name"]));
        write!(out, "Type {{ go: {:?}, fields: &[", text(&ty["go"])).expect("strings take all");
        for field in fields {
            let omit = field["omit"].as_str().unwrap_or_default();
            let omit = match (omit.contains("zero"), omit.contains("empty")) {
                (true, _) => "Zero",
                (_, true) => "Empty",
                _ => "Never",
            };
            let proto: Vec<u64> = field["proto"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|n| n.as_u64().expect("a number"))
                .collect();
            write!(
                out,
                "Field {{ name: {:?}, go: {:?}, shape: {}, proto: &{proto:?}, pointer: {}, omit: Omit::{omit}, inside: {:?}, \
                 strategy: Strategy::{}, merge_key: {:?} }}, ",
                text(&field["name"]),
                text(&field["go"]),
                shape(&field["t"], ids),
                flag(&field["ptr"]),
                field["in"].as_str().unwrap_or_default(),
                strategy(field["patch"].as_str().unwrap_or_default()),
                field["key"].as_str().unwrap_or_default(),
            )
            .expect("strings take all");
        }
        writeln!(out, "], sorted: &{sorted:?} }},").expect("strings take all");
    }
    out.push_str("];\n");
    for (constant, name) in [
        ("OBJECT_META", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("DELETE_OPTIONS", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        ("CREATE_OPTIONS", "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions"),
        ("UPDATE_OPTIONS", "io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions"),
        ("PATCH_OPTIONS", "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions"),
        ("LIST_META", "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"),
        ("STATUS", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        (
            "JSON_SCHEMA_PROPS",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        ),
    ] {
        writeln!(out, "pub(super) const {constant}: TypeId = TypeId({});", ids[name]).expect("strings take all");
    }
    out.push_str("pub(super) static KINDS: &[(&str, &str, &str, TypeId)] = &[\n");
    for kind in structs["kinds"].as_array().expect("kinds") {
        let row = texts(kind);
        writeln!(
            out,
            "({:?}, {:?}, {:?}, TypeId({})),",
            row[0], row[1], row[2], ids[row[3]]
        )
        .expect("strings take all");
    }
    out.push_str("];\n");
    out
}

/// The strategy of a strategic merge patch; `retainKeys` is one for those who make patches.
fn strategy(tag: &str) -> &'static str {
    match tag {
        "" | "retainKeys" => "Default",
        "merge" | "merge,retainKeys" => "Merge",
        "replace" => "Replace",
        other => panic!("unknown patch strategy {other}"),
    }
}

fn shape(t: &Value, ids: &BTreeMap<&str, usize>) -> String {
    if let Some(element) = t.get("list") {
        return format!("Shape::List(&{})", shape(element, ids));
    }
    if let Some(element) = t.get("map") {
        return format!("Shape::Map(&{})", shape(element, ids));
    }
    let name = match text(t) {
        "str" => "Str",
        "bool" => "Bool",
        "int32" => "Int32",
        "int64" => "Int64",
        "float64" => "Float64",
        "bytes" => "Bytes",
        "time" => "Time",
        "microtime" => "MicroTime",
        "quantity" => "Quantity",
        "intorstring" => "IntOrString",
        "raw" => "Raw",
        "fieldsv1" => "FieldsV1",
        "json" => "Json",
        "schemaorbool" => "SchemaOrBool",
        "schemaorarray" => "SchemaOrArray",
        "schemaorstrings" => "SchemaOrStrings",
        name => {
            let id = ids.get(name).unwrap_or_else(|| panic!("unknown type {name}"));
            return format!("Shape::Struct(TypeId({id}))");
        }
    };
    format!("Shape::{name}")
}

fn resources(
    discovery: &Value,
    facts: &Value,
    structs: &Value,
    ids: &BTreeMap<&str, usize>,
    places: &structures::Places,
) -> String {
    let mut kinds = BTreeMap::new();
    for kind in structs["kinds"].as_array().expect("kinds") {
        let row = texts(kind);
        kinds.insert((row[0], row[1], row[2]), ids[row[3]]);
    }
    let mut out = String::from("static BUILT_INS: &[BuiltIn] = &[\n");
    for group in discovery["groups"].as_array().expect("groups") {
        let group_name = text(&group["group"]);
        for version in group["versions"].as_array().expect("versions") {
            let version_name = text(&version["version"]);
            for resource in version["resources"].as_array().expect("resources") {
                let plural = text(&resource["resource"]);
                let kind = text(&resource["kind"]);
                let key = if group_name.is_empty() {
                    format!("{version_name}/{plural}")
                } else {
                    format!("{group_name}/{version_name}/{plural}")
                };
                let ty = kinds
                    .get(&(group_name, version_name, kind))
                    .unwrap_or_else(|| panic!("no type for {key}"));
                // What stores nothing has no fields that anybody owns.
                let of_kind = (group_name.to_owned(), version_name.to_owned(), kind.to_owned());
                let structure = places
                    .get(&of_kind)
                    .map_or("None".to_owned(), |at| format!("Some({at})"));
                write!(
                    out,
                    "BuiltIn {{ group: {group_name:?}, version: {version_name:?}, plural: {plural:?}, singular: {:?}, \
                     kind: {kind:?}, namespaced: {}, verbs: &{:?}, short_names: &{:?}, categories: &{:?}, \
                     type_id: TypeId({ty}), structure: {structure}, subresources: &[",
                    text(&resource["singular"]),
                    text(&resource["scope"]) == "Namespaced",
                    texts(&resource["verbs"]),
                    texts(&resource["shortNames"]),
                    texts(&resource["categories"]),
                )
                .expect("strings take all");
                for sub in resource["subresources"].as_array().into_iter().flatten() {
                    write!(
                        out,
                        "({:?}, {:?}, {:?}, {:?}, &{:?}), ",
                        text(&sub["name"]),
                        sub["kind"].as_str().unwrap_or_default(),
                        sub["group"].as_str().unwrap_or_default(),
                        sub["version"].as_str().unwrap_or_default(),
                        texts(&sub["verbs"]),
                    )
                    .expect("strings take all");
                }
                out.push_str("], facts: ");
                match facts["resources"].get(&key) {
                    Some(fact) => write!(out, "Some({})", policy(fact)).expect("strings take all"),
                    None => out.push_str("None"),
                }
                out.push_str(" },\n");
            }
        }
    }
    out.push_str("];\n");
    out
}

/// What the scale of a workload is.
fn scale(structs: &Value, ids: &BTreeMap<&str, usize>, places: &structures::Places) -> String {
    let key = ("autoscaling", "v1", "Scale");
    let kinds = structs["kinds"].as_array().into_iter().flatten().map(texts);
    let mut types = kinds
        .filter(|row| (row[0], row[1], row[2]) == key)
        .map(|row| ids[row[3]]);
    let ty = types.next().expect("the type of scales");
    let at = places[&(key.0.to_owned(), key.1.to_owned(), key.2.to_owned())];
    format!("const SCALE: (TypeId, u16) = (TypeId({ty}), {at});\n")
}

fn policy(fact: &Value) -> String {
    let columns: Vec<String> = fact["table"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| {
            format!(
                "({:?}, {:?}, {:?}, {})",
                text(&column[0]),
                text(&column[1]),
                text(&column[2]),
                column[3]
            )
        })
        .collect();
    // A `spec.finalizers` entry is a default of the kind's own, not metadata.
    let finalizers: Vec<&str> = texts(&fact["finalizersAddedOnCreate"])
        .into_iter()
        .filter(|finalizer| !finalizer.contains(' '))
        .collect();
    let status_writes = &fact["statusUpdateChangesMetadata"];
    format!(
        "Facts {{ generation: {:?}, unconditional_update: {}, put_creates: {}, status_subresource: {}, status_kept: {}, \
         status_labels: {}, status_annotations: {}, status_finalizers: {}, graceful: {}, delete_returns: {:?}, \
         propagation: {:?}, name_validation: {:?}, field_selectors: &{:?}, field_selector_error: {:?}, columns: &[{}], \
         finalizers: &{finalizers:?}, etcd_prefix: {:?} }}",
        text(&fact["generation"]),
        flag(&fact["unconditionalUpdate"]),
        flag(&fact["putCreates"]),
        flag(&fact["statusSubresource"]),
        flag(&fact["statusKeptOnCreate"]),
        flag(&status_writes["labels"]),
        flag(&status_writes["annotations"]),
        flag(&status_writes["finalizers"]),
        flag(&fact["gracefulDeletion"]),
        text(&fact["deleteReturns"]),
        text(&fact["defaultPropagation"]),
        text(&fact["nameValidation"]),
        texts(&fact["fieldSelectors"]),
        text(&fact["fieldSelectorError"]),
        columns.join(", "),
        text(&fact["etcdPrefix"]),
    )
}
