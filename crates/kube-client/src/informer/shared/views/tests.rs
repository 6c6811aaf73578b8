//! Views on a store without a network: each row of the table, and steps that cross.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use kube::core::{ApiResource, GroupVersionKind};

use super::*;
use crate::filter::{FilterSubscriber, FilterSubscribers, ObjectFilter};
use crate::informer::handler::HandlerOptions;
use crate::informer::index::IndexDef;
use crate::informer::options::Namespaces;
use crate::informer::relist::Relist;
use crate::informer::shared::Received;
use crate::informer::view::criteria::Criterion;
use crate::key::ObjectKey;
use crate::object::Metadata;
use crate::sample::{Item, fold, item, item_in};
use crate::sync::Mutex;
use crate::sync::checked::assert_none_held;

type Rule = Box<dyn Fn(&Metadata<'_>) -> bool + Send + Sync>;
type Hook = Box<dyn FnOnce() + Send>;

/// A filter that a test changes at will.
pub(super) struct Switch {
    rule: Mutex<Arc<Rule>>,
    synced: AtomicBool,
    subscribers: FilterSubscribers,
    asked: AtomicUsize,
    // Done in the middle of the next question.
    hook: Mutex<Option<Hook>>,
}

impl Switch {
    pub(super) fn new(synced: bool, rule: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            rule: Mutex::new(Arc::new(Box::new(rule))),
            synced: AtomicBool::new(synced),
            subscribers: FilterSubscribers::new(),
            asked: AtomicUsize::new(0),
            hook: Mutex::new(None),
        })
    }

    /// A filter by namespaces.
    fn of(namespaces: &'static [&'static str]) -> Arc<Self> {
        Self::new(true, in_any(namespaces))
    }

    fn step(&self, change: &FilterChange, rule: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) {
        let old = std::mem::replace(&mut *self.rule.lock(), Arc::new(Box::new(rule)));
        drop(old);
        self.subscribers.notify(change);
    }

    pub(super) fn sync(&self) {
        self.synced.store(true, SeqCst);
        self.subscribers.notify(&FilterChange::All);
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, SeqCst)
    }

    fn hook(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }
}

impl ObjectFilter for Switch {
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        assert_none_held();
        assert_eq!(
            (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()),
            ("test.io", "v1", "Item")
        );
        self.asked.fetch_add(1, SeqCst);
        let rule = Arc::clone(&self.rule.lock());
        let answer = rule(metadata);
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        answer
    }

    fn has_synced(&self) -> bool {
        assert_none_held();
        self.synced.load(SeqCst)
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        assert_none_held();
        self.subscribers.subscribe(subscriber)
    }
}

fn in_any(namespaces: &'static [&'static str]) -> impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static {
    move |metadata| metadata.namespace.is_some_and(|own| namespaces.contains(&own))
}

fn changed(namespaces: &[&str]) -> FilterChange {
    FilterChange::Namespaces(namespaces.iter().map(|name| Arc::from(*name)).collect())
}

pub(super) fn criteria(filter: &Arc<impl ObjectFilter>) -> Criteria {
    let criterion = Criterion {
        filter: Arc::clone(filter) as Arc<dyn ObjectFilter>,
        spares_cluster_scope: false,
    };
    let resource: ApiResource = Item::api_resource(&());
    Criteria::new(&resource, vec![criterion])
}

pub(super) fn shared() -> Arc<Shared<Item>> {
    Arc::new(Shared::new(&Namespaces::All))
}

pub(super) fn relist(shared: &Shared<Item>, items: &[Arc<Item>]) {
    let mut relist = Relist::new(true);
    for item in items {
        drop(shared.with_store(|store| relist.upsert(store, Arc::new(Item::clone(item)))));
    }
    shared.replace(0, &relist, "1".to_owned());
}

pub(super) fn upsert(shared: &Shared<Item>, items: &[Arc<Item>]) {
    let mut changes = items.iter().cloned().map(Received::Upsert).collect();
    shared.apply(0, &mut changes, Some("2".to_owned()));
}

