//! Resource versions: decimal integers of any length, or opaque text of which only equality is known.

use std::cmp::Ordering;

/// How two resource versions compare; `None` if either is not a decimal integer.
pub(crate) fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (digits(a)?, digits(b)?);
    Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
}

/// Whether it is one of those that compare.
pub(crate) fn is_comparable(version: &str) -> bool {
    digits(version).is_some()
}

/// The digits without leading zeros.
fn digits(version: &str) -> Option<&str> {
    let decimal = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then(|| version.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_integers_of_any_length() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("007", "7"), Some(Ordering::Equal));
        assert_eq!(
            compare("100000000000000000000000000", "99999999999999999999999999"),
            Some(Ordering::Greater)
        );
        for (a, b) in [("", "1"), ("1", "a"), ("-1", "1"), ("1.5", "2")] {
            assert_eq!(compare(a, b), None, "{a:?} {b:?}");
        }
    }
}
