//! Tests of the log: order, snapshots, exact reads, cursors, compaction.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;

use super::*;

type Log = Storage<String>;

fn put(log: &Log, id: ResourceId, key: &str, value: &str) -> Revision {
    let done = log.update(id, key, |_| {
        Ok::<_, Infallible>(Change::Put(Arc::new(value.to_owned())))
    });
    let Ok(Outcome::Written(version)) = done else {
        panic!("{done:?}")
    };
    log.read_state().check_invariants();
    version.rv
}

fn delete(log: &Log, id: ResourceId, key: &str) -> Revision {
    let done = log.update(id, key, |_| Ok::<_, Infallible>(Change::Delete));
    let Ok(Outcome::Deleted { rv, .. }) = done else {
        panic!("{done:?}")
    };
    log.read_state().check_invariants();
    rv
}

fn query(range: Range, at: Option<Revision>, limit: usize, after: Option<&str>) -> ListQuery<'_, String> {
    ListQuery {
        range,
        after,
        at,
        limit,
        filter: &|_, _| true,
    }
}

fn keys(page: &Page<String>) -> Vec<&str> {
    page.items.iter().map(|(key, _)| key.as_ref()).collect()
}

fn values(page: &Page<String>) -> Vec<&str> {
    page.items.iter().map(|(_, item)| item.object.as_str()).collect()
}

#[test]
fn the_log_of_all_resources_is_read_in_order_until_it_forgets_or_goes_back() {
    let log = Log::new(100);
    let (pods, nodes) = (log.add_resource(true), log.add_resource(true));
    put(&log, pods, "a/x", "1");
    let (objects, mut position) = log.everything();
    assert_eq!(objects.len(), 1);
    assert!(matches!(log.read_log(&mut position, 10), Tail::Idle));
    put(&log, nodes, "n", "1");
    put(&log, pods, "a/y", "1");
    delete(&log, pods, "a/x");
    let keys = |tail: Tail<String>| match tail {
        Tail::Events(events) => events.iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>(),
        Tail::Idle | Tail::Lost => Vec::new(),
    };
    assert_eq!(keys(log.read_log(&mut position, 2)), ["n", "a/y"]);
    let mut behind = position;
    assert_eq!(keys(log.read_log(&mut position, 2)), ["a/x"]);
    assert_eq!(position.revision(), 4);
    log.compact(4);
    assert!(matches!(log.read_log(&mut position, 2), Tail::Idle));
    assert!(matches!(log.read_log(&mut behind, 2), Tail::Lost));
    let before = put(&log, nodes, "n", "2");
    assert_eq!(keys(log.read_log(&mut position, 2)), ["n"]);
    put(&log, nodes, "n", "3");
    assert!(log.restore(before));
    assert!(matches!(log.read_log(&mut position, 2), Tail::Lost));
}

#[test]
fn every_commit_of_any_resource_takes_the_next_revision() {
    let log = Log::new(100);
    let (pods, nodes) = (log.add_resource(true), log.add_resource(true));
    assert_eq!(put(&log, pods, "a/x", "1"), 1);
    assert_eq!(put(&log, nodes, "n", "1"), 2);
    assert_eq!(delete(&log, pods, "a/x"), 3);
    assert_eq!(put(&log, pods, "a/x", "2"), 4);
    assert_eq!(log.current(), 4);
    assert_eq!(log.count(pods), 1);
}

#[test]
fn keys_order_as_whole_strings() {
    // [F26] the byte order of `namespace/name`: `-` sorts before `/`.
    let log = Log::new(100);
    let id = log.add_resource(true);
    for key in ["oa/a", "oa-b/a", "oa/b", "ob/a"] {
        put(&log, id, key, "v");
    }
    let page = log.list(id, &query(Range::All, None, 0, None)).unwrap();
    assert_eq!(keys(&page), ["oa-b/a", "oa/a", "oa/b", "ob/a"]);
    let page = log
        .list(id, &query(Range::Namespace("oa".to_owned()), None, 0, None))
        .unwrap();
    assert_eq!(keys(&page), ["oa/a", "oa/b"]);
    let page = log
        .list(id, &query(Range::Key("ob/a".to_owned()), None, 0, None))
        .unwrap();
    assert_eq!(keys(&page), ["ob/a"]);
}

