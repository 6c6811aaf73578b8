//! Groups of an index as a collection.

use super::*;
use crate::{Group, GroupKey};

/// A line for each event: the group, and its members before and after.
fn group_line<K: std::fmt::Debug + Send + Sync + 'static>(event: &Event<Group<K, Item>>) -> String {
    let members = |group: Option<&Arc<Group<K, Item>>>| {
        let members = group.into_iter().flat_map(|group| group.members());
        let members = members.map(|item| format!("{}={}", item.key(), item.value));
        members.collect::<Vec<_>>().join(" ")
    };
    let value = event.latest().value();
    format!("{value:?}: {} > {}", members(event.old()), members(event.new()))
}

fn follow<K: std::fmt::Debug + Send + Sync + 'static>(
    log: &Log,
    groups: &Collection<Group<K, Item>>,
) -> crate::Registration {
    let log = log.clone();
    groups.on_change(move |event| log.add(group_line(event)))
}

// [K20] changes of the members are updates, an empty group is absent, other groups hear nothing
#[test]
fn each_group_is_told_its_own_changes() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("x/b", 1), ("x/a", 2), ("y/c", 3)]);
    let groups = source
        .index_by("namespace", |item| item.ns.clone())
        .unwrap()
        .as_collection("groups");
    let log = Log::default();
    let registration = follow(&log, &groups);
    rig.settle();
    assert!(groups.has_synced() && registration.has_synced());
    assert_eq!((groups.name(), groups.len()), ("groups", 2));
    assert_eq!(log.take(), [r#""x":  > x/a=2 x/b=1"#, r#""y":  > y/c=3"#]);
    // A member comes, one changes, one goes: each time it is its group alone.
    source.update(Item::new("x/d", 4));
    rig.settle();
    assert_eq!(log.take(), [r#""x": x/a=2 x/b=1 > x/a=2 x/b=1 x/d=4"#]);
    source.update(Item::new("x/b", 5));
    source.delete("x/a");
    rig.settle();
    assert_eq!(log.take(), [r#""x": x/a=2 x/b=1 x/d=4 > x/b=5 x/d=4"#]);
    source.delete("y/c");
    rig.settle();
    assert_eq!(log.take(), [r#""y": y/c=3 > "#]);
    assert!(groups.get_by("y").is_none() && groups.get("y").is_none());
    source.update(Item::new("y/c", 6));
    rig.settle();
    assert_eq!(log.take(), [r#""y":  > y/c=6"#]);
    // An equal object that is set once more changes no group.
    source.update(Item::new("y/c", 6));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    // All of a group is replaced in one epoch: it was never empty.
    source.delete("y/c");
    source.update(Item::new("y/d", 7));
    rig.settle();
    assert_eq!(log.take(), [r#""y": y/c=6 > y/d=7"#]);
}

// [K20] an object moves from group to group, and may be in several
#[test]
fn an_object_is_in_the_group_of_each_of_its_values() {
    let mut rig = Rig::new();
    let source = rig.krt.static_collection(
        "source",
        [Item::new("a", 1).labels(&[("app", "web"), ("tier", "front")])],
    );
    let by_label = source.index("labels", |item| item.labels.clone()).unwrap();
    let groups = by_label.as_collection("groups");
    rig.settle();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let web = groups.get_by(&pair("app", "web")).unwrap();
    assert_eq!((web.len(), web.value()), (1, &pair("app", "web")));
    assert_eq!(web.get("a").unwrap().value, 1);
    assert_eq!(web.key().to_string(), "app/web");
    let log = Log::default();
    let _handler = follow(&log, &groups);
    rig.settle();
    log.take();
    source.update(Item::new("a", 2).labels(&[("app", "api"), ("tier", "front")]));
    rig.settle();
    let expected = [
        r#"("app", "api"):  > a=2"#,
        r#"("app", "web"): a=1 > "#,
        r#"("tier", "front"): a=1 > a=2"#,
    ];
    assert_eq!(log.take(), expected);
    assert_eq!(web.get("a").unwrap().value, 1, "a group that is held does not change");
}

// [K20] values whose keys could be taken for each other, the empty one among them
#[test]
fn groups_are_found_by_their_values() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("~/a", 2), ("x/a", 3)]);
    let groups = source
        .index_by("namespace", |item| item.ns.clone())
        .unwrap()
        .as_collection("groups");
    rig.settle();
    for (namespace, value) in [("", 1), ("~", 2), ("x", 3)] {
        let group = groups.get_by(namespace).unwrap();
        let values: Vec<_> = group.members().map(|item| item.value).collect();
        assert_eq!((group.value().as_str(), values), (namespace, vec![value]));
    }
    assert!(groups.get_by("none").is_none());
}

// [K20] a transformation that fetches a group runs for its changes and no others
#[test]
fn a_group_can_be_fetched() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("x/a", 1), ("y/b", 2)]);
    let wanted = items(&rig, "wanted", &[("x", 0), ("z", 0)]);
    let groups = source
        .index_by("namespace", |item| item.ns.clone())
        .unwrap()
        .as_collection("groups");
    let sums = rig.krt.collection("sums", &wanted, move |cx, item| {
        let group = cx.fetch_one(groups.query().key(&*item.name.encode()));
        let sum = group.map_or(-1, |group| group.members().map(|item| item.value).sum());
        Some(Item::new(&item.name, sum))
    });
    rig.settle();
    assert_eq!(content(&sums), ["x=1", "z=-1"]);
    let runs = sums.stats().runs;
    source.update(Item::new("y/b", 3));
    rig.settle();
    assert_eq!(sums.stats().runs, runs);
    source.update(Item::new("x/c", 10));
    source.update(Item::new("z/d", 20));
    rig.settle();
    assert_eq!(content(&sums), ["x=11", "z=20"]);
    assert_eq!(sums.stats().runs, runs + 2);
}

/// A value whose text is not always good.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Odd(i64);

impl GroupKey for Odd {
    fn encode(&self) -> std::borrow::Cow<'_, str> {
        assert!(self.0 != 7, "unlucky");
        if self.0 == 0 { "" } else { "same" }.into()
    }
}

// Values without a usable key have no group; of several with one key, one has it, and the others are counted.
#[test]
fn bad_keys_of_groups_are_contained() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("empty", 0), ("panics", 7), ("a", 1)]);
    let groups = source
        .index_by("odd", |item| Odd(item.value))
        .unwrap()
        .as_collection("groups");
    rig.settle();
    assert_eq!(
        (groups.len(), groups.stats().panics, groups.stats().conflicts),
        (1, 2, 0)
    );
    source.update(Item::new("b", 2));
    rig.settle();
    assert_eq!((groups.len(), groups.stats().conflicts), (1, 1));
    assert_eq!(groups.get("same").unwrap().value(), &Odd(1));
    source.delete("a");
    rig.settle();
    source.update(Item::new("c", 2));
    rig.settle();
    let group = groups.get("same").unwrap();
    assert_eq!((group.value(), group.len()), (&Odd(2), 2));
    // A function that panics for an object takes it out of the index, and out of its group.
    source.reset([]);
    rig.settle();
    assert!(groups.is_empty());
}

#[test]
fn groups_wait_for_their_source_and_survive_its_stop() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    let by_namespace = source.index_by("namespace", |item| item.ns.clone()).unwrap();
    let early = by_namespace.as_collection("early");
    source.update(Item::new("x/a", 1));
    rig.settle();
    assert!(!early.has_synced() && early.is_empty());
    source.stop();
    rig.settle();
    let late = by_namespace.as_collection("late");
    rig.settle();
    assert!(early.has_synced() && late.has_synced());
    assert_eq!((early.len(), late.len()), (1, 1));
}
