//! What holds for every kind of collection: one suite, run for each of them.
//!
//! A kind is a [`Subject`]: it says how an object with a key comes about, and how one is replaced by another. A new kind is a
//! subject, and one line in `conformance!` below.

use std::collections::BTreeSet;
use std::sync::mpsc;

use super::nested::{Lender, lender};
use super::threads::LONG;
use super::*;
use crate::{Group, Groups, StaticSingleton, WithStatus};

/// A kind of collection under test.
trait Subject: Sized {
    type Object: Keyed;
    fn new(krt: &Krt) -> Self;
    fn collection(&self) -> &Collection<Self::Object>;
    /// Has an object with this key come about.
    fn create(&self, key: &str);
    /// Has one object go and another one come, in one epoch.
    fn replace(&self, old: &str, new: &str);
}

/// `+key`, `~key`, `-key`.
fn sign<T: Keyed>(event: &Event<T>) -> String {
    let sign = match event {
        Event::Added(_) => '+',
        Event::Updated { .. } => '~',
        Event::Deleted(_) => '-',
    };
    format!("{sign}{}", event.latest().key())
}

fn follow<T: Keyed>(log: &Log, collection: &Collection<T>) -> crate::Registration {
    let log = log.clone();
    collection.on_change(move |event| log.add(sign(event)))
}

fn keys<T: Keyed>(collection: &Collection<T>) -> Vec<String> {
    let keys = collection
        .list()
        .iter()
        .map(|object| object.key().to_string())
        .collect::<BTreeSet<_>>();
    assert_eq!(keys.len(), collection.len(), "a key twice");
    keys.into_iter().collect()
}

/// K1: it starts empty and keeps its name; an early and a late handler see a key once.
fn starts_empty<S: Subject>() {
    let mut rig = Rig::new();
    let subject = S::new(&rig.krt);
    let (early, late) = (Log::default(), Log::default());
    let first = follow(&early, subject.collection());
    assert!(!first.has_synced());
    rig.settle();
    assert!(subject.collection().is_empty() && subject.collection().has_synced());
    assert!(first.has_synced());
    let name = subject.collection().name().to_owned();
    assert!(name.starts_with("subject"), "{name}");
    subject.create("a/b");
    rig.settle();
    let second = follow(&late, subject.collection());
    rig.settle();
    assert!(second.has_synced());
    assert_eq!(
        (early.take(), late.take()),
        (vec!["+a/b".to_owned()], vec!["+a/b".to_owned()])
    );
    assert!(subject.collection().get("a/b").is_some());
    assert_eq!(keys(subject.collection()), ["a/b"]);
    assert_eq!(subject.collection().name(), name);
}

/// K2: a handler that blocks is never synced; the others go on, and new ones register.
fn outlives_a_handler_that_blocks<S: Subject>() {
    let krt = Krt::builder("test").build();
    let subject = S::new(&krt);
    krt.start().unwrap();
    subject.create("a/b");
    krt.wait_settled_blocking(LONG).unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel();
    let stuck = subject.collection().on_change(move |_| {
        enter.send(()).unwrap();
        // Until the sender is dropped.
        let _ = blocked.recv();
    });
    entered.recv_timeout(LONG).unwrap();
    let listen = || {
        let (tell, told) = mpsc::channel();
        let registration = subject
            .collection()
            .on_change(move |event| tell.send(sign(event)).unwrap());
        (registration, told)
    };
    let (one, told) = listen();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "+a/b");
    subject.create("a/c");
    assert_eq!(told.recv_timeout(LONG).unwrap(), "+a/c");
    let (two, later) = listen();
    let both = [0; 2].map(|_| later.recv_timeout(LONG).unwrap());
    assert_eq!(
        BTreeSet::from(both),
        BTreeSet::from(["+a/b".to_owned(), "+a/c".to_owned()])
    );
    let progress = &krt.shared().progress;
    assert!(progress.block_until(LONG, || one.has_synced() && two.has_synced()));
    assert!(!stuck.has_synced());
    drop(release);
    krt.wait_settled_blocking(LONG).unwrap();
    assert!(stuck.has_synced());
}

