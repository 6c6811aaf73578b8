//! Histories of changing graphs as data, and what their transformations do.

use fastrand::Rng;

use crate::{KeyRef, Keyed};

pub(super) const KEYS: [&str; 3] = ["a", "b", "c"];

/// An object of whatever collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) key: String,
    pub(super) value: i64,
    /// What the transformation saw.
    pub(super) trail: String,
}

impl Keyed for Thing {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.key)
    }
}

/// Where the inputs of a collection come from. Numbers are collections; these are earlier ones.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    One(usize),
    Nothing,
    Join(Vec<usize>),
}

#[derive(Debug, Clone)]
pub(super) struct Fetch {
    /// Made only by inputs whose value leaves this rest when divided by three.
    pub(super) only: Option<i64>,
    /// From one of these, by the input's value: any collection there ever is.
    pub(super) targets: Vec<usize>,
    /// By the input's own key, or everything.
    pub(super) by_key: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) fetches: Vec<Fetch>,
    pub(super) depends_on: Option<usize>,
    pub(super) panics: bool,
}

impl Plan {
    /// The collections that it has handles of.
    pub(super) fn held(&self) -> Vec<usize> {
        let mut held = match &self.kind {
            Kind::One(input) => vec![*input],
            Kind::Nothing => Vec::new(),
            Kind::Join(members) => members.clone(),
        };
        held.sort_unstable();
        held.dedup();
        held
    }

    /// What it reads or waits for as long as it lives.
    pub(super) fn sources(&self) -> Vec<usize> {
        self.held().into_iter().chain(self.depends_on).collect()
    }

    /// What an input fetches, and by which key.
    pub(super) fn asks(&self, input: &Thing) -> Vec<(usize, Option<String>)> {
        let made = self
            .fetches
            .iter()
            .filter(|fetch| fetch.only.is_none_or(|rest| input.value.rem_euclid(3) == rest));
        let asks = made.map(|fetch| {
            let which = usize::try_from(input.value).unwrap() % fetch.targets.len();
            (fetch.targets[which], fetch.by_key.then(|| input.key.clone()))
        });
        asks.collect()
    }

    /// What an input gives, given what it fetched; `None` if the collection is not there.
    pub(super) fn output(&self, input: &Thing, fetched: &[Option<Vec<Thing>>]) -> Option<Thing> {
        let (mut sum, mut trail) = (input.value, input.trail.clone());
        for things in fetched {
            let Some(things) = things else {
                trail.push('-');
                continue;
            };
            for thing in things {
                sum += thing.value;
                trail = format!("{trail}{}={}({})", thing.key, thing.value, thing.trail);
            }
            trail.push(';');
        }
        assert!(!self.panics || sum % 8 != 7, "the plan says so");
        (sum % 8 != 5).then(|| Thing {
            key: input.key.clone(),
            value: sum % 8,
            // Trails of trails would grow without bound.
            trail: if trail.len() > 200 { String::new() } else { trail },
        })
    }
}

/// The input of a collection that has none.
pub(super) fn constant() -> Thing {
    Thing {
        key: "n".into(),
        value: 3,
        trail: String::new(),
    }
}

