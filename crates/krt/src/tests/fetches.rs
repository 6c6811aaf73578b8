//! Several fetches of one run from one collection, and fetches that depend on the data: each is followed, until it is not made any more.

use super::*;
use crate::Context;

/// A collection of which one input fetches; each run logs what it saw.
struct Watch {
    rig: Rig,
    others: StaticCollection<Item>,
    input: StaticCollection<Item>,
    log: Log,
    _out: Collection<Item>,
}

impl Watch {
    fn new(
        others: &[Item],
        see: impl Fn(&mut Context<'_>, &Collection<Item>, &Item) -> String + Send + Sync + 'static,
    ) -> Self {
        let mut rig = Rig::new();
        let others = rig.krt.static_collection("others", others.iter().cloned());
        let input = items(&rig, "input", &[("i", 1)]);
        let log = Log::default();
        let (fetched, seen) = (others.clone(), log.clone());
        let out = rig.krt.collection("out", &input, move |cx, item| {
            seen.add(see(cx, &fetched, item));
            None
        });
        rig.settle();
        Self {
            rig,
            others,
            input,
            log,
            _out: out,
        }
    }

    /// What the run saw that a change caused, `-` if none did.
    fn after(&mut self, change: impl FnOnce(&Self)) -> String {
        change(self);
        self.rig.settle();
        let runs = self.log.take();
        assert!(runs.len() <= 1, "{runs:?}");
        runs.into_iter().next().unwrap_or_else(|| "-".into())
    }

    fn set(&mut self, item: Item) -> String {
        self.after(|watch| watch.others.update(item))
    }

    /// How many dependencies there are.
    fn dependencies(&self) -> usize {
        self.rig.stepper.dependencies()[0]
    }
}

fn names(items: &[Arc<Item>]) -> String {
    let names: Vec<_> = items.iter().map(|item| item.key().to_string()).collect();
    names.join(" ")
}

fn app(key: &str, app: &str) -> Item {
    Item::new(key, 0).labels(&[("app", app)])
}

// [K9] two fetches of one collection by different labels
#[test]
fn fetches_by_different_labels_are_both_followed() {
    let mut watch = Watch::new(&[app("a", "web")], |cx, all, _| {
        let (web, db) = (labels(&[("app", "web")]), labels(&[("app", "db")]));
        let (web, db) = (cx.fetch(all.query().labels(&web)), cx.fetch(all.query().labels(&db)));
        format!("{} | {}", names(&web), names(&db))
    });
    assert_eq!(watch.log.take(), ["a | "]);
    assert_eq!(watch.dependencies(), 2);
    let seen = [
        watch.set(app("b", "db")),
        watch.set(app("c", "other")),
        watch.set(app("c", "web")),
        watch.set(app("a", "db")),
        watch.set(app("a", "other")),
        watch.set(app("a", "other")),
        watch.after(|watch| watch.others.delete("b")),
    ];
    let expected = ["a | b", "-", "a c | b", "c | a b", "c | b", "-", "c | "];
    assert_eq!(seen, expected);
}

// [K9] everything, and one key of it
#[test]
fn a_fetch_of_everything_next_to_one_of_a_key() {
    let mut watch = Watch::new(&[Item::new("a", 1)], |cx, all, _| {
        let one = cx.fetch_one(all.query().key("b"));
        let count = cx.fetch(all.query()).len();
        format!("{count} {}", one.map_or(-1, |one| one.value))
    });
    assert_eq!(watch.log.take(), ["1 -1"]);
    let seen = [
        watch.set(Item::new("b", 7)),
        watch.set(Item::new("c", 8)),
        watch.set(Item::new("b", 9)),
        watch.after(|watch| watch.others.delete("b")),
        watch.after(|watch| watch.others.delete("a")),
    ];
    assert_eq!(seen, ["2 7", "3 7", "3 9", "2 -1", "1 -1"]);
}

// [K9] two keys, by two fetches and by one
#[test]
fn two_keys_are_followed_however_they_are_fetched() {
    let mut watch = Watch::new(&[], |cx, all, _| {
        let one = cx.fetch(all.query().key("a"));
        let other = cx.fetch(all.query().key("b"));
        let both = cx.fetch(all.query().keys(["b", "a"]));
        format!("{} | {} | {}", names(&one), names(&other), names(&both))
    });
    assert_eq!(watch.log.take(), [" |  | "]);
    let seen = [
        watch.set(Item::new("b", 1)),
        watch.set(Item::new("c", 1)),
        watch.set(Item::new("a", 1)),
        watch.after(|watch| watch.others.delete("b")),
    ];
    assert_eq!(seen, [" | b | b", "-", "a | b | a b", "a |  | a"]);
}

// [K9] a key and an index, in one fetch and in two
#[test]
fn a_key_and_an_index_are_followed_together_and_each() {
    let mut rig = Rig::new();
    let others = items(&rig, "others", &[("a", 1)]);
    let by_value = others.index_by("value", |item| item.value).unwrap();
    let log = Log::default();
    let (fetched, seen) = (others.clone(), log.clone());
    let _out = rig.krt.singleton("out", move |cx| {
        let together = cx.fetch(by_value.at(&1).key("a"));
        let (key, value) = (cx.fetch(fetched.query().key("b")), cx.fetch(by_value.at(&2)));
        seen.add(format!("{} | {} | {}", names(&together), names(&key), names(&value)));
        None::<Item>
    });
    rig.settle();
    assert_eq!(log.take(), ["a |  | "]);
    let mut seen = Vec::new();
    for (key, value) in [("a", 3), ("a", 4), ("b", 1), ("b", 2), ("c", 1), ("c", 2), ("a", 1)] {
        others.update(Item::new(key, value));
        rig.settle();
        seen.push(log.take().join(""));
    }
    let expected = [" |  | ", "", " | b | ", " | b | b", "", " | b | b c", "a | b | b c"];
    assert_eq!(seen, expected);
}

// [K9] the key that is fetched comes from the data: what is not fetched any more is not followed any more, and leaves nothing
#[test]
fn a_fetch_that_moves_with_the_data_leaves_its_last_place() {
    let mut watch = Watch::new(&[Item::new("v1", 10), Item::new("v2", 20)], |cx, all, item| {
        let key = format!("v{}", item.value);
        let first = cx.fetch_one(all.query().key(&*key)).map_or(-1, |one| one.value);
        // And on from there: what is found says what is fetched next.
        let next = format!("v{first}");
        let next = cx.exists(all.query().key(&*next));
        format!("{first} {next}")
    });
    assert_eq!(watch.log.take(), ["10 false"]);
    assert_eq!(watch.dependencies(), 2);
    let poke = |value| move |watch: &Watch| watch.input.update(Item::new("i", value));
    let seen = [
        watch.set(Item::new("v2", 21)),
        watch.after(poke(2)),
        watch.set(Item::new("v1", 11)),
        watch.set(Item::new("v10", 0)),
        watch.set(Item::new("v21", 0)),
        watch.set(Item::new("v2", 10)),
        watch.set(Item::new("v21", 1)),
        watch.after(|watch| watch.others.delete("v10")),
        watch.after(poke(1)),
    ];
    let expected = [
        "-", "21 false", "-", "-", "21 true", "10 true", "-", "10 false", "11 false",
    ];
    assert_eq!(seen, expected);
    assert_eq!(watch.dependencies(), 2);
    watch.after(|watch| watch.input.delete("i"));
    assert_eq!(watch.rig.stepper.dependencies(), [0; 4]);
}

// [K9] labels that come from the data move their dependency as well, in both directions
#[test]
fn labels_from_the_data_are_followed_as_they_are_now() {
    let mut watch = Watch::new(
        &[app("a", "1"), app("b", "2").selecting(&[("app", "1")])],
        |cx, all, item| {
            let own = labels(&[("app", &item.value.to_string())]);
            let (of, by) = (
                cx.fetch(all.query().labels(&own)),
                cx.fetch(all.query().selecting(&own)),
            );
            format!("{} | {}", names(&of), names(&by))
        },
    );
    assert_eq!(watch.log.take(), ["a | b"]);
    let seen = [
        watch.after(|watch| watch.input.update(Item::new("i", 2))),
        watch.set(app("c", "1")),
        watch.set(app("d", "2").selecting(&[("app", "2")])),
        watch.after(|watch| watch.input.update(Item::new("i", 3))),
        watch.set(app("d", "2")),
        watch.set(app("e", "4").selecting(&[])),
    ];
    assert_eq!(seen, ["b | ", "-", "b d | d", " | ", "-", " | e"]);
    assert_eq!(watch.dependencies(), 2);
}

// [K9] the same question, asked of another collection than the last time, is another one
#[test]
fn a_fetch_that_moves_to_another_collection_is_followed_there() {
    let mut rig = Rig::new();
    let [left, right] = ["left", "right"].map(|name| items(&rig, name, &[("a", 1)]));
    let input = items(&rig, "input", &[("i", 0)]);
    let log = Log::default();
    let (both, seen) = ([left.clone(), right.clone()], log.clone());
    let _out = rig.krt.collection("out", &input, move |cx, item| {
        let from = &both[usize::try_from(item.value % 2).unwrap()];
        let one = cx.fetch_one(from.query().key("a"));
        seen.add(one.map_or(-1, |one| one.value).to_string());
        None::<Item>
    });
    rig.settle();
    let mut after = |change: &dyn Fn()| {
        change();
        rig.settle();
        log.take().join(" ")
    };
    let seen = [
        after(&|| right.update(Item::new("a", 2))),
        after(&|| input.update(Item::new("i", 1))),
        after(&|| left.update(Item::new("a", 3))),
        after(&|| right.update(Item::new("a", 4))),
        after(&|| input.update(Item::new("i", 2))),
        after(&|| right.update(Item::new("a", 5))),
        after(&|| left.update(Item::new("a", 6))),
    ];
    assert_eq!(seen, ["1", "2", "", "4", "3", "", "6"]);
}
