//! What kubectl writes.

use super::*;

// [F19] typed creates send protobuf
pub(super) async fn creates_from_flags(kubectl: &Kubectl, namespace: &Namespace) {
    let name = unique();
    assert_eq!(
        kubectl.ok(&["create", "namespace", &name]).await,
        format!("namespace/{name} created")
    );
    let stored = kubectl.server.get(&format!("/api/v1/namespaces/{name}")).await.ok();
    assert_eq!(
        stored["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": name})
    );
    let create = [
        "create",
        "configmap",
        "a",
        "--from-literal",
        "k=v",
        "--from-literal",
        "l=w",
        "-n",
        namespace.name(),
    ];
    assert_eq!(kubectl.ok(&create).await, "configmap/a created");
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!(stored["data"], json!({"k": "v", "l": "w"}));
    assert_eq!(
        kubectl.refused(&create).await,
        "error: failed to create configmap: configmaps \"a\" already exists"
    );
    let table = kubectl.ok(&["get", "configmaps", "-n", namespace.name()]).await;
    let rows: Vec<_> = table.lines().map(columns).collect();
    assert_eq!(rows[0], ["NAME", "DATA", "AGE"]);
    assert_eq!(rows[1][..2], ["a", "2"]);
    let data = kubectl
        .ok(&["get", "configmap/a", "-n", namespace.name(), "-o", "jsonpath={.data.l}"])
        .await;
    assert_eq!(data, "w");
}

// [F19] a pod from a manifest: create, get in several forms, delete
pub(super) async fn creates_gets_and_deletes_a_pod(kubectl: &Kubectl, namespace: &Namespace) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let here = ["-n", namespace.name()];
    let with = |arguments: &[&'static str]| -> Vec<String> {
        arguments.iter().chain(&here).map(ToString::to_string).collect()
    };
    let run = async |arguments: &[&'static str], input: Option<&Value>| {
        let arguments = with(arguments);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        kubectl.ok_with(&arguments, input).await
    };
    assert_eq!(run(&["create", "-f", "-"], Some(&pod)).await, "pod/p created");
    let table = run(&["get", "pods", "-l", "app=x"], None).await;
    let rows: Vec<_> = table.lines().map(columns).collect();
    assert_eq!(rows[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(rows[1][..4], ["p", "0/1", "Pending", "0"]);
    let wide = run(&["get", "pod", "p", "-o", "wide"], None).await;
    let heads = [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
        "NOMINATED",
        "NODE",
        "READINESS",
        "GATES",
    ];
    assert_eq!(columns(wide.lines().next().unwrap()), heads);
    let document: Value = serde_json::from_str(&run(&["get", "pod", "p", "-o", "json"], None).await).unwrap();
    assert_eq!(document["spec"]["restartPolicy"], "Always");
    let yaml = run(&["get", "pod", "p", "-o", "yaml"], None).await;
    assert!(yaml.contains("\n  name: p\n"), "{yaml}");
    assert_eq!(run(&["get", "pods", "-o", "name"], None).await, "pod/p");
    assert!(
        run(&["delete", "pod", "p"], None)
            .await
            .starts_with("pod \"p\" deleted")
    );
    assert_eq!(kubectl.server.get(&namespace.at("pods/p")).await.code, 404);
    let absent = kubectl.refused(&["get", "pod", "p", "-n", namespace.name()]).await;
    assert_eq!(absent, "Error from server (NotFound): pods \"p\" not found");
}

// [F17] [F19] a definition, and objects of its kind
pub(super) async fn creates_custom_resources(kubectl: &Kubectl, namespace: &Namespace) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let definition = CustomKind::definition(&group);
    let created = kubectl.ok_with(&["create", "-f", "-"], Some(&definition)).await;
    assert_eq!(
        created,
        format!("customresourcedefinition.apiextensions.k8s.io/{name} created")
    );
    let waited = kubectl
        .ok(&["wait", "--for=condition=Established", &format!("crd/{name}")])
        .await;
    assert_eq!(
        waited,
        format!("customresourcedefinition.apiextensions.k8s.io/{name} condition met")
    );
    let kind = CustomKind { group: group.clone() };
    kind.served(&kubectl.server).await;
    let widget = kind.object("w", &json!({"spec": {"x": 1}}));
    let here = namespace.name();
    let created = kubectl.ok_with(&["create", "-n", here, "-f", "-"], Some(&widget)).await;
    assert_eq!(created, format!("widget.{group}/w created"));
    let table = kubectl.ok(&["get", &name, "-n", here]).await;
    let rows: Vec<_> = table.lines().map(columns).collect();
    assert_eq!((&rows[0][..], rows[1][0]), (&["NAME", "AGE"][..], "w"));
    let patched = kubectl
        .ok(&[
            "patch",
            &name,
            "w",
            "-n",
            here,
            "--type=merge",
            "-p",
            r#"{"spec":{"x":2}}"#,
        ])
        .await;
    assert_eq!(patched, format!("widget.{group}/w patched"));
    assert_eq!(
        kubectl
            .ok(&["get", &name, "w", "-n", here, "-o", "jsonpath={.spec.x}"])
            .await,
        "2"
    );
    assert!(
        kubectl
            .ok(&["delete", &name, "w", "-n", here])
            .await
            .starts_with(&format!("widget.{group} \"w\" deleted"))
    );
    assert!(kubectl.ok(&["delete", "crd", &name]).await.contains("deleted"));
}

