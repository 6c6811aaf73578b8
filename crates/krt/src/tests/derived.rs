//! Collections computed from others: outputs, dependencies, claims, panics, cycles.

use super::*;

/// Counts each run of the transformation as `run KEY`.
fn sums(rig: &Rig, log: &Log, input: &Collection<Item>, other: &Collection<Item>) -> Collection<Item> {
    let (log, other) = (log.clone(), other.clone());
    rig.krt.collection("sums", input, move |cx, item| {
        log.add(format!("run {}", item.name));
        let sum: i64 = cx.fetch(other.query()).iter().map(|other| other.value).sum();
        Some(Item::new(&item.name, item.value + sum))
    })
}

// [K6] None hides; None after Some deletes; a late handler gets the state; an equal result is silent
#[test]
fn an_output_appears_changes_and_goes_with_the_result() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", -1)]);
    let positive = rig.krt.collection("positive", &input, |_, item| {
        (item.value > 0).then(|| Item::new(&item.name, item.value / 10))
    });
    let log = Log::default();
    let _early = log.follow(&positive);
    rig.settle();
    assert_eq!(log.take(), ["+a=0"]);
    input.update(Item::new("b", 20));
    rig.settle();
    assert_eq!(log.take(), ["+b=2"]);
    input.update(Item::new("b", 21));
    rig.settle();
    assert_eq!(log.take(), [""; 0], "an equal result is no event");
    input.update(Item::new("a", -1));
    rig.settle();
    assert_eq!(log.take(), ["-a=0"]);
    let late = Log::default();
    let _late = late.follow(&positive);
    rig.settle();
    assert_eq!(late.take(), ["+b=2"]);
}

// [K7] endpoints of services follow changes of services and pods, and labels that move
#[test]
fn a_join_of_two_collections_follows_both() {
    let mut rig = Rig::new();
    let services = rig
        .krt
        .static_collection("services", [Item::new("x/web", 0).selecting(&[("app", "web")])]);
    let pods = rig
        .krt
        .static_collection("pods", [Item::new("x/p", 1).labels(&[("app", "web")])]);
    let all = pods.clone();
    let endpoints = rig.krt.collection("endpoints", &services, move |cx, service| {
        let selector = service.selector.clone()?;
        let pods = cx.fetch(all.query().namespace(&service.ns).labels(&selector));
        Some(Item::new(&service.name, pods.iter().map(|pod| pod.value).sum()))
    });
    rig.settle();
    assert_eq!(content(&endpoints), ["web=1"]);
    pods.update(Item::new("x/q", 10).labels(&[("app", "web"), ("tier", "front")]));
    pods.update(Item::new("y/r", 100).labels(&[("app", "web")]));
    rig.settle();
    assert_eq!(
        content(&endpoints),
        ["web=11"],
        "the namespace is one of the conditions"
    );
    pods.update(Item::new("x/q", 10).labels(&[("app", "db")]));
    rig.settle();
    assert_eq!(content(&endpoints), ["web=1"]);
    services.update(Item::new("x/web", 0).selecting(&[("app", "db")]));
    rig.settle();
    assert_eq!(content(&endpoints), ["web=10"]);
    pods.update(Item::new("x/p", 1).labels(&[("app", "db")]));
    rig.settle();
    assert_eq!(content(&endpoints), ["web=11"], "a pod's labels add it");
    pods.update(Item::new("x/p", 1).labels(&[("app", "web")]));
    rig.settle();
    pods.delete("x/q");
    rig.settle();
    assert_eq!(content(&endpoints), ["web=0"]);
}

