//! The default values that users notice: of pods, and of the workloads that hold a pod template.
//!
//! Only what every client sees is filled in; the rest is in the table of what this server does not do. Defaults come
//! before the comparison with what is stored, so that writing an object back without them changes nothing.

use serde_json::{Map, Value, json};

use crate::codec::{ContentType, FieldValidation, decode};
use crate::kinds::Resource;
use crate::object::Object;

type Fields = Map<String, Value>;

/// Fills in a pod: its own fields and its containers' fields.
pub(crate) fn pod(resource: &Resource, object: &mut Object) {
    change_spec(resource, object, |spec| {
        pod_spec(spec);
        default(spec, "enableServiceLinks", true);
    });
}

/// Fills in what admission adds to a pod.
pub(crate) fn admit_pod(resource: &Resource, object: &mut Object) {
    change_spec(resource, object, |spec| {
        default(spec, "priority", 0);
        default(spec, "preemptionPolicy", "PreemptLowerPriority");
        tolerations(spec);
    });
}

/// Fills in a Deployment and its pod template.
pub(crate) fn deployment(resource: &Resource, object: &mut Object) {
    change_spec(resource, object, |spec| {
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
        if let Some(strategy) = child(spec, "strategy") {
            default(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = child(strategy, "rollingUpdate")
            {
                default(rolling, "maxSurge", "25%");
                default(rolling, "maxUnavailable", "25%");
            }
        }
        template(spec);
    });
}

/// Fills in a `ReplicaSet` and its pod template.
pub(crate) fn replica_set(resource: &Resource, object: &mut Object) {
    change_spec(resource, object, |spec| {
        default(spec, "replicas", 1);
        template(spec);
    });
}

/// Fills in which directions a network policy is about.
pub(crate) fn network_policy(resource: &Resource, object: &mut Object) {
    change_spec(resource, object, |spec| {
        let some = |name: &str| {
            spec.get(name)
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty())
        };
        let types: &[&str] = if some("egress") {
            &["Ingress", "Egress"]
        } else {
            &["Ingress"]
        };
        if !some("policyTypes") {
            spec.insert("policyTypes".to_owned(), json!(types));
        }
    });
}

/// Changes `spec` and puts it back in Go's form. An object without one is left to validation.
fn change_spec(resource: &Resource, object: &mut Object, change: impl FnOnce(&mut Fields)) {
    let spec = object
        .field("spec")
        .and_then(|bytes| serde_json::from_slice(bytes).ok());
    let Some(Value::Object(before)) = spec else { return };
    let mut spec = before.clone();
    change(&mut spec);
    if spec == before {
        return;
    }
    let body = json!({ "spec": spec }).to_string();
    // A decoded object with more fields of the same kind can be decoded; if not, it stays as the client sent it.
    if let Ok(decoded) = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore)
        && let Some(spec) = decoded.object.field("spec")
    {
        object.set_field("spec", spec.clone());
    }
}

fn default(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The object in a field, made if it is absent.
fn child<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    default(fields, name, Fields::new());
    fields.get_mut(name).and_then(Value::as_object_mut)
}

fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn template(spec: &mut Fields) {
    let template = spec.get_mut("template").and_then(Value::as_object_mut);
    if let Some(spec) = template.and_then(|template| template.get_mut("spec"))
        && let Some(spec) = spec.as_object_mut()
    {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Fields) {
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", Fields::new());
    for containers in ["initContainers", "containers"] {
        for container in items(spec, containers) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = pull_policy(image);
            default(container, "imagePullPolicy", policy);
            default(container, "terminationMessagePath", "/dev/termination-log");
            default(container, "terminationMessagePolicy", "File");
            for port in items(container, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }
}

/// An image that may change under its name is always pulled.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// A pod stays for five minutes on a node that is not well, unless it says otherwise.
fn tolerations(spec: &mut Fields) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "tolerations").any(|toleration| {
            let field = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("key").is_empty() || field("key") == key) && matches!(field("effect"), "" | "NoExecute")
        });
        if !tolerated {
            default(spec, "tolerations", Vec::<Value>::new());
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            if let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
                list.push(toleration);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pulled_always_unless_its_tag_or_digest_is_fixed() {
        for image in ["i", "i:latest", "host:5000/i", "host:5000/a/i:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["i:1", "host:5000/i:1.2", "i@sha256:0", "i:latest@sha256:0"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn own_values_and_tolerations_stay() {
        let mut spec = Fields::new();
        spec.insert("restartPolicy".to_owned(), "Never".into());
        spec.insert("tolerations".to_owned(), json!([{"operator": "Exists"}]));
        pod_spec(&mut spec);
        tolerations(&mut spec);
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["dnsPolicy"], "ClusterFirst");
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
    }
}
