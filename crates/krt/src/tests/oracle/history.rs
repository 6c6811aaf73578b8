//! Histories as data: the recipes of a graph, and what is done to it. Alphabets are tiny, so that everything meets everything.

use fastrand::Rng;

use crate::traits::Labels;
use crate::{KeyRef, Keyed, Labeled, Named, Namespaced, Selecting, SelectorRef};

/// The keys of all objects.
pub(super) const KEYS: [&str; 4] = ["a", "b", "x/a", "x/b"];

const PAIRS: [(&str, &str); 3] = [("p", "1"), ("p", "2"), ("q", "1")];

/// An object of whatever collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) value: i64,
    pub(super) labels: Labels,
    pub(super) selector: Option<Labels>,
    /// What the transformation saw, in its order.
    pub(super) trail: String,
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
        self.selector.as_ref().map_or(SelectorRef::Nothing, SelectorRef::Equals)
    }
}

/// How a collection comes about. Numbers are collections; a recipe names only earlier ones.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    One(usize),
    Many(usize),
    Nothing,
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
    pub(super) panics: bool,
    pub(super) discards: bool,
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
    /// A handler of a collection; whether it keeps all batches.
    Handle(usize, bool),
    RunHandlers,
}

#[derive(Debug, Clone)]
pub(super) struct History {
    /// Whether each source is synced from the start.
    pub(super) sources: Vec<bool>,
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

fn object(random: &mut Rng) -> Object {
    Object {
        key: random.choice(KEYS).unwrap().into(),
        value: random.i64(0..8),
        labels: labels(random),
        selector: random.bool().then(|| labels(random)),
        trail: String::new(),
    }
}

fn wanted(random: &mut Rng) -> Wanted {
    match random.u32(..12) {
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

fn recipe(random: &mut Rng, number: usize) -> Recipe {
    let any = |random: &mut Rng| random.usize(..number);
    let some = |random: &mut Rng, count: usize| (0..count).map(|_| any(random)).collect::<Vec<_>>();
    let kind = match random.u32(..13) {
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
    Recipe {
        kind,
        fetches,
        renames: random.u32(..3) == 0,
        coarse: random.u32(..3) == 0,
        panics: random.u32(..4) == 0,
        discards: random.bool(),
    }
}

fn edit(random: &mut Rng, sources: usize, all: usize) -> Edit {
    let source = random.usize(..sources);
    match random.u32(..32) {
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
        28 => Edit::Handle(random.usize(..all), random.bool()),
        _ => Edit::RunHandlers,
    }
}

impl History {
    pub(super) fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let sources: Vec<_> = (0..random.usize(1..4)).map(|_| random.u32(..4) > 0).collect();
        let count = random.usize(1..7);
        let recipes = (0..count)
            .map(|number| recipe(&mut random, sources.len() + number))
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
                _ => edit(&mut random, sources.len(), sources.len() + count),
            };
            edits.push(next);
        }
        Self {
            sources,
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
