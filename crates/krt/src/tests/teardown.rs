//! Teardown at size: whatever many collections hold is given back, however they end.

use std::sync::Weak;

use super::nested::lender;
use super::threads::{LONG, block_on};
use super::*;
use crate::{Index, Registration};

const COLUMNS: usize = 50;
const DEPTH: usize = 20;

/// How many objects there are in all; `TEARDOWN=100000` is the whole of it.
fn count() -> usize {
    let given = std::env::var("TEARDOWN").ok();
    given.map_or(5_000, |given| given.parse().unwrap())
}

fn object(number: usize, value: i64) -> Item {
    let app = format!("app-{}", number % 10);
    let item = Item::new(&format!("ns-{}/object-{number}", number % 7), value).labels(&[("app", &app)]);
    item.selecting(&[("app", &app)])
}

/// Columns of collections above their sources, in which each level reads two columns of the one below.
struct Wide {
    sources: Vec<StaticCollection<Item>>,
    /// All collections, in random order.
    collections: Vec<Collection<Item>>,
    indexes: Vec<Index<i64, Item>>,
    handlers: Vec<Registration>,
    /// Each closure has a clone of it.
    token: Arc<()>,
}

/// A collection over two of the level below.
fn above(
    krt: &Krt,
    level: usize,
    own: &Collection<Item>,
    other: &Index<i64, Item>,
    token: &Arc<()>,
) -> Collection<Item> {
    let (name, held) = (format!("level {level}"), Arc::clone(token));
    let neighbour = other.collection().clone();
    match level % 5 {
        1 => {
            let by_value = other.clone();
            krt.collection(name, own, move |cx, item| {
                let _ = &held;
                let near = cx.fetch(by_value.at(&(item.value % 10)).selecting(&item.labels)).len();
                let same = cx.exists(neighbour.query().key(item.key()));
                let value = item.value + i64::try_from(near).unwrap() + i64::from(same);
                Some(Item {
                    value,
                    ..(**item).clone()
                })
            })
        }
        2 => krt.join(name, [own.clone(), neighbour]).into(),
        3 => krt.join_with_merge(name, [own.clone(), neighbour], move |items| {
            let _ = &held;
            let value = items.iter().map(|item| item.value).sum::<i64>() % 1000;
            Some(Item {
                value,
                ..(*items[0]).clone()
            })
        }),
        4 => krt.many_collection(name, own, move |_, item| {
            let _ = &held;
            [(**item).clone()]
        }),
        _ => {
            let lenders = krt.static_collection("lenders", [lender("own", own), lender("other", &neighbour)]);
            krt.nested_join(name, &lenders)
        }
    }
}

impl Wide {
    /// The collections, with so many objects in each.
    fn new(krt: &Krt, each: usize) -> Self {
        let token = Arc::new(());
        let objects =
            |column: usize| (0..each).map(move |number| object(number, i64::try_from(number + column).unwrap()));
        let sources: Vec<_> = (0..COLUMNS)
            .map(|column| krt.static_collection(format!("source {column}"), objects(column)))
            .collect();
        let mut below: Vec<Collection<Item>> = sources.iter().map(|source| (**source).clone()).collect();
        let (mut collections, mut indexes) = (below.clone(), Vec::new());
        for level in 1..DEPTH {
            let by_value = |collection: &Collection<Item>| {
                let held = Arc::clone(&token);
                let by_value = collection.index_by("value", move |item| {
                    let _ = &held;
                    item.value % 10
                });
                by_value.unwrap()
            };
            let others: Vec<_> = below.iter().map(by_value).collect();
            let column = |column: usize| above(krt, level, &below[column], &others[(column + 1) % COLUMNS], &token);
            below = (0..COLUMNS).map(column).collect();
            collections.extend(below.iter().cloned());
            indexes.extend(others);
        }
        // Something of each other kind on top.
        let told = |collection: &Collection<Item>| {
            let held = Arc::clone(&token);
            collection.on_change(move |_| {
                let _ = &held;
            })
        };
        let handlers = collections.iter().step_by(5).map(told).collect();
        let groups = indexes[0].as_collection("groups");
        collections.push(krt.collection("sizes", &groups, |_, group| {
            Some(Item::new(
                &group.key().to_string(),
                i64::try_from(group.members().count()).unwrap(),
            ))
        }));
        let (statuses, outputs) = krt.status_collection("outputs", &below[0], |_, item| {
            (Some(item.value), Some((**item).clone()))
        });
        collections.extend([outputs, statuses.map("statuses", |status| (**status.object()).clone())]);
        fastrand::Rng::with_seed(27).shuffle(&mut collections);
        Self {
            sources,
            collections,
            indexes,
            handlers,
            token,
        }
    }

    /// Weak references to everything that is in the collections.
    fn objects(&self) -> Vec<Weak<Item>> {
        let objects = self.collections.iter().flat_map(Collection::list);
        objects.map(|object| Arc::downgrade(&object)).collect()
    }

    /// Has old versions come about, and dependencies change.
    fn change(&self) {
        for (column, source) in self.sources.iter().enumerate() {
            source.update(object(column % 3, 500));
            source.delete(object(column % 3 + 3, 0).key());
        }
    }
}