// [K8] in a diamond, the lower end is computed once for each change of the upper one, and never from a mix
#[test]
fn a_diamond_is_computed_once_and_never_mixed() {
    let mut rig = Rig::new();
    let top = items(&rig, "top", &[("a", 1)]);
    let left = rig
        .krt
        .collection("left", &top, |_, item| Some(Item::new(&item.name, item.value * 2)));
    let log = Log::default();
    let (fetched, runs) = (left.clone(), log.clone());
    let right = rig.krt.collection("right", &top, move |cx, item| {
        let left = cx.fetch_one(fetched.query().key(item.key()))?;
        runs.add(format!("{} with {}", item.value, left.value));
        Some(Item::new(&item.name, item.value * 100 + left.value))
    });
    rig.settle();
    log.take();
    for value in 2..20 {
        top.update(Item::new("a", value));
        rig.settle();
        assert_eq!(log.take(), [format!("{value} with {}", value * 2)]);
        assert_eq!(content(&right), [format!("a={}", value * 102)]);
    }
}

// [K8] a fetch that is made for the first time, from a collection that is yet to be computed, does not mix either
#[test]
fn a_first_fetch_of_what_is_not_final_is_run_again_higher() {
    let mut rig = Rig::new();
    let top = items(&rig, "top", &[("a", 1)]);
    let mut deep = top.collection_of(&rig.krt, "deep 0");
    for level in 1..4 {
        deep = deep.collection_of(&rig.krt, &format!("deep {level}"));
    }
    let log = Log::default();
    let (fetched, runs) = (deep.clone(), log.clone());
    let out = rig.krt.collection("out", &top, move |cx, item| {
        if item.value < 5 {
            return Some(Item::new(&item.name, 0));
        }
        let deep = cx.fetch_one(fetched.query().key("a"))?;
        runs.add(format!("{} with {}", item.value, deep.value));
        Some(Item::new(&item.name, deep.value))
    });
    let events = Log::default();
    let _handler = events.follow(&out);
    rig.settle();
    assert_eq!(events.take(), ["+a=0"]);
    top.update(Item::new("a", 5));
    rig.settle();
    assert_eq!(
        log.take(),
        ["5 with 1", "5 with 5"],
        "the first run sees the old state, and is not used"
    );
    assert_eq!(events.take(), ["a=0>5"]);
    assert_eq!(out.stats().superseded, 1);
    top.update(Item::new("a", 6));
    rig.settle();
    assert_eq!(log.take(), ["6 with 6"]);
}

// [K9] several fetches of one collection: each is followed, and no longer when it is not made any more
#[test]
fn what_was_fetched_last_is_what_is_followed() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("in", 1)]);
    let other = items(&rig, "other", &[("k1", 1), ("k2", 2), ("k3", 3)]);
    let log = Log::default();
    let (fetched, runs) = (other.clone(), log.clone());
    // The fetched key changes with the data; a second key is fixed.
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let key = format!("k{}", item.value);
        runs.add(format!("run {key}"));
        let first = cx.fetch_one(fetched.query().key(&key)).map_or(0, |item| item.value);
        let second = cx.fetch_one(fetched.query().key("k3")).map_or(0, |item| item.value);
        Some(Item::new("out", first * 100 + second))
    });
    rig.settle();
    assert_eq!(content(&out), ["out=103"]);
    log.take();
    other.update(Item::new("k2", 22));
    rig.settle();
    assert_eq!(log.take(), [""; 0], "it was not fetched");
    other.update(Item::new("k1", 11));
    other.update(Item::new("k3", 33));
    rig.settle();
    assert_eq!(log.take(), ["run k1"]);
    assert_eq!(content(&out), ["out=1133"]);
    input.update(Item::new("in", 2));
    rig.settle();
    assert_eq!(content(&out), ["out=2233"]);
    log.take();
    other.update(Item::new("k1", 12));
    rig.settle();
    assert_eq!(log.take(), [""; 0], "it is not fetched any more");
    other.delete("k2");
    rig.settle();
    assert_eq!(content(&out), ["out=33"]);
}

