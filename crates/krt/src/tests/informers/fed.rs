//! Event by event: what counts as a change, and what becomes of events that come too late.

use futures_util::future::BoxFuture;
use kclient::{
    Event as Change, EventHandler, HandlerOptions, Index, IndexDef, Informer, ObjectKey, Reader, RegisterError,
    Registration, Selector, Stopped,
};

use super::*;

/// A client whose events a test plays. It has synced from the start.
#[derive(Clone, Default)]
pub(in crate::tests) struct Feed(Arc<Mutex<Option<Registered>>>);

/// What was registered, and how it is removed.
type Registered = (Box<dyn EventHandler<ConfigMap>>, Registration);

impl Feed {
    pub(in crate::tests) fn tell(&self, events: &[Change<ConfigMap>]) {
        let mut handler = self.0.lock();
        let (handler, _) = handler.as_mut().expect("a handler is registered");
        handler.handle(events);
    }

    fn is_removed(&self) -> bool {
        self.0
            .lock()
            .as_ref()
            .is_some_and(|(_, registration)| registration.is_stopped())
    }
}

impl Reader<ConfigMap> for Feed {
    fn get(&self, _: &ObjectKey) -> Option<Arc<ConfigMap>> {
        None
    }

    fn list(&self, _: Option<&str>, _: &Selector) -> Vec<Arc<ConfigMap>> {
        Vec::new()
    }
}

impl Informer<ConfigMap> for Feed {
    fn list_unfiltered(&self, _: Option<&str>, _: &Selector) -> Vec<Arc<ConfigMap>> {
        Vec::new()
    }

    fn add_handler(&self, handler: Box<dyn EventHandler<ConfigMap>>, options: HandlerOptions) -> Registration {
        assert_eq!(options.steps, kube_client::Steps::Whole);
        assert_eq!(handler.batch_size(), usize::MAX);
        let registration = Registration::detached();
        *self.0.lock() = Some((handler, registration.clone()));
        registration
    }

    fn add_index(&self, def: &IndexDef<ConfigMap>) -> Result<Index<ConfigMap>, RegisterError> {
        Ok(Index::detached(def, []))
    }

    fn has_synced(&self) -> bool {
        true
    }

    fn has_synced_ignoring_handlers(&self) -> bool {
        true
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        registration.remove();
        Ok(())
    }

    fn shutdown_handlers(&self) {}

    fn start(&self) {}
}

fn first(object: &Arc<ConfigMap>) -> Change<ConfigMap> {
    Change::Added {
        object: Arc::clone(object),
        initial: true,
    }
}

pub(in crate::tests) fn added(object: &Arc<ConfigMap>) -> Change<ConfigMap> {
    Change::Added {
        object: Arc::clone(object),
        initial: false,
    }
}

fn updated(old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) -> Change<ConfigMap> {
    Change::Updated {
        old: Arc::clone(old),
        new: Arc::clone(new),
    }
}

pub(in crate::tests) fn deleted(object: &Arc<ConfigMap>) -> Change<ConfigMap> {
    Change::Deleted {
        object: Arc::clone(object),
        stale: true,
    }
}

