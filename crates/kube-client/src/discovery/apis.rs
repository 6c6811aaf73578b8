//! `ServedApis`: one answer of the server, and the lookups in it.

use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube::core::discovery::{ApiCapabilities, Scope as KubeScope};
use kube::core::{ApiResource, GroupVersionKind, GroupVersionResource};

use crate::discovery::document::Group;
use crate::discovery::error::DiscoveryError;
use crate::discovery::lookup::{Lookup, Name};
use crate::object::Scope;

/// The most names that an error suggests.
const SUGGESTIONS: usize = 3;
/// The longest name that is compared with others: no name of a kind or resource is longer.
const LONGEST_NAME: usize = 63;

/// A resource in one version, as the server serves it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServedResource {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Scope, verbs and subresources. The plural of a subresource is its own name, such as `status`.
    pub capabilities: ApiCapabilities,
    /// The singular, such as `deployment`; empty if the server does not tell.
    pub singular: String,
    /// Short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// Categories that it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Every version of the group that serves this resource, the preferred one first.
    pub versions: Vec<String>,
    /// Whether this is only what was known before, since its group cannot be asked now.
    pub remembered: bool,
}

impl ServedResource {
    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        let resource = &self.resource;
        GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind)
    }

    /// Group, version and plural.
    pub fn gvr(&self) -> GroupVersionResource {
        let resource = &self.resource;
        GroupVersionResource::gvr(&resource.group, &resource.version, &resource.plural)
    }

    /// Whether its objects live in namespaces.
    pub fn scope(&self) -> Scope {
        match self.capabilities.scope {
            KubeScope::Namespaced => Scope::Namespaced,
            KubeScope::Cluster => Scope::Cluster,
        }
    }

    /// Whether it has this verb: `list`, `watch`, `create`…
    pub fn supports(&self, verb: &str) -> bool {
        self.capabilities.supports_operation(verb)
    }

    /// Verbs and kind of a subresource, such as `status` or `scale`.
    pub fn subresource(&self, name: &str) -> Option<&(ApiResource, ApiCapabilities)> {
        self.capabilities
            .subresources
            .iter()
            .find(|(resource, _)| resource.plural == name)
    }

    /// The version that the server prefers, of those that serve this resource.
    pub fn preferred_version(&self) -> &str {
        self.versions.first().unwrap_or(&self.resource.version)
    }

    /// How well the lookup's name fits; less is better.
    fn rank(&self, name: &Name) -> Option<u8> {
        match name {
            Name::Kind(kind) => (self.resource.kind == *kind).then_some(0),
            Name::Resource(plural) => (self.resource.plural == *plural).then_some(0),
            Name::Any(any) => {
                let same = |known: &str| known.eq_ignore_ascii_case(any);
                if same(&self.resource.plural) {
                    Some(0)
                } else if same(&self.singular) {
                    Some(1)
                } else if self.short_names.iter().any(|short| same(short)) {
                    Some(2)
                } else {
                    same(&self.resource.kind).then_some(3)
                }
            }
        }
    }
}

/// Stands for every named group, in every version.
const ANY: &str = "*";

/// A group in one version that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnavailableGroup {
    /// The group; empty for the core group, `*` if it is every group but that one.
    pub group: String,
    /// The version; `*` if the group is.
    pub version: String,
    /// Why, as far as it is known.
    pub reason: String,
}

impl UnavailableGroup {
    fn group_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            ANY => "every named group".to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether a kind of this group, and of this version or any, could be in it.
    fn covers(&self, group: &str, version: Option<&str>) -> bool {
        match self.group.as_str() {
            ANY => !group.is_empty(),
            own => own == group && version.is_none_or(|version| version == self.version),
        }
    }
}

/// One of the two roots of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// `/api`
    Core,
    /// `/apis`
    Named,
}

impl fmt::Display for UnavailableGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group_version(), self.reason)
    }
}

/// Everything that a server serves, as it said at one time. Immutable.
///
/// Resources are in the order of preference: the core group, then the groups in the server's order, in each group the
/// preferred version first.
#[derive(Default)]
pub struct ServedApis {
    resources: Vec<Arc<ServedResource>>,
    // Positions in `resources`, by each name of a resource in lower case; ascending.
    by_name: HashMap<String, Vec<usize>, RandomState>,
    unavailable: Vec<UnavailableGroup>,
}

