//! Where fetches look for what they ask: at few objects, whatever they filter by, and at the right ones after every change.

use super::*;
use crate::engine::deps::Counters;
use crate::{Context, Fetched};

/// A thousand objects in ten namespaces, with a hundred applications, and each with what it selects.
fn thousand(rig: &Rig) -> StaticCollection<Item> {
    let items = (0..1000).map(|n| {
        let app = format!("app-{}", n % 100);
        Item::new(&format!("ns-{}/n{}", n % 10, n / 2), n)
            .labels(&[("app", &app), ("all", "yes"), ("own", &n.to_string())])
            .selecting(&[("app", &app), ("all", "yes")])
    });
    rig.krt.static_collection("others", items)
}

/// What one input fetches, and how many objects it looks at for that.
struct Asked {
    rig: Rig,
    others: StaticCollection<Item>,
    log: Log,
    _watch: crate::Singleton<Item>,
}

impl Asked {
    fn new(fetch: impl Fn(&mut Context<'_>, &Collection<Item>) -> Fetched<Item> + Send + Sync + 'static) -> Self {
        let mut rig = Rig::with_strong_hashes();
        let others = thousand(&rig);
        let log = Log::default();
        let (fetched, seen) = (others.clone(), log.clone());
        let watch = rig.krt.singleton("watch", move |cx| {
            seen.add(fetch(cx, &fetched).len().to_string());
            None
        });
        rig.settle();
        Self {
            rig,
            others,
            log,
            _watch: watch,
        }
    }

    fn counters(&self) -> Counters {
        self.rig.stepper.engine().deps().counters
    }

    /// Does something; tells what runs saw, how many objects they looked at, and how often at all of them.
    fn after(&mut self, change: impl FnOnce(&Self)) -> (Vec<String>, u64, u64) {
        let before = self.counters();
        change(self);
        self.rig.settle();
        let after = self.counters();
        (
            self.log.take(),
            after.looked - before.looked,
            after.scans - before.scans,
        )
    }
}

type Fetch = Box<dyn Fn(&mut Context<'_>, &Collection<Item>) -> Fetched<Item> + Send + Sync>;

/// A fetch, and what it finds.
struct Case {
    name: &'static str,
    fetch: Fetch,
    matches: usize,
    /// Whether object 7 is among them.
    has_seven: bool,
    /// How many objects are looked at, at most.
    looked: u64,
}

fn cases() -> Vec<Case> {
    let own = labels(&[("app", "app-7"), ("all", "yes"), ("unknown", "1")]);
    let [labels_alone, labels_and] = [(); 2].map(|()| labels(&[("app", "app-7"), ("all", "yes")]));
    let (selecting, non_empty) = (own.clone(), own);
    let case = |name, fetch: Fetch, matches, has_seven, looked| Case {
        name,
        fetch,
        matches,
        has_seven,
        looked,
    };
    vec![
        case(
            "namespace",
            Box::new(|cx, all| cx.fetch(all.query().namespace("ns-3"))),
            100,
            false,
            100,
        ),
        case(
            "name",
            Box::new(|cx, all| cx.fetch(all.query().name("n7"))),
            2,
            false,
            2,
        ),
        case(
            "labels",
            Box::new(move |cx, all| cx.fetch(all.query().labels(&labels_alone))),
            10,
            true,
            10,
        ),
        case(
            // Selectors are posted by whichever of their labels was the rarer one when they came.
            "selecting",
            Box::new(move |cx, all| cx.fetch(all.query().selecting(&selecting))),
            10,
            true,
            30,
        ),
        case(
            "namespace, selecting_non_empty",
            Box::new(move |cx, all| cx.fetch(all.query().namespace("ns-7").selecting_non_empty(&non_empty))),
            10,
            true,
            30,
        ),
        case(
            "namespace, name",
            Box::new(|cx, all| cx.fetch(all.query().namespace("ns-5").name("n7"))),
            1,
            false,
            2,
        ),
        case(
            "closure, labels",
            Box::new(move |cx, all| cx.fetch(all.query().where_(|item| item.value > 500).labels(&labels_and))),
            5,
            false,
            10,
        ),
    ]
}

// [K10] fetches without a scope, by each filter: none looks at all objects, at the start, and after changes
#[test]
fn a_fetch_looks_at_the_fewest_objects_that_its_filters_leave() {
    for case in cases() {
        let name = case.name;
        let mut asked = Asked::new(case.fetch);
        assert_eq!(asked.log.take(), [case.matches.to_string()], "{name}");
        let counters = asked.counters();
        assert!(counters.looked <= case.looked, "{name}: {counters:?}");
        assert_eq!(counters.scans, 0, "{name}");
        let (runs, looked, scans) = asked.after(|asked| asked.others.delete("ns-7/n3"));
        assert_eq!(scans, 0, "{name}");
        assert!(looked <= case.looked, "{name}");
        let left = case.has_seven.then(|| (case.matches - 1).to_string());
        assert_eq!(runs, Vec::from_iter(left), "{name}");
    }
}

// [K10] a closure fetch that nothing narrows has to look at everything, and leaves its neighbour indexed
#[test]
fn a_scan_is_made_by_closures_alone() {
    let wanted = labels(&[("app", "app-7")]);
    let mut asked = Asked::new(move |cx, all| {
        if cx.has_key(all, "ns-0/n0") {
            cx.fetch(all.query().where_with((), |(), item| item.value == 500));
        }
        cx.fetch(all.query().labels(&wanted))
    });
    assert_eq!(asked.log.take(), ["10"]);
    assert_eq!(asked.counters().scans, 1);
    let changed = Item::new("ns-7/n3", 7).labels(&[("app", "app-8")]);
    let (runs, looked, scans) = asked.after(|asked| asked.others.update(changed.clone()));
    assert_eq!(
        (runs, looked, scans),
        (vec!["9".into()], 9, 0),
        "the closure's memo stands"
    );
    let (runs, _, scans) = asked.after(|asked| asked.others.update(Item::new("ns-0/n250", 500)));
    assert_eq!((runs, scans), (vec!["9".into()], 1));
    let (runs, _, scans) = asked.after(|asked| asked.others.delete("ns-0/n0"));
    assert_eq!((runs, scans), (vec!["9".into()], 0), "the closure is gone");
    let again = Item::new("ns-7/n3", 7).labels(&[("app", "app-7")]);
    let (runs, looked, scans) = asked.after(|asked| asked.others.update(again.clone()));
    assert_eq!((runs, looked, scans), (vec!["10".into()], 10, 0));
}

// [K10] whom a change concerns is found by its rows as well, with a closure next to them and without
#[test]
fn a_change_asks_few_dependencies_next_to_a_closure_and_without_it() {
    let mut rig = Rig::with_strong_hashes();
    let inputs = rig.krt.static_collection(
        "inputs",
        (0..100).map(|n| Item::new(&format!("i{n}"), n).labels(&[("app", &format!("app-{n}"))])),
    );
    let others = items(&rig, "others", &[]);
    let fetched = others.clone();
    let _out = rig.krt.collection("out", &inputs, move |cx, item| {
        cx.fetch(fetched.query().labels(&item.labels));
        cx.fetch(fetched.query().selecting(&item.labels));
        cx.fetch(fetched.query().name(&item.name));
        if item.value == 1000 {
            cx.fetch(fetched.query().where_(|_| false));
        }
        None::<Item>
    });
    rig.settle();
    let change = |rig: &mut Rig, value| {
        let before = rig.stepper.engine().deps().counters;
        let changed = Item::new("i3", value)
            .labels(&[("app", "app-4")])
            .selecting(&[("app", "app-5")]);
        others.update(changed);
        rig.settle();
        rig.stepper.engine().deps().counters.asked - before.asked
    };
    assert_eq!(change(&mut rig, 1), 3, "by name, by label, by selector");
    inputs.update(Item::new("i0", 1000).labels(&[("app", "app-0")]));
    rig.settle();
    assert_eq!(change(&mut rig, 2), 4, "and the closure");
    inputs.update(Item::new("i0", 0).labels(&[("app", "app-0")]));
    rig.settle();
    assert_eq!(change(&mut rig, 3), 3);
}

// Ids are used again: who has one is found where it is, and not where the one before was.
#[test]
fn an_id_that_is_used_again_is_posted_anew() {
    for mut rig in [Rig::new(), Rig::with_strong_hashes()] {
        let others = items(&rig, "others", &[("x/a", 1)]);
        let log = Log::default();
        let (fetched, seen) = (others.clone(), log.clone());
        let _watch = rig.krt.many_from_nothing("watch", move |cx| {
            let (web, db) = (labels(&[("app", "web")]), labels(&[("app", "db")]));
            let counts = [
                cx.fetch(fetched.query().namespace("x")).len(),
                cx.fetch(fetched.query().namespace("y")).len(),
                cx.fetch(fetched.query().name("a")).len(),
                cx.fetch(fetched.query().labels(&web)).len(),
                cx.fetch(fetched.query().labels(&db)).len(),
                cx.fetch(fetched.query().selecting(&web)).len(),
                cx.fetch(fetched.query().selecting(&db)).len(),
            ];
            seen.add(format!("{counts:?}"));
            Vec::<Item>::new()
        });
        rig.settle();
        assert_eq!(log.take(), ["[1, 0, 1, 0, 0, 0, 0]"]);
        let mut steps = Vec::new();
        for (key, app, selected) in [("y/b", "web", "db"), ("x/a", "db", "web"), ("x/c", "db", "db")] {
            others.reset([Item::new(key, 1)
                .labels(&[("app", app)])
                .selecting(&[("app", selected)])]);
            rig.settle();
            steps.push(log.take().join(""));
        }
        assert_eq!(
            steps,
            [
                "[0, 1, 0, 1, 0, 0, 1]",
                "[1, 0, 1, 0, 1, 1, 0]",
                "[1, 0, 0, 0, 1, 0, 1]"
            ]
        );
    }
}

/// An object whose labels and selector cannot always be read.
#[derive(Debug, Clone, PartialEq)]
struct Touchy(Item);

impl Keyed for Touchy {
    fn key(&self) -> KeyRef<'_> {
        self.0.key()
    }
}

impl Labeled for Touchy {
    fn labels(&self) -> &Labels {
        assert!(self.0.value != 13, "unlucky");
        &self.0.labels
    }
}

impl Selecting for Touchy {
    fn selector(&self) -> SelectorRef<'_> {
        assert!(self.0.value != 13, "unlucky");
        self.0.selector()
    }
}