#[derive(Debug, Clone)]
pub(super) enum Write {
    Update(usize, &'static str, i64),
    Delete(usize, &'static str),
    DeleteWhere(usize, i64),
    Reset(usize, Vec<(&'static str, i64)>),
    MarkSynced(usize),
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    /// One write by itself.
    Write(Write),
    /// Several in one transaction.
    Together(Vec<Write>),
    /// The collection of the next plan is made.
    Make,
    /// All handles of a collection are dropped.
    Drop(usize),
    Stop(usize),
    /// A handler of two collections.
    Follow([usize; 2]),
    /// A stream of one.
    Subscribe(usize),
    RunHandlers,
    Step,
}

#[derive(Debug, Clone)]
pub(super) struct History {
    /// Whether each source is synced from the start.
    pub(super) sources: Vec<bool>,
    pub(super) plans: Vec<Plan>,
    pub(super) edits: Vec<Edit>,
}

fn plan(random: &mut Rng, number: usize, all: usize) -> Plan {
    let kind = match random.u32(..8) {
        0 => Kind::Nothing,
        1 => Kind::Join((0..2).map(|_| random.usize(..number)).collect()),
        _ => Kind::One(random.usize(..number)),
    };
    let count = if matches!(kind, Kind::Join(_)) {
        0
    } else {
        random.usize(..4)
    };
    let fetches = (0..count).map(|_| Fetch {
        only: random.bool().then(|| random.i64(0..3)),
        targets: (0..random.usize(1..4)).map(|_| random.usize(..all)).collect(),
        by_key: random.bool(),
    });
    Plan {
        kind,
        fetches: fetches.collect(),
        depends_on: (random.u32(..6) == 0).then(|| random.usize(..number)),
        panics: random.u32(..4) == 0,
    }
}

fn write(random: &mut Rng, sources: usize) -> Write {
    let source = random.usize(..sources);
    let key = random.choice(KEYS).unwrap();
    match random.u32(..12) {
        0..=6 => Write::Update(source, key, random.i64(0..8)),
        7 | 8 => Write::Delete(source, key),
        9 => Write::DeleteWhere(source, random.i64(0..8)),
        10 => Write::Reset(
            source,
            (0..random.usize(..3))
                .map(|_| (random.choice(KEYS).unwrap(), random.i64(0..8)))
                .collect(),
        ),
        _ => Write::MarkSynced(source),
    }
}

impl History {
    pub(super) fn random(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let sources: Vec<_> = (0..random.usize(1..3)).map(|_| random.u32(..3) > 0).collect();
        let count = random.usize(2..8);
        let all = sources.len() + count;
        let plans = (0..count).map(|number| plan(&mut random, sources.len() + number, all));
        let plans = plans.collect();
        let mut edits: Vec<_> = (0..random.usize(..=count)).map(|_| Edit::Make).collect();
        for _ in 0..random.usize(10..60) {
            edits.push(match random.u32(..28) {
                0..=8 => Edit::Write(write(&mut random, sources.len())),
                9..=11 => Edit::Together(
                    (0..random.usize(1..5))
                        .map(|_| write(&mut random, sources.len()))
                        .collect(),
                ),
                12 | 13 => Edit::Make,
                14 => Edit::Drop(random.usize(..all)),
                15 if random.bool() => Edit::Stop(random.usize(..all)),
                16 => Edit::Follow([(); 2].map(|()| random.usize(..all))),
                17 => Edit::Subscribe(random.usize(..all)),
                18 | 19 => Edit::RunHandlers,
                _ => Edit::Step,
            });
        }
        Self { sources, plans, edits }
    }

    /// Histories with something left out.
    pub(super) fn smaller(&self) -> impl Iterator<Item = Self> {
        let edits = self.edits.len();
        let without_edits = [8, 4, 2, 1].into_iter().flat_map(move |length| {
            (0..edits.saturating_sub(length - 1)).map(move |start| {
                let mut smaller = self.clone();
                smaller.edits.drain(start..start + length);
                smaller
            })
        });
        let without_fetches = self.plans.iter().enumerate().flat_map(move |(plan, one)| {
            (0..one.fetches.len()).map(move |fetch| {
                let mut smaller = self.clone();
                smaller.plans[plan].fetches.remove(fetch);
                smaller
            })
        });
        let simpler = (0..self.plans.len()).flat_map(move |plan| {
            [true, false].into_iter().filter_map(move |panics| {
                let mut smaller = self.clone();
                let one = &mut smaller.plans[plan];
                let is_simpler = if panics {
                    std::mem::take(&mut one.panics)
                } else {
                    one.depends_on.take().is_some()
                };
                is_simpler.then_some(smaller)
            })
        });
        without_edits.chain(without_fetches).chain(simpler)
    }
}