// [K12] discard: with a default, without one, keeping the last; and what the discarded run fetched counts
#[test]
fn a_discarded_result_keeps_the_last_output_and_the_new_dependencies() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0), ("b", 5), ("c", 1)]);
    let other = items(&rig, "other", &[("o", 1)]);
    let fetched = other.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        if item.value == 5 {
            return Some(Item::new(&item.name, 5));
        }
        let other = cx.fetch_one(fetched.query().key("o"))?;
        if other.value == 1 {
            cx.discard_result();
        }
        (item.value == 0 || other.value != 1).then(|| Item::new(&item.name, -other.value))
    });
    rig.settle();
    assert_eq!(
        content(&out),
        ["a=-1", "b=5"],
        "without a last output, the default counts if one is offered"
    );
    input.update(Item::new("b", 1));
    rig.settle();
    assert_eq!(content(&out), ["a=-1", "b=5"], "the last output stays");
    other.update(Item::new("o", 2));
    rig.settle();
    assert_eq!(
        content(&out),
        ["a=-2", "b=-2", "c=-2"],
        "the discarded runs had fetched it"
    );
    other.update(Item::new("o", 1));
    rig.settle();
    assert_eq!(
        content(&out),
        ["a=-2", "b=-2", "c=-2"],
        "no default comes in the place of a last output"
    );
}

// [K12] what a run gave is its last output also while it is kept back, because another input waits
#[test]
fn a_result_is_discarded_before_the_first_sync_as_after_it() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("given", 1), ("none", 100), ("waits", 0)]);
    let slow = rig.krt.unsynced_collection::<Item>("slow");
    let fetched = slow.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        if item.value == 0 {
            cx.fetch(fetched.query());
        }
        if item.value < 0 {
            cx.discard_result();
        }
        (item.value != 100).then(|| (**item).clone())
    });
    rig.settle();
    for key in ["given", "none"] {
        input.update(Item::new(key, -5));
    }
    rig.settle();
    assert!(out.is_empty() && !out.has_synced());
    slow.mark_synced();
    rig.settle();
    assert_eq!(content(&out), ["given=1", "none=-5", "waits=0"]);
}

// [K12] for many outputs, for one value, and for a status with its output, as for one output
#[test]
fn a_discarded_result_keeps_all_that_a_run_gave() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", -2)]);
    let many = rig.krt.many_collection("many", &input, |cx, item| {
        if item.value < 0 {
            cx.discard_result();
        }
        let item = Arc::clone(item);
        (0..item.value.abs()).map(move |number| Item::new(&format!("{}{number}", item.name), item.value))
    });
    let fetched = input.clone();
    let one = rig.krt.singleton("one", move |cx| {
        let item = cx.fetch_one(fetched.query())?;
        if item.value < 0 {
            cx.discard_result();
        }
        (item.value != 0).then(|| (*item).clone())
    });
    let (statuses, outputs) = rig.krt.status_collection("status", &input, |cx, item| {
        if item.value < 0 {
            cx.discard_result();
        }
        (Some(item.value), (item.value != 0).then(|| (**item).clone()))
    });
    let mut seen = |value: i64| {
        input.update(Item::new("a", value));
        rig.settle();
        let status = *statuses.get("a").unwrap().status();
        (content(&many), content(&one), (status, content(&outputs)))
    };
    let list = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let (a, one) = (list(&["a=-2"]), list(&["a0=-2", "a1=-2"]));
    assert_eq!(seen(-2), (one, a.clone(), (-2, a)), "nothing to keep: the default");
    let (a, three) = (list(&["a=3"]), list(&["a0=3", "a1=3", "a2=3"]));
    assert_eq!(seen(3), (three.clone(), a.clone(), (3, a.clone())));
    assert_eq!(seen(-1), (three, a.clone(), (3, a)), "all of it stays");
    assert_eq!(seen(0), (list(&[]), list(&[]), (0, list(&[]))));
    // The run before gave nothing but a status, and this is what stays of it.
    let a = list(&["a=-1"]);
    assert_eq!(seen(-1), (list(&["a0=-1"]), a, (0, list(&[]))));
}