// The same of a selector: it may select anybody, whomever it selected before.
#[test]
fn a_selector_that_cannot_be_read_is_asked_by_everybody() {
    let mut rig = Rig::with_strong_hashes();
    let touchy = |value| Touchy(Item::new("a", value).selecting(&[("app", "db")]));
    let others = rig.krt.static_collection("others", [touchy(1)]);
    let pods = ["db", "web"].map(|app| Item::new(app, 1).labels(&[("app", app)]));
    let pods = rig.krt.static_collection("pods", pods);
    let fetched = others.clone();
    let out = rig.krt.collection("out", &pods, move |cx, pod| {
        let count = cx.fetch(fetched.query().selecting(&pod.labels)).len();
        Some(Item::new(&pod.name, i64::try_from(count).unwrap()))
    });
    let mut after = |change: &dyn Fn()| {
        change();
        rig.settle();
        (content(&out).join(" "), out.stats().panics)
    };
    let seen = [
        after(&|| ()),
        after(&|| others.update(touchy(13))),
        after(&|| pods.update(Item::new("new", 1).labels(&[("app", "other")]))),
        after(&|| others.update(touchy(2))),
        after(&|| others.update(touchy(13))),
        after(&|| others.delete("a")),
    ];
    let expected = [
        ("db=1 web=0", 0),
        ("db=1 web=0", 2),
        ("db=1 web=0", 3),
        ("db=1 new=0 web=0", 3),
        ("db=1 new=0 web=0", 6),
        ("db=0 new=0 web=0", 6),
    ];
    assert_eq!(seen, expected.map(|(content, panics)| (content.to_owned(), panics)));
}

