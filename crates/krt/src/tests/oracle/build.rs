//! Makes the collections of a history in the engine, and reads them for its transformations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::brittle::{Break, Brittle};
use super::history::{Kind, Nested, Object, Recipe};
use super::program::{self, Condition, Reader};
use crate::sync::Mutex;
use crate::{Collection, Context, Index, KeyRef, Keyed, Krt, Lend, Query, RecomputeProtected, Scope, Trigger};

/// A collection and its index by thirds.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) collection: Collection<Object>,
    pub(super) thirds: Index<i64, Object>,
}

impl Node {
    pub(super) fn new(collection: Collection<Object>) -> Self {
        let third = |object: &Object| {
            object.brittle.at(Break::Index);
            object.value.rem_euclid(3)
        };
        let thirds = collection.index_by("thirds", third).unwrap();
        // The first lookup looks at each object by itself: there are none yet.
        assert!(thirds.lookup(&0).is_empty());
        Self { collection, thirds }
    }
}

/// State that is no collection.
#[derive(Clone)]
pub(super) enum State {
    Protected(RecomputeProtected<i64>),
    Trigger(Trigger),
}

impl State {
    pub(super) fn new(krt: &Krt, number: usize, is_protected: bool) -> Self {
        let name = format!("state {number}");
        if is_protected {
            Self::Protected(krt.recompute_protected(name, 0))
        } else {
            Self::Trigger(krt.trigger(name))
        }
    }

    pub(super) fn modify(&self, value: i64) {
        match self {
            Self::Protected(state) => state.modify(|_| value),
            Self::Trigger(trigger) => trigger.fire(),
        }
    }

    pub(super) fn mark_synced(&self) {
        if let Self::Trigger(trigger) = self {
            trigger.mark_synced();
        }
    }
}

/// What transformations share with the test.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) states: Vec<State>,
    /// The runs of the present epoch: (collection, input).
    pub(super) runs: Arc<Mutex<Vec<(usize, String)>>>,
    /// Counts the fetches for which nothing tells where to look.
    pub(super) unindexed: Arc<AtomicU64>,
}

/// Reads through a context of the engine.
struct Real<'a, 'c> {
    world: &'a World,
    cx: &'a mut Context<'c>,
}

impl Real<'_, '_> {
    fn count(&self, conditions: &[Condition]) {
        if !conditions.iter().any(Condition::is_indexed) {
            self.world.unindexed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn query<'q>(node: &'q Node, conditions: &'q [Condition]) -> Query<'q, Object> {
    // An index starts a query, so a condition on it comes first.
    let third = conditions.iter().find_map(|condition| match condition {
        Condition::Thirds(third) => Some(third),
        _ => None,
    });
    let start = third.map_or_else(|| node.collection.query(), |third| node.thirds.at(third));
    conditions.iter().fold(start, |query, condition| match condition {
        Condition::Key(key) => query.key(key),
        Condition::Keys(keys) => query.keys(keys),
        Condition::Name(name) => query.name(name),
        Condition::Namespace(namespace) => query.namespace(namespace),
        Condition::Labels(labels) => query.labels(labels),
        Condition::Selecting(labels) => query.selecting(labels),
        Condition::SelectingNonEmpty(labels) => query.selecting_non_empty(labels),
        Condition::Thirds(_) => query,
        Condition::Where(least) => {
            let least = *least;
            query.where_(move |object| is_at_least(least, object))
        }
        Condition::WhereWith(least) => query.where_with(*least, |least, object| is_at_least(*least, object)),
    })
}

fn is_at_least(least: i64, object: &Object) -> bool {
    object.brittle.at(Break::Filter);
    object.value >= least
}

fn half(object: &Object) -> i64 {
    object.brittle.at(Break::Projection);
    object.value / 2
}

impl Reader for Real<'_, '_> {
    fn objects(&mut self, target: usize, conditions: &[Condition]) -> Vec<Object> {
        self.count(conditions);
        let fetched = self.cx.fetch(query(&self.world.nodes[target], conditions));
        fetched.iter().map(|object| (**object).clone()).collect()
    }

    fn exists(&mut self, target: usize, conditions: &[Condition]) -> bool {
        self.count(conditions);
        self.cx.exists(query(&self.world.nodes[target], conditions))
    }

    fn halves(&mut self, target: usize, conditions: &[Condition]) -> Vec<i64> {
        self.count(conditions);
        let halves = self.cx.fetch_map(query(&self.world.nodes[target], conditions), half);
        halves.iter().map(|half| **half).collect()
    }

    fn state(&mut self, number: usize) -> i64 {
        match &self.world.states[number] {
            State::Protected(state) => *state.get(self.cx),
            State::Trigger(trigger) => {
                // Of the one object that it is.
                self.count(&[]);
                self.cx.depend_on(trigger);
                0
            }
        }
    }

    fn discard(&mut self) {
        self.cx.discard_result();
    }
}

/// Lends a collection.
#[derive(PartialEq)]
struct Lender {
    key: String,
    objects: Collection<Object>,
}

impl Keyed for Lender {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.key)
    }
}

impl Lend<Object> for Lender {
    fn lend(&self) -> &Collection<Object> {
        &self.objects
    }
}

/// A copy in which nothing breaks.
fn target_copy(scope: &Scope, target: &Collection<Object>) -> Collection<Object> {
    scope.collection("copy", target, |_, object| {
        Some(Object {
            brittle: Brittle::default(),
            ..(**object).clone()
        })
    })
}

fn merged(breaks: bool) -> impl Fn(&[Arc<Object>]) -> Option<Object> + Send + Sync + 'static {
    move |objects| program::merge(&objects.iter().map(|object| &**object).collect::<Vec<_>>(), breaks)
}