// [K13] many outputs come and go one by one; the smallest input key owns a contested one, and hands it over
#[test]
fn outputs_of_many_inputs_are_owned_by_the_smallest_input_key() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("b", 3)]);
    // The outputs x0, x1, … of each input.
    let many = rig.krt.many_collection("many", &input, |_, item| {
        let base = i64::from(item.name.as_bytes()[0]) * 10;
        (0..item.value)
            .map(move |number| Item::new(&format!("x{number}"), base + number))
            .collect::<Vec<_>>()
    });
    let log = Log::default();
    let _handler = log.follow(&many);
    rig.settle();
    assert_eq!(log.take(), ["+x0=980", "+x1=981", "+x2=982"]);
    input.update(Item::new("b", 1));
    rig.settle();
    assert_eq!(log.take(), ["-x1=981", "-x2=982"]);
    input.update(Item::new("c", 2));
    rig.settle();
    assert_eq!(log.take(), ["+x1=991"], "x0 stays b's");
    assert_eq!(many.stats().conflicts, 1);
    input.update(Item::new("a", 1));
    rig.settle();
    assert_eq!(log.take(), ["x0=980>970"], "a smaller newcomer takes over");
    input.delete("a");
    input.delete("b");
    rig.settle();
    assert_eq!(log.take(), ["x0=970>990"], "handed over to the next one");
    input.delete("c");
    rig.settle();
    assert_eq!(log.take(), ["-x0=990", "-x1=991"]);
}

// [K13] one of many outputs changes by itself; neither their order nor a second one with the same key is a change
#[test]
fn each_of_many_outputs_is_gated_by_itself() {
    let mut rig = Rig::with_strong_hashes();
    let input = items(&rig, "input", &[("in", 0)]);
    let many = rig.krt.many_collection("many", &input, |_, item| {
        let changed = item.value;
        let mut outputs: Vec<_> = (0..5000)
            .map(|number| Item::new(&format!("x{number}"), if number == changed { -1 } else { number }))
            .collect();
        if changed % 2 == 1 {
            outputs.reverse();
        }
        outputs.push(Item::new("x7", 77));
        outputs
    });
    let log = Log::default();
    let _handler = log.follow(&many);
    rig.settle();
    assert_eq!((log.take().len(), many.len()), (5000, 5000));
    input.update(Item::new("in", 3));
    rig.settle();
    assert_eq!(log.take(), ["x0=-1>0", "x3=3>-1"]);
    assert_eq!(many.get("x7").unwrap().value, 7, "the first one counts");
}

// [K13] two inputs that swap their keys in one epoch are decided once
#[test]
fn a_swap_of_claims_in_one_epoch_is_one_update_for_each_key() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 2)]);
    let named = rig.krt.collection("named", &input, |_, item| {
        Some(Item::new(
            &format!("x{}", item.value),
            i64::from(item.name.as_bytes()[0]),
        ))
    });
    let log = Log::default();
    let _handler = log.follow(&named);
    rig.settle();
    log.take();
    input.update(Item::new("a", 2));
    input.update(Item::new("b", 1));
    rig.settle();
    assert_eq!(log.take(), ["x1=97>98", "x2=98>97"]);
}

// [K14] a panic for one input: the others go on, its last good output stays, the next change tries again, sync completes
#[test]
fn a_panic_concerns_one_input_only() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 13)]);
    let out = rig.krt.collection("out", &input, |_, item| {
        assert!(item.value != 13, "unlucky");
        Some(Item::new(&item.name, item.value))
    });
    rig.settle();
    assert!(out.has_synced());
    assert_eq!(content(&out), ["a=1"]);
    assert_eq!(out.stats().panics, 1);
    input.update(Item::new("b", 2));
    input.update(Item::new("a", 13));
    rig.settle();
    assert_eq!(content(&out), ["a=1", "b=2"], "the last good output stays");
    input.update(Item::new("a", 3));
    rig.settle();
    assert_eq!(content(&out), ["a=3", "b=2"]);
}

