//! What follows a watch or a list that fails again and again, or lived for a while: never a busy loop, never for ever at a
//! version that leads nowhere.

use super::table::{NEWEST, SAME, too_large_event};
use super::*;

/// A watch that lives for five seconds before it ends so: what follows, at once.
#[tokio::test(start_paused = true)]
async fn watch_that_lived_goes_on_at_once() {
    let rows = [
        ("clean end", None, SAME),
        ("ERROR event 410", Some(error_event(410, "Expired")), NEWEST),
        ("ERROR event too large", Some(too_large_event()), NEWEST),
    ];
    for (name, line, next) in rows {
        let script = Script::new();
        script.json(&list("7", &[]));
        let watch = script.stream();
        let rig = rig(&script, paged());
        script.requested(2).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        if let Some(line) = line {
            watch.send(&line);
        }
        watch.end();
        script.requested(3).await;
        assert!(
            start.elapsed() <= Duration::from_millis(2),
            "{name}: {:?}",
            start.elapsed()
        );
        assert_eq!(script.query(2), next, "{name}");
        rig.end().await;
    }
}

/// Whatever ends a watch, the second in a row at the same version leads to a list; one that got on starts the count anew.
#[tokio::test(start_paused = true)]
async fn version_that_no_watch_gets_on_from_is_listed() {
    for line in [error_event(500, "InternalError"), "<html>".to_owned()] {
        let script = Script::new();
        script.json(&list("7", &[]));
        let rig = rig(&script, paged());
        let play = |lines: &[String]| {
            let stream = script.stream();
            for line in lines {
                stream.send(line);
            }
            stream
        };
        let streams = [
            play(std::slice::from_ref(&line)),
            play(&[event("ADDED", &item_json("a", "u", 8)), line.clone()]),
            play(std::slice::from_ref(&line)),
        ];
        script.json(&list("9", &[item_json("a", "u", 8)]));
        let last = script.stream();
        script.requested(6).await;
        let queries: Vec<String> = (1..6).map(|at| script.query(at)).collect();
        assert_eq!(
            queries,
            [SAME, SAME, "resourceVersion=8", NEWEST, "resourceVersion=9"],
            "{line}"
        );
        drop((streams, last));
        rig.end().await;
    }
}

// [I19] [I33] a restored server that has not reached the version is silent: the first silence resumes, the second lists, and
// the list finds out
#[tokio::test(start_paused = true)]
async fn silence_at_a_version_the_server_never_reached_ends_in_a_rebuild() {
    let script = Script::new();
    script.json(&list("7", &[item_json("a", "u", 1), item_json("b", "u", 7)]));
    let first = script.stream();
    let rig = rig(&script, paged());
    rig.informer.synced().await.unwrap();
    first.send(&bookmark("7"));
    let second = script.stream();
    let start = Instant::now();
    script.requested(4).await;
    assert_eq!(start.elapsed().as_secs(), 360);
    assert_eq!(script.query(3), NEWEST);
    script.json(&list("3", &[item_json("a", "u", 1)]));
    script.json(&list("3", &[item_json("a", "u", 1)]));
    let third = script.stream();
    rig.at("3").await;
    assert_eq!(rig.values(), ["a@1"]);
    assert_eq!(
        rig.kinds(),
        [
            WatchErrorKind::Silent,
            WatchErrorKind::Silent,
            WatchErrorKind::VersionWentBack
        ]
    );
    drop((first, second, third));
    rig.end().await;
}

