//! A custom resource definition as the watcher keeps it: names, served versions, whether it is established. The schemas
//! are skipped while decoding, and so is the annotation in which kubectl keeps a copy of the whole object.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::object::{Metadata, Object, Scope};

/// What kubectl applies is as large as the whole definition.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A custom resource definition without its schemas.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Definition {
    pub(super) metadata: Meta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: Box<str>,
    #[serde(default)]
    pub(super) uid: Box<str>,
    #[serde(default)]
    resource_version: Box<str>,
    #[serde(default, deserialize_with = "annotations")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Version {
    name: Box<str>,
    served: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
}

impl Definition {
    /// The full name, `plural.group`.
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the server has accepted the names and serves this version.
    pub(super) fn serves(&self, version: &str) -> bool {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        let established = conditions
            .iter()
            .any(|condition| &*condition.kind == "Established" && &*condition.status == "True");
        established
            && self
                .spec
                .versions
                .iter()
                .any(|served| served.served && &*served.name == version)
    }

    /// Whether both say the same of what is served.
    pub(super) fn serves_the_same(&self, other: &Definition) -> bool {
        self.metadata.uid == other.metadata.uid
            && self.spec == other.spec
            && self.status.conditions == other.status.conditions
    }
}

impl Object for Definition {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<CustomResourceDefinition>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Cluster
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            ..Metadata::default()
        }
    }
}

/// All annotations but the one that holds a copy of the object.
fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct Small;

    impl<'de> Visitor<'de> for Small {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of annotations")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut annotations = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if key == LAST_APPLIED {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    annotations.insert(key, map.next_value()?);
                }
            }
            Ok(annotations)
        }
    }

    deserializer.deserialize_any(Small)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The definition of `name`, which serves these versions.
    pub(in crate::crd) fn definition(name: &str, uid: &str, served: &[&str], established: bool) -> Definition {
        serde_json::from_value(document(name, uid, served, established)).unwrap()
    }

    pub(in crate::crd) fn document(name: &str, uid: &str, served: &[&str], established: bool) -> Value {
        let (plural, group) = name.split_once('.').unwrap();
        let schema = json!({"openAPIV3Schema": {"type": "object", "description": "long ".repeat(1000)}});
        let versions: Vec<Value> = served
            .iter()
            .map(|version| json!({"name": version, "served": true, "storage": false, "schema": schema}))
            .chain([json!({"name": "v0", "served": false, "storage": true, "schema": schema})])
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": name, "uid": uid, "resourceVersion": "1",
                "annotations": {LAST_APPLIED: "x".repeat(5000), "version": "1.0.0"},
            },
            "spec": {"group": group, "names": {"plural": plural, "kind": "X"}, "scope": "Cluster", "versions": versions},
            "status": {"conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": if established { "True" } else { "False" }},
            ]},
        })
    }

    // [I30] a version counts only if it is served and the definition is established
    #[test]
    fn versions_count_when_served_and_established() {
        let ready = definition("widgets.x.io", "u", &["v1"], true);
        assert!(ready.serves("v1") && !ready.serves("v0") && !ready.serves("v2"));
        assert!(!definition("widgets.x.io", "u", &["v1"], false).serves("v1"));
        let mut young = document("widgets.x.io", "u", &["v1"], true);
        young["status"] = json!({});
        assert!(
            !serde_json::from_value::<Definition>(young.clone())
                .unwrap()
                .serves("v1")
        );
        young.as_object_mut().unwrap().remove("status");
        assert!(!serde_json::from_value::<Definition>(young).unwrap().serves("v1"));
    }

    #[test]
    fn schemas_and_copies_are_not_kept() {
        let kept = definition("widgets.x.io", "u", &["v1", "v2"], true);
        assert_eq!(kept.metadata.annotations.keys().collect::<Vec<_>>(), ["version"]);
        assert!(format!("{kept:?}").len() < 1000, "{kept:?}");
    }
}
