//! The label selectors of the built-in kinds, and how a selector of the API becomes one of this crate.
//!
//! | kind | absent | empty |
//! | --- | --- | --- |
//! | `Service`, `ReplicationController` | nothing | everything; nothing by [`selecting_non_empty`](crate::Query::selecting_non_empty), which is what they mean |
//! | `NetworkPolicy` | everything: the API defines it as empty | everything |
//! | `PodDisruptionBudget`, `Job` | nothing | everything |
//! | `Deployment`, `ReplicaSet`, `StatefulSet`, `DaemonSet` | nothing | nothing: the server accepts none |
//!
//! A service of type `ExternalName` selects nothing: its selector is ignored.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use ::kube::core::{Expression, Selector};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, LabelSelectorRequirement};
use kube_client::check_labels;

use crate::selector::{LabelSelector, Requirement, SelectorRef};
use crate::sync::Mutex;
use crate::traits::{Keyed, Selecting};

/// The label selector of an object, for an impl of [`Selecting`].
///
/// An absent one selects nothing, an empty one everything. One that the API server would not understand (an unknown operator, values
/// that are missing or too many, what cannot be a label) selects nothing, and is logged with the object's key.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
/// use krt::kube::selector_of;
/// use krt::{Selecting, SelectorRef};
///
/// #[derive(Debug, Clone, serde::Deserialize, kube::Resource)]
/// #[resource(inherit = k8s_openapi::api::core::v1::ConfigMap)] // stands for a kind of yours
/// struct Policy {
///     metadata: ObjectMeta,
///     selector: Option<LabelSelector>,
/// }
///
/// impl Selecting for Policy {
///     fn selector(&self) -> SelectorRef<'_> {
///         selector_of(self, self.selector.as_ref())
///     }
/// }
/// ```
///
/// # Cost
///
/// Labels are borrowed. A selector with expressions is checked and converted at each call.
pub fn selector_of<'a, K: Keyed>(object: &K, selector: Option<&'a ApiSelector>) -> SelectorRef<'a> {
    let Some(selector) = selector else {
        return SelectorRef::Nothing;
    };
    parse(selector).unwrap_or_else(|reason| {
        let kind = std::any::type_name::<K>();
        if REPORTED.is_new((kind, object.key().to_string(), &reason)) {
            tracing::warn!(kind, key = %object.key(), reason, "a label selector that cannot be understood selects nothing");
        }
        SelectorRef::Nothing
    })
}

fn parse(selector: &ApiSelector) -> Result<SelectorRef<'_>, String> {
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    if expressions.is_empty() {
        return Ok(selector
            .match_labels
            .as_ref()
            .map_or(SelectorRef::Everything, SelectorRef::Equals));
    }
    let expressions: Result<_, String> = expressions.iter().map(requirement).collect();
    Ok(SelectorRef::Expr(Cow::Owned(LabelSelector {
        match_labels: selector.match_labels.clone().unwrap_or_default(),
        match_expressions: expressions?,
    })))
}

/// One expression, by the rules of the API server.
fn requirement(expression: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let key = || expression.key.clone();
    let values = expression.values.as_deref().unwrap_or_default();
    let set = || values.iter().cloned().collect();
    let (requirement, checked) = match &*expression.operator {
        "In" => (Requirement::In(key(), values.to_vec()), Expression::In(key(), set())),
        "NotIn" => (
            Requirement::NotIn(key(), values.to_vec()),
            Expression::NotIn(key(), set()),
        ),
        "Exists" => (Requirement::Exists(key()), Expression::Exists(key())),
        "DoesNotExist" => (Requirement::DoesNotExist(key()), Expression::DoesNotExist(key())),
        other => return Err(format!("{other:?} is no operator")),
    };
    if matches!(requirement, Requirement::Exists(_) | Requirement::DoesNotExist(_)) && !values.is_empty() {
        return Err(format!("`{}` takes no values", expression.operator));
    }
    check_labels(&Selector::from(checked)).map_err(|error| error.to_string())?;
    Ok(requirement)
}

/// What was logged already: a selector is looked at again and again.
struct Reported {
    hasher: RandomState,
    /// Hashes, so that it stays small; in the worst case one is logged less.
    known: Mutex<HashSet<u64>>,
}

static REPORTED: LazyLock<Reported> = LazyLock::new(|| Reported {
    hasher: RandomState::new(),
    known: Mutex::default(),
});

impl Reported {
    /// More than so many are forgotten, and would be logged again.
    const MOST: usize = 1024;

    fn is_new(&self, what: impl std::hash::Hash) -> bool {
        let hash = self.hasher.hash_one(what);
        let mut known = self.known.lock();
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(hash)
    }
}

fn map(selector: Option<&BTreeMap<String, String>>) -> SelectorRef<'_> {
    selector.map_or(SelectorRef::Nothing, SelectorRef::Equals)
}

impl Selecting for Service {
    fn selector(&self) -> SelectorRef<'_> {
        let spec = self.spec.as_ref();
        let spec = spec.filter(|spec| spec.type_.as_deref() != Some("ExternalName"));
        map(spec.and_then(|spec| spec.selector.as_ref()))
    }
}

impl Selecting for ReplicationController {
    fn selector(&self) -> SelectorRef<'_> {
        map(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }
}

impl Selecting for NetworkPolicy {
    fn selector(&self) -> SelectorRef<'_> {
        match &self.spec {
            Some(spec) if spec.pod_selector.is_none() => SelectorRef::Everything,
            spec => selector_of(self, spec.as_ref().and_then(|spec| spec.pod_selector.as_ref())),
        }
    }
}

