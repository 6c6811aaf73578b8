//! Makes the requests: good ones with none, one or two things that are odd, since plain noise never gets past the router.

use fastrand::Rng;

use super::super::noise::{damage, escape, pick};
use super::bodies;
use super::kinds::{KINDS, Kind, Scope};
use super::probe::{Content, Probe};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

const ACTS: &[(u8, Act)] = &[
    (28, Act::Create),
    (8, Act::Get),
    (10, Act::List),
    (3, Act::Watch),
    (17, Act::Update),
    (17, Act::Patch),
    (13, Act::Delete),
    (4, Act::DeleteCollection),
];

/// The kinds of one stretch of requests: few, so that requests meet what others have made.
pub(super) struct Cast(Vec<&'static Kind>);

impl Cast {
    /// One of the first kinds, whose bodies are compared best, and some others.
    pub(super) fn choose(rng: &mut Rng) -> Cast {
        let mut kinds = vec![&KINDS[rng.usize(..4)]];
        kinds.extend((0..OTHERS).map(|_| &KINDS[rng.usize(..KINDS.len())]));
        Cast(kinds)
    }

    fn pick(&self, rng: &mut Rng) -> &'static Kind {
        self.0[rng.usize(..self.0.len())]
    }
}

/// The creation of a good object.
pub(super) fn creation(rng: &mut Rng, cast: &Cast) -> Probe {
    let kind = cast.pick(rng);
    let mut probe = good(rng, kind, Act::Create, "a");
    tame(kind, Act::Create, &mut probe);
    probe
}

/// The next request.
pub(super) fn probe(rng: &mut Rng, cast: &Cast) -> Probe {
    if rng.u8(..32) == 0 {
        return of_no_resource(rng);
    }
    let kind = cast.pick(rng);
    let act = act(rng);
    let letter = pick(rng, &["a", "a", "a", "b", "c"]);
    let mut probe = good(rng, kind, act, letter);
    let oddities = [0, 1, 1, 1, 2, 2, 3][rng.usize(..7)];
    for _ in 0..oddities {
        match rng.u8(..16) {
            0..=5 => odd_query(rng, act, &mut probe),
            6 => odd_header(rng, act, &mut probe),
            7 => odd_path(rng, &mut probe),
            8 if act == Act::Patch || !has_body(act) => odd_query(rng, act, &mut probe),
            8 => damage_body(rng, &mut probe),
            _ if has_body(act) => bodies::spoil(rng, kind, &mut probe.body),
            _ => odd_query(rng, act, &mut probe),
        }
    }
    tame(kind, act, &mut probe);
    probe
}

fn act(rng: &mut Rng) -> Act {
    let mut at = rng.u8(..ACTS.iter().map(|(weight, _)| *weight).sum::<u8>());
    for (weight, act) in ACTS {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return *act,
        }
    }
    Act::Get
}

/// How many kinds a cast has beside the first one.
const OTHERS: usize = 6;

fn has_body(act: Act) -> bool {
    matches!(act, Act::Create | Act::Update | Act::Patch | Act::Delete)
}

fn good(rng: &mut Rng, kind: &Kind, act: Act, letter: &str) -> Probe {
    let name = kind.name(letter);
    let (method, of_collection) = match act {
        Act::Create => ("POST", true),
        Act::Get => ("GET", false),
        Act::List | Act::Watch => ("GET", true),
        Act::Update => ("PUT", false),
        Act::Patch => ("PATCH", false),
        Act::Delete => ("DELETE", false),
        Act::DeleteCollection => ("DELETE", true),
    };
    let mut path = kind.collection();
    if !of_collection {
        path = format!("{path}/{name}");
    }
    let mut headers = Vec::new();
    let body = match act {
        Act::Create | Act::Update => {
            headers.push(("content-type", "application/json".to_owned()));
            Content::Json(kind.object(&name))
        }
        Act::Patch => {
            let (content_type, body) = bodies::patch(rng, kind);
            headers.push(("content-type", content_type.to_owned()));
            body
        }
        Act::Delete if rng.u8(..3) == 0 => {
            headers.push(("content-type", "application/json".to_owned()));
            bodies::delete_options(rng)
        }
        _ => Content::None,
    };
    let mut query = Vec::new();
    if act == Act::Watch {
        query.push("watch=1".to_owned());
    }
    if matches!(act, Act::Get | Act::Update | Act::Patch) && rng.u8(..8) == 0 {
        path += pick(rng, &["/status", "/status", "/status", "/finalize", "/nope"]);
    }
    Probe {
        method,
        path,
        query,
        headers,
        body,
        resource: kind.plural,
    }
}

