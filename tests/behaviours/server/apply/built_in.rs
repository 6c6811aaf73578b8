//! Built-in kinds: what writes of them own, and how they are merged. [F11]

use serde_json::{Value, json};

use super::{apply, apply_with, conflicts, owners};
use crate::harness::{Server, cases};

fn pod(containers: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn deployment(more: &Value) -> Value {
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]);
    let mut spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]},
        },
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

// [F11] who creates a pod owns what it sent and its defaults, but not what admission added
async fn creators_own_defaults_too(server: Server) {
    let namespace = server.namespace().await;
    let body = json!({
        "metadata": {"name": "p", "labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["x.io/a"]},
        "spec": {
            "containers": [{
                "name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}],
            }],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        },
    });
    let created = namespace.create("pods?fieldManager=m", &body).await;
    assert_eq!(
        owners(&created),
        json!({"Update m v1": {
            "f:metadata": {
                "f:annotations": {".": {}, "f:a": {}},
                "f:finalizers": {".": {}, "v:\"x.io/a\"": {}},
                "f:labels": {".": {}, "f:l": {}},
            },
            "f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {},
                    "f:env": {".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}},
                    "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                    "f:ports": {
                        ".": {},
                        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
                    },
                    "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
                }},
                "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}, "f:tolerations": {},
            },
        }})
    );
}

// [F11] what creators of other kinds own
async fn creators_of_other_kinds(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace
        .create(
            "secrets?fieldManager=m",
            &json!({"metadata": {"generateName": "s"}, "stringData": {"a": "b"}, "data": {"c": "YQ=="}}),
        )
        .await;
    let fields = json!({
        "f:data": {".": {}, "f:a": {}, "f:c": {}}, "f:metadata": {"f:generateName": {}}, "f:type": {},
    });
    assert_eq!(owners(&created), json!({"Update m v1": fields}));

    let own = server
        .get(&format!("/api/v1/namespaces/{}", namespace.name()))
        .await
        .ok();
    let entry = &own["metadata"]["managedFields"][0];
    let label = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    assert_eq!((&entry["fieldsV1"], &entry["operation"]), (&label, &json!("Update")));

    let path = namespace.of("apps/v1", "deployments?fieldManager=m");
    let mut body = deployment(&json!({}));
    body["spec"]["template"]["spec"]["containers"][0]
        .as_object_mut()
        .unwrap()
        .remove("ports");
    let created = server.post(&path, &body).await.created();
    let containers = json!({"k:{\"name\":\"c\"}": {
        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {}, "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {},
    }});
    let template = json!({
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:containers": containers, "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {},
            "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
        },
    });
    let fields = json!({"f:spec": {
        "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
        "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
        "f:template": template,
    }});
    assert_eq!(owners(&created), json!({"Update m apps/v1": fields}));
}

// [F11] containers are merged by name, also over those of a creator
async fn containers_merge_by_name(server: Server) {
    let namespace = server.namespace().await;
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "args": ["x"]}]}});
    namespace.create("pods?fieldManager=hand", &body).await;
    let path = namespace.at("pods/p");
    let wanted = pod(&json!([{"name": "c", "image": "i2"}]));
    let answer = apply(&server, &path, "m", &wanted).await;
    conflicts(&answer, &[("\"hand\" using v1", ".spec.containers[name=\"c\"].image")]);
    let forced = apply_with(&server, &path, "m", "&force=true", &wanted).await.ok();
    let container = &forced["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["args"]), (&json!("i2"), &json!(["x"])));
    let own = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}});
    let owners = owners(&forced);
    assert_eq!(owners["Apply m v1"], own);
    let left = &owners["Update hand v1"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    assert!(left.get("f:image").is_none() && left.get("f:name").is_some(), "{left}");
}

// [F11] items that are equal in their keys are refused
async fn items_with_equal_keys_are_refused(server: Server) {
    let namespace = server.namespace().await;
    let text = "failed to create typed patch object (/p; /v1, Kind=Pod): .spec.containers: duplicate entries for key \
                [name=\"c\"]";
    apply(
        &server,
        &namespace.at("pods/p"),
        "m",
        &pod(&json!([{"name": "c"}, {"name": "c"}])),
    )
    .await
    .is(500, "", text, Value::Null);
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]);
    let text = "failed to create typed patch object (/p; /v1, Kind=Pod): .spec.containers[name=\"c\"].ports: duplicate entries \
                for key [containerPort=80,protocol=\"TCP\"]";
    apply(
        &server,
        &namespace.at("pods/p"),
        "m",
        &pod(&json!([{"name": "c", "ports": ports}])),
    )
    .await
    .is(500, "", text, Value::Null);
}

