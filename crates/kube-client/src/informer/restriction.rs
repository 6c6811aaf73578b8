//! The namespaces that a client is restricted to, applied to what an informer is asked to cover.

use std::sync::Arc;

use crate::error::ClientError;
use crate::informer::options::Namespaces;

/// The names of a set; `None` for all namespaces.
fn names(namespaces: &Namespaces) -> Option<Vec<Arc<str>>> {
    namespaces.parts().into_iter().collect()
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

/// Whether a client can be restricted to these.
pub(crate) fn check(allowed: &Namespaces) -> Result<(), ClientError> {
    let Some(names) = names(allowed) else { return Ok(()) };
    if names.is_empty() {
        return Err(ClientError::NoNamespaces);
    }
    match names.iter().find(|name| !is_namespace(name)) {
        None => Ok(()),
        Some(name) => Err(ClientError::InvalidNamespace {
            namespace: name.to_string(),
        }),
    }
}

/// Whether a namespace could have this name, as far as it must be known to be one segment of a path.
pub(crate) fn is_namespace(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restriction_narrows_all_and_refuses_the_rest() {
        let (all, a, b) = (Namespaces::All, Namespaces::one("a"), Namespaces::one("b"));
        let (ab, bc) = (Namespaces::many(["a", "b"]), Namespaces::many(["b", "c"]));
        for (wanted, allowed, covered) in [
            (&all, &all, Some(&all)),
            (&a, &all, Some(&a)),
            (&ab, &all, Some(&ab)),
            (&all, &a, Some(&a)),
            (&all, &ab, Some(&ab)),
            (&a, &a, Some(&a)),
            (&a, &ab, Some(&a)),
            (&ab, &ab, Some(&ab)),
            (&b, &a, None),
            (&ab, &a, None),
            (&bc, &ab, None),
        ] {
            assert_eq!(restrict(wanted, allowed).as_ref(), covered, "{wanted:?} of {allowed:?}");
        }
    }

    #[test]
    fn client_is_not_restricted_to_nothing_or_to_what_cannot_be() {
        assert!(check(&Namespaces::All).is_ok() && check(&Namespaces::many(["a", "b"])).is_ok());
        assert!(matches!(
            check(&Namespaces::many([""; 0])),
            Err(ClientError::NoNamespaces)
        ));
        let bad = check(&Namespaces::many(["a", "b/c"]));
        assert!(matches!(bad, Err(ClientError::InvalidNamespace { namespace }) if namespace == "b/c"));
    }
}
