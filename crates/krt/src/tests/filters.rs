//! Each filter, alone and combined: what it lets through, and which changes concern the one who fetched.

use super::*;
use crate::{Context, Fetched, Read};

/// One input that fetches with a function, and logs each run with what it got.
fn watch(
    rig: &Rig,
    log: &Log,
    fetch: impl Fn(&mut Context<'_>) -> Fetched<Item> + Send + Sync + 'static,
) -> crate::Singleton<Item> {
    let log = log.clone();
    rig.krt.singleton("watch", move |cx| {
        let names: Vec<_> = fetch(cx).iter().map(|item| item.key().to_string()).collect();
        log.add(format!("[{}]", names.join(" ")));
        None
    })
}

/// Applies changes one by one; tells what the run after each of them saw, `-` if there was none.
fn after_each(rig: &mut Rig, log: &Log, changes: &[&dyn Fn()]) -> Vec<String> {
    let after = changes.iter().map(|change| {
        change();
        rig.settle();
        let runs = log.take();
        assert!(runs.len() <= 1, "{runs:?}");
        runs.into_iter().next().unwrap_or_else(|| "-".into())
    });
    after.collect()
}

// [K9] [K15] selectors: empty and absent ones, unlabelled objects, and labels that do not match
#[test]
fn selecting_follows_selectors_that_come_to_match_and_cease_to() {
    for all in [true, false] {
        let mut rig = Rig::new();
        let others = rig.krt.static_collection::<Item>("others", []);
        let log = Log::default();
        let (fetched, own) = (others.clone(), labels(&[("app", "web"), ("tier", "front")]));
        let _watch = watch(&rig, &log, move |cx| {
            let query = fetched.query();
            cx.fetch(if all {
                query.selecting(&own)
            } else {
                query.selecting_non_empty(&own)
            })
        });
        rig.settle();
        assert_eq!(log.take(), ["[]"]);
        let set = |item: Item| {
            let others = others.clone();
            move || others.update(item.clone())
        };
        let seen = after_each(
            &mut rig,
            &log,
            &[
                &set(Item::new("a", 0).selecting(&[("app", "web")])),
                &set(Item::new("b", 0).selecting(&[("app", "db")])),
                &set(Item::new("c", 0)),
                &set(Item::new("d", 0).selecting(&[])),
                &set(Item::new("b", 0).selecting(&[("app", "web"), ("tier", "front")])),
                &set(Item::new("a", 0).selecting(&[("app", "web"), ("tier", "back")])),
                &set(Item::new("d", 0)),
            ],
        );
        let expected = if all {
            ["[a]", "-", "-", "[a d]", "[a b d]", "[b d]", "[b]"]
        } else {
            ["[a]", "-", "-", "-", "[a b]", "[b]", "-"]
        };
        assert_eq!(seen, expected);
    }
}

// [K9] labels, names, namespaces and keys
#[test]
fn other_filters_follow_what_they_name() {
    let mut rig = Rig::new();
    let others = rig.krt.static_collection::<Item>("others", []);
    let log = Log::default();
    let (fetched, own) = (others.clone(), labels(&[("app", "web"), ("tier", "front")]));
    let _labels = watch(&rig, &log, move |cx| cx.fetch(fetched.query().labels(&own)));
    rig.settle();
    log.take();
    let set = |item: Item| {
        let others = others.clone();
        move || others.update(item.clone())
    };
    let seen = after_each(
        &mut rig,
        &log,
        &[
            &set(Item::new("a", 0).labels(&[("app", "web"), ("tier", "front"), ("more", "1")])),
            &set(Item::new("b", 0).labels(&[("app", "web")])),
            &set(Item::new("a", 0).labels(&[("app", "web")])),
        ],
    );
    assert_eq!(seen, ["[a]", "-", "[]"]);

    let mut rig = Rig::new();
    let others = rig.krt.static_collection::<Item>("others", []);
    let (names, spaces, both, keys) = (Log::default(), Log::default(), Log::default(), Log::default());
    let fetched = others.clone();
    let _n = watch(&rig, &names, move |cx| cx.fetch(fetched.query().name("a")));
    let fetched = others.clone();
    let _s = watch(&rig, &spaces, move |cx| cx.fetch(fetched.query().namespace("x")));
    let fetched = others.clone();
    let _b = watch(&rig, &both, move |cx| {
        cx.fetch(fetched.query().namespace("x").name("a"))
    });
    let fetched = others.clone();
    let _k = watch(&rig, &keys, move |cx| cx.fetch(fetched.query().keys(["y/b", "x/a"])));
    rig.settle();
    let logs = [&names, &spaces, &both, &keys];
    let _ = logs.map(Log::take);
    let mut seen = Vec::new();
    for key in ["x/a", "x/b", "y/a", "y/b"] {
        others.update(Item::new(key, 0));
        rig.settle();
        seen.push(logs.map(|log| log.take().join("")));
    }
    assert_eq!(
        seen,
        [
            ["[x/a]", "[x/a]", "[x/a]", "[x/a]"],
            ["", "[x/a x/b]", "", ""],
            ["[x/a y/a]", "", "", ""],
            ["", "", "", "[x/a y/b]"],
        ]
    );
}

// [K9] an index combines with a key and with labels, and follows values that move
#[test]
fn an_index_is_a_condition_like_others() {
    let mut rig = Rig::new();
    let others = items(&rig, "others", &[("a", 1), ("b", 2), ("c", 1)]);
    let by_value = others.index_by("value", |item| item.value).unwrap();
    let (plain, keyed) = (Log::default(), Log::default());
    let index = by_value.clone();
    let _p = watch(&rig, &plain, move |cx| cx.fetch(index.at(&1)));
    let index = by_value.clone();
    let _k = watch(&rig, &keyed, move |cx| cx.fetch(index.at(&1).key("b")));
    rig.settle();
    assert_eq!([plain.take(), keyed.take()].concat(), ["[a c]", "[]"]);
    let mut seen = Vec::new();
    for (key, value) in [("b", 3), ("b", 1), ("a", 5), ("d", 2), ("b", 2)] {
        others.update(Item::new(key, value));
        rig.settle();
        seen.push([plain.take().join(""), keyed.take().join("")]);
    }
    assert_eq!(
        seen,
        [["", ""], ["[a b c]", "[b]"], ["[b c]", ""], ["", ""], ["[c]", "[]"]]
    );
}

/// The value of an index that cannot always be compared.
#[derive(Clone, Eq)]
struct Touchy(i64);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!((self.0, other.0) != (13, 13), "unlucky");
        self.0 == other.0
    }
}