// What cannot be read may be anywhere: whoever would have to read it panics, as it would without postings.
#[test]
fn an_object_that_cannot_be_read_is_in_nobodys_way_and_not_overlooked() {
    let mut rig = Rig::new();
    let others = rig
        .krt
        .static_collection("others", [Touchy(Item::new("a", 13)), Touchy(Item::new("b", 1))]);
    let names = items(&rig, "names", &[("n", 1)]);
    let fetched = others.clone();
    let out = rig.krt.collection("out", &names, move |cx, name| {
        let web = labels(&[("app", "web")]);
        let count = cx.fetch(fetched.query().labels(&web)).len();
        Some(Item::new(&name.name, i64::try_from(count).unwrap()))
    });
    rig.settle();
    assert_eq!((content(&out), out.stats().panics), (vec![], 1));
    others.update(Touchy(Item::new("a", 1).labels(&[("app", "web")])));
    rig.settle();
    assert_eq!(content(&out), ["n=1"]);
    others.update(Touchy(Item::new("a", 13)));
    rig.settle();
    assert_eq!(
        (content(&out), out.stats().panics),
        (vec!["n=1".to_owned()], 2),
        "the last good output"
    );
    others.delete("a");
    rig.settle();
    assert_eq!(content(&out), ["n=0"]);
}

