//! Histories as data: the recipes of a graph, and what is done to it. Alphabets are tiny, so that everything meets everything.

use std::borrow::Cow;

use fastrand::Rng;

use super::brittle::{Break, Brittle};
use crate::traits::Labels;
use crate::{KeyRef, Keyed, LabelSelector, Labeled, Named, Namespaced, Requirement, Selecting, SelectorRef};

/// The keys of all objects.
pub(super) const KEYS: [&str; 4] = ["a", "b", "x/a", "x/b"];

const PAIRS: [(&str, &str); 3] = [("p", "1"), ("p", "2"), ("q", "1")];

/// An object of whatever collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) value: i64,
    pub(super) labels: Labels,
    pub(super) selector: Option<LabelSelector>,
    /// What the transformation saw, in its order.
    pub(super) trail: String,
    pub(super) brittle: Brittle,
}

impl Object {
    /// Whether this is the same individual. Handlers of some sources are told if it is not.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.value % 2 == other.value % 2
    }

    pub(super) fn namespace_and_name(key: &str) -> (&str, &str) {
        key.split_once('/').unwrap_or(("", key))
    }
}

impl Keyed for Object {
    fn key(&self) -> KeyRef<'_> {
        self.brittle.at(Break::Key);
        let (ns, name) = Self::namespace_and_name(&self.key);
        KeyRef::namespaced(ns, name)
    }
}

impl Named for Object {
    fn name(&self) -> &str {
        Self::namespace_and_name(&self.key).1
    }
}

impl Namespaced for Object {
    fn namespace(&self) -> &str {
        Self::namespace_and_name(&self.key).0
    }
}

impl Labeled for Object {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Selecting for Object {
    fn selector(&self) -> SelectorRef<'_> {
        match &self.selector {
            None => SelectorRef::Nothing,
            Some(selector) if selector.match_expressions.is_empty() => SelectorRef::Equals(&selector.match_labels),
            Some(selector) => SelectorRef::Expr(Cow::Borrowed(selector)),
        }
    }
}

/// How a collection comes about. Numbers are collections; a recipe names only earlier ones.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    One(usize),
    Many(usize),
    Nothing,
    Map(usize),
    /// Statuses and outputs; whether it is the statuses that are looked at.
    Status(usize, bool),
    /// Whether it is said that no key is in two of them.
    Join(Vec<usize>, bool),
    Merge(Vec<usize>),
    /// The groups of thirds.
    Group(usize),
    Nested(Nested),
}

/// A join of what the objects of a collection lend: each one of several collections, by its value.
#[derive(Debug, Clone)]
pub(super) struct Nested {
    pub(super) input: usize,
    pub(super) targets: Vec<usize>,
    pub(super) merges: bool,
    /// What is lent is a copy that the transformation makes.
    pub(super) copies: bool,
}

impl Nested {
    /// Which of the targets an object lends.
    pub(super) fn choice(&self, object: &Object) -> usize {
        usize::try_from(object.value).unwrap() % self.targets.len()
    }
}

/// One condition of a fetch, some of them depending on the input.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    Key(&'static str),
    /// This one and the input's own.
    Keys(&'static str),
    KeyOfValue,
    OwnKey,
    Name,
    Namespace,
    Labels,
    Selecting,
    SelectingNonEmpty,
    Thirds,
    Where(i64),
    WhereWith,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Objects,
    Exists,
    /// The objects' values, halved.
    Halves,
}

#[derive(Debug, Clone)]
pub(super) struct Fetch {
    /// Made only by inputs whose value leaves this rest when divided by three.
    pub(super) only: Option<i64>,
    /// From one of these, by the input's value.
    pub(super) targets: Vec<usize>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) ask: Ask,
}

#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each may or may not be, whatever the others are"
)]
pub(super) struct Recipe {
    pub(super) kind: Kind,
    pub(super) fetches: Vec<Fetch>,
    /// Outputs are named by their value instead of by their input.
    pub(super) renames: bool,
    /// Outputs do not tell what was seen, so that many are equal.
    pub(super) coarse: bool,
    /// Runs panic for some values; of a merge, the merge does.
    pub(super) panics: bool,
    pub(super) discards: bool,
    /// Read by inputs with an even value.
    pub(super) state: Option<usize>,
    /// How some of the outputs break.
    pub(super) breaks: Option<Break>,
}