pub(super) fn delete(shared: &Shared<Item>, namespace: &str, name: &str) {
    let key = ObjectKey::namespaced(namespace, name);
    let last = shared.get(key.as_ref());
    shared.apply(0, &mut vec![Received::Delete { key, last }], None);
}

pub(super) fn queue(coalesce_above: usize) -> Arc<HandlerQueue<Item>> {
    let options = HandlerOptions::default().coalesce_above(coalesce_above);
    Arc::new(HandlerQueue::new(options))
}

fn register(claim: &Claim<Item>) -> Arc<HandlerQueue<Item>> {
    let queue = queue(usize::MAX);
    assert!(claim.shared().register_in(claim.id(), &queue));
    queue
}

/// Everything that waits in the queue, handled.
fn take_all(queue: &HandlerQueue<Item>) -> Vec<Event<Item>> {
    let mut all = Vec::new();
    let cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(taken)) = queue.poll_take(&cx) {
        assert!(queue.begin());
        all.extend(taken.events().iter().cloned());
        queue.finish(taken.events(), false);
    }
    all
}

fn told(queue: &HandlerQueue<Item>) -> Vec<String> {
    let events = take_all(queue);
    let text = |event: &Event<Item>| match event {
        Event::Added { object, initial: true } => format!("initial {}", object.value),
        Event::Added { object, .. } => format!("added {}", object.value),
        Event::Updated { old, new } => format!("{} -> {}", old.value, new.value),
        Event::Deleted { object, stale } => format!("deleted {} stale {stale}", object.value),
    };
    events.iter().map(text).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

/// What the view shows, by every way of reading, which have to agree.
fn shown(claim: &Claim<Item>) -> Vec<String> {
    let shared = claim.shared();
    let mut values: Vec<String> = shared
        .list_in(claim.id(), None)
        .iter()
        .map(|item| item.value.clone())
        .collect();
    values.sort_unstable();
    assert_eq!(shared.len_in(claim.id()), values.len());
    let def = IndexDef::new("value", |item: &Item| [item.value.clone()]);
    let index = shared.add_index(&def).ok().unwrap();
    let mut indexed: Vec<String> = shared
        .index_values_in(claim.id(), index)
        .iter()
        .map(ToString::to_string)
        .collect();
    indexed.sort_unstable();
    assert_eq!(indexed, values);
    for item in shared.list(None) {
        let visible = values.contains(&item.value);
        let key = item.metadata().key();
        assert_eq!(shared.get_in(claim.id(), key.as_ref()).is_some(), visible);
        assert_eq!(
            shared.by_index_in(claim.id(), index, &item.value).len(),
            usize::from(visible)
        );
        let in_namespace = shared.list_in(claim.id(), key.namespace());
        assert_eq!(in_namespace.contains(&item), visible);
    }
    shared.check_view(claim.id());
    shared.check_invariants();
    values
}

fn is_even(metadata: &Metadata<'_>) -> bool {
    metadata.resource_version.parse::<u64>().unwrap().is_multiple_of(2)
}

// [V1] each row of the table for a change of the object; reads and indexes agree after each
#[test]
fn object_changes_across_the_filter() {
    let shared = shared();
    let claim = shared.view(criteria(&Switch::new(true, is_even)));
    let queue = register(&claim);
    relist(&shared, &[item("a", "u", 2), item("b", "u", 3)]);
    assert_eq!(told(&queue), ["initial a@2"]);
    assert!(queue.has_synced());
    for (change, expected, visible) in [
        (item("a", "u", 4), vec!["a@2 -> a@4"], vec!["a@4"]),
        (item("a", "u", 5), vec!["deleted a@4 stale false"], vec![]),
        (item("a", "u", 7), vec![], vec![]),
        (item("a", "u", 8), vec!["added a@8"], vec!["a@8"]),
        (item("b", "u", 10), vec!["added b@10"], vec!["a@8", "b@10"]),
        (item("c", "u", 11), vec![], vec!["a@8", "b@10"]),
        // Another object under the name of a visible one, and of a hidden one.
        (
            item("b", "v", 12),
            vec!["deleted b@10 stale true", "added b@12"],
            vec!["a@8", "b@12"],
        ),
        (item("b", "w", 13), vec!["deleted b@12 stale true"], vec!["a@8"]),
        (item("b", "x", 14), vec!["added b@14"], vec!["a@8", "b@14"]),
    ] {
        upsert(&shared, &[Arc::clone(&change)]);
        assert_eq!(told(&queue), expected, "{}", change.value);
        let mut visible = visible;
        visible.sort_unstable();
        assert_eq!(shown(&claim), visible, "{}", change.value);
    }
    delete(&shared, "n", "c");
    assert_eq!(told(&queue), [""; 0]);
    delete(&shared, "n", "a");
    assert_eq!(told(&queue), ["deleted a@8 stale false"]);
    // A relist tells what vanished, crossed over and appeared, each as a single change would.
    upsert(&shared, &[item("d", "u", 16), item("e", "u", 17)]);
    told(&queue);
    relist(
        &shared,
        &[
            item("d", "u", 19),
            item("e", "u", 20),
            item("f", "u", 22),
            item("g", "u", 23),
        ],
    );
    assert_eq!(
        sorted(told(&queue)),
        [
            "added e@20",
            "added f@22",
            "deleted b@14 stale true",
            "deleted d@16 stale false"
        ]
    );
    assert_eq!(shown(&claim), ["e@20", "f@22"]);
}

// A view ends while its filters are asked: what is left of it is let go of without the lock, and they may be the last of it
#[test]
fn filters_of_a_view_that_ends_amid_a_change_are_dropped_without_the_lock() {
    /// A filter that looks at the informer when it is dropped.
    struct Looks {
        shared: Weak<Shared<Item>>,
        hook: Mutex<Option<Hook>>,
        seen: Arc<Mutex<Option<usize>>>,
    }
    impl ObjectFilter for Looks {
        fn allows(&self, _: &GroupVersionKind, _: &Metadata<'_>) -> bool {
            let hook = self.hook.lock().take();
            if let Some(hook) = hook {
                hook();
            }
            true
        }

        fn has_synced(&self) -> bool {
            true
        }

        fn subscribe(&self, _: FilterSubscriber) -> FilterSubscription {
            FilterSubscription::new(|| {})
        }
    }
    impl Drop for Looks {
        fn drop(&mut self) {
            assert_none_held(); // contained, but then nothing is seen
            *self.seen.lock() = self.shared.upgrade().map(|shared| shared.len());
        }
    }
    let shared = shared();
    let seen = Arc::default();
    let filter = Arc::new(Looks {
        shared: Arc::downgrade(&shared),
        hook: Mutex::new(None),
        seen: Arc::clone(&seen),
    });
    let claim = shared.view(criteria(&filter));
    *filter.hook.lock() = Some(Box::new(move || drop(claim)));
    drop(filter);
    upsert(&shared, &[item("a", "u", 1)]);
    assert_eq!((shared.views(), shared.len()), (0, 1));
    assert_eq!(*seen.lock(), Some(0), "dropped before the change");
}

// [V2] [V5] each row for a change of the filter; only what is concerned is asked about; who was removed hears nothing
#[test]
fn filter_changes_select_and_deselect() {
    let shared = shared();
    let filter = Switch::of(&["m"]);
    let claim = shared.view(criteria(&filter));
    let (queue, removed) = (register(&claim), register(&claim));
    let all: Vec<Arc<Item>> = ["m", "n", "o"]
        .iter()
        .flat_map(|namespace| (1..=3).map(move |n| item_in(namespace, &format!("{namespace}{n}"), "u", n)))
        .collect();
    relist(&shared, &all);
    assert_eq!(sorted(told(&queue)), ["initial m1@1", "initial m2@2", "initial m3@3"]);
    told(&removed);
    removed.remove();
    shared.unregister(&removed);

    filter.asked();
    filter.step(&changed(&["m", "n"]), in_any(&["n"]));
    assert_eq!(filter.asked(), 6, "the objects of two namespaces");
    let expected = [
        "added n1@1",
        "added n2@2",
        "added n3@3",
        "deleted m1@1 stale false",
        "deleted m2@2 stale false",
        "deleted m3@3 stale false",
    ];
    assert_eq!(sorted(told(&queue)), expected);
    assert_eq!(shown(&claim), ["n1@1", "n2@2", "n3@3"]);

    // Told of a change that is none, and of one that leaves something as it was.
    filter.step(&changed(&["m", "x"]), in_any(&["n"]));
    assert_eq!(told(&queue), [""; 0]);
    filter.asked();
    filter.step(&FilterChange::All, in_any(&["n", "o"]));
    assert_eq!(filter.asked(), 9);
    assert_eq!(sorted(told(&queue)), ["added o1@1", "added o2@2", "added o3@3"]);

    // The events that follow are those of what is visible now.
    upsert(&shared, &[item_in("m", "m1", "u", 9), item_in("n", "n1", "u", 9)]);
    assert_eq!(told(&queue), ["n1@1 -> n1@9"]);
    assert_eq!(shared.list(None).len(), 9, "the informer itself shows all");
    assert!(take_all(&removed).is_empty());

    // A late handler gets what is visible, as initial.
    let late = register(&claim);
    assert_eq!(take_all(&late).len(), 6);
    assert!(late.has_synced());
}

// [V7] nothing is asked, shown, told or synced before the filter is; then everything at once, as initial
#[test]
fn view_waits_for_its_filter() {
    let shared = shared();
    let filter = Switch::new(false, in_any(&["n"]));
    let claim = shared.view(criteria(&filter));
    let early = register(&claim);
    relist(&shared, &[item("a", "u", 1), item_in("m", "b", "u", 2)]);
    upsert(&shared, &[item("c", "u", 3)]);
    filter.step(&changed(&["n"]), in_any(&["n"]));
    assert_eq!(filter.asked(), 0);
    assert!(!shared.is_ready(claim.id()) && !early.has_synced());
    assert_eq!(shown(&claim), [""; 0]);
    assert!(take_all(&early).is_empty());
    filter.sync();
    assert!(shared.is_ready(claim.id()));
    assert!(!early.has_synced(), "it has yet to handle its initial state");
    assert_eq!(sorted(told(&early)), ["initial a@1", "initial c@3"]);
    assert!(early.has_synced());
    assert_eq!(shown(&claim), ["a@1", "c@3"]);
}

// [V7] the other way round: the filter is synced, the cache is not filled
#[test]
fn view_waits_for_the_first_list() {
    let shared = shared();
    let claim = shared.view(criteria(&Switch::of(&["n"])));
    let early = register(&claim);
    assert!(!shared.is_ready(claim.id()) && !early.has_synced());
    relist(&shared, &[item_in("m", "b", "u", 2)]);
    assert!(
        shared.is_ready(claim.id()) && early.has_synced(),
        "nothing is visible, and that is all"
    );
    assert!(take_all(&early).is_empty());
}

// Objects that change, and filters that move on, in the middle of a question: the answer is asked for again
#[test]
fn steps_that_cross_are_judged_again() {
    let shared = shared();
    let filter = Switch::of(&["m"]);
    let claim = shared.view(criteria(&filter));
    let queue = register(&claim);
    relist(&shared, &[item("a", "u", 1), item_in("m", "b", "u", 1)]);
    assert_eq!(told(&queue), ["initial b@1"]);

    // A pass is under way when the filter moves on: the first answer is never seen.
    filter.hook({
        let filter = Arc::clone(&filter);
        move || filter.step(&changed(&["n"]), in_any(&["m"]))
    });
    filter.step(&changed(&["n"]), in_any(&["m", "n"]));
    assert_eq!(told(&queue), [""; 0]);
    assert_eq!(shown(&claim), ["b@1"]);

    // A pass is under way when its object changes, goes, and another one takes its slot.
    filter.hook({
        let shared = Arc::clone(&shared);
        move || {
            upsert(&shared, &[item("a", "u", 2)]);
            delete(&shared, "n", "a");
            upsert(&shared, &[item_in("o", "c", "u", 3)]);
        }
    });
    filter.step(&changed(&["n"]), in_any(&["m", "n"]));
    assert_eq!(told(&queue), ["added a@2", "deleted a@2 stale false"]);
    assert_eq!(shown(&claim), ["b@1"]);

    // An event is under way when the filter hides its namespace, and has looked at all others.
    filter.hook({
        let filter = Arc::clone(&filter);
        move || filter.step(&changed(&["n"]), in_any(&["m"]))
    });
    upsert(&shared, &[item("d", "u", 4)]);
    assert_eq!(told(&queue), [""; 0]);
    assert_eq!(shown(&claim), ["b@1"]);

    // A view is made in the middle of an event.
    let late: Arc<Mutex<Option<Arc<Claim<Item>>>>> = Arc::default();
    filter.hook({
        let (shared, late) = (Arc::clone(&shared), Arc::clone(&late));
        move || {
            let claim = shared.view(criteria(&Switch::of(&["m"])));
            *late.lock() = Some(claim);
        }
    });
    upsert(&shared, &[item_in("m", "e", "u", 5)]);
    assert_eq!(told(&queue), ["added e@5"]);
    let late = late.lock().take().unwrap();
    assert_eq!(shown(&late), ["b@1", "e@5"]);
}

// [V3] a filter may read what it filters, informer and view
#[test]
fn filter_that_lists_does_not_wait_for_itself() {
    let shared = shared();
    let claim: Arc<Mutex<Option<Weak<Claim<Item>>>>> = Arc::default();
    let filter = Switch::new(true, {
        let (shared, claim) = (Arc::downgrade(&shared), Arc::clone(&claim));
        move |metadata| {
            let shared = shared.upgrade().unwrap();
            let claim = claim.lock().clone();
            let visible = claim.and_then(|claim| claim.upgrade());
            let visible = visible.map_or(0, |claim| shared.list_in(claim.id(), None).len());
            shared.list(metadata.namespace).len() + visible < 100
        }
    });
    let view = shared.view(criteria(&filter));
    *claim.lock() = Some(Arc::downgrade(&view));
    let queue = register(&view);
    relist(&shared, &[item("a", "u", 1)]);
    filter.step(&FilterChange::All, |_| true);
    assert_eq!(told(&queue), ["initial a@1"]);
}

#[test]
fn panicking_filter_changes_nothing() {
    let shared = shared();
    let filter = Switch::of(&["n"]);
    let claim = shared.view(criteria(&filter));
    let queue = register(&claim);
    relist(&shared, &[item("a", "u", 1), item_in("m", "b", "u", 1)]);
    told(&queue);
    filter.step(&FilterChange::All, |_| panic!("a filter panics"));
    assert_eq!(told(&queue), [""; 0]);
    upsert(
        &shared,
        &[item("a", "u", 2), item_in("m", "b", "u", 2), item("c", "u", 2)],
    );
    assert_eq!(told(&queue), ["a@1 -> a@2"]);
    assert_eq!(shown(&claim), ["a@2"]);
    filter.step(&FilterChange::All, in_any(&["n"]));
    assert_eq!(told(&queue), ["added c@2"]);
}

// A view is shared by all who ask the same, and ends with its last handle and handler; its subscription with it
#[test]
fn view_lives_as_long_as_it_is_used() {
    let shared = shared();
    let (filter, other) = (Switch::of(&["n"]), Switch::of(&["n"]));
    let one = shared.view(criteria(&filter));
    let same = shared.view(criteria(&filter));
    let another = shared.view(criteria(&other));
    assert!(one.id() == same.id() && one.id() != another.id());
    assert_eq!((shared.views(), filter.subscribers.len()), (2, 1));
    drop(another);
    assert_eq!((shared.views(), other.subscribers.len()), (1, 0));
    let queue = register(&one);
    drop((one, same));
    relist(&shared, &[item("a", "u", 1)]);
    filter.step(&changed(&["n"]), |_| false);
    assert_eq!(
        told(&queue),
        ["initial a@1", "deleted a@1 stale false"],
        "a handler keeps it"
    );
    queue.remove();
    shared.unregister(&queue);
    assert_eq!((shared.views(), filter.subscribers.len()), (0, 0));
    assert_eq!(
        Arc::strong_count(&filter),
        1,
        "what steps keep for the next one keeps no filter"
    );

    let last = shared.view(criteria(&filter));
    let queue = register(&last);
    shared.stop();
    assert!(queue.is_ended() && filter.subscribers.is_empty());
    filter.step(&changed(&["n"]), in_any(&["n"]));
    assert_eq!(shown(&last), [""; 0], "the last state");
    let late = shared.view(criteria(&other));
    assert_eq!(shown(&late), ["a@1"], "made after the stop, it shows what there is");
    assert!(!shared.register_in(late.id(), &HandlerQueue::new(HandlerOptions::default()).into()));
}

// A resync tells a handler of a view what is visible, and no more
#[test]
fn resync_of_a_view_tells_what_is_visible() {
    let shared = shared();
    let claim = shared.view(criteria(&Switch::new(true, is_even)));
    relist(&shared, &[item("a", "u", 1), item("b", "u", 2)]);
    let queue = register(&claim);
    told(&queue);
    shared.resync(&queue);
    assert_eq!(told(&queue), ["b@2 -> b@2"]);
}

// [V1] [V2] a seeded history of objects, several at a time, of views, filters and handlers against a model that knows no order but its own
#[test]
fn histories_fold_to_what_the_model_shows() {
    let seed = std::env::var("VIEW_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("VIEW_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..50 {
        history(&mut random);
    }
}

const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];

/// What one handler of a history was told.
struct Listener {
    // Of the informer itself if `None`.
    view: Option<usize>,
    queue: Arc<HandlerQueue<Item>>,
    state: BTreeMap<ObjectKey, Arc<Item>>,
}

/// What the objects of a history are, and their last version, so that no two have the same.
#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectKey, Arc<Item>>,
    version: u64,
}

