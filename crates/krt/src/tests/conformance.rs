//! What holds for every kind of collection: one suite, run for each of them.
//!
//! A kind is a [`Subject`]: it says how an object with a key comes about, and how one is replaced by another. A new kind is a
//! subject, and one line in `conformance!` below, or in `conformance_of_one!` if it has one object at most.

#[cfg(feature = "files")]
mod files;
#[cfg(feature = "kube")]
mod informers;
mod kinds;

use std::collections::BTreeSet;
use std::sync::mpsc;

use super::threads::LONG;
use super::*;
use crate::{Options, StaticSingleton};
use kinds::{
    Children, Derived, FromNothing, GroupBy, Join, Many, ManyStatusOutputs, Map, Merge, Nested, NestedMerge, One,
    OneValue, Protected, Status, StatusOutputs, Triggered, Unchecked,
};

/// A kind of collection under test.
trait Subject: Sized {
    type Object: Keyed;
    fn new(krt: &Krt, options: Options) -> Self;
    fn collection(&self) -> &Collection<Self::Object>;
    /// Has an object with this key come about. It may come later, from another thread.
    fn create(&self, key: &str);
    /// Has one object go and another one come.
    fn replace(&self, old: &str, new: &str);
    /// Drops the handles. The function waits for what ends with the collection, once the engine has let go of it.
    fn end(self) -> Box<dyn FnOnce()> {
        Box::new(|| ())
    }
}

fn subject<S: Subject>(krt: &Krt) -> S {
    S::new(krt, Options::new("subject").metadata(7_u32))
}

fn end<S: Subject>(rig: &mut Rig, subject: S) {
    let rest = subject.end();
    rig.settle();
    rest();
}

fn end_with_thread<S: Subject>(krt: &Krt, subject: S) {
    let rest = subject.end();
    krt.wait_settled_blocking(LONG).unwrap();
    rest();
}

/// Waits until a collection on an engine with a thread has so many objects.
fn wait_for<T: Keyed>(krt: &Krt, collection: &Collection<T>, count: usize) {
    let progress = &krt.shared().progress;
    assert!(progress.block_until(LONG, || collection.len() == count));
}

/// `+key`, `~key`, `-key`.
fn sign<T: Keyed>(event: &Event<T>) -> String {
    let sign = match event {
        Event::Added(_) => '+',
        Event::Updated { .. } => '~',
        Event::Deleted(_) => '-',
    };
    format!("{sign}{}", event.latest().key())
}

fn follow<T: Keyed>(log: &Log, collection: &Collection<T>) -> crate::Registration {
    let log = log.clone();
    collection.on_change(move |event| log.add(sign(event)))
}

fn keys<T: Keyed>(collection: &Collection<T>) -> Vec<String> {
    let keys = collection
        .list()
        .iter()
        .map(|object| object.key().to_string())
        .collect::<BTreeSet<_>>();
    assert_eq!(keys.len(), collection.len(), "a key twice");
    keys.into_iter().collect()
}

/// K1: it starts empty and keeps its name and metadata; an early and a late handler see a key once.
fn starts_empty<S: Subject>() {
    let mut rig = Rig::new();
    let subject: S = subject(&rig.krt);
    let (early, late) = (Log::default(), Log::default());
    let first = follow(&early, subject.collection());
    assert!(!first.has_synced());
    rig.settle_until(|| subject.collection().has_synced());
    assert!(subject.collection().is_empty());
    assert!(first.has_synced());
    let name = subject.collection().name().to_owned();
    assert!(name.starts_with("subject"), "{name}");
    assert_eq!(subject.collection().metadata(), Some(&7_u32));
    subject.create("a/b");
    rig.settle_until(|| !subject.collection().is_empty());
    let second = follow(&late, subject.collection());
    rig.settle();
    assert!(second.has_synced());
    assert_eq!(
        (early.take(), late.take()),
        (vec!["+a/b".to_owned()], vec!["+a/b".to_owned()])
    );
    assert!(subject.collection().get("a/b").is_some());
    assert_eq!(keys(subject.collection()), ["a/b"]);
    assert_eq!(subject.collection().name(), name);
    drop((first, second));
    end(&mut rig, subject);
}