/// K3: a handler that is removed hears nothing; one that is registered while objects come hears of each once.
fn tells_each_handler_once<S: Subject>() {
    let mut rig = Rig::new();
    let subject = S::new(&rig.krt);
    let log = Log::default();
    let removed = follow(&log, subject.collection());
    rig.settle();
    subject.create("a/b");
    rig.step();
    removed.remove();
    rig.settle();
    subject.create("a/c");
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(rig.stepper.handlers(), 0);

    let expected: Vec<_> = (0..20).map(|number| format!("+x/{number:02}")).collect();
    for _ in 0..10 {
        let krt = Krt::builder("test").build();
        let subject = S::new(&krt);
        krt.start().unwrap();
        let collection = subject.collection().clone();
        let (log, logged) = (Log::default(), Log::default());
        let registered = std::thread::scope(|scope| {
            let log = &log;
            let registering = scope.spawn(move || follow(log, &collection));
            for number in 0..20 {
                subject.create(&format!("x/{number:02}"));
            }
            registering.join().unwrap()
        });
        let late = follow(&logged, subject.collection());
        krt.wait_settled_blocking(LONG).unwrap();
        assert!(registered.has_synced() && late.has_synced());
        assert_eq!((log.take(), logged.take()), (expected.clone(), expected.clone()));
    }
}

/// K4: another key is deleted and added, never updated; the content agrees.
fn replaces_keys<S: Subject>() {
    let mut rig = Rig::new();
    let subject = S::new(&rig.krt);
    let log = Log::default();
    let _handler = follow(&log, subject.collection());
    subject.create("a/b");
    rig.settle();
    assert_eq!(log.take(), ["+a/b"]);
    subject.replace("a/b", "a/c");
    rig.settle();
    assert_eq!(log.take(), ["+a/c", "-a/b"]);
    assert_eq!(keys(subject.collection()), ["a/c"]);
    assert!(subject.collection().get("a/b").is_none());
}

/// K5: stopped or dropped, it leaves nothing.
fn leaves_nothing<S: Subject>() {
    for is_stopped in [true, false] {
        let mut rig = Rig::new();
        let subject = S::new(&rig.krt);
        let token = Arc::new(());
        let (held, told) = (Arc::clone(&token), Arc::clone(&token));
        let by_key = subject.collection().index_by("key", move |object| {
            let _ = &held;
            object.key().to_string()
        });
        let by_key = by_key.unwrap();
        let handler = subject.collection().on_change(move |_| {
            let _ = &told;
        });
        subject.create("a/b");
        rig.settle();
        assert_eq!((rig.stepper.handlers(), Arc::strong_count(&token)), (1, 3));
        let object = Arc::downgrade(&subject.collection().get("a/b").unwrap());
        if is_stopped {
            subject.collection().stop();
            drop((by_key, handler));
            rig.settle();
            assert_eq!(rig.stepper.handlers(), 0);
            assert_eq!(Arc::strong_count(&token), 1, "its handler and its index are gone");
            assert_eq!(rig.stepper.dependencies(), [0; 4]);
            subject.create("a/c");
            rig.settle();
            assert_eq!(keys(subject.collection()), ["a/b"], "it is frozen");
        } else {
            // Somebody who depends on it, by its index.
            let one = rig.krt.static_singleton("one", Some(Item::new("one", 0)));
            let reader = rig.krt.collection("reader", &one, move |cx, _| {
                let found = cx.fetch(by_key.at("a/b")).len();
                Some(Item::new("found", i64::try_from(found).unwrap()))
            });
            rig.settle();
            assert_eq!(content(&reader), ["found=1"]);
            drop(handler);
            rig.settle();
            assert_ne!(rig.stepper.dependencies(), [0; 4]);
        }
        drop(subject);
        rig.settle();
        assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (0, 0));
        assert_eq!(rig.stepper.dependencies(), [0; 4]);
        assert_eq!(Arc::strong_count(&token), 1);
        assert!(object.upgrade().is_none(), "its objects are gone");
    }
}

/// The suite, for each kind.
macro_rules! conformance {
    ($($name:ident: $subject:ty;)*) => {
        $(mod $name {
            use super::*;

            // [K1] of this kind
            #[test]
            fn it_starts_empty_and_tells_early_and_late_handlers_the_same() {
                starts_empty::<$subject>();
            }

            // [K2] of this kind
            #[test]
            fn it_outlives_a_handler_that_blocks() {
                outlives_a_handler_that_blocks::<$subject>();
            }

            // [K3] of this kind
            #[test]
            fn it_tells_each_handler_each_key_once() {
                tells_each_handler_once::<$subject>();
            }

            // [K4] of this kind
            #[test]
            fn it_replaces_one_key_by_another() {
                replaces_keys::<$subject>();
            }

            // [K5] of this kind
            #[test]
            fn it_leaves_nothing_when_it_is_stopped_or_dropped() {
                leaves_nothing::<$subject>();
            }
        })*
    };
}

