//! The replica sets of a deployment: which one is of its template, what is written in their annotations.

use serde_json::{Map, Value, json};

use super::sizes::{replicas, surge};
use crate::controllers::owned::{number, reference};
use crate::controllers::world::text;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// The label that tells the pods of one template from those of another.
const HASH: &str = "pod-template-hash";
/// What of a deployment's annotations is about the deployment alone.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];
/// How long the list of earlier revisions may be.
const LONGEST_HISTORY: usize = 2000;

/// A replica set of a deployment.
#[derive(Clone, Debug)]
pub(super) struct Set(pub(super) Value);

impl Set {
    pub(super) fn name(&self) -> &str {
        text(&self.0, "/metadata/name")
    }

    pub(super) fn uid(&self) -> &str {
        text(&self.0, "/metadata/uid")
    }

    /// How many pods it wants.
    pub(super) fn replicas(&self) -> i64 {
        number(&self.0, "/spec/replicas")
    }

    /// How many pods its status tells of.
    pub(super) fn count(&self, field: &str) -> i64 {
        self.0["status"][field].as_i64().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][name].as_str()
    }

    pub(super) fn revision(&self) -> i64 {
        let text = self.annotation(REVISION);
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(super) fn revision_text(&self) -> String {
        self.annotation(REVISION).unwrap_or_default().to_owned()
    }

    /// How many pods the deployment wanted when this was written.
    pub(super) fn desired(&self) -> Option<i64> {
        self.annotation(DESIRED)?.parse().ok()
    }

    /// How many pods there could be in all when this was written.
    pub(super) fn most(&self) -> Option<i64> {
        self.annotation(MOST)?.parse().ok()
    }

    /// Older ones come first; names decide between those of the same second.
    pub(super) fn age(&self) -> (String, String) {
        let created = text(&self.0, "/metadata/creationTimestamp").to_owned();
        (created, self.name().to_owned())
    }

    /// Whether it is of the template of a deployment.
    pub(super) fn is_of(&self, deployment: &Value) -> bool {
        template(&self.0) == template(deployment)
    }

    /// Sets an annotation; true if that changes something.
    fn annotate(&mut self, name: &str, value: &str) -> bool {
        let Some(metadata) = self.0["metadata"].as_object_mut() else {
            return false;
        };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        let Some(annotations) = annotations.as_object_mut() else {
            return false;
        };
        annotations.insert(name.to_owned(), value.into()) != Some(value.into())
    }

    /// Takes over what a deployment says of its replica sets; true if that changes something.
    pub(super) fn annotate_revision(&mut self, deployment: &Value, revision: i64) -> bool {
        let mut changed = false;
        let annotations = deployment["metadata"]["annotations"].as_object();
        for (name, value) in annotations.into_iter().flatten() {
            if !OWN.contains(&name.as_str()) {
                changed |= self.annotate(name, value.as_str().unwrap_or_default());
            }
        }
        let old = self.annotation(REVISION).map(str::to_owned);
        if self.revision() < revision {
            changed |= self.annotate(REVISION, &revision.to_string());
            if let Some(old) = old {
                let history = self.annotation(HISTORY).unwrap_or_default();
                let mut list: Vec<&str> = history.split(',').filter(|part| !part.is_empty()).collect();
                list.push(&old);
                while list.len() > 1 && list.join(",").len() > LONGEST_HISTORY {
                    list.remove(0);
                }
                let list = list.join(",");
                changed |= self.annotate(HISTORY, &list);
            }
        }
        changed
    }

    /// Notes the size of the deployment; true if that changes something.
    pub(super) fn annotate_sizes(&mut self, deployment: &Value) -> bool {
        let wanted = replicas(deployment);
        let desired = self.annotate(DESIRED, &wanted.to_string());
        let most = self.annotate(MOST, &(wanted + surge(deployment)).to_string());
        desired || most
    }
}

/// The template without the label that tells it apart.
fn template(of: &Value) -> Value {
    let mut template = of["spec"]["template"].clone();
    if let Some(metadata) = template["metadata"].as_object_mut() {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH);
        }
        metadata.retain(|_, value| !value.is_null() && *value != json!({}));
    }
    template
}

/// The hash of a template: the same for the same template, and another one for each collision.
fn hash(deployment: &Value) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = template(deployment).to_string().into_bytes();
    if let Some(collisions) = deployment["status"]["collisionCount"].as_i64() {
        bytes.extend_from_slice(&collisions.to_le_bytes());
    }
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let digits = hash.to_string();
    digits
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// A replica set for the template of a deployment, not yet of any size.
pub(super) fn new(deployment: &Value) -> Set {
    let hash = hash(deployment);
    let spec = &deployment["spec"];
    let mut template = spec["template"].clone();
    let mut selector = spec["selector"].clone();
    let label = |at: &mut Value, field: &str| {
        if let Some(map) = at.as_object_mut() {
            let labels = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
            labels[HASH] = hash.clone().into();
        }
    };
    if template["metadata"].is_null() {
        template["metadata"] = json!({});
    }
    label(&mut template["metadata"], "labels");
    label(&mut selector, "matchLabels");
    let name = text(deployment, "/metadata/name");
    let most = 253 - 1 - hash.len();
    let prefix: String = name.chars().take(most).collect();
    let mut spec = json!({"replicas": 0, "selector": selector, "template": template});
    if let Some(seconds) = deployment["spec"].get("minReadySeconds") {
        spec["minReadySeconds"] = seconds.clone();
    }
    Set(json!({
        "metadata": {
            "name": format!("{prefix}-{hash}"), "namespace": deployment["metadata"]["namespace"],
            "labels": spec["template"]["metadata"]["labels"], "ownerReferences": [reference(deployment)],
        },
        "spec": spec,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_set_is_of_the_template_that_it_was_made_of() {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "default", "uid": "u"},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}},
            },
        });
        let set = new(&deployment);
        assert!(set.is_of(&deployment));
        assert_eq!(set.name(), new(&deployment).name());
        let hash = set.name().strip_prefix("d-").unwrap();
        assert_eq!(set.0["spec"]["selector"]["matchLabels"][HASH], hash);
        assert_eq!(
            set.0["spec"]["template"]["metadata"]["labels"],
            json!({"app": "x", HASH: hash})
        );
        deployment["status"]["collisionCount"] = 1.into();
        assert_ne!(set.name(), new(&deployment).name());
        deployment["spec"]["template"]["spec"]["hostname"] = "h".into();
        assert!(!set.is_of(&deployment));
    }

    #[test]
    fn revisions_are_remembered() {
        let mut set = Set(json!({"metadata": {}}));
        let deployment = json!({"metadata": {"annotations": {"a": "b", REVISION: "7"}}});
        assert!(set.annotate_revision(&deployment, 1));
        assert!(!set.annotate_revision(&deployment, 1));
        assert!(set.annotate_revision(&deployment, 3));
        assert!(set.annotate_revision(&deployment, 4));
        let expected = json!({"a": "b", REVISION: "4", HISTORY: "1,3"});
        assert_eq!(set.0["metadata"]["annotations"], expected);
    }
}
