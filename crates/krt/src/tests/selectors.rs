//! Who selects whom: label selectors with expressions, and labels that are different for each object.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{LabelSelector, Requirement};

/// Something that selects by a whole label selector.
#[derive(Debug, Clone, PartialEq)]
struct Policy {
    name: String,
    selector: Option<LabelSelector>,
}

impl Policy {
    fn new(name: &str, match_labels: &[(&str, &str)], expressions: &[Requirement]) -> Self {
        Self {
            name: name.into(),
            selector: Some(LabelSelector {
                match_labels: labels(match_labels),
                match_expressions: expressions.to_vec(),
            }),
        }
    }
}

impl Keyed for Policy {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.name)
    }
}

impl Selecting for Policy {
    fn selector(&self) -> SelectorRef<'_> {
        match &self.selector {
            Some(selector) => SelectorRef::Expr(Cow::Borrowed(selector)),
            None => SelectorRef::Nothing,
        }
    }
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Pods with labels, and which policies select each; whoever runs is logged.
struct Mesh {
    rig: Rig,
    pods: StaticCollection<Item>,
    policies: StaticCollection<Policy>,
    log: Log,
    _out: Collection<Item>,
}

impl Mesh {
    fn new(rig: Rig, pods: impl IntoIterator<Item = Item>, non_empty: bool) -> Self {
        let mut rig = rig;
        let pods = rig.krt.static_collection("pods", pods);
        let policies = rig.krt.static_collection::<Policy>("policies", []);
        let log = Log::default();
        let (fetched, runs) = (policies.clone(), log.clone());
        let out = rig.krt.collection("selected", &pods, move |cx, pod| {
            let query = fetched.query();
            let selected = cx.fetch(if non_empty {
                query.selecting_non_empty(&pod.labels)
            } else {
                query.selecting(&pod.labels)
            });
            let names: Vec<_> = selected.iter().map(|policy| policy.name.as_str()).collect();
            runs.add(format!("{}[{}]", pod.name, names.join(" ")));
            None::<Item>
        });
        rig.settle();
        log.take();
        Self {
            rig,
            pods,
            policies,
            log,
            _out: out,
        }
    }

    /// Sets a policy; tells who ran, and what selects them.
    fn set(&mut self, policy: Policy) -> Vec<String> {
        self.policies.update(policy);
        self.rig.settle();
        self.log.take()
    }

    fn delete(&mut self, policy: &str) -> Vec<String> {
        self.policies.delete(policy);
        self.rig.settle();
        self.log.take()
    }

    /// How many dependencies there are, and links to them.
    fn dependencies(&self) -> [usize; 2] {
        let [deps, links, ..] = self.rig.stepper.dependencies();
        [deps, links]
    }
}

fn pods() -> Vec<Item> {
    vec![
        Item::new("bare", 0),
        Item::new("db", 0).labels(&[("app", "db"), ("tier", "back")]),
        Item::new("web", 0).labels(&[("app", "web")]),
    ]
}

// [K35] expressions, empty, absent selectors, and those that nothing can meet: who is selected runs, and nobody else
#[test]
fn each_kind_of_selector_concerns_those_whom_it_selects() {
    let in_ = |key: &str, values: &[&str]| Requirement::In(key.into(), texts(values));
    let not_in = |key: &str, values: &[&str]| Requirement::NotIn(key.into(), texts(values));
    let (there, absent) = (
        Requirement::Exists("tier".into()),
        Requirement::DoesNotExist("tier".into()),
    );
    // The policy, and whom it selects.
    let cases: Vec<(Policy, &[&str])> = vec![
        (Policy::new("p", &[("app", "web")], &[]), &["web"]),
        (Policy::new("p", &[], &[in_("app", &["web", "x"])]), &["web"]),
        (Policy::new("p", &[], &[in_("app", &["db", "web"])]), &["db", "web"]),
        (Policy::new("p", &[], &[in_("app", &[])]), &[]),
        (Policy::new("p", &[], &[not_in("app", &["web", "x"])]), &["bare", "db"]),
        (Policy::new("p", &[], std::slice::from_ref(&there)), &["db"]),
        (Policy::new("p", &[], std::slice::from_ref(&absent)), &["bare", "web"]),
        (Policy::new("p", &[("app", "db")], &[not_in("tier", &["back"])]), &[]),
        (Policy::new("p", &[], &[absent.clone(), in_("app", &["web"])]), &["web"]),
        (Policy::new("p", &[], &[absent, not_in("app", &["web"])]), &["bare"]),
        (Policy::new("p", &[], &[]), &["bare", "db", "web"]),
        (
            Policy {
                name: "p".into(),
                selector: None,
            },
            &[],
        ),
    ];
    for rig in [Rig::new, Rig::with_strong_hashes] {
        // Each on its own, and each in the place of each other.
        for (policy, selected) in &cases {
            let mut mesh = Mesh::new(rig(), pods(), false);
            let with: Vec<_> = selected.iter().map(|name| format!("{name}[p]")).collect();
            let without: Vec<_> = selected.iter().map(|name| format!("{name}[]")).collect();
            assert_eq!(mesh.set(policy.clone()), with, "{policy:?}");
            assert_eq!(mesh.delete("p"), without, "{policy:?}");
            for (next, then) in &cases {
                mesh.set(policy.clone());
                let concerned = ["bare", "db", "web"].iter().filter_map(|name| {
                    let (before, after) = (selected.contains(name), then.contains(name));
                    (before || after).then(|| format!("{name}[{}]", if after { "p" } else { "" }))
                });
                assert_eq!(
                    mesh.set(next.clone()),
                    concerned.collect::<Vec<_>>(),
                    "{policy:?} {next:?}"
                );
                mesh.delete("p");
            }
        }
    }
}

