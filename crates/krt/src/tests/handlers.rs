//! Handlers: initial state, removal, merging, panics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

// [K1] starts empty and keeps its name; an early and a late handler see a key once as Added
#[test]
fn early_and_late_handlers_see_the_same() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[]);
    let derived = source.collection_of(&rig.krt, "derived");
    assert_eq!((derived.name(), derived.len()), ("derived", 0));
    let (early, late) = (Log::default(), Log::default());
    let _early = early.follow(&derived);
    rig.settle();
    source.update(Item::new("a/b", 1));
    rig.settle();
    let _late = late.follow(&derived);
    rig.settle();
    assert_eq!(early.take(), ["+a/b=1"]);
    assert_eq!(late.take(), ["+a/b=1"]);
}

// [K3] a removed handler hears nothing
#[test]
fn a_removed_handler_hears_nothing() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let log = Log::default();
    let registration = log.follow(&source);
    rig.settle();
    log.take();
    source.update(Item::new("a", 2));
    rig.step();
    registration.remove();
    rig.settle();
    source.update(Item::new("a", 3));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(rig.stepper.handlers(), 0);
}

// [K3] a registration between creates sees each key exactly once
#[test]
fn a_registration_among_creates_sees_each_key_once() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[]);
    for at in 0..20 {
        let log = Log::default();
        let mut registration = None;
        source.reset([]);
        rig.settle();
        for number in 0..20 {
            if number == at {
                registration = Some(log.follow(&source));
            }
            source.update(Item::new(&format!("k{number:02}"), 0));
            if number % 3 == 0 {
                rig.step();
            }
        }
        rig.settle();
        let expected: Vec<_> = (0..20).map(|number| format!("+k{number:02}=0")).collect();
        assert_eq!(log.take(), expected);
        drop(registration);
    }
}

// [K4] another key is deleted and added, never updated
#[test]
fn a_change_of_key_is_a_delete_and_an_add() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("in", 1)]);
    let derived = rig.krt.collection("derived", &source, |_, item| {
        Some(Item::new(&format!("k{}", item.value), 0))
    });
    let log = Log::default();
    let _handler = log.follow(&derived);
    rig.settle();
    source.update(Item::new("in", 2));
    rig.settle();
    assert_eq!(log.take(), ["+k1=0", "+k2=0", "-k1=0"]);
    assert_eq!(content(&derived), ["k2=0"]);
}

// [K32] a backlog that is merged leads to the state of the epoch that it names, and keep_all does not merge
#[test]
fn a_merged_backlog_leads_to_the_state_of_its_epoch() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("gone", 1), ("back", 1), ("same", 1), ("changed", 1)]);
    let (merged, all) = (Log::default(), Log::default());
    let log = merged.clone();
    let folded: Arc<Mutex<BTreeMap<String, i64>>> = Arc::default();
    let fold = Arc::clone(&folded);
    let _merged = source.handler().merge_over(0).on_batch(move |batch| {
        for event in batch.events() {
            log.add(line(event));
            let key = event.latest().key().to_string();
            let before = fold.lock().remove(&key);
            assert_eq!(
                before,
                event.old().map(|old| old.value),
                "the old object is the one told last"
            );
            if let Some(new) = event.new() {
                fold.lock().insert(key, new.value);
            }
        }
    });
    let log = all.clone();
    let _all = source
        .handler()
        .keep_all()
        .on_batch(move |batch| log.add(format!("{}", batch.len())));
    rig.settle();
    let _ = (merged.take(), all.take());
    let edits: [&[(&str, Option<i64>)]; 4] = [
        &[
            ("gone", Some(2)),
            ("back", None),
            ("same", None),
            ("changed", Some(2)),
            ("new", Some(1)),
        ],
        &[
            ("gone", None),
            ("changed", Some(3)),
            ("new", Some(2)),
            ("short", Some(1)),
        ],
        &[("short", None), ("back", Some(5)), ("same", Some(1))],
        &[("changed", Some(4))],
    ];
    for edits in edits {
        for (key, value) in edits {
            match value {
                Some(value) => source.update(Item::new(key, *value)),
                None => source.delete(*key),
            }
        }
        rig.step();
    }
    rig.settle();
    assert_eq!(merged.take(), ["+new=2", "-gone=1", "back=1>5", "changed=1>4"]);
    assert_eq!(all.take(), ["1", "3", "4", "5"]);
    let now: BTreeMap<_, _> = source
        .list()
        .iter()
        .map(|item| (item.key().to_string(), item.value))
        .collect();
    assert_eq!(*folded.lock(), now);
}

