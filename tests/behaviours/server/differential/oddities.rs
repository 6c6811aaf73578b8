//! What can be odd about a request beside its body: queries, headers, paths, methods.

use fastrand::Rng;

use super::super::noise::{damage, escape, pick};
use super::bodies;
use super::generate::{Act, has_body};
use super::kinds::{Kind, Scope};
use super::probe::{Content, Probe};
use super::values::{
    ACCEPTS, CONTINUES, FIELDS, FLAGS, LABELS, LONG, NUMBERS, OF_DELETES, OF_READS, OF_WRITES, OTHERS, PATHS, TYPES,
    VERSIONS,
};

pub(super) fn odd_query(rng: &mut Rng, act: Act, probe: &mut Probe) {
    let key = match act {
        _ if rng.u8(..24) == 0 => {
            let all = [OF_READS, OF_WRITES, OF_DELETES][rng.usize(..3)];
            pick(rng, all)
        }
        Act::Get | Act::List | Act::Watch => pick(rng, OF_READS),
        Act::DeleteCollection if rng.bool() => pick(rng, OF_READS),
        Act::Delete | Act::DeleteCollection => pick(rng, OF_DELETES),
        Act::Create | Act::Update | Act::Patch => pick(rng, OF_WRITES),
    };
    let value = match key {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => pick(rng, NUMBERS),
        // It waits for three seconds on both servers.
        "resourceVersion" if rng.u8(..64) == 0 => "18446744073709551615",
        "resourceVersion" => pick(rng, VERSIONS),
        "resourceVersionMatch" => pick(rng, &["Exact", "NotOlderThan", "NotOlderThan", "", "exact", "nope"]),
        "timeout" => pick(
            rng,
            &["10s", "1m", "0", "5", "x", "", "1.5h", "-1s", "10 s", "1y", "\u{b5}s"],
        ),
        "labelSelector" => pick(rng, LABELS),
        "fieldSelector" => pick(rng, FIELDS),
        "continue" => pick(rng, CONTINUES),
        "dryRun" => pick(rng, &["All", "All", "All", "", "all", "None", "All,All"]),
        "fieldManager" => {
            let long = "m".repeat(129);
            let bells = format!("{long}\u{7}\u{a0}\u{7f}");
            let manager = pick(rng, &["me", "", "a\u{7}b", "é", "a\nb", "a\u{e000}\0", &long, &bells]);
            let manager = if rng.u8(..4) == 0 {
                damage(rng, manager)
            } else {
                manager.as_bytes().to_vec()
            };
            probe.query.push(format!("{key}={}", escape(&manager)));
            return;
        }
        "fieldValidation" => pick(rng, &["Strict", "Strict", "Warn", "Ignore", "", "strict", "nope"]),
        "propagationPolicy" => pick(rng, &["Foreground", "Orphan", "Background", "", "nope"]),
        "includeObject" => pick(rng, &["None", "Object", "Metadata", "nope"]),
        _ => pick(rng, FLAGS),
    };
    let value = &*value.replace("{long}", &"l".repeat(LONG));
    let key = match rng.u8(..64) {
        0 => key.to_uppercase(),
        1 => format!("{key}[]"),
        2 => escape(key.as_bytes()).replacen('e', "%65", 1),
        _ => key.to_owned(),
    };
    // The first of several values is the one that counts, where only one does.
    if rng.u8(..24) == 0 {
        probe.query.push(format!("{key}={}", place_or_escape(value)));
        probe
            .query
            .push(format!("{key}={}", pick(rng, &["", "1", "true", "nope", "All"])));
        return;
    }
    let pair = match rng.u8(..20) {
        0 => key,
        1 => format!("{key}=%zz"),
        2 => format!("{key}={};x", place_or_escape(value)),
        // Of which some are no text.
        3 | 4 => format!("{key}={}", escape(&damage(rng, value))),
        _ => format!("{key}={}", place_or_escape(value)),
    };
    probe.query.push(pair);
}

/// Escapes all but the places that a run fills in.
fn place_or_escape(value: &str) -> String {
    let escaped = escape(value.as_bytes());
    escaped.replace("%7B", "{").replace("%7D", "}")
}

