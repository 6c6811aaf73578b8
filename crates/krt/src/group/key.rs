//! The texts under which groups are kept: different for different values.

use std::borrow::Cow;
use std::sync::Arc;

use crate::traits::Text;

/// A value of an index that can be the key of a [`Group`](crate::Group).
///
/// # Contract
///
/// 1. Different values of the type have different texts, whatever they are, and equal ones have equal texts. Cannot be checked
///    beforehand: of several values with one text, one at a time has a group; the others are logged and counted as
///    [conflicts](crate::Stats::conflicts).
/// 2. The text is not empty. Checked: a value with an empty text has no group, which is logged.
/// 3. A type that this one [`Borrow`](std::borrow::Borrow)s as has the same texts.
///
/// ```
/// use krt::GroupKey;
/// assert_eq!("web".encode(), "web");
/// assert_eq!("".encode(), "~");
/// assert_eq!(("shop".to_owned(), 80).encode(), "shop/80");
/// assert_eq!(("a/b".to_owned(), "c".to_owned()).encode(), "a%2Fb/c");
/// ```
pub trait GroupKey {
    /// The text of this value.
    fn encode(&self) -> Cow<'_, str>;
}

impl GroupKey for str {
    /// The text itself, after a `~` if it is empty or starts with one.
    fn encode(&self) -> Cow<'_, str> {
        if self.is_empty() || self.starts_with('~') {
            Cow::Owned(format!("~{self}"))
        } else {
            Cow::Borrowed(self)
        }
    }
}

impl GroupKey for String {
    fn encode(&self) -> Cow<'_, str> {
        self.as_str().encode()
    }
}

impl GroupKey for Text {
    fn encode(&self) -> Cow<'_, str> {
        self.0.encode()
    }
}

impl<K: GroupKey + ?Sized> GroupKey for Arc<K> {
    fn encode(&self) -> Cow<'_, str> {
        (**self).encode()
    }
}

impl<K: GroupKey + ?Sized> GroupKey for Box<K> {
    fn encode(&self) -> Cow<'_, str> {
        (**self).encode()
    }
}

impl<K: GroupKey + ?Sized> GroupKey for &K {
    fn encode(&self) -> Cow<'_, str> {
        (**self).encode()
    }
}

impl<K: GroupKey> GroupKey for Option<K> {
    /// `none`, or `some:` and the text of the value.
    fn encode(&self) -> Cow<'_, str> {
        match self {
            Some(value) => Cow::Owned(format!("some:{}", value.encode())),
            None => Cow::Borrowed("none"),
        }
    }
}

macro_rules! displayed {
    ($($kind:ty)*) => {
        $(impl GroupKey for $kind {
            fn encode(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        })*
    };
}

displayed!(bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Joins the texts of several values. A slash is only between them.
fn join(parts: &[Cow<'_, str>]) -> Cow<'static, str> {
    let parts = parts.iter().map(|part| part.replace('%', "%25").replace('/', "%2F"));
    Cow::Owned(parts.collect::<Vec<_>>().join("/"))
}

impl<A: GroupKey, B: GroupKey> GroupKey for (A, B) {
    /// The texts of both, a slash between them; `%` and `/` inside of them become `%25` and `%2F`.
    fn encode(&self) -> Cow<'_, str> {
        join(&[self.0.encode(), self.1.encode()])
    }
}

impl<A: GroupKey, B: GroupKey, C: GroupKey> GroupKey for (A, B, C) {
    /// As for two values.
    fn encode(&self) -> Cow<'_, str> {
        join(&[self.0.encode(), self.1.encode(), self.2.encode()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use super::*;

    fn assert_injective<K: GroupKey + Debug + PartialEq>(values: impl IntoIterator<Item = K>) {
        let mut seen: BTreeMap<String, K> = BTreeMap::new();
        for value in values {
            let text = value.encode().into_owned();
            assert!(!text.is_empty(), "{value:?}");
            if let Some(other) = seen.insert(text, value) {
                panic!("{other:?} has the text of another value");
            }
        }
    }

    const TEXTS: [&str; 13] = [
        "", "~", "~~", "~a", "a", "a/b", "/", "a/", "/a", "%", "%2F", "none", "some:a",
    ];

    // [K20] different values have different keys
    #[test]
    fn different_values_have_different_texts() {
        assert_injective(TEXTS);
        assert_injective(TEXTS.map(Some).into_iter().chain([None]));
        assert_injective(
            TEXTS
                .iter()
                .flat_map(|one| TEXTS.iter().map(move |other| (*one, *other))),
        );
        let nested = TEXTS.iter().flat_map(|one| {
            let pairs = TEXTS.iter().map(|other| ((*one, Some(*other)), *other));
            pairs.collect::<Vec<_>>()
        });
        assert_injective(nested);
        assert_injective([-1, 0, 1, 11]);
    }
}