// [F19] edit shows the object to an editor and sends what was changed
pub(super) async fn edits_custom_resources(kubectl: &Kubectl, namespace: &Namespace) {
    let with_status = |definition: &mut Value| {
        definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    };
    let kind = CustomKind::register(&kubectl.server, with_status).await;
    let path = kind.at(namespace, "/w");
    let widget = kind.object("w", &json!({"spec": {"word": "before", "kept": [1, {"a": true}]}}));
    kubectl.server.post(&kind.at(namespace, ""), &widget).await.created();
    let name = format!("widgets.{}", kind.group);
    let arguments = [name.as_str(), "w", "-n", namespace.name()];
    let edited = format!("widget.{}/w edited\n", kind.group);

    let printed = kubectl.edit("sed -i s/before/after/ \"$1\"", &arguments).await;
    assert_eq!(printed, (Some(0), edited.clone()));
    let stored = kubectl.server.get(&path).await.ok();
    assert_eq!(stored["spec"], json!({"word": "after", "kept": [1, {"a": true}]}));

    // Nothing changed: nothing is sent.
    let printed = kubectl.edit("true", &arguments).await;
    assert_eq!(printed, (Some(0), "Edit cancelled, no changes made.\n".to_owned()));
    // What the server refuses comes back to the editor with the reason; nothing of it is stored.
    let (code, printed) = kubectl
        .edit(
            "sed -i 's/^metadata:/metadata:\\n  labels: {a: \"-\"}/' \"$1\"",
            &arguments,
        )
        .await;
    let reason = format!("error: {name} \"w\" is invalid\n");
    assert!(code == Some(1) && printed.contains(&reason), "{code:?}: {printed}");
    let unchanged = kubectl.server.get(&path).await.ok();
    assert_eq!(
        unchanged["metadata"]["resourceVersion"],
        stored["metadata"]["resourceVersion"]
    );

    // The status is another place, written by another request.
    let arguments = [&arguments[..], &["--subresource", "status"]].concat();
    let printed = kubectl
        .edit("sed -i 's/^spec:/status: {phase: good}\\nspec:/' \"$1\"", &arguments)
        .await;
    assert_eq!(printed, (Some(0), edited));
    let stored = kubectl.server.get(&path).await.ok();
    assert_eq!(
        (&stored["status"], &stored["spec"]["word"]),
        (&json!({"phase": "good"}), &json!("after"))
    );
}

// [F10][F19] edit of a built-in kind sends a strategic merge patch
pub(super) async fn edits_built_in_kinds(kubectl: &Kubectl, namespace: &Namespace) {
    namespace.config_map("a").await;
    let script = "sed -i 's/^metadata:/data: {word: after}\\nmetadata:/' \"$1\"";
    let (code, printed) = kubectl.edit(script, &["configmap", "a", "-n", namespace.name()]).await;
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!((code, printed.as_str()), (Some(0), "configmap/a edited\n"));
    assert_eq!(stored["data"]["word"], "after");
}

