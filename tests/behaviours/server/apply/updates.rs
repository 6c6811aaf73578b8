//! What writes other than an apply do to owners. [F11]

use serde_json::{Value, json};

use super::{apply, map, owners};
use crate::harness::{Server, cases, version};

// [F11] create, update, merge and JSON patch own what they change
async fn every_write_owns_what_it_changes(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let body = json!({"metadata": {"name": "a"}, "data": {"v": "1", "w": "1"}});
    let created = namespace.create("configmaps?fieldManager=c", &body).await;
    assert_eq!(
        owners(&created),
        json!({"Update c v1": {"f:data": {".": {}, "f:v": {}, "f:w": {}}}})
    );
    let mut object = created;
    object["data"]["v"] = "2".into();
    let put = server.put(&format!("{path}?fieldManager=u"), &object).await.ok();
    let first = json!({"f:data": {".": {}, "f:w": {}}});
    assert_eq!(
        owners(&put),
        json!({"Update c v1": first, "Update u v1": {"f:data": {"f:v": {}}}})
    );
    server
        .merge(
            &format!("{path}?fieldManager=m"),
            &json!({"data": {"w": null, "x": "1"}}),
        )
        .await
        .ok();
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}]);
    let patched = server.json_patch(&format!("{path}?fieldManager=j"), &patch).await.ok();
    assert_eq!(
        owners(&patched),
        json!({
            "Update c v1": {"f:data": {}},
            "Update u v1": {"f:data": {"f:v": {}}},
            "Update m v1": {"f:data": {"f:x": {}}},
            "Update j v1": {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}},
        })
    );
}

// [F11] the manager is the user agent's name where none is given
async fn the_user_agent_names_the_manager(server: Server) {
    let namespace = server.namespace().await;
    for (agent, manager) in [("tool/v1.2 (linux)", "tool"), ("/x", "unknown"), ("plain", "plain")] {
        let body = json!({"metadata": {"generateName": "a"}, "data": {"v": "1"}});
        let request = server
            .request("POST", &namespace.at("configmaps"))
            .header("user-agent", agent);
        let created = request.json(&body).send().await.created();
        assert_eq!(created["metadata"]["managedFields"][0]["manager"], manager);
    }
    let agent = format!("{}/1", "x".repeat(200));
    let body = json!({"metadata": {"generateName": "a"}, "data": {"v": "1"}});
    let request = server
        .request("POST", &namespace.at("configmaps"))
        .header("user-agent", &agent);
    let created = request.json(&body).send().await.created();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "x".repeat(128));
    // Bytes that are no text are shown as such.
    let created = namespace.create("configmaps?fieldManager=a%C3", &body).await;
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "a\u{fffd}");
}

// [F11] a write that changes nothing has no owner and no new version
async fn a_write_that_changes_nothing(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let body = json!({"metadata": {"name": "a"}, "data": {"v": "1"}});
    let created = namespace.create("configmaps?fieldManager=c", &body).await;
    let put = server.put(&format!("{path}?fieldManager=u"), &created).await.ok();
    assert_eq!(put, created);
    let mut bare = created.clone();
    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(server.put(&format!("{path}?fieldManager=u"), &bare).await.ok(), created);
    let merged = server
        .merge(&format!("{path}?fieldManager=u"), &json!({"data": {"v": "1"}}))
        .await
        .ok();
    assert_eq!(version(&merged), version(&created));
}

// [F11] an update takes a field from who applied it, or takes it away
async fn updates_take_fields_from_appliers(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    apply(&server, &path, "m", &map("a", &json!({"v": "1", "w": "1", "x": "1"})))
        .await
        .created();
    let patch = json!({"data": {"v": "2", "w": null}});
    let patched = server.merge(&format!("{path}?fieldManager=u"), &patch).await.ok();
    assert_eq!(
        owners(&patched),
        json!({"Apply m v1": {"f:data": {"f:x": {}}}, "Update u v1": {"f:data": {"f:v": {}}}})
    );
}

// [F11] managed fields in an update: what the client says counts, if it can be read
async fn updates_may_set_managed_fields(server: Server) {
    let namespace = server.namespace().await;
    let own = json!({"Update c v1": {"f:data": {".": {}, "f:v": {}}}});
    let entry = json!({
        "manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:z": {}}},
    });
    for (at, (fields, left)) in [
        (json!([]), json!({})),
        (json!([{}]), json!({})),
        (Value::Null, own.clone()),
        (json!([{"manager": "x", "operation": "Other"}]), own.clone()),
        (json!([entry]), json!({"Update x v1": {"f:data": {"f:z": {}}}})),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"metadata": {"name": format!("m{at}")}, "data": {"v": "1"}});
        let mut object = namespace.create("configmaps?fieldManager=c", &body).await;
        assert_eq!(owners(&object), own);
        object["metadata"]["managedFields"] = fields.clone();
        let put = server
            .put(&namespace.at(&format!("configmaps/m{at}?fieldManager=c")), &object)
            .await
            .ok();
        assert_eq!(owners(&put), left, "{fields}");
    }
}

// [F11] of more than ten managers of updates, the oldest are put together
async fn old_updates_are_put_together(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    namespace
        .create(
            "configmaps?fieldManager=c",
            &json!({"metadata": {"name": "a"}, "data": {"v": "1"}}),
        )
        .await;
    let mut last = Value::Null;
    for at in 0..12 {
        let patch = json!({"data": {format!("k{at:02}"): "1"}});
        last = server
            .merge(&format!("{path}?fieldManager=u{at:02}"), &patch)
            .await
            .ok();
    }
    let mut wanted = json!({
        "Update ancient-changes v1": {"f:data": {".": {}, "f:v": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}},
    });
    for at in 3..12 {
        wanted[format!("Update u{at:02} v1")] = json!({"f:data": {format!("f:k{at:02}"): {}}});
    }
    assert_eq!(owners(&last), wanted);
}

// [F11] a list shows owners, as do metadata alone
async fn representations_show_owners(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace
        .create(
            "configmaps?fieldManager=c",
            &json!({"metadata": {"name": "a"}, "data": {"v": "1"}}),
        )
        .await;
    let list = server.get(&namespace.at("configmaps")).await.ok();
    assert_eq!(owners(&list["items"][0]), owners(&created));
    let metadata = server
        .request("GET", &namespace.at("configmaps/a"))
        .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .send()
        .await
        .ok();
    assert_eq!(owners(&metadata), owners(&created));
}

// [F11] a deletion that waits has no owner
async fn deletions_have_no_owner(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.io/a"]}, "data": {"v": "1"}});
    let created = namespace.create("configmaps?fieldManager=c", &body).await;
    let deleted = server.delete(&path).await.ok();
    assert!(deleted["metadata"].get("deletionTimestamp").is_some());
    assert_eq!(owners(&deleted), owners(&created));
}

cases!(
    every_write_owns_what_it_changes,
    the_user_agent_names_the_manager,
    a_write_that_changes_nothing,
    updates_take_fields_from_appliers,
    updates_may_set_managed_fields,
    old_updates_are_put_together,
    representations_show_owners,
    deletions_have_no_owner,
);