pub(super) fn odd_header(rng: &mut Rng, act: Act, probe: &mut Probe) {
    if rng.u8(..8) == 0 {
        let (name, value) = OTHERS[rng.usize(..OTHERS.len())];
        probe.headers.push((name, value.to_owned()));
        return;
    }
    if has_body(act) && rng.bool() {
        probe.headers.retain(|(name, _)| *name != "content-type");
        let value = pick(rng, TYPES);
        if rng.u8(..8) > 0 {
            probe.headers.push(("content-type", value.to_owned()));
        }
        if let (Content::Json(body), "application/yaml", true) = (&probe.body, value, rng.bool()) {
            probe.body = Content::Raw(bodies::yaml(body).into_bytes());
        }
    } else {
        probe.headers.retain(|(name, _)| *name != "accept");
        probe.headers.push(("accept", pick(rng, ACCEPTS).to_owned()));
    }
}

pub(super) fn odd_path(rng: &mut Rng, kind: &Kind, probe: &mut Probe) {
    let path = probe.path.clone();
    let (head, last) = path.rsplit_once('/').expect("a path begins with a slash");
    probe.path = match rng.u8(..24) {
        0 => format!("{path}/"),
        1 => format!("{path}/x/y"),
        2 => format!("{head}/{last}%2Fb"),
        3 => format!("{head}/%zz"),
        4 => format!("{head}/%2e%2e"),
        5 => format!("{head}/a%25b"),
        6 => format!(
            "{path}/{}",
            pick(
                rng,
                &[
                    "status",
                    "scale",
                    "finalize",
                    "nope",
                    "log",
                    "proxy/x",
                    "token",
                    "binding",
                    "approval",
                    "exec",
                    "attach",
                    "portforward",
                    "eviction",
                    "ephemeralcontainers",
                    "resize",
                    "proxy",
                    "STATUS",
                    "status%2F",
                ]
            )
        ),
        7 => path.replacen("/namespaces/{ns}", "", 1),
        8 => path.replacen(
            "{ns}",
            pick(rng, &["absent", "{run}-a", "Bad_", "", "a%20b", "kube-system"]),
            1,
        ),
        9 => format!(
            "{head}/{}",
            match pick(rng, &["Bad_Name", "é", "a b", "x.y", "-a", "a:b", "{}", "A", "a", "ab"]) {
                text if rng.u8(..3) == 0 => escape(&damage(rng, text)),
                text => escape(text.as_bytes()),
            }
        ),
        10 => path.replacen("/v1/", pick(rng, &["/v2/", "/v1beta1/", "//", "/V1/"]), 1),
        11 => path.replacen("/v1/", "/v1/watch/", 1),
        12 => format!("{head}/{last}{last}"),
        13 => path.replacen("/api", "/Api", 1),
        14 => format!("{path}/status/x"),
        15 => format!("{path}/a"),
        16 => head.to_owned(),
        17 if kind.scope == Scope::Namespaced => path.replacen("{ns}", &"n".repeat(LONG), 1),
        17 => path.replacen(kind.root, &format!("{}/namespaces/{{ns}}", kind.root), 1),
        18 => path.replacen(
            kind.root,
            pick(
                rng,
                &[
                    "apis/apps/v1beta1",
                    "apis/apps/v1beta2",
                    "apis/extensions/v1beta1",
                    "apis/batch/v1beta1",
                    "api/v1",
                    "apis/apps/v1",
                    "apis/events.k8s.io/v1",
                    "apis/policy/v1beta1",
                    "apis/v1",
                    "apis",
                    "api",
                    "apis/rbac.authorization.k8s.io/v1beta1",
                    "apis/{group}/v1",
                    "apis/APPS/v1",
                    "apis/apps/",
                ],
            ),
            1,
        ),
        19 => format!("{head}/{}", "n".repeat([63, 64, 253, 254, 2_000][rng.usize(..5)])),
        20 => path.replacen('/', pick(rng, &["//", "/./", "/%2f"]), rng.usize(1..4)),
        _ => {
            probe.method = pick(
                rng,
                &[
                    "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "GET", "FOO", "HEAD", "HEAD", "TRACE",
                ],
            );
            path
        }
    };
}

/// Requests to documents and to nothing.
pub(super) fn of_no_resource(rng: &mut Rng) -> Probe {
    let method = ["GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"][rng.usize(..9)];
    let path = pick(rng, PATHS);
    let mut probe = Probe {
        method,
        path: path.to_owned(),
        query: Vec::new(),
        headers: Vec::new(),
        body: Content::None,
        resource: "",
    };
    if rng.u8(..4) == 0 {
        odd_header(rng, Act::Get, &mut probe);
    }
    if matches!(method, "POST" | "PUT" | "PATCH") {
        probe.headers.push(("content-type", "application/json".to_owned()));
        probe.body = Content::Raw(b"{}".to_vec());
    }
    probe
}