/// The collection of a recipe, over those that are there.
pub(super) fn derived(krt: &Krt, world: &World, number: usize, recipe: &Recipe) -> Collection<Object> {
    let name = format!("derived {number}");
    let (own, read) = (recipe.clone(), world.clone());
    let transform = move |cx: &mut Context<'_>, key: &str, input: &Object| {
        read.runs.lock().push((number, key.to_owned()));
        program::transform(&own, input, &mut Real { world: &read, cx })
    };
    let node = |number: usize| &world.nodes[number].collection;
    let members = |members: &[usize]| members.iter().map(|member| node(*member).clone()).collect::<Vec<_>>();
    match &recipe.kind {
        Kind::One(input) => krt.collection(&name, node(*input), move |cx, input| {
            transform(cx, &input.key, input).pop()
        }),
        Kind::Many(input) => {
            krt.many_collection(&name, node(*input), move |cx, input| transform(cx, &input.key, input))
        }
        Kind::Nothing => krt.many_from_nothing(&name, move |cx| transform(cx, "", &program::constant())),
        Kind::Map(input) => node(*input).map(&name, program::map),
        Kind::Status(input, shows_status) => {
            let run = move |cx: &mut Context<'_>, input: &Arc<Object>| {
                let outputs = transform(cx, &input.key, input);
                (program::status(&outputs), outputs)
            };
            let (statuses, outputs) = krt.status_many_collection(&name, node(*input), run);
            if *shows_status {
                statuses.map(&name, |one| program::shown(one.object(), *one.status()))
            } else {
                outputs
            }
        }
        Kind::Join(joined, false) => krt.join(&name, members(joined)).into(),
        Kind::Join(joined, true) => krt.join(&name, members(joined)).unchecked(),
        Kind::Group(input) => {
            let groups = world.nodes[*input].thirds.as_collection("groups");
            krt.collection(&name, &groups, |_, group| {
                let members: Vec<_> = group.members().map(|object| &**object).collect();
                Some(program::group(*group.value(), &members))
            })
        }
        Kind::Nested(nested) => nest(krt, world, &name, nested.clone(), recipe.panics),
        Kind::Merge(joined) => krt.join_with_merge(&name, members(joined), merged(recipe.panics)),
    }
}

fn nest(krt: &Krt, world: &World, name: &str, nested: Nested, breaks: bool) -> Collection<Object> {
    let targets = nested.targets.iter();
    let targets: Vec<_> = targets.map(|target| world.nodes[*target].collection.clone()).collect();
    let (input, merges) = (&world.nodes[nested.input].collection, nested.merges);
    let lenders = krt.collection("lenders", input, move |cx, object| {
        let choice = nested.choice(object);
        let target = &targets[choice];
        let objects = if nested.copies {
            cx.scoped(&choice.to_string(), |scope| target_copy(scope, target))
        } else {
            target.clone()
        };
        let key = object.key.clone();
        Some(Lender { key, objects })
    });
    if merges {
        krt.nested_join_with_merge(name, &lenders, merged(breaks))
    } else {
        krt.nested_join(name, &lenders)
    }
}
