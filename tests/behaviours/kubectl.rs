//! kubectl, unchanged, against both servers: the in-memory one in its HTTP form. [F19]
//!
//! The program is `KUBECTL`, or the one that is built beside the API server rig.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{CustomKind, Namespace, Server, eventually, limited, unique};

/// A server with a kubectl that talks to it.
struct Kubectl {
    server: Server,
    /// Where kubectl keeps its caches: discovery of another server at the same address would confuse it.
    home: PathBuf,
    /// The in-memory server's URL; the real one is in `KUBECONFIG`.
    url: Option<String>,
    stop: CancellationToken,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

impl Kubectl {
    async fn fake() -> Kubectl {
        let server = Server::fake();
        let fake = server.in_memory().expect("the in-memory server").clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move { fake.serve(listener, stopped).await });
        Kubectl {
            home: home(),
            server,
            url: Some(url),
            stop,
            serving: Some(serving),
        }
    }

    async fn real() -> Kubectl {
        let server = Server::real().await;
        Kubectl {
            home: home(),
            server,
            url: None,
            stop: CancellationToken::new(),
            serving: None,
        }
    }

    /// Ends the in-memory server and waits for its end.
    async fn close(mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            let served = limited("the server's end", serving).await;
            served
                .expect("the server did not panic")
                .expect("the server ended without an error");
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .arg("--cache-dir")
            .arg(self.home.join("cache"))
            .env("HOME", &self.home)
            .kill_on_drop(true);
        if let Some(url) = &self.url {
            command
                .args(["--server", url])
                .env("KUBECONFIG", self.home.join("none"));
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs kubectl to its end.
    async fn run(&self, arguments: &[&str], input: Option<&Value>) -> Output {
        Self::run_to_end(self.command(arguments), arguments, input).await
    }

    /// Runs `kubectl edit` with a script in the place of the editor, which finds the file in `$1`: the exit code, and all
    /// that is printed.
    async fn edit(&self, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let editor = self.home.join("editor");
        std::fs::write(&editor, script).expect("a file in our folder");
        let arguments = [&["edit"], arguments].concat();
        let mut command = self.command(&arguments);
        // What cannot be saved is kept in a file, which is to go away with ours.
        let editor = format!("sh {}", editor.display());
        command.env("KUBE_EDITOR", editor).env("TMPDIR", &self.home);
        let output = Self::run_to_end(command, &arguments, None).await;
        let printed = String::from_utf8([output.stdout, output.stderr].concat());
        (output.status.code(), printed.expect("kubectl prints text"))
    }

    async fn run_to_end(mut command: Command, arguments: &[&str], input: Option<&Value>) -> Output {
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program().display()));
        if let Some(input) = input {
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin
                .write_all(input.to_string().as_bytes())
                .await
                .expect("kubectl reads its input");
        }
        let output = limited(&format!("kubectl {arguments:?}"), child.wait_with_output()).await;
        output.expect("kubectl can be waited for")
    }

    /// What kubectl prints when it succeeds.
    async fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, None).await
    }

    async fn ok_with(&self, arguments: &[&str], input: Option<&Value>) -> String {
        let output = self.run(arguments, input).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}: {errors}",
            output.status
        );
        String::from_utf8(output.stdout)
            .expect("kubectl prints text")
            .trim_end()
            .to_owned()
    }

    /// What kubectl complains about when it fails.
    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, None).await;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "kubectl {arguments:?}: {printed}");
        String::from_utf8(output.stderr)
            .expect("kubectl prints text")
            .trim_end()
            .to_owned()
    }

    /// Starts a kubectl that runs until it is killed, and gives its lines.
    fn start(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self.command(arguments).spawn().expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, lines)
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.home) {
            eprintln!("{} cannot be removed: {error}", self.home.display());
        }
    }
}

fn program() -> PathBuf {
    std::env::var_os("KUBECTL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apiserver/bin/kubectl"),
        PathBuf::from,
    )
}

fn home() -> PathBuf {
    let home = std::env::temp_dir().join(format!("watershed-kubectl-{}", unique()));
    std::fs::create_dir_all(&home).expect("a folder for kubectl");
    home
}

