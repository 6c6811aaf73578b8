//! Cycles of collections: refused when they appear, told with their path, allowed again when they are broken.

use super::*;
use crate::Error;

/// A collection that others may fetch before it is made.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<Option<Collection<Item>>>>);

impl Later {
    fn set(&self, collection: &Collection<Item>) {
        *self.0.lock() = Some(collection.clone());
    }

    /// So that no transformation holds a handle any more.
    fn clear(&self) {
        self.0.lock().take();
    }

    /// The first object in it; `None` if it is not there.
    fn first(&self, cx: &mut crate::Context<'_>) -> Option<Arc<Item>> {
        let collection = self.0.lock().clone()?;
        cx.fetch_one(collection.query())
    }
}

/// The paths of a collection's errors, with an input and how many there are.
fn errors(collection: &Collection<Item>) -> Vec<String> {
    let errors = collection.errors().into_iter().map(|error| match error {
        Error::Cycle { path, input, inputs } => format!("{} {input} {inputs}", path.join(" ")),
        other => panic!("{other}"),
    });
    errors.collect()
}

// [K16] the collection carries a typed error with the path from the epoch in which the edge would appear, until it is not asked for
#[test]
fn a_cycle_is_an_error_of_the_collection() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0), ("b", 0), ("c", 0)]);
    let later = Later::default();
    let fetched = later.clone();
    let first = rig.krt.collection("first", &input, move |cx, item| {
        if item.value > 0 {
            fetched.first(cx);
        }
        Some((**item).clone())
    });
    let second = first.collection_of(&rig.krt, "second");
    let third = second.collection_of(&rig.krt, "third");
    later.set(&third);
    rig.settle();
    assert_eq!(errors(&first), [""; 0]);
    let log = Log::default();
    let _handler = log.follow(&third);
    rig.settle();
    log.take();
    input.update(Item::new("a", 1));
    input.update(Item::new("b", -1));
    assert!(rig.step());
    assert_eq!(
        errors(&first),
        ["first third second first a 1"],
        "in the epoch of the edge"
    );
    rig.settle();
    assert_eq!(log.take(), ["b=0>-1"], "everything else works");
    let error = &first.errors()[0];
    assert_eq!(
        error.to_string(),
        "a fetch of a would close the cycle first -> third -> second -> first"
    );
    assert_eq!([errors(&second), errors(&third)].concat(), [""; 0]);
    input.update(Item::new("c", 2));
    rig.settle();
    assert_eq!(errors(&first), ["first third second first a 2"], "one for each path");
    input.delete("a");
    rig.settle();
    assert_eq!(errors(&first), ["first third second first c 1"]);
    input.update(Item::new("c", -2));
    rig.settle();
    assert_eq!(errors(&first), [""; 0]);
    assert_eq!(log.take(), ["-a=0", "c=0>-2"]);
    later.clear();
}

// [K16] collections that are not synced and would wait for each other are a cycle, and both become synced
#[test]
fn waiting_for_each_other_is_a_cycle() {
    for fetches_input in [false, true] {
        let mut rig = Rig::new();
        let source = rig.krt.unsynced_collection::<Item>("source");
        let later = Later::default();
        let fetched = later.clone();
        let first = rig.krt.collection("first", &source, move |cx, item| {
            let found = fetched.first(cx).map_or(-1, |found| found.value);
            Some(Item::new(&item.name, found))
        });
        // It reads the first one as its input, or fetches it.
        let second = if fetches_input {
            let fetched = first.clone();
            rig.krt.collection("second", &source, move |cx, item| {
                let found = cx.fetch_one(fetched.query()).map_or(-1, |found| found.value);
                Some(Item::new(&item.name, found))
            })
        } else {
            first.collection_of(&rig.krt, "second")
        };
        later.set(&second);
        rig.settle();
        source.update(Item::new("a", 1));
        source.mark_synced();
        rig.settle();
        assert!(first.has_synced() && second.has_synced(), "neither waits for ever");
        assert_eq!(first.explain_unsynced(), []);
        assert_eq!(second.explain_unsynced(), []);
        let refused = [errors(&first), errors(&second)].concat();
        assert_eq!(refused.len(), 1, "one of them is refused: {refused:?}");
        later.clear();
    }
}

// [K16] several edges may be refused to one input; each is told
#[test]
fn each_path_is_told() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0)]);
    let (one, two, own) = (Later::default(), Later::default(), Later::default());
    let fetched = (one.clone(), two.clone(), own.clone());
    let first = rig.krt.collection("first", &input, move |cx, item| {
        if item.value == 1 {
            fetched.0.first(cx);
            fetched.1.first(cx);
            fetched.2.first(cx);
        }
        Some((**item).clone())
    });
    let left = first.collection_of(&rig.krt, "left");
    let right = (*rig.krt.join("right", [first.clone(), (*input).clone()])).clone();
    for (later, collection) in [(&one, &left), (&two, &right), (&own, &first)] {
        later.set(collection);
    }
    rig.settle();
    input.update(Item::new("a", 1));
    rig.settle();
    let mut told = errors(&first);
    told.sort();
    assert_eq!(
        told,
        ["first first a 1", "first left first a 1", "first right first a 1"]
    );
    input.update(Item::new("a", 2));
    rig.settle();
    assert_eq!((errors(&first).len(), content(&left)), (0, vec!["a=2".to_owned()]));
    [one, two, own].iter().for_each(Later::clear);
}