// [F10][F19] patch without a type, apply by the client, and scale
pub(super) async fn patches_applies_and_scales_workloads(kubectl: &Kubectl, namespace: &Namespace) {
    let file = kubectl.home.join("deployment.json");
    let path = file.to_str().expect("a path of text");
    let container = |name: &str| json!({"name": name, "image": format!("{name}:1")});
    let mut wanted = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [container("one"), container("two")]},
            },
        },
    });
    let of = ["-n", namespace.name()];
    let apply = [&["apply", "-f", path][..], &of].concat();
    std::fs::write(&file, wanted.to_string()).expect("a file in our folder");
    assert_eq!(kubectl.ok(&apply).await, "deployment.apps/d created");
    assert_eq!(kubectl.ok(&apply).await, "deployment.apps/d unchanged");
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"three","image":"three:1"}]}}}}"#;
    let arguments = [&["patch", "deployment", "d", "-p", patch][..], &of].concat();
    assert_eq!(kubectl.ok(&arguments).await, "deployment.apps/d patched");
    // What the file no longer says goes, what others have added stays.
    wanted["spec"]["template"]["spec"]["containers"] = json!([container("two")]);
    std::fs::write(&file, wanted.to_string()).expect("a file in our folder");
    assert_eq!(kubectl.ok(&apply).await, "deployment.apps/d configured");
    let arguments = [
        &["scale", "deployment", "d", "--current-replicas=1", "--replicas=4"][..],
        &of,
    ]
    .concat();
    assert_eq!(kubectl.ok(&arguments).await, "deployment.apps/d scaled");
    let stored = kubectl.server.get(&namespace.of("apps/v1", "deployments/d")).await.ok();
    let containers = stored["spec"]["template"]["spec"]["containers"].as_array();
    let names: Vec<_> = containers
        .into_iter()
        .flatten()
        .map(|container| &container["name"])
        .collect();
    assert_eq!(names, ["three", "two"]);
    assert_eq!(stored["spec"]["replicas"], 4);
    let complaint = kubectl.refused(&arguments).await;
    let text = "error: Expected replicas to be 1, was 4";
    assert!(complaint.starts_with(text), "{complaint}");
}

// [F11] apply --server-side creates, keeps, is refused and is forced
pub(super) async fn applies_on_the_server(kubectl: &Kubectl, namespace: &Namespace) {
    let file = kubectl.home.join("map.json");
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": "1"}});
    std::fs::write(&file, wanted.to_string()).expect("a file in our folder");
    let path = file.to_str().expect("a path of text");
    let arguments = ["apply", "--server-side", "-n", namespace.name(), "-f", path];
    for _ in 0..2 {
        assert_eq!(kubectl.ok(&arguments).await, "configmap/a serverside-applied");
    }
    let object = namespace.at("configmaps/a");
    let patch = json!({"data": {"v": "2"}});
    kubectl
        .server
        .merge(&format!("{object}?fieldManager=hand"), &patch)
        .await
        .ok();
    let complaint = kubectl.refused(&arguments).await;
    let text = "error: Apply failed with 1 conflict: conflict with \"hand\" using v1: .data.v";
    assert!(complaint.starts_with(text), "{complaint}");
    let forced = [&arguments[..], &["--force-conflicts"]].concat();
    assert_eq!(kubectl.ok(&forced).await, "configmap/a serverside-applied");
    let stored = kubectl.server.get(&object).await.ok();
    assert_eq!(stored["data"], json!({"v": "1"}));
    let entries = stored["metadata"]["managedFields"].as_array().expect("managers");
    let managers: Vec<_> = entries
        .iter()
        .map(|entry| (&entry["manager"], &entry["operation"]))
        .collect();
    assert_eq!(managers, [(&json!("kubectl"), &json!("Apply"))]);
}

