//! The documents that clients learn from: their tags and hashes, and what the OpenAPI ones say. [F19] [F26]

use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, cases, eventually};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// [F26] what the client has is not sent again
async fn documents_have_tags(server: Server) {
    for (path, accept, cached, one_of_several) in [
        ("/api", AGGREGATED, "public", 200),
        ("/apis", AGGREGATED, "public", 200),
        (
            "/openapi/v3/apis/batch/v1",
            "application/json",
            "no-cache, private",
            304,
        ),
    ] {
        let request = || server.request("GET", path).header("accept", accept);
        let answer = request().send().await;
        answer.ok();
        let tag = answer.header("etag").to_owned();
        assert!(
            tag.len() > 10 && tag.starts_with('"') && tag.ends_with('"'),
            "{path}: {tag}"
        );
        assert_eq!(answer.header("cache-control"), cached, "{path}");
        assert_eq!(answer.header("vary"), "Accept", "{path}");
        let known = request().header("if-none-match", &tag).send().await;
        assert_eq!(
            (known.code, known.text(), known.header("etag")),
            (304, "", &*tag),
            "{path}"
        );
        for several in [format!("\"a\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            let code = request().header("if-none-match", &several).code().await;
            assert_eq!(code, one_of_several, "{path}: {several}");
        }
        assert_eq!(request().header("if-none-match", "\"a\"").code().await, 200, "{path}");
    }
    // The plain documents of discovery have none.
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let answer = server.get(path).await;
        assert!(answer.headers.get("etag").is_none(), "{path}");
    }
}

// [F26] the index names each document with its hash, which may be kept forever; another hash leads to the one that is
async fn index_has_hashes(server: Server) {
    let index = server.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/batch/v1"]["serverRelativeURL"]
        .as_str()
        .expect("a URL")
        .to_owned();
    let (path, hash) = url.split_once("?hash=").expect("a hash");
    assert_eq!(path, "/openapi/v3/apis/batch/v1");
    assert!(
        hash.len() >= 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{hash}"
    );
    let answer = server.get(&url).await;
    answer.ok();
    assert_eq!(answer.header("cache-control"), "public, immutable");
    assert_eq!(answer.header("etag"), format!("\"{hash}\""));
    let other = server.get(&format!("{path}?hash=ABC")).await;
    assert_eq!((other.code, other.header("location")), (301, &*url));
    assert_eq!(server.get("/openapi/v3/apis/batch/v7").await.code, 404);
}

// [F26] the hash of the version in which objects are stored
async fn resources_have_storage_hashes(server: Server) {
    let hash = async |group_version: &str, name: &str| {
        let list = server.get(group_version).await.ok();
        let resources = list["resources"].as_array().expect("resources").clone();
        let found = resources.into_iter().find(|resource| resource["name"] == name);
        found.expect("the resource")["storageVersionHash"].clone()
    };
    for (group_version, name, expected) in [
        ("/api/v1", "pods", "xPOwRZ+Yhw8="),
        ("/api/v1", "events", "r2yiGXH7wu8="),
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294="),
        (
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "jfWCUB31mvA=",
        ),
        ("/apis/apps/v1", "controllerrevisions", "85nkx63pcBU="),
    ] {
        assert_eq!(hash(group_version, name).await, expected, "{group_version} {name}");
    }
    assert_eq!(hash("/api/v1", "bindings").await, Value::Null);
    assert_eq!(hash("/api/v1", "pods/status").await, Value::Null);
    let two_versions = |definition: &mut Value| {
        let mut old = definition["spec"]["versions"][0].clone();
        old["name"] = "v1alpha1".into();
        old["storage"] = false.into();
        definition["spec"]["versions"]
            .as_array_mut()
            .expect("versions")
            .push(old);
    };
    let kind = CustomKind::register(&server, two_versions).await;
    let stored = hash(&format!("/apis/{}/v1", kind.group), "widgets").await;
    assert_eq!(stored.as_str().map(str::len), Some(12));
    assert_eq!(hash(&format!("/apis/{}/v1alpha1", kind.group), "widgets").await, stored);
}

