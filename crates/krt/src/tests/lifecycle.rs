//! Sync along chains, collections that come late, stop, and the end of everything.

use super::*;

// [K25] a chain: handlers of the last get the whole initial state, then it is synced
#[test]
fn a_chain_syncs_whole_from_its_source() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    let middle = source.collection_of(&rig.krt, "middle");
    let last = middle.collection_of(&rig.krt, "last");
    let log = Log::default();
    let registration = log.follow(&last);
    source.update(Item::new("a", 1));
    rig.settle();
    assert!(!last.has_synced() && log.take().is_empty());
    source.update(Item::new("b", 2));
    source.mark_synced();
    rig.settle();
    assert!(last.has_synced() && registration.has_synced());
    assert_eq!(log.take(), ["+a=1", "+b=2"]);
}

// [K17] an input that fetches what is not synced waits; the others go on; a delete works meanwhile
#[test]
fn an_input_that_fetches_what_is_not_synced_is_parked() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0), ("b", 0)]);
    let other = rig.krt.unsynced_collection::<Item>("other");
    let fetched = other.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let sum = if item.value > 0 {
            cx.fetch(fetched.query()).iter().map(|other| other.value).sum()
        } else {
            0
        };
        Some(Item::new(&item.name, item.value + sum))
    });
    rig.settle();
    assert!(out.has_synced(), "a collection that is never fetched is not waited for");
    input.update(Item::new("a", 1));
    input.update(Item::new("b", -1));
    rig.settle();
    assert_eq!(content(&out), ["a=0", "b=-1"], "the last output is kept");
    other.update(Item::new("o", 10));
    rig.settle();
    assert_eq!(content(&out), ["a=0", "b=-1"]);
    other.mark_synced();
    rig.settle();
    assert_eq!(content(&out), ["a=11", "b=-1"]);
}

// [K17] a parked input that is deleted; and before the first sync the whole collection waits
#[test]
fn a_collection_is_not_synced_while_an_input_waits() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 0)]);
    let other = rig.krt.unsynced_collection::<Item>("other");
    let fetched = other.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        if item.value > 0 {
            cx.fetch(fetched.query());
        }
        Some((**item).clone())
    });
    rig.settle();
    assert!(!out.has_synced() && out.is_empty());
    input.delete("a");
    rig.settle();
    assert!(out.has_synced());
    assert_eq!(content(&out), ["b=0"]);
    input.update(Item::new("c", 1));
    rig.settle();
    assert_eq!(content(&out), ["b=0"]);
    input.delete("b");
    rig.settle();
    assert_eq!(content(&out), [""; 0], "a delete works while others wait");
}

// [K17] a collection that is created later, and one that is stopped meanwhile
#[test]
fn a_collection_that_comes_later_is_waited_for() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0)]);
    let later: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let fetched = Arc::clone(&later);
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let later = fetched.lock().clone();
        let found = later.map_or(-1, |later| i64::try_from(cx.fetch(later.query()).len()).unwrap());
        Some(Item::new(&item.name, found))
    });
    rig.settle();
    assert_eq!(content(&out), ["a=-1"]);
    let created = rig.krt.unsynced_collection::<Item>("later");
    created.update(Item::new("x", 1));
    *later.lock() = Some((*created).clone());
    input.update(Item::new("a", 1));
    rig.settle();
    assert_eq!(content(&out), ["a=-1"], "it is not synced");
    created.stop();
    rig.settle();
    assert!(created.has_synced(), "it counts as synced with what it has");
    assert_eq!(content(&out), ["a=1"]);
    later.lock().take();
}

// [K38] stop freezes without a delete
#[test]
fn a_stopped_collection_stays_as_it_is() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let derived = source.collection_of(&rig.krt, "derived");
    let further = derived.collection_of(&rig.krt, "further");
    let log = Log::default();
    let _handlers = (log.follow(&derived), log.follow(&further));
    rig.settle();
    log.take();
    assert!(!derived.is_stopped());
    derived.stop();
    rig.settle();
    assert!(derived.is_stopped() && !further.is_stopped());
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!([content(&derived), content(&further)].concat(), ["a=1", "a=1"]);
    assert_eq!(rig.stepper.handlers(), 1, "its own handlers are gone");
}

// [K38] handlers end with what they follow: if its stop is news because it counts as synced by that, and if they come afterwards
#[test]
fn a_stop_ends_the_handlers_that_are_there_and_that_come() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    source.update(Item::new("a", 1));
    let log = Log::default();
    let before = log.follow(&source);
    let stream = source.handler().subscribe();
    rig.settle();
    assert_eq!(rig.stepper.handlers(), 1);
    source.stop();
    rig.settle();
    assert!(source.has_synced());
    assert_eq!(rig.stepper.handlers(), 0);
    let after = log.follow(&source);
    rig.settle();
    assert_eq!(rig.stepper.handlers(), 0);
    drop((before, stream, after));
}

// [K5] dropping the handles leaves nothing: no handler, index, dependency or collection
#[test]
fn dropping_the_handles_leaves_nothing() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 2)]);
    let other = items(&rig, "other", &[("a", 1)]);
    let by_name = other.index_by("name", |item| item.name.clone()).unwrap();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        cx.fetch(by_name.at(&item.name)).first().map(|item| (**item).clone())
    });
    let join = rig.krt.join("join", [out.clone(), (*other).clone()]);
    let registration = Log::default().follow(&join);
    rig.settle();
    assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (4, 1));
    let object = out.get("a").unwrap();
    drop((input, other, out, join));
    rig.settle();
    assert_eq!(
        rig.stepper.collections(),
        4,
        "the registration keeps the join, which keeps the others"
    );
    drop(registration);
    rig.settle();
    assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (0, 0));
    assert_eq!(rig.stepper.dependencies(), [0; 4]);
    assert_eq!(Arc::strong_count(&object), 1, "only the test still has it");
}