/// The columns of a line of a table.
fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

// [F19] api-resources prints what discovery says
async fn api_resources_lists_the_kinds(kubectl: &Kubectl, _: &Namespace) {
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

// [F19] typed creates send protobuf
async fn creates_from_flags(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn creates_gets_and_deletes_a_pod(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] get -w prints each change as it comes
async fn get_watches(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F17] [F19] a definition, and objects of its kind
async fn creates_custom_resources(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn edits_custom_resources(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn edits_built_in_kinds(kubectl: &Kubectl, namespace: &Namespace) {
    namespace.config_map("a").await;
    let script = "sed -i 's/^metadata:/data: {word: after}\\nmetadata:/' \"$1\"";
    let (code, printed) = kubectl.edit(script, &["configmap", "a", "-n", namespace.name()]).await;
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!((code, printed.as_str()), (Some(0), "configmap/a edited\n"));
    assert_eq!(stored["data"]["word"], "after");
}

// [F10][F19] patch without a type, apply by the client, and scale
async fn patches_applies_and_scales_workloads(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn applies_on_the_server(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] explain shows the fields of built-in and of custom kinds
async fn explains_kinds_and_fields(kubectl: &Kubectl, _: &Namespace) {
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

// [F19] apply on the client's side creates, keeps, and changes custom resources
async fn applies_on_the_client(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] diff shows what an apply would change
async fn shows_differences(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] label and annotate
async fn labels_and_annotates(kubectl: &Kubectl, namespace: &Namespace) {
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
    assert_eq!(
        kubectl.ok(&with(&["x=2", "y-", "--overwrite"])).await,
        "configmap/a modified"
    );
    let annotate = ["annotate", "configmap", "-n", here, "--all", "note=all"];
    kubectl.ok(&annotate).await;
    let stored = kubectl.server.get(&namespace.at("configmaps/a")).await.ok();
    assert_eq!(stored["metadata"]["labels"], json!({"x": "2"}));
    assert_eq!(stored["metadata"]["annotations"], json!({"note": "all"}));
    let selected = ["get", "configmaps", "-n", here, "-l", "x=2", "-o", "name"];
    assert_eq!(kubectl.ok(&selected).await, "configmap/a");
}

// [F19] wait and rollout status follow an object until it is so
async fn waits_for_conditions(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F12] [F19] delete says what becomes of dependents
async fn deletes_in_all_ways(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] describe and events show what happened to an object
async fn describes_with_events(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] each generator of create sends what the server reads: protobuf
async fn creates_many_kinds(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn replaces_and_patches(kubectl: &Kubectl, namespace: &Namespace) {
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

// [F19] what needs a machine behind a pod is refused, and says why
async fn connections_are_refused(kubectl: &Kubectl, namespace: &Namespace) {
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
async fn asks_what_it_may_do(kubectl: &Kubectl, namespace: &Namespace) {
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

macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs kubectl"]
                async fn $name() {
                    let kubectl = super::Kubectl::fake().await;
                    let namespace = kubectl.server.namespace().await;
                    super::$name(&kubectl, &namespace).await;
                    kubectl.close().await;
                }
            )+
        }
        mod real {
            $(
                #[tokio::test]
                #[ignore = "needs kubectl and the API server rig"]
                async fn $name() {
                    let kubectl = super::Kubectl::real().await;
                    let namespace = kubectl.server.namespace().await;
                    super::$name(&kubectl, &namespace).await;
                    kubectl.close().await;
                }
            )+
        }
    };
}

both![
    api_resources_lists_the_kinds,
    creates_from_flags,
    creates_gets_and_deletes_a_pod,
    get_watches,
    creates_custom_resources,
    edits_custom_resources,
    edits_built_in_kinds,
    patches_applies_and_scales_workloads,
    applies_on_the_server,
    explains_kinds_and_fields,
    applies_on_the_client,
    shows_differences,
    labels_and_annotates,
    waits_for_conditions,
    deletes_in_all_ways,
    describes_with_events,
    creates_many_kinds,
    replaces_and_patches,
    connections_are_refused,
    asks_what_it_may_do,
];