const VERSIONS: &[&str] = &[
    "0",
    "0",
    "1",
    "{rv}",
    "{rv}",
    "",
    "abc",
    "-1",
    "00",
    "+1",
    "1.0",
    "99999999999999999999",
];
const FLAGS: &[&str] = &["true", "false", "1", "0", "", "True", "nope"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "",
    "x",
    "1.5",
    "99999999999999999999",
    "9223372036854775807",
    "+3",
    "0x1",
];
const LABELS: &[&str] = &[
    "run={run}",
    "a=b",
    "!a",
    "a",
    "a in (b,c)",
    "a notin (b)",
    "a>1",
    "a<x",
    "a==b,c!=d",
    "a in ()",
    "a in (",
    "a=b=c",
    "=",
    ",",
    "a,,b",
    "A b",
    "a/b/c=d",
    "-a",
    "a=-b",
    "a in b",
    "!",
    "a!b",
    "x in (a b)",
    "a=b,",
    "(",
    "run",
];
const FIELDS: &[&str] = &[
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace={ns}",
    "metadata.name=",
    "metadata.nope=x",
    "status.phase=Pending",
    "spec.nodeName=",
    "type=Opaque",
    "spec.nope==y",
    "metadata.name",
    "=",
    "metadata.name=a,metadata.name=b",
    ",",
    "a\\=b=c",
    "metadata.name=a\\",
    "metadata.name=a,",
    "involvedObject.name=a",
    "spec.nodeName=n,status.phase!=Running",
    "spec.unschedulable=false",
    "status.successful=0",
    "spec.restartPolicy=Always",
    "spec.type=ClusterIP",
    "reason=r",
    "type=Normal,reason!=x",
    "spec.schedulerName=default-scheduler",
    "status.podIP=",
    "spec.color=red",
    "spec.color!=red",
    ".spec.color=red",
];
const CONTINUES: &[&str] = &[
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
    "x",
    "e30",
    "",
    "!!",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiIn0",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhIn0",
];

