//! Create, own, share, conflict, force, give up. [F11]

use serde_json::{Value, json};

use super::{apply, apply_with, conflicts, map, owners};
use crate::harness::{Server, cases, version};

// [F11] an apply creates the object, and its manager owns what it said
async fn an_apply_creates_and_owns(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let mut wanted = map("a", &json!({"v": "1"}));
    wanted["metadata"]["labels"] = json!({"l": "1"});
    let created = apply(&server, &path, "m", &wanted).await.created();
    assert_eq!(created["data"], json!({"v": "1"}));
    assert_eq!(
        owners(&created),
        json!({"Apply m v1": {"f:data": {"f:v": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}})
    );
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);
    assert_eq!(server.get(&path).await.ok(), created);
    // The same again changes nothing, not even the time.
    assert_eq!(apply(&server, &path, "m", &wanted).await.ok(), created);
    // An object of which nothing is owned has no managers.
    let path = namespace.at("configmaps/b");
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    let created = apply(&server, &path, "m", &nothing).await.created();
    assert!(created["metadata"].get("managedFields").is_none());
}

// [F11] managers that agree share a field; that alone is a change, and has no time
async fn managers_that_agree_share(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let created = apply(&server, &path, "one", &map("a", &json!({"v": "1"})))
        .await
        .created();
    let shared = apply(&server, &path, "two", &map("a", &json!({"v": "1"}))).await.ok();
    assert!(version(&shared) > version(&created));
    assert_eq!(
        owners(&shared),
        json!({"Apply one v1": {"f:data": {"f:v": {}}}, "Apply two v1": {"f:data": {"f:v": {}}}})
    );
    // Entries without a time come first.
    let entries = shared["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((&entries[0]["manager"], entries[0].get("time")), (&json!("two"), None));
    assert_eq!(entries[1]["manager"], "one");
    assert!(entries[1].get("time").is_some());
}

// [F11] a field of another manager: 409 with its text, and nothing is stored
async fn a_conflict_names_the_manager_and_the_field(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let created = apply(&server, &path, "one", &map("a", &json!({"v": "1"})))
        .await
        .created();
    let answer = apply(&server, &path, "two", &map("a", &json!({"v": "2", "w": "2"}))).await;
    conflicts(&answer, &[("\"one\"", ".data.v")]);
    assert_eq!(server.get(&path).await.ok(), created);
    let dry = apply_with(&server, &path, "two", "&dryRun=All", &map("a", &json!({"v": "2"}))).await;
    conflicts(&dry, &[("\"one\"", ".data.v")]);
    // Who updates owns as well, in a version.
    server
        .merge(&format!("{path}?fieldManager=hand"), &json!({"data": {"h": "1"}}))
        .await
        .ok();
    let answer = apply(&server, &path, "two", &map("a", &json!({"h": "2"}))).await;
    conflicts(&answer, &[("\"hand\" using v1", ".data.h")]);
}

// [F11] several conflicts are told by manager, the fields of a node before deeper ones
async fn several_conflicts_are_listed(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let mut wanted = map("a", &json!({"v": "1", "w": "1"}));
    wanted["immutable"] = false.into();
    apply(&server, &path, "one", &wanted).await.created();
    wanted = map("a", &json!({"v": "2", "w": "2"}));
    wanted["immutable"] = true.into();
    let answer = apply(&server, &path, "two", &wanted).await;
    conflicts(
        &answer,
        &[
            ("\"one\"", ".immutable"),
            ("\"one\"", ".data.v"),
            ("\"one\"", ".data.w"),
        ],
    );

    server
        .merge(&format!("{path}?fieldManager=hand"), &json!({"data": {"h": "1"}}))
        .await
        .ok();
    let answer = apply(&server, &path, "two", &map("a", &json!({"h": "2", "v": "2"}))).await;
    let body = answer.expect(409);
    // The managers of the causes come in any order, those of the text do not.
    assert_eq!(
        body["message"],
        "Apply failed with 2 conflicts: conflicts with \"hand\" using v1:\n- .data.h\nconflicts with \"one\":\n- .data.v"
    );
    let mut fields: Vec<&str> = body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    fields.sort_unstable();
    assert_eq!(fields, [".data.h", ".data.v"]);
}

// [F11] force takes the field from its owner
async fn force_takes_fields_over(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    apply(&server, &path, "one", &map("a", &json!({"v": "1", "w": "1"})))
        .await
        .created();
    let forced = apply_with(&server, &path, "two", "&force=true", &map("a", &json!({"v": "2"})))
        .await
        .ok();
    assert_eq!(forced["data"], json!({"v": "2", "w": "1"}));
    assert_eq!(
        owners(&forced),
        json!({"Apply one v1": {"f:data": {"f:w": {}}}, "Apply two v1": {"f:data": {"f:v": {}}}})
    );
    let answer = apply(&server, &path, "one", &map("a", &json!({"v": "1", "w": "1"}))).await;
    conflicts(&answer, &[("\"two\"", ".data.v")]);
}

// [F11] a field that is given up goes with its last owner
async fn a_field_goes_with_its_last_owner(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let mut wanted = map("a", &json!({"shared": "1", "own": "1"}));
    wanted["metadata"]["labels"] = json!({"l": "1"});
    apply(&server, &path, "one", &wanted).await.created();
    apply(&server, &path, "two", &map("a", &json!({"shared": "1"})))
        .await
        .ok();
    let left = apply(&server, &path, "one", &map("a", &Value::Null)).await.ok();
    assert_eq!(left["data"], json!({"shared": "1"}));
    assert!(left["metadata"].get("labels").is_none());
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let gone = apply(&server, &path, "two", &nothing).await.ok();
    assert!(gone.get("data").is_none(), "{gone}");
    let gone = apply(&server, &path, "one", &nothing).await.ok();
    assert!(gone["metadata"].get("managedFields").is_none(), "{gone}");
}

// [F11] a field that somebody owns by an update stays when it is given up
async fn a_field_stays_for_an_updater(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    namespace
        .create(
            "configmaps?fieldManager=hand",
            &json!({"metadata": {"name": "a"}, "data": {"v": "1"}}),
        )
        .await;
    apply(&server, &path, "m", &map("a", &json!({"v": "1", "w": "1"})))
        .await
        .ok();
    let left = apply(&server, &path, "m", &map("a", &json!({}))).await.ok();
    assert_eq!(left["data"], json!({"v": "1"}));
    assert_eq!(
        owners(&left),
        json!({"Apply m v1": {"f:data": {}}, "Update hand v1": {"f:data": {".": {}, "f:v": {}}}})
    );
}

// [F11] what a manager did not say stays as it is
async fn what_others_say_stays(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    apply(&server, &path, "one", &map("a", &json!({"v": "1"})))
        .await
        .created();
    let both = apply(&server, &path, "two", &map("a", &json!({"w": "2"}))).await.ok();
    assert_eq!(both["data"], json!({"v": "1", "w": "2"}));
    let changed = apply(&server, &path, "one", &map("a", &json!({"v": "3"}))).await.ok();
    assert_eq!(changed["data"], json!({"v": "3", "w": "2"}));
}

// [F11] the entries of applies come before those of updates
async fn entries_come_in_order(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    namespace
        .create(
            "configmaps?fieldManager=a-hand",
            &json!({"metadata": {"name": "a"}, "data": {"v": "1"}}),
        )
        .await;
    apply(&server, &path, "z", &map("a", &json!({"z": "1"}))).await.ok();
    let object = apply(&server, &path, "y", &map("a", &json!({"z": "1"}))).await.ok();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<&str> = entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(managers, ["y", "z", "a-hand"]);
    let names: Vec<&String> = entries[2].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "time"]
    );
}

cases!(
    an_apply_creates_and_owns,
    managers_that_agree_share,
    a_conflict_names_the_manager_and_the_field,
    several_conflicts_are_listed,
    force_takes_fields_over,
    a_field_goes_with_its_last_owner,
    a_field_stays_for_an_updater,
    what_others_say_stays,
    entries_come_in_order,
);
