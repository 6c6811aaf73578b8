//! What a fetch of the model matches, and whom a change concerns: the rules of queries, written naively.

use super::brittle::Break;
use super::history::Object;
use super::model::{Node, State};
use super::program::{Condition, Reader};
use crate::{LabelSelector, Labels, Requirement};

/// What one fetch asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) target: usize,
    conditions: Vec<Condition>,
    ask: Want,
}

#[derive(Debug, Clone, Copy)]
enum Want {
    Objects,
    Exists,
    Halves,
}

fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let meets = |one: &Requirement| match one {
        Requirement::In(key, values) => values.iter().any(|value| labels.get(key) == Some(value)),
        Requirement::NotIn(key, values) => values.iter().all(|value| labels.get(key) != Some(value)),
        Requirement::Exists(key) => labels.get(key).is_some(),
        Requirement::DoesNotExist(key) => labels.get(key).is_none(),
    };
    let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    selector.match_labels.iter().all(has) && selector.match_expressions.iter().all(meets)
}

fn matches(condition: &Condition, object: &Object) -> bool {
    let has = |labels: &Labels, wanted: &Labels| wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
    let (namespace, name) = Object::namespace_and_name(&object.key);
    match condition {
        Condition::Key(key) => object.key == *key,
        Condition::Keys(keys) => keys.contains(&object.key),
        Condition::Name(wanted) => name == wanted,
        Condition::Namespace(wanted) => namespace == wanted,
        Condition::Labels(wanted) => has(&object.labels, wanted),
        Condition::Selecting(labels) => object.selector.as_ref().is_some_and(|own| selects(own, labels)),
        Condition::SelectingNonEmpty(labels) => object.selector.as_ref().is_some_and(|own| {
            let is_empty = own.match_labels.is_empty() && own.match_expressions.is_empty();
            !is_empty && selects(own, labels)
        }),
        Condition::Thirds(third) => object.value.rem_euclid(3) == *third && !object.brittle.breaks_at(Break::Index),
        Condition::Where(least) | Condition::WhereWith(least) => object.value >= *least,
    }
}

impl Asked {
    /// `None`: a closure panics, which is asked only about what everything else lets through.
    fn is_match(&self, object: Option<&Object>) -> Option<bool> {
        let Some(object) = object else {
            return Some(false);
        };
        let is_closure = |one: &&Condition| matches!(one, Condition::Where(_) | Condition::WhereWith(_));
        let (closures, others): (Vec<_>, Vec<_>) = self.conditions.iter().partition(is_closure);
        if closures.is_empty() || !others.iter().all(|one| matches(one, object)) {
            return Some(others.iter().all(|one| matches(one, object)));
        }
        let breaks = object.brittle.breaks_at(Break::Filter);
        (!breaks).then(|| closures.iter().all(|one| matches(one, object)))
    }

    /// Whether a change concerns who asked. What panics concerns him.
    pub(super) fn is_concerned(&self, old: Option<&Object>, new: Option<&Object>) -> bool {
        let (Some(before), Some(after)) = (self.is_match(old), self.is_match(new)) else {
            return true;
        };
        let breaks = |one: Option<&Object>| one.is_some_and(|one| one.brittle.breaks_at(Break::Projection));
        let halves_differ =
            || breaks(old) || breaks(new) || old.map(|one| one.value / 2) != new.map(|one| one.value / 2);
        match self.ask {
            Want::Objects => before || after,
            Want::Exists => before != after,
            Want::Halves => before != after || (before && halves_differ()),
        }
    }
}

/// Reads the model, and notes what is asked.
pub(super) struct Naive<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) all: &'a [State],
    pub(super) asked: Vec<Asked>,
    pub(super) states: Vec<usize>,
    pub(super) discarded: bool,
}

impl Naive<'_> {
    fn ask(&mut self, target: usize, conditions: &[Condition], ask: Want) -> Vec<Object> {
        let asked = Asked {
            target,
            conditions: conditions.to_vec(),
            ask,
        };
        let objects = self.nodes[target].content.values();
        let matched = objects.map(|object| (object, asked.is_match(Some(object))));
        let matched: Vec<_> = matched.collect();
        self.asked.push(asked);
        let matched = matched
            .into_iter()
            .map(|(object, is_match)| (object, is_match.expect("a filter panics")));
        let found = matched.filter(|(_, is_match)| *is_match);
        found.map(|(object, _)| object.clone()).collect()
    }
}

impl Reader for Naive<'_> {
    fn objects(&mut self, target: usize, conditions: &[Condition]) -> Vec<Object> {
        self.ask(target, conditions, Want::Objects)
    }

    fn exists(&mut self, target: usize, conditions: &[Condition]) -> bool {
        !self.ask(target, conditions, Want::Exists).is_empty()
    }

    fn halves(&mut self, target: usize, conditions: &[Condition]) -> Vec<i64> {
        self.ask(target, conditions, Want::Halves)
            .iter()
            .map(|one| {
                assert!(!one.brittle.breaks_at(Break::Projection), "a projection panics");
                one.value / 2
            })
            .collect()
    }

    fn state(&mut self, number: usize) -> i64 {
        self.states.push(number);
        self.all[number].value
    }

    fn discard(&mut self) {
        self.discarded = true;
    }
}
