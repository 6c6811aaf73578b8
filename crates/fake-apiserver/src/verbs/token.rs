//! Tokens of service accounts: asked for at `serviceaccounts/NAME/token`, judged by token reviews.
//!
//! A token has the form and the claims of a real one, so that clients can read when it ends. Its signature is good enough for
//! this server to know its own tokens, and for nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Context, bodies, write};
use crate::answer::Answer;
use crate::clock::time_text;
use crate::codec::{ContentType, FieldValidation, decode};
use crate::kinds::Kinds;
use crate::negotiate::Shape;
use crate::object::Object;
use crate::status::{Cause, Status, Subject};
use crate::storage::Versioned;
use crate::stored::{Stored, key_of};

/// The server, as it is called inside of a cluster.
const AUDIENCE: &str = "https://kubernetes.default.svc";
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const BY_DEFAULT: i64 = 3600;

const REQUEST: Subject<'static> = Subject {
    group: "authentication.k8s.io",
    plural: "",
    kind: "TokenRequest",
};

/// `POST` to `serviceaccounts/NAME/token`.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422.
pub(super) fn request(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let kind = bodies::kind("authentication.k8s.io", "v1", "TokenRequest")?;
    let posted = bodies::read(context, &kind)?;
    let of_kind = Context {
        resource: &kind,
        ..context
    };
    let answered = issue(context, of_kind, posted.object).and_then(|object| {
        let view = view.get()?.of(&kind);
        let stored = Stored::of(&kind, &object);
        Ok(Answer::json(201, view.object(&stored, 0)))
    });
    write::warned(answered, &posted.warnings)
}

fn issue(context: Context<'_>, of_kind: Context<'_>, mut object: Object) -> Result<Object, Status> {
    bodies::check_namespace(context, &object)?;
    let name = context.name();
    let mut spec = bodies::field(&object, "spec");
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = BY_DEFAULT.into();
    }
    set_spec(of_kind, &mut object, &spec);
    write::track_fields(of_kind, None, &mut object);
    if !object.meta.name.is_empty() && object.meta.name != name {
        let text = format!(
            "Invalid value: {}: must match the service account name if specified",
            json!(object.meta.name)
        );
        let cause = Cause::new("FieldValueInvalid", text, "metadata.name");
        return Err(Status::invalid(REQUEST, name, vec![cause]));
    }
    let account = context.server.storage.get(context.id, &context.key());
    let account = account.ok_or_else(|| context.absent())?.object.object();
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([AUDIENCE]);
    }
    check_duration(spec["expirationSeconds"].as_i64().unwrap_or_default())?;
    let bound = bound(context, &spec["boundObjectRef"])?;
    let now = context.server.clock.now();
    let meta = &mut object.meta;
    name.clone_into(&mut meta.name);
    context.namespace().unwrap_or_default().clone_into(&mut meta.namespace);
    meta.uid.clone_from(&account.meta.uid);
    meta.creation_timestamp = Some(now);
    let ends = now
        .as_second()
        .saturating_add(spec["expirationSeconds"].as_i64().unwrap_or_default());
    let mut own = json!({
        "namespace": meta.namespace, "serviceaccount": {"name": name, "uid": account.meta.uid},
    });
    if let Some((kind, name, uid)) = bound {
        own[kind] = json!({"name": name, "uid": uid});
    }
    let claims = json!({
        "aud": spec["audiences"], "exp": ends, "iat": now.as_second(), "iss": AUDIENCE,
        "jti": context.server.names.uid(), "kubernetes.io": own, "nbf": now.as_second(),
        "sub": format!("system:serviceaccount:{}:{name}", meta.namespace),
    });
    let ends = jiff::Timestamp::from_second(ends).unwrap_or(jiff::Timestamp::MAX);
    set_spec(of_kind, &mut object, &spec);
    let status = json!({
        "token": sealed(context, &claims), "expirationTimestamp": time_text(ends),
    });
    object.set_field("status", status.to_string().into());
    Ok(object)
}

/// Writes the spec in Go's form.
fn set_spec(of_kind: Context<'_>, object: &mut Object, spec: &Value) {
    let body = json!({ "spec": spec }).to_string();
    // A decoded spec with more fields of its kind can be decoded.
    if let Ok(decoded) = decode(
        of_kind.resource,
        ContentType::Json,
        body.as_bytes(),
        FieldValidation::Ignore,
    ) && let Some(spec) = decoded.object.field("spec")
    {
        object.set_field("spec", spec.clone());
    }
}

