//! Makes the requests: good ones with up to three things that are odd, since plain noise never gets past the router.

use fastrand::Rng;

use super::super::noise::{damage, pick};
use super::bodies;
use super::kinds::{KINDS, Kind, Scope};
use super::oddities::{odd_header, odd_path, odd_query, of_no_resource};
use super::probe::{Content, Probe};
use super::texts;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
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
        match rng.u8(..20) {
            0..=5 => odd_query(rng, act, &mut probe),
            6 | 16 => odd_header(rng, act, &mut probe),
            7 | 17 => odd_path(rng, kind, &mut probe),
            18 | 19 if has_body(act) => texts::rewrite(rng, act != Act::Patch, &mut probe),
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

pub(super) fn has_body(act: Act) -> bool {
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
        path += pick(rng, &["/status", "/status", "/status", "/scale", "/finalize", "/nope"]);
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
    let parts = probe.path.split('/').filter(|part| !matches!(*part, "" | "."));
    if deletes && parts.collect::<Vec<_>>().ends_with(&["namespaces", "{ns}"]) {
        probe.method = "GET";
    }
}
