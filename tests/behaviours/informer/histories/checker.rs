//! What a handler may be told, and what it must have been told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_client::{Event, ObjectKey};

use super::note::Note;

/// What a handler holds that was told these.
pub(in crate::informer) type Fold = BTreeMap<ObjectKey, Arc<Note>>;

/// Whether versions may go back in this history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::informer) enum Time {
    Forward,
    /// The store was restored: an older state came again, with its uids.
    WentBack,
}

/// Folds a handler's events, if they are a legal sequence: per key Added, then Updated, then Deleted; `old` is what was told
/// last, the very same; a uid does not change on the way nor come again, and its versions only grow; nothing initial after
/// what is not.
pub(in crate::informer) fn fold(events: &[Event<Note>], time: Time) -> Result<Fold, String> {
    let mut state = Fold::new();
    let mut ended = BTreeSet::new();
    let mut live = false;
    let forward = time == Time::Forward;
    for (at, event) in events.iter().enumerate() {
        let key = event.key();
        let wrong = |what: &str| Err(format!("event {at}, {event:?}: {what}"));
        match event {
            Event::Added { object, initial } => {
                if *initial && live {
                    return wrong("initial after the initial ones");
                }
                live |= !initial;
                if forward && ended.contains(&object.metadata.uid) {
                    return wrong("a deleted object came again");
                }
                if state.insert(key, Arc::clone(object)).is_some() {
                    return wrong("added twice");
                }
            }
            Event::Updated { old, new } => {
                live = true;
                let Some(told) = state.insert(key, Arc::clone(new)) else {
                    return wrong("updated before it was added");
                };
                if !Arc::ptr_eq(&told, old) {
                    return wrong("the old object is not the one that was told");
                }
                if old.metadata.uid != new.metadata.uid {
                    return wrong("another object");
                }
                if forward && new.version() <= old.version() {
                    return wrong("the version did not grow");
                }
            }
            Event::Deleted { object, .. } => {
                live = true;
                let Some(told) = state.remove(&key) else {
                    return wrong("deleted what was not there");
                };
                if told.metadata.uid != object.metadata.uid {
                    return wrong("another object was deleted");
                }
                if forward && object.version() < told.version() {
                    return wrong("the version went back");
                }
                ended.insert(object.metadata.uid.clone());
            }
        }
    }
    Ok(state)
}

/// A write of the server's log, as the kind sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::informer) struct Write {
    pub(in crate::informer) version: u64,
    pub(in crate::informer) key: ObjectKey,
    pub(in crate::informer) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::informer) enum What {
    /// Created or updated.
    Good,
    /// Created or updated to something that does not decode.
    Bad,
    Gone,
}

/// What one event says: key, the version before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Added(ObjectKey, u64),
    Updated(ObjectKey, u64, u64),
    Deleted(ObjectKey, u64),
}

/// Whether a handler was told every write exactly once: from some point of the log on, whose state is what it was told as
/// initial.
pub(in crate::informer) fn exactly_once(events: &[Event<Note>], log: &[Write]) -> Result<(), String> {
    let initial: BTreeMap<ObjectKey, u64> = events
        .iter()
        .filter(|event| event.is_initial())
        .map(|event| (event.key(), event.object().version()))
        .collect();
    let told: Vec<Said> = events
        .iter()
        .filter(|event| !event.is_initial())
        .map(|event| match event {
            Event::Added { object, .. } => Said::Added(event.key(), object.version()),
            Event::Updated { old, new } => Said::Updated(event.key(), old.version(), new.version()),
            Event::Deleted { object, .. } => Said::Deleted(event.key(), object.version()),
        })
        .collect();
    let mut nearest = String::from("no point of the log has the initial state");
    for start in 0..=log.len() {
        let (before, after) = log.split_at(start);
        let mut last = BTreeMap::new();
        for write in before {
            last.insert(&write.key, write);
        }
        let good = last.values().filter(|write| write.what == What::Good);
        let state: BTreeMap<ObjectKey, u64> = good.map(|write| (write.key.clone(), write.version)).collect();
        if state != initial {
            continue;
        }
        let expected = expected(state, last.values().copied(), after);
        if expected == told {
            return Ok(());
        }
        nearest = format!("from write {start} on, expected {expected:?}, told {told:?}");
    }
    Err(nearest)
}

/// What is told of these writes on top of a state.
fn expected<'a>(
    mut known: BTreeMap<ObjectKey, u64>,
    last: impl Iterator<Item = &'a Write>,
    writes: &'a [Write],
) -> Vec<Said> {
    let mut last: BTreeMap<&ObjectKey, &What> = last.map(|write| (&write.key, &write.what)).collect();
    let mut said = Vec::new();
    for write in writes {
        let key = write.key.clone();
        match write.what {
            What::Good => said.push(match known.insert(key.clone(), write.version) {
                None => Said::Added(key, write.version),
                Some(old) => Said::Updated(key, old, write.version),
            }),
            What::Bad => {}
            What::Gone => {
                if let Some(old) = known.remove(&key) {
                    // The deletion carries the last state; if that does not decode, the last good one is told.
                    let readable = last.get(&key) == Some(&&What::Good);
                    said.push(Said::Deleted(key, if readable { write.version } else { old }));
                }
            }
        }
        last.insert(&write.key, &write.what);
    }
    said
}

#[cfg(test)]
mod tests;