// [K30] a name that another object has taken: dependants see one change, handlers a delete and an add in one batch; merged too
#[test]
fn another_object_of_one_name_is_deleted_and_added_in_one_batch() {
    let (mut rig, feed) = (Rig::new(), Feed::default());
    let source = rig.krt.informer(&feed);
    assert_eq!(source.name(), "ConfigMap");
    let runs = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&runs);
    let derived = rig.krt.collection("derived", &source, move |_, map| {
        *counted.lock() += 1;
        Some((**map).clone())
    });
    let (told, lagging, further) = (Told::default(), Told::default(), Told::default());
    let handlers = (told.follow(&source), further.follow(&derived));
    let (one, other) = (map("a", "u1", 1, "1"), map("a", "u2", 3, "2"));
    feed.tell(&[first(&one)]);
    rig.settle();
    let _ = [&told, &further].map(Told::take);
    *runs.lock() = 0;
    feed.tell(&[deleted(&one)]);
    feed.tell(&[added(&other)]);
    rig.settle();
    assert_eq!(told.take(), [["-a=1", "+a=2"]]);
    assert_eq!(further.take(), [["a=1>2"]], "of a derived collection it is an update");
    assert_eq!(*runs.lock(), 1);

    // A handler that lags over several epochs.
    let log = lagging.clone();
    let merged = source.handler().merge_over(0).without_initial().on_batch(move |batch| {
        log.0.lock().batches.push(batch.events().map(line).collect());
    });
    rig.step();
    let third = map("a", "u3", 5, "3");
    feed.tell(&[deleted(&other)]);
    rig.step();
    feed.tell(&[added(&third)]);
    rig.step();
    rig.stepper.run_handlers();
    assert_eq!(lagging.take(), [["-a=2", "+a=3"]]);
    drop((handlers, merged));
}

// [K30] created and deleted in one epoch is nothing; deleted and there again as it was is nothing
#[test]
fn what_comes_back_unchanged_is_silent() {
    let (mut rig, feed) = (Rig::new(), Feed::default());
    let source = rig.krt.informer(&feed);
    let told = Told::default();
    let _handler = told.follow(&source);
    let known = map("a", "u", 1, "1");
    feed.tell(&[first(&known)]);
    rig.settle();
    told.take();
    let passing = map("b", "w", 2, "2");
    feed.tell(&[added(&passing), deleted(&passing)]);
    rig.settle();
    // A filter hides it and shows it again: the same object.
    feed.tell(&[deleted(&known), added(&known)]);
    rig.settle();
    // The kind goes and comes again, and the first list has the same version.
    feed.tell(&[deleted(&known), first(&map("a", "u", 1, "1"))]);
    rig.settle();
    assert_eq!(told.take(), [[""; 0]; 0]);
    // No uid or no version: nothing says that it is the same.
    let anonymous = map("a", "", 1, "1");
    feed.tell(&[deleted(&known), first(&anonymous)]);
    rig.settle();
    feed.tell(&[deleted(&anonymous), first(&map("a", "", 1, "1"))]);
    rig.settle();
    assert_eq!(told.take(), [["a=1>1"], ["a=1>1"]]);
    assert_eq!(content(&source), ["a=1"]);
}

// Rule of the gate: after the versions went back, equal ones do not mean equal objects.
#[test]
fn a_version_that_is_given_out_again_is_a_change() {
    let (mut rig, feed) = (Rig::new(), Feed::default());
    let source = rig.krt.informer(&feed);
    let told = Told::default();
    let _handler = told.follow(&source);
    let [a5, b6, c5] = [("a", 5), ("b", 6), ("c", 5)].map(|(value, version)| map("x", "u", version, value));
    feed.tell(&[first(&a5)]);
    rig.settle();
    told.take();
    feed.tell(&[updated(&a5, &c5)]);
    rig.settle();
    assert_eq!(told.take(), [["x=a>c"]], "the same version with another content");
    feed.tell(&[updated(&c5, &b6), updated(&b6, &a5)]);
    rig.settle();
    assert_eq!(told.take(), [["x=c>a"]], "there and back between two epochs");
    feed.tell(&[deleted(&a5), added(&c5)]);
    rig.settle();
    assert_eq!(told.take(), [["x=a>c"]], "and gone in between");
    // A handler that lags and a version that comes again: the net change is one.
    let log = Told::default();
    let lagging = log.clone();
    let _lagging = source.handler().merge_over(0).without_initial().on_batch(move |batch| {
        lagging.0.lock().batches.push(batch.events().map(line).collect());
    });
    rig.step();
    for (old, new) in [(&c5, &b6), (&b6, &a5)] {
        feed.tell(&[updated(old, new)]);
        rig.step();
    }
    rig.stepper.run_handlers();
    assert_eq!(log.take(), [["x=c>a"]]);
}

