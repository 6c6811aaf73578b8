//! Label selectors that mean what they say: refused before they become text, in which they could be another one.

use kube::core::{Expression, Selector};

/// The most characters of a label's value, and of the name in its key.
const LONGEST: usize = 63;
/// The most characters of what stands before the slash of a key.
const LONGEST_PREFIX: usize = 253;

/// A label selector that no server accepts, or that would be another one once it is text. A retry cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{requirement}` is not a label selector: {reason}")]
#[non_exhaustive]
pub struct LabelSelectorError {
    /// The requirement that is wrong.
    pub requirement: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Checks that a label selector is one, by the rules of the server. The type lets everything pass, and a selector that is sent is
/// text: `Exists("")` would select everything, and an `Equal` whose value has a comma would be two requirements.
///
/// Informers, clients and writes check theirs; for a selector that a program applies itself, such as one that a user wrote into an
/// object.
///
/// ```
/// use kube::core::{Expression, Selector};
/// use kube_client::check_labels;
///
/// let of_web = Expression::Equal("app.kubernetes.io/name".to_owned(), "web".to_owned());
/// assert!(check_labels(&Selector::from(of_web)).is_ok());
///
/// let error = check_labels(&Selector::from(Expression::Exists(String::new()))).unwrap_err();
/// assert_eq!(error.to_string(), "`` is not a label selector: the key is empty");
/// ```
///
/// # Errors
///
/// [`LabelSelectorError`] for the first requirement that is wrong.
pub fn check_labels(selector: &Selector) -> Result<(), LabelSelectorError> {
    selector.clone().into_iter().try_for_each(|requirement| {
        check(&requirement).map_err(|reason| LabelSelectorError {
            requirement: requirement.to_string(),
            reason,
        })
    })
}

fn check(requirement: &Expression) -> Result<(), String> {
    match requirement {
        Expression::In(key, values) | Expression::NotIn(key, values) => {
            check_key(key)?;
            if values.is_empty() {
                return Err("it needs values".to_owned());
            }
            values.iter().try_for_each(|value| check_value(value))
        }
        Expression::Equal(key, value) | Expression::NotEqual(key, value) => {
            check_key(key)?;
            check_value(value)
        }
        Expression::Exists(key) | Expression::DoesNotExist(key) => check_key(key),
    }
}

/// `name`, or `prefix/name` with a prefix that is a DNS subdomain.
fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let well_formed = !name.is_empty() && is_name(name) && prefix.is_none_or(is_subdomain);
    well_formed
        .then_some(())
        .ok_or_else(|| format!("{key:?} cannot be the key of a label"))
}

fn check_value(value: &str) -> Result<(), String> {
    let well_formed = value.is_empty() || is_name(value);
    well_formed
        .then_some(())
        .ok_or_else(|| format!("{value:?} cannot be the value of a label"))
}

/// Letters, digits, and within them `-`, `_` and `.`; up to 63.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= LONGEST && outer(bytes.first()) && outer(bytes.last()) && bytes.iter().copied().all(inner)
}

/// Parts of small letters, digits, and within them `-`, with dots in between; up to 253.
fn is_subdomain(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| outer(*byte))
            && bytes.last().is_some_and(|byte| outer(*byte))
            && bytes.iter().all(|byte| outer(*byte) || *byte == b'-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_that_cannot_be_are_refused() {
        let text = str::to_owned;
        let long = "a".repeat(64);
        for (odd, reason) in [
            (Expression::Exists(text("")), "the key is empty"),
            (Expression::DoesNotExist(text("")), "the key is empty"),
            (Expression::In(text("a"), [].into()), "it needs values"),
            (Expression::NotIn(text("a"), [].into()), "it needs values"),
            (Expression::Exists(text("a,b")), "\"a,b\" cannot be the key of a label"),
            (
                Expression::Exists(text("a/b/c")),
                "\"a/b/c\" cannot be the key of a label",
            ),
            (Expression::Exists(text("/a")), "\"/a\" cannot be the key of a label"),
            (Expression::Exists(text("a/")), "\"a/\" cannot be the key of a label"),
            (
                Expression::Exists(text("A.x/a")),
                "\"A.x/a\" cannot be the key of a label",
            ),
            (
                Expression::Exists(text("a..b/c")),
                "\"a..b/c\" cannot be the key of a label",
            ),
            (Expression::Exists(text("-a")), "\"-a\" cannot be the key of a label"),
            (
                Expression::Equal(text("a"), text("b,c")),
                "\"b,c\" cannot be the value of a label",
            ),
            (
                Expression::NotEqual(text("a"), text("b c")),
                "\"b c\" cannot be the value of a label",
            ),
            (
                Expression::NotIn(text("a"), [text("b"), text("c.")].into()),
                "\"c.\" cannot be the value of a label",
            ),
        ] {
            let selector = Selector::from_iter([Expression::Exists(text("fine")), odd.clone()]);
            let error = check_labels(&selector).unwrap_err();
            assert_eq!(
                (error.requirement, error.reason.as_str()),
                (odd.to_string(), reason),
                "{odd}"
            );
        }
        assert!(check_labels(&Expression::Exists(long.clone()).into()).is_err());
        assert!(check_labels(&Expression::Equal(text("a"), long).into()).is_err());
        for fine in [
            Expression::Equal(text("app.kubernetes.io/name"), text("")),
            Expression::Exists(text("0A_b.c-d")),
            Expression::Exists(format!("{}/{}", "a.".repeat(126) + "a", "b".repeat(63))),
            Expression::In(text("a"), [text("x"), text("y_1"), "z".repeat(63)].into()),
        ] {
            assert_eq!(check_labels(&fine.into()), Ok(()));
        }
        assert_eq!(check_labels(&Selector::default()), Ok(()));
    }
}
