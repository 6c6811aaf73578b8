//! How definitions come by their names, and how they go. [F17]

use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, cases, eventually, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Status, reason and message of a condition.
fn condition(definition: &Value, kind: &str) -> Option<[String; 3]> {
    let conditions = definition["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(["status", "reason", "message"].map(|part| found[part].as_str().unwrap_or_default().to_owned()))
}

async fn settled(server: &Server, path: &str, kind: &str, wanted: [&str; 3]) -> Value {
    eventually(&format!("{path} is {kind} {wanted:?}"), || async {
        let definition = server.get(path).await.json();
        (condition(&definition, kind)? == wanted).then_some(definition)
    })
    .await
}

// [F17] a name that another definition of the group has is not to be had, until that one is gone
async fn names_belong_to_one_definition(server: Server) {
    let first = CustomKind::register(&server, |crd| {
        crd["spec"]["names"]["shortNames"] = json!(["wg"]);
        crd["spec"]["names"]["categories"] = json!(["all"]);
    })
    .await;
    let group = &first.group;
    let mut second = CustomKind::definition(group);
    second["metadata"]["name"] = format!("gizmos.{group}").into();
    second["spec"]["names"] = json!({
        "plural": "gizmos", "singular": "widget", "kind": "Widget", "listKind": "GizmoList", "shortNames": ["wg", "gz"],
    });
    server.post(DEFINITIONS, &second).await.created();
    let path = format!("{DEFINITIONS}/gizmos.{group}");
    let conflict = ["False", "KindConflict", r#""Widget" is already in use"#];
    let refused = settled(&server, &path, "NamesAccepted", conflict).await;
    let not_served = ["False", "NotAccepted", "not all names are accepted"].map(str::to_owned);
    assert_eq!(condition(&refused, "Established"), Some(not_served));
    assert_eq!(
        refused["status"]["acceptedNames"],
        json!({"plural": "gizmos", "kind": "", "listKind": "GizmoList"}),
        "what is free is accepted"
    );
    let answer = server.get(&format!("/apis/{group}/v1/gizmos")).await;
    assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"));
    // The name is given up.
    server.delete(&format!("{DEFINITIONS}/widgets.{group}")).await.ok();
    settled(
        &server,
        &path,
        "NamesAccepted",
        ["True", "NoConflicts", "no conflicts found"],
    )
    .await;
    let accepted = ["True", "InitialNamesAccepted", "the initial names have been accepted"];
    let definition = settled(&server, &path, "Established", accepted).await;
    assert_eq!(definition["status"]["acceptedNames"], second["spec"]["names"]);
    eventually("the second kind is served", || async {
        (server.get(&format!("/apis/{group}/v1/gizmos")).await.code == 200).then_some(())
    })
    .await;
    // A definition that is served keeps its names when it asks for one that is taken, and is still served.
    let third = json!({"plural": "doodads", "singular": "doodad", "kind": "Doodad", "listKind": "DoodadList", "shortNames": ["dd"]});
    let mut definition = CustomKind::definition(group);
    definition["metadata"]["name"] = format!("doodads.{group}").into();
    definition["spec"]["names"] = third;
    server.post(DEFINITIONS, &definition).await.created();
    let path = format!("{DEFINITIONS}/doodads.{group}");
    settled(&server, &path, "Established", accepted).await;
    let wanted = json!({"spec": {"names": {"shortNames": ["gz"]}}});
    server.merge(&path, &wanted).await.ok();
    let conflict = ["False", "ShortNamesConflict", r#""gz" is already in use"#];
    let definition = settled(&server, &path, "NamesAccepted", conflict).await;
    assert_eq!(definition["status"]["acceptedNames"]["shortNames"], json!(["dd"]));
    settled(&server, &path, "Established", accepted).await;
}

// [F17] [F12] objects with finalizers keep their definition, which takes no new ones
async fn objects_with_finalizers_keep_their_definition(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let at = |rest: &str| kind.at(&namespace, rest);
    let held = kind.object("held", &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    server.post(&at(""), &held).await.created();
    server.post(&at(""), &kind.object("free", &json!({}))).await.created();
    let mut watch = server.watch(&at("?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.brief(), ("ADDED", "free"));
    assert_eq!(watch.next().await.brief(), ("ADDED", "held"));
    let definition = format!("{DEFINITIONS}/widgets.{}", kind.group);
    let deleted = server.delete(&definition).await.ok();
    assert!(condition(&deleted, "Terminating").is_some());
    let mut events = [watch.next().await, watch.next().await].map(|event| {
        let (kind, name) = event.brief();
        format!("{kind} {name}")
    });
    events.sort();
    assert_eq!(events, ["DELETED free", "MODIFIED held"]);
    let in_progress = [
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    ];
    settled(&server, &definition, "Terminating", in_progress).await;
    let object = server.get(&at("/held")).await.ok();
    assert!(object["metadata"]["deletionTimestamp"].is_string());
    let refused = server.post(&at(""), &kind.object("new", &json!({}))).await;
    let text = format!(
        "widgets.{} \"new\" is forbidden: create not allowed while custom resource definition is terminating",
        kind.group
    );
    refused.is(
        403,
        "Forbidden",
        &text,
        json!({"name": "new", "group": kind.group, "kind": "widgets"}),
    );
    server
        .merge(&at("/held"), &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    let last: Vec<String> = watch
        .rest()
        .await
        .iter()
        .map(|event| event.brief().1.to_owned())
        .collect();
    assert_eq!(last, ["held"], "the watch ends with the last object");
    eventually("the definition is gone", || async {
        (server.get(&definition).await.code == 404).then_some(())
    })
    .await;
    // Again from nothing.
    server
        .post(DEFINITIONS, &CustomKind::definition(&kind.group))
        .await
        .created();
    kind.served(&server).await;
    assert_eq!(server.get(&at("")).await.ok()["items"], json!([]));
}

// [F17] a definition that was never served goes at once
async fn a_definition_without_names_goes_at_once(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let group = &kind.group;
    let mut other = CustomKind::definition(group);
    other["metadata"]["name"] = format!("gizmos.{group}").into();
    other["spec"]["names"] =
        json!({"plural": "gizmos", "singular": "gizmo", "kind": "Widget", "listKind": "GizmoList"});
    server.post(DEFINITIONS, &other).await.created();
    let path = format!("{DEFINITIONS}/gizmos.{group}");
    let conflict = ["False", "KindConflict", r#""Widget" is already in use"#];
    settled(&server, &path, "NamesAccepted", conflict).await;
    server.delete(&path).await.ok();
    eventually("the definition is gone", || async {
        (server.get(&path).await.code == 404).then_some(())
    })
    .await;
    let name = unique();
    let namespace = server.namespace().await;
    server
        .post(&kind.at(&namespace, ""), &kind.object(&name, &json!({})))
        .await
        .created();
}

cases![
    names_belong_to_one_definition,
    objects_with_finalizers_keep_their_definition,
    a_definition_without_names_goes_at_once,
];
