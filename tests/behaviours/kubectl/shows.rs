//! What kubectl shows, follows and asks.

use super::*;

// [F19] api-resources prints what discovery says
pub(super) async fn api_resources_lists_the_kinds(kubectl: &Kubectl, _: &Namespace) {
    let table = kubectl.ok(&["api-resources", "--no-headers"]).await;
    let rows: Vec<_> = table.lines().map(columns).collect();
    for row in [
        "pods po v1 true Pod",
        "configmaps cm v1 true ConfigMap",
        "namespaces ns v1 false Namespace",
        "nodes no v1 false Node",
        "deployments deploy apps/v1 true Deployment",
        "leases coordination.k8s.io/v1 true Lease",
        "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
    ] {
        assert!(rows.contains(&columns(row)), "{row:?} is not in\n{table}");
    }
    let names = kubectl.ok(&["api-resources", "--namespaced=false", "-o", "name"]).await;
    assert!(
        names
            .lines()
            .any(|name| name == "clusterroles.rbac.authorization.k8s.io"),
        "{names}"
    );
    assert!(!names.lines().any(|name| name == "pods"), "{names}");
    let versions = kubectl.ok(&["api-versions"]).await;
    assert!(versions.lines().any(|version| version == "apps/v1") && versions.lines().any(|version| version == "v1"));
}

// [F19] get -w prints each change as it comes
pub(super) async fn get_watches(kubectl: &Kubectl, namespace: &Namespace) {
    namespace.config_map("a").await;
    let arguments = [
        "get",
        "configmaps",
        "-n",
        namespace.name(),
        "-w",
        "--output-watch-events",
        "--no-headers",
    ];
    let (mut child, mut lines) = kubectl.start(&arguments);
    let mut next = async || {
        let line = limited("a line of kubectl get -w", lines.next_line()).await;
        let line = line.expect("kubectl prints text").expect("kubectl goes on");
        columns(&line)[..2].join(" ")
    };
    assert_eq!(next().await, "ADDED a");
    namespace.config_map("b").await;
    assert_eq!(next().await, "ADDED b");
    kubectl
        .server
        .merge(&namespace.at("configmaps/a"), &json!({"data": {"k": "v"}}))
        .await
        .ok();
    assert_eq!(next().await, "MODIFIED a");
    kubectl.server.delete(&namespace.at("configmaps/b")).await.ok();
    assert_eq!(next().await, "DELETED b");
    child.kill().await.expect("kubectl can be ended");
}

// [F19] explain shows the fields of built-in and of custom kinds
pub(super) async fn explains_kinds_and_fields(kubectl: &Kubectl, _: &Namespace) {
    let fields = async |arguments: &[&str]| {
        let printed = kubectl.ok(&[&["explain"], arguments].concat()).await;
        // The type of a field follows a tab; descriptions, which one of the servers has, have none.
        let (_, fields) = printed.split_once("FIELDS:\n").unwrap_or(("", &printed));
        let of_fields = fields.lines().filter(|line| line.contains("\t<"));
        of_fields.map(|line| columns(line).join(" ")).collect::<Vec<_>>()
    };
    let pod = [
        "apiVersion <string>",
        "kind <string>",
        "metadata <ObjectMeta>",
        "spec <PodSpec>",
        "status <PodStatus>",
    ];
    assert_eq!(fields(&["pods"]).await, pod);
    let port = [
        "containerPort <integer> -required-",
        "hostIP <string>",
        "hostPort <integer>",
        "name <string>",
        "protocol <string>",
    ];
    assert_eq!(fields(&["pods.spec.containers.ports"]).await, port);
    let strategy = [
        "rollingUpdate <RollingUpdateDeployment>",
        "maxSurge <IntOrString>",
        "maxUnavailable <IntOrString>",
        "type <string>",
    ];
    assert_eq!(fields(&["deploy.spec.strategy", "--recursive"]).await, strategy);
    let old = fields(&["configmaps", "--output", "plaintext-openapiv2"]).await;
    assert_eq!(old[1], "binaryData <map[string]string>");
    let absent = kubectl.refused(&["explain", "pods.nonsense"]).await;
    assert!(absent.ends_with("error: field \"nonsense\" does not exist"), "{absent}");

    // A real server publishes a definition after a minute or more.
    if kubectl.server.in_memory().is_none() {
        return;
    }
    let kind = CustomKind::register(&kubectl.server, |definition| {
        definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "description": "What it is to be.", "required": ["size"], "properties": {
                "size": {"type": "string", "enum": ["small", "large"]},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            }},
        }}});
    })
    .await;
    let name = format!("widgets.{}", kind.group);
    let spec = eventually("the schema is published", || async {
        let output = kubectl.run(&["explain", &format!("{name}.spec")], None).await;
        output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).expect("text"))
    })
    .await;
    for line in [
        "What it is to be.",
        "parts\t<[]Object>",
        "size\t<string> -required-",
        "enum: small, large",
    ] {
        assert!(spec.contains(line), "{line:?} is not in\n{spec}");
    }
}