// A touch is told though nothing changed, and is not lost among changes that cancel each other, whichever came first.
#[test]
fn a_touch_is_told_after_merging() {
    let cases = [([1, 2, 1], &["a=1>1"][..]), ([2, 1, 1], &["a=1>1"]), ([2, 3, 1], &[])];
    // Over 5, all three are merged at once; over 0, the first two, and that with the third one.
    for ((values, told), over) in cases.into_iter().flat_map(|case| [(case, 5), (case, 0)]) {
        let mut rig = Rig::new();
        let source = items(&rig, "source", &[("a", 1)]);
        let log = Log::default();
        let logged = log.clone();
        let handler = source.handler().merge_over(over);
        let _handler = handler.on_change(move |event| logged.add(line(event)));
        rig.settle();
        log.take();
        for value in values {
            source.update(Item::new("a", value));
            rig.step();
        }
        rig.settle();
        assert_eq!(log.take(), told, "{values:?}, merged over {over}");
    }
}

thread_local! {
    /// Whose handlers are run by the next one who compares.
    static INTRUDER: std::cell::Cell<Option<Krt>> = const { std::cell::Cell::new(None) };
}

/// Something that has handlers run while it is compared.
#[derive(Clone)]
struct Open(Item);

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        if let Some(krt) = INTRUDER.take() {
            krt.shared().pool.run_waiting();
        }
        self.0 == other.0
    }
}

impl Keyed for Open {
    fn key(&self) -> KeyRef<'_> {
        self.0.key()
    }
}

// The handler finds nothing while the engine merges what waits for it, and is called for it afterwards.
#[test]
fn a_handler_that_comes_while_its_backlog_is_merged_is_called_afterwards() {
    let mut rig = Rig::new();
    let open = |value| Open(Item::new("a", value));
    let source = rig.krt.static_collection("source", [open(0)]);
    let log = Log::default();
    let logged = log.clone();
    let handler = source.handler().merge_over(2);
    let _handler = handler.on_change(move |event| {
        let old = event.old().map_or(-1, |old| old.0.value);
        logged.add(format!("{old}>{}", event.latest().0.value));
    });
    rig.settle();
    assert_eq!(log.take(), ["-1>0"]);
    source.update(open(1));
    rig.step();
    INTRUDER.set(Some(rig.krt.clone()));
    source.update(open(2));
    rig.step();
    assert!(INTRUDER.take().is_none(), "the handler came while this was merged");
    assert_eq!(log.take(), [""; 0]);
    rig.settle();
    assert_eq!(log.take(), ["0>2"]);
}

// [K36] without the initial state
#[test]
fn a_handler_may_skip_the_initial_state() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    rig.settle();
    let log = Log::default();
    let logged = log.clone();
    let registration = source
        .handler()
        .without_initial()
        .on_change(move |event| logged.add(line(event)));
    rig.settle();
    assert!(registration.has_synced());
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["a=1>2"]);
}

#[test]
fn a_handler_that_panics_goes_on_with_the_next_batch() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let log = Log::default();
    let logged = log.clone();
    let registration = source.on_change(move |event| {
        logged.add(line(event));
        assert!(event.latest().value != 1, "unlucky");
    });
    rig.settle();
    assert!(registration.has_synced(), "the batch counts as handled");
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["+a=1", "a=1>2"]);
}

