//! The cells of the kinds that users look at most, as the real server fills them.

use serde_json::Value;

use super::{Row, creation_text, duration};

/// Computes the cells of a row.
pub(super) type Cells = fn(&Row<'_>) -> Vec<Value>;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// The cells of a resource, if they are known: the columns of all others are a name and an age.
pub(super) fn of(group: &str, plural: &str) -> Option<Cells> {
    Some(match (group, plural) {
        ("", "pods") => pod,
        ("", "namespaces") => namespace,
        ("", "configmaps") => config_map,
        ("", "secrets") => secret,
        ("", "services") => service,
        ("", "nodes") => node,
        ("" | "events.k8s.io", "events") => event,
        ("", "replicationcontrollers") | ("apps", "replicasets") => replicas,
        ("", "persistentvolumes") => volume,
        ("", "persistentvolumeclaims") => claim,
        ("", "endpoints") => endpoints,
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition,
        ("apps", "deployments") => deployment,
        ("apps", "statefulsets") => stateful_set,
        ("apps", "daemonsets") => daemon_set,
        ("apps", "controllerrevisions") => revision,
        ("autoscaling", "scales") => scale,
        ("batch", "jobs") => job,
        ("batch", "cronjobs") => cron_job,
        ("coordination.k8s.io", "leases") => lease,
        ("networking.k8s.io", "ingresses") => ingress,
        ("networking.k8s.io", "networkpolicies") => network_policy,
        ("policy", "poddisruptionbudgets") => budget,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => role,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding,
        ("scheduling.k8s.io", "priorityclasses") => priority_class,
        ("storage.k8s.io", "storageclasses") => storage_class,
        _ => return None,
    })
}

fn or(text: &str, default: &str) -> Value {
    if text.is_empty() { default.into() } else { text.into() }
}

fn text(value: &Value, path: &str) -> Value {
    value.pointer(path).cloned().unwrap_or_else(|| "".into())
}

/// The served versions of a definition, and which of them is stored: `v1(storage),v2`.
fn served_versions(spec: &Value) -> String {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] == true);
    let names: Vec<String> = served
        .map(|version| {
            let name = version["name"].as_str().unwrap_or_default();
            let mark = if version["storage"] == true { "(storage)" } else { "" };
            format!("{name}{mark}")
        })
        .collect();
    names.join(",")
}

const SCHEDULING_GATED: &str = "SchedulingGated";

fn pod(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let containers = spec
        .pointer("/containers")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let statuses = status
        .pointer("/containerStatuses")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let ready = statuses.iter().filter(|status| status["ready"] == true).count();
    let restarts: i64 = statuses
        .iter()
        .filter_map(|status| status["restartCount"].as_i64())
        .sum();
    let waiting = statuses.iter().rev().find_map(|status| {
        let state = status.get("state")?;
        state
            .pointer("/waiting/reason")
            .or_else(|| state.pointer("/terminated/reason"))
            .and_then(Value::as_str)
    });
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_gated = conditions
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == SCHEDULING_GATED)
        .then_some(SCHEDULING_GATED);
    let reason = is_gated.or_else(|| status.pointer("/reason").and_then(Value::as_str));
    let phase = status.pointer("/phase").and_then(Value::as_str).unwrap_or_default();
    let shown = if row.object.meta.deletion_timestamp.is_some() {
        "Terminating"
    } else {
        waiting.or(reason).unwrap_or(phase)
    };
    let or_none = |value: Option<&str>| Value::from(value.filter(|value| !value.is_empty()).unwrap_or("<none>"));
    vec![
        row.name(),
        format!("{ready}/{containers}").into(),
        shown.into(),
        restarts.to_string().into(),
        row.age(),
        or_none(status.pointer("/podIP").and_then(Value::as_str)),
        or_none(spec.pointer("/nodeName").and_then(Value::as_str)),
        or_none(status.pointer("/nominatedNodeName").and_then(Value::as_str)),
        "<none>".into(),
    ]
}

fn namespace(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), text(&row.field("status"), "/phase"), row.age()]
}

/// How many entries a map of an object has.
fn entries(row: &Row<'_>, field: &str) -> usize {
    row.field(field).as_object().map_or(0, serde_json::Map::len)
}

fn config_map(row: &Row<'_>) -> Vec<Value> {
    let keys = entries(row, "data") + entries(row, "binaryData");
    vec![row.name(), keys.into(), row.age()]
}

fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.field("type"), entries(row, "data").into(), row.age()]
}

