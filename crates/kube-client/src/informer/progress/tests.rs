//! What counts as seen, on the synchronous core: by event, by bookmark, by list, with and without versions that compare.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Stopped;
use crate::informer::options::Namespaces;
use crate::informer::progress::Goal;
use crate::informer::relist::Relist;
use crate::informer::shared::{Received, Shared, Wait};
use crate::key::ObjectKey;
use crate::testing::{Item, item};

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("n", name)
}

fn poll(shared: &Shared<Item>, wait: &mut Wait) -> Poll<Result<(), Stopped>> {
    shared.poll_reached(wait, &Context::from_waker(Waker::noop()))
}

fn written(name: &str, version: &str) -> Wait {
    Wait::for_goal(Goal::Written {
        key: key(name),
        version: version.to_owned(),
    })
}

fn deleted(name: &str, uid: &str) -> Wait {
    Wait::for_goal(Goal::Deleted {
        key: key(name),
        uid: uid.to_owned(),
    })
}

/// A list of the newest state if it has a number.
fn list(shared: &Shared<Item>, items: &[Arc<Item>], version: &str, newest: Option<u64>) {
    let mut relist = Relist::new(true);
    relist.newest = newest;
    for item in items {
        drop(shared.with_store(|store| relist.upsert(store, Arc::clone(item))));
    }
    shared.replace(0, &relist, version.to_owned());
}

fn filled(items: &[Arc<Item>], version: &str) -> Shared<Item> {
    let shared = Shared::new(&Namespaces::All);
    list(&shared, items, version, None);
    shared
}

fn upsert(shared: &Shared<Item>, item: Arc<Item>) {
    let version = item.metadata.resource_version.clone();
    shared.apply(0, &mut vec![Received::Upsert(item)], Some(version));
}

fn delete(shared: &Shared<Item>, last: Arc<Item>) {
    let version = last.metadata.resource_version.clone();
    let change = Received::Delete {
        key: key(&last.metadata.name),
        last: Some(last),
    };
    shared.apply(0, &mut vec![change], Some(version));
}

fn opaque(name: &str, version: &str) -> Arc<Item> {
    let mut object = Item::clone(&item(name, "u", 1));
    object.metadata.resource_version = version.to_owned();
    Arc::new(object)
}

// [I35] by event or bookmark, of whatever object; not before
#[test]
fn write_is_seen_when_the_version_has_passed_it() {
    let shared = filled(&[], "7");
    assert_eq!(poll(&shared, &mut written("a", "7")), Poll::Ready(Ok(())));
    let (mut by_event, mut by_bookmark) = (written("a", "9"), written("b", "10"));
    assert!(poll(&shared, &mut by_event).is_pending() && poll(&shared, &mut by_bookmark).is_pending());
    upsert(&shared, item("other", "u", 8));
    assert!(poll(&shared, &mut by_event).is_pending());
    upsert(&shared, item("a", "u", 9));
    assert_eq!(poll(&shared, &mut by_event), Poll::Ready(Ok(())));
    assert!(poll(&shared, &mut by_bookmark).is_pending());
    shared.set_version(0, "100".to_owned());
    assert_eq!(poll(&shared, &mut by_bookmark), Poll::Ready(Ok(())));
}

// [I35] nothing is seen before the first list, whose version then counts
#[test]
fn write_is_seen_by_the_first_list() {
    let shared = Shared::new(&Namespaces::All);
    let mut wait = written("a", "7");
    assert!(poll(&shared, &mut wait).is_pending());
    list(&shared, &[], "8", None);
    assert_eq!(poll(&shared, &mut wait), Poll::Ready(Ok(())));
}