impl Model {
    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Some change: of an object, to another one of its name, or its end, if it is there.
    fn change(&mut self, random: &mut fastrand::Rng) -> Received<Item> {
        let namespace = NAMESPACES[random.usize(..NAMESPACES.len())];
        let name = ["x", "y", "z", "never"][random.usize(..4)];
        let key = ObjectKey::namespaced(namespace, name);
        if random.u8(..4) == 0 {
            let last = self.objects.remove(&key);
            return Received::Delete { key, last };
        }
        let uid = ["u", "v"][usize::from(random.u8(..10) == 0)];
        let object = item_in(namespace, name, uid, self.next());
        self.objects.insert(key, Arc::clone(&object));
        Received::Upsert(object)
    }

    /// A list from which something is gone, and something has changed.
    fn relist(&mut self, random: &mut fastrand::Rng) -> Vec<Arc<Item>> {
        self.objects.retain(|_, _| random.u8(..4) > 0);
        for mut object in self.list() {
            if random.u8(..4) == 0 {
                let version = self.next();
                let meta = object.metadata();
                object = item_in(meta.namespace.unwrap(), meta.name, meta.uid, version);
                self.objects.insert(object.metadata().key(), object);
            }
        }
        self.list()
    }

    fn list(&self) -> Vec<Arc<Item>> {
        self.objects.values().cloned().collect()
    }
}