// A collection that is only fetched lives while its dependants fetch it, even if nobody has a handle.
#[test]
fn what_is_fetched_lives_as_long_as_the_dependency() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let lent: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let other = items(&rig, "other", &[("o", 7)]);
    *lent.lock() = Some((*other).clone());
    let fetched = Arc::clone(&lent);
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let other = fetched.lock().clone()?;
        cx.fetch_one(other.query())
            .map(|other| Item::new(&item.name, other.value))
    });
    rig.settle();
    drop(other);
    lent.lock().take();
    rig.settle();
    assert_eq!(rig.stepper.collections(), 3, "out still depends on it");
    assert_eq!(content(&out), ["a=7"]);
    input.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 2);
}

// [K27] many collections, deep, and all of them gone
#[test]
fn a_deep_graph_is_torn_down_whole() {
    let mut rig = Rig::with_strong_hashes();
    let source = rig
        .krt
        .static_collection("source", (0..100).map(|n| Item::new(&format!("k{n}"), n)));
    let mut all: Vec<Collection<Item>> = vec![(*source).clone()];
    for number in 0..200 {
        let at = all.len().saturating_sub(10 + number % 7);
        let (input, other) = (all[at].clone(), all[at / 2].clone());
        all.push(rig.krt.collection(format!("c{number}"), &input, move |cx, item| {
            cx.exists(other.query().key(item.key())).then(|| (**item).clone())
        }));
    }
    rig.settle();
    assert!(
        all.iter()
            .all(|collection| collection.has_synced() && collection.len() == 100)
    );
    source.delete("k5");
    rig.settle();
    assert!(all.iter().all(|collection| collection.len() == 99));
    drop((all, source));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 0);
    assert_eq!(rig.stepper.dependencies(), [0; 4]);
}

#[test]
fn an_index_name_can_be_used_once() {
    let rig = Rig::new();
    let source = items(&rig, "source", &[]);
    let _first = source.index_by("value", |item| item.value).unwrap();
    let error = source.index_by("value", |item| item.value).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("collection source already has an index value, made at "),
        "{text}"
    );
    assert_eq!(text.matches("lifecycle.rs:").count(), 2, "{text}");
}

// [K38] dropping the last handles inside of a transformation
#[test]
fn handles_may_be_dropped_inside_of_a_transformation() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let victim = Mutex::new(Some(input.collection_of(&rig.krt, "victim")));
    let out = rig.krt.collection("out", &input, move |_, item| {
        drop(victim.lock().take());
        Some((**item).clone())
    });
    rig.settle();
    assert_eq!(content(&out), ["a=1"]);
    assert_eq!(rig.stepper.collections(), 2);
}

// [K38] a handler may drop the collection that it is a handler of, and its own registration
#[test]
fn a_handler_may_drop_what_it_follows() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let derived = source.collection_of(&rig.krt, "derived");
    let other = derived.collection_of(&rig.krt, "other");
    let held = Arc::new(Mutex::new(None));
    let (victims, log) = (Arc::clone(&held), Log::default());
    let logged = log.clone();
    let registration = other.on_change(move |event| {
        logged.add(line(event));
        drop(victims.lock().take());
    });
    *held.lock() = Some((derived, other, registration));
    rig.settle();
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["+a=1"], "no delete, and no change after that");
    assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (1, 0));
}

// [K38] a collection may stop itself in a transformation: the present epoch is its last
#[test]
fn a_transformation_may_stop_its_collection() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let own: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let victim = Arc::clone(&own);
    let derived = rig.krt.collection("derived", &source, move |_, item| {
        if item.value > 1
            && let Some(own) = victim.lock().take()
        {
            own.stop();
        }
        Some((**item).clone())
    });
    *own.lock() = Some(derived.clone());
    let log = Log::default();
    let registration = log.follow(&derived);
    rig.settle();
    for value in 2..4 {
        source.update(Item::new("a", value));
        rig.settle();
    }
    assert_eq!(log.take(), ["+a=1", "a=1>2"]);
    assert_eq!((content(&derived), rig.stepper.handlers()), (vec!["a=2".to_owned()], 0));
    drop(registration);
}

// [K38] a stop that is asked for twice at once is one: what it syncs is told
#[test]
fn a_collection_may_be_stopped_twice() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    let derived = source.collection_of(&rig.krt, "derived");
    let log = Log::default();
    let _handler = log.follow(&derived);
    source.update(Item::new("a", 1));
    rig.settle();
    source.stop();
    source.stop();
    rig.settle();
    assert!(source.has_synced() && derived.has_synced());
    assert_eq!(log.take(), ["+a=1"]);
    source.stop();
    rig.settle();
    assert_eq!((content(&derived), log.take()), (vec!["a=1".to_owned()], Vec::new()));
}

#[test]
fn an_engine_shows_its_collections() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[]);
    let derived = source.collection_of(&rig.krt, "derived");
    rig.settle();
    let shown = format!("{:?}", rig.stepper);
    assert!(shown.contains("source") && shown.contains("derived"), "{shown}");
    drop(derived);
    rig.settle();
    assert!(!format!("{:?}", rig.stepper).contains("derived"));
}
