//! What a collection waits for, said beforehand or found out, and how that is told.

use std::time::Duration;

use super::nested::lender;
use super::threads::{LONG, started};
use super::*;
use crate::{Error, Options, Wait};

/// The explanation as lines.
fn explained<T: Keyed>(collection: &Collection<T>) -> Vec<String> {
    collection.explain_unsynced().iter().map(ToString::to_string).collect()
}

// [K25] a chain: whatever is asked, the blocker is named, and nothing once all is synced
#[test]
fn an_explanation_leads_to_the_blocker() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    let ready = items(&rig, "ready", &[("a", 1)]);
    let middle = source.collection_of(&rig.krt, "middle");
    let last = rig.krt.join("last", [middle, (*ready).clone()]);
    let log = Log::default();
    let registration = log.follow(&last);
    assert_eq!(explained(&last), ["last is not synced: the engine has not seen it yet"]);
    rig.settle();
    assert_eq!(
        explained(&last),
        [
            "last is not synced: it waits for its input middle",
            "middle is not synced: it waits for its input source",
            "source is not synced: its source has not said that its initial content is complete",
        ]
    );
    assert_eq!(explained(&ready), [""; 0]);
    source.update(Item::new("b", 2));
    rig.settle();
    assert_eq!(explained(&last).len(), 3);
    assert!(!registration.has_synced());
    source.mark_synced();
    rig.settle();
    assert_eq!(explained(&last), [""; 0]);
    assert_eq!(log.take(), ["+a=1", "+b=2"], "the whole initial state");
    assert!(registration.has_synced());
}

// [K25] inputs that are parked are named, before the first sync and after it
#[test]
fn an_explanation_names_parked_inputs() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 0), ("c", 3), ("d", 2)]);
    let slow = [1, 2].map(|number| rig.krt.unsynced_collection::<Item>(format!("slow {number}")));
    let fetched = slow.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        for (number, slow) in (0..).zip(&fetched) {
            if item.value >> number & 1 == 1 {
                cx.fetch(slow.query());
            }
        }
        Some((**item).clone())
    });
    rig.settle();
    let waits = |collection: &Collection<Item>| collection.explain_unsynced()[0].waits.clone();
    let fetched = |name: &str, keys: &[&str]| Wait::Fetched {
        collection: name.into(),
        inputs: keys.len(),
        keys: keys.iter().map(ToString::to_string).collect(),
    };
    assert!(!out.explain_unsynced()[0].is_synced);
    assert_eq!(
        waits(&out),
        [fetched("slow 1", &["a", "c"]), fetched("slow 2", &["c", "d"])]
    );
    assert_eq!(explained(&out).len(), 3, "both are explained as well");
    slow[0].mark_synced();
    rig.settle();
    assert_eq!(waits(&out), [fetched("slow 2", &["c", "d"])]);
    for number in 0..20 {
        input.update(Item::new(&format!("e{number}"), 2));
    }
    rig.settle();
    let told = explained(&out);
    assert!(
        told[0].starts_with("out is not synced: it waits for slow 2, fetched by c, d, e"),
        "{told:?}"
    );
    assert!(told[0].ends_with(" and 14 more"), "{told:?}");
    input.delete_where(|item| item.value > 1);
    rig.settle();
    assert!(out.has_synced());
    assert_eq!(explained(&out), [""; 0]);
    input.update(Item::new("b", 2));
    rig.settle();
    assert_eq!(
        explained(&out),
        [
            "out has inputs that wait: it waits for slow 2, fetched by b",
            "slow 2 is not synced: its source has not said that its initial content is complete",
        ]
    );
    assert!(out.explain_unsynced()[0].is_synced);
    slow[1].stop();
    rig.settle();
    assert_eq!(explained(&out), [""; 0]);
    assert_eq!(content(&out), ["a=1", "b=2"]);
}

// [K17] a collection that is made while it is fetched is named, too
#[test]
fn an_explanation_names_what_was_made_inside_of_a_transformation() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let made: Arc<Mutex<Option<StaticCollection<Item>>>> = Arc::default();
    let (krt, place) = (rig.krt.clone(), Arc::clone(&made));
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let made = place
            .lock()
            .get_or_insert_with(|| krt.unsynced_collection("made"))
            .clone();
        cx.fetch(made.query());
        Some((**item).clone())
    });
    rig.step();
    assert_eq!(
        explained(&out),
        ["out is not synced: the engine has not seen it yet"],
        "what it waits for"
    );
    rig.settle();
    assert_eq!(explained(&out)[0], "out is not synced: it waits for made, fetched by a");
    made.lock().as_ref().unwrap().mark_synced();
    rig.settle();
    assert!(out.has_synced());
    assert_eq!(explained(&out), [""; 0]);
    made.lock().take();
}

