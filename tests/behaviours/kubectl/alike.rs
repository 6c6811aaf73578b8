//! All that kubectl prints, and its exit codes, with both servers: the same, but for what each server makes anew. [F19]

use super::*;

/// A config map as files have it.
const MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"of":"file"}},"data":{"k":"file"}}"#;

/// What is run, one after the other; `{}` stands for the namespace. The second text is the input.
const COMMANDS: &[(&str, &str)] = &[
    ("api-resources", ""),
    ("api-resources --api-group=autoscaling -o wide", ""),
    ("api-versions", ""),
    // Objects in all forms.
    ("create configmap a --from-literal=k=v", ""),
    ("create configmap a --from-literal=k=v", ""),
    ("get configmap a", ""),
    ("get configmap a -o yaml", ""),
    ("get configmap a -o json", ""),
    ("get configmaps -o wide", ""),
    ("get cm a -o name", ""),
    ("get cm a --show-labels", ""),
    ("get cm a -o jsonpath={.data.k}", ""),
    ("get cm -o custom-columns=NAME:.metadata.name,K:.data.k", ""),
    ("get nonsense", ""),
    ("get configmap absent", ""),
    ("get configmaps -l a!b", ""),
    ("get configmaps --field-selector=nope=1", ""),
    // Labels and annotations.
    ("label cm a x=1", ""),
    ("label cm a x=2", ""),
    ("label cm a x=2 --overwrite", ""),
    ("label cm a x=a/b/c --overwrite", ""),
    ("label cm a x-", ""),
    ("label cm a x-", ""),
    ("annotate cm a n=1", ""),
    ("annotate cm a n-", ""),
    ("get cm a -o yaml", ""),
    // Apply and diff, on either side.
    ("diff -f -", MAP),
    ("apply -f -", MAP),
    ("apply -f -", MAP),
    ("diff -f -", MAP),
    ("get cm a -o yaml --show-managed-fields", ""),
    ("patch cm a -p {\"data\":{\"k\":\"w\"}}", ""),
    ("diff -f -", MAP),
    ("diff --server-side -f -", MAP),
    ("apply --server-side -f -", MAP),
    ("apply --server-side --force-conflicts -f -", MAP),
    ("apply -f - --dry-run=server -o yaml", MAP),
    ("get cm a -o yaml --show-managed-fields", ""),
    (
        "create -f -",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"nope":1}"#,
    ),
    (
        "create -f -",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"B"}}"#,
    ),
    (
        "create -f -",
        r#"{"apiVersion":"v1","kind":"Nonsense","metadata":{"name":"b"}}"#,
    ),
    (
        "replace -f -",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"absent"}}"#,
    ),
    (
        "patch cm a --type=json -p [{\"op\":\"test\",\"path\":\"/data/k\",\"value\":\"no\"}]",
        "",
    ),
    ("patch cm a --type=merge -p {\"data\":{\"k\":\"w\"}}", ""),
    ("patch cm a --type=merge -p {\"data\":{\"k\":\"w\"}}", ""),
    // Workloads.
    ("create deployment d --image=i --replicas=2", ""),
    ("get deployment d -o yaml", ""),
    ("scale deployment d --replicas=3", ""),
    ("scale deployment d --current-replicas=9 --replicas=3", ""),
    ("scale deployment absent --replicas=3", ""),
    ("get deployment d -o jsonpath={.spec.replicas}", ""),
    ("rollout status deployment d --watch=false", ""),
    ("rollout pause deployment d", ""),
    ("rollout pause deployment d", ""),
    ("rollout resume deployment d", ""),
    ("rollout history deployment d", ""),
    ("rollout undo deployment d", ""),
    ("set image deployment d i=j:2", ""),
    ("get deployment d -o yaml", ""),
    ("autoscale deployment d --min=1 --max=3", ""),
    ("get hpa d -o yaml", ""),
    ("get hpa.v1.autoscaling d -o yaml", ""),
    // Pods.
    ("run p --image=i", ""),
    ("get pod p", ""),
    ("get pods -o wide", ""),
    ("get pod p -o yaml", ""),
    ("describe pod p", ""),
    ("wait pod/p --for=condition=Ready --timeout=1s", ""),
    ("wait pod/p --for=jsonpath={.spec.restartPolicy}=Always", ""),
    ("wait pod/absent --for=condition=Ready --timeout=1s", ""),
    ("cp p:/etc/hosts hosts", ""),
    ("cp Cargo.toml p:/tmp/x", ""),
    ("exec p -- ls", ""),
    ("attach p", ""),
    ("logs p", ""),
    ("port-forward p 8080:80", ""),
    ("top pod p", ""),
    ("events", ""),
    ("get events", ""),
    // Other questions.
    ("auth can-i create pods", ""),
    ("auth can-i create nonsense", ""),
    ("auth whoami", ""),
    ("create secret generic s --from-literal=a=b", ""),
    ("get secret s -o yaml", ""),
    ("get secrets", ""),
    ("get namespace {}", ""),
    ("describe namespace {}", ""),
    // Deletes.
    ("delete cm a --dry-run=server", ""),
    // Nobody lets its dependents go.
    ("delete cm a --cascade=orphan --wait=false", ""),
    ("get cm a -o jsonpath={.metadata.finalizers}", ""),
    (
        "patch cm a --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]",
        "",
    ),
    ("delete cm a", ""),
    ("delete cm a --ignore-not-found", ""),
    ("delete deployment d --cascade=foreground --wait=false", ""),
    ("get deployment d -o jsonpath={.metadata.finalizers}", ""),
    ("delete pod p --grace-period=0 --force", ""),
    ("delete secrets --all", ""),
    ("delete cm -l of=file --cascade=nonsense", ""),
];