// [I35] versions that do not compare: that very version, also if it has passed already, or any later event of the key
#[test]
fn opaque_versions_are_seen_by_equality_or_a_later_event() {
    let shared = filled(&[opaque("a", "x1")], "x1");
    assert_eq!(poll(&shared, &mut written("a", "x1")), Poll::Ready(Ok(())));
    let mut wait = written("a", "x3");
    assert!(poll(&shared, &mut wait).is_pending());
    upsert(&shared, opaque("b", "x2"));
    assert!(poll(&shared, &mut wait).is_pending(), "another key says nothing");
    upsert(&shared, opaque("a", "x4"));
    assert_eq!(poll(&shared, &mut wait), Poll::Ready(Ok(())));
    upsert(&shared, opaque("b", "x5"));
    for (name, version) in [("a", "x4"), ("b", "x2"), ("a", "x1")] {
        assert_eq!(
            poll(&shared, &mut written(name, version)),
            Poll::Ready(Ok(())),
            "{version} has passed"
        );
    }
    assert!(
        poll(&shared, &mut written("a", "x2")).is_pending(),
        "x2 was of another key"
    );
    let mut gone = written("a", "x9");
    assert!(poll(&shared, &mut gone).is_pending());
    delete(&shared, opaque("a", "x8"));
    assert_eq!(poll(&shared, &mut gone), Poll::Ready(Ok(())));
}

/// A change by a watch that tells no version of its own.
fn unversioned(shared: &Shared<Item>, change: Received<Item>) {
    shared.apply(0, &mut vec![change], None);
}

// [I35] [I36] where lists tell no version, those of the object itself count: an event of an older one does not show the write,
// and one that has passed is seen without a further event
#[test]
fn versions_of_objects_count_where_the_cache_has_none() {
    for cache in ["", "opaque"] {
        let shared = filled(&[item("a", "u", 48)], cache);
        let mut wait = written("a", "50");
        assert!(poll(&shared, &mut wait).is_pending());
        unversioned(&shared, Received::Upsert(item("a", "u", 49)));
        assert!(poll(&shared, &mut wait).is_pending(), "that one was on its way before");
        unversioned(&shared, Received::Upsert(item("b", "u", 60)));
        assert!(
            poll(&shared, &mut wait).is_pending(),
            "another object's version says nothing"
        );
        unversioned(&shared, Received::Upsert(item("a", "u", 51)));
        assert_eq!(poll(&shared, &mut wait), Poll::Ready(Ok(())));
        // asked when it has passed already
        assert_eq!(poll(&shared, &mut written("a", "50")), Poll::Ready(Ok(())));
        assert_eq!(poll(&shared, &mut written("a", "51")), Poll::Ready(Ok(())));
        let (mut later, mut gone) = (written("a", "54"), written("a", "53"));
        assert!(poll(&shared, &mut later).is_pending() && poll(&shared, &mut gone).is_pending());
        let last = Received::Delete {
            key: key("a"),
            last: Some(item("a", "u", 53)),
        };
        unversioned(&shared, last);
        assert_eq!(poll(&shared, &mut gone), Poll::Ready(Ok(())));
        assert_eq!(
            poll(&shared, &mut written("a", "52")),
            Poll::Ready(Ok(())),
            "it was there, and is gone"
        );
        assert!(poll(&shared, &mut later).is_pending(), "it may come anew");
        let newest = shared.begin_list(0);
        list(&shared, &[], cache, Some(newest));
        assert_eq!(poll(&shared, &mut later), Poll::Ready(Ok(())));
    }
}

// [I35] a list of the newest state that was begun after the question answers it, one that was begun before does not
#[test]
fn newest_list_answers_what_was_asked_before_it_began() {
    let shared = filled(&[opaque("a", "x1")], "x1");
    let early = shared.begin_list(0);
    let (mut write, mut delete) = (written("b", "x5"), deleted("c", "u5"));
    assert!(poll(&shared, &mut write).is_pending() && poll(&shared, &mut delete).is_pending());
    list(&shared, &[opaque("a", "x1")], "x6", Some(early));
    assert!(poll(&shared, &mut write).is_pending() && poll(&shared, &mut delete).is_pending());
    list(&shared, &[opaque("a", "x1")], "x7", None);
    assert!(poll(&shared, &mut write).is_pending() && poll(&shared, &mut delete).is_pending());
    let late = shared.begin_list(0);
    list(&shared, &[opaque("a", "x1")], "x8", Some(late));
    assert_eq!(poll(&shared, &mut write), Poll::Ready(Ok(())));
    assert_eq!(poll(&shared, &mut delete), Poll::Ready(Ok(())));
}

