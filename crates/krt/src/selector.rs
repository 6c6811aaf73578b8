//! Label selectors: how objects lend them, and whether they match a set of labels.

use std::borrow::Cow;

use crate::traits::Labels;

/// The selector of an object, as the object lends it.
#[derive(Debug, Clone)]
pub enum SelectorRef<'a> {
    /// Selects nothing: the selector is absent, or cannot be understood.
    Nothing,
    /// Selects every object, also those without labels.
    Everything,
    /// Selects the objects that have all of these labels. Without labels it is the same as [`Everything`](Self::Everything).
    Equals(&'a Labels),
    /// Selects by labels and expressions.
    Expr(Cow<'a, LabelSelector>),
}

/// Labels and expressions that must all be met; without any it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The labels that an object must have.
    pub match_labels: Labels,
    /// What else must be true of its labels.
    pub match_expressions: Vec<Requirement>,
}

/// One expression of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there and has one of these values.
    In(String, Vec<String>),
    /// The label is absent, or has none of these values.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is absent.
    DoesNotExist(String),
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

/// Whether `labels` has everything that is in `wanted`.
pub(crate) fn contains(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl SelectorRef<'_> {
    /// Whether this selector matches an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Equals(wanted) => contains(labels, wanted),
            Self::Expr(selector) => {
                contains(labels, &selector.match_labels)
                    && selector.match_expressions.iter().all(|one| one.matches(labels))
            }
        }
    }

    /// Whether there is no condition, so that it matches every object.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Equals(labels) => labels.is_empty(),
            Self::Expr(selector) => selector.match_labels.is_empty() && selector.match_expressions.is_empty(),
        }
    }

    /// Labels that each matched object has; none if there is no such label.
    pub(crate) fn required(&self) -> Option<&Labels> {
        let labels = match self {
            Self::Nothing | Self::Everything => return None,
            Self::Equals(labels) => labels,
            Self::Expr(selector) => &selector.match_labels,
        };
        (!labels.is_empty()).then_some(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    // [K35] absent selects nothing, empty selects all, expressions as in Kubernetes
    #[test]
    fn selectors_match_as_in_kubernetes() {
        let (none, web, db) = (
            labels(&[]),
            labels(&[("app", "web")]),
            labels(&[("app", "db"), ("tier", "back")]),
        );
        let expr = |requirement| {
            SelectorRef::Expr(Cow::Owned(LabelSelector {
                match_expressions: vec![requirement],
                ..LabelSelector::default()
            }))
        };
        let (app, values) = ("app".to_owned(), ["web", "x"].map(str::to_owned).to_vec());
        // The selector, and whether it matches no labels, app=web, and app=db with a tier.
        let cases = [
            (SelectorRef::Nothing, [false, false, false]),
            (SelectorRef::Everything, [true, true, true]),
            (SelectorRef::Equals(&none), [true, true, true]),
            (SelectorRef::Equals(&web), [false, true, false]),
            (
                SelectorRef::Expr(Cow::Owned(LabelSelector::default())),
                [true, true, true],
            ),
            (expr(Requirement::In(app.clone(), values.clone())), [false, true, false]),
            (expr(Requirement::NotIn(app.clone(), values)), [true, false, true]),
            (expr(Requirement::Exists("tier".into())), [false, false, true]),
            (expr(Requirement::DoesNotExist(app)), [true, false, false]),
        ];
        for (selector, expected) in cases {
            let actual = [&none, &web, &db].map(|labels| selector.matches(labels));
            assert_eq!(actual, expected, "{selector:?}");
        }
    }

    #[test]
    fn only_selectors_without_conditions_are_empty() {
        let (none, web) = (labels(&[]), labels(&[("app", "web")]));
        assert!(SelectorRef::Everything.is_empty());
        assert!(SelectorRef::Equals(&none).is_empty());
        assert!(!SelectorRef::Equals(&web).is_empty());
        assert!(!SelectorRef::Nothing.is_empty());
        assert!(SelectorRef::Expr(Cow::Owned(LabelSelector::default())).is_empty());
    }
}
