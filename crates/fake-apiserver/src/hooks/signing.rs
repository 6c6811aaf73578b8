//! What is special about requests for certificates: the server says who asks; what was decided about one stays decided, and is
//! said through a subresource of its own, the certificate through the status.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value as Json;

use crate::gotext::go_quote;
use crate::json::{Tape, Value, scan, write};
use crate::object::Object;
use crate::validation::{ErrorKind, FieldError, Written};

const CONDITIONS: &str = "status.conditions";

/// The conditions that only the approval sets.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// The conditions that never go again, and are true where they are.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

/// What a client says in the spec, in Go's order; the rest is about the one who asks.
const ASKED: [&str; 4] = ["request", "signerName", "expirationSeconds", "usages"];

/// Writes who asks into a new request; what the client says of that does not count.
pub(super) fn asked_by(object: &mut Object, user: &Json) {
    let mut spec = vec![b'{'];
    for name in ASKED {
        let value = object.field("spec").and_then(|spec| scan::member(spec, name));
        if let Some(value) = value {
            write::name(&mut spec, name);
            spec.extend_from_slice(value);
        }
    }
    let text = |out: &mut Vec<u8>, value: &Json| write::string(out, value.as_str().unwrap_or_default());
    for name in ["username", "uid"] {
        if let Some(value) = user.get(name) {
            write::name(&mut spec, name);
            text(&mut spec, value);
        }
    }
    if let Some(groups) = user.get("groups").and_then(Json::as_array) {
        write::name(&mut spec, "groups");
        spec.push(b'[');
        for group in groups {
            write::comma(&mut spec);
            text(&mut spec, group);
        }
        spec.push(b']');
    }
    spec.push(b'}');
    object.set_field("spec", spec.into());
}

/// A condition, whose values are canonical JSON.
#[derive(Clone, Copy)]
struct Condition<'a> {
    raw: Value<'a>,
}

impl<'a> Condition<'a> {
    fn text(self, name: &str) -> String {
        let text = self.raw.get(name).and_then(Value::as_str);
        text.unwrap_or_default().into_owned()
    }

    fn kind(self) -> String {
        self.text("type")
    }

    fn time(self, name: &str) -> Option<&'a [u8]> {
        let time = self.raw.get(name).filter(|time| !time.is_null());
        time.map(Value::raw_quoted)
    }
}

/// The status of a request, parsed.
struct Status<'a>(Option<Tape<'a>>);

impl<'a> Status<'a> {
    /// Of a decoded object, whose bytes can be read.
    fn of(object: &'a Object) -> Self {
        Self(object.field("status").and_then(|status| Tape::parse(status).ok()))
    }

    fn conditions(&self) -> Vec<Condition<'_>> {
        let conditions = self.0.as_ref().and_then(|status| status.root().get("conditions"));
        conditions.map_or_else(Vec::new, |list| list.items().map(|raw| Condition { raw }).collect())
    }

    fn certificate(&self) -> Option<&[u8]> {
        let certificate = self.0.as_ref().and_then(|status| status.root().get("certificate"));
        certificate.map(Value::raw_quoted)
    }
}

