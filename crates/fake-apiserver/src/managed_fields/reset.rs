//! Which fields a write never changes, whatever it sends: its manager does not come to own them.

use std::sync::LazyLock;

use crate::kinds::Resource;
use crate::structured::{Set, of_paths};

/// Fields that nobody owns.
static NOBODYS: LazyLock<Set<'static>> = LazyLock::new(|| {
    of_paths(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The set without the fields that nobody owns.
pub(super) fn owned(set: Set<'_>) -> Set<'_> {
    set.difference(&NOBODYS)
}

/// Kinds whose fields are not the usual ones: group, plural, subresource, paths.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static [&'static str]],
);

const EXCEPTIONS: &[Row] = &[
    (
        "",
        "pods",
        "status",
        &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
    ),
    ("", "namespaces", "finalize", &[&["status"]]),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "status",
        &[&["metadata"], &["spec"]],
    ),
    ("apps", "deployments", "status", &[&["spec"], &["metadata", "labels"]]),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "",
        &[&["spec"], &["status"]],
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "status",
        &[&["spec"], &["status", "conditions"]],
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "approval",
        &[&["spec"], &["status", "certificate"]],
    ),
];

/// The sets of most kinds, made once.
static STATUS: LazyLock<Set<'static>> = LazyLock::new(|| of_paths(&[&["status"]]));
static SPEC: LazyLock<Set<'static>> = LazyLock::new(|| of_paths(&[&["spec"]]));
static SPEC_AND_METADATA: LazyLock<Set<'static>> = LazyLock::new(|| of_paths(&[&["metadata"], &["spec"]]));
static NOTHING: LazyLock<Set<'static>> = LazyLock::new(Set::default);
static OF_EXCEPTIONS: LazyLock<Vec<Set<'static>>> =
    LazyLock::new(|| EXCEPTIONS.iter().map(|row| of_paths(row.3)).collect());

/// The fields that a write of the subresource (empty for the main resource) never changes.
pub(super) fn fields(resource: &Resource, subresource: &str) -> &'static Set<'static> {
    let name = (&*resource.group, &*resource.plural, subresource);
    if let Some(at) = EXCEPTIONS.iter().position(|row| (row.0, row.1, row.2) == name) {
        return &OF_EXCEPTIONS[at];
    }
    let status = &resource.policy.status;
    match subresource {
        "" if status.subresource => &STATUS,
        "status" if status.writes_labels || status.writes_annotations || status.writes_finalizers => &SPEC,
        "status" => &SPEC_AND_METADATA,
        _ => &NOTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn reset_fields_are_those_of_the_real_server() {
        // [F11]
        let kinds = Registry::new().snapshot();
        for (group, version, plural, subresource, paths) in [
            ("", "v1", "configmaps", "", &[][..]),
            ("", "v1", "nodes", "", &[".status"]),
            ("", "v1", "services", "status", &[".spec"]),
            ("", "v1", "pods", "", &[".status"]),
            (
                "",
                "v1",
                "pods",
                "status",
                &[".spec", ".metadata.deletionTimestamp", ".metadata.ownerReferences"],
            ),
            ("apps", "v1", "deployments", "status", &[".spec", ".metadata.labels"]),
            ("apps", "v1", "statefulsets", "status", &[".spec"]),
            (
                "flowcontrol.apiserver.k8s.io",
                "v1",
                "flowschemas",
                "status",
                &[".metadata", ".spec"],
            ),
            (
                "storage.k8s.io",
                "v1",
                "volumeattachments",
                "status",
                &[".metadata", ".spec"],
            ),
            (
                "certificates.k8s.io",
                "v1",
                "certificatesigningrequests",
                "",
                &[".spec", ".status"],
            ),
        ] {
            let resource = kinds.resource(group, version, plural).unwrap();
            assert_eq!(
                fields(resource, subresource).paths(),
                paths,
                "{group} {plural} {subresource}"
            );
        }
    }
}
