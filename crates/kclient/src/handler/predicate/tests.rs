//! Each predicate on each kind of event, and how they combine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::handler::object_handler;

fn pod(change: impl FnOnce(&mut ObjectMeta)) -> Arc<Pod> {
    let mut metadata = ObjectMeta {
        name: Some("web".to_owned()),
        resource_version: Some("1".to_owned()),
        generation: Some(1),
        ..ObjectMeta::default()
    };
    change(&mut metadata);
    Arc::new(Pod {
        metadata,
        ..Pod::default()
    })
}

fn to(change: impl FnOnce(&mut ObjectMeta)) -> Event<Pod> {
    Event::Updated {
        old: pod(|_| {}),
        new: pod(change),
    }
}

type Map = BTreeMap<String, String>;

fn one(value: &str) -> Map {
    [("key".to_owned(), value.to_owned())].into()
}

/// An update of each kind, by what it changes.
fn updates() -> Vec<(&'static str, Event<Pod>)> {
    let same = pod(|_| {});
    vec![
        (
            "nothing",
            Event::Updated {
                old: Arc::clone(&same),
                new: same,
            },
        ),
        ("version", to(|meta| meta.resource_version = Some("2".to_owned()))),
        ("generation", to(|meta| meta.generation = Some(2))),
        ("labels", to(|meta| meta.labels = Some(one("v")))),
        ("annotations", to(|meta| meta.annotations = Some(one("v")))),
        (
            "deletion",
            to(|meta| meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH))),
        ),
    ]
}

/// For which updates the predicate says yes; it says yes to adds and deletes if `others`.
fn yes(mut predicate: impl FnMut(&Event<Pod>) -> bool, others: bool) -> Vec<&'static str> {
    let object = || pod(|_| {});
    for event in [
        Event::Added {
            object: object(),
            initial: true,
        },
        Event::Added {
            object: object(),
            initial: false,
        },
        Event::Deleted {
            object: object(),
            stale: false,
        },
        Event::Deleted {
            object: object(),
            stale: true,
        },
    ] {
        assert_eq!(predicate(&event), others, "{event:?}");
    }
    let updates = updates().into_iter();
    updates
        .filter(|(_, event)| predicate(event))
        .map(|(name, _)| name)
        .collect()
}

// [H2] each predicate says yes to its own kind of update, and to every add and delete
#[test]
fn each_predicate_sees_its_own_change() {
    assert_eq!(yes(spec_changed, true), ["generation", "deletion"]);
    assert_eq!(yes(generation_changed, true), ["generation"]);
    assert_eq!(yes(labels_changed, true), ["labels"]);
    assert_eq!(yes(annotations_changed, true), ["annotations"]);
    assert_eq!(yes(resource_version_changed, true), ["version"]);
}

// [H2] they combine: and, or, not
#[test]
fn predicates_combine() {
    assert_eq!(
        yes(or(labels_changed, annotations_changed), true),
        ["labels", "annotations"]
    );
    assert_eq!(yes(and(labels_changed, annotations_changed), true), [""; 0]);
    assert_eq!(
        yes(not(labels_changed), false),
        ["nothing", "version", "generation", "annotations", "deletion"]
    );
    assert_eq!(
        yes(or(spec_changed, and(not(spec_changed), labels_changed)), true),
        ["generation", "labels", "deletion"]
    );
    // A closure is a predicate as well.
    let not_initial = |event: &Event<Pod>| !event.is_initial();
    assert_eq!(
        updates()
            .iter()
            .filter(|(_, event)| and(not_initial, generation_changed)(event))
            .count(),
        1
    );
}

// [H2] no labels are an empty map; a changed or a removed value is a change
#[test]
fn absent_and_empty_maps_are_equal() {
    let one = |value| Some(one(value));
    let cases: [(Option<Map>, Option<Map>, bool); 6] = [
        (None, None, false),
        (None, Some([].into()), false),
        (Some([].into()), None, false),
        (one("a"), one("a"), false),
        (one("a"), one("b"), true),
        (one("a"), None, true),
    ];
    for (old, new, differs) in cases {
        let labels = Event::Updated {
            old: pod(|meta| meta.labels.clone_from(&old)),
            new: pod(|meta| meta.labels.clone_from(&new)),
        };
        assert_eq!(labels_changed(&labels), differs, "{old:?} {new:?}");
        let annotations = Event::Updated {
            old: pod(|meta| meta.annotations.clone_from(&old)),
            new: pod(|meta| meta.annotations.clone_from(&new)),
        };
        assert_eq!(annotations_changed(&annotations), differs, "{old:?} {new:?}");
    }
}

// [H2] any handler can be narrowed; what it is not told, it does not see
#[test]
fn only_narrows_a_handler() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let inner = object_handler(move |_: &Arc<Pod>| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let mut handler = only(inner, labels_changed).boxed();
    assert_eq!((handler.batch_size(), handler.runs_on()), (1, RunsOn::Task));
    for (_, event) in updates() {
        assert!(matches!(handler.handle(&[event]), Handled::Done));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
