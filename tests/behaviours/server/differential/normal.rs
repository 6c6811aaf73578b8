//! What of two answers is compared: codes, texts and objects, without the values that every server makes anew.

use serde_json::Value;

use super::forms;
use super::kinds::Kind;
use super::probe::Probe;
use crate::harness::Answer;

/// An answer as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normal {
    pub(super) code: u16,
    /// The values of `Warning`.
    pub(super) warnings: Vec<String>,
    pub(super) retry_after: String,
    /// The body: a `Status` or an object with its changing values masked, a text, or nothing where it is not compared.
    pub(super) body: Value,
}

impl Normal {
    /// The code that stands for a connection that broke without an answer.
    pub(super) const BROKEN: u16 = 999;

    /// What is compared where the connection broke.
    pub(super) fn broken() -> Normal {
        Normal {
            code: Self::BROKEN,
            warnings: Vec::new(),
            retry_after: String::new(),
            body: Value::Null,
        }
    }
}

/// Brings an answer in the form in which it is compared. `run` is what names of cluster objects begin with, `sent` is the
/// body that was sent, `version` the resource version that the request named, if it did.
pub(super) fn normal(probe: &Probe, run: &str, sent: &[u8], version: Option<&str>, answer: &Answer) -> Normal {
    let warnings = answer
        .headers
        .get_all("warning")
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let mut body = match forms::json_of(answer) {
        _ if probe.method == "HEAD" || answer.body.is_empty() => Value::Null,
        Some(body) if body["kind"] == "Status" => status(body, sent, version),
        Some(body) if answer.code < 300 => object(probe, run, sent, body),
        Some(body) => body,
        None if answer.code < 300 => Value::Null,
        None => String::from_utf8_lossy(&answer.body).trim_end().into(),
    };
    if copies_version(sent) {
        texts(&mut body, &without_numbers);
    }
    Normal {
        code: answer.code,
        warnings,
        retry_after: answer.header("retry-after").to_owned(),
        body,
    }
}

/// Whether a JSON patch copies the version of an object to where it is compared.
fn copies_version(sent: &[u8]) -> bool {
    let patch: Value = serde_json::from_slice(sent).unwrap_or_default();
    let mut operations = patch.as_array().into_iter().flatten();
    operations.any(|operation| operation["from"] == "/metadata/resourceVersion")
}

/// A text with each number masked.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('N') {
            out.push('N');
        }
    }
    out
}

fn status(mut body: Value, sent: &[u8], version: Option<&str>) -> Value {
    if body.pointer("/details/uid").is_some() {
        body["details"]["uid"] = "UID".into();
    }
    if body.pointer("/metadata/continue").is_some() {
        body["metadata"]["continue"] = "TOKEN".into();
    }
    without_comparison(&mut body);
    texts(&mut body, &|text| {
        without_version(
            &masked(&without_address(&without_struct(&without_dump(text))), sent),
            version,
        )
    });
    order(&mut body);
    body
}

/// The list of findings of a 422, once: as the causes. Go goes through labels and annotations in any order, so that
/// findings about one field have none.
fn order(body: &mut Value) {
    let Some(causes) = body.pointer("/details/causes").and_then(Value::as_array) else {
        return;
    };
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let part = |key: &str| cause[key].as_str().unwrap_or_default();
        let text = format!("{}: {}", part("field"), part("message"));
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let list = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let message = body["message"].as_str().unwrap_or_default();
    if let Some(head) = message.strip_suffix(&list) {
        body["message"] = format!("{head}(the causes)").into();
    }
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        let place = |cause: &Value| {
            let field = cause["field"].as_str().unwrap_or_default();
            // Keys of maps come in any order too.
            let of_map = ["data[", "binaryData["].into_iter().find(|map| field.starts_with(map));
            of_map.unwrap_or(field).to_owned()
        };
        for same in causes.chunk_by_mut(|a, b| place(a) == place(b)) {
            same.sort_by_key(ToString::to_string);
        }
    }
}

