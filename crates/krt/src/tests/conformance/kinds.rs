//! The kinds of collections that need nothing from outside.

use super::super::nested::{Lender, lender};
use super::*;
use crate::{Group, Groups, RecomputeProtected, Trigger, WithStatus};

impl Subject for StaticCollection<Item> {
    type Object = Item;

    fn new(krt: &Krt, options: Options) -> Self {
        krt.static_collection(options, [])
    }

    fn collection(&self) -> &Collection<Item> {
        self
    }

    fn create(&self, key: &str) {
        self.update(Item::new(key, 1));
    }

    fn replace(&self, old: &str, new: &str) {
        let items = self.list();
        let others = items.iter().filter(|item| item.key() != KeyRef::Plain(old));
        let items: Vec<_> = others.map(|item| (**item).clone()).chain([Item::new(new, 1)]).collect();
        self.reset(items);
    }
}

impl Subject for StaticSingleton<Item> {
    type Object = Item;

    fn new(krt: &Krt, options: Options) -> Self {
        krt.static_singleton(options, None)
    }

    fn collection(&self) -> &Collection<Item> {
        self
    }

    fn create(&self, key: &str) {
        self.set(Item::new(key, 1));
    }

    fn replace(&self, _: &str, new: &str) {
        self.set(Item::new(new, 1));
    }
}

/// Makes a collection with the same keys of a source.
pub(super) trait Kind {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item>;
}

/// A collection that is computed from a static one.
pub(super) struct Derived<K> {
    source: StaticCollection<Item>,
    collection: Collection<Item>,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> Subject for Derived<K> {
    type Object = Item;

    fn new(krt: &Krt, options: Options) -> Self {
        let source = krt.static_collection("source", []);
        Self {
            collection: K::derive(krt, options, &source),
            source,
            kind: std::marker::PhantomData,
        }
    }

    fn collection(&self) -> &Collection<Item> {
        &self.collection
    }

    fn create(&self, key: &str) {
        self.source.create(key);
    }

    fn replace(&self, old: &str, new: &str) {
        self.source.replace(old, new);
    }
}

pub(super) struct One;

impl Kind for One {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        krt.collection(options, source, |_, item| Some((**item).clone()))
    }
}

pub(super) struct Many;

impl Kind for Many {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        krt.many_collection(options, source, |_, item| vec![(**item).clone()])
    }
}

pub(super) struct Map;

impl Kind for Map {
    fn derive(_: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        source.map(options, Item::clone)
    }
}

pub(super) struct FromNothing;

impl Kind for FromNothing {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let source = source.clone();
        krt.many_from_nothing(options, move |cx| {
            let items = cx.fetch(source.query());
            items.iter().map(|item| (**item).clone()).collect::<Vec<_>>()
        })
    }
}

pub(super) struct Join;

impl Kind for Join {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        krt.join(options, [halved(krt, source, 0), halved(krt, source, 1)])
            .into()
    }
}

pub(super) struct Unchecked;

impl Kind for Unchecked {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        krt.join(options, [halved(krt, source, 0), halved(krt, source, 1)])
            .unchecked()
    }
}

pub(super) struct Merge;

impl Kind for Merge {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let members = [source.clone(), halved(krt, source, 1)];
        krt.join_with_merge(options, members, |items| Some((*items[0]).clone()))
    }
}

/// A join of what a transformation makes.
pub(super) struct Children;

impl Kind for Children {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let halves = krt.static_collection("halves", [Item::new("even", 0), Item::new("odd", 1)]);
        let source = source.clone();
        let lenders = krt.collection("lenders", &halves, move |cx, half| {
            let rest = u8::try_from(half.value).unwrap();
            let items = cx.scoped("child", |scope| halved(scope, &source, rest));
            Some(lender(&half.name, &items))
        });
        krt.nested_join(options, &lenders)
    }
}

/// The first item there is.
pub(super) struct OneValue;

impl Kind for OneValue {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let source = source.clone();
        let first = krt.singleton(options, move |cx| Some((*cx.fetch_one(source.query())?).clone()));
        (*first).clone()
    }
}

/// The items whose key ends in an even or an odd byte.
fn halved(krt: &Krt, source: &Collection<Item>, rest: u8) -> Collection<Item> {
    krt.collection("half", source, move |_, item| {
        let last = item.name.bytes().last().unwrap();
        (last % 2 == rest).then(|| (**item).clone())
    })
}

/// The two halves of a source, lent.
fn lenders(krt: &Krt, source: &Collection<Item>) -> StaticCollection<Lender> {
    let half = |name, rest| lender(name, &halved(krt, source, rest));
    krt.static_collection("lenders", [half("even", 0), half("odd", 1)])
}

pub(super) struct Nested;

