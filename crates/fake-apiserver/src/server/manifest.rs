//! Manifests: texts with several objects, as they stand in files for kubectl.

use serde_json::Value;

use crate::codec::yaml_to_json;

/// The objects of a manifest, each with the number of its document, or why a document is none. Empty documents count, but
/// give nothing.
pub(super) fn objects(text: &str) -> Vec<(usize, Result<Value, String>)> {
    let documents = if text.trim_start().starts_with('{') {
        json(text)
    } else {
        yaml(text)
    };
    let mut objects = Vec::new();
    for (at, document) in documents.into_iter().enumerate() {
        let found = document.and_then(flatten);
        match found {
            Ok(values) => objects.extend(values.into_iter().map(|value| (at + 1, Ok(value)))),
            Err(message) => objects.push((at + 1, Err(message))),
        }
    }
    objects
}

/// JSON values one after the other, up to one that is malformed.
fn json(text: &str) -> Vec<Result<Value, String>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.map(|value| value.map_err(|error| error.to_string())).collect()
}

/// Documents between lines of `---`, which may have a comment.
fn yaml(text: &str) -> Vec<Result<Value, String>> {
    let mut documents = vec![String::new()];
    // Number of lines before the document, which keep their place so that errors name the lines of the whole text.
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        let separates = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'));
        lines += 1;
        if separates {
            documents.push("\n".repeat(lines));
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
        }
    }
    documents.iter().map(|document| yaml_document(document)).collect()
}

fn yaml_document(text: &str) -> Result<Value, String> {
    let (json, duplicates) = yaml_to_json(text.as_bytes())?;
    match duplicates {
        Some(duplicates) => Err(duplicates),
        None => serde_json::from_slice(&json).map_err(|error| error.to_string()),
    }
}

/// The object of a document, or those of a list.
fn flatten(mut document: Value) -> Result<Vec<Value>, String> {
    if document.is_null() {
        return Ok(Vec::new());
    }
    let text = |field: &str| document[field].as_str().filter(|text| !text.is_empty());
    let Some(kind) = text("kind") else {
        return Err("it has no kind".to_owned());
    };
    let Some(api_version) = text("apiVersion") else {
        return Err(format!("it has no apiVersion (its kind is {kind})"));
    };
    let is_list = kind.ends_with("List") && document["items"].is_array();
    // The items of a list of one kind may leave out what the list says.
    let of_items = (api_version.to_owned(), kind.trim_end_matches("List").to_owned());
    if !is_list {
        return Ok(vec![document]);
    }
    let Value::Array(items) = document["items"].take() else {
        return Ok(Vec::new());
    };
    let mut objects = Vec::with_capacity(items.len());
    for mut item in items {
        if let (api_version, kind) = &of_items
            && !kind.is_empty()
            && let Some(fields) = item.as_object_mut()
        {
            fields
                .entry("apiVersion")
                .or_insert_with(|| api_version.as_str().into());
            fields.entry("kind").or_insert_with(|| kind.as_str().into());
        }
        objects.extend(flatten(item)?);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildError, FakeApiServer};

    fn names(text: &str) -> Vec<(usize, String)> {
        let named = |(at, object): (usize, Result<Value, String>)| match object {
            Ok(object) => (at, object["metadata"]["name"].as_str().unwrap_or("?").to_owned()),
            Err(message) => (at, format!("! {message}")),
        };
        objects(text).into_iter().map(named).collect()
    }

    #[test]
    fn manifest_has_documents_of_yaml() {
        let text = "# a comment\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n--- # another\n---\r\n\
                    apiVersion: v1\nkind: B\nmetadata:\n  name: b\n  annotations:\n    text: |\n      ---\n      kind: C\n---\n";
        assert_eq!(names(text), [(2, "a".to_owned()), (4, "b".to_owned())]);
        assert_eq!(names(""), []);
    }

    #[test]
    fn manifest_has_values_of_json_and_items_of_lists() {
        let text = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
            {"apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "v1", "kind": "B", "metadata": {"name": "b"}},
                {"apiVersion": "v1", "kind": "CList", "items": [{"metadata": {"name": "c"}}]}
            ]}"#;
        let expected = [(1, "a"), (2, "b"), (2, "c")].map(|(at, name)| (at, name.to_owned()));
        assert_eq!(names(text), expected);
        let kinds: Vec<_> = objects(text)
            .into_iter()
            .map(|(_, object)| object.unwrap()["kind"].clone())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
    }

    #[test]
    fn manifest_says_what_is_wrong_and_where() {
        let messages = |text: &str| -> Vec<String> {
            names(text)
                .into_iter()
                .map(|(at, message)| format!("{at}{message}"))
                .collect()
        };
        assert_eq!(messages("a: b\n"), ["1! it has no kind"]);
        assert_eq!(messages("- a\n"), ["1! it has no kind"]);
        assert_eq!(messages("kind: A\n"), ["1! it has no apiVersion (its kind is A)"]);
        let broken = messages("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: [\n");
        assert_eq!(broken[0], "1?");
        assert!(
            broken[1].starts_with("2! yaml: line 5") || broken[1].starts_with("2! yaml: line 6"),
            "{broken:?}"
        );
        let twice = messages("apiVersion: v1\nkind: A\nkind: B\n");
        assert!(twice[0].contains("\"kind\" already set"), "{twice:?}");
        let cut = messages(r#"{"apiVersion": "v1", "kind": "A"} {"kind": "#);
        assert!(cut[0] == "1?" && cut[1].starts_with("2! EOF"), "{cut:?}");
    }

    #[test]
    fn manifests_of_a_cluster_are_loaded_in_a_sensible_order() {
        let text = "apiVersion: x.io/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, uid: u, resourceVersion: '12'}\n---\n\
            apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n---\n\
            apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
            apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.x.io}\n\
            spec:\n  group: x.io\n  scope: Namespaced\n  names: {plural: widgets, kind: Widget}\n  versions:\n  - name: v1\n\
            \x20   served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
        let server = FakeApiServer::builder()
            .manifest("dump", text)
            .unwrap()
            .build()
            .unwrap();
        let default = server.object("namespaces", None, "default").unwrap();
        assert_eq!(default["metadata"]["labels"]["a"], "b");
        assert!(server.object("configmaps", Some("default"), "a").is_some());
        assert!(server.object("widgets.x.io", Some("shop"), "w").is_some());
        for namespace in crate::namespaces::INITIAL {
            assert!(server.object("namespaces", None, namespace).is_some(), "{namespace}");
        }
    }

    #[test]
    fn manifest_that_the_server_refuses_is_named() {
        let refused = |text: &str| {
            let built = FakeApiServer::builder()
                .manifest("a.yaml", text)
                .and_then(crate::Builder::build);
            let error = built.unwrap_err();
            let BuildError::Manifest { source, .. } = &error else {
                panic!("{error}")
            };
            format!("{error}: {source}")
        };
        let unknown = refused("---\napiVersion: v1\nkind: Wigdet\nmetadata: {name: a}\n");
        let expected = "document 2 of a.yaml cannot be loaded: no kind \"Wigdet\" in version \"v1\" is served";
        assert!(unknown.starts_with(expected), "{unknown}");
        let invalid = refused("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a_b}\n");
        let expected = "document 1 of a.yaml cannot be loaded: the object \"a_b\" of kind \"ConfigMap\" is refused: ConfigMap \"a_b\" is invalid";
        assert!(invalid.starts_with(expected), "{invalid}");
        let nothing = refused("kind: A");
        assert_eq!(
            nothing,
            "document 1 of a.yaml cannot be loaded: it has no apiVersion (its kind is A)"
        );
    }
}