// [K15] [K35] an empty selector, in its two forms, selects nobody where only selectors with conditions are asked for
#[test]
fn an_empty_selector_is_none_for_those_who_ask_for_conditions() {
    let mut mesh = Mesh::new(Rig::new(), pods(), true);
    assert_eq!(mesh.set(Policy::new("p", &[], &[])), [""; 0]);
    let exists = Requirement::DoesNotExist("tier".into());
    assert_eq!(mesh.set(Policy::new("p", &[], &[exists])), ["bare[p]", "web[p]"]);
    assert_eq!(mesh.set(Policy::new("p", &[], &[])), ["bare[]", "web[]"]);
}

/// A hundred pods of four applications, each with a label of its own.
fn unique() -> impl Iterator<Item = Item> {
    (0..100).map(|n| {
        let name = format!("pod-{n:02}");
        Item::new(&name, n).labels(&[("app", &format!("app-{}", n % 4)), ("pod-name", &name)])
    })
}

// [K35] labels that are unique to each pod leave dependencies shared; a selector that looks at them moves only those apart whom it tells
// apart, without a run; and when it is gone, they are together again
#[test]
fn labels_that_no_selector_looks_at_do_not_part_dependencies() {
    for rig in [Rig::new, Rig::with_strong_hashes] {
        let mut mesh = Mesh::new(rig(), unique(), false);
        assert_eq!(mesh.dependencies(), [1, 100], "nobody selects, so all are alike");
        assert_eq!(mesh.set(Policy::new("one", &[("app", "app-1")], &[])).len(), 25);
        assert_eq!(mesh.dependencies(), [2, 100]);
        mesh.set(Policy::new("two", &[("app", "app-2")], &[]));
        assert_eq!(mesh.dependencies(), [3, 100]);

        // It looks at a label that one pod has, and at another that none has.
        let own = Policy::new("own", &[("pod-name", "pod-42"), ("nobody", "1")], &[]);
        assert_eq!(mesh.set(own), [""; 0], "nobody runs");
        assert_eq!(mesh.dependencies(), [4, 100], "one pod is not like the others any more");
        assert_eq!(
            mesh.set(Policy::new("own", &[("pod-name", "pod-42")], &[])),
            ["pod-42[own two]"]
        );
        assert_eq!(mesh.delete("own"), ["pod-42[two]"]);
        assert_eq!(mesh.dependencies(), [3, 100]);

        // Whether the label is there is the same for all.
        let exists = Policy::new("all", &[], &[Requirement::Exists("pod-name".into())]);
        assert_eq!(mesh.set(exists).len(), 100);
        assert_eq!(mesh.dependencies(), [3, 100]);
        let one = Requirement::NotIn("pod-name".into(), texts(&["pod-01", "pod-02"]));
        let ran = mesh.set(Policy::new("all", &[], &[one]));
        assert_eq!(ran.len(), 100, "it was selected, or is");
        assert_eq!(&ran[..3], ["pod-00[all]", "pod-01[one]", "pod-02[two]"]);
        assert_eq!(mesh.dependencies(), [5, 100]);
        mesh.delete("all");
        mesh.delete("one");
        mesh.delete("two");
        assert_eq!(mesh.dependencies(), [1, 100]);
    }
}