impl std::hash::Hash for Touchy {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

// What cannot be compared is treated as what cannot be extracted: its object leaves the index.
#[test]
fn an_object_leaves_an_index_whose_values_panic() {
    let mut rig = Rig::new();
    let others = items(&rig, "others", &[("a", 1), ("b", 1)]);
    let by_value = others.index_by("value", |item| Touchy(item.value)).unwrap();
    let log = Log::default();
    let _watch = watch(&rig, &log, move |cx| cx.fetch(by_value.at(&Touchy(1))));
    rig.settle();
    assert_eq!(log.take(), ["[a b]"]);
    let mut seen = Vec::new();
    for (key, value) in [("a", 13), ("a", 13), ("b", 13), ("a", 1), ("b", 1)] {
        others.update(Item::new(key, value));
        rig.settle();
        seen.push(log.take().join(""));
    }
    assert_eq!(seen, ["[b]", "", "[]", "[a]", "[a b]"]);
}

// Readers see the same: the first look-up, which asks each object, later ones, and those of an epoch that is held.
#[test]
fn an_object_whose_values_panic_is_not_looked_up() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 13), ("c", 1)]);
    let by_value = source.index_by("value", |item| {
        assert!(item.value != 13, "unlucky");
        item.value
    });
    let by_value = by_value.unwrap();
    rig.settle();
    let found = |found: &crate::Fetched<Item>| found.iter().map(|item| item.name.clone()).collect::<String>();
    assert_eq!(found(&by_value.lookup(&1)), "ac");
    rig.settle();
    assert_eq!(found(&by_value.lookup(&1)), "ac");
    let pin = rig.krt.snapshot();
    source.update(Item::new("b", 1));
    source.update(Item::new("a", 13));
    rig.settle();
    assert_eq!(
        (found(&by_value.lookup(&1)), found(&pin.lookup(&by_value, &1))),
        ("bc".into(), "ac".into())
    );
    source.stop();
    rig.settle();
    assert_eq!(found(&by_value.lookup(&1)), "bc", "of a collection that was stopped");
}