// [F11] items with several keys, of which one has a default; a field that another manager took over is given up
async fn replicas_are_handed_over(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.of("apps/v1", "deployments/d");
    let created = apply(&server, &path, "m", &deployment(&json!({"replicas": 2})))
        .await
        .created();
    let ports = json!({
        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
        "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
    });
    let container = json!({"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": ports}});
    let template = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": container}});
    let with = json!({"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": template}});
    let without = json!({"f:spec": {"f:selector": {}, "f:template": template}});
    assert_eq!(owners(&created), json!({"Apply m apps/v1": with}));

    let scaled = server
        .merge(&format!("{path}?fieldManager=hpa"), &json!({"spec": {"replicas": 5}}))
        .await
        .ok();
    let hpa = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(
        owners(&scaled),
        json!({"Apply m apps/v1": without, "Update hpa apps/v1": hpa})
    );
    let answer = apply(&server, &path, "m", &deployment(&json!({"replicas": 2}))).await;
    conflicts(&answer, &[("\"hpa\" using apps/v1", ".spec.replicas")]);
    let given_up = apply(&server, &path, "m", &deployment(&json!({}))).await.ok();
    assert_eq!(given_up["spec"]["replicas"], 5);
    assert_eq!(given_up, scaled, "nothing changed");
}

// [F11] an atomic struct is owned as a whole
async fn atomic_structs_are_owned_as_a_whole(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("services/s");
    let service = |selector: &Value| {
        let spec = json!({"selector": selector, "ports": [{"port": 80}]});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})
    };
    let created = apply(&server, &path, "one", &service(&json!({"a": "1", "b": "1"})))
        .await
        .created();
    let port = json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}});
    assert_eq!(
        owners(&created),
        json!({"Apply one v1": {"f:spec": {"f:ports": port, "f:selector": {}}}})
    );
    let answer = apply(&server, &path, "two", &service(&json!({"a": "1"}))).await;
    conflicts(&answer, &[("\"one\"", ".spec.selector")]);
    let replaced = apply(&server, &path, "one", &service(&json!({"c": "1"}))).await.ok();
    assert_eq!(replaced["spec"]["selector"], json!({"c": "1"}));
}

// [F11] metadata: finalizers are a set, owner references a list by uid whose items are owned as a whole
async fn lists_of_metadata_merge(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let wanted = |finalizer: &str, uid: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "finalizers": [finalizer],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}],
        }})
    };
    apply(&server, &path, "one", &wanted("x.io/a", "u1", "p"))
        .await
        .created();
    let both = apply(&server, &path, "two", &wanted("x.io/b", "u2", "p")).await.ok();
    assert_eq!(both["metadata"]["finalizers"], json!(["x.io/a", "x.io/b"]));
    let own = |finalizer: &str, uid: &str| {
        json!({"f:metadata": {
            "f:finalizers": {format!("v:\"{finalizer}\""): {}},
            "f:ownerReferences": {format!("k:{{\"uid\":\"{uid}\"}}"): {}},
        }})
    };
    assert_eq!(
        owners(&both),
        json!({"Apply one v1": own("x.io/a", "u1"), "Apply two v1": own("x.io/b", "u2")})
    );
    let answer = apply(&server, &path, "two", &wanted("x.io/b", "u1", "q")).await;
    conflicts(&answer, &[("\"one\"", ".metadata.ownerReferences[uid=\"u1\"]")]);
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = apply(&server, &path, "one", &nothing).await.ok();
    assert_eq!(left["metadata"]["finalizers"], json!(["x.io/b"]));
    assert_eq!(left["metadata"]["ownerReferences"][0]["uid"], "u2");
    assert_eq!(owners(&left), json!({"Apply two v1": own("x.io/b", "u2")}));
}

cases!(
    creators_own_defaults_too,
    creators_of_other_kinds,
    containers_merge_by_name,
    items_with_equal_keys_are_refused,
    replicas_are_handed_over,
    atomic_structs_are_owned_as_a_whole,
    lists_of_metadata_merge,
);