/// What a handler is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handling {
    pub(super) keeps_all: bool,
    pub(super) panics: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Update(usize, Object),
    Conditional(usize, Object),
    /// Another version, which counts as a change though it be equal, also after a delete.
    Version(usize, Object),
    Delete(usize, &'static str),
    DeleteWhere(usize, i64),
    Reset(usize, Vec<Object>),
    MarkSynced(usize),
    Step,
    Pin,
    Unpin,
    /// Of protected state; a trigger is fired.
    Modify(usize, i64),
    MarkState(usize),
    /// A handler of a collection.
    Handle(usize, Handling),
    /// The first handler goes.
    Unhandle,
    RunHandlers,
}

#[derive(Debug, Clone)]
pub(super) struct History {
    /// Whether each source is synced from the start.
    pub(super) sources: Vec<bool>,
    /// Whether each is protected state, or a trigger.
    pub(super) states: Vec<bool>,
    pub(super) recipes: Vec<Recipe>,
    pub(super) edits: Vec<Edit>,
}

fn labels(random: &mut Rng) -> Labels {
    let mut labels = Labels::new();
    for _ in 0..random.usize(..3) {
        let (key, value) = random.choice(PAIRS).unwrap();
        labels.insert(key.into(), value.into());
    }
    labels
}

/// A label that no two objects share.
const UNIQUE: &str = "u";

fn requirement(random: &mut Rng) -> Requirement {
    let key = random.choice(["p", "q", UNIQUE]).unwrap();
    let values = if key == UNIQUE { &KEYS[..] } else { &["1", "2"] };
    let values: Vec<String> = values
        .iter()
        .filter(|_| random.bool())
        .map(|value| (*value).into())
        .collect();
    match random.u32(..4) {
        0 => Requirement::In(key.into(), values),
        1 => Requirement::NotIn(key.into(), values),
        2 => Requirement::Exists(key.into()),
        _ => Requirement::DoesNotExist(key.into()),
    }
}

fn selector(random: &mut Rng) -> LabelSelector {
    let count = random.usize(..6).saturating_sub(3);
    let mut match_labels = labels(random);
    if random.u32(..6) == 0 {
        match_labels.insert(UNIQUE.into(), random.choice(KEYS).unwrap().into());
    }
    LabelSelector {
        match_labels,
        match_expressions: (0..count).map(|_| requirement(random)).collect(),
    }
}

fn object(random: &mut Rng) -> Object {
    let key = random.choice(KEYS).unwrap();
    let mut labels = labels(random);
    if random.u32(..3) == 0 {
        labels.insert(UNIQUE.into(), key.into());
    }
    Object {
        key: key.into(),
        value: random.i64(0..8),
        labels,
        selector: random.bool().then(|| selector(random)),
        trail: String::new(),
        brittle: Brittle::default(),
    }
}

fn wanted(random: &mut Rng) -> Wanted {
    match random.u32(..13) {
        12 => Wanted::Keys(random.choice(KEYS).unwrap()),
        0 => Wanted::Key(random.choice(KEYS).unwrap()),
        1 => Wanted::KeyOfValue,
        2 => Wanted::OwnKey,
        3 => Wanted::Name,
        4 => Wanted::Namespace,
        5 => Wanted::Labels,
        6 | 7 => Wanted::Selecting,
        8 => Wanted::SelectingNonEmpty,
        9 => Wanted::Thirds,
        10 => Wanted::Where(random.i64(0..8)),
        _ => Wanted::WhereWith,
    }
}