/// A value that counts how often it is made owned.
#[derive(Debug)]
struct Counted(i64, Arc<Mutex<usize>>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        *self.1.lock() += 1;
        Self(self.0, Arc::clone(&self.1))
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl std::hash::Hash for Counted {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

// [K9] values that an index only borrows are made owned once, and found like others
#[test]
fn an_index_owns_a_borrowed_value_once() {
    let mut rig = Rig::new();
    let count = Arc::new(Mutex::new(0));
    let source = items(&rig, "source", &[("a", 1), ("b", 2), ("c", 1)]);
    let counter = Arc::clone(&count);
    let index = source.index_into("values", move |item, keys| {
        keys.push_ref(&Counted(item.value, Arc::clone(&counter)));
        keys.push(Counted(-item.value, Arc::clone(&counter)));
    });
    let index = index.unwrap();
    let (log, at) = (Log::default(), index.clone());
    let wanted = Counted(1, Arc::default());
    let _watch = watch(&rig, &log, move |cx| cx.fetch(at.at(&wanted)));
    rig.settle();
    assert_eq!(log.take(), ["[a c]"]);
    let owned = *count.lock();
    source.update(Item::new("d", 1));
    source.update(Item::new("b", 1));
    rig.settle();
    assert_eq!(log.take(), ["[a b c d]"]);
    assert_eq!(*count.lock(), owned, "all values were known");
    // Outside of the engine, where objects have no numbers.
    let found = Read::fetch(&mut rig.krt.live(), index.at(&Counted(-1, Arc::default())));
    assert_eq!(found.len(), 4);
}

// [K10] a closure next to an indexed fetch: both are right, and the indexed one stays indexed
#[test]
fn a_closure_does_not_make_other_fetches_slower() {
    let mut rig = Rig::new();
    let inputs: Vec<_> = (0..50).map(|number| (format!("i{number:02}"), number)).collect();
    let inputs = rig
        .krt
        .static_collection("inputs", inputs.iter().map(|(name, number)| Item::new(name, *number)));
    let others = items(&rig, "others", &[("o", 7)]);
    let by_value = others.index_by("value", |item| item.value).unwrap();
    let log = Log::default();
    let (index, fetched, runs) = (by_value, others.clone(), log.clone());
    let _out = rig.krt.collection("out", &inputs, move |cx, item| {
        runs.add(&*item.name);
        if item.name == "i49" && item.value == 49 {
            cx.fetch(fetched.query().where_(|item| item.value > 40));
        } else {
            cx.fetch(index.at(&item.value));
        }
        None::<Item>
    });
    rig.settle();
    log.take();
    others.update(Item::new("o", 8));
    rig.settle();
    assert_eq!(log.take(), ["i07", "i08"]);
    others.update(Item::new("o", 45));
    rig.settle();
    assert_eq!(log.take(), ["i08", "i45", "i49"]);
    inputs.update(Item::new("i49", 48));
    rig.settle();
    assert_eq!(log.take(), ["i49"]);
    others.update(Item::new("o", 48));
    rig.settle();
    assert_eq!(
        log.take(),
        ["i45", "i48", "i49"],
        "by its new value; the closure is gone"
    );
}

// [K10] how many dependencies a change asks is that of those it may concern
#[test]
fn a_change_asks_only_the_dependencies_in_its_rows() {
    let mut rig = Rig::with_strong_hashes();
    let inputs = rig
        .krt
        .static_collection("inputs", (0..100).map(|n| Item::new(&format!("i{n}"), n)));
    let others = items(&rig, "others", &[("o", 7)]);
    let by_value = others.index_by("value", |item| item.value).unwrap();
    let fetched = others.clone();
    let _out = rig.krt.collection("out", &inputs, move |cx, item| {
        cx.fetch(by_value.at(&item.value));
        if item.value == 0 {
            cx.fetch(fetched.query().where_(|_| false));
        }
        None::<Item>
    });
    rig.settle();
    let before = rig.stepper.engine().deps().counters;
    others.update(Item::new("o", 8));
    rig.settle();
    let after = rig.stepper.engine().deps().counters;
    assert_eq!(
        after.asked - before.asked,
        3,
        "the old value's, the new value's, and the closure"
    );
    assert_eq!(after.concerned - before.concerned, 2);
}

// [K11] a change outside of the projection concerns nobody; exists follows only its answer
#[test]
fn projections_and_exists_follow_only_what_they_asked() {
    let mut rig = Rig::new();
    let others = items(&rig, "others", &[("a", 12), ("b", 25)]);
    let log = Log::default();
    let (fetched, runs) = (others.clone(), log.clone());
    let _tens = rig.krt.singleton("tens", move |cx| {
        let tens = cx.fetch_map(fetched.query(), |item| item.value / 10);
        runs.add(format!("tens {:?}", tens.iter().map(|ten| **ten).collect::<Vec<_>>()));
        None::<Item>
    });
    let (fetched, runs) = (others.clone(), log.clone());
    let _exists = rig.krt.singleton("exists", move |cx| {
        let exists = cx.exists(fetched.query().where_with(30, |least, item| item.value >= *least));
        runs.add(format!("exists {exists}"));
        None::<Item>
    });
    rig.settle();
    assert_eq!(log.take(), ["exists false", "tens [1, 2]"]);
    let mut seen = Vec::new();
    for (key, value) in [("a", 15), ("a", 21), ("b", 35), ("b", 38), ("a", 31), ("b", 1)] {
        others.update(Item::new(key, value));
        rig.settle();
        seen.push(log.take());
    }
    let expected: [&[&str]; 6] = [
        &[],
        &["tens [2, 2]"],
        &["exists true", "tens [2, 3]"],
        &[],
        // Another match came, which may have been the first for all that the change tells.
        &["exists true", "tens [3, 3]"],
        &["exists true", "tens [3, 0]"],
    ];
    assert_eq!(seen, expected);
}

// A thousand inputs with the same query share one dependency.
#[test]
fn equal_queries_share_a_dependency() {
    let mut rig = Rig::new();
    let inputs = rig
        .krt
        .static_collection("inputs", (0..100).map(|n| Item::new(&format!("i{n}"), n)));
    let selecting = Item::new("o", 1).selecting(&[("app", "even")]);
    let others = rig.krt.static_collection("others", [selecting]);
    let fetched = others.clone();
    let out = rig.krt.collection("out", &inputs, move |cx, item| {
        let wanted = labels(&[("app", if item.value % 2 == 0 { "even" } else { "odd" })]);
        let count = cx.fetch(fetched.query().selecting(&wanted)).len();
        let more = cx.exists(
            fetched
                .query()
                .where_with(item.value % 5, |value, other| other.value == *value),
        );
        Some(Item::new(&item.name, i64::try_from(count).unwrap() + i64::from(more)))
    });
    rig.settle();
    assert_eq!(rig.stepper.dependencies()[..2], [2 + 5, 200]);
    assert_eq!(out.len(), 100);
    inputs.reset([]);
    rig.settle();
    assert_eq!(rig.stepper.dependencies(), [0; 4]);
}

/// Something whose namespace and name are no part of its key.
#[derive(Debug, Clone, PartialEq)]
struct Moving {
    namespace: &'static str,
    name: &'static str,
}

impl Keyed for Moving {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain("moving")
    }
}

impl Namespaced for Moving {
    fn namespace(&self) -> &str {
        self.namespace
    }
}

impl Named for Moving {
    fn name(&self) -> &str {
        self.name
    }
}

// [K9] an object that leaves a namespace or a name under its key concerns those who fetched from there, and those where it comes
#[test]
fn an_object_that_moves_concerns_both_sides() {
    let mut rig = Rig::with_strong_hashes();
    let here = Moving {
        namespace: "x",
        name: "a",
    };
    let source = rig.krt.static_collection("source", [here.clone()]);
    let places = items(&rig, "places", &[("x", 0), ("y", 0), ("a", 0), ("b", 0)]);
    let (log, fetched) = (Log::default(), source.clone());
    let seen = log.clone();
    let _watch = rig.krt.collection("watch", &places, move |cx, place| {
        let query = fetched.query();
        let found = if ["x", "y"].contains(&place.name.as_str()) {
            cx.fetch(query.namespace(&place.name))
        } else {
            cx.fetch(query.name(&place.name))
        };
        seen.add(format!("{} {}", place.name, found.len()));
        None::<Item>
    });
    rig.settle();
    assert_eq!(log.take(), ["a 1", "b 0", "x 1", "y 0"]);
    source.update(Moving {
        namespace: "y",
        ..here.clone()
    });
    rig.settle();
    assert_eq!(log.take(), ["a 1", "x 0", "y 1"]);
    source.update(Moving {
        namespace: "y",
        name: "b",
    });
    rig.settle();
    assert_eq!(log.take(), ["a 0", "b 1", "y 1"]);
}