// [K25] what a collection depends on is waited for, though it is never fetched
#[test]
fn what_a_collection_depends_on_is_waited_for() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let config = rig.krt.unsynced_collection::<Item>("config");
    let runs = Log::default();
    let logged = runs.clone();
    let options = Options::new("out").depends_on(&config);
    let out = rig.krt.collection(options, &input, move |_, item| {
        logged.add("run");
        Some((**item).clone())
    });
    let set = rig
        .krt
        .static_collection(Options::new("set").depends_on(&config), [Item::new("s", 1)]);
    let join = rig
        .krt
        .join(Options::new("join").depends_on(&config), [(*input).clone()]);
    rig.settle();
    assert!(runs.take().is_empty() && !out.has_synced() && !set.has_synced() && !join.has_synced());
    assert!(join.is_empty() && out.is_empty());
    assert_eq!(content(&set), ["s=1"], "a source shows what it has");
    let told = "source has not said that its initial content is complete";
    assert_eq!(
        explained(&out),
        [
            "out is not synced: it waits for config, which it depends on".to_owned(),
            format!("config is not synced: its {told}"),
        ]
    );
    input.update(Item::new("b", 2));
    set.update(Item::new("t", 1));
    rig.settle();
    assert!(out.is_empty());
    config.mark_synced();
    rig.settle();
    assert!(out.has_synced() && set.has_synced() && join.has_synced());
    assert_eq!([content(&out), content(&join)].concat(), ["a=1", "b=2", "a=1", "b=2"]);
    assert_eq!(runs.take().len(), 2);
    config.update(Item::new("c", 1));
    rig.settle();
    assert_eq!(runs.take(), [""; 0], "a change of it concerns nobody");
    drop(config);
    rig.settle();
    assert_eq!(rig.stepper.collections(), 5, "it lives as long as they do");
    drop((out, set, join));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 1);
}

// What is declared comes before the first run, which is not superseded.
#[test]
fn a_declared_dependency_saves_the_superseded_run() {
    let mut rig = Rig::new();
    let top = items(&rig, "top", &[("a", 1)]);
    let deep = top.collection_of(&rig.krt, "middle").collection_of(&rig.krt, "deep");
    let superseded = |options: Options, rig: &mut Rig| {
        let fetched = deep.clone();
        let out = rig.krt.collection(options, &top, move |cx, item| {
            cx.fetch_one(fetched.query().key(item.key()))
                .map(|found| (*found).clone())
        });
        top.update(Item::new("a", 2));
        rig.settle();
        assert_eq!(content(&out), ["a=2"]);
        out.stats().superseded
    };
    rig.settle();
    assert_eq!(superseded("plain".into(), &mut rig), 1);
    assert_eq!(superseded(Options::new("declared").depends_on(&deep), &mut rig), 0);
}

#[test]
#[should_panic(expected = "collection out would depend on one of another Krt")]
fn depending_on_another_engine_is_refused() {
    let (rig, other) = (Rig::new(), Rig::new());
    let foreign = items(&other, "foreign", &[]);
    rig.krt
        .static_collection::<Item>(Options::new("out").depends_on(&foreign), []);
}

