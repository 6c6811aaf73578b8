use serde_json::{Value, json};

use super::*;
use crate::FakeApiServer;

fn document_of(server: &FakeApiServer, path: &str) -> Value {
    let kinds = server.shared.registry.snapshot();
    let (_, resources) = group_versions(&kinds).find(|(found, _)| found == path).expect(path);
    document(&server.shared, path, resources)
}

/// Calls with each reference of a document.
fn references(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(text) if name == "$ref" => found(text),
            _ => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

// [F19] no schema refers to one that is not there, in either form
#[test]
fn documents_hold_all_that_they_refer_to() {
    let server = FakeApiServer::new();
    let kinds = server.shared.registry.snapshot();
    let mut count = 0;
    let mut documents = Vec::new();
    for (path, resources) in group_versions(&kinds) {
        let document = document(&server.shared, &path, resources);
        let schemas = &document["components"]["schemas"];
        references(&document["paths"], &mut |_| count += 1);
        references(&document, &mut |reference| {
            let name = reference.strip_prefix(schemas::PREFIX).expect(reference);
            assert!(schemas[name].is_object(), "{path}: {name}");
        });
        documents.push(document);
    }
    assert!(count > 1000, "{count}");
    let old = v2::document(documents.into_iter());
    references(&old, &mut |reference| {
        let name = reference.strip_prefix("#/definitions/").expect(reference);
        assert!(old["definitions"][name].is_object(), "{name}");
    });
}

// [F19] each kind that can be written has a schema, and its operations say which kind it is
#[test]
fn kinds_have_schemas_and_operations() {
    let server = FakeApiServer::new();
    let kinds = server.shared.registry.snapshot();
    for (path, resources) in group_versions(&kinds) {
        let document = document(&server.shared, &path, resources);
        let operations = document["paths"].as_object().expect("paths");
        let ids: Vec<&Value> = operations
            .values()
            .flat_map(|path| path.as_object().expect("operations").values())
            .filter_map(|operation| operation.get("operationId"))
            .collect();
        let distinct: std::collections::HashSet<_> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(ids.len(), distinct.len(), "{path}");
        for resource in resources {
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            let says = |schema: &Value| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                kinds.is_some_and(|kinds| kinds.contains(&kind))
            };
            let schemas = document["components"]["schemas"].as_object().expect("schemas");
            assert_eq!(schemas.values().filter(|schema| says(schema)).count(), 1, "{kind}");
        }
    }
    let patch = &document_of(&server, "apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
        ["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeploymentScale");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

fn widgets(property: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": property}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

// [F17] [F19] the schema of a definition is published with what every object has
#[test]
fn definitions_are_published() {
    let server = FakeApiServer::new();
    let property = json!({"x-kubernetes-int-or-string": true, "nullable": true});
    server.load(&widgets(&property)).unwrap();
    let document = document_of(&server, "apis/x.io/v1");
    let widget = &document["components"]["schemas"]["io.x.v1.Widget"];
    assert_eq!(
        widget["properties"]["spec"]["properties"]["x"],
        json!({"x-kubernetes-int-or-string": true, "nullable": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
    assert_eq!(
        widget["properties"]["metadata"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]})
    );
    let list = &document["components"]["schemas"]["io.x.v1.WidgetList"];
    assert_eq!(
        list["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/io.x.v1.Widget"
    );
    let path = &document["paths"]["/apis/x.io/v1/namespaces/{namespace}/widgets/{name}"];
    assert_eq!(path["get"]["operationId"], "readXIoV1NamespacedWidget");
    // The older form has less.
    let old = v2::document(std::iter::once(document));
    let widget = &old["definitions"]["io.x.v1.Widget"]["properties"]["spec"]["properties"]["x"];
    assert_eq!(*widget, json!({"x-kubernetes-int-or-string": true}));
}

// [F26] the hash of a document changes with the definition, and with nothing else
#[test]
fn hash_changes_with_the_definition() {
    let server = FakeApiServer::new();
    server.load(&widgets(&json!({"type": "string"}))).unwrap();
    let hashes = |server: &FakeApiServer| {
        let kinds = server.shared.registry.snapshot();
        index(&server.shared, &kinds)["paths"].clone()
    };
    let other = FakeApiServer::builder().seed(1).build().unwrap();
    other.load(&widgets(&json!({"type": "string"}))).unwrap();
    let before = hashes(&server);
    assert_eq!(before, hashes(&other));
    let changed = FakeApiServer::new();
    changed.load(&widgets(&json!({"type": "integer"}))).unwrap();
    let after = hashes(&changed);
    assert_ne!(before["apis/x.io/v1"], after["apis/x.io/v1"]);
    assert_eq!(before["api/v1"], after["api/v1"]);
}
