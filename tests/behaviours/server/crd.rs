//! Custom resource definitions: registration, serving, removal. [F17]

use serde_json::{Value, json};

use super::list_version::names;
use super::texts::LABEL_1035;
use crate::harness::{CustomKind, Server, cases, eventually, unique, version};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

fn condition(definition: &Value, kind: &str) -> Option<Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    let mut found = conditions.iter().find(|condition| condition["type"] == kind)?.clone();
    found.as_object_mut()?.remove("lastTransitionTime");
    found.as_object_mut()?.remove("observedGeneration");
    Some(found)
}

// [F17] registration: the answer fills in names and versions, the conditions follow
async fn a_definition_is_established(server: Server) {
    let group = format!("{}.example.com", unique());
    let mut definition = CustomKind::definition(&group);
    definition["spec"]["names"] = json!({"plural": "widgets", "kind": "Widget"});
    let created = server.post(DEFINITIONS, &definition).await.created();
    let full = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    assert_eq!(created["spec"]["names"], full);
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{DEFINITIONS}/widgets.{group}");
    let established = eventually("the definition is established", || async {
        let definition = server.get(&path).await.ok();
        let established = condition(&definition, "Established")?;
        (established["status"] == "True").then_some(definition)
    })
    .await;
    let names =
        json!({"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"});
    assert_eq!(condition(&established, "NamesAccepted"), Some(names));
    let done = json!({"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted"});
    assert_eq!(condition(&established, "Established"), Some(done));
    assert_eq!(established["status"]["acceptedNames"], full);
    assert!(version(&established) > version(&created));
}

// [F17] its objects: create, get, list, update, delete, with the shapes of custom resources
async fn its_objects_are_served(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let at = |rest: &str| kind.at(&namespace, rest);
    let empty = server.get(&at("")).await.ok();
    assert_eq!(empty["items"], json!([]));
    assert_eq!(empty["kind"], "WidgetList");
    assert_eq!(empty["apiVersion"], format!("{}/v1", kind.group));
    let object = kind.object(
        "a",
        &json!({"spec": {"x": 1.0, "y": [null, 1], "z": null}, "status": {"s": 1}}),
    );
    let created = server.post(&at(""), &object).await.created();
    assert_eq!(
        created["spec"],
        json!({"x": 1, "y": [null, 1], "z": null}),
        "whole numbers are integers, nulls stay"
    );
    assert_eq!(created["status"], json!({"s": 1}));
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["namespace"], namespace.name());
    assert_eq!(server.get(&at("/a")).await.ok(), created);
    let list = server.get(&at("")).await.ok();
    assert_eq!(list["items"], json!([created]), "items carry kind and apiVersion");
    assert_eq!(list["metadata"]["continue"], "");
    let everywhere = server.get(&kind.everywhere()).await.ok();
    assert_eq!(everywhere["items"], json!([created]));
    let mut next = created.clone();
    next["spec"] = json!({"x": 2});
    let updated = server.put(&at("/a"), &next).await.ok();
    assert_eq!(
        (&updated["spec"], &updated["metadata"]["generation"]),
        (&json!({"x": 2}), &json!(2))
    );
    assert_eq!(server.put(&at("/a"), &updated).await.ok(), updated);
    let details = json!({"name": "a", "group": kind.group, "kind": "widgets"});
    let text = format!("widgets.{} \"a\" already exists", kind.group);
    server
        .post(&at(""), &object)
        .await
        .is(409, "AlreadyExists", &text, details.clone());
    server.delete(&at("/a")).await.ok();
    let text = format!("widgets.{} \"a\" not found", kind.group);
    server.get(&at("/a")).await.is(404, "NotFound", &text, details);
}