fn recipe(random: &mut Rng, number: usize, states: usize) -> Recipe {
    let any = |random: &mut Rng| random.usize(..number);
    let some = |random: &mut Rng, count: usize| (0..count).map(|_| any(random)).collect::<Vec<_>>();
    let kind = match random.u32(..17) {
        13 => Kind::Map(any(random)),
        14 | 15 => Kind::Status(any(random), random.bool()),
        0..=4 => Kind::One(any(random)),
        5 | 6 => Kind::Many(any(random)),
        7 => Kind::Nothing,
        8 => Kind::Join(some(random, 2), random.bool()),
        9 => Kind::Merge(some(random, 2)),
        10 => Kind::Group(any(random)),
        _ => Kind::Nested(Nested {
            input: any(random),
            targets: some(random, 3),
            merges: random.bool(),
            copies: random.bool(),
        }),
    };
    let fetches = (0..random.usize(..4)).map(|_| Fetch {
        only: random.bool().then(|| random.i64(0..3)),
        targets: {
            let count = random.usize(1..3);
            some(random, count)
        },
        wanted: (0..random.usize(..3)).map(|_| wanted(random)).collect(),
        ask: random
            .choice([Ask::Objects, Ask::Objects, Ask::Exists, Ask::Halves])
            .unwrap(),
    });
    let fetches = fetches.collect();
    let breaks = random.choice([
        Break::Key,
        Break::Equal,
        Break::Drop,
        Break::Index,
        Break::Filter,
        Break::Projection,
    ]);
    // The key of an output beside a status is asked for where the status is known already.
    let can_break = |breaks: &Break| *breaks != Break::Key || !matches!(kind, Kind::Status(..));
    Recipe {
        breaks: breaks.filter(|breaks| random.u32(..3) == 0 && can_break(breaks)),
        state: (states > 0 && random.u32(..3) == 0).then(|| random.usize(..states)),
        kind,
        fetches,
        renames: random.u32(..3) == 0,
        coarse: random.u32(..3) == 0,
        panics: random.u32(..4) == 0,
        discards: random.bool(),
    }
}

fn edit(random: &mut Rng, sources: usize, states: usize, all: usize) -> Edit {
    let source = random.usize(..sources);
    match random.u32(..35) {
        32 | 33 if states > 0 => Edit::Modify(random.usize(..states), random.i64(0..8)),
        34 if states > 0 => Edit::MarkState(random.usize(..states)),
        32 => Edit::Unhandle,
        0..=6 => Edit::Update(source, object(random)),
        7 | 8 => Edit::Version(source, object(random)),
        9..=11 => Edit::Conditional(source, object(random)),
        12..=14 => Edit::Delete(source, random.choice(KEYS).unwrap()),
        15 => Edit::DeleteWhere(source, random.i64(0..8)),
        16 => Edit::Reset(source, (0..random.usize(..4)).map(|_| object(random)).collect()),
        17 => Edit::MarkSynced(source),
        18..=25 => Edit::Step,
        26 => Edit::Pin,
        27 => Edit::Unpin,
        28 => {
            let handling = Handling {
                keeps_all: random.bool(),
                panics: random.u32(..4) == 0,
            };
            Edit::Handle(random.usize(..all), handling)
        }
        _ => Edit::RunHandlers,
    }
}

impl History {
    pub(super) fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let sources: Vec<_> = (0..random.usize(1..4)).map(|_| random.u32(..4) > 0).collect();
        let states: Vec<_> = (0..random.usize(..3)).map(|_| random.bool()).collect();
        let count = random.usize(1..7);
        let recipes = (0..count)
            .map(|number| recipe(&mut random, sources.len() + number, states.len()))
            .collect();
        let mut edits: Vec<Edit> = Vec::new();
        for _ in 0..random.usize(10..60) {
            let repeated = edits
                .last()
                .filter(|last| matches!(last, Edit::Update(..) | Edit::Conditional(..) | Edit::Version(..)));
            let next = match repeated {
                // The same once more, after an epoch: a touch.
                Some(last) if random.u32(..6) == 0 => {
                    let again = last.clone();
                    edits.push(Edit::Step);
                    again
                }
                _ => edit(&mut random, sources.len(), states.len(), sources.len() + count),
            };
            edits.push(next);
        }
        Self {
            sources,
            states,
            recipes,
            edits,
        }
    }

    /// Whether the handlers of a collection are told if another individual has taken a key: those of every other source are.
    pub(super) fn tells_apart(&self, collection: usize) -> bool {
        collection < self.sources.len() && collection % 2 == 1
    }

    /// How many collections there are.
    pub(super) fn len(&self) -> usize {
        self.sources.len() + self.recipes.len()
    }
}