/// The texts of findings up to where the real server goes on with a comparison of its own structs.
fn without_comparison(body: &mut Value) {
    let causes = body.pointer("/details/causes").and_then(Value::as_array);
    let texts = causes
        .into_iter()
        .flatten()
        .filter_map(|cause| cause["message"].as_str());
    let compared: Vec<(String, usize)> = texts
        .filter_map(|text| Some((text.to_owned(), text.find("\n@@ ")?)))
        .collect();
    for (text, end) in compared {
        let cut = |whole: &str| whole.replace(&text, &text[..end]);
        let message = cut(body["message"].as_str().unwrap_or_default());
        body["message"] = message.into();
        let causes = body.pointer_mut("/details/causes").and_then(Value::as_array_mut);
        for cause in causes.into_iter().flatten() {
            cause["message"] = cut(cause["message"].as_str().unwrap_or_default()).into();
        }
    }
}

/// A text about an address that a service was to be given, without that.
fn without_address(text: &str) -> String {
    const BEFORE: &str = "failed to allocate IP: IPAddress.networking.k8s.io \"";
    let Some(start) = text.find(BEFORE).map(|at| at + BEFORE.len()) else {
        return text.to_owned();
    };
    let end = text[start..].find('"').map_or(text.len(), |end| start + end);
    format!("{}IP{}", &text[..start], &text[end..])
}

/// A text about the template of a job without that, which the real server shows as the struct that it has in memory.
fn without_struct(text: &str) -> String {
    const IMMUTABLE: &str = ": field is immutable";
    // A cause has its field beside it.
    let start = if text.starts_with("Invalid value: {") {
        Some("Invalid value: {".len())
    } else {
        [
            "spec.template: Invalid value: {",
            "spec.template.spec: Invalid value: {",
        ]
        .iter()
        .find_map(|before| text.find(before).map(|at| at + before.len()))
    };
    let Some((start, rest)) = start.and_then(|start| Some((start, text.get(start..)?))) else {
        return text.to_owned();
    };
    let Some(end) = rest.find(IMMUTABLE) else {
        return text.to_owned();
    };
    let is_template = ["\"Volumes\":", "\"terminationMessagePath\":", "\"metadata\":{}"]
        .iter()
        .any(|part| rest[..end].contains(part));
    if !is_template {
        return text.to_owned();
    }
    format!("{}…}}{}", &text[..start], &rest[end..])
}

/// A text about a patch without the object that it shows, which has the managed fields.
fn without_dump(text: &str) -> String {
    const BEFORE: &str = "Invalid value: \"{";
    if let Some(at) = text.find(" is missing in '{").filter(|_| text.contains(BEFORE)) {
        return without_dump(&text[..at]) + " is missing in …";
    }
    let Some(start) = text.find(BEFORE) else {
        return text.to_owned();
    };
    let (head, rest) = text.split_at(start + BEFORE.len());
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    format!("{head}…{}", &rest[end.unwrap_or(rest.len())..])
}

/// A text that quotes the version that the request named, or the one like it that is none, with that masked.
fn without_version(text: &str, version: Option<&str>) -> String {
    let Some(version) = version else {
        return text.to_owned();
    };
    text.replace(&format!("\"{version}\""), "\"RV\"")
        .replace(&format!("\"{version}0\""), "\"RV0\"")
}

fn texts(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, change)),
        Value::Object(members) => members.values_mut().for_each(|member| texts(member, change)),
        _ => {}
    }
}

/// A text with its uids, times, random suffixes and resource versions masked.
fn masked(text: &str, sent: &[u8]) -> String {
    let sent = String::from_utf8_lossy(sent);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, mask) = if let Some(length) = uid(rest) {
            (length, "UID")
        } else if let Some(length) = time(rest).filter(|length| !sent.contains(&rest[..*length])) {
            (length, "TIME")
        } else if let Some(length) = out.ends_with(['(', ' ']).then(|| number(rest)).flatten() {
            let versions = [
                "in record (",
                "in the precondition (",
                "current: ",
                "ResourceVersion: ",
                "ResourceVersion in object meta: ",
            ];
            if !versions.iter().any(|before| out.ends_with(before)) {
                out.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            (length, "RV")
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push_str(mask);
        rest = &rest[length..];
    }
    generated(&out, &sent)
}