fn odd_query(rng: &mut Rng, act: Act, probe: &mut Probe) {
    const OF_READS: &[&str] = &[
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "labelSelector",
        "fieldSelector",
        "labelSelector",
        "fieldSelector",
        "resourceVersionMatch",
        "resourceVersion",
        "watch",
        "pretty",
        "includeObject",
        "shardSelector",
        "timeout",
    ];
    const OF_WRITES: &[&str] = &[
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "fieldValidation",
        "dryRun",
        "pretty",
        "force",
        "nope",
        "watch",
        "resourceVersion",
        "timeout",
    ];
    const OF_DELETES: &[&str] = &[
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "gracePeriodSeconds",
    ];
    let key = match act {
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
    let pair = match rng.u8(..20) {
        0 => key.to_owned(),
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

fn odd_header(rng: &mut Rng, act: Act, probe: &mut Probe) {
    const ACCEPTS: &[&str] = &[
        "application/json",
        "*/*",
        "",
        "application/*",
        "text/html",
        "garbage",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
        "application/json;as=Table",
        "application/json;q=0",
        "text/html,application/json;q=0.1",
        "application/json;stream=watch",
        "application/json;charset=utf-8",
        "application/json;profile=x",
        "text/*",
        "application/json;v=v1",
        "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
    ];
    const TYPES: &[&str] = &[
        "",
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/yaml",
        "text/plain",
        "garbage",
        "*/*",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/x-www-form-urlencoded",
        "application/vnd.kubernetes.protobuf",
        "application/json;",
        "application/json;x",
        ";",
        "application/cbor",
    ];
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

fn damage_body(rng: &mut Rng, probe: &mut Probe) {
    let bytes = probe.body.bytes();
    // Places must stay whole, and the text is one.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let whole = &text[..text.find('{').map_or(0, |_| text.len())];
    probe.body = match rng.u8(..10) {
        0 => Content::None,
        1 => Content::Raw(b"null".to_vec()),
        2 => Content::Raw(b"[]".to_vec()),
        3 => Content::Raw(b"{}".to_vec()),
        4 => Content::Raw(b"\"x\"".to_vec()),
        5 => Content::Raw(format!("{whole}x").into_bytes()),
        6 => Content::Raw(format!(" {whole}\n\n").into_bytes()),
        7 => Content::Raw(whole.as_bytes()[..whole.len() / 2].to_vec()),
        8 => Content::Raw(b"metadata:\n  name: a\n".to_vec()),
        _ => Content::Raw(damage(rng, whole)),
    };
}

fn odd_path(rng: &mut Rng, probe: &mut Probe) {
    let path = probe.path.clone();
    let (head, last) = path.rsplit_once('/').expect("a path begins with a slash");
    probe.path = match rng.u8(..18) {
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
                    "status", "scale", "finalize", "nope", "log", "proxy/x", "token", "binding", "approval"
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
        _ => {
            probe.method = pick(
                rng,
                &["OPTIONS", "POST", "PUT", "PATCH", "DELETE", "GET", "FOO", "HEAD"],
            );
            path
        }
    };
}

/// Requests to documents and to nothing.
fn of_no_resource(rng: &mut Rng) -> Probe {
    const PATHS: &[&str] = &[
        "/api",
        "/api/",
        "/api/v1",
        "/api/v2",
        "/apis",
        "/apis/",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/apps/v9",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/{group}",
        "/apis/{group}/v1",
        "/apis/{group}/v2",
        "/version",
        "/version/",
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/healthz/nope",
        "/nope",
        "/api/v1/nopes",
        "/api/v1/namespaces/{ns}/nopes",
        "/api/v1/namespaces/{ns}/nopes/a",
        "/apis/apps/v1/nopes/a/status",
        "/apis/{group}/v1/nopes",
        "/apis/{group}/v1/namespaces/{ns}/nopes/a",
        "/apis/nope/v1/pods",
        "/openapi/v3/nope",
        "/api/v1/namespaces",
    ];
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

/// Takes from a request what would harm the run itself, or the server beyond it.
fn tame(kind: &Kind, act: Act, probe: &mut Probe) {
    let deletes = probe.method == "DELETE";
    if kind.scope == Scope::Definition && probe.method != "GET" {
        // The real server changes definitions in the background, so that no two runs would be alike.
        if deletes {
            probe.body = Content::None;
            probe.query.retain(|pair| !pair.contains("elector"));
        }
        if !probe.query.iter().any(|pair| pair == "dryRun=All") {
            probe.query.push("dryRun=All".to_owned());
        }
    }
    if kind.scope != Scope::Namespaced && deletes && (act == Act::DeleteCollection || !probe.path.contains("{run}")) {
        probe.query.retain(|pair| !pair.contains("abelSelector"));
        probe.query.push("labelSelector=run%3D{run}".to_owned());
        if !probe.path.contains("{run}") && !probe.path.ends_with(kind.plural) {
            probe.method = "GET";
        }
    }
    // The real server sends the head of some watches with their first event only, or at their end.
    let has_timeout = |pair: &String| pair.starts_with("timeoutSeconds=") && !pair.starts_with("timeoutSeconds=0");
    if probe.watches() && !probe.query.iter().any(has_timeout) {
        probe.query.insert(0, "timeoutSeconds=1".to_owned());
    }
    if deletes && probe.path.trim_end_matches('/').ends_with("/namespaces/{ns}") {
        probe.method = "GET";
    }
}