// [F19] diff shows what an apply would change
pub(super) async fn shows_differences(kubectl: &Kubectl, namespace: &Namespace) {
    let map =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": value}});
    let diff = ["diff", "--server-side", "-n", namespace.name(), "-f", "-"];
    let create = ["apply", "--server-side", "-n", namespace.name(), "-f", "-"];
    let differences = async |value: &str| {
        let output = kubectl.run(&diff, Some(&map(value))).await;
        let printed = String::from_utf8(output.stdout).expect("kubectl prints text");
        let lines = printed
            .lines()
            .filter(|line| line.starts_with(['+', '-']) && line.contains("v: "));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        (output.status.code(), lines)
    };
    assert_eq!(differences("1").await, (Some(1), vec!["+  v: \"1\"".to_owned()]));
    assert_eq!(kubectl.server.get(&namespace.at("configmaps/a")).await.code, 404);
    kubectl.ok_with(&create, Some(&map("1"))).await;
    assert_eq!(differences("1").await, (Some(0), vec![]));
    let changed = vec!["-  v: \"1\"".to_owned(), "+  v: \"2\"".to_owned()];
    assert_eq!(differences("2").await, (Some(1), changed));
}

// [F19] wait and rollout status follow an object until it is so
pub(super) async fn waits_for_conditions(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    kubectl
        .ok(&[
            "create",
            "deployment",
            "d",
            "--image",
            "i",
            "--replicas",
            "2",
            "-n",
            here,
        ])
        .await;
    let path = namespace.of("apps/v1", "deployments/d");
    let (mut child, mut lines) = kubectl.start(&["rollout", "status", "deployment/d", "-n", here, "--timeout=60s"]);
    let mut next = async || {
        let line = limited("a line of kubectl rollout", lines.next_line()).await;
        line.expect("kubectl prints text").expect("kubectl goes on")
    };
    assert_eq!(next().await, "Waiting for deployment spec update to be observed...");
    let generation = kubectl.server.get(&path).await.ok()["metadata"]["generation"].clone();
    let some = json!({"status": {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 1}});
    kubectl.server.merge(&format!("{path}/status"), &some).await.ok();
    let progress = "Waiting for deployment \"d\" rollout to finish: 1 out of 2 new replicas have been updated...";
    // It may have seen more than one state that is not observed.
    let mut line = next().await;
    while line.contains("to be observed") {
        line = next().await;
    }
    assert_eq!(line, progress);
    let all = json!({"status": {
        "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
        "conditions": [{"type": "Available", "status": "True", "reason": "r", "message": "m"}],
    }});
    kubectl.server.merge(&format!("{path}/status"), &all).await.ok();
    let mut line = next().await;
    while line.starts_with("Waiting") {
        line = next().await;
    }
    assert_eq!(line, "deployment \"d\" successfully rolled out");
    assert!(limited("kubectl's end", child.wait()).await.expect("it ends").success());
    let wait = ["wait", "-n", here, "--timeout=60s", "deployment/d"];
    for condition in ["--for=condition=Available", "--for=jsonpath={.status.readyReplicas}=2"] {
        let met = kubectl.ok(&[&wait[..], &[condition]].concat()).await;
        assert_eq!(met, "deployment.apps/d condition met");
    }
    let (mut child, mut lines) = kubectl.start(&[&wait[..], &["--for=delete"]].concat());
    kubectl.server.delete(&path).await.ok();
    let gone = limited("kubectl wait", lines.next_line()).await.expect("text");
    // It may have come too late to see the object, which says nothing.
    assert!(gone.is_none_or(|line| line == "deployment.apps/d condition met"));
    assert!(limited("kubectl's end", child.wait()).await.expect("it ends").success());
}