// [F17] [F2] its lists have pages, and deletecollection works
async fn its_collections_are_paged_and_deleted(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    for name in ["a", "b", "c"] {
        server
            .post(&kind.at(&namespace, ""), &kind.object(name, &json!({})))
            .await
            .created();
    }
    let page = server.get(&kind.at(&namespace, "?limit=2")).await.ok();
    assert_eq!(names(&page), "a,b");
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let go_on = page["metadata"]["continue"].as_str().unwrap();
    let rest = server
        .get(&kind.at(&namespace, &format!("?limit=2&continue={go_on}")))
        .await
        .ok();
    assert_eq!(names(&rest), "c");
    assert_eq!(version(&rest), version(&page));
    assert_eq!(names(&server.delete(&kind.at(&namespace, "")).await.ok()), "a,b,c");
    assert_eq!(names(&server.get(&kind.at(&namespace, "")).await.ok()), "");
}

// [F17] [F18] bodies that are no such object
async fn refuses_bad_objects(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "");
    let send = async |body: String| {
        server
            .request("POST", &path)
            .body("application/json", body)
            .send()
            .await
    };
    let version = format!("{}/v1", kind.group);
    let unrecognized = "the object provided is unrecognized (must be of type Widget): ";
    let missing = send(r#"{"metadata":{"name":"b"}}"#.to_owned()).await;
    let text = format!("{unrecognized}Object 'Kind' is missing in '{{\"metadata\":{{\"name\":\"b\"}}}}' …");
    missing.is(400, "BadRequest", &text, Value::Null);
    for (body, problem) in [
        ("", "unexpected end of JSON input (<empty>)"),
        ("{", "unexpected end of JSON input ({)"),
    ] {
        let text = format!("{unrecognized}couldn't get version/kind; json parse error: {problem}");
        send(body.to_owned()).await.is(400, "BadRequest", &text, Value::Null);
    }
    let other = send(json!({"apiVersion": version, "kind": "Nope", "metadata": {"name": "b"}}).to_string()).await;
    other.invalid(
        &kind.group,
        "Nope",
        "b",
        &[(INVALID, "kind", "Invalid value: \"Nope\": must be Widget")],
    );
    for wrong in ["v1".to_owned(), format!("{}/v2", kind.group)] {
        let answer = send(json!({"apiVersion": wrong, "kind": "Widget", "metadata": {"name": "b"}}).to_string()).await;
        let text = format!("the API version in the data ({wrong}) does not match the expected API version ({version})");
        answer.is(400, "BadRequest", &text, Value::Null);
    }
    let number = send(json!({"apiVersion": version, "kind": "Widget", "metadata": 5}).to_string()).await;
    let text = "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number into Go value of type v1.ObjectMeta";
    number.is(400, "BadRequest", text, Value::Null);
    let label = json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": "q", "labels": {"a": 5}}});
    let text = "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    send(label.to_string()).await.is(400, "BadRequest", text, Value::Null);
}

// [F17] [F18] paths of the group: plain text where nothing is served, and the methods of custom resources
async fn paths_of_the_group(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |crd| {
        let mut old = crd["spec"]["versions"][0].clone();
        old["name"] = "v0".into();
        old["served"] = false.into();
        old["storage"] = false.into();
        crd["spec"]["versions"].as_array_mut().unwrap().push(old);
    })
    .await;
    let group = format!("/apis/{}", kind.group);
    let everywhere = kind.everywhere();
    for path in [
        format!("{group}/v0/widgets"),
        format!("{group}/v1/nope"),
        format!("{group}/v0"),
        format!("{everywhere}/x"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{path}");
    }
    for answer in [
        server.post(&everywhere, &kind.object("x", &json!({}))).await,
        server.delete(&everywhere).await,
    ] {
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{answer}");
    }
    let (list, object) = (kind.at(&namespace, ""), kind.object("w", &json!({})));
    server
        .put(&list, &object)
        .await
        .is(400, "BadRequest", "name must be provided", Value::Null);
    server
        .merge(&list, &json!({}))
        .await
        .is(400, "BadRequest", "name must be provided", Value::Null);
    let options = server.request("OPTIONS", &list).send().await;
    let text = format!(" is not supported on resources of kind \"widgets.{}\"", kind.group);
    options.is(
        405,
        "MethodNotAllowed",
        &text,
        json!({"group": kind.group, "kind": "widgets"}),
    );
    // Discovery knows the group, its served version and the resource.
    let served = json!({"groupVersion": format!("{}/v1", kind.group), "version": "v1"});
    let known = json!({"kind": "APIGroup", "apiVersion": "v1", "name": kind.group, "versions": [served], "preferredVersion": served});
    assert_eq!(server.get(&group).await.ok(), known);
    let resources = server.get(&format!("{group}/v1")).await.ok();
    let mut widgets = resources["resources"][0].clone();
    widgets.as_object_mut().unwrap().remove("storageVersionHash");
    let verbs = json!([
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch"
    ]);
    let expected =
        json!({"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": verbs});
    assert_eq!(widgets, expected);
    eventually("the index of the groups knows it", || async {
        let groups = server.get("/apis").await.ok();
        groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["name"] == kind.group)
            .then_some(())
    })
    .await;
}