/// K2: a handler that blocks is never synced; the others go on, and new ones register.
fn outlives_a_handler_that_blocks<S: Subject>() {
    let krt = Krt::builder("test").build();
    let subject: S = subject(&krt);
    krt.start().unwrap();
    subject.create("a/b");
    wait_for(&krt, subject.collection(), 1);
    let (release, blocked) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel();
    let stuck = subject.collection().on_change(move |_| {
        enter.send(()).unwrap();
        // Until the sender is dropped.
        let _ = blocked.recv();
    });
    entered.recv_timeout(LONG).unwrap();
    let listen = || {
        let (tell, told) = mpsc::channel();
        let registration = subject
            .collection()
            .on_change(move |event| tell.send(sign(event)).unwrap());
        (registration, told)
    };
    let (one, told) = listen();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "+a/b");
    subject.create("a/c");
    assert_eq!(told.recv_timeout(LONG).unwrap(), "+a/c");
    let (two, later) = listen();
    let both = [0; 2].map(|_| later.recv_timeout(LONG).unwrap());
    assert_eq!(
        BTreeSet::from(both),
        BTreeSet::from(["+a/b".to_owned(), "+a/c".to_owned()])
    );
    let progress = &krt.shared().progress;
    assert!(progress.block_until(LONG, || one.has_synced() && two.has_synced()));
    assert!(!stuck.has_synced());
    drop(release);
    krt.wait_settled_blocking(LONG).unwrap();
    assert!(stuck.has_synced());
    drop((stuck, one, two));
    end_with_thread(&krt, subject);
}

/// K3: a handler that is removed hears nothing; one that is registered while objects come hears of each once.
fn tells_each_handler_once<S: Subject>() {
    let mut rig = Rig::new();
    let own: S = subject(&rig.krt);
    let log = Log::default();
    let removed = follow(&log, own.collection());
    rig.settle_until(|| own.collection().has_synced());
    own.create("a/b");
    // It waits for the handler, which is removed before it is called.
    rig.step_until(|| !own.collection().is_empty());
    removed.remove();
    rig.settle();
    own.create("a/c");
    rig.settle_until(|| own.collection().len() == 2);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(rig.stepper.handlers(), 0);
    end(&mut rig, own);

    let expected: Vec<_> = (0..20).map(|number| format!("+x/{number:02}")).collect();
    for _ in 0..10 {
        let krt = Krt::builder("test").build();
        let subject: S = subject(&krt);
        krt.start().unwrap();
        let collection = subject.collection().clone();
        let (log, logged) = (Log::default(), Log::default());
        let registered = std::thread::scope(|scope| {
            let log = &log;
            let registering = scope.spawn(move || follow(log, &collection));
            for number in 0..20 {
                subject.create(&format!("x/{number:02}"));
            }
            registering.join().unwrap()
        });
        wait_for(&krt, subject.collection(), 20);
        let late = follow(&logged, subject.collection());
        krt.wait_settled_blocking(LONG).unwrap();
        assert!(registered.has_synced() && late.has_synced());
        assert_eq!((log.take(), logged.take()), (expected.clone(), expected.clone()));
        drop((registered, late));
        end_with_thread(&krt, subject);
    }
}

/// K4: another key is deleted and added, never updated; the content agrees.
fn replaces_keys<S: Subject>() {
    let mut rig = Rig::new();
    let subject: S = subject(&rig.krt);
    let log = Log::default();
    let handler = follow(&log, subject.collection());
    subject.create("a/b");
    rig.settle_until(|| subject.collection().has_synced() && !subject.collection().is_empty());
    assert_eq!(log.take(), ["+a/b"]);
    subject.replace("a/b", "a/c");
    let has = |key: &str| subject.collection().get(key).is_some();
    rig.settle_until(|| has("a/c") && !has("a/b"));
    assert_eq!(log.take(), ["+a/c", "-a/b"]);
    assert_eq!(keys(subject.collection()), ["a/c"]);
    drop(handler);
    end(&mut rig, subject);
}

