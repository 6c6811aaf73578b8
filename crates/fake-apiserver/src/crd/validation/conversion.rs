//! How the versions of a kind are converted.

use serde::Deserialize;

use super::{Errors, nullable};
use crate::json::write::quoted;
use crate::validation::{label_1035_errors, subdomain_errors};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Conversion {
    strategy: String,
    webhook: Option<Webhook>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Webhook {
    client_config: Option<ClientConfig>,
    #[serde(deserialize_with = "nullable")]
    conversion_review_versions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientConfig {
    url: Option<String>,
    service: Option<Service>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    name: String,
    namespace: String,
    path: Option<String>,
    port: Option<i32>,
}

const FIELD: &str = "spec.conversion";
/// Versions of the question that the server puts to a webhook.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// What is wrong with a conversion. Texts name the fields of the real server's own form.
pub(super) fn validate(conversion: Option<&Conversion>, preserves: bool, errors: &mut Errors) {
    let Some(conversion) = conversion else { return };
    let strategy = format!("{FIELD}.strategy");
    if preserves && conversion.strategy != "None" {
        let text = "must be None if spec.preserveUnknownFields is true";
        errors.raw(&strategy, quoted(&conversion.strategy), text);
    }
    errors.one_of(&strategy, &conversion.strategy, ["None", "Webhook"]);
    let config = conversion
        .webhook
        .as_ref()
        .and_then(|webhook| webhook.client_config.as_ref());
    let reviews = conversion
        .webhook
        .as_ref()
        .map_or(&[][..], |webhook| &webhook.conversion_review_versions);
    let of_config = format!("{FIELD}.webhookClientConfig");
    let of_reviews = format!("{FIELD}.conversionReviewVersions");
    if conversion.strategy != "Webhook" {
        let text = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.forbidden(&of_config, text);
        }
        if !reviews.is_empty() {
            errors.forbidden(&of_reviews, text);
        }
        return;
    }
    match config {
        None => errors.required(&of_config, "required when strategy is set to Webhook"),
        Some(config) => match (&config.url, &config.service) {
            (Some(url), None) => self::url(url, &format!("{of_config}.url"), errors),
            (None, Some(service)) => self::service(service, &format!("{of_config}.service"), errors),
            _ => errors.required(&of_config, "exactly one of url or service is required"),
        },
    }
    review_versions(reviews, &of_reviews, errors);
}

fn review_versions(versions: &[String], field: &str, errors: &mut Errors) {
    if versions.is_empty() {
        return errors.required(field, "");
    }
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if versions[..index].contains(version) {
            errors.invalid(&field, version, "duplicate version");
            continue;
        }
        for text in label_1035_errors(version) {
            errors.invalid(&field, version, &text);
        }
    }
    if !versions.iter().any(|version| REVIEWS.contains(&version.as_str())) {
        let all: Vec<String> = versions.iter().map(|version| quoted(version)).collect();
        let text = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.raw(field, format!("[{}]", all.join(",")), &text);
    }
}

fn url(url: &str, field: &str, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let (scheme, rest) = rest
        .split_once(':')
        .filter(|(scheme, _)| scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(good))
        .unwrap_or(("", rest));
    let scheme = scheme.to_lowercase();
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        errors.invalid(field, &scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errors.invalid(field, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(field, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(field, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(field, query, "query parameters are not permitted in the URL");
    }
}

fn service(service: &Service, field: &str, errors: &mut Errors) {
    // The real server has the two mixed up.
    if service.namespace.is_empty() {
        errors.required(format!("{field}.name"), "");
    }
    if service.name.is_empty() {
        errors.required(format!("{field}.namespace"), "");
    }
    let port = service.port.unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let text = "port is not valid: must be between 1 and 65535, inclusive";
        errors.raw(format!("{field}.port"), port.to_string(), text);
    }
    let Some(path) = service.path.as_deref().filter(|path| !matches!(*path, "" | "/")) else {
        return;
    };
    let field = format!("{field}.path");
    if path == "//" {
        return errors.invalid(&field, path, "segment[0] may not be empty");
    }
    if !path.starts_with('/') {
        errors.invalid(&field, path, "must start with a '/'");
    }
    // The first byte is left out whatever it is; what is no text then has no good segment either.
    let rest = path.get(1..).unwrap_or_default();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&field, path, format!("segment[{index}] may not be empty"));
            continue;
        }
        for text in subdomain_errors(step) {
            errors.invalid(&field, path, format!("segment[{index}]: {text}"));
        }
    }
}
