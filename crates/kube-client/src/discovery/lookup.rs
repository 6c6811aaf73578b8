//! `Lookup`: what is known of a resource that is looked up. What is not said matches anything.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use kube::core::{ApiResource, GroupVersionKind, GroupVersionResource};

/// What to look up: a kind or a resource name, and as much of group and version as is known.
///
/// ```
/// use kube_client::Lookup;
///
/// assert_eq!(Lookup::kind("Event").group("").to_string(), "kind Event in the core group");
/// assert_eq!("deploy.v1.apps".parse(), Ok(Lookup::named("deploy").group("apps").version("v1")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lookup {
    pub(super) name: Name,
    pub(super) group: Option<String>,
    pub(super) version: Option<String>,
}

/// In which of its names a resource is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// The kind, as objects spell it.
    Kind(String),
    /// The plural, as paths spell it.
    Resource(String),
    /// Any of plural, singular, short names and kind, whatever the case.
    Any(String),
}

impl Name {
    pub(super) fn text(&self) -> &str {
        match self {
            Name::Kind(name) | Name::Resource(name) | Name::Any(name) => name,
        }
    }
}

impl Lookup {
    fn new(name: Name) -> Self {
        Self {
            name,
            group: None,
            version: None,
        }
    }

    /// By kind, as objects spell it: `Deployment`.
    pub fn kind(kind: impl Into<String>) -> Self {
        Self::new(Name::Kind(kind.into()))
    }

    /// By plural, as paths spell it: `deployments`.
    pub fn resource(plural: impl Into<String>) -> Self {
        Self::new(Name::Resource(plural.into()))
    }

    /// By any name that people use: plural, singular, short name or kind, in this order, whatever the case.
    pub fn named(name: impl Into<String>) -> Self {
        Self::new(Name::Any(name.into()))
    }

    /// Only in this group; empty for the core group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only in this version. Default: the preferred one.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}

/// As kubectl's users write it: `deploy`, `deployments.apps`, `deployments.v1.apps`. The second part is a version if it
/// looks like one (`v1`, `v1beta2`), otherwise the group begins there. Every text means something, if only something that
/// is not served.
impl FromStr for Lookup {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let Some((name, rest)) = text.split_once('.') else {
            return Ok(Self::named(text));
        };
        let lookup = Self::named(name);
        Ok(match rest.split_once('.') {
            Some((version, group)) if is_version(version) => lookup.version(version).group(group),
            None if is_version(rest) => lookup.version(rest).group(""),
            _ => lookup.group(rest),
        })
    }
}

/// Whether a text has the form of a Kubernetes version: `v1`, `v2alpha1`, `v1beta3`.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    match parts {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}

impl From<&GroupVersionKind> for Lookup {
    fn from(gvk: &GroupVersionKind) -> Self {
        Self::kind(&gvk.kind).group(&gvk.group).version(&gvk.version)
    }
}

impl From<&GroupVersionResource> for Lookup {
    fn from(gvr: &GroupVersionResource) -> Self {
        Self::resource(&gvr.resource).group(&gvr.group).version(&gvr.version)
    }
}

impl From<&ApiResource> for Lookup {
    fn from(resource: &ApiResource) -> Self {
        Self::resource(&resource.plural)
            .group(&resource.group)
            .version(&resource.version)
    }
}

impl From<&Lookup> for Lookup {
    fn from(lookup: &Lookup) -> Self {
        lookup.clone()
    }
}

/// A part of a sentence: `kind Deployment in group apps, version v1`.
impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Kind(kind) => write!(f, "kind {kind}")?,
            Name::Resource(plural) => write!(f, "resource {plural}")?,
            Name::Any(name) => write!(f, "{name:?}")?,
        }
        match self.group.as_deref() {
            None => {}
            Some("") => f.write_str(" in the core group")?,
            Some(group) => write!(f, " in group {group}")?,
        }
        match &self.version {
            None => Ok(()),
            Some(version) if self.group.is_some() => write!(f, ", version {version}"),
            Some(version) => write!(f, " in version {version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_kubectl_does() {
        let parse = |text: &str| text.parse::<Lookup>().unwrap();
        assert_eq!(parse("po"), Lookup::named("po"));
        assert_eq!(parse("deployments.apps"), Lookup::named("deployments").group("apps"));
        assert_eq!(
            parse("jobs.v1beta1.batch"),
            Lookup::named("jobs").version("v1beta1").group("batch")
        );
        assert_eq!(
            parse("widgets.example.com"),
            Lookup::named("widgets").group("example.com")
        );
        assert_eq!(parse("pods.v1"), Lookup::named("pods").version("v1").group(""));
        assert_eq!(
            parse("x.vault.example.com"),
            Lookup::named("x").group("vault.example.com")
        );
    }

    #[test]
    fn lookups_read_as_part_of_a_sentence() {
        let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
        assert_eq!(
            Lookup::from(&gvk).to_string(),
            "kind Deployment in group apps, version v1"
        );
        let gvr = GroupVersionResource::gvr("", "v1", "pods");
        assert_eq!(
            Lookup::from(&gvr).to_string(),
            "resource pods in the core group, version v1"
        );
        assert_eq!(Lookup::named("po").version("v2").to_string(), "\"po\" in version v2");
    }
}