fn history(random: &mut fastrand::Rng) {
    let shared = shared();
    let shown_now: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let filter = Switch::new(random.bool(), {
        let shown_now = Arc::clone(&shown_now);
        move |metadata| {
            let by_namespace = shown_now.lock().contains(metadata.namespace.unwrap());
            by_namespace && metadata.name != "never"
        }
    });
    // The second one stands beside it, and mostly shows what comes as it is.
    let steady = Switch::new(true, |metadata: &Metadata<'_>| metadata.name != "never");
    let claims = [&filter, &steady].map(|filter| shared.view(criteria(filter)));
    let mut listeners: Vec<Listener> = Vec::new();
    let mut model = Model::default();
    for _ in 0..random.usize(20..200) {
        match random.u8(..100) {
            0..60 => {
                let mut step = Vec::new();
                while step.is_empty() || random.u8(..3) > 0 {
                    step.push(model.change(random));
                }
                shared.apply(0, &mut step, None);
            }
            60..65 => relist(&shared, &model.relist(random)),
            65..85 => {
                let namespace = NAMESPACES[random.usize(..NAMESPACES.len())];
                let hidden = shown_now.lock().remove(namespace);
                if !hidden {
                    shown_now.lock().insert(namespace);
                }
                let what = if random.bool() {
                    changed(&[namespace])
                } else {
                    FilterChange::All
                };
                filter.subscribers.notify(&what);
            }
            85..88 => filter.sync(),
            88..95 => {
                let queue = queue(if random.bool() { usize::MAX } else { 2 });
                let view = [None, Some(0), Some(0), Some(1)][random.usize(..4)];
                assert!(match view {
                    None => shared.register(&queue),
                    Some(view) => shared.register_in(claims[view].id(), &queue),
                });
                listeners.push(Listener {
                    view,
                    queue,
                    state: BTreeMap::new(),
                });
            }
            _ if listeners.is_empty() => {}
            _ => {
                let gone = listeners.swap_remove(random.usize(..listeners.len()));
                gone.queue.remove();
                shared.unregister(&gone.queue);
            }
        }
        for listener in &mut listeners {
            if random.u8(..3) > 0 {
                fold(&mut listener.state, &take_all(&listener.queue));
            }
        }
        shared.check_invariants();
        for claim in &claims {
            shared.check_view(claim.id());
        }
    }
    relist(&shared, &model.list());
    filter.sync();
    let expected = |view: Option<usize>| -> BTreeMap<ObjectKey, Arc<Item>> {
        let visible = |key: &ObjectKey| match view {
            None => true,
            Some(0) => shown_now.lock().contains(key.namespace().unwrap()) && key.name() != "never",
            Some(_) => key.name() != "never",
        };
        let visible = model.objects.iter().filter(|(key, _)| visible(key));
        visible.map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
    };
    for (at, claim) in claims.iter().enumerate() {
        let listed = shared.list_in(claim.id(), None).into_iter();
        let listed: BTreeMap<ObjectKey, Arc<Item>> = listed.map(|object| (object.metadata().key(), object)).collect();
        assert_eq!(listed, expected(Some(at)));
        shown(claim);
    }
    for listener in &mut listeners {
        fold(&mut listener.state, &take_all(&listener.queue));
        assert_eq!(listener.state, expected(listener.view));
        assert!(listener.queue.has_synced());
    }
}

/// Whether no initial event is left.
fn is_settled(queue: &HandlerQueue<Item>) -> bool {
    let cx = Context::from_waker(Waker::noop());
    queue.poll_settled(&mut None, &cx).is_ready()
}

// [D1] [D3] [D5] a kind that is absent, comes, goes and comes again: synced once and for ever, initial events each time
#[test]
fn delayed_view_follows_a_kind_that_comes_and_goes() {
    let shared = shared();
    let all = || Criteria::new(&Item::api_resource(&()), Vec::new());
    let (claim, other) = (shared.delayed_view(all()), shared.delayed_view(all()));
    assert!(claim.id() != other.id(), "each has handlers of its own");
    let queue = register(&claim);
    let plain = self::queue(usize::MAX);
    assert!(shared.register(&plain));
    assert!(!queue.has_synced() && !shared.is_ready(claim.id()));
    shared.clear();
    assert!(queue.has_synced() && shared.is_ready(claim.id()) && !shared.is_listed());
    assert!(!plain.has_synced() && !shared.is_filled(), "the others wait for a list");
    assert!(register(&claim).has_synced());
    for version in [1, 5] {
        relist(&shared, &[item("a", "u", version), item_in("m", "b", "u", version)]);
        assert!(shared.is_listed() && !is_settled(&queue));
        assert!(queue.has_synced(), "it never goes back");
        let expected = [format!("initial a@{version}"), format!("initial b@{version}")];
        assert_eq!(sorted(told(&queue)), expected);
        assert_eq!(sorted(told(&plain)), expected);
        assert!(is_settled(&queue) && plain.has_synced());
        upsert(&shared, &[item("a", "u", version + 1)]);
        let update = format!("a@{version} -> a@{}", version + 1);
        assert_eq!(told(&queue), [update]);
        assert_eq!(shown(&claim).len(), 2);
        shared.clear();
        let expected = [
            format!("deleted a@{} stale true", version + 1),
            format!("deleted b@{version} stale true"),
        ];
        assert_eq!(sorted(told(&queue)), expected);
        assert_eq!(told(&plain).len(), 3, "the update and both deletes");
        assert_eq!(shown(&claim), [""; 0]);
        assert!(!shared.is_listed() && shared.is_filled() && shared.version().is_empty());
    }
}

/// An item of which the drop panics.
#[derive(Debug, serde::Deserialize)]
struct Bomb(Item);

impl Object for Bomb {
    type DynamicType = ();

    fn api_resource(unit: &()) -> ApiResource {
        Item::api_resource(unit)
    }

    fn scope(unit: &()) -> crate::Scope {
        Item::scope(unit)
    }

    fn metadata(&self) -> Metadata<'_> {
        self.0.metadata()
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("not to be dropped");
    }
}

