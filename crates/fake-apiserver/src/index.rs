//! `/`: which paths there are; and the health checks, whatever the method.

use crate::answer::Answer;
use crate::gotext::go_quote;
use crate::kinds::{Kinds, api_version};
use crate::request::Request;

/// The paths of the health checks.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// What each of them looks at.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// Answers for the index and for health checks; nothing for other paths.
pub(crate) fn serve(kinds: &Kinds, request: &Request) -> Option<Answer> {
    let path = request.uri.path();
    if matches!(path, "/" | "/index.html") {
        return Some(index(kinds));
    }
    let (check, rest) = HEALTH
        .iter()
        .find_map(|check| Some((check, path.strip_prefix(check)?)))?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(Answer::text_of(health(check, request))),
        Some(part) if CHECKS.contains(&part) => Some(Answer::text(200, "ok")),
        _ => None,
    }
}

/// All paths that do not name an object or a kind.
fn index(kinds: &Kinds) -> Answer {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/apis/",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in kinds.groups() {
        let root = if group.name.is_empty() { "/api" } else { "/apis" };
        if !group.name.is_empty() {
            paths.push(format!("{root}/{}", group.name));
        }
        let versions = group.versions.iter();
        paths.extend(versions.map(|version| format!("{root}/{}", api_version(&group.name, &version.version))));
    }
    for check in HEALTH {
        paths.push(check.to_owned());
        paths.extend(CHECKS.iter().map(|part| format!("{check}/{part}")));
    }
    paths.sort();
    let lines: Vec<String> = paths.iter().map(|path| format!("    \"{path}\"")).collect();
    let text = format!("{{\n  \"paths\": [\n{}\n  ]\n}}", lines.join(",\n"));
    Answer::json(200, text.into_bytes())
}

/// The text of a check: each part of it, if the client asks for that.
fn health(check: &str, request: &Request) -> String {
    if request.query.get("verbose").is_none() {
        return "ok".to_owned();
    }
    let mut excluded: Vec<&str> = request.query.all("exclude").collect();
    excluded.sort_unstable();
    excluded.dedup();
    let mut lines = Vec::with_capacity(CHECKS.len() + 2);
    for part in CHECKS {
        let before = excluded.len();
        excluded.retain(|name| *name != part);
        let state = if excluded.len() < before { "excluded: ok" } else { "ok" };
        lines.push(format!("[+]{part} {state}\n"));
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| go_quote(name)).collect();
        let names = names.join(",");
        lines.push(format!(
            "warn: some health checks cannot be excluded: no matches for {names}\n"
        ));
    }
    lines.push(format!("{} check passed\n", check.trim_start_matches('/')));
    lines.concat()
}