// [F17] a cluster-scoped custom kind
async fn cluster_scoped_kinds_have_no_namespaces(server: Server) {
    let kind = CustomKind::register(&server, |crd| crd["spec"]["scope"] = "Cluster".into()).await;
    let path = kind.everywhere();
    let created = server
        .post(&path, &kind.object("w", &json!({"spec": {"x": 1}})))
        .await
        .created();
    assert!(created["metadata"].get("namespace").is_none());
    assert_eq!(names(&server.get(&path).await.ok()), "w");
    assert_eq!(server.get(&format!("{path}/w")).await.ok(), created);
    let namespaced = server
        .get(&format!("/apis/{}/v1/namespaces/default/widgets", kind.group))
        .await;
    assert_eq!((namespaced.code, namespaced.text()), (404, "404 page not found\n"));
    server.delete(&format!("{path}/w")).await.ok();
}

// [F17] several versions: one storage, each served under its own apiVersion
async fn versions_show_the_same_objects(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |crd| {
        let mut next = crd["spec"]["versions"][0].clone();
        next["name"] = "v2".into();
        next["storage"] = false.into();
        crd["spec"]["versions"].as_array_mut().unwrap().push(next);
    })
    .await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({"spec": {"x": 1}})))
        .await
        .created();
    let newer = namespace.of(&format!("{}/v2", kind.group), "widgets/w");
    let object = eventually("the second version is served", || async {
        let answer = server.get(&newer).await;
        (answer.code == 200).then(|| answer.json())
    })
    .await;
    assert_eq!(object["apiVersion"], format!("{}/v2", kind.group));
    assert_eq!(object["spec"], json!({"x": 1}));
    let patched = server.merge(&newer, &json!({"spec": {"x": 2}})).await.ok();
    assert_eq!(patched["apiVersion"], format!("{}/v2", kind.group));
    assert_eq!(
        server.get(&kind.at(&namespace, "/w")).await.ok()["spec"],
        json!({"x": 2})
    );
}