fn uid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes().get(..36)?;
    bytes
        .iter()
        .enumerate()
        .all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
        .then_some(36)
}

fn time(text: &str) -> Option<usize> {
    let bytes = text.as_bytes().get(..20)?;
    let shape = b"0000-00-00T00:00:00Z";
    bytes
        .iter()
        .zip(shape)
        .all(|(byte, shape)| {
            if *shape == b'0' {
                byte.is_ascii_digit()
            } else {
                byte == shape
            }
        })
        .then_some(20)
}

fn number(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then_some(length)
}

/// Masks the five random characters of a generated name.
fn generated(text: &str, sent: &str) -> String {
    let body = serde_json::from_str::<Value>(sent).ok();
    let prefix = body
        .or_else(|| serde_saphyr::from_str(sent).ok())
        .and_then(|body| body.pointer("/metadata/generateName")?.as_str().map(str::to_owned));
    let Some(mut prefix) = prefix.filter(|prefix| !prefix.is_empty()) else {
        return text.to_owned();
    };
    // As much of it as a name is made of.
    prefix.truncate(prefix.char_indices().nth(58).map_or(prefix.len(), |(at, _)| at));
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&prefix) {
        let after = &rest[at + prefix.len()..];
        out.push_str(&rest[..at + prefix.len()]);
        let suffix = after.get(..5).is_some_and(|suffix| {
            suffix
                .bytes()
                .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
        });
        rest = if suffix {
            out.push('*');
            &after[5..]
        } else {
            after
        };
    }
    out + rest
}

/// An object or a list in an answer.
fn object(probe: &Probe, run: &str, sent: &[u8], mut body: Value) -> Value {
    let Some(kind) = Kind::of(probe.resource) else {
        // Documents of discovery have cases of their own.
        return Value::Null;
    };
    if body["kind"] == "Table" {
        return table(kind, probe, run, sent, &body);
    }
    let name = body["kind"].as_str().unwrap_or_default();
    if ![kind.name, "PartialObjectMetadata"].contains(&name.trim_end_matches("List")) {
        return name.into();
    }
    let any_version = probe.query.iter().all(|pair| !pair.starts_with("resourceVersion"));
    if let Some(items) = body["items"].as_array_mut() {
        if !any_version {
            // The real server may show a state that is a little old.
            return body["kind"].clone();
        }
        items.retain(|item| {
            // Other objects of the whole cluster are not of this run.
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            if kind.plural == "events" && is_of_server(name, item) {
                return false;
            }
            is_of_run(probe, run, name)
        });
        for item in items.iter_mut() {
            single(kind, sent, item);
        }
        items.sort_by_key(ToString::to_string);
        body["metadata"]["resourceVersion"] = "RV".into();
        if body.pointer("/metadata/continue").is_some_and(|token| token != "") {
            body["metadata"]["continue"] = "TOKEN".into();
        }
        if !probe.path.contains("{ns}") {
            body["metadata"] = Value::Null;
        }
        return body;
    }
    if !any_version {
        return body["kind"].clone();
    }
    single(kind, sent, &mut body);
    // A dry run shows the version that it was given.
    if probe.query.iter().any(|pair| pair == "dryRun=All")
        && let Some(metadata) = body["metadata"].as_object_mut()
    {
        metadata.remove("resourceVersion");
    }
    body
}

/// Whether an object that a list shows is one of this run, and not another one of the whole cluster.
fn is_of_run(probe: &Probe, run: &str, name: &str) -> bool {
    probe.path.contains("{ns}") || name.strip_prefix(run).is_some_and(|rest| rest.starts_with('-'))
}

/// Columns that tell how long ago something was.
const AGES: [&str; 7] = [
    "Age",
    "Last Seen",
    "First Seen",
    "Created At",
    "Last Schedule",
    "Duration",
    "Restarts",
];