// [K5] [K38] a stopped source and one that nobody has lose their handler; what still comes is nobody else's
#[test]
fn a_source_that_ends_takes_its_handler_away() {
    let mut rig = Rig::new();
    let feeds = [(); 3].map(|()| Feed::default());
    let [stopped, dropped, used] = [0, 1, 2].map(|at| rig.krt.informer(&feeds[at]));
    let derived = rig.krt.collection("derived", &used, |_, map| Some((**map).clone()));
    let (a, b) = (map("a", "u", 1, "1"), map("b", "w", 1, "1"));
    for feed in &feeds {
        feed.tell(&[first(&a)]);
    }
    let told = Told::default();
    let _handler = told.follow(&stopped);
    rig.settle();
    told.take();
    stopped.stop();
    drop((dropped, used));
    rig.settle();
    let removed = [0, 1, 2].map(|at| feeds[at].is_removed());
    assert_eq!(removed, [true, true, false], "one is used by a collection");
    // The number of the one that is gone is another's now. A call that began before the removal comes late.
    let next = Feed::default();
    let newer = rig.krt.informer(&next);
    rig.settle();
    for feed in &feeds[..2] {
        feed.tell(&[added(&b)]);
    }
    feeds[2].tell(&[added(&b)]);
    rig.settle();
    assert_eq!(content(&newer), [""; 0]);
    assert_eq!(content(&stopped), ["a=1"], "frozen");
    assert_eq!(told.take(), [[""; 0]; 0], "and nothing is deleted");
    assert_eq!(content(&derived), ["a=1", "b=1"]);
    next.tell(&[first(&b)]);
    rig.settle();
    assert_eq!(content(&newer), ["b=1"]);
    drop(derived);
    rig.krt.end();
    drop(rig.stepper);
    assert!(feeds[2].is_removed() && next.is_removed());
    // After the end a new source takes nothing, and leaves nothing.
    let late = Feed::default();
    let nothing = rig.krt.informer(&late);
    late.tell(&[first(&a)]);
    assert!(late.is_removed() && nothing.is_empty());
}

// An object that has no key is left out by itself.
#[test]
fn an_object_without_a_name_is_left_out() {
    let (mut rig, feed) = (Rig::new(), Feed::default());
    let options = crate::Options::new("settings").metadata(7_u32);
    let source = rig.krt.named_informer(options, &feed);
    assert_eq!((source.name(), source.metadata()), ("settings", Some(&7_u32)));
    feed.tell(&[
        first(&map("a", "u", 1, "1")),
        first(&Arc::default()),
        first(&map("b", "u", 1, "1")),
    ]);
    rig.settle();
    assert_eq!(content(&source), ["a=1", "b=1"]);
    assert!(source.has_synced());
}

// [K36] sources of clients and groups are followed together as all other collections are
#[test]
fn an_epoch_of_a_source_and_its_groups_is_told_whole() {
    let (mut rig, feed) = (Rig::new(), Feed::default());
    let source = rig.krt.informer(&feed);
    let by_value = source.index_by("value", |map| value(map).to_owned()).unwrap();
    let groups = by_value.as_collection("groups");
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let _handler = rig.krt.on_epoch((&source, &groups), move |epoch| {
        let (source, groups) = epoch.changes();
        log.lock().push((source.len(), groups.len()));
    });
    feed.tell(&[first(&map("a", "u", 1, "1")), first(&map("b", "w", 1, "1"))]);
    rig.settle();
    assert_eq!(std::mem::take(&mut *told.lock()), [(2, 1)]);
    feed.tell(&[added(&map("c", "x", 2, "2"))]);
    rig.settle();
    assert_eq!(std::mem::take(&mut *told.lock()), [(1, 1)]);
}