fn check_duration(seconds: i64) -> Result<(), Status> {
    let why = if seconds < SHORTEST {
        "may not specify a duration less than 10 minutes"
    } else if seconds > LONGEST {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let text = format!("Invalid value: {seconds}: {why}");
    let cause = Cause::new("FieldValueInvalid", text, "spec.expirationSeconds");
    Err(Status::invalid(REQUEST, "", vec![cause]))
}

/// What a token is bound to: the claim, the name and the uid.
fn bound(context: Context<'_>, reference: &Value) -> Result<Option<(&'static str, String, String)>, Status> {
    if reference.is_null() {
        return Ok(None);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    // The version does not count.
    let (plural, claim) = match (group, text("kind")) {
        ("", "Pod") => ("pods", "pod"),
        ("", "Node") => ("nodes", "node"),
        ("", "Secret") => ("secrets", "secret"),
        (group, kind) => {
            let text = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(text));
        }
    };
    let name = text("name");
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let kinds = context.server.registry.snapshot();
    let namespace = context.namespace().filter(|_| plural != "nodes");
    let found = find(context, &kinds, plural, namespace, name);
    let subject = Subject {
        group: "",
        plural,
        kind: "",
    };
    let object = found.ok_or_else(|| Status::not_found(subject, name))?.object.object();
    let account = bodies::field(&object, "spec")["serviceAccountName"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if plural == "pods" && account != context.name() {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            context.name()
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != object.meta.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Status::conflict(subject, name, &why));
    }
    Ok(Some((claim, name.to_owned(), object.meta.uid)))
}

fn find(
    context: Context<'_>,
    kinds: &Kinds,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Versioned<Stored>> {
    let id = context.server.resource_id(kinds.resource("", "v1", plural)?)?;
    context.server.storage.get(id, &key_of(namespace, name))
}

/// What a review says of a token: one of this server, for whom and until when it says.
pub(super) fn review(context: Context<'_>, token: &str, wanted: &Value) -> Value {
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    let Some(claims) = opened(context, token) else {
        return unknown;
    };
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let wanted = match texts(wanted) {
        none if none.is_empty() => vec![AUDIENCE.to_owned()],
        wanted => wanted,
    };
    let given = texts(&claims["aud"]);
    let audiences: Vec<&String> = given.iter().filter(|audience| wanted.contains(audience)).collect();
    if audiences.is_empty() {
        let text = format!(
            "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
            json!(given),
            json!(wanted)
        );
        return json!({"user": {}, "error": text});
    }
    let own = &claims["kubernetes.io"];
    let namespace = own["namespace"].as_str().unwrap_or_default();
    let account = &own["serviceaccount"];
    let kinds = context.server.registry.snapshot();
    let name = account["name"].as_str().unwrap_or_default();
    let found = find(context, &kinds, "serviceaccounts", Some(namespace), name);
    let is_there = found.is_some_and(|found| account["uid"] == found.object.object().meta.uid);
    let is_over = claims["exp"].as_i64().unwrap_or_default() <= context.server.clock.now().as_second();
    if !is_there || is_over {
        return unknown;
    }
    let mut extra = json!({
        "authentication.kubernetes.io/credential-id": [format!("JTI={}", claims["jti"].as_str().unwrap_or_default())],
    });
    if own["pod"].is_object() {
        extra["authentication.kubernetes.io/pod-name"] = json!([own["pod"]["name"]]);
        extra["authentication.kubernetes.io/pod-uid"] = json!([own["pod"]["uid"]]);
    }
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated"
    ]);
    let user = format!(
        "{{\"username\":{},\"uid\":{},\"groups\":{groups},\"extra\":{extra}}}",
        claims["sub"], account["uid"]
    );
    // The order of the fields is Go's.
    let status = format!(
        "{{\"authenticated\":true,\"user\":{user},\"audiences\":{}}}",
        json!(audiences)
    );
    serde_json::from_str(&status).unwrap_or(unknown)
}

fn sealed(context: Context<'_>, claims: &Value) -> String {
    let head = URL_SAFE_NO_PAD.encode(json!({"alg": "RS256", "kid": "fake"}).to_string());
    let body = URL_SAFE_NO_PAD.encode(claims.to_string());
    let signature = signature(context, &body);
    format!("{head}.{body}.{signature}")
}

fn opened(context: Context<'_>, token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, body, given) = (parts.next()?, parts.next()?, parts.next()?);
    let is_own = parts.next().is_none() && signature(context, body) == given;
    let claims = URL_SAFE_NO_PAD.decode(body).ok().filter(|_| is_own)?;
    serde_json::from_slice(&claims).ok()
}

/// What tells the tokens of this server from those of others: a sum over the claims and the uid of a namespace that every
/// server has.
fn signature(context: Context<'_>, body: &str) -> String {
    let kinds = context.server.registry.snapshot();
    let system = find(context, &kinds, "namespaces", None, "kube-system");
    let secret = system.map(|system| system.object.object().meta.uid).unwrap_or_default();
    let sum = |seed: u64| {
        let bytes = secret.bytes().chain(body.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let bytes: Vec<u8> = (1..=4).flat_map(|seed| sum(seed).to_be_bytes()).collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether the resource is the one whose objects have tokens.
pub(super) fn has_tokens(context: Context<'_>) -> bool {
    context.resource.group.is_empty() && context.resource.plural == "serviceaccounts"
}