// [I39] objects that went away while a filter was asked about them are dropped one by one: a second panic of their drops
// while the first one unwinds would abort the process
#[test]
fn panics_of_objects_that_a_pass_drops_are_contained_each() {
    let shared: Arc<Shared<Bomb>> = Arc::new(Shared::new(&Namespaces::All));
    let bomb = |name: &str| Received::Upsert(Arc::new(Bomb(Item::clone(&item(name, "u", 1)))));
    shared.apply(0, &mut vec![bomb("a"), bomb("b")], None);
    let filter = Switch::of(&["n"]);
    let claim = shared.view(criteria(&filter));
    assert_eq!(shared.len_in(claim.id()), 2);
    let owner = Arc::clone(&shared);
    filter.hook(move || {
        let gone = |name| Received::Delete {
            key: ObjectKey::namespaced("n", name),
            last: None,
        };
        owner.apply(0, &mut vec![gone("a"), gone("b")], None);
    });
    filter.subscribers.notify(&FilterChange::All);
    assert_eq!((shared.len(), shared.len_in(claim.id())), (0, 0));
    shared.check_view(claim.id());
}

/// A filter of which the drop panics.
struct Undroppable;

impl ObjectFilter for Undroppable {
    fn allows(&self, _: &GroupVersionKind, _: &Metadata<'_>) -> bool {
        true
    }