fn scale(row: &Row<'_>) -> Vec<Value> {
    let replicas = |part| row.field(part)["replicas"].as_i64().unwrap_or_default();
    vec![
        row.name(),
        replicas("spec").into(),
        replicas("status").into(),
        row.age(),
    ]
}

fn definition(row: &Row<'_>) -> Vec<Value> {
    let spec = row.field("spec");
    vec![
        row.name(),
        text(&spec, "/scope"),
        served_versions(&spec).into(),
        creation_text(row.object),
    ]
}

/// Labels as a selector of them.
fn labels(map: &Value) -> Vec<String> {
    let entries = map.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect()
}

/// A label selector as text; empty for one that selects everything.
fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for part in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = part["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = part["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let text = match part["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// The names and the images of the containers of a pod.
fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = spec["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| container[field].as_str().unwrap_or_default())
            .collect();
        all.join(",").into()
    })
}

fn service(row: &Row<'_>) -> Vec<Value> {
    let spec = row.field("spec");
    let list = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let external = list(&spec["externalIPs"]).join(",");
    let kind = spec["type"].as_str().unwrap_or_default();
    let shown = match kind {
        "ClusterIP" | "NodePort" => or(&external, NONE),
        "LoadBalancer" => {
            let mut all = addresses(&row.field("status")["loadBalancer"]);
            all.extend(list(&spec["externalIPs"]));
            or(&all.join(","), "<pending>")
        }
        "ExternalName" => spec["externalName"].as_str().unwrap_or_default().into(),
        _ => "<unknown>".into(),
    };
    let ports: Vec<String> = spec["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
                _ => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    vec![
        row.name(),
        kind.into(),
        or(spec["clusterIPs"][0].as_str().unwrap_or_default(), NONE),
        shown,
        or(&ports.join(","), NONE),
        row.age(),
        or(&labels(&spec["selector"]).join(","), NONE),
    ]
}

/// The addresses at which a load balancer is reached, sorted.
fn addresses(balancer: &Value) -> Vec<String> {
    let mut all: Vec<String> = balancer["ingress"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|ingress| {
            let text = |field: &str| ingress[field].as_str().filter(|text| !text.is_empty());
            text("ip").or_else(|| text("hostname")).map(str::to_owned)
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn node(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.rfind(|condition| condition["type"] == "Ready");
    let mut state = match ready {
        Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if spec["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = row
        .object
        .meta
        .labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => Some(value),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let info = |field: &str| status["nodeInfo"][field].as_str().unwrap_or_default().to_owned();
    let address = |kind: &str| {
        let all = status["addresses"].as_array().into_iter().flatten();
        let found = all
            .filter(|address| address["type"] == kind)
            .find_map(|address| address["address"].as_str());
        or(found.unwrap_or_default(), NONE)
    };
    let known = |text: String| or(&text, "<unknown>");
    let mut kernel = info("kernelVersion");
    if kernel.is_empty() {
        "<unknown>".clone_into(&mut kernel);
    }
    let architecture = info("architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        row.name(),
        state.into(),
        or(&roles.join(","), NONE),
        row.age(),
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known(info("osImage")),
        kernel.into(),
        known(info("containerRuntimeVersion")),
    ]
}

fn event(row: &Row<'_>) -> Vec<Value> {
    // Both groups have the same kind, under other names of fields.
    let either = |core: &str, events: &str| match row.field(core) {
        Value::Null => row.field(events),
        value => value,
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_set = |value: &Value| !value.is_null();
    let since = |value: &Value| row.since(value);
    let first = either("firstTimestamp", "deprecatedFirstTimestamp");
    let first = if is_set(&first) {
        since(&first)
    } else {
        since(&row.field("eventTime"))
    };
    let last = either("lastTimestamp", "deprecatedLastTimestamp");
    let mut last = if is_set(&last) { since(&last) } else { first.clone() };
    let mut count = either("count", "deprecatedCount").as_i64().unwrap_or_default().max(1);
    let series = row.field("series");
    if is_set(&series) {
        last = since(&series["lastObservedTime"]);
        count = series["count"].as_i64().unwrap_or_default();
    }
    let object = either("involvedObject", "regarding");
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]).as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let first_of = |a: String, b: Value| if a.is_empty() { text(&b) } else { a };
    let component = first_of(
        text(&source["component"]),
        either("reportingComponent", "reportingController"),
    );
    let host = first_of(text(&source["host"]), row.field("reportingInstance"));
    let source = match (component.is_empty(), host.is_empty()) {
        (_, true) => component,
        (_, false) => format!("{component}, {host}"),
    };
    vec![
        last,
        row.field("type"),
        row.field("reason"),
        target.into(),
        text(&object["fieldPath"]).into(),
        source.into(),
        text(&either("message", "note")).trim().into(),
        first,
        count.into(),
        row.name(),
    ]
}

fn count(value: &Value) -> Value {
    value.as_i64().unwrap_or_default().into()
}

fn replicas(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let [names, images] = containers(&spec["template"]["spec"]);
    let select = if row.resource.plural == "replicasets" {
        selector(&spec["selector"])
    } else {
        labels(&spec["selector"]).join(",")
    };
    vec![
        row.name(),
        count(&spec["replicas"]),
        count(&status["replicas"]),
        count(&status["readyReplicas"]),
        row.age(),
        names,
        images,
        or(&select, NONE),
    ]
}

fn deployment(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        row.name(),
        format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])).into(),
        count(&status["updatedReplicas"]),
        count(&status["availableReplicas"]),
        row.age(),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        row.name(),
        format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])).into(),
        row.age(),
        names,
        images,
    ]
}

fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let of_pod = &spec["template"]["spec"];
    let [names, images] = containers(of_pod);
    let number = |field: &str| count(&status[field]);
    vec![
        row.name(),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        or(&labels(&of_pod["nodeSelector"]).join(","), NONE),
        row.age(),
        names,
        images,
        or(&selector(&spec["selector"]), NONE),
    ]
}

fn revision(row: &Row<'_>) -> Vec<Value> {
    let owner = row
        .object
        .meta
        .owner_references
        .iter()
        .find(|owner| owner.controller == Some(true));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let kind = owner.kind.to_lowercase();
            let kind = if group.is_empty() {
                kind
            } else {
                format!("{kind}.{group}")
            };
            format!("{kind}/{}", owner.name)
        },
    );
    vec![row.name(), controller.into(), count(&row.field("revision")), row.age()]
}

fn job(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let succeeded = status["succeeded"].as_i64().unwrap_or_default();
    let parallelism = spec["parallelism"].as_i64().unwrap_or_default();
    let completions = match spec["completions"].as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let took = match (
        super::time_of(&status["startTime"]),
        super::time_of(&status["completionTime"]),
    ) {
        (None, _) => String::new(),
        (Some(start), None) => duration(row.now.as_second() - start.as_second()),
        (Some(start), Some(end)) => duration(end.as_second() - start.as_second()),
    };
    let has = |kind: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let state = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if row.object.meta.deletion_timestamp.is_some() {
        "Terminating"
    } else {
        let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        others.into_iter().find(|kind| has(kind)).unwrap_or("Running")
    };
    let [names, images] = containers(&spec["template"]["spec"]);
    vec![
        row.name(),
        state.into(),
        completions.into(),
        took.into(),
        row.age(),
        names,
        images,
        or(&selector(&spec["selector"]), NONE),
    ]
}

fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let of_job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&of_job["template"]["spec"]);
    let last = &status["lastScheduleTime"];
    let suspended = match &spec["suspend"] {
        Value::Bool(true) => "True",
        Value::Bool(false) => "False",
        _ => UNSET,
    };
    vec![
        row.name(),
        spec["schedule"].clone(),
        or(spec["timeZone"].as_str().unwrap_or_default(), NONE),
        suspended.into(),
        status["active"].as_array().map_or(0, Vec::len).into(),
        if last.is_null() { NONE.into() } else { row.since(last) },
        row.age(),
        names,
        images,
        or(&selector(&of_job["selector"]), NONE),
    ]
}

fn lease(row: &Row<'_>) -> Vec<Value> {
    let holder = row.field("spec")["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    vec![row.name(), holder.into(), row.age()]
}

fn ingress(row: &Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let spec = row.field("spec");
    let rules = spec["rules"].as_array().cloned().unwrap_or_default();
    let hosts: Vec<&str> = rules
        .iter()
        .filter_map(|rule| rule["host"].as_str().filter(|host| !host.is_empty()))
        .collect();
    let shown = hosts.iter().take(SHOWN).copied().collect::<Vec<_>>().join(",");
    let shown = match hosts.len() {
        0 => "*".to_owned(),
        more if more > SHOWN => format!("{shown} + {} more...", rules.len() - SHOWN),
        _ => shown,
    };
    let ports = if spec["tls"].as_array().is_none_or(Vec::is_empty) {
        "80"
    } else {
        "80, 443"
    };
    vec![
        row.name(),
        or(spec["ingressClassName"].as_str().unwrap_or_default(), NONE),
        shown.into(),
        addresses(&row.field("status")["loadBalancer"]).join(",").into(),
        ports.into(),
        row.age(),
    ]
}

fn network_policy(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        or(&selector(&row.field("spec")["podSelector"]), NONE),
        row.age(),
    ]
}