fn of_kind<'c, 'a>(
    conditions: &'c [Condition<'a>],
    kind: &'c str,
) -> impl Iterator<Item = (usize, Condition<'a>)> + 'c {
    let all = conditions.iter().copied().enumerate();
    all.filter(move |(_, condition)| condition.kind() == kind)
}

/// The object as an approval leaves it: of `new` there are the metadata and the conditions.
pub(super) fn approve(old: &Object, new: &mut Object, now: Timestamp) {
    let (before, after) = (Status::of(old), Status::of(new));
    let status = status(&after.conditions(), &before.conditions(), before.certificate(), now);
    let spec = old.field("spec").cloned();
    set(new, spec, status);
}

/// The object as a write of the status leaves it: nothing is decided there.
pub(super) fn keep_decisions(old: &Object, new: &mut Object, now: Timestamp) {
    let (before, after) = (Status::of(old), Status::of(new));
    let (decided, mut conditions) = (before.conditions(), after.conditions());
    for kind in DECISIONS {
        let old: Vec<_> = of_kind(&decided, kind).collect();
        let places: Vec<usize> = of_kind(&conditions, kind).map(|(at, _)| at).collect();
        // That some came or went is said when the object is validated.
        if old.len() == places.len() {
            for ((_, old), at) in old.into_iter().zip(places) {
                conditions[at] = old;
            }
        }
    }
    let status = status(&conditions, &decided, after.certificate(), now);
    let spec = old.field("spec").cloned();
    set(new, spec, status);
}

fn set(object: &mut Object, spec: Option<Bytes>, status: Vec<u8>) {
    match spec {
        Some(spec) => object.set_field("spec", spec),
        None => drop(object.remove_field("spec")),
    }
    object.set_field("status", status.into());
}

/// A canonical status, in which each condition has its times: a condition that says what it said has not changed since.
fn status(
    conditions: &[Condition<'_>],
    before: &[Condition<'_>],
    certificate: Option<&[u8]>,
    now: Timestamp,
) -> Vec<u8> {
    let now = write::quoted(&crate::clock::time_text(now));
    let mut out = vec![b'{'];
    if !conditions.is_empty() {
        write::name(&mut out, "conditions");
        out.push(b'[');
        for condition in conditions {
            write::comma(&mut out);
            out.push(b'{');
            for name in ["type", "status", "reason", "message"] {
                if let Some(value) = condition.raw.get(name) {
                    write::name(&mut out, name);
                    out.extend_from_slice(value.raw_quoted());
                }
            }
            let since = || {
                let same = |old: &&Condition<'_>| {
                    old.kind() == condition.kind() && old.text("status") == condition.text("status")
                };
                before
                    .iter()
                    .filter(same)
                    .find_map(|old| old.time("lastTransitionTime"))
            };
            let updated = condition.time("lastUpdateTime");
            write::name(&mut out, "lastUpdateTime");
            out.extend_from_slice(updated.unwrap_or(now.as_bytes()));
            let changed = condition.time("lastTransitionTime").or_else(since);
            write::name(&mut out, "lastTransitionTime");
            out.extend_from_slice(changed.unwrap_or(now.as_bytes()));
            out.push(b'}');
        }
        out.push(b']');
    }
    if let Some(certificate) = certificate {
        write::name(&mut out, "certificate");
        out.extend_from_slice(certificate);
    }
    out.push(b'}');
    out
}

/// What is wrong with the status. What was wrong before the write may stay so.
pub(super) fn validate(written: &Written<'_>) -> Vec<FieldError> {
    let (new, nothing) = (Status::of(written.new), Status(None));
    let old = written.old.map_or(nothing, Status::of);
    let (conditions, before) = (new.conditions(), old.conditions());
    let mut errors = of_conditions(&conditions, &before);
    let (certificate, given) = (new.certificate(), old.certificate());
    let is_same = written.old.is_some() && certificate == given;
    if !is_same
        && of_certificate(given).is_none()
        && let Some(why) = of_certificate(certificate)
    {
        let text = go_quote("<certificate data>");
        errors.push(FieldError::invalid_raw("status.certificate", &text, &why));
    }
    if written.old.is_none() {
        return errors;
    }
    let count = |conditions: &[Condition<'_>], kind: &str| of_kind(conditions, kind).count();
    let forbidden = |text: String| FieldError::new(ErrorKind::Forbidden, CONDITIONS, &text);
    for kind in FINAL {
        if count(&conditions, kind) < count(&before, kind) {
            errors.push(forbidden(format!(
                "updates may not remove a condition of type \"{kind}\""
            )));
        }
    }
    if written.of_status {
        for kind in DECISIONS {
            if count(&conditions, kind) > count(&before, kind) {
                errors.push(forbidden(format!("updates may not add a condition of type \"{kind}\"")));
            }
        }
    }
    if !is_same && given.is_some() {
        let text = "updates may not modify existing certificate content";
        errors.push(FieldError::new(ErrorKind::Forbidden, "status.certificate", text));
    }
    let decided = |conditions: &[Condition<'_>]| DECISIONS.iter().all(|kind| count(conditions, kind) > 0);
    if decided(&conditions) && !decided(&before) {
        let [approved, denied] = DECISIONS.map(|kind| format!("conditions[{{\"type\": \"{kind}\"}}]"));
        let value = go_quote(&format!("{{{approved}, {denied}}}"));
        let text = format!("must specify at most one of: `{approved}`, `{denied}`");
        errors.push(FieldError::invalid_raw(CONDITIONS, &value, &text));
    }
    errors
}

fn of_conditions(conditions: &[Condition<'_>], before: &[Condition<'_>]) -> Vec<FieldError> {
    let kinds = |conditions: &[Condition<'_>]| conditions.iter().map(|condition| condition.kind()).collect::<Vec<_>>();
    let (kinds, old) = (kinds(conditions), kinds(before));
    let allows_empty = old.iter().any(String::is_empty);
    let mut seen = HashSet::new();
    let allows_repeated = !old.iter().all(|kind| seen.insert(kind));
    let mut seen = HashSet::new();
    let mut errors = Vec::new();
    for (at, (kind, condition)) in kinds.iter().zip(conditions).enumerate() {
        let field = |name: &str| format!("{CONDITIONS}[{at}].{name}");
        if kind.is_empty() && !allows_empty {
            errors.push(FieldError::new(ErrorKind::Required, field("type"), ""));
        }
        let allowed: &[&str] = if FINAL.contains(&kind.as_str()) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        let status = condition.text("status");
        if status.is_empty() {
            errors.push(FieldError::new(ErrorKind::Required, field("status"), ""));
        } else if !allowed.contains(&status.as_str()) {
            let listed = allowed
                .iter()
                .map(|value| go_quote(value))
                .collect::<Vec<_>>()
                .join(", ");
            let text = format!("{}: supported values: {listed}", go_quote(&status));
            errors.push(FieldError::new(ErrorKind::NotSupported, field("status"), &text));
        }
        if !seen.insert(kind) && !allows_repeated {
            errors.push(FieldError::new(ErrorKind::Duplicate, field("type"), &go_quote(kind)));
        }
    }
    errors
}

/// What is wrong with a certificate, as the text that names it in JSON. What is in the blocks is not looked at.
fn of_certificate(certificate: Option<&[u8]>) -> Option<String> {
    let text: String = serde_json::from_slice(certificate?).ok()?;
    let data = STANDARD.decode(text).ok()?;
    if data.is_empty() {
        return None;
    }
    let data = String::from_utf8_lossy(&data);
    let mut lines = data.lines();
    let mut blocks = 0;
    while let Some(line) = lines.next() {
        let kind = line.trim_end().strip_prefix("-----BEGIN ");
        let Some(kind) = kind.and_then(|kind| kind.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {kind}-----");
        let rest = lines.clone();
        let held: Vec<&str> = rest.take_while(|line| line.trim_end() != end).collect();
        if lines.clone().nth(held.len()).is_none() {
            continue; // It does not end.
        }
        lines.nth(held.len());
        if kind != "CERTIFICATE" {
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {}",
                go_quote(kind)
            ));
        }
        if held.iter().any(|line| line.contains(':')) {
            return Some("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}
