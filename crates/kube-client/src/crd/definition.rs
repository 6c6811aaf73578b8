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
    #[serde(default)]
    scope: Box<str>,
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
    // For people.
    #[serde(default)]
    message: Option<Box<str>>,
}

impl Definition {
    /// The full name, `plural.group`.
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the server has accepted the names and serves this version.
    pub(super) fn serves(&self, version: &str) -> bool {
        self.is("Established") && self.served().any(|served| served == version)
    }

    /// Whether its objects live in namespaces. Never changes while the uid stays.
    pub(super) fn scope(&self) -> Scope {
        match &*self.spec.scope {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            _ => Scope::Unknown,
        }
    }

    /// Why it does not serve a version, for people; `None` if it does.
    pub(super) fn why_not(&self, version: &str) -> Option<String> {
        if !self.is("Established") {
            // The server establishes what has got its names.
            let refusal = self
                .condition("NamesAccepted")
                .filter(|names| &*names.status == "False");
            let message = refusal.and_then(|names| names.message.as_deref());
            return Some(match message.filter(|message| !message.is_empty()) {
                Some(message) => {
                    format!("its definition is not established, since its names are not accepted: {message}")
                }
                None => "its definition is not established yet".to_owned(),
            });
        }
        if self.served().any(|served| served == version) {
            return None;
        }
        let served: Vec<&str> = self.served().collect();
        Some(if served.is_empty() {
            "its definition serves no version".to_owned()
        } else {
            format!("its definition serves {}, not {version}", served.join(", "))
        })
    }

    fn served(&self) -> impl Iterator<Item = &str> {
        self.spec
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| &*version.name)
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        conditions.iter().find(|condition| &*condition.kind == kind)
    }

    fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|known| &*known.status == "True")
    }

    /// Whether both say the same of what is served.
    pub(super) fn serves_the_same(&self, other: &Definition) -> bool {
        self.metadata.uid == other.metadata.uid
            && self.spec == other.spec
            && self.is("Established") == other.is("Established")
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
            "spec": {"group": group, "names": {"plural": plural, "kind": "X"}, "scope": "Namespaced", "versions": versions},
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
        let young = serde_json::from_value::<Definition>(young).unwrap();
        assert!(!young.serves("v1"));
        assert_eq!(young.why_not("v1").unwrap(), "its definition is not established yet");
    }

    // [D2] what keeps a kind from being served is said in words
    #[test]
    fn reasons_name_what_is_missing() {
        let ready = definition("widgets.x.io", "u", &["v1", "v2"], true);
        assert_eq!(ready.why_not("v2"), None);
        assert_eq!(ready.why_not("v3").unwrap(), "its definition serves v1, v2, not v3");
        let none = definition("widgets.x.io", "u", &[], true);
        assert_eq!(none.why_not("v1").unwrap(), "its definition serves no version");
        let mut taken = document("widgets.x.io", "u", &["v1"], false);
        taken["status"]["conditions"][0] =
            json!({"type": "NamesAccepted", "status": "False", "message": "\"X\" is already in use"});
        let taken: Definition = serde_json::from_value(taken).unwrap();
        assert_eq!(
            taken.why_not("v1").unwrap(),
            "its definition is not established, since its names are not accepted: \"X\" is already in use"
        );
        assert_eq!(ready.scope(), Scope::Namespaced);
    }

    #[test]
    fn schemas_and_copies_are_not_kept() {
        let kept = definition("widgets.x.io", "u", &["v1", "v2"], true);
        assert_eq!(kept.metadata.annotations.keys().collect::<Vec<_>>(), ["version"]);
        assert!(format!("{kept:?}").len() < 1000, "{kept:?}");
    }
}