// [F19] apply on the client's side creates, keeps, and changes custom resources
pub(super) async fn applies_on_the_client(kubectl: &Kubectl, namespace: &Namespace) {
    let kind = CustomKind::register(&kubectl.server, |_| {}).await;
    let apply = ["apply", "-n", namespace.name(), "-f", "-"];
    let wanted = |fields: Value| kind.object("w", &fields);
    let done = |what: &str| format!("widget.{}/w {what}", kind.group);
    let first = wanted(json!({"spec": {"a": 1, "b": {"c": "d"}}}));
    assert_eq!(kubectl.ok_with(&apply, Some(&first)).await, done("created"));
    assert_eq!(kubectl.ok_with(&apply, Some(&first)).await, done("unchanged"));
    let path = kind.at(namespace, "/w");
    // What others have set stays; what is given up goes.
    kubectl
        .server
        .merge(&path, &json!({"spec": {"other": true}}))
        .await
        .ok();
    let second = wanted(json!({"spec": {"a": 2}}));
    let dry = [&apply[..], &["--dry-run=server"]].concat();
    assert_eq!(
        kubectl.ok_with(&dry, Some(&second)).await,
        done("configured (server dry run)")
    );
    assert_eq!(kubectl.ok_with(&apply, Some(&second)).await, done("configured"));
    let stored = kubectl.server.get(&path).await.ok();
    assert_eq!(stored["spec"], json!({"a": 2, "other": true}));
    // A built-in object that is new.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": "1"}});
    assert_eq!(kubectl.ok_with(&apply, Some(&map)).await, "configmap/a created");
    assert_eq!(kubectl.ok_with(&apply, Some(&map)).await, "configmap/a unchanged");
}

