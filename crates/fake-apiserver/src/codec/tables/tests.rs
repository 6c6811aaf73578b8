//! The tables come from reflection over Go types. Two other sources say in part the same: the `.proto` files and the
//! OpenAPI document. All that they share has to agree.

use serde_json::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn fields(structure: &Value) -> &Vec<Value> {
    structure["fields"].as_array().unwrap()
}

#[test]
fn protobuf_numbers_are_those_of_the_proto_files() {
    let structs = read(include_str!("../../../data/kubernetes-1.37-structs.json"));
    let proto = read(include_str!("../../../data/kubernetes-1.37-proto-fields.json"));
    let mut compared = 0;
    for (name, structure) in structs["types"].as_object().unwrap() {
        let numbers = &proto["messages"][name];
        for field in fields(structure) {
            // A field of an embedded message has two numbers, of which the proto files list neither under this name.
            let ([number], Some(listed)) = (
                field["proto"].as_array().map_or(&[][..], Vec::as_slice),
                numbers.get(field["name"].as_str().unwrap()),
            ) else {
                continue;
            };
            assert_eq!(number, listed, "{name}.{}", field["name"]);
            compared += 1;
        }
    }
    assert!(compared > 2_000, "only {compared} fields are in both");
}

#[test]
fn field_names_are_those_of_the_openapi_document() {
    let structs = read(include_str!("../../../data/kubernetes-1.37-structs.json"));
    let openapi = read(include_str!("../../../data/kubernetes-1.37-types.json"));
    let mut compared = 0;
    for (name, structure) in structs["types"].as_object().unwrap() {
        let Some(listed) = openapi["types"][name]["fields"].as_object() else {
            continue;
        };
        let mut ours: Vec<&str> = fields(structure)
            .iter()
            .map(|field| field["name"].as_str().unwrap())
            .collect();
        let mut theirs: Vec<&str> = listed.keys().map(String::as_str).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{name}");
        compared += 1;
    }
    assert!(compared > 500, "only {compared} types are in both");
}

#[test]
fn patch_strategies_are_those_of_the_openapi_document() {
    // [F10]
    let structs = read(include_str!("../../../data/kubernetes-1.37-structs.json"));
    let openapi = read(include_str!("../../../data/kubernetes-1.37-types.json"));
    let mut compared = 0;
    for (name, structure) in structs["types"].as_object().unwrap() {
        let Some(listed) = openapi["types"][name]["fields"].as_object() else {
            continue;
        };
        for field in fields(structure) {
            let theirs = &listed[field["name"].as_str().unwrap()];
            for (ours, theirs) in [("patch", "patchStrategy"), ("key", "patchMergeKey")]
                .map(|(ours, fact)| (field.get(ours), theirs.get(fact)))
            {
                assert_eq!(ours, theirs, "{name}.{}", field["name"]);
                compared += usize::from(ours.is_some());
            }
        }
    }
    assert!(compared > 100, "only {compared} facts are in both");
}
