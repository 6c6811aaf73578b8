//! Which definitions count: ignore and include lists, and minimum versions.

use std::collections::BTreeMap;

use semver::Version;

/// The annotation that minimum versions are compared with, unless another one is chosen: where the Gateway API's bundles
/// write theirs.
const VERSION_ANNOTATION: &str = "gateway.networking.k8s.io/bundle-version";

/// Which custom kinds the [`CrdWatcher`](crate::CrdWatcher) counts as known.
///
/// A kind that matches an include pattern counts; otherwise one that matches an ignore pattern does not; any other does. A
/// pattern is the full name of a definition (`gateways.gateway.networking.k8s.io`) or `*.` and the end of one:
/// `*.istio.io` matches every kind of group `istio.io` and of the groups below it. The plural alone (`gateways`) is no name of a
/// definition, and is refused.
///
/// A minimum version keeps a program from watching a version of a kind that an older bundle does not serve in the form it
/// expects: the definition counts only if its version annotation says at least that. `v1.1.0-rc.1` counts as `1.1.0`: a
/// pre-release is rounded up. A definition without the annotation, or with one that is no version, does not count, which is
/// logged and shown in the statistics. What does not count is not known by discovery either.
///
/// ```
/// use kube_client::{Client, CrdOptions};
///
/// let crds = CrdOptions::default()
///     .ignore("*.istio.io")
///     .include("wasmplugins.extensions.istio.io")
///     .minimum_version("grpcroutes.gateway.networking.k8s.io", "1.1.0");
/// let builder = Client::builder().crds(crds);
/// ```
#[derive(Debug, Clone)]
pub struct CrdOptions {
    ignore: Vec<String>,
    include: Vec<String>,
    minimum: BTreeMap<String, String>,
    annotation: String,
}

impl Default for CrdOptions {
    fn default() -> Self {
        Self {
            ignore: Vec::new(),
            include: Vec::new(),
            minimum: BTreeMap::new(),
            annotation: VERSION_ANNOTATION.to_owned(),
        }
    }
}

impl CrdOptions {
    /// Ignores the kinds that match, unless they match an [`include`](Self::include) pattern.
    #[must_use]
    pub fn ignore(mut self, pattern: impl Into<String>) -> Self {
        self.ignore.push(pattern.into());
        self
    }

    /// Counts the kinds that match, whatever [`ignore`](Self::ignore) says.
    #[must_use]
    pub fn include(mut self, pattern: impl Into<String>) -> Self {
        self.include.push(pattern.into());
        self
    }

    /// Counts the definition of this full name only from this version on: `1.1.0`, also as `v1.1` or `1`.
    #[must_use]
    pub fn minimum_version(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.minimum.insert(name.into(), version.into());
        self
    }

    /// The annotation that has a definition's version. Default: `gateway.networking.k8s.io/bundle-version`.
    #[must_use]
    pub fn version_annotation(mut self, key: impl Into<String>) -> Self {
        self.annotation = key.into();
        self
    }

    pub(crate) fn check(self) -> Result<Rules, CrdOptionsError> {
        let minimum = |(name, version): (String, String)| match parse_version(&version) {
            _ if !is_full_name(&name) => Err(CrdOptionsError::Name { name }),
            Some(parsed) => Ok((name, parsed)),
            None => Err(CrdOptionsError::Version { name, version }),
        };
        Ok(Rules {
            ignore: self.ignore.into_iter().map(Pattern::parse).collect::<Result<_, _>>()?,
            include: self.include.into_iter().map(Pattern::parse).collect::<Result<_, _>>()?,
            minimum: self.minimum.into_iter().map(minimum).collect::<Result<_, _>>()?,
            annotation: self.annotation,
        })
    }
}

/// [`CrdOptions`] that cannot mean anything. A retry cannot help; the program has to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrdOptionsError {
    /// The pattern is neither a name of the form `plural.group` nor `*.` and the end of one.
    #[error("not a pattern of definitions, expected `plural.group` or `*.group`: {pattern:?}")]
    Pattern {
        /// What was given.
        pattern: String,
    },
    /// What was given a minimum version is not the full name of a definition.
    #[error("not the name of a definition, expected `plural.group`: {name:?}, which was given a minimum version")]
    Name {
        /// What was given.
        name: String,
    },
    /// The minimum version is no version.
    #[error("not a version, expected `1.2.3`: {version:?}, the minimum of {name}")]
    Version {
        /// The definition that it was given for.
        name: String,
        /// What was given.
        version: String,
    },
}

/// Options that were checked.
#[derive(Debug)]
pub(crate) struct Rules {
    ignore: Vec<Pattern>,
    include: Vec<Pattern>,
    minimum: BTreeMap<String, Version>,
    annotation: String,
}

#[derive(Debug)]
enum Pattern {
    Name(String),
    /// With the dot that it begins with.
    Suffix(String),
}

/// Whether a definition may be named so, or a name may end so.
fn is_name(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
}

/// Whether it is a plural and a group: without a dot it is the name of no definition, and would never match.
fn is_full_name(text: &str) -> bool {
    text.contains('.') && is_name(text)
}

