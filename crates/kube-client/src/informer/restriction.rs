//! The namespaces that a client is restricted to, applied to what an informer is asked to cover.

use std::sync::Arc;

use crate::informer::options::Namespaces;

/// The names of a set; `None` for all namespaces.
fn names(namespaces: &Namespaces) -> Option<Vec<&Arc<str>>> {
    match namespaces {
        Namespaces::All => None,
        Namespaces::One(name) => Some(vec![name]),
    }
}

/// What an informer that was asked to cover `wanted` covers; `None` if some of it is outside of `allowed`.
pub(crate) fn restrict(wanted: &Namespaces, allowed: &Namespaces) -> Option<Namespaces> {
    let (Some(allowed_names), Some(wanted_names)) = (names(allowed), names(wanted)) else {
        // One of them is "all": the other one decides.
        let decides = if *allowed == Namespaces::All { wanted } else { allowed };
        return Some(decides.clone());
    };
    wanted_names
        .iter()
        .all(|name| allowed_names.contains(name))
        .then(|| wanted.clone())
}

/// Whether a namespace could have this name, as far as it must be known to be one segment of a path.
pub(crate) fn is_namespace(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(plain)
}

/// The first name that no namespace can have.
pub(crate) fn first_invalid(namespaces: &Namespaces) -> Option<&str> {
    let invalid = |name: &&Arc<str>| !is_namespace(name);
    names(namespaces)?.into_iter().find(invalid).map(AsRef::as_ref)
}

/// As a part of a sentence.
pub(crate) fn in_words(namespaces: &Namespaces) -> String {
    match names(namespaces).as_deref() {
        None => "all namespaces".to_owned(),
        Some([name]) => format!("namespace {name}"),
        Some(names) => {
            let names: Vec<&str> = names.iter().map(|name| &***name).collect();
            format!("namespaces {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restriction_narrows_all_and_refuses_the_rest() {
        let (all, a, b) = (Namespaces::All, Namespaces::one("a"), Namespaces::one("b"));
        assert_eq!(restrict(&all, &all), Some(all.clone()));
        assert_eq!(restrict(&a, &all), Some(a.clone()));
        assert_eq!(restrict(&all, &a), Some(a.clone()));
        assert_eq!(restrict(&a, &a), Some(a.clone()));
        assert_eq!(restrict(&b, &a), None);
    }
}