// [F19] schemas say how lists are merged, what is required, and what there is by default
async fn built_in_kinds_have_schemas(server: Server) {
    let mut document = server.get("/openapi/v3/apis/apps/v1").await.ok();
    let mut schema = |name: &str| {
        let mut schema = document["components"]["schemas"][name].take();
        without_descriptions(&mut schema);
        schema
    };
    let deployment = schema("io.k8s.api.apps.v1.Deployment");
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(deployment["required"], json!(["spec"]));
    let spec = schema("io.k8s.api.apps.v1.DeploymentSpec");
    assert_eq!(
        spec["properties"]["strategy"],
        json!({"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
            "x-kubernetes-patch-strategy": "retainKeys"})
    );
    let container = schema("io.k8s.api.core.v1.Container");
    assert_eq!(
        container["properties"]["ports"],
        json!({
            "type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"], "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "containerPort", "x-kubernetes-patch-strategy": "merge",
        })
    );
    let port = schema("io.k8s.api.core.v1.ContainerPort");
    assert_eq!(
        port["properties"]["protocol"],
        json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]})
    );
    let path = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].take();
    assert_eq!(path["patch"]["operationId"], "patchAppsV1NamespacedDeployment");
    let parameters = path["patch"]["parameters"].as_array().expect("parameters");
    let names: Vec<_> = parameters.iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);

    let old = server.get("/openapi/v2").await.ok();
    assert_eq!(old["swagger"], "2.0");
    let mut port = old["definitions"]["io.k8s.api.core.v1.ServicePort"]["properties"]["targetPort"].clone();
    without_descriptions(&mut port);
    assert_eq!(
        port,
        json!({"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"})
    );
}

fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

// [F17] [F19] the schema of a definition is published, and again when it changes: a real server takes a minute or more for
// either, so that only the in-memory one is asked
#[tokio::test(start_paused = true)]
async fn definitions_are_published() {
    let server = Server::fake();
    let with_schema = |property: Value| {
        json!({"openAPIV3Schema": {
            "type": "object", "description": "A widget.",
            "properties": {"spec": {"type": "object", "required": ["size"], "properties": {"size": property}}},
        }})
    };
    let first = json!({"type": "string", "enum": ["small", "large"], "default": "small", "nullable": true});
    let kind = CustomKind::register(&server, |definition| {
        definition["spec"]["versions"][0]["schema"] = with_schema(first.clone());
    })
    .await;
    let mut parts: Vec<&str> = kind.group.split('.').collect();
    parts.reverse();
    let name = format!("{}.v1.Widget", parts.join("."));
    let published = async |property: &Value| {
        eventually("the schema is published", || async {
            let answer = server.get(&format!("/openapi/v3/apis/{}/v1", kind.group)).await;
            let document = (answer.code == 200).then(|| answer.json())?;
            let widget = document["components"]["schemas"][&name].clone();
            (widget["properties"]["spec"]["properties"]["size"] == *property).then_some(widget)
        })
        .await
    };
    let widget = published(&first).await;
    assert_eq!(widget["description"], "A widget.");
    assert_eq!(widget["properties"]["kind"]["type"], "string");
    assert_eq!(
        widget["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let url = async || {
        let index = server.get("/openapi/v3").await.ok();
        index["paths"][format!("apis/{}/v1", kind.group)]["serverRelativeURL"].clone()
    };
    let before = url().await;
    let second = json!({"type": "integer", "minimum": 1});
    let definition = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}",
        kind.group
    );
    let change = json!([{"op": "replace", "path": "/spec/versions/0/schema", "value": with_schema(second.clone())}]);
    server.json_patch(&definition, &change).await.ok();
    published(&second).await;
    assert_ne!(url().await, before);
}

cases![
    documents_have_tags,
    index_has_hashes,
    resources_have_storage_hashes,
    built_in_kinds_have_schemas,
];
