//! Config maps and secrets: what cannot change, and what secrets of a type must hold.

use super::{At, Bodies, Findings};

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// Finds changes of an object that says that it does not change.
fn sealed(bodies: &Bodies<'_>, fields: &[&str], found: &mut Findings) {
    if !bodies.old("immutable").flag() {
        return;
    }
    let own = bodies.at("immutable");
    if !own.flag() {
        found.forbidden(&own, IMMUTABLE);
    }
    for field in fields {
        if bodies.at(field).value != bodies.old(field).value {
            found.forbidden(&bodies.at(field), IMMUTABLE);
        }
    }
}

pub(super) fn config_map(bodies: &Bodies<'_>, found: &mut Findings) {
    sealed(bodies, &["data", "binaryData"], found);
}

pub(super) fn secret(bodies: &Bodies<'_>, found: &mut Findings) {
    if bodies.is_update() {
        found.immutable(&bodies.at("type"), &bodies.old("type"));
        sealed(bodies, &["data"], found);
    }
    secret_type(bodies, found);
}

/// What a secret of a type must hold, after its keys.
fn secret_type(bodies: &Bodies<'_>, found: &mut Findings) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let data = bodies.at("data");
    let required = |key: &str, found: &mut Findings| found.required(&data.key(key), "");
    match bodies.at("type").text() {
        "kubernetes.io/service-account-token" => {
            let account = bodies.written.new.meta.annotations.get(ACCOUNT);
            if account.is_none_or(str::is_empty) {
                let place = format!("metadata.annotations[{ACCOUNT}]");
                found.required(&At::new(place, &serde_json::Value::Null), "");
            }
        }
        "kubernetes.io/dockercfg" if !data.key(".dockercfg").is_set() => required(".dockercfg", found),
        "kubernetes.io/dockerconfigjson" if !data.key(".dockerconfigjson").is_set() => {
            required(".dockerconfigjson", found);
        }
        "kubernetes.io/basic-auth" if !data.key("username").is_set() && !data.key("password").is_set() => {
            required("username", found);
            required("password", found);
        }
        "kubernetes.io/ssh-auth" if data.key("ssh-privatekey").is_empty() => required("ssh-privatekey", found),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.key(key).is_set() {
                    required(key, found);
                }
            }
        }
        _ => {}
    }
}