impl ServedApis {
    /// The groups of each root, and why it cannot be asked, if they are only those that it had before. What is known of
    /// single groups that cannot be asked is taken from `previous`.
    pub(super) fn new(roots: &[(Which, &[Group], Option<&str>)], previous: Option<&ServedApis>) -> Self {
        let mut apis = Self::default();
        for (which, groups, refusal) in roots {
            if let Some(reason) = refusal {
                let (group, version) = match which {
                    Which::Core => ("", "v1"),
                    Which::Named => (ANY, ANY),
                };
                apis.unavailable.push(UnavailableGroup {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    reason: (*reason).to_owned(),
                });
            }
            apis.add(groups, refusal.is_some(), previous);
        }
        for (at, resource) in apis.resources.iter().enumerate() {
            let names = [&resource.resource.plural, &resource.resource.kind, &resource.singular];
            for name in names.into_iter().chain(&resource.short_names) {
                let positions = apis.by_name.entry(name.to_ascii_lowercase()).or_default();
                if positions.last() != Some(&at) {
                    positions.push(at);
                }
            }
        }
        apis
    }

    /// Adds groups, which are known from before or come just now.
    fn add(&mut self, groups: &[Group], remembered: bool, previous: Option<&ServedApis>) {
        for group in groups {
            let first = self.resources.len();
            for version in &group.versions {
                if let Some(reason) = &version.unavailable {
                    self.unavailable.push(UnavailableGroup {
                        group: group.name.clone(),
                        version: version.name.clone(),
                        reason: reason.clone(),
                    });
                }
                if version.unavailable.is_some() && version.resources.is_empty() {
                    let kept = previous.map_or([].as_slice(), |previous| &previous.resources);
                    let of_it = |known: &&Arc<ServedResource>| {
                        known.resource.group == group.name && known.resource.version == version.name
                    };
                    let as_remembered = |known: &Arc<ServedResource>| {
                        Arc::new(ServedResource {
                            remembered: true,
                            ..(**known).clone()
                        })
                    };
                    self.resources.extend(kept.iter().filter(of_it).map(as_remembered));
                } else {
                    let resources = version.resources.iter().cloned();
                    self.resources.extend(resources.map(|resource| {
                        let remembered = remembered || version.unavailable.is_some();
                        Arc::new(ServedResource { remembered, ..resource })
                    }));
                }
            }
            self.set_versions(first);
        }
    }

    /// Resources by plural and group, in version `v1`, for tests.
    #[cfg(test)]
    pub(crate) fn listing(kinds: &[(&str, &str)]) -> Self {
        let group = |(plural, group): &(&str, &str)| Group::listing(plural, group);
        let groups: Vec<Group> = kinds.iter().map(group).collect();
        Self::new(&[(Which::Named, &groups, None)], None)
    }

    /// The same, but all of it known from before, and no named group can be asked.
    #[cfg(test)]
    pub(crate) fn remembering(kinds: &[(&str, &str)]) -> Self {
        let group = |(plural, group): &(&str, &str)| Group::listing(plural, group);
        let groups: Vec<Group> = kinds.iter().map(group).collect();
        Self::new(&[(Which::Named, &groups, Some("no"))], None)
    }

    /// Tells each resource of one group, which begins at `first`, in which versions it is served.
    fn set_versions(&mut self, first: usize) {
        let mut versions: HashMap<String, Vec<String>, RandomState> = HashMap::default();
        for resource in &self.resources[first..] {
            let of_it = versions.entry_ref(&resource.resource.plural).or_default();
            of_it.push(resource.resource.version.clone());
        }
        for resource in &mut self.resources[first..] {
            let of_it = versions.get(&resource.resource.plural).cloned().unwrap_or_default();
            Arc::make_mut(resource).versions = of_it;
        }
    }

    /// The resource that fits best.
    pub fn find(&self, lookup: &Lookup) -> Option<&Arc<ServedResource>> {
        self.fitting(lookup)
            .min_by_key(|(rank, at, _)| (*rank, *at))
            .map(|(_, _, resource)| resource)
    }

    /// Every resource that fits, in the order of preference.
    pub fn find_all(&self, lookup: &Lookup) -> Vec<Arc<ServedResource>> {
        self.fitting(lookup)
            .map(|(_, _, resource)| Arc::clone(resource))
            .collect()
    }