// [K35] a pod that changes a label at which nobody looks runs for the change alone, and keeps its dependency and the memo
#[test]
fn a_memo_is_shared_by_pods_that_are_alike_to_selectors() {
    let mut mesh = Mesh::new(Rig::with_strong_hashes(), unique(), false);
    mesh.set(Policy::new("one", &[("app", "app-1")], &[]));
    let before = mesh.rig.stepper.engine().deps().counters;
    for n in [1, 5, 9] {
        let changed = Item::new(&format!("pod-0{n}"), n).labels(&[("app", "app-1"), ("pod-name", &format!("new-{n}"))]);
        mesh.pods.update(changed);
    }
    mesh.rig.settle();
    assert_eq!(mesh.log.take(), ["pod-01[one]", "pod-05[one]", "pod-09[one]"]);
    let after = mesh.rig.stepper.engine().deps().counters;
    assert_eq!(after.memo_misses, before.memo_misses);
    assert_eq!(mesh.dependencies(), [2, 100]);
}

// [K9] [K35] two fetches of one run that differ in labels at which nobody looks are one dependency, and come apart when somebody does
#[test]
fn fetches_of_one_run_come_apart_when_a_selector_tells_them_apart() {
    let mut rig = Rig::new();
    let policies = rig.krt.static_collection::<Policy>("policies", []);
    let log = Log::default();
    let (fetched, runs) = (policies.clone(), log.clone());
    let _out = rig.krt.singleton("out", move |cx| {
        let counts = ["blue", "red"].map(|color| {
            let own = labels(&[("color", color)]);
            cx.fetch(fetched.query().selecting(&own)).len()
        });
        runs.add(format!("{counts:?}"));
        None::<Item>
    });
    rig.settle();
    assert_eq!(log.take(), ["[0, 0]"]);
    assert_eq!(rig.stepper.dependencies()[..2], [1, 2]);
    let mut seen = Vec::new();
    for pairs in [
        &[("color", "red"), ("x", "1")][..],
        &[("color", "red")],
        &[("color", "blue")],
        &[],
    ] {
        policies.update(Policy::new("p", pairs, &[]));
        rig.settle();
        seen.push((log.take().join(""), rig.stepper.dependencies()[0]));
    }
    let expected = [("", 2), ("[0, 1]", 2), ("[1, 0]", 2), ("[1, 1]", 1)];
    assert_eq!(seen, expected.map(|(text, deps)| (text.to_owned(), deps)));
}

/// What a closure compares with, and cannot when it is told so.
struct Touchy(Arc<AtomicBool>);

impl PartialEq for Touchy {
    fn eq(&self, _: &Self) -> bool {
        assert!(!self.0.swap(false, Ordering::Relaxed), "unlucky");
        true
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

// [K14] inputs that no selector tells apart any more come together; if their queries cannot be compared, they stay apart, and that is all
#[test]
fn queries_that_cannot_be_compared_stay_apart() {
    let mut rig = Rig::new();
    let pods = ["1", "2"].map(|x| Item::new(&format!("pod-{x}"), 1).labels(&[("app", "a"), ("x", x)]));
    let pods = rig.krt.static_collection("pods", pods);
    let policies = rig.krt.static_collection(
        "policies",
        [
            Item::new("all", 1).selecting(&[("app", "a")]),
            Item::new("one", 1).selecting(&[("x", "1")]),
        ],
    );
    let is_unlucky = Arc::new(AtomicBool::new(false));
    let (fetched, flag) = (policies.clone(), Arc::clone(&is_unlucky));
    let out = rig.krt.collection("out", &pods, move |cx, pod| {
        let query = fetched.query().selecting(&pod.labels);
        let query = query.where_with(Touchy(Arc::clone(&flag)), |_, _| true);
        Some(Item::new(&pod.name, i64::try_from(cx.fetch(query).len()).unwrap()))
    });
    rig.settle();
    assert_eq!(content(&out), ["pod-1=2", "pod-2=1"]);
    is_unlucky.store(true, Ordering::Relaxed);
    policies.delete("one");
    rig.settle();
    assert!(!is_unlucky.load(Ordering::Relaxed), "they were compared");
    assert_eq!(content(&out), ["pod-1=1", "pod-2=1"]);
    policies.update(Item::new("more", 1).selecting(&[("app", "a")]));
    rig.settle();
    assert_eq!(content(&out), ["pod-1=2", "pod-2=2"]);
}