fn budget(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let amount = |field: &str| match &spec[field] {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    vec![
        row.name(),
        amount("minAvailable").into(),
        amount("maxUnavailable").into(),
        count(&status["disruptionsAllowed"]),
        row.age(),
    ]
}

fn role(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), super::creation_text(row.object)]
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = row.field("roleRef");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let subjects = row.field("subjects");
    let of_kind = |kind: &str| -> Value {
        let all = subjects
            .as_array()
            .into_iter()
            .flatten()
            .filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = all
            .map(|subject| {
                if kind == "ServiceAccount" {
                    format!("{}/{}", text(&subject["namespace"]), text(&subject["name"]))
                } else {
                    text(&subject["name"])
                }
            })
            .collect();
        names.join(", ").into()
    };
    vec![
        row.name(),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        row.age(),
        of_kind("User"),
        of_kind("Group"),
        of_kind("ServiceAccount"),
    ]
}

fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        count(&row.field("value")),
        (row.field("globalDefault") == true).into(),
        row.age(),
        row.field("preemptionPolicy"),
    ]
}

fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let mut name = row.object.meta.name.clone();
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    if marks
        .iter()
        .any(|mark| row.object.meta.annotations.get(mark) == Some("true"))
    {
        name.push_str(" (default)");
    }
    vec![
        name.into(),
        row.field("provisioner"),
        row.field("reclaimPolicy"),
        row.field("volumeBindingMode"),
        (row.field("allowVolumeExpansion") == true).into(),
        row.age(),
    ]
}

/// Access modes in their short forms.
fn modes(modes: &Value) -> String {
    let all = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| {
        modes
            .as_array()
            .is_some_and(|modes| modes.iter().any(|has| has == mode))
    };
    let short: Vec<&str> = all
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    short.join(",")
}

fn storage(amounts: &Value) -> String {
    amounts["storage"].as_str().unwrap_or("0").to_owned()
}

fn phase(row: &Row<'_>) -> Value {
    if row.object.meta.deletion_timestamp.is_some() {
        return "Terminating".into();
    }
    row.field("status")["phase"].as_str().unwrap_or_default().into()
}

fn class(row: &Row<'_>, spec: &Value) -> Value {
    let old = row
        .object
        .meta
        .annotations
        .get("volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| spec["storageClassName"].as_str().unwrap_or_default())
        .into()
}

fn volume(row: &Row<'_>) -> Vec<Value> {
    let spec = row.field("spec");
    let claim = &spec["claimRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claimed = if claim.is_null() {
        String::new()
    } else {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    };
    vec![
        row.name(),
        storage(&spec["capacity"]).into(),
        modes(&spec["accessModes"]).into(),
        spec["persistentVolumeReclaimPolicy"].clone(),
        phase(row),
        claimed.into(),
        class(row, &spec),
        or(&text(&spec["volumeAttributesClassName"]), UNSET),
        text(&row.field("status")["reason"]).into(),
        row.age(),
        or(&text(&spec["volumeMode"]), UNSET),
    ]
}

fn claim(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (row.field("spec"), row.field("status"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&spec["volumeName"]);
    let (capacity, access) = if name.is_empty() {
        (String::new(), String::new())
    } else {
        (storage(&status["capacity"]), modes(&status["accessModes"]))
    };
    vec![
        row.name(),
        phase(row),
        name.into(),
        capacity.into(),
        access.into(),
        class(row, &spec),
        or(&text(&spec["volumeAttributesClassName"]), UNSET),
        row.age(),
        or(&text(&spec["volumeMode"]), UNSET),
    ]
}

fn endpoints(row: &Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let subsets = row.field("subsets");
    let mut all = Vec::new();
    for subset in subsets.as_array().into_iter().flatten() {
        let ips: Vec<&str> = subset["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|address| address["ip"].as_str())
            .collect();
        let ports = subset["ports"].as_array().cloned().unwrap_or_default();
        if ports.is_empty() {
            all.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in ports {
            all.extend(ips.iter().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{}", port["port"])
                } else {
                    format!("{ip}:{}", port["port"])
                }
            }));
        }
    }
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    let shown = if all.len() > SHOWN {
        format!("{shown} + {} more...", all.len() - SHOWN)
    } else {
        shown
    };
    let shown = if subsets.is_null() {
        NONE.into()
    } else {
        Value::from(shown)
    };
    vec![row.name(), shown, row.age()]
}