// [F19] describe and events show what happened to an object
pub(super) async fn describes_with_events(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    kubectl.ok(&["run", "p", "--image", "i", "-n", here]).await;
    let pod = kubectl.server.get(&namespace.at("pods/p")).await.ok();
    let event = json!({
        "metadata": {"name": "e"}, "type": "Warning", "reason": "Tired", "message": "it sleeps", "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": here, "uid": pod["metadata"]["uid"]},
        "source": {"component": "tests"},
    });
    kubectl.server.post(&namespace.at("events"), &event).await.created();
    let described = kubectl.ok(&["describe", "pod", "p", "-n", here]).await;
    let lines: Vec<_> = described.lines().map(|line| columns(line).join(" ")).collect();
    for wanted in ["Name: p", "Image: i"] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted:?} is not in\n{described}"
        );
    }
    let of_event = |line: &&String| line.starts_with("Warning Tired") && line.ends_with("tests it sleeps");
    assert_eq!(lines.iter().filter(of_event).count(), 1, "{described}");
    for arguments in [&["events", "-n", here][..], &["events", "-n", here, "--for", "pod/p"]] {
        let listed = kubectl.ok(arguments).await;
        let rows: Vec<_> = listed.lines().map(columns).collect();
        assert_eq!(rows[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
        assert!(
            rows[1].ends_with(&["Warning", "Tired", "Pod/p", "it", "sleeps"]),
            "{listed}"
        );
    }
    let got = kubectl
        .ok(&["get", "events", "-n", here, "-o", "jsonpath={.items[*].reason}"])
        .await;
    assert_eq!(got, "Tired");
}

// [F19] what needs a machine behind a pod is refused, and says why
pub(super) async fn connections_are_refused(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    kubectl.ok(&["run", "p", "--image", "i", "-n", here]).await;
    for arguments in [
        &["exec", "p", "-n", here, "--", "ls"][..],
        &["cp", "-n", here, "p:/etc/hosts", "hosts"],
        &["attach", "p", "-n", here],
    ] {
        let refused = kubectl.refused(arguments).await;
        assert!(refused.ends_with("pod p does not have a host assigned"), "{refused}");
    }
}

// [F19] auth can-i, auth whoami and create token; logs of a pod that no node has
pub(super) async fn asks_what_it_may_do(kubectl: &Kubectl, namespace: &Namespace) {
    assert_eq!(
        kubectl
            .ok(&["auth", "can-i", "delete", "pods", "-n", namespace.name()])
            .await,
        "yes"
    );
    let rules = kubectl.ok(&["auth", "can-i", "--list", "-n", namespace.name()]).await;
    assert!(rules.contains("*.*"), "{rules}");
    let who = kubectl
        .ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .await;
    assert_eq!(who, "admin");
    let account = json!({"metadata": {"name": "sa"}});
    namespace.create("serviceaccounts", &account).await;
    let token = kubectl.ok(&["create", "token", "sa", "-n", namespace.name()]).await;
    assert_eq!(token.split('.').count(), 3, "{token}");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    namespace.create("pods", &pod).await;
    assert_eq!(kubectl.ok(&["logs", "p", "-n", namespace.name()]).await, "");
    let complaint = kubectl
        .refused(&["exec", "p", "-n", namespace.name(), "--", "true"])
        .await;
    assert!(complaint.contains("pod p does not have a host assigned"), "{complaint}");
}
