//! What comes in a body, and what becomes of it: packed bodies, older versions, objects that do not decode.

use super::*;

pub(super) fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// A list is packed as one, a streaming list flush by flush; each line is read as soon as it is there.
#[tokio::test(start_paused = true)]
async fn packed_answers_are_unpacked_as_they_come() {
    let script = Script::new();
    let page = script.encoded("gzip");
    for piece in gzip(&list("7", &[item_json("a", "u", 1), item_json("b", "u", 2)])).chunks(10) {
        page.send_raw(piece);
    }
    page.end();
    let _watch = script.stream();
    let paged = rig(&script, paged());
    paged.at("7").await;
    assert_eq!(paged.values(), ["a@1", "b@2"]);
    paged.end().await;

    let script = Script::new();
    let stream = script.encoded("gzip");
    let streaming = rig(&script, InformerOptions::default());
    let line = |line: String| gzip(&format!("{line}\n"));
    stream.send_raw(&line(event("ADDED", &item_json("a", "u", 1))));
    let end = line(end_bookmark("7"));
    stream.send_raw(&end[..9]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.send_raw(&end[9..]);
    streaming.at("7").await;
    assert_eq!(streaming.values(), ["a@1"]);
    stream.send_raw(&line(event("MODIFIED", &item_json("a", "u", 8))));
    streaming.at("8").await;
    assert_eq!(streaming.kinds(), []);
    streaming.end().await;
}

/// An encoding that nobody asked for, and one that is not what it says.
#[tokio::test(start_paused = true)]
async fn answers_that_cannot_be_unpacked_are_failures() {
    for (encoding, text) in [("br", "encoded as"), ("gzip", "the gzip stream is damaged")] {
        let script = Script::new();
        let page = script.encoded(encoding);
        page.send_raw(list("7", &[]).as_bytes());
        page.end();
        let rig = rig(&script, paged());
        script.requested(2).await;
        assert_eq!(rig.kinds(), [WatchErrorKind::Protocol], "{encoding}");
        assert!(rig.errors.lock()[0].to_string().contains(text), "{encoding}");
        rig.end().await;
    }
}

// [I20] a deletion that carries the object's last version, or an older event, does not take the version back
#[tokio::test(start_paused = true)]
async fn older_versions_on_a_watch_do_not_take_it_back() {
    let script = Script::new();
    script.json(&list("7", &[item_json("a", "u", 3), item_json("b", "v", 4)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    watch.send(&event("MODIFIED", &item_json("a", "u", 9)));
    watch.send(&event("DELETED", &item_json("b", "v", 4)));
    script::until(|| rig.informer.len() == 1).await;
    assert_eq!(rig.informer.last_version().as_deref(), Some("9"));
    // versions that do not compare count as they come
    watch.send(&event("MODIFIED", &item_json("a", "u", 9).replace(r#""9""#, r#""x1""#)));
    rig.at("x1").await;
    watch.end();
    script.requested(3).await;
    assert_eq!(script.query(2), "resourceVersion=x1");
    rig.end().await;
}

// [I21] the version of an object that does not decode counts: a later watch does not show it again
#[tokio::test(start_paused = true)]
async fn undecodable_object_moves_the_version() {
    let script = Script::new();
    script.json(&list("7", &[]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    let object = r#"{"metadata":{"name":"a","namespace":"n","uid":7,"resourceVersion":"8"},"value":[]}"#;
    watch.send(&event("ADDED", object));
    rig.at("8").await;
    assert_eq!(rig.informer.undecodable().len(), 1);
    assert_eq!(rig.informer.undecodable()[0].0.to_string(), "n/a");
    watch.send(&event("DELETED", &object.replace(r#""8""#, r#""9""#)));
    rig.at("9").await;
    assert_eq!(rig.informer.undecodable(), []);
    rig.end().await;
}

// [I21] [I12] a bad object under the name of one that is known, with another uid: the known one is gone
#[tokio::test(start_paused = true)]
async fn undecodable_object_of_another_uid_does_not_keep_the_one_before() {
    let script = Script::new();
    script.json(&list("7", &[item_json("a", "u", 1)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.at("7").await;
    let bad = r#"{"metadata":{"name":"a","namespace":"n","uid":"v","resourceVersion":"9"},"value":1}"#;
    script.json(&list("9", &[bad.to_owned()]));
    let next = script.stream();
    watch.send(&error_event(410, "Expired"));
    rig.at("9").await;
    assert_eq!(rig.values(), Vec::<String>::new());
    assert_eq!(rig.informer.undecodable().len(), 1);
    drop(next);
    rig.end().await;
}

// [I19] [I21] after the version went back, the last good version of an object that does not decode is of a history that was
// lost: its version may be given out again, for something else (found by a random history)
#[tokio::test(start_paused = true)]
async fn good_version_of_a_lost_history_does_not_hide_the_next_one() {
    let script = Script::new();
    script.json(&list("8", &[item_json("a", "u", 8)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.at("8").await;
    let bad = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5"},"value":1}"#;
    for _ in 0..2 {
        script.json(&list("7", &[bad.to_owned()]));
    }
    let next = script.stream();
    watch.send(&error_event(410, "Expired"));
    rig.at("7").await;
    assert_eq!(rig.values(), Vec::<String>::new());
    next.send(&event("MODIFIED", &item_json("a", "u", 8).replace("a@8", "another")));
    rig.at("8").await;
    assert_eq!(rig.values(), ["another"]);
    assert_eq!(rig.informer.undecodable(), []);
    rig.end().await;
}

// [I21] a relist that brings only the bad version keeps the last good one
#[tokio::test(start_paused = true)]
async fn undecodable_object_of_a_relist_keeps_the_last_good_version() {
    for streaming in [true, false] {
        let script = Script::new();
        let bad = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"9"},"value":1}"#;
        let fresh = item_json("b", "u", 10);
        let options = if streaming { InformerOptions::default() } else { paged() };
        let first;
        if streaming {
            first = script.stream();
            first.send(&event("ADDED", &item_json("a", "u", 1)));
            first.send(&end_bookmark("7"));
        } else {
            script.json(&list("7", &[item_json("a", "u", 1)]));
            first = script.stream();
        }
        let rig = rig(&script, options);
        rig.at("7").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        first.send(&error_event(410, "Expired"));
        let second;
        if streaming {
            second = script.stream();
            second.send(&event("ADDED", bad));
            second.send(&event("ADDED", &fresh));
            second.send(&end_bookmark("10"));
        } else {
            script.json(&list("10", &[bad.to_owned(), fresh]));
            second = script.stream();
        }
        rig.at("10").await;
        assert_eq!(rig.values(), ["a@1", "b@10"], "streaming: {streaming}");
        assert_eq!(rig.informer.undecodable().len(), 1);
        drop((first, second));
        rig.end().await;
    }
}
