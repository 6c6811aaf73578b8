//! Servers that say nothing, or too much: every wait has a bound, and shows.

use super::script::Stream;
use super::*;
use crate::client::SyncOptions;
use crate::error::SyncError;
use tokio_util::sync::CancellationToken;

async fn fail_fast(rig: &Rig) -> String {
    let waiting = rig
        .client
        .run_and_wait_with(&CancellationToken::new(), SyncOptions::fail_fast())
        .await;
    match waiting {
        Err(error @ SyncError::Blocked { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

// [I24] a server that takes the connection and never answers shows within 30 s, in every form of list
#[tokio::test(start_paused = true)]
async fn server_that_never_answers_is_told_within_half_a_minute() {
    for options in [InformerOptions::default(), paged()] {
        let script = Script::new();
        let start = Instant::now();
        let rig = rig(&script, options);
        let text = fail_fast(&rig).await;
        assert!(start.elapsed().as_secs() <= 30, "{:?}", start.elapsed());
        assert_eq!(
            text,
            "cannot fill the cache: items.test.io/v1: no answer: cannot list items.test.io: \
             the server has not begun to answer within 30 s"
        );
        rig.end().await;
    }
}

// [I15] a proxy that holds a stream back until it ends: pages, after two tries
#[tokio::test(start_paused = true)]
async fn streaming_list_without_any_answer_falls_back_to_pages() {
    let script = Script::new();
    let start = Instant::now();
    let rig = rig(&script, InformerOptions::default());
    script.requested(3).await;
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(script.query(2), "list resourceVersion=0");
    rig.end().await;
}

// A list that takes the server a minute to prepare shows as a failure, and is not given up for it.
#[tokio::test(start_paused = true)]
async fn slow_list_is_waited_for_although_it_shows() {
    let script = Script::new();
    let rig = rig(&script, paged());
    script.requested(1).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(rig.informer.stats().error.is_some());
    script.json(&list("7", &[]));
    rig.informer.synced().await.unwrap();
    assert_eq!(script.query(0), "list resourceVersion=0");
    script.requested(2).await;
    assert_eq!(script.query(1), "resourceVersion=7", "the first request was answered");
    assert!(rig.informer.stats().error.is_none());
    rig.end().await;
}

// [I24] the body of an error that never comes does not hide the error
#[tokio::test(start_paused = true)]
async fn refusal_without_its_body_is_told_by_its_code() {
    let script = Script::new();
    script.stuck_status(403);
    let rig = rig(&script, InformerOptions::default());
    let text = fail_fast(&rig).await;
    assert!(text.ends_with("forbidden: cannot list items.test.io"), "{text}");
    rig.end().await;
}

// [I18] Retry-After is kept to, but neither parks an informer for days nor makes it spin
#[tokio::test(start_paused = true)]
async fn retry_after_has_bounds() {
    let script = Script::new();
    script.json(&list("7", &[]));
    script.retry_after(429, 1_000_000);
    for _ in 0..5 {
        script.retry_after(429, 0);
    }
    let start = Instant::now();
    let rig = rig(&script, paged());
    script.requested(3).await;
    assert_eq!(start.elapsed().as_secs(), 300);
    let start = Instant::now();
    script.requested(8).await;
    // 0.8 + 1.6 + 3.2 + 6.4 + 12.8 s, and up to half of it more
    let waited = start.elapsed().as_secs();
    assert!((24..=38).contains(&waited), "{waited}");
    rig.end().await;
}

// [I15] a server that streams changes but does not know of streaming lists never sends the end bookmark, however busy it is
#[tokio::test(start_paused = true)]
async fn streaming_list_that_never_ends_falls_back_to_pages() {
    let script = Script::new();
    let streams = [script.stream(), script.stream()];
    script.json(&list("9", &[item_json("b", "u", 8)]));
    let start = Instant::now();
    let rig = rig(&script, InformerOptions::default());
    let busy = async {
        for _ in 0..60 {
            for stream in &streams {
                stream.send(&event("MODIFIED", &item_json("a", "u", 1)));
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        panic!("not synced after ten minutes");
    };
    tokio::select! {
        synced = rig.informer.synced() => synced.unwrap(),
        () = busy => {}
    }
    assert!(start.elapsed() <= Duration::from_mins(5), "{:?}", start.elapsed());
    assert_eq!(rig.values(), ["b@8"]);
    assert_eq!(rig.kinds(), [WatchErrorKind::Unfinished, WatchErrorKind::Unfinished]);
    assert_eq!(
        rig.errors.lock()[0].to_string(),
        "no end: cannot list items.test.io: what came for 120 s was neither its end bookmark nor an object that is new to it"
    );
    rig.end().await;
}

/// Sends a new object every 20 s, so many times.
async fn trickle(stream: &Stream, objects: usize) {
    for n in 0..objects {
        stream.send(&event("ADDED", &item_json(&format!("i{n}"), "u", 1)));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
}

// [I14] a list that takes its time is waited for while objects come that are new to it
#[tokio::test(start_paused = true)]
async fn slow_streaming_list_is_not_cut_while_new_objects_come() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(&script, InformerOptions::default());
    trickle(&stream, 14).await; // 280 s: longer than two minutes, and than none lasts
    stream.send(&end_bookmark("2"));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values().len(), 14);
    assert_eq!((script.requests(), rig.kinds()), (1, vec![]));
    rig.end().await;
}

// [I15] one that ends or breaks again and again, after minutes and before its end, is fetched in pages
#[tokio::test(start_paused = true)]
async fn streaming_list_that_is_cut_after_minutes_falls_back_to_pages() {
    for breaks in [false, true] {
        let script = Script::new();
        let rig = rig(&script, InformerOptions::default());
        for _ in 0..2 {
            let stream = script.stream();
            trickle(&stream, 7).await;
            if breaks {
                stream.fail();
            } else {
                stream.end();
            }
        }
        script.json(&list("9", &[item_json("b", "u", 8)]));
        rig.informer.synced().await.unwrap();
        assert_eq!(rig.values(), ["b@8"]);
        let kind = if breaks {
            WatchErrorKind::Unreachable
        } else {
            WatchErrorKind::Unfinished
        };
        assert_eq!(rig.kinds(), [kind.clone(), kind]);
        if !breaks {
            let text = rig.errors.lock()[0].to_string();
            assert_eq!(
                text,
                "no end: cannot list items.test.io: the stream ended before its end bookmark, after 140 s"
            );
        }
        rig.end().await;
    }
}

// [I21] an object that does not decode is told once per list, as it was last; a deletion that nobody can place is told too,
// and neither is an object that the first sync waits for
#[tokio::test(start_paused = true)]
async fn streaming_list_tells_each_bad_object_once_and_each_bad_deletion() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(&script, InformerOptions::default());
    let bad =
        |name: &str, value: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"value":{value}}}"#);
    for value in ["1", "[]", "true"] {
        stream.send(&event("MODIFIED", &bad("b", value)));
    }
    stream.send(&event("ADDED", &bad("a", "1")));
    stream.send(&event("ADDED", &bad("gone", "1")));
    stream.send(&event("DELETED", &bad("gone", "1")));
    stream.send(&event("DELETED", r#"{"metadata":{"name":7},"value":1}"#));
    stream.send(&end_bookmark("2"));
    rig.informer.synced().await.unwrap();
    let told: Vec<String> = rig.errors.lock().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    for (text, parts) in told.iter().zip([
        ["an object without a readable name", "invalid type"],
        ["n/a", "integer `1`"],
        ["n/b", "boolean `true`"],
    ]) {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    assert_eq!(rig.informer.stats().undecodable, 2);
    rig.end().await;
}

// A deletion is no object: that one cannot be read must not hold back a first sync that waits for every object to decode.
#[tokio::test(start_paused = true)]
async fn bad_deletion_does_not_block_the_first_sync() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(
        &script,
        InformerOptions::default().on_undecodable(OnUndecodable::BlockFirstSync),
    );
    stream.send(&event("DELETED", r#"{"metadata":{"name":7},"value":1}"#));
    stream.send(&end_bookmark("2"));
    rig.informer.synced().await.unwrap();
    assert_eq!((script.requests(), rig.kinds()), (1, vec![WatchErrorKind::Undecodable]));
    rig.end().await;
}

// [I21] in a streaming list, too, a good version clears the bad one before it
#[tokio::test(start_paused = true)]
async fn good_version_in_a_streaming_list_clears_the_bad_one() {
    let script = Script::new();
    let stream = script.stream();
    let rig = rig(
        &script,
        InformerOptions::default().on_undecodable(OnUndecodable::BlockFirstSync),
    );
    let bad = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"},"value":1}"#;
    stream.send(&event("ADDED", bad));
    stream.send(&event("MODIFIED", &item_json("a", "u", 2)));
    stream.send(&end_bookmark("2"));
    script.requested(1).await;
    rig.informer.synced().await.unwrap();
    assert_eq!(script.requests(), 1);
    assert_eq!(rig.informer.undecodable(), []);
    assert_eq!(rig.values(), ["a@2"]);
    rig.end().await;
}

// The client's own limit is no silence of the server, however long a request has to wait for it.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_own_limit_is_no_failure() {
    let one = std::num::NonZeroU32::new(1).unwrap();
    let script = Script::new();
    let client = Client::builder().qps(one, one).build_with(script.client());
    let client = TestClient::new(client.unwrap());
    let informers: Vec<Informer<Item>> = (0..50)
        .map(|n| client.informers().typed(paged().fields(format!("f={n}"))).unwrap())
        .collect();
    let stop = CancellationToken::new();
    let waiting = client.run_and_wait_with(&stop, SyncOptions::fail_fast());
    let answering = async {
        // Lists are answered at once; the watches after them stay open.
        let mut open = Vec::new();
        for request in 1.. {
            script.requested(request).await;
            if script.query(request - 1).starts_with("list") {
                script.json(&list("7", &[]));
            } else {
                open.push(script.stream());
            }
        }
    };
    tokio::select! {
        synced = waiting => synced.unwrap(),
        () = answering => {}
    }
    assert!(informers.iter().all(Informer::has_synced));
    assert!(informers.iter().all(|informer| informer.stats().failures == 0));
    client.end().await;
}

// [I24] something else than an API server answers: told at once, not as a list that never ends
#[tokio::test(start_paused = true)]
async fn web_page_is_told_from_an_api_server() {
    for options in [InformerOptions::default(), paged()] {
        let script = Script::new();
        script.typed("text/html; charset=utf-8", "<html></html>");
        let start = Instant::now();
        let rig = rig(&script, options);
        let text = fail_fast(&rig).await;
        assert!(start.elapsed().as_secs() < 1, "{:?}", start.elapsed());
        assert_eq!(
            text,
            "cannot fill the cache: items.test.io/v1: this is not a Kubernetes API server: \
             its answer is text/html; charset=utf-8, not JSON"
        );
        rig.end().await;
    }
}