/// A table: its columns and cells, but for those that depend on the time.
fn table(kind: &Kind, probe: &Probe, run: &str, sent: &[u8], table: &Value) -> Value {
    if !kind.has_columns {
        return table["kind"].clone();
    }
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    // What columns are about is told in words that the in-memory server leaves out.
    let shown: Vec<Value> = columns
        .iter()
        .map(|column| serde_json::json!([column["name"], column["type"], column["format"], column["priority"]]))
        .collect();
    let rows = table["rows"].as_array().into_iter().flatten().filter_map(|row| {
        let metadata = &row["object"]["metadata"];
        // Of metadata alone, or of nothing, events of the server itself cannot be told.
        let is_known = kind.plural != "events" && is_of_run(probe, run, metadata["name"].as_str().unwrap_or_default());
        is_known.then(|| cells(&columns, row, sent))
    });
    let any_version = probe.query.iter().all(|pair| !pair.starts_with("resourceVersion"));
    let mut rows: Vec<Value> = if any_version { rows.collect() } else { Vec::new() };
    rows.sort_by_key(ToString::to_string);
    serde_json::json!({"kind": "Table", "columns": shown, "rows": rows})
}

/// The cells of a row without what each server makes anew.
fn cells(columns: &[Value], row: &Value, sent: &[u8]) -> Value {
    let mut cells = row["cells"].clone();
    let prefix = row["object"]["metadata"]["generateName"].as_str().unwrap_or_default();
    for (column, cell) in columns.iter().zip(cells.as_array_mut().into_iter().flatten()) {
        let name = column["name"].as_str().unwrap_or_default();
        let Some(text) = cell.as_str() else { continue };
        *cell = match name {
            _ if AGES.contains(&name) => "AGE".into(),
            "Name" if !prefix.is_empty() && text.starts_with(prefix) => format!("{prefix}*").into(),
            "Name" if uid(text) == Some(36) => "UID".into(),
            "Cluster-IP" if is_handed_out(text, sent) => "IP".into(),
            // Of a port, the part between `:` and `/` is that of the node.
            "Port(s)" => {
                let ports = text.split(',').map(|port| match port.split_once(':') {
                    Some((own, rest)) => match rest.split_once('/') {
                        Some((node, protocol)) if !contains(sent, node) => format!("{own}:PORT/{protocol}"),
                        _ => port.to_owned(),
                    },
                    None => port.to_owned(),
                });
                ports.collect::<Vec<_>>().join(",").into()
            }
            _ => masked(text, sent).into(),
        };
    }
    cells
}

fn contains(sent: &[u8], text: &str) -> bool {
    sent.windows(text.len().max(1)).any(|part| part == text.as_bytes())
}

/// Whether an address is one that the server has chosen.
fn is_handed_out(ip: &str, sent: &[u8]) -> bool {
    ip.starts_with("10.0.") && !contains(sent, ip)
}

/// Masks what each server makes anew in the metadata that a patch has copied to another place.
fn copied(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(copied),
        Value::Object(members) => {
            let is_metadata = ["uid", "resourceVersion", "creationTimestamp"]
                .iter()
                .all(|key| members.get(*key).is_some_and(Value::is_string));
            if is_metadata && members["uid"].as_str().and_then(uid) == Some(36) {
                members.remove("managedFields");
                members.insert("uid".to_owned(), "UID".into());
                members.insert("resourceVersion".to_owned(), "RV".into());
                members.insert("creationTimestamp".to_owned(), "TIME".into());
            }
            members.values_mut().for_each(copied);
        }
        _ => {}
    }
}

/// Whether an event is one that the real server has made of its own accord, about addresses and ports of services: it is
/// named after the service and the nanosecond. Of metadata alone there is no more to see.
fn is_of_server(name: &str, event: &Value) -> bool {
    let of_time = name.rsplit_once('.').is_some_and(|(_, time)| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        time.len() == 16 && time.bytes().all(is_digit)
    });
    let source = [
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]
    .iter()
    .find_map(|place| event.pointer(place)?.as_str().filter(|text| !text.is_empty()));
    let of_allocator = source.is_some_and(|name| name.ends_with("allocator-repair-controller"));
    of_time && (of_allocator || event["kind"] == "PartialObjectMetadata")
}

