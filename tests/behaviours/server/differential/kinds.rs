//! The kinds that the requests are about, each with an object that both servers accept.

use serde_json::{Value, json};

/// A resource.
pub(super) struct Kind {
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    /// `api/v1` or `apis/GROUP/VERSION`.
    pub(super) root: &'static str,
    pub(super) scope: Scope,
    /// What a good object has beside its metadata, as JSON.
    pub(super) body: &'static str,
    /// Whether the body that is stored is compared: not where the real server fills in what the in-memory one does not.
    pub(super) compares_body: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
    /// A definition: its objects are never changed, as the real server works on them in the background.
    Definition,
}

const fn kind(
    root: &'static str,
    plural: &'static str,
    kind: &'static str,
    scope: Scope,
    compares_body: bool,
    body: &'static str,
) -> Kind {
    Kind {
        plural,
        name: kind,
        root,
        scope,
        body,
        compares_body,
    }
}

use Scope::{Cluster, Definition, Namespaced};

pub(super) const KINDS: &[Kind] = &[
    kind(
        "api/v1",
        "configmaps",
        "ConfigMap",
        Namespaced,
        true,
        r#"{"data":{"k":"v"}}"#,
    ),
    kind(
        "apis/{group}/v1",
        "widgets",
        "Widget",
        Namespaced,
        true,
        r#"{"spec":{"x":1,"y":["a",null]},"status":{"z":true}}"#,
    ),
    kind(
        "api/v1",
        "secrets",
        "Secret",
        Namespaced,
        true,
        r#"{"data":{"k":"dg=="},"stringData":{"s":"t"}}"#,
    ),
    kind(
        "api/v1",
        "pods",
        "Pod",
        Namespaced,
        false,
        r#"{"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
    ),
    kind(
        "api/v1",
        "services",
        "Service",
        Namespaced,
        false,
        r#"{"spec":{"ports":[{"port":80}],"selector":{"a":"b"}}}"#,
    ),
    kind(
        "api/v1",
        "serviceaccounts",
        "ServiceAccount",
        Namespaced,
        true,
        r#"{"automountServiceAccountToken":false}"#,
    ),
    kind(
        "api/v1",
        "endpoints",
        "Endpoints",
        Namespaced,
        false,
        r#"{"subsets":[{"addresses":[{"ip":"10.1.1.1"}],"ports":[{"port":80}]}]}"#,
    ),
    kind(
        "api/v1",
        "events",
        "Event",
        Namespaced,
        false,
        r#"{"involvedObject":{"kind":"Pod","namespace":"{ns}","name":"a"},"reason":"r","message":"m","type":"Normal"}"#,
    ),
    kind(
        "api/v1",
        "limitranges",
        "LimitRange",
        Namespaced,
        false,
        r#"{"spec":{"limits":[]}}"#,
    ),
    kind(
        "api/v1",
        "resourcequotas",
        "ResourceQuota",
        Namespaced,
        false,
        r#"{"spec":{"hard":{"example.com/x":"1"}}}"#,
    ),
    kind(
        "apis/apps/v1",
        "deployments",
        "Deployment",
        Namespaced,
        false,
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/batch/v1",
        "jobs",
        "Job",
        Namespaced,
        false,
        r#"{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/coordination.k8s.io/v1",
        "leases",
        "Lease",
        Namespaced,
        true,
        r#"{"spec":{"holderIdentity":"h","renewTime":"2024-01-01T00:00:00.123456Z"}}"#,
    ),
    kind(
        "apis/rbac.authorization.k8s.io/v1",
        "roles",
        "Role",
        Namespaced,
        true,
        r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#,
    ),
    kind("api/v1", "namespaces", "Namespace", Cluster, true, "{}"),
    kind("api/v1", "nodes", "Node", Cluster, false, "{}"),
    kind(
        "apis/rbac.authorization.k8s.io/v1",
        "clusterroles",
        "ClusterRole",
        Cluster,
        true,
        r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#,
    ),
    kind(
        "apis/scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        Cluster,
        true,
        r#"{"value":5,"description":"d"}"#,
    ),
    kind(
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        Definition,
        false,
        r#"{"spec":{"group":"{group}","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    ),
];

impl Kind {
    /// The kind of a resource; none if the path was about none.
    pub(super) fn of(plural: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    pub(super) fn collection(&self) -> String {
        match self.scope {
            Namespaced => format!("/{}/namespaces/{{ns}}/{}", self.root, self.plural),
            Cluster | Definition => format!("/{}/{}", self.root, self.plural),
        }
    }

    /// A name that objects of the kind have in the requests.
    pub(super) fn name(&self, letter: &str) -> String {
        match self.scope {
            Namespaced => letter.to_owned(),
            Cluster => format!("{{run}}-{letter}"),
            Definition if letter == "a" => "widgets.{group}".to_owned(),
            Definition => format!("{letter}s.{{group}}"),
        }
    }

    /// A good object.
    pub(super) fn object(&self, name: &str) -> Value {
        let mut object: Value = serde_json::from_str(self.body).expect("the table holds JSON");
        let version = self.root.strip_prefix("apis/").unwrap_or("v1");
        object["apiVersion"] = version.into();
        object["kind"] = self.name.into();
        object["metadata"] = json!({"name": name, "labels": {"run": "{run}"}});
        object
    }
}