// Postings are there for as long as somebody filters by them.
#[test]
fn postings_go_with_the_last_one_who_needs_them() {
    let mut rig = Rig::with_strong_hashes();
    let others = thousand(&rig);
    let inputs = items(&rig, "inputs", &[("keeps", 0), ("asks", 1)]);
    let fetched = others.clone();
    let _out = rig.krt.collection("out", &inputs, move |cx, item| {
        let app = labels(&[("app", "app-1")]);
        cx.fetch(fetched.query().key("ns-0/n0"));
        if item.value > 0 {
            cx.fetch(fetched.query().namespace("ns-1"));
            cx.fetch(fetched.query().labels(&app));
            cx.fetch(fetched.query().selecting(&app));
        }
        None::<Item>
    });
    rig.settle();
    let needed = rig.stepper.dependencies()[3];
    assert!(needed > 1000, "each label has a row: {needed}");
    inputs.update(Item::new("asks", 0));
    rig.settle();
    assert_eq!(rig.stepper.dependencies()[3], 1, "the source alone");
    inputs.update(Item::new("asks", 1));
    rig.settle();
    assert_eq!(rig.stepper.dependencies()[3], needed);
}

// No labels leave out nobody: that is not worth a row for each label of each object.
#[test]
fn a_filter_by_no_labels_needs_no_postings() {
    let asked = Asked::new(|cx, all| cx.fetch(all.query().labels(&Labels::new())));
    assert_eq!(asked.log.take(), ["1000"]);
    assert_eq!(asked.rig.stepper.dependencies()[3], 1, "the source alone");
}

// [K10] what one input found is given to all that ask the same; and who asks twice depends on it once
#[test]
fn inputs_that_ask_the_same_share_what_one_of_them_found() {
    let mut rig = Rig::with_strong_hashes();
    let others = thousand(&rig);
    let inputs = rig
        .krt
        .static_collection("inputs", (0..10).map(|n| Item::new(&format!("i{n}"), n)));
    let _out = rig.krt.collection("out", &inputs, move |cx, _| {
        let once = cx.fetch(others.query().name("n7")).len();
        let twice = cx.fetch(others.query().name("n7")).len();
        (once != twice).then(|| Item::new("different", 0))
    });
    rig.settle();
    let counters = rig.stepper.engine().deps().counters;
    assert_eq!((counters.memo_misses, counters.memo_hits, counters.looked), (1, 19, 2));
    assert_eq!(rig.stepper.dependencies()[..2], [1, 10]);
}

// [K10] a run that asks what it asked the last time finds its dependencies by that, and nothing is hashed for it
#[test]
fn a_run_that_asks_the_same_is_known_by_what_it_asked_before() {
    let own = labels(&[("app", "app-7"), ("all", "yes")]);
    let mut asked = Asked::new(move |cx, all| {
        let is_there = cx.has_key(all, "ns-0/n0");
        cx.fetch(all.query().selecting(&own));
        if is_there {
            cx.fetch(all.query().name("n7"))
        } else {
            cx.fetch(all.query().name("n8"))
        }
    });
    assert_eq!(asked.counters().asked_again, 0);
    asked.others.delete("ns-7/n3");
    asked.rig.settle();
    assert_eq!(asked.counters().asked_again, 3);
    asked.others.delete("ns-0/n0");
    asked.rig.settle();
    assert_eq!(asked.counters().asked_again, 5, "the name is another one");
    assert_eq!(asked.log.take(), ["2", "2", "2"]);
}

/// How many dependencies are asked whether it concerns them that one of fifty objects changes, while each of fifty inputs fetches what
/// has its own namespace, name, labels and values; and who of them runs.
fn asked(fetch: impl Fn(Narrow<'_, '_>, &Item) -> Fetched<Item> + Send + Sync + 'static) -> (u64, Vec<String>) {
    let mut rig = Rig::with_strong_hashes();
    let own = |number: i64| labels(&[("all", "yes"), ("own", &number.to_string())]);
    let item = move |number: i64| {
        let mut item = Item::new(&format!("ns-{number}/n-{number}"), number);
        (item.labels, item.selector) = (own(number), Some(own(number)));
        item
    };
    let others = rig.krt.static_collection("others", (0..50).map(item));
    let inputs = rig.krt.static_collection("inputs", (0..50).map(item));
    let index = others.index_by("value", |item| item.value % 50).unwrap();
    let (log, fetched) = (Log::default(), others.clone());
    let seen = log.clone();
    let _watch = rig.krt.collection("watch", &inputs, move |cx, input| {
        let narrow = Narrow {
            cx,
            others: &fetched,
            index: &index,
        };
        seen.add(format!("{} {}", input.name, fetch(narrow, input).len()));
        None::<Item>
    });
    rig.settle();
    log.take();
    let before = rig.stepper.engine().deps().counters.asked;
    others.update(Item { value: 57, ..item(7) });
    rig.settle();
    (rig.stepper.engine().deps().counters.asked - before, log.take())
}