impl Pattern {
    fn parse(pattern: String) -> Result<Self, CrdOptionsError> {
        match pattern.strip_prefix("*.") {
            Some(end) if is_name(end) => Ok(Self::Suffix(format!(".{end}"))),
            None if is_full_name(&pattern) => Ok(Self::Name(pattern)),
            _ => Err(CrdOptionsError::Pattern { pattern }),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Name(known) => known == name,
            Pattern::Suffix(end) => name.ends_with(end),
        }
    }
}

impl Rules {
    /// Whether the lists leave this kind out.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        matches(&self.ignore) && !matches(&self.include)
    }

    /// Whether this kind has to have a version.
    pub(crate) fn has_minimum(&self, name: &str) -> bool {
        self.minimum.contains_key(name)
    }

    /// The annotation that has a definition's version.
    pub(crate) fn annotation(&self) -> &str {
        &self.annotation
    }

    /// Why a definition with this version annotation does not count.
    pub(crate) fn objection(&self, name: &str, annotation: Option<&str>) -> Option<String> {
        if self.ignores(name) {
            return Some("it matches a pattern that is ignored".to_owned());
        }
        let minimum = self.minimum.get(name)?;
        let Some(text) = annotation else {
            return Some(format!(
                "it needs version {minimum} or later, but has no annotation {}",
                self.annotation
            ));
        };
        match parse_version(text) {
            None => Some(format!(
                "it needs version {minimum} or later, but annotation {} is no version: {text:?}",
                self.annotation
            )),
            Some(version) if version < *minimum => Some(format!("it needs version {minimum} or later, but has {text}")),
            Some(_) => None,
        }
    }
}

/// A version without its pre-release and build parts, from one or more numbers with or without a `v`.
fn parse_version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let missing = match numbers.split('.').count() {
        1 => ".0.0",
        2 => ".0",
        _ => "",
    };
    let version = Version::parse(&format!("{numbers}{missing}{rest}")).ok()?;
    Some(Version::new(version.major, version.minor, version.patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(options: CrdOptions) -> Rules {
        options.check().unwrap()
    }

    // [I31] include overrides ignore; a suffix matches whole parts of the name
    #[test]
    fn lists_decide_by_name_and_suffix() {
        let rules = rules(
            CrdOptions::default()
                .ignore("*.istio.io")
                .ignore("widgets.example.com")
                .include("wasmplugins.extensions.istio.io")
                .include("*.telemetry.istio.io"),
        );
        let cases = [
            ("gateways.networking.istio.io", true),
            ("things.istio.io", true),
            ("wasmplugins.extensions.istio.io", false),
            ("telemetries.telemetry.istio.io", false),
            ("things.notistio.io", false),
            ("widgets.example.com", true),
            ("gadgets.example.com", false),
            ("xwidgets.example.com", false),
        ];
        for (name, ignored) in cases {
            assert_eq!(rules.ignores(name), ignored, "{name}");
            assert_eq!(rules.objection(name, None).is_some(), ignored, "{name}");
        }
    }

    // [I31] at least the minimum, pre-releases rounded up; no or a bad version does not count
    #[test]
    fn minimum_versions_round_pre_releases_up() {
        let rules = rules(CrdOptions::default().minimum_version("a.b", "v1.1"));
        let cases = [
            (Some("v1.1.0"), true),
            (Some("1.1.0"), true),
            (Some("v1.1"), true),
            (Some("v2"), true),
            (Some("v1.10.0"), true),
            (Some("v1.1.0-rc.1"), true),
            (Some("v1.1.0-rc.1+build.5"), true),
            (Some("v1.1.0+build"), true),
            (Some("v1.0.9"), false),
            (Some("v1.0.0-rc.1"), false),
            (Some("v0.9"), false),
            (Some("latest"), false),
            (Some(""), false),
            (Some("v1.1.0-"), false),
            (Some("1.1.0.0"), false),
            (None, false),
        ];
        for (annotation, counts) in cases {
            let objection = rules.objection("a.b", annotation);
            assert_eq!(objection.is_none(), counts, "{annotation:?}: {objection:?}");
        }
        assert_eq!(rules.objection("other.b", None), None);
        assert_eq!(
            rules.objection("a.b", Some("latest")).unwrap(),
            "it needs version 1.1.0 or later, but annotation gateway.networking.k8s.io/bundle-version is no version: \
             \"latest\""
        );
    }

    #[test]
    fn options_that_mean_nothing_are_refused_by_name() {
        for pattern in [
            "",
            "*",
            "*.",
            "*istio.io",
            "a.*",
            "*.a*",
            "Gateways.x",
            "a..b",
            ".a",
            "a b.c",
            "gateways",
        ] {
            let error = CrdOptions::default().ignore(pattern).check().unwrap_err();
            assert_eq!(
                error,
                CrdOptionsError::Pattern {
                    pattern: pattern.to_owned()
                }
            );
            assert!(CrdOptions::default().include(pattern).check().is_err());
        }
        for name in ["", "gateways", "*.b", "A.b"] {
            let error = CrdOptions::default().minimum_version(name, "1").check().unwrap_err();
            assert_eq!(error, CrdOptionsError::Name { name: name.to_owned() });
        }
        let error = CrdOptions::default().minimum_version("a.b", "new").check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "not a version, expected `1.2.3`: \"new\", the minimum of a.b"
        );
    }
}