/// K5: stopped or dropped, it leaves nothing.
fn leaves_nothing<S: Subject>() {
    for is_stopped in [true, false] {
        let mut rig = Rig::new();
        let subject: S = subject(&rig.krt);
        let token = Arc::new(());
        let (held, told) = (Arc::clone(&token), Arc::clone(&token));
        let by_key = subject.collection().index_by("key", move |object| {
            let _ = &held;
            object.key().to_string()
        });
        let by_key = by_key.unwrap();
        let handler = subject.collection().on_change(move |_| {
            let _ = &told;
        });
        subject.create("a/b");
        rig.settle_until(|| subject.collection().has_synced() && !subject.collection().is_empty());
        assert_eq!((rig.stepper.handlers(), Arc::strong_count(&token)), (1, 3));
        let object = Arc::downgrade(&subject.collection().get("a/b").unwrap());
        if is_stopped {
            subject.collection().stop();
            drop((by_key, handler));
            rig.settle();
            assert_eq!(rig.stepper.handlers(), 0);
            assert_eq!(Arc::strong_count(&token), 1, "its handler and its index are gone");
            assert_eq!(rig.stepper.dependencies(), [0; 4]);
            subject.create("a/c");
            rig.settle();
            assert_eq!(keys(subject.collection()), ["a/b"], "it is frozen");
        } else {
            // Somebody who depends on it, by its index.
            let one = rig.krt.static_singleton("one", Some(Item::new("one", 0)));
            let reader = rig.krt.collection("reader", &one, move |cx, _| {
                let found = cx.fetch(by_key.at("a/b")).len();
                Some(Item::new("found", i64::try_from(found).unwrap()))
            });
            rig.settle();
            assert_eq!(content(&reader), ["found=1"]);
            drop(handler);
            rig.settle();
            assert_ne!(rig.stepper.dependencies(), [0; 4]);
        }
        end(&mut rig, subject);
        assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (0, 0));
        assert_eq!(rig.stepper.dependencies(), [0; 4]);
        assert_eq!(Arc::strong_count(&token), 1);
        assert!(object.upgrade().is_none(), "its objects are gone");
    }
}

/// The suite, for each kind.
macro_rules! conformance {
    ($($name:ident: $subject:ty;)*) => {
        $(mod $name {
            use super::*;

            // [K2] of this kind
            #[test]
            fn it_outlives_a_handler_that_blocks() {
                outlives_a_handler_that_blocks::<$subject>();
            }

            // [K3] of this kind
            #[test]
            fn it_tells_each_handler_each_key_once() {
                tells_each_handler_once::<$subject>();
            }

            conformance_of_one!(each: $subject;);
        })*
    };
}

/// What of the suite one object is enough for.
macro_rules! conformance_of_one {
    ($($name:ident: $subject:ty;)*) => {
        $(mod $name {
            use super::*;

            // [K1] of this kind
            #[test]
            fn it_starts_empty_and_tells_early_and_late_handlers_the_same() {
                starts_empty::<$subject>();
            }

            // [K4] of this kind
            #[test]
            fn it_replaces_one_key_by_another() {
                replaces_keys::<$subject>();
            }

            // [K5] of this kind
            #[test]
            fn it_leaves_nothing_when_it_is_stopped_or_dropped() {
                leaves_nothing::<$subject>();
            }
        })*
    };
}

conformance! {
    statics: StaticCollection<Item>;
    one: Derived<One>;
    many: Derived<Many>;
    map: Derived<Map>;
    many_from_nothing: Derived<FromNothing>;
    join: Derived<Join>;
    join_unchecked: Derived<Unchecked>;
    join_with_merge: Derived<Merge>;
    nested_join: Derived<Nested>;
    nested_join_with_merge: Derived<NestedMerge>;
    nested_join_of_children: Derived<Children>;
    group_by: GroupBy;
    status: Status;
    status_outputs: Derived<StatusOutputs>;
    status_many_outputs: Derived<ManyStatusOutputs>;
    triggered: Triggered;
    protected: Protected;
}

conformance_of_one! {
    static_singleton: StaticSingleton<Item>;
    singleton: Derived<OneValue>;
}

#[cfg(feature = "kube")]
conformance! {
    informer: informers::Fed;
    informer_of_a_server: informers::Served;
}

#[cfg(feature = "files")]
conformance! {
    folder: files::Folder;
}

#[cfg(feature = "files")]
conformance_of_one! {
    file: files::File;
}