fn living(objects: &[Weak<Item>]) -> usize {
    objects.iter().filter(|object| object.strong_count() > 0).count()
}

/// The collections on an engine that is driven, changed while somebody looks at them.
fn driven() -> (Rig, Wide, Vec<Weak<Item>>) {
    let mut rig = Rig::with_strong_hashes();
    let wide = Wide::new(&rig.krt, count() / (COLUMNS * DEPTH));
    rig.stepper.settle();
    let mut objects = wide.objects();
    let pin = rig.krt.snapshot();
    wide.change();
    rig.stepper.settle();
    objects.extend(wide.objects());
    assert!(!pin.list(&wide.collections[0]).is_empty());
    drop(pin);
    rig.stepper.settle();
    assert!(rig.stepper.collections() > 1000 && objects.len() >= count());
    assert!(rig.stepper.handlers() >= 200 && rig.stepper.dependencies().iter().all(|size| *size > 0));
    assert!(Arc::strong_count(&wide.token) > 1000 && wide.collections.iter().all(Collection::has_synced));
    (rig, wide, objects)
}

/// Nothing is left, in any table.
fn assert_nothing_left(rig: &Rig, objects: &[Weak<Item>], token: &Arc<()>) {
    let fresh = Rig::with_strong_hashes();
    assert_eq!(rig.stepper.engine().tables(), fresh.stepper.engine().tables());
    assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (0, 0));
    assert_eq!(rig.stepper.dependencies(), [0; 4]);
    assert_eq!((living(objects), Arc::strong_count(token)), (0, 1));
    rig.stepper.engine().check_invariants();
}

// [K27] [K5] the handles are dropped one after the other, while the engine runs
#[test]
fn a_thousand_collections_leave_nothing_when_they_are_dropped() {
    let (mut rig, wide, objects) = driven();
    let Wide {
        sources,
        mut collections,
        indexes,
        handlers,
        token,
    } = wide;
    drop((indexes, handlers));
    // A part of them first: what others read stays.
    collections.truncate(COLUMNS * DEPTH / 2);
    sources[0].update(object(0, 501));
    rig.stepper.settle();
    rig.stepper.engine().check_invariants();
    assert!(rig.stepper.collections() >= collections.len() && living(&objects) > 0);
    drop((sources, collections));
    rig.stepper.settle();
    assert_nothing_left(&rig, &objects, &token);
}

// [K27] [K38] all of them are stopped: they give back everything but their content, and that with their handles
#[test]
fn a_thousand_collections_leave_nothing_when_they_are_stopped() {
    let (mut rig, wide, objects) = driven();
    let before: Vec<_> = wide.collections.iter().map(content).collect();
    wide.collections.iter().for_each(Collection::stop);
    rig.stepper.settle();
    assert_eq!(rig.stepper.handlers(), 0);
    let Wide {
        sources,
        collections,
        indexes,
        handlers,
        token,
    } = wide;
    drop((indexes, handlers));
    rig.stepper.settle();
    rig.stepper.engine().check_invariants();
    // What is left reads nothing: lenders, and what status collections and groups have below them.
    assert!(rig.stepper.dependencies() == [0; 4] && Arc::strong_count(&token) == 1);
    assert_eq!(collections.iter().map(content).collect::<Vec<_>>(), before, "frozen");
    drop((sources, collections));
    rig.stepper.settle();
    assert_nothing_left(&rig, &objects, &token);
}

// [K27] the engine is ended: what it has goes at once, the content with the handles
#[test]
fn a_thousand_collections_leave_nothing_when_their_engine_ends() {
    let (rig, mut wide, objects) = driven();
    let shared = Arc::downgrade(rig.krt.shared());
    // The handle of an index has its function.
    wide.indexes.clear();
    drop(rig);
    assert_eq!(
        Arc::strong_count(&wide.token),
        1,
        "no transformation, handler or index is left"
    );
    assert!(
        wide.collections.iter().all(|collection| !collection.is_empty()),
        "still readable"
    );
    let token = Arc::clone(&wide.token);
    drop(wide);
    assert_eq!((living(&objects), Arc::strong_count(&token)), (0, 1));
    assert_eq!(shared.strong_count(), 0);
}

// [K27] and so with threads, which are waited for
#[test]
fn a_thousand_collections_leave_nothing_when_their_threads_end() {
    let krt = Krt::builder("test").build();
    let mut wide = Wide::new(&krt, count() / (COLUMNS * DEPTH));
    krt.start().unwrap();
    wide.change();
    krt.wait_settled_blocking(LONG).unwrap();
    let objects = wide.objects();
    assert!(objects.len() >= count() / 2);
    // In the midst of it.
    wide.change();
    block_on(Box::pin(krt.shutdown())).unwrap();
    wide.indexes.clear();
    assert_eq!((Arc::strong_count(&wide.token), krt.shared().pool.threads()), (1, 0));
    let (shared, token) = (Arc::downgrade(krt.shared()), Arc::clone(&wide.token));
    drop((wide, krt));
    assert_eq!(
        (living(&objects), Arc::strong_count(&token), shared.strong_count()),
        (0, 1, 0)
    );
}