// [K14] what a run fetched before it panicked is followed
#[test]
fn a_run_that_panicked_runs_again_when_what_it_fetched_changes() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let other = items(&rig, "other", &[("o", 0)]);
    let fetched = other.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        let other = cx.fetch_one(fetched.query())?;
        Some(Item::new(&item.name, item.value / other.value))
    });
    rig.settle();
    assert!(out.is_empty());
    other.update(Item::new("o", 1));
    rig.settle();
    assert_eq!(content(&out), ["a=1"]);
}

// [K16] a cycle is an error with the path when the edge appears; everything else works
#[test]
fn a_cycle_is_refused_with_its_path() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 0), ("b", 0)]);
    let later: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let fetched = Arc::clone(&later);
    let first = rig.krt.collection("first", &input, move |cx, item| {
        let second = fetched.lock().clone();
        if item.value > 0
            && let Some(second) = second
        {
            cx.fetch(second.query());
        }
        Some(Item::new(&item.name, item.value))
    });
    let second = first.collection_of(&rig.krt, "second");
    *later.lock() = Some(second.clone());
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [[""; 0]; 0]);
    input.update(Item::new("a", 1));
    input.update(Item::new("b", -1));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["first", "second", "first"]]);
    assert_eq!(
        content(&second),
        ["a=0", "b=-1"],
        "the input with the cycle keeps its last output"
    );
    assert_eq!(first.stats().cycles, 1);
    input.update(Item::new("a", -5));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [[""; 0]; 0]);
    assert_eq!(content(&second), ["a=-5", "b=-1"]);
    later.lock().take();
}

// [K38] a cycle that was refused is allowed once one of its other edges is gone
#[test]
fn a_refused_input_runs_again_when_the_cycle_is_broken() {
    let mut rig = Rig::new();
    let one = items(&rig, "one", &[("a", 0)]);
    let two = items(&rig, "two", &[("b", 1)]);
    let later: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let fetched = Arc::clone(&later);
    let first = rig.krt.collection("first", &one, move |cx, item| {
        let second = fetched.lock().clone()?;
        let second = cx.fetch_one(second.query());
        Some(Item::new(&item.name, second.map_or(-1, |second| second.value)))
    });
    let fetched = first.clone();
    let second = rig.krt.collection("second", &two, move |cx, item| {
        let first = if item.value > 0 {
            cx.fetch_one(fetched.query())
        } else {
            None
        };
        Some(Item::new(&item.name, first.map_or(7, |first| first.value)))
    });
    rig.settle();
    assert_eq!(content(&second), ["b=7"]);
    *later.lock() = Some(second.clone());
    one.update(Item::new("a", 1));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["first", "second", "first"]]);
    assert_eq!(content(&first), [""; 0]);
    two.update(Item::new("b", 0));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [[""; 0]; 0]);
    assert_eq!(content(&first), ["a=7"], "nothing changed for it but the edge");
    later.lock().take();
}

// [K16] a collection that fetches itself
#[test]
fn a_fetch_of_oneself_is_a_cycle() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let later: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let fetched = Arc::clone(&later);
    let own = rig.krt.collection("own", &input, move |cx, item| {
        let own = fetched.lock().clone()?;
        cx.fetch(own.query());
        Some((**item).clone())
    });
    *later.lock() = Some(own.clone());
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["own", "own"]]);
    assert!(own.has_synced() && own.is_empty());
    later.lock().take();
}

// [K6] an output without a key is refused like a panic
#[test]
fn an_empty_key_is_refused() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 1), ("b", 2)]);
    let out = rig.krt.collection("out", &input, |_, item| {
        Some(Item::new(if item.value == 1 { "" } else { "ok" }, item.value))
    });
    rig.settle();
    assert_eq!(content(&out), ["ok=2"]);
    assert_eq!(out.stats().panics, 1);
}