#[test]
fn exact_read_shows_the_state_at_that_revision() {
    let log = Log::new(100);
    let id = log.add_resource(true);
    put(&log, id, "a", "1");
    put(&log, id, "b", "1");
    put(&log, id, "a", "2");
    delete(&log, id, "b");
    let at = |rv| {
        log.list(id, &query(Range::All, Some(rv), 0, None))
            .map(|page| values(&page).join(","))
    };
    assert_eq!(at(1).as_deref(), Ok("1"));
    assert_eq!(at(2).as_deref(), Ok("1,1"));
    assert_eq!(at(3).as_deref(), Ok("2,1"));
    assert_eq!(at(4).as_deref(), Ok("2"));
    assert_eq!(at(5), Err(ReadError::Future { current: 4 }));
}

#[test]
fn pages_of_one_revision_ignore_later_writes() {
    // [F2] all pages show the revision of page one.
    let log = Log::new(100);
    let id = log.add_resource(true);
    for key in ["a", "b", "c", "d"] {
        put(&log, id, key, "old");
    }
    let first = log.list(id, &query(Range::All, None, 2, None)).unwrap();
    assert_eq!((keys(&first), first.more, first.remaining), (vec!["a", "b"], true, 2));
    put(&log, id, "aa", "new");
    put(&log, id, "c", "new");
    delete(&log, id, "d");
    let second = log.list(id, &query(Range::All, Some(first.rv), 2, Some("b"))).unwrap();
    assert_eq!((keys(&second), values(&second)), (vec!["c", "d"], vec!["old", "old"]));
    assert!(!second.more);
}

#[test]
fn cursor_delivers_each_event_of_its_resource_once_and_in_order() {
    let log = Log::new(100);
    let (pods, nodes) = (log.add_resource(true), log.add_resource(true));
    put(&log, pods, "a", "1");
    let mut cursor = log.watch_from(pods, 0).unwrap();
    put(&log, nodes, "n", "1");
    put(&log, pods, "a", "2");
    delete(&log, pods, "a");
    let Batch::Events(events) = log.read(&mut cursor, 2) else {
        panic!()
    };
    assert_eq!(events.iter().map(|event| event.rv).collect::<Vec<_>>(), [1, 3]);
    let Batch::Events(events) = log.read(&mut cursor, 2) else {
        panic!()
    };
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].rv, 4);
    assert_eq!(events[0].prev.as_deref().map(String::as_str), Some("2"));
    assert!(events[0].cur.is_none());
    assert!(matches!(log.read(&mut cursor, 2), Batch::Idle));
    put(&log, nodes, "n", "2");
    assert!(matches!(log.read(&mut cursor, 2), Batch::Idle));
    assert_eq!(
        cursor.position(),
        5,
        "a bookmark may say so: no event of the resource is missing"
    );
}

#[test]
fn compaction_trims_log_and_chains_together() {
    let log = Log::new(100);
    let id = log.add_resource(true);
    for value in ["1", "2", "3"] {
        put(&log, id, "a", value);
    }
    put(&log, id, "b", "1");
    delete(&log, id, "b");
    log.compact(3);
    log.read_state().check_invariants();
    assert_eq!((log.log_len(), log.oldest()), (2, 3));
    let at = |rv| {
        log.list(id, &query(Range::All, Some(rv), 0, None))
            .map(|page| values(&page).join(","))
    };
    assert_eq!(at(2), Err(ReadError::Compacted { oldest: 3 }));
    assert_eq!(at(3).as_deref(), Ok("3"));
    assert_eq!(at(4).as_deref(), Ok("3,1"));
    log.compact(99);
    log.read_state().check_invariants();
    assert_eq!((log.log_len(), log.oldest()), (0, 5));
    assert_eq!(
        log.watch_from(id, 4).map(|_| ()),
        Err(ReadError::Compacted { oldest: 5 })
    );
    assert!(log.watch_from(id, 5).is_ok());
}

