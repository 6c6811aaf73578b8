//! The checker itself: right sequences pass, every kind of wrong one is named.

use super::*;
use crate::informer::histories::note::{NoteData, NoteMeta};

fn note(name: &str, uid: &str, version: u64) -> Arc<Note> {
    Arc::new(Note {
        metadata: NoteMeta {
            name: name.to_owned(),
            namespace: "n".to_owned(),
            uid: uid.to_owned(),
            resource_version: version.to_string(),
        },
        data: NoteData { v: 0 },
    })
}

fn added(object: &Arc<Note>) -> Event<Note> {
    Event::Added {
        object: Arc::clone(object),
        initial: false,
    }
}

fn initial(object: &Arc<Note>) -> Event<Note> {
    Event::Added {
        object: Arc::clone(object),
        initial: true,
    }
}

fn updated(old: &Arc<Note>, new: &Arc<Note>) -> Event<Note> {
    Event::Updated {
        old: Arc::clone(old),
        new: Arc::clone(new),
    }
}

fn deleted(object: &Arc<Note>) -> Event<Note> {
    Event::Deleted {
        object: Arc::clone(object),
        stale: false,
    }
}

fn write(version: u64, name: &str, what: What) -> Write {
    let key = ObjectKey::namespaced("n", name);
    Write { version, key, what }
}

#[test]
fn legal_sequence_folds_to_its_end() {
    let (a1, a2, a3, b1) = (
        note("a", "u", 1),
        note("a", "u", 2),
        note("a", "v", 5),
        note("b", "w", 3),
    );
    let events = [
        initial(&a1),
        updated(&a1, &a2),
        added(&b1),
        deleted(&note("a", "u", 4)),
        added(&a3),
    ];
    let state = fold(&events, Time::Forward).unwrap();
    let versions: Vec<u64> = state.values().map(|note| note.version()).collect();
    assert_eq!(versions, [5, 3]);
}

#[test]
fn each_illegal_sequence_is_named() {
    let (a1, a2, b1) = (note("a", "u", 1), note("a", "u", 2), note("b", "w", 3));
    let twin = note("a", "u", 1);
    let other = note("a", "v", 3);
    let wrong: [(&[Event<Note>], &str); 11] = [
        (&[added(&a1), added(&a2)], "added twice"),
        (&[initial(&a1), initial(&a1)], "added twice"),
        (&[added(&b1), initial(&a1)], "initial after the initial ones"),
        (&[updated(&a1, &a2)], "updated before it was added"),
        (
            &[added(&a1), updated(&twin, &a2)],
            "the old object is not the one that was told",
        ),
        (&[added(&a1), updated(&a1, &other)], "another object"),
        (&[added(&a2), updated(&a2, &a1)], "the version did not grow"),
        (&[deleted(&a1)], "deleted what was not there"),
        (&[added(&a1), deleted(&a1), deleted(&a1)], "deleted what was not there"),
        (&[added(&a1), deleted(&other)], "another object was deleted"),
        (&[added(&a1), deleted(&a2), added(&a2)], "a deleted object came again"),
    ];
    for (events, what) in wrong {
        let error = fold(events, Time::Forward).unwrap_err();
        assert!(error.ends_with(what), "{error}, not {what:?}");
    }
    let error = fold(&[added(&a2), deleted(&a1)], Time::Forward).unwrap_err();
    assert!(error.ends_with("the version went back"), "{error}");
    // after a restore, the past may come again
    fold(
        &[added(&a2), updated(&a2, &a1), deleted(&a1), added(&a1)],
        Time::WentBack,
    )
    .unwrap();
}

#[test]
fn exactly_once_finds_what_is_missing_doubled_or_moved() {
    let (a1, a4, b2, b3) = (
        note("a", "u", 1),
        note("a", "u", 4),
        note("b", "w", 2),
        note("b", "w", 3),
    );
    let log = [
        write(1, "a", What::Good),
        write(2, "b", What::Good),
        write(3, "b", What::Good),
        write(4, "a", What::Good),
        write(5, "b", What::Gone),
    ];
    let b5 = note("b", "w", 5);
    // listed at version 2, and at version 0
    let right = [
        initial(&a1),
        initial(&b2),
        updated(&b2, &b3),
        updated(&a1, &a4),
        deleted(&b5),
    ];
    exactly_once(&right, &log).unwrap();
    let from_nothing = [
        added(&a1),
        added(&b2),
        updated(&b2, &b3),
        updated(&a1, &a4),
        deleted(&b5),
    ];
    exactly_once(&from_nothing, &log).unwrap();
    for missing in 2..right.len() {
        let events: Vec<_> = right
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != missing)
            .map(|(_, e)| e.clone())
            .collect();
        exactly_once(&events, &log).unwrap_err();
    }
    let merged = [initial(&a1), initial(&b2), deleted(&b5), updated(&a1, &a4)];
    exactly_once(&merged, &log).unwrap_err();
    let doubled = [right.as_slice(), &[deleted(&b5)]].concat();
    exactly_once(&doubled, &log).unwrap_err();
    let mut swapped = right.to_vec();
    swapped.swap(2, 3);
    exactly_once(&swapped, &log).unwrap_err();
    exactly_once(&[initial(&a4), initial(&b2)], &log).unwrap_err();
}

#[test]
fn exactly_once_knows_what_is_told_of_objects_that_do_not_decode() {
    let (a1, a3) = (note("a", "u", 1), note("a", "u", 3));
    let log = [
        write(1, "a", What::Good),
        write(2, "a", What::Bad),
        write(3, "a", What::Good),
        write(4, "b", What::Bad),
        write(5, "b", What::Gone),
        write(6, "a", What::Bad),
        write(7, "a", What::Gone),
    ];
    let told = [added(&a1), updated(&a1, &a3), deleted(&a3)];
    exactly_once(&told, &log).unwrap();
    exactly_once(&[added(&a1), updated(&a1, &a3), deleted(&note("a", "u", 7))], &log).unwrap_err();
}