#[test]
fn a_handler_may_write_and_drop_handles() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let copies = items(&rig, "copies", &[]);
    let writes = copies.clone();
    let mut other = Some(source.collection_of(&rig.krt, "other"));
    let _handler = source.on_change(move |event| {
        writes.update((**event.latest()).clone());
        other.take();
    });
    rig.settle();
    assert_eq!(content(&copies), ["a=1"]);
    assert_eq!(rig.stepper.collections(), 2, "the other one has ended");
}

/// An item that counts how often it is compared.
struct Counted(String, Arc<AtomicU64>);

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0 == other.0
    }
}

impl Keyed for Counted {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.0)
    }
}

// A handler that is stuck costs the engine no more than what happens, however much waits for it.
#[test]
fn a_long_backlog_is_not_merged_again_for_each_epoch() {
    let mut rig = Rig::with_strong_hashes();
    let compared = Arc::new(AtomicU64::new(0));
    let item = |number| Counted(format!("k{number}"), Arc::clone(&compared));
    let source = rig.krt.static_collection("source", (0..1000).map(item));
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let told = Arc::clone(&sizes);
    let _handler = source
        .handler()
        .merge_over(0)
        .on_batch(move |batch| told.lock().push(batch.len()));
    rig.settle();
    (0..1000).for_each(|number| source.update(item(number)));
    rig.step();
    for _ in 0..500 {
        source.update(item(7));
        rig.step();
    }
    rig.settle();
    assert_eq!(*sizes.lock(), [1000, 1000]);
    let compared = compared.load(Ordering::Relaxed);
    assert!(compared < 10_000, "{compared} comparisons for 1500 events");
}

// [K5] handlers and streams that come and go are forgotten, even if there is never anything to tell
#[test]
fn handlers_of_a_quiet_collection_leave_nothing() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    rig.settle();
    let registered = |rig: &Rig| {
        let tables = rig.stepper.engine().tables();
        let sinks = tables
            .iter()
            .find(|(name, _)| name == "source")
            .map(|(_, live)| live[2]);
        sinks.unwrap()
    };
    assert_eq!(registered(&rig), 0);
    for _ in 0..100 {
        let (registration, stream) = (Log::default().follow(&source), source.subscribe());
        rig.settle();
        registration.remove();
        drop(stream);
    }
    let _last = Log::default().follow(&source);
    rig.settle();
    assert_eq!(registered(&rig), 1, "the last one has come, and all others are gone");
}

/// Whose key is told, or is not.
struct Moody {
    key: &'static str,
    panics: Arc<AtomicBool>,
}

impl PartialEq for Moody {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl Keyed for Moody {
    fn key(&self) -> KeyRef<'_> {
        assert!(!self.panics.load(Ordering::Relaxed), "no key today");
        self.key.into()
    }
}

// [K32] a backlog is merged by the keys of its objects: those that cannot be told are told one by one, and nothing is lost
#[test]
fn objects_whose_keys_panic_are_not_merged() {
    let mut rig = Rig::new();
    let panics = Arc::new(AtomicBool::new(false));
    let source = rig.krt.static_collection::<Moody>("source", []);
    let log = Log::default();
    let add = log.clone();
    let _handler = source.handler().merge_over(0).on_batch(move |batch| {
        for event in batch.events() {
            let sign = if event.old().is_some() { '>' } else { '+' };
            add.add(format!("{sign}{}", event.latest().key));
        }
    });
    rig.settle();
    for panic_while_merged in [false, true] {
        for key in ["a", "b", "a"] {
            panics.store(false, Ordering::Relaxed);
            source.update(Moody {
                key,
                panics: Arc::clone(&panics),
            });
            panics.store(panic_while_merged, Ordering::Relaxed);
            rig.step();
        }
        rig.settle();
    }
    assert_eq!(log.take(), ["+a", "+b", ">a", ">a", ">b"]);
}