// [K1] a collection keeps its name and its metadata, by type
#[test]
fn metadata_is_found_by_its_type() {
    #[derive(Debug, PartialEq)]
    struct Cluster(&'static str);
    let rig = Rig::new();
    let options = || {
        Options::new("named")
            .metadata(Cluster("west"))
            .metadata(7_u32)
            .metadata(Cluster("east"))
    };
    let source = rig.krt.static_collection::<Item>(options(), []);
    let all = [
        (*source).clone(),
        (*rig.krt.unsynced_collection::<Item>(options())).clone(),
        (*rig.krt.static_singleton::<Item>(options(), None)).clone(),
        rig.krt.collection(options(), &source, |_, item| Some((**item).clone())),
        rig.krt
            .many_collection(options(), &source, |_, item| vec![(**item).clone()]),
        source.map(options(), Item::clone),
        (*rig.krt.singleton(options(), |_| None::<Item>)).clone(),
        rig.krt.many_from_nothing(options(), |_| None::<Item>),
        (*rig.krt.join(options(), [(*source).clone()])).clone(),
        rig.krt
            .join_with_merge(options(), [(*source).clone()], |items| Some((*items[0]).clone())),
    ];
    for collection in &all {
        assert_eq!(collection.name(), "named");
        assert_eq!(
            collection.metadata(),
            Some(&Cluster("east")),
            "the last one of its type"
        );
        assert_eq!(collection.metadata(), Some(&7_u32));
        assert_eq!(collection.clone().metadata::<String>(), None);
        assert!(collection.is_empty(), "it starts empty");
    }
}

// [K6] what a function of the user's calls equal is no change
#[test]
fn equality_may_be_the_users() {
    let mut rig = Rig::new();
    let is_same = |one: &Item, other: &Item| {
        assert!(one.value < 90 || other.value > 90, "the user's");
        one.value / 10 == other.value / 10
    };
    let gate = rig.krt.clone();
    let gate = gate.with_eq(is_same);
    let source = gate.static_collection("source", [Item::new("a", 1)]);
    let plain = items(&rig, "plain", &[("a", 1)]);
    let out = gate.collection("out", &plain, |_, item| Some((**item).clone()));
    let many = gate.many_collection("many", &plain, |_, item| [(**item).clone()]);
    let fetched = plain.clone();
    let single = gate.singleton("single", move |cx| {
        cx.fetch_one(fetched.query()).map(|item| (*item).clone())
    });
    let log = Log::default();
    let _handlers = [&*source, &out, &many, &*single].map(|collection| log.follow(collection));
    rig.settle();
    log.take();
    source.conditional_update(Item::new("a", 2));
    plain.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(content(&out), ["a=1"], "the one that is there stays");
    source.conditional_update(Item::new("a", 91));
    plain.update(Item::new("a", 91));
    rig.settle();
    assert_eq!(log.take(), ["a=1>91"; 4]);
    plain.update(Item::new("a", 90));
    rig.settle();
    assert_eq!(log.take(), ["a=91>90"; 3], "a panic is a difference");
}

// [K25] members of a nested join that are not synced are named with who lends them, before the first sync and after it
#[test]
fn an_explanation_names_members_that_wait() {
    const SOURCE: &str = "is not synced: its source has not said that its initial content is complete";
    let mut rig = Rig::new();
    let ready = items(&rig, "ready", &[("a", 1)]);
    let slow = [1, 2].map(|number| rig.krt.unsynced_collection::<Item>(format!("slow {number}")));
    let derived = slow[0].collection_of(&rig.krt, "derived");
    let lenders = rig.krt.unsynced_collection("lenders");
    let join = rig.krt.nested_join("join", &lenders);
    lenders.update(lender("east", &ready));
    lenders.update(lender("west", &derived));
    rig.settle();
    let of_lenders = format!("lenders {SOURCE}");
    assert_eq!(
        explained(&join),
        ["join is not synced: it waits for its input lenders", &of_lenders]
    );
    lenders.mark_synced();
    rig.settle();
    let of_slow = [1, 2].map(|number| format!("slow {number} {SOURCE}"));
    assert_eq!(
        explained(&join),
        [
            "join is not synced: it waits for derived, lent by west",
            "derived is not synced: it waits for its input slow 1",
            &of_slow[0],
        ],
        "the others wait for nothing but this one"
    );
    slow[0].mark_synced();
    rig.settle();
    assert!(join.has_synced());
    assert_eq!(explained(&join), [""; 0]);
    // What east has is to be replaced by what does not come yet, and so is a newcomer's.
    lenders.update(lender("east", &slow[1]));
    lenders.update(lender("north", &slow[1]));
    rig.settle();
    assert_eq!(content(&join), ["a=1"]);
    assert_eq!(
        explained(&join),
        [
            "join has members that wait: it waits for slow 2, lent by east; it waits for slow 2, lent by north",
            &of_slow[1],
        ]
    );
    let told = join.explain_unsynced();
    let member = |lender: &str| Wait::Member {
        collection: "slow 2".into(),
        lender: lender.into(),
    };
    assert!(told[0].is_synced);
    assert_eq!(told[0].waits, ["east", "north"].map(member));
    lenders.delete("north");
    rig.settle();
    assert_eq!(told.len(), 2);
    assert_eq!(join.explain_unsynced()[0].waits, [member("east")]);
    slow[1].mark_synced();
    rig.settle();
    assert_eq!((explained(&join), content(&join)), (Vec::new(), Vec::new()));
}

// [K36] waiting for sync: it comes, it does not come in time, it cannot come any more
#[test]
fn waiting_for_sync_says_what_is_missing() {
    let krt = started();
    let source = krt.unsynced_collection::<Item>("source");
    let derived = source.collection_of(&krt, "derived");
    krt.wait_settled_blocking(LONG).unwrap();
    let error = derived.wait_synced_blocking(Duration::from_millis(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "derived is not synced after 1ms; derived is not synced: it waits for its input source. \
         source is not synced: its source has not said that its initial content is complete"
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| derived.wait_synced_blocking(LONG));
        source.mark_synced();
        waits.join().unwrap().unwrap();
    });
    let never = krt.unsynced_collection::<Item>("never");
    krt.wait_settled_blocking(LONG).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| never.wait_synced_blocking(LONG));
        drop(krt);
        let Err(Error::NotSynced { collection, waits, .. }) = waits.join().unwrap() else {
            panic!("it was synced, or somebody waited in vain");
        };
        assert_eq!((&*collection, &waits[0].waits[0]), ("never", &Wait::Ended));
    });
}