#[test]
fn a_fetch_from_another_engine_is_refused_and_contained() {
    let mut rig = Rig::new();
    let other = Rig::new();
    let input = items(&rig, "input", &[("a", 1)]);
    let foreign = items(&other, "foreign", &[]);
    let out = sums(&rig, &Log::default(), &input, &foreign);
    rig.settle();
    assert!(out.has_synced() && out.is_empty());
    assert_eq!(out.stats().panics, 1);
}

// [K32] what is fetched comes in the order of keys, whatever happened before
#[test]
fn fetches_are_ordered_by_key() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("in", 0)]);
    let other = items(&rig, "other", &[("m", 1), ("z", 2), ("a/b", 3)]);
    let log = Log::default();
    let (fetched, orders) = (other.clone(), log.clone());
    let _out = rig.krt.collection("out", &input, move |cx, _| {
        let keys: Vec<_> = cx
            .fetch(fetched.query())
            .iter()
            .map(|item| item.key().to_string())
            .collect();
        orders.add(keys.join(" "));
        None::<Item>
    });
    rig.settle();
    assert_eq!(log.take(), ["a/b m z"]);
    other.delete("a/b");
    rig.settle();
    other.update(Item::new("n", 1));
    other.update(Item::new("a-b", 1));
    other.update(Item::new("a/b", 1));
    rig.settle();
    assert_eq!(log.take(), ["a-b a/b m n z", "m z"]);
    other.update(Item::new("b", 1));
    rig.settle();
    assert_eq!(log.take(), ["a-b a/b b m n z"]);
}

#[test]
fn a_map_keeps_the_keys() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("x/a", 1), ("b", 25)]);
    let tens = input.map("tens", |item| Item {
        value: item.value / 10,
        name: if item.value == 99 {
            "other".into()
        } else {
            item.name.clone()
        },
        ..item.clone()
    });
    let log = Log::default();
    let _handler = log.follow(&tens);
    rig.settle();
    assert_eq!(log.take(), ["+b=2", "+x/a=0"]);
    input.update(Item::new("x/a", 2));
    input.update(Item::new("b", 99));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(tens.stats().panics, 1);
}

/// A value whose drop may panic.
struct Brittle {
    value: i64,
    breaks: bool,
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Keyed for Brittle {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain("brittle")
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(!self.breaks || std::thread::panicking(), "broken");
    }
}

// Whatever becomes of a result, its drop is the user's code.
#[test]
fn a_result_that_is_not_used_may_panic_when_it_is_dropped() {
    let mut rig = Rig::new();
    let input = items(&rig, "input", &[("a", 10)]);
    let unsynced = rig.krt.unsynced_collection::<Item>("unsynced");
    let fetched = unsynced.clone();
    let out = rig.krt.collection("out", &input, move |cx, item| {
        if item.value == 21 {
            cx.discard_result();
        }
        if item.value == 31 {
            cx.fetch(fetched.query());
        }
        Some(Brittle {
            value: item.value / 10,
            breaks: item.value % 2 == 1,
        })
    });
    // Equal to the one before, discarded, not used because of what it fetched, replaced, shadowed by another input's, deleted.
    for (value, expected) in [(10, 1), (11, 1), (21, 1), (31, 1), (41, 4), (50, 5)] {
        input.update(Item::new("a", value));
        rig.settle();
        assert_eq!(out.get("brittle").unwrap().value, expected);
    }
    input.update(Item::new("b", 61));
    rig.settle();
    input.update(Item::new("b", 71));
    rig.settle();
    assert_eq!(out.get("brittle").unwrap().value, 5);
    input.delete("a");
    rig.settle();
    assert_eq!(out.get("brittle").unwrap().value, 7);
    input.delete("b");
    rig.settle();
    assert!(out.is_empty());
}