/// Where no bookmarks ever come, a quiet watch looks like one from a version that was never reached: now and then a list.
#[tokio::test(start_paused = true)]
async fn quiet_watches_without_bookmarks_are_checked_by_a_list() {
    let script = Script::new();
    script.json(&list("7", &[]));
    let rig = rig(&script, paged());
    for watch in 0..2 {
        script.requested(2 + watch).await;
        let stream = script.stream();
        tokio::time::sleep(Duration::from_secs(301)).await;
        stream.end();
    }
    script.requested(4).await;
    assert_eq!([script.query(2), script.query(3)], [SAME, NEWEST]);
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// [I22] a server that lets every page expire is asked at the pace of the back-off
#[tokio::test(start_paused = true)]
async fn pages_that_always_expire_are_paced() {
    let script = Script::new();
    let page = r#"{"metadata":{"resourceVersion":"7","continue":"t"},"items":[]}"#;
    for _ in 0..40 {
        script.json(page);
        script.status(410, r#"{"code":410,"reason":"Expired"}"#);
    }
    let start = Instant::now();
    let rig = rig(&script, paged().initial_list(InitialList::Consistent));
    script.requested(80).await;
    // two lists a round: 20 rounds, of which the waits are 0.8 + 1.6 + 3.2 + 6.4 + 12.8 + 25.6 s and then 30 s each
    let least = Duration::from_secs(50 + 13 * 30);
    assert!(
        start.elapsed() >= least && start.elapsed() <= least.mul_f64(1.6),
        "{:?}",
        start.elapsed()
    );
    let asked: Vec<String> = (0..6).map(|at| script.query(at)).collect();
    let once = [
        "list limit=500",
        "list continue=t&limit=500",
        "list ",
        "list continue=t",
    ];
    assert_eq!(asked[..4], once);
    assert_eq!(asked[4..], once[..2]);
    rig.end().await;
}

// [I9] a neighbour on the runtime that always has something to do takes turns with the watch, and does not starve it
#[tokio::test]
async fn busy_neighbours_leave_the_watch_its_share() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    let script = Script::new();
    script.json(&list("7", &[]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    script.requested(2).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&turns);
    let busy = tokio::spawn(std::future::poll_fn::<(), _>(move |cx| {
        counter.fetch_add(1, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    let (events, last) = (1_000, crate::sample::item("a", "u", 1_007));
    let lines: Vec<String> = (8..8 + events)
        .map(|version| event("MODIFIED", &item_json("a", "u", version)) + "\n")
        .collect();
    watch.send_raw(lines.concat().as_bytes());
    let caught_up = rig.informer.caught_up(&*last, Duration::from_mins(1)).await;
    let turns = turns.load(Ordering::Relaxed);
    busy.abort();
    caught_up.unwrap();
    assert!(turns <= 2 * 1_000, "{turns} turns of the neighbour for {events} events");
    rig.end().await;
}

// [I24] a server that answers each watch with an error of its own, though it lists: the cache does not stay behind for ever
#[tokio::test(start_paused = true)]
async fn watches_that_are_never_opened_are_made_up_for_by_a_list() {
    let script = Script::new();
    script.json(&list("7", &[]));
    let rig = rig(&script, paged());
    for round in [1, 2] {
        for _ in 0..5 {
            script.status(500, "{}");
        }
        script.json(&list("9", &[item_json("a", "u", 8 + round)]));
        let asked = usize::try_from(round).unwrap() * 6;
        script.requested(asked + 1).await;
        let version = if round == 1 { 7 } else { 9 };
        let queries: Vec<String> = (asked - 5..=asked).map(|at| script.query(at)).collect();
        let watch = format!("resourceVersion={version}");
        assert_eq!(queries[..5], [watch.as_str(); 5]);
        assert_eq!(
            queries[5],
            format!("list resourceVersion={version}&resourceVersionMatch=NotOlderThan")
        );
        script::until(|| rig.values() == [format!("a@{}", 8 + round)]).await;
    }
    // One that opens, or another failure, begins the count anew.
    for _ in 0..4 {
        script.status(500, "{}");
    }
    script.stream().end();
    for _ in 0..4 {
        script.status(503, "{}");
    }
    script.status(403, "{}");
    for _ in 0..4 {
        script.status(500, "{}");
    }
    let _watch = script.stream();
    script.requested(28).await;
    for at in 13..28 {
        assert_eq!(script.query(at), "resourceVersion=9", "{at}");
    }
    rig.end().await;
}