// [K16] a cycle through an index, a projection and an existence is one as well, and nothing of it is registered
#[test]
fn every_way_to_ask_may_close_a_cycle() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0), ("b", 1), ("c", 2), ("d", 3)]);
    let later = Later::default();
    let fetched = later.clone();
    let first = rig.krt.collection("first", &input, move |cx, item| {
        let later = fetched.0.lock().clone()?;
        match item.value {
            0 => drop(cx.fetch(later.query().where_(|_| true))),
            1 => drop(cx.fetch_map(later.query(), |item| item.value)),
            2 => drop(cx.exists(later.query().key("x"))),
            _ => drop(cx.has_key(&later, "x")),
        }
        Some((**item).clone())
    });
    let second = first.collection_of(&rig.krt, "second");
    later.set(&second);
    rig.settle();
    assert_eq!(errors(&first), ["first second first a 4"]);
    assert_eq!(rig.stepper.dependencies(), [0; 4]);
    assert!(first.has_synced() && second.has_synced() && second.is_empty());
    later.clear();
}

// [K38] a path is free again when one of its collections is stopped, and when one goes
#[test]
fn a_cycle_is_allowed_once_a_collection_of_its_path_is_stopped() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 5)]);
    let other = items(&rig, "other", &[("o", 7)]);
    let (later, back) = (Later::default(), Later::default());
    let fetched = later.clone();
    let first = rig.krt.collection("first", &input, move |cx, item| {
        let found = fetched.first(cx).map_or(-1, |found| found.value);
        Some(Item::new(&item.name, found))
    });
    back.set(&first);
    let fetched = back.clone();
    let second = rig.krt.collection("second", &other, move |cx, item| {
        fetched.first(cx);
        Some((**item).clone())
    });
    let third = second.collection_of(&rig.krt, "third");
    rig.settle();
    assert_eq!(content(&first), ["a=-1"]);
    later.set(&third);
    input.update(Item::new("a", 6));
    rig.settle();
    assert_eq!(errors(&first), ["first third second first a 1"]);
    second.stop();
    rig.settle();
    assert_eq!(errors(&first), [""; 0]);
    assert_eq!(content(&first), ["a=7"], "it ran again by itself");
    later.clear();
    back.clear();
}

// [K38] what was refused stays refused if there is another way round, and is told with that one
#[test]
fn a_cycle_with_two_ways_is_told_with_the_one_that_is_left() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 5)]);
    let other = items(&rig, "other", &[("one", 1), ("two", 1)]);
    let later = Later::default();
    let fetched = later.clone();
    let first = rig.krt.collection("first", &input, move |cx, item| {
        let found = fetched.first(cx).map_or(-1, |found| found.value);
        Some(Item::new(&item.name, found))
    });
    let [left, right] = ["left", "right"].map(|name| first.collection_of(&rig.krt, name));
    let (one, two) = (left.clone(), right.clone());
    let second = rig.krt.collection("second", &other, move |cx, item| {
        let way = if item.name == "one" { &one } else { &two };
        if item.value > 0 {
            cx.fetch(way.query());
        }
        Some((**item).clone())
    });
    rig.settle();
    later.set(&second);
    input.update(Item::new("a", 6));
    rig.settle();
    let told = errors(&first);
    let (gone, stays) = if told == ["first second left first a 1"] {
        ("one", "right")
    } else {
        assert_eq!(told, ["first second right first a 1"]);
        ("two", "left")
    };
    other.update(Item::new(gone, 0));
    rig.settle();
    assert_eq!(errors(&first), [format!("first second {stays} first a 1")]);
    assert_eq!(first.stats().cycles, 2, "it was tried again");
    other.delete_where(|_| true);
    rig.settle();
    assert_eq!((errors(&first), content(&first)), (vec![], vec!["a=-1".to_owned()]));
    later.clear();
}

// [K16] a stopped collection has no errors, and one that goes leaves none
#[test]
fn the_end_of_a_collection_ends_its_errors() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 5)]);
    let later = Later::default();
    let fetched = later.clone();
    let own = rig.krt.collection("own", &input, move |cx, item| {
        fetched.first(cx);
        Some((**item).clone())
    });
    later.set(&own);
    rig.settle();
    assert_eq!(errors(&own), ["own own a 1"]);
    own.stop();
    rig.settle();
    assert_eq!(errors(&own), [""; 0]);
    assert_eq!(rig.stepper.cycles(), [[""; 0]; 0]);
    later.clear();
}