/// Managed fields without their times, on which the order depends.
fn owners(metadata: &mut serde_json::Map<String, Value>) {
    let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    let Some(entries) = entries else { return };
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        entry.remove("time");
        // The server itself goes by the name of its program.
        if entry.get("manager").is_some_and(|name| name == "kube-apiserver") {
            entry.insert("manager".to_owned(), "apiserver".into());
        }
    }
    entries.sort_by_key(ToString::to_string);
}

/// Masks the addresses and ports that services are given and have not asked for, the uids by which jobs find their pods, and
/// since when pods, volumes and definitions are what they are.
fn given(kind: &Kind, sent: &[u8], object: &mut Value) {
    let mask_port = |port: &mut Value| {
        if port.is_number() && !contains(sent, &port.to_string()) {
            *port = "PORT".into();
        }
    };
    match kind.plural {
        "services" => {
            let Some(spec) = object.get_mut("spec") else { return };
            for place in ["/clusterIP", "/clusterIPs/0"] {
                if let Some(ip) = spec.pointer_mut(place)
                    && ip.as_str().is_some_and(|ip| is_handed_out(ip, sent))
                {
                    *ip = "IP".into();
                }
            }
            spec.get_mut("healthCheckNodePort").map(mask_port);
            let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                port.get_mut("nodePort").map(mask_port);
            }
        }
        "pods" => {
            let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            for condition in conditions.into_iter().flatten() {
                if condition["reason"] == "SchedulingGated" {
                    condition["lastTransitionTime"] = "TIME".into();
                }
            }
        }
        "jobs" => {
            for place in [
                "/spec/selector/matchLabels",
                "/spec/template/metadata/labels",
                "/metadata/labels",
            ] {
                let labels = object.pointer_mut(place).and_then(Value::as_object_mut);
                for (_, value) in labels
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| key.ends_with("controller-uid"))
                {
                    *value = "UID".into();
                }
            }
        }
        "customresourcedefinitions" => {
            let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            for condition in conditions.into_iter().flatten() {
                if condition["lastTransitionTime"].is_string() {
                    condition["lastTransitionTime"] = "TIME".into();
                }
            }
        }
        "persistentvolumes" => {
            if let Some(since) = object.pointer_mut("/status/lastPhaseTransitionTime") {
                *since = "TIME".into();
            }
        }
        _ => {}
    }
}

fn single(kind: &Kind, sent: &[u8], object: &mut Value) {
    given(kind, sent, object);
    let Some(members) = object.as_object_mut() else { return };
    for (_, value) in members.iter_mut().filter(|(key, _)| *key != "metadata") {
        copied(value);
    }
    let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    owners(metadata);
    for (key, mask) in [
        ("uid", "UID"),
        ("resourceVersion", "RV"),
        ("creationTimestamp", "TIME"),
        ("deletionTimestamp", "TIME"),
    ] {
        if metadata.get(key).is_some_and(|value| !value.is_null()) {
            metadata.insert(key.to_owned(), mask.into());
        }
    }
    // Owners that the request has put there by their uid.
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        if owner["uid"].as_str().and_then(uid).is_some() {
            owner["uid"] = "UID".into();
        }
    }
    let managers = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    for manager in managers.into_iter().flatten() {
        let owners = manager.pointer_mut("/fieldsV1/f:metadata/f:ownerReferences");
        if let Some(owners) = owners.and_then(Value::as_object_mut) {
            *owners = std::mem::take(owners)
                .into_iter()
                .map(|(key, value)| (masked(&key, b""), value))
                .collect();
        }
    }
    // A name that the server has made of a uid.
    if metadata.get("name").and_then(Value::as_str).and_then(uid) == Some(36) {
        metadata.insert("name".to_owned(), "UID".into());
    }
    let prefix = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned);
    if let Some(prefix) = prefix
        && let Some(name) = metadata.get("name").and_then(Value::as_str)
        && name.starts_with(&prefix)
        && name.len() == prefix.len() + 5
    {
        let masked = format!("{prefix}*");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut)
            && labels.contains_key("kubernetes.io/metadata.name")
        {
            labels.insert("kubernetes.io/metadata.name".to_owned(), masked.clone().into());
        }
        metadata.insert("name".to_owned(), masked.into());
    }
}