conformance! {
    statics: StaticCollection<Item>;
    one: Derived<One>;
    many: Derived<Many>;
    map: Derived<Map>;
    many_from_nothing: Derived<FromNothing>;
    join: Derived<Join>;
    join_unchecked: Derived<Unchecked>;
    join_with_merge: Derived<Merge>;
    nested_join: Derived<Nested>;
    nested_join_with_merge: Derived<NestedMerge>;
    group_by: GroupBy;
    status: Status;
    status_outputs: Derived<StatusOutputs>;
}

// [K4] of a static singleton, which has one object at most
#[test]
fn a_static_singleton_replaces_one_key_by_another() {
    replaces_keys::<StaticSingleton<Item>>();
}

impl Subject for StaticCollection<Item> {
    type Object = Item;

    fn new(krt: &Krt) -> Self {
        krt.static_collection("subject", [])
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

    fn new(krt: &Krt) -> Self {
        krt.static_singleton("subject", None)
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
trait Kind {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item>;
}

/// A collection that is computed from a static one.
struct Derived<K> {
    source: StaticCollection<Item>,
    collection: Collection<Item>,
    kind: std::marker::PhantomData<K>,
}

impl<K: Kind> Subject for Derived<K> {
    type Object = Item;

    fn new(krt: &Krt) -> Self {
        let source = krt.static_collection("source", []);
        Self {
            collection: K::derive(krt, &source),
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

struct One;

impl Kind for One {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        source.collection_of(krt, "subject")
    }
}

struct Many;

impl Kind for Many {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        krt.many_collection("subject", source, |_, item| vec![(**item).clone()])
    }
}

struct Map;

impl Kind for Map {
    fn derive(_: &Krt, source: &Collection<Item>) -> Collection<Item> {
        source.map("subject", Item::clone)
    }
}

struct FromNothing;

impl Kind for FromNothing {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        let source = source.clone();
        krt.many_from_nothing("subject", move |cx| {
            let items = cx.fetch(source.query());
            items.iter().map(|item| (**item).clone()).collect::<Vec<_>>()
        })
    }
}

struct Join;

impl Kind for Join {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        krt.join("subject", [halved(krt, source, 0), halved(krt, source, 1)])
            .into()
    }
}

struct Unchecked;

impl Kind for Unchecked {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        krt.join("subject", [halved(krt, source, 0), halved(krt, source, 1)])
            .unchecked()
    }
}

struct Merge;

impl Kind for Merge {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        let members = [source.clone(), halved(krt, source, 1)];
        krt.join_with_merge("subject", members, |items| Some((*items[0]).clone()))
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

struct Nested;

impl Kind for Nested {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        krt.nested_join("subject", &lenders(krt, source))
    }
}

struct NestedMerge;

impl Kind for NestedMerge {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        let merge = |items: &[Arc<Item>]| Some((*items[0]).clone());
        krt.nested_join_with_merge("subject", &lenders(krt, source), merge)
    }
}

/// Groups by the whole key.
struct GroupBy {
    source: StaticCollection<Item>,
    groups: Groups<String, Item>,
}

impl Subject for GroupBy {
    type Object = Group<String, Item>;

    fn new(krt: &Krt) -> Self {
        let source = krt.static_collection::<Item>("source", []);
        let index = source.index_by("key", |item| item.key().to_string()).unwrap();
        Self {
            groups: index.as_collection("subject"),
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

struct StatusOutputs;

impl Kind for StatusOutputs {
    fn derive(krt: &Krt, source: &Collection<Item>) -> Collection<Item> {
        let run = |_: &mut crate::Context<'_>, item: &Arc<Item>| (Some(item.value), Some((**item).clone()));
        krt.status_collection("subject", source, run).1
    }
}

/// The statuses of a status collection.
struct Status {
    source: StaticCollection<Item>,
    statuses: Collection<WithStatus<Item, i64>>,
}

impl Subject for Status {
    type Object = WithStatus<Item, i64>;

    fn new(krt: &Krt) -> Self {
        let source = krt.static_collection("source", []);
        let run = |_: &mut crate::Context<'_>, item: &Arc<Item>| (Some(item.value), None::<Item>);
        Self {
            statuses: krt.status_collection("subject", &source, run).0,
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