// [F19] label and annotate
pub(super) async fn labels_and_annotates(kubectl: &Kubectl, namespace: &Namespace) {
    namespace.config_map("a").await;
    let here = namespace.name();
    let label = ["label", "configmap", "a", "-n", here];
    let with = |more: &[&'static str]| [&label[..], more].concat();
    assert_eq!(kubectl.ok(&with(&["x=1", "y=2"])).await, "configmap/a labeled");
    let refused = kubectl.refused(&with(&["x=2"])).await;
    assert!(
        refused.contains("'x' already has a value (1), and --overwrite is false"),
        "{refused}"
    );
    // Older ones have another word for it.
    let changed = kubectl.ok(&with(&["x=2", "y-", "--overwrite"])).await;
    assert!(
        ["configmap/a modified", "configmap/a labeled"].contains(&changed.as_str()),
        "{changed}"
    );
    let annotate = ["annotate", "configmap", "-n", here, "--all", "note=all"];
    kubectl.ok(&annotate).await;
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!(stored["metadata"]["labels"], json!({"x": "2"}));
    assert_eq!(stored["metadata"]["annotations"], json!({"note": "all"}));
    let selected = ["get", "configmaps", "-n", here, "-l", "x=2", "-o", "name"];
    assert_eq!(kubectl.ok(&selected).await, "configmap/a");
}

// [F12] [F19] delete says what becomes of dependents
pub(super) async fn deletes_in_all_ways(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    for (cascade, finalizer) in [("foreground", "foregroundDeletion"), ("orphan", "orphan")] {
        kubectl
            .ok(&["create", "deployment", cascade, "--image", "i", "-n", here])
            .await;
        let how = format!("--cascade={cascade}");
        let deleted = kubectl
            .ok(&["delete", "deployment", cascade, &how, "--wait=false", "-n", here])
            .await;
        assert!(
            deleted.starts_with(&format!("deployment.apps \"{cascade}\" deleted")),
            "{deleted}"
        );
        let stored = kubectl
            .server
            .get(&namespace.of("apps/v1", &format!("deployments/{cascade}")))
            .await;
        // A garbage collector may have been faster.
        if stored.code != 404 {
            assert_eq!(stored.ok()["metadata"]["finalizers"], json!([finalizer]));
        }
    }
    namespace.config_map("a").await;
    namespace.config_map("b").await;
    kubectl
        .ok(&["delete", "configmaps", "--all", "--cascade=background", "-n", here])
        .await;
    let left = kubectl.server.get(&namespace.at("configmaps")).await.ok();
    let left: Vec<_> = left["items"].as_array().expect("items").clone();
    assert!(
        left.iter().all(|map| map["metadata"]["name"] == "kube-root-ca.crt"),
        "{left:?}"
    );
    let absent = kubectl.refused(&["delete", "configmap", "a", "-n", here]).await;
    assert_eq!(absent, "Error from server (NotFound): configmaps \"a\" not found");
    assert_eq!(
        kubectl
            .ok(&["delete", "configmap", "a", "--ignore-not-found", "-n", here])
            .await,
        ""
    );
}

// [F19] each generator of create sends what the server reads: protobuf
pub(super) async fn creates_many_kinds(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    let deployment = ["deployment", "d", "--image=i", "--port=80"];
    for (arguments, expected) in [
        (&deployment[..], "deployment.apps/d"),
        (&["secret", "generic", "s", "--from-literal=a=b"], "secret/s"),
        (&["serviceaccount", "sa"], "serviceaccount/sa"),
        (
            &["role", "r", "--verb=get", "--resource=pods"],
            "role.rbac.authorization.k8s.io/r",
        ),
        (
            &["rolebinding", "rb", "--role=r", "--serviceaccount=default:sa"],
            "rolebinding.rbac.authorization.k8s.io/rb",
        ),
        (&["job", "j", "--image=i"], "job.batch/j"),
        (
            &["cronjob", "cj", "--image=i", "--schedule=* * * * *"],
            "cronjob.batch/cj",
        ),
        (&["quota", "q", "--hard=pods=3"], "resourcequota/q"),
        (
            &["poddisruptionbudget", "pdb", "--selector=a=b", "--min-available=1"],
            "poddisruptionbudget.policy/pdb",
        ),
        (&["service", "clusterip", "svc", "--tcp=80:8080"], "service/svc"),
        (
            &["ingress", "ing", "--rule=a.b/c=svc:80"],
            "ingress.networking.k8s.io/ing",
        ),
    ] {
        let created = kubectl.ok(&[&["create"], arguments, &["-n", here]].concat()).await;
        assert_eq!(created, format!("{expected} created"));
        assert_eq!(kubectl.ok(&["get", expected, "-n", here, "-o", "name"]).await, expected);
    }
    let everything = kubectl.ok(&["get", "all", "-n", here, "-o", "name"]).await;
    let everything: Vec<_> = everything.lines().collect();
    for name in ["service/svc", "deployment.apps/d", "cronjob.batch/cj", "job.batch/j"] {
        assert!(everything.contains(&name), "{name}: {everything:?}");
    }
    let secret = kubectl
        .ok(&["get", "secret", "s", "-n", here, "-o", "jsonpath={.data.a}"])
        .await;
    assert_eq!(secret, "Yg==");
}

// [F19] replace and patch of two types
pub(super) async fn replaces_and_patches(kubectl: &Kubectl, namespace: &Namespace) {
    let here = namespace.name();
    let map =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": value}});
    namespace.config_map("a").await;
    let replaced = kubectl
        .ok_with(&["replace", "-n", here, "-f", "-"], Some(&map("1")))
        .await;
    assert_eq!(replaced, "configmap/a replaced");
    let patch = ["patch", "configmap", "a", "-n", here, "--type"];
    let json = [
        &patch[..],
        &[
            "json",
            "-p",
            r#"[{"op":"test","path":"/data/v","value":"1"},{"op":"add","path":"/data/w","value":"2"}]"#,
        ],
    ]
    .concat();
    assert_eq!(kubectl.ok(&json).await, "configmap/a patched");
    let refused = kubectl
        .refused(
            &[
                &patch[..],
                &["json", "-p", r#"[{"op":"test","path":"/data/v","value":"9"}]"#],
            ]
            .concat(),
        )
        .await;
    assert_eq!(
        refused,
        "The request is invalid: the server rejected our request due to an error in our request"
    );
    let merge = [&patch[..], &["merge", "-p", r#"{"data":{"v":null}}"#]].concat();
    assert_eq!(kubectl.ok(&merge).await, "configmap/a patched");
    assert_eq!(kubectl.ok(&merge).await, "configmap/a patched (no change)");
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!(stored["data"], json!({"w": "2"}));
}