/// What a fetch may start from.
struct Narrow<'a, 'c> {
    cx: &'a mut Context<'c>,
    others: &'a Collection<Item>,
    index: &'a crate::Index<i64, Item>,
}

// [K9] [K10] a change is compared with the dependencies that its key, values, namespace, labels, name or selector lead to, and with no others
#[test]
fn a_change_asks_only_those_whom_it_may_concern() {
    let all = [
        (
            "key",
            asked(|one, input| one.cx.fetch(one.others.query().key(input.key()))),
        ),
        (
            "namespace",
            asked(|one, input| one.cx.fetch(one.others.query().namespace(&input.ns))),
        ),
        (
            "name",
            asked(|one, input| one.cx.fetch(one.others.query().name(&input.name))),
        ),
        (
            "labels",
            asked(|one, input| one.cx.fetch(one.others.query().labels(&input.labels))),
        ),
        (
            "selecting",
            asked(|one, input| one.cx.fetch(one.others.query().selecting(&input.labels))),
        ),
        ("index", asked(|one, input| one.cx.fetch(one.index.at(&input.value)))),
        (
            "index and namespace",
            asked(|one, input| one.cx.fetch(one.index.at(&input.value).namespace(&input.ns))),
        ),
    ];
    for (name, (asked, ran)) in all {
        assert_eq!(ran, ["n-7 1"], "{name}");
        // Of labels, whoever comes first cannot know yet which of its pairs will be rare.
        assert!(asked <= 2, "{name}: {asked} were asked");
    }
}

// [K9] what is shared narrows nothing, and does not keep what is not shared from doing so
#[test]
fn a_change_asks_by_what_tells_most() {
    let all = [
        (
            "index in a common namespace",
            asked(|one, input| one.cx.fetch(one.index.at(&input.value).namespace("ns-7"))),
        ),
        (
            "key with common labels",
            asked(|one, input| {
                let common = labels(&[("all", "yes")]);
                one.cx.fetch(one.others.query().labels(&common).key(input.key()))
            }),
        ),
        (
            "selecting with common labels",
            asked(|one, input| {
                let common = labels(&[("all", "yes")]);
                one.cx
                    .fetch(one.others.query().selecting(&input.labels).labels(&common))
            }),
        ),
        (
            "name with common labels",
            asked(|one, input| {
                let common = labels(&[("all", "yes")]);
                one.cx.fetch(one.others.query().labels(&common).name(&input.name))
            }),
        ),
    ];
    for (name, (asked, ran)) in all {
        assert!(ran.iter().any(|line| line.starts_with("n-7 ")), "{name}: {ran:?}");
        assert!(asked <= 2, "{name}: {asked} were asked");
    }
}

// [K5] what fetches need to know of objects is counted for each way to find them, and adds up
#[test]
fn the_tables_that_fetches_need_add_up() {
    let tables = |namespace: bool, selecting: bool| {
        let mut rig = Rig::with_strong_hashes();
        let items = ["x/a", "y/b"].map(|key| Item::new(key, 1).selecting(&[("app", key)]));
        let others = rig.krt.static_collection("others", items);
        let _watch = rig.krt.singleton("watch", move |cx| {
            if namespace {
                cx.fetch(others.query().namespace("x"));
            }
            if selecting {
                cx.fetch(others.query().selecting(&labels(&[("app", "x/a")])));
            }
            Some(Item::new("watch", 1))
        });
        rig.settle();
        let [dependencies, _, _, tables] = rig.stepper.dependencies();
        assert_eq!(dependencies, usize::from(namespace) + usize::from(selecting));
        tables
    };
    let [none, namespace, selecting, both] = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(namespace, selecting)| tables(namespace, selecting));
    // One for the source, and two rows at least, of the two objects.
    assert!(none == 0 && namespace >= 3 && selecting >= 3, "{namespace} {selecting}");
    assert_eq!(both, namespace + selecting - 1, "the source is known once");
}
