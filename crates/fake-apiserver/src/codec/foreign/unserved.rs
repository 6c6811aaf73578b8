//! Kinds that the real server knows but does not serve: old versions, and what only other programs send.

/// Group, version and kinds. Each kind but the reviews has a list.
const UNSERVED: &[(&str, &str, &[&str])] = &[
    ("admission.k8s.io", "v1", &["AdmissionReview"]),
    ("admission.k8s.io", "v1beta1", &["AdmissionReview"]),
    (
        "admissionregistration.k8s.io",
        "v1alpha1",
        &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        &[
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ],
    ),
    ("apiextensions.k8s.io", "v1", &["ConversionReview"]),
    (
        "apiextensions.k8s.io",
        "v1beta1",
        &["CustomResourceDefinition", "ConversionReview"],
    ),
    ("apiregistration.k8s.io", "v1beta1", &["APIService"]),
    (
        "apps",
        "v1beta1",
        &[
            "Deployment",
            "DeploymentRollback",
            "Scale",
            "StatefulSet",
            "ControllerRevision",
        ],
    ),
    (
        "apps",
        "v1beta2",
        &[
            "Deployment",
            "Scale",
            "StatefulSet",
            "DaemonSet",
            "ReplicaSet",
            "ControllerRevision",
        ],
    ),
    ("authentication.k8s.io", "v1alpha1", &["SelfSubjectReview"]),
    (
        "authentication.k8s.io",
        "v1beta1",
        &["SelfSubjectReview", "TokenReview"],
    ),
    (
        "authorization.k8s.io",
        "v1beta1",
        &[
            "SelfSubjectRulesReview",
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
            "LocalSubjectAccessReview",
        ],
    ),
    ("batch", "v1beta1", &["CronJob"]),
    ("certificates.k8s.io", "v1alpha1", &["ClusterTrustBundle"]),
    (
        "certificates.k8s.io",
        "v1beta1",
        &[
            "CertificateSigningRequest",
            "ClusterTrustBundle",
            "PodCertificateRequest",
        ],
    ),
    ("coordination.k8s.io", "v1alpha2", &["LeaseCandidate"]),
    ("coordination.k8s.io", "v1beta1", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", "v1beta1", &["EndpointSlice"]),
    ("events.k8s.io", "v1beta1", &["Event"]),
    (
        "extensions",
        "v1beta1",
        &[
            "Deployment",
            "DeploymentRollback",
            "Scale",
            "DaemonSet",
            "Ingress",
            "ReplicaSet",
            "NetworkPolicy",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta1",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta2",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1beta3",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    ("imagepolicy.k8s.io", "v1alpha1", &["ImageReview"]),
    ("internal.apiserver.k8s.io", "v1alpha1", &["StorageVersion"]),
    ("lifecycle.k8s.io", "v1alpha1", &["Eviction", "EvictionRequest"]),
    (
        "networking.k8s.io",
        "v1beta1",
        &["Ingress", "IngressClass", "IPAddress", "ServiceCIDR"],
    ),
    ("node.k8s.io", "v1alpha1", &["RuntimeClass"]),
    ("node.k8s.io", "v1beta1", &["RuntimeClass"]),
    ("policy", "v1beta1", &["PodDisruptionBudget", "Eviction"]),
    (
        "rbac.authorization.k8s.io",
        "v1alpha1",
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "rbac.authorization.k8s.io",
        "v1beta1",
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "resource.k8s.io",
        "v1alpha3",
        &["DeviceTaintRule", "ResourcePoolStatusRequest"],
    ),
    (
        "resource.k8s.io",
        "v1beta1",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
    ),
    (
        "resource.k8s.io",
        "v1beta2",
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
    ),
    (
        "scheduling.k8s.io",
        "v1alpha3",
        &["Workload", "PodGroup", "CompositePodGroup"],
    ),
    (
        "scheduling.k8s.io",
        "v1beta1",
        &["PriorityClass", "Workload", "PodGroup"],
    ),
    (
        "storage.k8s.io",
        "v1alpha1",
        &["VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"],
    ),
    (
        "storage.k8s.io",
        "v1beta1",
        &[
            "StorageClass",
            "VolumeAttachment",
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", "v1beta1", &["StorageVersionMigration"]),
];

/// Whether a kind is one of these.
pub(super) fn is_known(group: &str, version: &str, kind: &str) -> bool {
    UNSERVED
        .iter()
        .any(|row| (row.0, row.1) == (group, version) && row.2.contains(&kind))
}

/// The group in which the kind of an old group is served now.
pub(super) fn group_of<'g>(group: &'g str, kind: &str) -> &'g str {
    match (group, kind) {
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        ("extensions", _) => "apps",
        (group, _) => group,
    }
}
