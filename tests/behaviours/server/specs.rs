//! The bodies of built-in kinds: what is filled in, what is handed out, and what is refused. `differential/builtin.txt` has
//! many more requests, which go to both servers.

use serde_json::{Value, json};

use crate::harness::{Server, cases};

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

// [F16] what clients leave out is filled in, wherever it stands
async fn bodies_are_filled_in(server: Server) {
    let namespace = server.namespace().await;
    let probe = json!({"httpGet": {"port": 80}});
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "c", "image": "i:1", "livenessProbe": probe, "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m"}}}],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        },
    });
    let pod = server.post(&namespace.at("pods"), &pod).await.created();
    let container = &pod["spec"]["containers"][0];
    for (at, value) in [
        ("/imagePullPolicy", json!("IfNotPresent")),
        ("/livenessProbe/periodSeconds", json!(10)),
        ("/livenessProbe/httpGet/path", json!("/")),
        ("/ports/0/protocol", json!("TCP")),
        ("/resources/requests/cpu", json!("1")),
    ] {
        assert_eq!(container.pointer(at), Some(&value), "{at}: {container}");
    }
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    assert_eq!(pod["spec"]["volumes"][0]["secret"]["defaultMode"], 420);
    assert_eq!(pod["status"]["qosClass"], "Burstable");
    let set = json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("i")},
    });
    let set = server
        .post(&namespace.of("apps/v1", "statefulsets"), &set)
        .await
        .created();
    assert_eq!(
        set["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}})
    );
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"],
        "/dev/termination-log"
    );
}

// [F16] services have addresses and ports of their own, which an update that leaves them out keeps
async fn services_get_addresses_and_ports(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("services");
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let first = server.post(&path, &service("a")).await.created();
    let second = server.post(&path, &service("b")).await.created();
    let given = |service: &Value| {
        let spec = &service["spec"];
        (spec["clusterIP"].clone(), spec["ports"][0]["nodePort"].clone())
    };
    let ((ip, port), other) = (given(&first), given(&second));
    assert!(ip.as_str().is_some_and(|ip| ip.starts_with("10.0.0.")), "{ip}");
    assert!(
        port.as_i64().is_some_and(|port| (30_000..=32_767).contains(&port)),
        "{port}"
    );
    assert!(ip != other.0 && port != other.1);
    assert_eq!(first["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(first["spec"]["ipFamilies"], json!(["IPv4"]));
    let replaced = server.put(&format!("{path}/a"), &service("a")).await.ok();
    assert_eq!(given(&replaced), (ip.clone(), port));
    let mut third = service("c");
    third["spec"]["clusterIP"] = ip.clone();
    let text = format!(
        "Invalid value: [{ip}]: failed to allocate IP {}: provided IP is already allocated",
        ip.as_str().unwrap_or_default()
    );
    let refused = server.post(&path, &third).await;
    refused.invalid("", "Service", "c", &[("FieldValueInvalid", "spec.clusterIPs", &text)]);
    // What a service has is free when it is gone.
    server.delete(&format!("{path}/a")).await.ok();
    assert_eq!(given(&server.post(&path, &third).await.created()).0, ip);
    let patch = json!({"spec": {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}});
    let text = "Invalid value: [\"10.0.0.9\"]: may not change once set";
    let refused = server.merge(&format!("{path}/b"), &patch).await;
    refused.invalid("", "Service", "b", &[("FieldValueInvalid", "spec.clusterIPs[0]", text)]);
}

// [F16] what is missing or wrong is refused with the field and the reason
async fn bodies_are_validated(server: Server) {
    const LABEL: &str = "Invalid value: \"A_\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                         '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used \
                         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let namespace = server.namespace().await;
    let pods = namespace.at("pods");
    let required = "Required value";
    let refused = server
        .post(&pods, &json!({"metadata": {"name": "a"}, "spec": {}}))
        .await;
    refused.invalid("", "Pod", "a", &[("FieldValueRequired", "spec.containers", required)]);
    let container = json!({"name": "A_", "ports": [{"containerPort": 70_000}], "resources": {"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}}});
    let refused = server
        .post(
            &pods,
            &json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}}),
        )
        .await;
    let at = |field: &str| format!("spec.containers[0].{field}");
    let negative = "Invalid value: \"-1\": must be greater than or equal to 0";
    let port = "Invalid value: 70000: must be between 1 and 65535, inclusive";
    refused.invalid(
        "",
        "Pod",
        "a",
        &[
            ("FieldValueInvalid", &at("name"), LABEL),
            ("FieldValueRequired", &at("image"), required),
            ("FieldValueInvalid", &at("ports[0].containerPort"), port),
            ("FieldValueInvalid", &at("resources.limits[cpu]"), negative),
            ("FieldValueInvalid", &at("resources.requests[cpu]"), negative),
        ],
    );
    let deployments = namespace.of("apps/v1", "deployments");
    let deployment = |label: &str| {
        json!({
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"a": label}}, "template": template("i")},
        })
    };
    let unselected = "Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`";
    server.post(&deployments, &deployment("c")).await.invalid(
        "apps",
        "Deployment",
        "a",
        &[("FieldValueInvalid", "spec.template.metadata.labels", unselected)],
    );
    server.post(&deployments, &deployment("b")).await.created();
    let patch =
        json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}});
    let refused = server.merge(&format!("{deployments}/a"), &patch).await;
    let immutable = "Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable";
    refused.invalid(
        "apps",
        "Deployment",
        "a",
        &[("FieldValueInvalid", "spec.selector", immutable)],
    );
    let sealed = json!({"metadata": {"name": "a"}, "data": {"k": "v"}, "immutable": true});
    namespace.create("configmaps", &sealed).await;
    let refused = server
        .merge(&namespace.at("configmaps/a"), &json!({"data": {"k": "w"}}))
        .await;
    let sealed = "Forbidden: field is immutable when `immutable` is set";
    refused.invalid("", "ConfigMap", "a", &[("FieldValueForbidden", "data", sealed)]);
    let tls = json!({"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}});
    let refused = server.post(&namespace.at("secrets"), &tls).await;
    refused.invalid("", "Secret", "a", &[("FieldValueRequired", "data[tls.key]", required)]);
}

// [F16] a claim gets a storage class once: the one that its annotation says, which may go then
async fn claims_get_their_storage_class_once(server: Server) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    let namespace = server.namespace().await;
    let claim = json!({
        "metadata": {"name": "a", "annotations": {ANNOTATION: "s"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    namespace.create("persistentvolumeclaims", &claim).await;
    let path = namespace.at("persistentvolumeclaims/a");
    let other = server.merge(&path, &json!({"spec": {"storageClassName": "t"}})).await;
    assert_eq!(other.code, 422);
    let message = other.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.contains("spec: Forbidden: spec is immutable after creation"),
        "{message}"
    );
    let without = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    let refused = server.merge(&path, &without).await;
    let immutable = "Invalid value: \"\": field is immutable";
    let place = format!("metadata.annotations.{ANNOTATION}");
    refused.invalid(
        "",
        "PersistentVolumeClaim",
        "a",
        &[("FieldValueInvalid", &place, immutable)],
    );
    let moved = json!({"metadata": {"annotations": {ANNOTATION: null}}, "spec": {"storageClassName": "s"}});
    let moved = server.merge(&path, &moved).await.ok();
    assert_eq!(moved["spec"]["storageClassName"], "s");
}

cases![
    claims_get_their_storage_class_once,
    bodies_are_filled_in,
    services_get_addresses_and_ports,
    bodies_are_validated
];