#[test]
fn log_compacts_itself_at_its_bound() {
    // [F24] compaction bounds the log.
    let log = Log::new(8);
    let id = log.add_resource(true);
    for value in 0..1000 {
        put(&log, id, "a", &value.to_string());
        assert!(log.log_len() <= 8);
    }
    assert!(log.oldest() >= 992);
}

#[test]
fn reader_that_compaction_passed_is_cut_off_and_others_go_on() {
    // [F6] a slow reader is cut off, not fed with holes.
    let log = Log::new(100);
    let (pods, nodes) = (log.add_resource(true), log.add_resource(true));
    let mut slow = log.watch_from(pods, 0).unwrap();
    let mut fast = log.watch_from(pods, 0).unwrap();
    let mut quiet = log.watch_from(nodes, 0).unwrap();
    put(&log, pods, "a", "1");
    assert!(matches!(log.read(&mut fast, 10), Batch::Events(_)));
    log.compact(1);
    assert!(matches!(log.read(&mut slow, 10), Batch::Behind));
    assert!(matches!(log.read(&mut fast, 10), Batch::Idle));
    // Nothing of its resource was lost, so it goes on although its own revision is compacted.
    assert!(matches!(log.read(&mut quiet, 10), Batch::Idle));
}

#[test]
fn late_resource_has_no_history_before_it() {
    let log = Log::new(100);
    let pods = log.add_resource(true);
    put(&log, pods, "a", "1");
    put(&log, pods, "a", "2");
    let late = log.add_resource(false);
    assert_eq!(
        log.watch_from(late, 1).map(|_| ()),
        Err(ReadError::Compacted { oldest: 2 })
    );
    assert!(log.watch_from(late, 2).is_ok());
}

#[test]
fn closed_resource_delivers_the_removals_then_ends() {
    let log = Log::new(100);
    let id = log.add_resource(false);
    put(&log, id, "a", "1");
    let mut cursor = log.watch_from(id, 1).unwrap();
    log.close_resource(id);
    let Batch::Events(events) = log.read(&mut cursor, 10) else {
        panic!()
    };
    assert_eq!((events[0].key.as_ref(), events[0].cur.is_none()), ("a", true));
    assert!(matches!(log.read(&mut cursor, 10), Batch::Closed));
    assert_eq!(log.count(id), 0);
}

#[test]
fn ended_watches_end_and_new_ones_do_not() {
    let log = Log::new(100);
    let id = log.add_resource(true);
    let mut old = log.watch_from(id, 0).unwrap();
    put(&log, id, "a", "1");
    log.end_watches(id);
    let mut new = log.watch_from(id, 1).unwrap();
    assert!(matches!(log.read(&mut old, 10), Batch::Events(_)));
    assert!(matches!(log.read(&mut old, 10), Batch::Closed));
    assert!(matches!(log.read(&mut new, 10), Batch::Idle));
    put(&log, id, "b", "1");
    log.begin_watches_anew(id);
    assert!(matches!(log.read(&mut new, 10), Batch::Events(_)));
    assert!(matches!(log.read(&mut new, 10), Batch::Closed));
    assert!(matches!(log.watch_from(id, 1), Err(ReadError::Compacted { oldest: 2 })));
    log.watch_from(id, 2).unwrap();
}

#[test]
fn restored_log_shows_nothing_of_its_new_history_to_old_watches() {
    // [F22] a store that went back breaks the watches on it
    let log = Log::new(100);
    let id = log.add_resource(true);
    put(&log, id, "a", "1");
    let mut lagging = log.watch_from(id, 0).unwrap();
    let (_, mut current) = log.snapshot(id, &query(Range::All, None, 0, None));
    assert!(log.restore(0));
    put(&log, id, "b", "1");
    put(&log, id, "c", "1");
    for old in [&mut lagging, &mut current] {
        assert!(matches!(log.read(old, 10), Batch::Closed));
    }
}