impl Selecting for PodDisruptionBudget {
    fn selector(&self) -> SelectorRef<'_> {
        selector_of(self, self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }
}

impl Selecting for Job {
    fn selector(&self) -> SelectorRef<'_> {
        selector_of(self, self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }
}

// An absent selector is decoded as an empty one, which the server accepts of none of them.
macro_rules! workloads {
    ($($kind:ty),+) => {$(
        impl Selecting for $kind {
            fn selector(&self) -> SelectorRef<'_> {
                let selector = &self.spec.selector;
                let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
                    && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
                selector_of(self, (!is_empty).then_some(selector))
            }
        }
    )+};
}

workloads!(Deployment, ReplicaSet, StatefulSet, DaemonSet);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    fn of(selector: Value) -> ApiSelector {
        serde_json::from_value(selector).unwrap()
    }

    /// Whether it matches no labels, app=web, and app=db with a tier.
    fn matched(selector: &SelectorRef<'_>) -> [bool; 3] {
        let pairs: [&[(&str, &str)]; 3] = [&[], &[("app", "web")], &[("app", "db"), ("tier", "back")]];
        pairs.map(|pairs| {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            selector.matches(&owned.collect())
        })
    }

    // [K35] expressions, empty selectors, and those that the API server does not understand
    #[test]
    fn selectors_of_the_api_match_as_the_api_server_does() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        let cases = [
            (json!({}), [true; 3]),
            (json!({"matchLabels": {}}), [true; 3]),
            (json!({"matchLabels": {"app": "web"}}), [false, true, false]),
            (expression("In", &["web", "x"]), [false, true, false]),
            (expression("NotIn", &["web"]), [true, false, true]),
            (expression("Exists", &[]), [false, true, true]),
            (expression("DoesNotExist", &[]), [true, false, false]),
            (
                json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                [false, false, true],
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(matched(&parse(&of(selector.clone())).unwrap()), expected, "{selector}");
        }
        let bad_key = json!({"matchExpressions": [{"key": "a b", "operator": "DoesNotExist"}]});
        let refused = [
            (expression("In", &[]), "it needs values"),
            (expression("NotIn", &[]), "it needs values"),
            (expression("Exists", &["x"]), "takes no values"),
            (expression("DoesNotExist", &["x"]), "takes no values"),
            (expression("Equals", &["x"]), "\"Equals\" is no operator"),
            (expression("NotIn", &["a b"]), "cannot be the value of a label"),
            (bad_key, "cannot be the key of a label"),
        ];
        for (selector, reason) in refused {
            let error = parse(&of(selector.clone())).unwrap_err();
            assert!(error.contains(reason), "{selector}: {error}");
            let selector = of(selector);
            let selected = selector_of(&ConfigMap::default(), Some(&selector));
            assert!(matches!(selected, SelectorRef::Nothing) && !selected.is_empty());
        }
    }

    #[test]
    fn a_bad_selector_is_reported_once() {
        let reported = Reported {
            hasher: RandomState::new(),
            known: Mutex::default(),
        };
        assert!(reported.is_new("a") && reported.is_new("b") && !reported.is_new("a"));
        for other in 0..Reported::MOST {
            reported.is_new(other);
        }
        assert!(reported.is_new("a"), "forgotten, so that it does not grow");
        assert!(reported.known.lock().len() <= Reported::MOST);
    }

    fn selected<K: Selecting + serde::de::DeserializeOwned>(spec: Value) -> [bool; 3] {
        let object: K = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        matched(&object.selector())
    }

    // [K35] each built-in kind: its selector, an absent one, none at all
    #[test]
    fn built_in_kinds_lend_their_selectors() {
        let (none, all, web) = ([false; 3], [true; 3], [false, true, false]);
        let labels = json!({"app": "web"});
        assert_eq!(selected::<Service>(json!({"selector": labels})), web);
        assert_eq!(selected::<Service>(json!({"ports": []})), none);
        let external = json!({"selector": labels, "type": "ExternalName"});
        assert_eq!(selected::<Service>(external), none, "it is ignored");
        assert_eq!(selected::<ReplicationController>(json!({"selector": labels})), web);
        let policy = |selector: Value| json!({"podSelector": selector});
        assert_eq!(selected::<NetworkPolicy>(policy(json!({"matchLabels": labels}))), web);
        assert_eq!(selected::<NetworkPolicy>(policy(json!({}))), all);
        assert_eq!(selected::<NetworkPolicy>(json!({})), all, "absent is defined as empty");
        let with = json!({"selector": {"matchLabels": labels}, "template": {}});
        for selected in [
            selected::<PodDisruptionBudget>(with.clone()),
            selected::<Job>(with.clone()),
            selected::<Deployment>(with.clone()),
            selected::<ReplicaSet>(with.clone()),
            selected::<DaemonSet>(with.clone()),
            selected::<StatefulSet>(with),
        ] {
            assert_eq!(selected, web);
        }
        assert_eq!(selected::<PodDisruptionBudget>(json!({"selector": {}})), all);
        assert_eq!(selected::<PodDisruptionBudget>(json!({})), none);
        assert_eq!(selected::<Job>(json!({"template": {}})), none);
        for nothing in [
            matched(&Service::default().selector()),
            matched(&NetworkPolicy::default().selector()),
            matched(&Deployment::default().selector()),
        ] {
            assert_eq!(nothing, none, "an object without a spec");
        }
    }
}