// [I35] a deletion is seen when the object of that uid was there and is gone, not while nothing is known of it
#[test]
fn deletion_is_seen_when_that_object_is_gone() {
    let shared = filled(&[item("a", "u1", 1)], "1");
    let mut wait = deleted("a", "u1");
    assert!(poll(&shared, &mut wait).is_pending());
    delete(&shared, item("a", "u1", 2));
    assert_eq!(poll(&shared, &mut wait), Poll::Ready(Ok(())));
    assert_eq!(
        poll(&shared, &mut deleted("a", "u1")),
        Poll::Ready(Ok(())),
        "asked afterwards"
    );
    // created and deleted before the cache has seen either
    let mut unseen = deleted("a", "u2");
    assert!(poll(&shared, &mut unseen).is_pending(), "it may yet show up");
    upsert(&shared, item("a", "u2", 3));
    assert!(poll(&shared, &mut unseen).is_pending());
    // under the name of another
    upsert(&shared, item("a", "u3", 5));
    assert_eq!(poll(&shared, &mut unseen), Poll::Ready(Ok(())), "Deleted and Added");
    // an object that never got into the store
    let mut bad = deleted("b", "u9");
    assert!(poll(&shared, &mut bad).is_pending());
    delete(&shared, item("b", "u9", 6));
    assert_eq!(poll(&shared, &mut bad), Poll::Ready(Ok(())));
    // without uids the key has to do
    assert_eq!(poll(&shared, &mut deleted("b", "")), Poll::Ready(Ok(())));
    assert!(poll(&shared, &mut deleted("a", "")).is_pending());
}

// [I35] what was deleted before the first list is seen with it
#[test]
fn deletion_before_the_first_list_is_seen_with_it() {
    let shared = Shared::new(&Namespaces::All);
    let (mut gone, mut there) = (deleted("a", "u1"), deleted("b", "u2"));
    assert!(poll(&shared, &mut gone).is_pending() && poll(&shared, &mut there).is_pending());
    list(&shared, &[item("b", "u2", 3)], "5", None);
    assert_eq!(poll(&shared, &mut gone), Poll::Ready(Ok(())));
    assert!(poll(&shared, &mut there).is_pending());
}

// [I35] stop ends the waiting, and what was reached stays reached; dropped waits leave nothing
#[test]
fn stop_ends_the_waiting() {
    let shared = filled(&[], "7");
    let (mut pending, mut reached) = (written("a", "9"), written("a", "8"));
    assert!(poll(&shared, &mut pending).is_pending() && poll(&shared, &mut reached).is_pending());
    shared.set_version(0, "8".to_owned());
    shared.stop();
    assert_eq!(poll(&shared, &mut reached), Poll::Ready(Ok(())));
    assert_eq!(poll(&shared, &mut pending), Poll::Ready(Err(Stopped)));
    assert_eq!(poll(&shared, &mut written("a", "9")), Poll::Ready(Err(Stopped)));
    assert_eq!(poll(&shared, &mut written("a", "8")), Poll::Ready(Ok(())));
    assert_eq!(shared.waiting_for_progress(), 0);
}

// [I35] [I37] with several namespaces, a write is seen when its own namespace has passed it
#[test]
fn write_is_seen_by_its_own_namespace() {
    let shared: Shared<Item> = Shared::new(&Namespaces::many(["m", "n"]));
    let (m, n) = (0, 1);
    let relist = Relist::new(true);
    shared.replace(m, &relist, "9".to_owned());
    let mut wait = written("a", "8");
    assert!(poll(&shared, &mut wait).is_pending(), "nothing is known of namespace n");
    shared.replace(n, &relist, "7".to_owned());
    assert!(poll(&shared, &mut wait).is_pending());
    shared.set_version(m, "20".to_owned());
    assert!(poll(&shared, &mut wait).is_pending());
    shared.set_version(n, "8".to_owned());
    assert_eq!(poll(&shared, &mut wait), Poll::Ready(Ok(())));
}