#[test]
fn parallel_updates_of_one_key_lose_none() {
    // [F10] the transaction retries inside, so concurrent changes never conflict.
    let log = Log::new(100_000);
    let id = log.add_resource(true);
    put(&log, id, "counter", "0");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let done = log.update(id, "counter", |old| {
                        let count: u64 = old.unwrap().object.parse().unwrap();
                        Ok::<_, Infallible>(Change::Put(Arc::new((count + 1).to_string())))
                    });
                    assert!(matches!(done, Ok(Outcome::Written(_))));
                }
            });
        }
    });
    assert_eq!(*log.get(id, "counter").unwrap().object, "1600");
    log.read_state().check_invariants();
}

#[test]
fn snapshot_and_the_events_after_it_give_the_final_state() {
    // [F7] list at r, watch from r: folding the events gives the final list, whatever the writers do meanwhile.
    for seed in 0..200 {
        let log = Log::new(100_000);
        let id = log.add_resource(true);
        let writers = 4;
        let (page, mut cursor) = thread::scope(|scope| {
            for writer in 0..writers {
                let log = &log;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed * 16 + writer);
                    for step in 0..20 {
                        let key = format!("k{}", random.u8(..6));
                        let value = Arc::new(format!("{writer}-{step}"));
                        let remove = random.bool();
                        let done = log.update(id, &key, |_| {
                            let change = if remove {
                                Change::Delete
                            } else {
                                Change::Put(Arc::clone(&value))
                            };
                            Ok::<_, Infallible>(change)
                        });
                        assert!(done.is_ok());
                    }
                });
            }
            log.snapshot(id, &query(Range::All, None, 0, None))
        });
        let mut folded: BTreeMap<String, String> = page
            .items
            .iter()
            .map(|(key, item)| (key.to_string(), item.object.to_string()))
            .collect();
        let mut last = page.rv;
        while let Batch::Events(events) = log.read(&mut cursor, 7) {
            for event in events {
                assert!(event.rv > last, "seed {seed}: order");
                last = event.rv;
                assert_eq!(
                    event.prev.as_deref(),
                    folded.get(event.key.as_ref()),
                    "seed {seed}: the state before an event is what the events before it made"
                );
                match &event.cur {
                    Some(value) => folded.insert(event.key.to_string(), value.to_string()),
                    None => folded.remove(event.key.as_ref()),
                };
            }
        }
        let page = log.list(id, &query(Range::All, None, 0, None)).unwrap();
        let listed: BTreeMap<String, String> = page
            .items
            .iter()
            .map(|(key, item)| (key.to_string(), item.object.to_string()))
            .collect();
        assert_eq!(folded, listed, "seed {seed}");
        log.read_state().check_invariants();
    }
}

#[tokio::test]
async fn waiting_cursor_wakes_for_an_event_that_came_before_it_waited() {
    let log = Log::new(100);
    let id = log.add_resource(true);
    let mut cursor = log.watch_from(id, 0).unwrap();
    assert!(matches!(log.read(&mut cursor, 10), Batch::Idle));
    put(&log, id, "a", "1");
    cursor.changed().await;
    assert!(matches!(log.read(&mut cursor, 10), Batch::Events(_)));
}

#[tokio::test]
async fn reached_resolves_at_the_revision() {
    let log = Log::new(100);
    let id = log.add_resource(true);
    put(&log, id, "a", "1");
    log.reached(1).await;
    tokio::join!(log.reached(3), async {
        put(&log, id, "a", "2");
        tokio::task::yield_now().await;
        put(&log, id, "a", "3");
    });
    assert_eq!(log.current(), 3);
}

#[test]
fn event_is_encoded_once_per_form() {
    // [F24] an event is encoded once per representation, however many watches there are.
    let log = Log::new(100);
    let id = log.add_resource(true);
    put(&log, id, "a", "1");
    let mut cursor = log.watch_from(id, 0).unwrap();
    let Batch::Events(events) = log.read(&mut cursor, 1) else {
        panic!()
    };
    let encoding_at = |form, at| Encoding {
        api_version: "v1".into(),
        definition: 0,
        form,
        at,
    };
    let encoding = |form| encoding_at(form, 0);
    let count = std::cell::Cell::new(0);
    let encode = |_: &Entry<String>| {
        count.set(count.get() + 1);
        bytes::Bytes::from(vec![count.get()])
    };
    let first = events[0].encoded(&encoding(0), encode);
    let second = events[0].encoded(&encoding(0), encode);
    assert_eq!(first.as_ptr(), second.as_ptr(), "shared, not copied");
    assert_eq!(events[0].encoded(&encoding(1), encode).as_ref(), [2]);
    assert_eq!(count.get(), 2);
    // Of a form that tells the time, the latest stays.
    for (at, shown) in [(5, 3), (5, 3), (6, 4), (6, 4), (5, 5)] {
        assert_eq!(events[0].encoded(&encoding_at(2, at), encode).as_ref(), [shown]);
    }
    assert_eq!(events[0].encoded(&encoding(1), encode).as_ref(), [2]);
}

