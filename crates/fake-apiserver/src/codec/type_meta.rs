//! `apiVersion` and `kind` of a body: finding them, and whether they are those of the resource.

use super::{DecodeError, foreign};
use crate::{
    gotext::go_quote,
    json::{Kind, Value},
    kinds::{Resource, version_of},
};

/// Where the real server's scheme of built-in types says it was made.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Finds `apiVersion` and `kind` at the first look at a body; absent ones are empty. Unlike all other names, these two match in any case.
///
/// # Errors
///
/// The text of the real server's first look at a body.
pub(super) fn interpret(root: Value<'_>) -> Result<(String, String), String> {
    let fail = |what: String| format!("couldn't get version/kind; json parse error: json: cannot unmarshal {what}");
    if !matches!(root.kind(), Kind::Object | Kind::Null) {
        let ty =
            r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        return Err(fail(format!("{} into Go value of type {ty}", root.kind().go_name())));
    }
    let (mut api_version, mut kind) = (String::new(), String::new());
    for (key, value) in root.entries() {
        let (name, target) = match key.as_str() {
            Some(key) if key.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut api_version),
            Some(key) if key.eq_ignore_ascii_case("kind") => ("kind", &mut kind),
            _ => continue,
        };
        match value.as_str() {
            Some(text) => *target = text.into_owned(),
            None if value.is_null() => {}
            None => {
                return Err(fail(format!(
                    "{} into Go struct field .{name} of type string",
                    value.kind().go_name()
                )));
            }
        }
    }
    if api_version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    Ok((api_version, kind))
}

/// What a custom resource says its `apiVersion` and `kind` are, after [`interpret`] has taken it; absent ones are empty.
pub(super) fn of_custom(root: Value<'_>) -> (String, String) {
    let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default().into_owned();
    (text("apiVersion"), text("kind"))
}

/// Group and version of an `apiVersion`.
pub(super) fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Whether an `apiVersion` names a group but no version, which no default fits: those are of the group `of`.
pub(super) fn lacks_version(api_version: &str, of: &str) -> bool {
    let (group, version) = split(api_version);
    version.is_empty() && !group.is_empty() && group != of
}

/// What is said of a body that [`lacks_version`].
pub(super) fn missing_version(body: &[u8]) -> String {
    format!("Object 'apiVersion' is missing in '{}'", String::from_utf8_lossy(body))
}

/// What is said of a patched object of another kind and of no version. The real server looks for that kind among those without
/// versions, which it has for its own use, and cannot make the resource's kind of it.
pub(super) fn unfit_without_version(resource: &Resource, kind: &str) -> String {
    match foreign::without_version(resource, kind) {
        Some(go) => no_conversion(resource, &go),
        None => format!(
            "no kind {} is registered for the internal version of group {} in scheme \"{SCHEME}\"",
            go_quote(kind),
            go_quote(&resource.group)
        ),
    }
}

fn no_conversion(resource: &Resource, from: &str) -> String {
    format!(
        "converting ({from}) to ({}.{}): unknown conversion",
        resource.go_package(),
        resource.kind
    )
}

/// Checks that a body is of the resource's kind; returns `apiVersion` and `kind` with the defaults filled in. `root` is the
/// body, if it is JSON.
pub(super) fn check_typed(
    resource: &Resource,
    api_version: &str,
    kind: &str,
    root: Option<Value<'_>>,
) -> Result<(String, String), DecodeError> {
    let (mut group, mut version) = split(api_version);
    if version.is_empty() {
        (group, version) = (&resource.group, &resource.version);
    }
    let kind = if kind.is_empty() { &*resource.kind } else { kind };
    if (group, version, kind) == (&*resource.group, &*resource.version, &*resource.kind) {
        return Ok((resource.api_version(), kind.to_owned()));
    }
    let full = crate::kinds::api_version(group, version);
    let wrong = |cause: String| DecodeError::wrong_kind(resource, kind, version, cause);
    let Some(foreign) = foreign::known(resource, group, version, kind) else {
        return Err(wrong(format!(
            "no kind {} is registered for version {} in scheme \"{SCHEME}\"",
            go_quote(kind),
            go_quote(&full)
        )));
    };
    let findings = root.map_or(Ok(Vec::new()), |root| foreign.read(root)).map_err(wrong)?;
    if version_of(resource, group, version, kind).is_some() || foreign::is_old_version(resource, group, version, kind) {
        return Err(DecodeError::OtherVersion {
            message: format!(
                "the API version in the data ({full}) does not match the expected API version ({})",
                resource.api_version()
            ),
            findings,
        });
    }
    Err(wrong(no_conversion(resource, &foreign.go)))
}

/// The resource that a body is of, if that is the given one in another version.
pub(super) fn other_version(resource: &Resource, root: Value<'_>) -> Option<Resource> {
    let (api_version, kind) = interpret(root).ok()?;
    let (group, version) = split(&api_version);
    let kind = if kind.is_empty() { &*resource.kind } else { &kind };
    version_of(resource, group, version, kind)
}

/// Checks that a custom resource is of the version of the request.
pub(super) fn check_custom(resource: &Resource, api_version: &str) -> Result<(), DecodeError> {
    if split(api_version) == (&*resource.group, &*resource.version) {
        return Ok(());
    }
    Err(DecodeError::wrong_version(format!(
        "the API version in the data ({api_version}) does not match the expected API version ({})",
        resource.api_version()
    )))
}