// [F17] definitions that are refused
async fn refuses_bad_definitions(server: Server) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let send = async |change: fn(&mut Value)| {
        let mut definition = CustomKind::definition(&group);
        change(&mut definition);
        server.post(DEFINITIONS, &definition).await
    };
    let check = |answer: crate::harness::Answer, name: &str, causes: &[(&str, &str, &str)]| {
        answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, causes);
    };
    let named = format!("Invalid value: {name:?}: must be spec.names.plural+\".\"+spec.group");
    let other = "Invalid value: \"x.y\": must be spec.names.plural+\".\"+spec.group";
    check(
        send(|crd| crd["metadata"]["name"] = "x.y".into()).await,
        "x.y",
        &[(INVALID, "metadata.name", other)],
    );
    let scope = r#"Unsupported value: "Foo": supported values: "Cluster", "Namespaced""#;
    check(
        send(|crd| crd["spec"]["scope"] = "Foo".into()).await,
        &name,
        &[("FieldValueNotSupported", "spec.scope", scope)],
    );
    let schema = (
        REQUIRED,
        "spec.versions[0].schema.openAPIV3Schema",
        "Required value: schemas are required",
    );
    let unschemed = send(|crd| drop(crd["spec"]["versions"][0].as_object_mut().unwrap().remove("schema"))).await;
    assert_eq!(unschemed.code, 422, "{unschemed}");
    assert_eq!(
        unschemed.json()["details"]["causes"][0]["field"],
        schema.1,
        "{unschemed}"
    );
    let unstored = send(|crd| drop(crd["spec"].as_object_mut().unwrap().remove("versions"))).await;
    check(
        unstored,
        &name,
        &[
            (
                INVALID,
                "spec.versions",
                "Invalid value: null: must have exactly one version marked as storage version",
            ),
            (
                INVALID,
                "status.storedVersions",
                "Invalid value: null: must have at least one stored version",
            ),
        ],
    );
    let unnamed = send(|crd| drop(crd["spec"].as_object_mut().unwrap().remove("names"))).await;
    check(
        unnamed,
        &name,
        &[
            (INVALID, "metadata.name", &named),
            (REQUIRED, "spec.names.plural", "Required value"),
            (REQUIRED, "spec.names.singular", "Required value"),
            (REQUIRED, "spec.names.kind", "Required value"),
            (REQUIRED, "spec.names.listKind", "Required value"),
        ],
    );
    let plural = format!("Invalid value: \"Wid gets\": {LABEL_1035}");
    check(
        send(|crd| crd["spec"]["names"]["plural"] = "Wid gets".into()).await,
        &name,
        &[
            (INVALID, "metadata.name", &named),
            (INVALID, "spec.names.plural", &plural),
        ],
    );
    assert_eq!(server.get(&format!("{DEFINITIONS}/{name}")).await.code, 404);
}

// [F17] removal: the objects go, the watches end, the paths are gone
async fn removing_the_definition_removes_everything(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({})))
        .await
        .created();
    let mut watch = server.watch(&kind.at(&namespace, "?watch=1")).await;
    assert_eq!(watch.next().await.brief(), ("ADDED", "w"));
    let definition = format!("{DEFINITIONS}/widgets.{}", kind.group);
    let removed = server.delete(&definition).await.ok();
    assert_eq!(
        removed["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert!(removed["metadata"]["deletionTimestamp"].is_string());
    let last = watch.rest().await;
    let last: Vec<_> = last.iter().map(crate::harness::Event::brief).collect();
    assert_eq!(last, [("DELETED", "w")], "the object's deletion is the last event");
    eventually("the definition is gone", || async {
        (server.get(&definition).await.code == 404).then_some(())
    })
    .await;
    eventually("the path is gone", || async {
        let answer = server.get(&kind.at(&namespace, "")).await;
        (answer.code == 404 && answer.text() == "404 page not found\n").then_some(())
    })
    .await;
    // Registered again, it is empty.
    server
        .post(DEFINITIONS, &CustomKind::definition(&kind.group))
        .await
        .created();
    kind.served(&server).await;
    assert_eq!(names(&server.get(&kind.at(&namespace, "")).await.ok()), "");
}

cases![
    a_definition_is_established,
    its_objects_are_served,
    its_collections_are_paged_and_deleted,
    refuses_bad_objects,
    paths_of_the_group,
    cluster_scoped_kinds_have_no_namespaces,
    versions_show_the_same_objects,
    refuses_bad_definitions,
    removing_the_definition_removes_everything,
];

// [F17] whoever reads that a kind is established can ask for it, on any thread
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn established_kinds_are_served_at_once() {
    let server = Server::fake();
    for _ in 0..100 {
        let group = format!("{}.example.com", unique());
        let kind = CustomKind { group };
        let version = server.current_version().await;
        let mut watch = server
            .watch(&format!("{DEFINITIONS}?watch=1&resourceVersion={version}"))
            .await;
        let reader = {
            let (server, kind) = (server.clone(), kind.clone());
            tokio::spawn(async move {
                loop {
                    let event = watch.next().await;
                    let established = condition(&event.object, "Established");
                    if established.is_some_and(|condition| condition["status"] == "True") {
                        return server.get(&kind.everywhere()).await.code;
                    }
                }
            })
        };
        server
            .post(DEFINITIONS, &CustomKind::definition(&kind.group))
            .await
            .created();
        assert_eq!(reader.await.unwrap(), 200);
    }
}
