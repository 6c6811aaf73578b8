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
    /// Whether tables are compared: not of kinds of which the in-memory server shows a name and an age.
    pub(super) has_columns: bool,
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
    has_columns: bool,
    body: &'static str,
) -> Kind {
    Kind {
        plural,
        name: kind,
        root,
        scope,
        body,
        has_columns,
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
    // Custom, too: in the cluster, with a status, fields to select by, and old versions.
    kind(
        "apis/{group}/v1",
        "gizmos",
        "Gizmo",
        Cluster,
        true,
        r#"{"spec":{"color":"red","size":1},"status":{"z":true}}"#,
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
        true,
        r#"{"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
    ),
    kind(
        "api/v1",
        "services",
        "Service",
        Namespaced,
        true,
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
        true,
        r#"{"subsets":[{"addresses":[{"ip":"10.1.1.1"}],"ports":[{"port":80}]}]}"#,
    ),
    kind(
        "api/v1",
        "events",
        "Event",
        Namespaced,
        true,
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
        true,
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/batch/v1",
        "jobs",
        "Job",
        Namespaced,
        true,
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
    kind("api/v1", "nodes", "Node", Cluster, true, "{}"),
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
        "apis/apps/v1",
        "statefulsets",
        "StatefulSet",
        Namespaced,
        true,
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"serviceName":"s","template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/apps/v1",
        "daemonsets",
        "DaemonSet",
        Namespaced,
        true,
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/apps/v1",
        "replicasets",
        "ReplicaSet",
        Namespaced,
        true,
        r#"{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "apis/apps/v1",
        "controllerrevisions",
        "ControllerRevision",
        Namespaced,
        true,
        r#"{"data":{"a":1},"revision":1}"#,
    ),
    kind(
        "api/v1",
        "replicationcontrollers",
        "ReplicationController",
        Namespaced,
        true,
        r#"{"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    kind(
        "api/v1",
        "podtemplates",
        "PodTemplate",
        Namespaced,
        false,
        r#"{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}"#,
    ),
    kind(
        "api/v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        Namespaced,
        true,
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#,
    ),
    kind(
        "apis/batch/v1",
        "cronjobs",
        "CronJob",
        Namespaced,
        true,
        r#"{"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
    ),
    kind(
        "apis/networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        Namespaced,
        true,
        r#"{"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}"#,
    ),
    kind(
        "apis/networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        Namespaced,
        true,
        r#"{"spec":{"podSelector":{"matchLabels":{"a":"b"}},"policyTypes":["Ingress"]}}"#,
    ),
    kind(
        "apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        Namespaced,
        true,
        r#"{"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#,
    ),
    kind(
        "apis/autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        Namespaced,
        false,
        r#"{"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}"#,
    ),
    kind(
        "apis/discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        Namespaced,
        false,
        r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.1.1.1"]}],"ports":[{"port":80}]}"#,
    ),
    kind(
        "apis/events.k8s.io/v1",
        "events",
        "Event",
        Namespaced,
        true,
        r#"{"eventTime":"2024-01-01T00:00:00.000000Z","reportingController":"x.io/y","reportingInstance":"i","action":"a","reason":"r","type":"Normal","regarding":{"kind":"Pod","namespace":"{ns}","name":"a"}}"#,
    ),
    kind(
        "apis/rbac.authorization.k8s.io/v1",
        "rolebindings",
        "RoleBinding",
        Namespaced,
        true,
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}]}"#,
    ),
    kind(
        "apis/resource.k8s.io/v1",
        "resourceclaims",
        "ResourceClaim",
        Namespaced,
        false,
        r#"{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c.io"}}]}}}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        Namespaced,
        false,
        r#"{"storageClassName":"s","capacity":"1Gi"}"#,
    ),
    kind(
        "api/v1",
        "persistentvolumes",
        "PersistentVolume",
        Cluster,
        true,
        r#"{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}"#,
    ),
    kind(
        "apis/rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        Cluster,
        true,
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"a"},"subjects":[]}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        Cluster,
        true,
        r#"{"provisioner":"x.io/y"}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "csidrivers",
        "CSIDriver",
        Cluster,
        false,
        r#"{"spec":{}}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "csinodes",
        "CSINode",
        Cluster,
        false,
        r#"{"spec":{"drivers":[]}}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "volumeattachments",
        "VolumeAttachment",
        Cluster,
        false,
        r#"{"spec":{"attacher":"x.io","nodeName":"n","source":{"persistentVolumeName":"p"}}}"#,
    ),
    kind(
        "apis/storage.k8s.io/v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        Cluster,
        false,
        r#"{"driverName":"x.io","parameters":{"a":"b"}}"#,
    ),
    kind(
        "apis/networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        Cluster,
        false,
        r#"{"spec":{"controller":"x.io/y"}}"#,
    ),
    kind(
        "apis/node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        Cluster,
        false,
        r#"{"handler":"h"}"#,
    ),
    kind(
        "apis/resource.k8s.io/v1",
        "deviceclasses",
        "DeviceClass",
        Cluster,
        true,
        r#"{"spec":{}}"#,
    ),
    kind(
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        Cluster,
        false,
        r#"{"webhooks":[]}"#,
    ),
    kind(
        "apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        Cluster,
        false,
        r#"{"webhooks":[]}"#,
    ),
    kind(
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        Definition,
        true,
        r#"{"spec":{"group":"{group}","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    ),
];

/// The specs of the definitions of the custom kinds, beside the group.
pub(super) fn definitions() -> [Value; 2] {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let colored = json!({"openAPIV3Schema": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"color": {"type": "string"}},
        }},
    }});
    let mut versions = [("v1", true), ("v2", false), ("v1beta1", false)].map(|(name, stored)| {
        json!({
            "name": name, "served": true, "storage": stored, "schema": colored, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    });
    versions[1]["deprecated"] = true.into();
    versions[2]["deprecated"] = true.into();
    [
        json!({
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        }),
        json!({
            "scope": "Cluster",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": versions,
        }),
    ]
}

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