    fn fitting(&self, lookup: &Lookup) -> impl Iterator<Item = (u8, usize, &Arc<ServedResource>)> {
        let name = lookup.name.text().to_ascii_lowercase();
        let positions = self.by_name.get(&name).map_or([].as_slice(), Vec::as_slice);
        positions.iter().filter_map(|at| {
            let resource = &self.resources[*at];
            let same = |wanted: &Option<String>, known: &String| wanted.as_ref().is_none_or(|wanted| wanted == known);
            if same(&lookup.group, &resource.resource.group) && same(&lookup.version, &resource.resource.version) {
                resource.rank(&lookup.name).map(|rank| (rank, *at, resource))
            } else {
                None
            }
        })
    }

    /// The resources of a category, such as `all`, each in its preferred version.
    pub fn category<'a>(&'a self, category: &'a str) -> impl Iterator<Item = &'a Arc<ServedResource>> {
        self.resources.iter().filter(move |resource| {
            resource.resource.version == resource.preferred_version()
                && resource.categories.iter().any(|known| known == category)
        })
    }

    /// Every resource in every version.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedResource>> {
        self.resources.iter()
    }

    /// How many resources there are, each version counted.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether nothing is served.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The groups that could not be asked. What was known of them before is still listed.
    pub fn unavailable(&self) -> &[UnavailableGroup] {
        &self.unavailable
    }

    /// What keeps it from being known whether this group, in this version or any, has more than is listed.
    pub(crate) fn cannot_tell(&self, group: &str, version: Option<&str>) -> Option<&UnavailableGroup> {
        let covers = |unavailable: &&UnavailableGroup| unavailable.covers(group, version);
        self.unavailable.iter().find(covers)
    }

    /// Why a lookup finds nothing.
    pub(super) fn miss(&self, lookup: &Lookup) -> DiscoveryError {
        let what = lookup.to_string();
        let group = lookup.group.as_ref();
        let silent = group.and_then(|group| self.cannot_tell(group, lookup.version.as_deref()));
        if let Some(silent) = silent {
            return DiscoveryError::Unavailable {
                what,
                group_version: silent.group_version(),
                reason: silent.reason.clone(),
            };
        }
        let unavailable = match lookup.group {
            None => self.unavailable.iter().map(UnavailableGroup::group_version).collect(),
            Some(_) => Vec::new(),
        };
        DiscoveryError::NotServed {
            what,
            close: self.close_to(lookup),
            unavailable,
        }
    }

    /// What comes near to a lookup that finds nothing.
    fn close_to(&self, lookup: &Lookup) -> Vec<String> {
        let anywhere = Lookup {
            name: lookup.name.clone(),
            group: None,
            version: None,
        };
        let mut elsewhere: Vec<String> = Vec::new();
        for (_, _, resource) in self.fitting(&anywhere) {
            let resource = &resource.resource;
            elsewhere.push(format!("{} of {}", resource.kind, resource.api_version));
        }
        if !elsewhere.is_empty() {
            elsewhere.truncate(SUGGESTIONS);
            return elsewhere;
        }
        let name = lookup.name.text();
        if name.len() > LONGEST_NAME {
            return Vec::new();
        }
        let name = name.to_ascii_lowercase();
        // One slip for each four letters: names of three have too many neighbours.
        let allowed = (name.len() / 4).min(2);
        let mut close: Vec<(usize, usize, &str)> = Vec::new();
        for (at, resource) in self.resources.iter().enumerate() {
            let (plural, kind) = (&resource.resource.plural, &resource.resource.kind);
            let distance_to = |known: &str| strsim::osa_distance(&known.to_ascii_lowercase(), &name);
            let (distance, known) = match lookup.name {
                Name::Kind(_) => (distance_to(kind), kind),
                Name::Resource(_) => (distance_to(plural), plural),
                Name::Any(_) => (distance_to(plural).min(distance_to(kind)), plural),
            };
            if distance <= allowed && !close.iter().any(|(_, _, other)| *other == known) {
                close.push((distance, at, known));
            }
        }
        close.sort_unstable();
        close
            .into_iter()
            .take(SUGGESTIONS)
            .map(|(_, _, name)| name.to_owned())
            .collect()
    }
}

impl fmt::Debug for ServedApis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedApis")
            .field("resources", &self.resources.len())
            .field("unavailable", &self.unavailable)
            .finish_non_exhaustive()
    }
}
