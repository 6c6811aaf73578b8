//! Label selectors: how objects lend them, whether they match a set of labels, and what they look at in it.

use std::borrow::Cow;

use crate::traits::Labels;

/// The selector of an object, as the object lends it.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What a selector can ask of labels. That may be less than the labels themselves: see [`LabelCut`].
pub(crate) trait Selectable {
    fn has(&self, key: &str, value: &str) -> bool;
    fn has_key(&self, key: &str) -> bool;
}

impl Selectable for Labels {
    fn has(&self, key: &str, value: &str) -> bool {
        self.get(key).is_some_and(|own| own == value)
    }

    fn has_key(&self, key: &str) -> bool {
        self.contains_key(key)
    }
}

/// A key, and its value if that matters.
pub(crate) type CutLabel = (Box<str>, Option<Box<str>>);

/// Of a set of labels, what the selectors that it is compared with look at. Invariant: sorted by key, each key once. The value is
/// `None` if they ask only whether the key is there, or for other values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelCut(pub(crate) Box<[CutLabel]>);

impl LabelCut {
    /// All of the labels.
    pub(crate) fn whole(labels: &Labels) -> Self {
        let owned = labels
            .iter()
            .map(|(key, value)| (key.as_str().into(), Some(value.as_str().into())));
        Self(owned.collect())
    }

    /// Whether it is all of these labels.
    pub(crate) fn is(&self, labels: &Labels) -> bool {
        let own = self.0.iter().map(|(key, value)| (&**key, value.as_deref()));
        own.eq(labels.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()))))
    }

    fn get(&self, key: &str) -> Option<&CutLabel> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        self.0.get(at)
    }
}

impl Selectable for LabelCut {
    fn has(&self, key: &str, value: &str) -> bool {
        self.get(key).is_some_and(|(_, own)| own.as_deref() == Some(value))
    }

    fn has_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// What labels must have to be selected at all, as far as a table can tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Demand<'s> {
    /// Nothing is selected.
    Never,
    /// All of these labels.
    All(&'s Labels),
    /// One of these values of a key.
    OneOf(&'s str, &'s [String]),
    /// A key.
    Key(&'s str),
    /// Nothing in particular.
    Any,
}

impl Requirement {
    fn matches(&self, labels: &impl Selectable) -> bool {
        let any = |key: &String, values: &[String]| values.iter().any(|value| labels.has(key, value));
        match self {
            Self::In(key, values) => any(key, values),
            Self::NotIn(key, values) => !any(key, values),
            Self::Exists(key) => labels.has_key(key),
            Self::DoesNotExist(key) => !labels.has_key(key),
        }
    }
}

/// Whether `labels` has everything that is in `wanted`.
pub(crate) fn contains(labels: &impl Selectable, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.has(key, value))
}

impl SelectorRef<'_> {
    /// Whether this selector matches an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.admits(labels)
    }

    /// Whether this selector matches what `labels` stands for.
    pub(crate) fn admits(&self, labels: &impl Selectable) -> bool {
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

    pub(crate) fn demand(&self) -> Demand<'_> {
        let selector = match self {
            Self::Nothing => return Demand::Never,
            Self::Everything => return Demand::Any,
            Self::Equals(labels) if labels.is_empty() => return Demand::Any,
            Self::Equals(labels) => return Demand::All(labels),
            Self::Expr(selector) => selector,
        };
        if !selector.match_labels.is_empty() {
            return Demand::All(&selector.match_labels);
        }
        let mut demand = Demand::Any;
        for one in &selector.match_expressions {
            match one {
                Requirement::In(key, values) => return Demand::OneOf(key, values),
                Requirement::Exists(key) => demand = Demand::Key(key),
                Requirement::NotIn(..) | Requirement::DoesNotExist(_) => {}
            }
        }
        demand
    }

    /// Calls a function with everything that the selector looks at in labels: pairs, and keys of which it asks only whether they are
    /// there. It cannot tell labels that agree in these from each other.
    pub(crate) fn looks_at(&self, mut each: impl FnMut(&str, Option<&str>)) {
        let (labels, expressions): (&Labels, &[Requirement]) = match self {
            Self::Nothing | Self::Everything => return,
            Self::Equals(labels) => (labels, &[]),
            Self::Expr(selector) => (&selector.match_labels, &selector.match_expressions[..]),
        };
        for (key, value) in labels {
            each(key, Some(value));
        }
        for one in expressions {
            match one {
                Requirement::In(key, values) | Requirement::NotIn(key, values) => {
                    for value in values {
                        each(key, Some(value));
                    }
                }
                Requirement::Exists(key) | Requirement::DoesNotExist(key) => each(key, None),
            }
        }
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