#[test]
fn restore_goes_back_to_an_older_state_and_gives_its_revisions_again() {
    // [F22] RV going backwards
    let log = Log::new(100);
    let pods = log.add_resource(true);
    put(&log, pods, "a", "1");
    put(&log, pods, "b", "1");
    let past = put(&log, pods, "c", "1");
    put(&log, pods, "a", "2");
    delete(&log, pods, "b");
    put(&log, pods, "d", "1");
    let mut cursor = log.watch_from(pods, log.current()).unwrap();
    assert!(log.restore(past));
    log.read_state().check_invariants();
    assert_eq!(log.current(), past);
    let page = log.list(pods, &query(Range::All, None, 0, None)).unwrap();
    assert_eq!((keys(&page), values(&page)), (vec!["a", "b", "c"], vec!["1", "1", "1"]));
    assert_eq!(log.count(pods), 3);
    assert!(matches!(log.read(&mut cursor, 10), Batch::Closed), "open watches end");
    assert_eq!(put(&log, pods, "e", "1"), past + 1);
    let events = log.events_after(pods, past);
    assert_eq!((events.len(), events[0].key.as_ref()), (1, "e"));
    assert!(!log.restore(past + 2), "not reached");
    log.compact(past);
    assert!(!log.restore(past - 1), "forgotten");
    assert_eq!(log.current(), past + 1);
}

#[test]
fn skipped_revisions_are_never_given_out_and_forget_the_past() {
    let log = Log::new(100);
    let pods = log.add_resource(true);
    let first = put(&log, pods, "a", "1");
    log.skip(100);
    assert_eq!(log.current(), first + 100);
    assert_eq!(
        log.watch_from(pods, first).unwrap_err(),
        ReadError::Compacted { oldest: first + 100 }
    );
    assert_eq!(put(&log, pods, "a", "2"), first + 101);
}

/// Looks, whenever it is woken, whether the log can be asked.
struct Asking {
    log: Arc<Log>,
    woken: AtomicUsize,
    locked_out: AtomicUsize,
}

impl Wake for Asking {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if self.log.state.try_read().is_err() {
            self.locked_out.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn who_is_woken_may_ask_the_log() {
    // A waker is code of whoever waits: no lock is held while it runs.
    let log = Arc::new(Log::new(100));
    let id = log.add_resource(true);
    let asking = Arc::new(Asking {
        log: Arc::clone(&log),
        woken: AtomicUsize::new(0),
        locked_out: AtomicUsize::new(0),
    });
    let waker = Waker::from(Arc::clone(&asking));
    let mut cx = Context::from_waker(&waker);
    let changes: [&dyn Fn(); 4] = [
        &|| assert_eq!(put(&log, id, "a", "1"), 1),
        &|| log.compact(1),
        &|| log.skip(10),
        &|| assert!(log.restore(log.current())),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (mut commits, mut advances) = (log.commits(), log.advances());
        let mut waits = (Box::pin(commits.changed()), Box::pin(advances.changed()));
        assert!(waits.0.as_mut().poll(&mut cx).is_pending());
        assert!(waits.1.as_mut().poll(&mut cx).is_pending());
        let before = asking.woken.load(Ordering::SeqCst);
        change();
        assert!(asking.woken.load(Ordering::SeqCst) > before, "change {number} wakes");
        assert_eq!(asking.locked_out.load(Ordering::SeqCst), 0, "change {number}");
    }
}