    fn has_synced(&self) -> bool {
        true
    }

    fn subscribe(&self, _: FilterSubscriber) -> FilterSubscription {
        FilterSubscription::new(|| panic!("not to be unsubscribed"))
    }
}

impl Drop for Undroppable {
    fn drop(&mut self) {
        panic!("not to be dropped");
    }
}

// [I39] the filters of one view, and what else an informer holds of its users, are dropped one by one: a second panic of their
// drops while the first one unwinds would abort the process
#[test]
fn panics_of_the_drops_of_several_filters_are_contained_each() {
    let filters = || [(); 2].map(|()| Arc::new(Undroppable) as Arc<dyn ObjectFilter>);
    let criteria = || {
        let criterion = |filter| Criterion {
            filter,
            spares_cluster_scope: false,
        };
        Criteria::new(&Item::api_resource(&()), filters().map(criterion).into())
    };
    // with the last handle, with the stop, and as the options that nobody used
    let shared = shared();
    let claim = shared.view(criteria());
    upsert(&shared, &[item("a", "u", 1)]);
    assert_eq!(shared.len_in(claim.id()), 1);
    drop(claim);
    assert_eq!(shared.views(), 0);
    let claim = shared.view(criteria());
    shared.stop();
    drop(claim);
    assert_eq!(shared.views(), 0);
    let options = filters()
        .into_iter()
        .fold(crate::ViewOptions::default(), crate::ViewOptions::filter);
    drop(options);

    // Indexes and transforms are functions that may capture such a thing.
    let captured = || {
        let captured = Undroppable;
        move || captured.has_synced()
    };
    let index = |name: &'static str| {
        let captured = captured();
        IndexDef::new(name, move |_: &Item| captured().then(|| name.to_owned()))
    };
    let shared = self::shared();
    shared.add_index(&index("one")).unwrap();
    shared.add_index(&index("other")).unwrap();
    upsert(&shared, &[item("a", "u", 1)]);
    drop(shared);
    let captured = captured();
    drop(crate::Transform::new("t", move |_: &mut Item| assert!(captured())));
}

mod steps;
