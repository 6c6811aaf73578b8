//! The forms in which servers tell what they serve, brought into one: aggregated documents, and the older ones of one
//! group and version each. Pure; entries without a name are skipped, as a half-broken aggregated API produces them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::core::ApiResource;
use kube::core::discovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APISubresourceDiscovery, APIVersionDiscovery,
};
use kube::core::discovery::{ApiCapabilities, Scope};

use crate::discovery::apis::ServedResource;

/// A group, its versions in the order of preference.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) versions: Vec<Version>,
}

/// One version of a group.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) resources: Vec<ServedResource>,
    /// Why it could not be asked.
    pub(super) unavailable: Option<String>,
}

#[cfg(test)]
impl Group {
    pub(super) fn listing(plural: &str, group: &str) -> Self {
        let resource = ServedResource {
            resource: api_resource(group, "v1", plural.to_uppercase(), plural.to_owned()),
            capabilities: ApiCapabilities {
                scope: Scope::Namespaced,
                subresources: Vec::new(),
                operations: Vec::new(),
            },
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            versions: Vec::new(),
            remembered: false,
        };
        let version = Version {
            name: "v1".to_owned(),
            resources: vec![resource],
            unavailable: None,
        };
        Self {
            name: group.to_owned(),
            versions: vec![version],
        }
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn api_resource(group: &str, version: &str, kind: String, plural: String) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version(group, version),
        kind,
        plural,
    }
}

/// The groups of an aggregated document. It lists the versions of each in the order of preference.
pub(super) fn aggregated(list: APIGroupDiscoveryList) -> Vec<Group> {
    list.items.into_iter().map(aggregated_group).collect()
}

fn aggregated_group(group: APIGroupDiscovery) -> Group {
    let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
    let versions = group
        .versions
        .into_iter()
        .filter_map(|version| aggregated_version(&name, version))
        .collect();
    Group { name, versions }
}

fn aggregated_version(group: &str, version: APIVersionDiscovery) -> Option<Version> {
    let name = version.version.filter(|name| !name.is_empty())?;
    let resources = version
        .resources
        .into_iter()
        .filter_map(|resource| aggregated_resource(group, &name, resource))
        .collect();
    let stale = version.freshness.as_deref() == Some("Stale");
    Some(Version {
        name,
        resources,
        unavailable: stale.then(|| "the server behind this aggregated API does not answer".to_owned()),
    })
}

fn aggregated_resource(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<ServedResource> {
    let plural = resource.resource.filter(|plural| !plural.is_empty())?;
    let kind = resource
        .response_kind
        .and_then(|gvk| gvk.kind)
        .filter(|kind| !kind.is_empty())?;
    let scope = match resource.scope.as_deref() {
        Some("Namespaced") => Scope::Namespaced,
        _ => Scope::Cluster,
    };
    let subresources = resource
        .subresources
        .into_iter()
        .filter_map(|sub| aggregated_subresource(group, version, &scope, sub))
        .collect();
    Some(ServedResource {
        resource: api_resource(group, version, kind, plural),
        capabilities: ApiCapabilities {
            scope,
            subresources,
            operations: resource.verbs,
        },
        singular: resource.singular_resource.unwrap_or_default(),
        short_names: resource.short_names,
        categories: resource.categories,
        versions: Vec::new(),
        remembered: false,
    })
}

fn aggregated_subresource(
    group: &str,
    version: &str,
    scope: &Scope,
    sub: APISubresourceDiscovery,
) -> Option<(ApiResource, ApiCapabilities)> {
    let name = sub.subresource.filter(|name| !name.is_empty())?;
    let said = sub.response_kind.unwrap_or_default();
    let said_or = |said: Option<String>, above: &str| said.filter(|text| !text.is_empty()).unwrap_or(above.to_owned());
    // A version that is not said is that of the resource, and then so is the group.
    let of = match said.version.as_deref() {
        None | Some("") => api_resource(group, version, said.kind.unwrap_or_default(), name),
        Some(_) => {
            let (sub_group, sub_version) = (said.group.unwrap_or_default(), said_or(said.version, version));
            api_resource(&sub_group, &sub_version, said.kind.unwrap_or_default(), name)
        }
    };
    let capabilities = ApiCapabilities {
        scope: scope.clone(),
        subresources: Vec::new(),
        operations: sub.verbs,
    };
    Some((of, capabilities))
}

/// The resources of one group and version, from the older form, in which subresources are entries `pods/status`.
pub(super) fn resources(group: &str, version: &str, list: APIResourceList) -> Vec<ServedResource> {
    let (subresources, resources): (Vec<APIResource>, Vec<APIResource>) = list
        .resources
        .into_iter()
        .filter(|entry| !entry.name.is_empty() && !entry.kind.is_empty())
        .partition(|entry| entry.name.contains('/'));
    let scope = |entry: &APIResource| {
        if entry.namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        }
    };
    let capabilities = |entry: &APIResource, subresources| ApiCapabilities {
        scope: scope(entry),
        subresources,
        operations: entry.verbs.clone(),
    };
    let of_resource = |entry: APIResource| {
        let of_it = subresources.iter().filter_map(|sub| {
            let (parent, name) = sub.name.split_once('/')?;
            let (sub_group, sub_version) = match sub.version.as_deref() {
                None | Some("") => (group, version),
                Some(said) => (sub.group.as_deref().unwrap_or_default(), said),
            };
            let resource = api_resource(sub_group, sub_version, sub.kind.clone(), name.to_owned());
            (parent == entry.name).then(|| (resource, capabilities(sub, Vec::new())))
        });
        let capabilities = capabilities(&entry, of_it.collect());
        ServedResource {
            resource: api_resource(group, version, entry.kind, entry.name),
            capabilities,
            singular: entry.singular_name,
            short_names: entry.short_names.unwrap_or_default(),
            categories: entry.categories.unwrap_or_default(),
            versions: Vec::new(),
            remembered: false,
        }
    };
    resources.into_iter().map(of_resource).collect()
}