impl Kind for Nested {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        krt.nested_join(options, &lenders(krt, source))
    }
}

pub(super) struct NestedMerge;

impl Kind for NestedMerge {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let merge = |items: &[Arc<Item>]| Some((*items[0]).clone());
        krt.nested_join_with_merge(options, &lenders(krt, source), merge)
    }
}

/// Groups by the whole key.
pub(super) struct GroupBy {
    source: StaticCollection<Item>,
    groups: Groups<String, Item>,
}

impl Subject for GroupBy {
    type Object = Group<String, Item>;

    fn new(krt: &Krt, options: Options) -> Self {
        let source = krt.static_collection::<Item>("source", []);
        let index = source.index_by("key", |item| item.key().to_string()).unwrap();
        Self {
            groups: index.as_collection(options),
            source,
        }
    }

    fn collection(&self) -> &Collection<Self::Object> {
        &self.groups
    }

    fn create(&self, key: &str) {
        self.source.create(key);
    }

    fn replace(&self, old: &str, new: &str) {
        self.source.replace(old, new);
    }
}

pub(super) struct StatusOutputs;

impl Kind for StatusOutputs {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let run = |_: &mut crate::Context<'_>, item: &Arc<Item>| (Some(item.value), Some((**item).clone()));
        krt.status_collection(options, source, run).1
    }
}

/// The statuses of a status collection.
pub(super) struct Status {
    source: StaticCollection<Item>,
    statuses: Collection<WithStatus<Item, i64>>,
}

impl Subject for Status {
    type Object = WithStatus<Item, i64>;

    fn new(krt: &Krt, options: Options) -> Self {
        let source = krt.static_collection("source", []);
        let run = |_: &mut crate::Context<'_>, item: &Arc<Item>| (Some(item.value), None::<Item>);
        Self {
            statuses: krt.status_collection(options, &source, run).0,
            source,
        }
    }

    fn collection(&self) -> &Collection<Self::Object> {
        &self.statuses
    }

    fn create(&self, key: &str) {
        self.source.create(key);
    }

    fn replace(&self, old: &str, new: &str) {
        self.source.replace(old, new);
    }
}

pub(super) struct ManyStatusOutputs;

impl Kind for ManyStatusOutputs {
    fn derive(krt: &Krt, options: Options, source: &Collection<Item>) -> Collection<Item> {
        let run = |_: &mut crate::Context<'_>, item: &Arc<Item>| (Some(item.value), vec![(**item).clone()]);
        krt.status_many_collection(options, source, run).1
    }
}

/// A collection of state that the engine does not see.
pub(super) struct Triggered {
    state: Arc<Mutex<BTreeSet<String>>>,
    trigger: Trigger,
    collection: Collection<Item>,
}

impl Subject for Triggered {
    type Object = Item;

    fn new(krt: &Krt, options: Options) -> Self {
        let state: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let trigger = krt.trigger("trigger");
        trigger.mark_synced();
        let (read, fired) = (Arc::clone(&state), trigger.clone());
        let collection = krt.many_from_nothing(options, move |cx| {
            cx.depend_on(&fired);
            let state = read.lock();
            state.iter().map(|key| Item::new(key, 1)).collect::<Vec<_>>()
        });
        Self {
            state,
            trigger,
            collection,
        }
    }

    fn collection(&self) -> &Collection<Item> {
        &self.collection
    }

    fn create(&self, key: &str) {
        self.state.lock().insert(key.to_owned());
        self.trigger.fire();
    }

    fn replace(&self, old: &str, new: &str) {
        {
            let mut state = self.state.lock();
            state.remove(old);
            state.insert(new.to_owned());
        }
        self.trigger.fire();
    }
}

/// A collection of state that is protected.
pub(super) struct Protected {
    state: RecomputeProtected<BTreeSet<String>>,
    collection: Collection<Item>,
}

impl Subject for Protected {
    type Object = Item;

    fn new(krt: &Krt, options: Options) -> Self {
        let state = krt.recompute_protected("state", BTreeSet::<String>::new());
        let read = state.clone();
        let collection = krt.many_from_nothing(options, move |cx| {
            let state = read.get(cx);
            state.iter().map(|key| Item::new(key, 1)).collect::<Vec<_>>()
        });
        Self { state, collection }
    }

    fn collection(&self) -> &Collection<Item> {
        &self.collection
    }

    fn create(&self, key: &str) {
        self.state
            .modify(|state| state.iter().cloned().chain([key.to_owned()]).collect());
    }

    fn replace(&self, old: &str, new: &str) {
        self.state.modify(|state| {
            let others = state.iter().filter(|key| *key != old).cloned();
            others.chain([new.to_owned()]).collect()
        });
    }
}