/// Runs the commands on both servers with one program, and compares.
async fn compare(program: &Path) {
    let (fake, real) = (Kubectl::fake(program).await, Kubectl::real(program).await);
    let name = unique();
    for kubectl in [&fake, &real] {
        kubectl.ok(&["create", "namespace", &name]).await;
    }
    let mut differences = Vec::new();
    for (command, input) in COMMANDS {
        let command = command.replace("{}", &name);
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.splice(0..0, ["-n", &name]);
        let input: Option<Value> = serde_json::from_str(input).ok();
        let (ours, theirs) = tokio::join!(
            fake.run(&arguments, input.as_ref()),
            real.run(&arguments, input.as_ref())
        );
        let (ours, theirs) = (told(&ours, &fake), told(&theirs, &real));
        if ours != theirs {
            differences.push(format!("kubectl {command}\nin-memory: {ours}\nreal: {theirs}"));
        }
    }
    real.ok(&["delete", "namespace", &name, "--wait=false"]).await;
    fake.close().await;
    real.close().await;
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// What a program printed and how it ended, without what differs from run to run.
fn told(output: &Output, of: &Kubectl) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut told = format!(
        "{:?}\n{}{}",
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr)
    );
    if let Some(url) = &of.url {
        told = told.replace(url, "URL");
    }
    // The kinds of other cases, which come and go meanwhile.
    let lines = told.lines().filter(|line| !line.contains(".example.com/"));
    let masked: Vec<String> = lines.map(masked).collect();
    masked.join("\n")
}

/// A line with times, ages, uids and versions masked; of a diff, which files were compared is of no interest.
fn masked(line: &str) -> String {
    if ["diff -", "--- ", "+++ ", "exit status"]
        .iter()
        .any(|start| line.starts_with(start))
    {
        return String::new();
    }
    // A line of its log begins with the time, the process and the place in its sources.
    let is_logged = line.starts_with(['W', 'E', 'I']) && line[1..].starts_with(|c: char| c.is_ascii_digit());
    let line = line
        .split_once("] ")
        .filter(|_| is_logged)
        .map_or(line, |(_, rest)| rest);
    let words = line.split(' ').map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_age = bare.strip_suffix(['s', 'm']).is_some_and(digits);
        let is_uid = bare.len() == 36 && bare.bytes().filter(|byte| *byte == b'-').count() == 4;
        let is_time = bare.len() == 20 && bare.starts_with("20") && bare.ends_with('Z');
        if is_age || is_uid || is_time {
            word.replace(bare, "*")
        } else {
            word.to_owned()
        }
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.split_once("esourceVersion") {
        Some((before, _)) => format!("{before}esourceVersion"),
        None => line,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl and the API server rig"]
async fn kubectl_prints_the_same_with_both_servers() {
    // [F19]
    compare(&program()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an installed kubectl and the API server rig"]
async fn an_installed_kubectl_prints_the_same_with_both_servers() {
    // [F19]
    match installed() {
        Some(program) => compare(&program).await,
        None => eprintln!("no kubectl is installed: nothing to compare"),
    }
}
