//! Servers, and what stands before them, that answer what no API server would: nothing cached is lost by it, no loop is
//! without an end or a pause, and it shows.

use super::*;

/// A list of `a`, and a watch that then has to list again.
async fn relisting(answer: &str) -> (Script, Rig) {
    let script = Script::new();
    script.json(&list("7", &[item_json("a", "u", 1)]));
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.informer.synced().await.unwrap();
    watch.send(&error_event(410, "Expired"));
    script.json(answer);
    script.json(&list("9", &[item_json("a", "u", 1)]));
    (script, rig)
}

// [I16] what is no list empties no cache, although it is an object with metadata
#[tokio::test(start_paused = true)]
async fn object_that_is_no_list_is_not_an_empty_one() {
    for answer in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}"#,
        r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"rows":[]}"#,
        &item_json("a", "u", 9),
    ] {
        let (script, rig) = relisting(answer).await;
        let mut events = rig.informer.events(HandlerOptions::default());
        assert!(events.next().await.unwrap().is_initial());
        let _watch = script.stream();
        script.requested(5).await;
        assert_eq!(
            rig.kinds(),
            [WatchErrorKind::Expired, WatchErrorKind::Protocol],
            "{answer}"
        );
        assert!(
            futures_util::FutureExt::now_or_never(events.next()).is_none(),
            "{answer}"
        );
        assert_eq!(rig.values(), ["a@1"], "{answer}");
        drop(events);
        rig.end().await;
    }
}

fn page(next: &str, items: &[String]) -> String {
    let items = items.join(",");
    format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"{next}"}},"items":[{items}]}}"#)
}

// [I22] pages that lead to themselves, or on and on without anything new, are given up and asked for again after a pause
#[tokio::test(start_paused = true)]
async fn pages_without_an_end_are_given_up() {
    let script = Script::new();
    script.json(&page("x", &[item_json("a", "u", 1)]));
    for _ in 0..50 {
        script.json(&page("x", &[item_json("b", "v", 1)]));
    }
    let options = paged().initial_list(InitialList::Consistent);
    let rig = rig(&script, options.clone());
    script::until(|| !rig.errors.lock().is_empty()).await;
    assert_eq!(rig.kinds(), [WatchErrorKind::Unfinished]);
    assert_eq!(script.requests(), 2, "the second page leads to itself");
    rig.end().await;

    let script = Script::new();
    for number in 0..5_000 {
        script.json(&page(&format!("x{number}"), &[item_json("a", "u", 1)]));
    }
    let rig = super::rig(&script, options);
    script::until(|| !rig.errors.lock().is_empty()).await;
    assert_eq!(rig.kinds(), [WatchErrorKind::Unfinished]);
    assert!(script.requests() <= 1_001, "{}", script.requests());
    rig.end().await;
}

/// A page of one object, whose body goes on with `more` every so often for a day, and never ends.
async fn trickling(every: Duration, more: impl Fn(u64) -> String) -> (Vec<WatchErrorKind>, Vec<String>, Duration) {
    let script = Script::new();
    let page = script.stream();
    // It lists again, after a pause, and that one counts.
    script.json(&list("8", &[item_json("a", "u", 8)]));
    let _watch = script.stream();
    let begun = Instant::now();
    let rig = rig(&script, paged());
    script.requested(1).await;
    page.send_raw(br#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"first"}}"#);
    for number in 0..86_400 / every.as_secs() {
        tokio::time::sleep(every).await;
        if !rig.errors.lock().is_empty() {
            break;
        }
        page.send_raw(more(number).as_bytes());
    }
    let took = begun.elapsed();
    rig.at("8").await;
    let (kinds, values) = (rig.kinds(), rig.values());
    assert!(script.query(1).starts_with("list "), "{}", script.query(1));
    rig.end().await;
    (kinds, values, took)
}

// [I22] a page that trickles for ever: a byte now and then is no silence, and yet no list
#[tokio::test(start_paused = true)]
async fn page_that_trickles_without_anything_new_is_given_up() {
    for every in [Duration::from_secs(1), Duration::from_secs(45)] {
        for more in [" ", r#",{"metadata":{"name":"first"}}"#] {
            let (kinds, values, took) = trickling(every, |_| more.to_owned()).await;
            assert_eq!(kinds, [WatchErrorKind::Unfinished], "{more:?} each {every:?}");
            assert_eq!(values, ["a@8"]);
            assert!(
                (Duration::from_mins(2)..Duration::from_mins(3)).contains(&took),
                "{took:?}"
            );
        }
    }
}

// [I22] a list that brings something new for ever has no end either
#[tokio::test(start_paused = true)]
async fn page_that_trickles_with_news_for_ever_is_given_up() {
    let object = |number| format!(r#",{{"metadata":{{"name":"x{number}"}}}}"#);
    let (kinds, values, took) = trickling(Duration::from_secs(80), object).await;
    assert_eq!(kinds, [WatchErrorKind::Unfinished]);
    assert_eq!(values, ["a@8"]);
    assert!(
        (Duration::from_mins(30)..Duration::from_mins(32)).contains(&took),
        "{took:?}"
    );
}

// [I22] nor have pages that each bring something new, and lead on and on
#[tokio::test(start_paused = true)]
async fn new_pages_for_ever_are_given_up() {
    let script = Script::new();
    let begun = Instant::now();
    let rig = rig(&script, paged().initial_list(InitialList::Consistent));
    for number in 0..86_400 {
        script.requested(number + 1).await;
        if !rig.errors.lock().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        script.json(&page(
            &format!("x{number}"),
            &[item_json(&format!("a{number}"), "u", 1)],
        ));
    }
    assert_eq!(rig.kinds(), [WatchErrorKind::Unfinished]);
    let text = rig.errors.lock()[0].to_string();
    assert!(
        text.ends_with("the list has not come to its end within 30 min"),
        "{text}"
    );
    assert!(
        (Duration::from_mins(30)..Duration::from_mins(31)).contains(&begun.elapsed()),
        "{:?}",
        begun.elapsed()
    );
    rig.end().await;
}

// [I22] a slow list is none of these: something new now and then, and an end within half an hour
#[tokio::test(start_paused = true)]
async fn slow_page_is_waited_for() {
    let script = Script::new();
    let page = script.stream();
    let _watch = script.stream();
    let rig = rig(&script, paged());
    script.requested(1).await;
    page.send_raw(br#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"first"}}"#);
    for number in 0..15 {
        tokio::time::sleep(Duration::from_secs(80)).await;
        page.send_raw(format!(r#",{{"metadata":{{"name":"x{number}"}}}}"#).as_bytes());
    }
    page.send_raw(b"]}");
    page.end();
    rig.at("7").await;
    assert_eq!((rig.informer.len(), rig.kinds()), (16, Vec::new()));
    rig.end().await;
}

// [I21] a byte that is no UTF-8 costs the object that holds it, in a list and in a watch, until a good version comes
#[tokio::test(start_paused = true)]
async fn byte_that_is_no_text_costs_one_object() {
    let broken = |text: &str| text.replace("b@", "\u{1}").into_bytes();
    let sent = |text: &str| broken(text).into_iter().map(|byte| if byte == 1 { 0xff } else { byte });
    let both = [item_json("a", "u", 1), item_json("b", "v", 2)];
    for streaming in [false, true] {
        let script = Script::new();
        let body = script.stream();
        let options = if streaming { InformerOptions::default() } else { paged() };
        let rig = rig(&script, options);
        script.requested(1).await;
        let watch = if streaming {
            for item in &both {
                body.send_raw(&sent(&event("ADDED", item)).chain(*b"\n").collect::<Vec<u8>>());
            }
            body.send(&end_bookmark("7"));
            body
        } else {
            let watch = script.stream();
            body.send_raw(&sent(&list("7", &both)).collect::<Vec<u8>>());
            body.end();
            watch
        };
        rig.at("7").await;
        let bad = vec![(
            "n/b".parse::<ObjectKey>().unwrap(),
            "the object holds bytes that are not UTF-8".to_owned(),
        )];
        assert_eq!(rig.values(), ["a@1"], "streaming: {streaming}");
        assert_eq!(rig.informer.undecodable(), bad);
        assert_eq!(rig.kinds(), [WatchErrorKind::Undecodable]);
        assert!(rig.informer.stats().error.is_none(), "nothing keeps it from going on");

        watch.send(&event("MODIFIED", &item_json("b", "v", 8)));
        rig.at("8").await;
        assert_eq!(rig.values(), ["a@1", "b@8"]);
        assert_eq!(rig.informer.undecodable(), []);
        // The last good version stays.
        watch.send_raw(
            &sent(&event("MODIFIED", &item_json("b", "v", 9)))
                .chain(*b"\n")
                .collect::<Vec<u8>>(),
        );
        rig.at("9").await;
        assert_eq!(rig.values(), ["a@1", "b@8"]);
        assert_eq!(rig.informer.undecodable(), bad);
        watch.send_raw(
            &sent(&event("DELETED", &item_json("b", "v", 10)))
                .chain(*b"\n")
                .collect::<Vec<u8>>(),
        );
        rig.at("10").await;
        assert_eq!(rig.values(), ["a@1"]);
        assert_eq!(rig.informer.undecodable(), []);
        assert_eq!(
            rig.kinds(),
            [WatchErrorKind::Undecodable, WatchErrorKind::Undecodable],
            "the watch went on"
        );
        assert_eq!(script.requests(), 1 + usize::from(!streaming));
        rig.end().await;
    }
}

// [I22] pages that hold nothing are no reason to give up while others do
#[tokio::test(start_paused = true)]
async fn pages_may_be_empty() {
    let script = Script::new();
    for number in 0..300 {
        let items = if number % 50 == 0 {
            vec![item_json(&format!("a{number}"), "u", 1)]
        } else {
            Vec::new()
        };
        script.json(&page(&format!("x{number}"), &items));
    }
    script.json(&page("", &[]));
    let _watch = script.stream();
    let rig = rig(&script, paged().initial_list(InitialList::Consistent));
    rig.informer.synced().await.unwrap();
    assert_eq!(rig.values().len(), 6);
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// [I16] a watch that is answered with a list, or anything else that has no line's end, is no watch that ended in good order
#[tokio::test(start_paused = true)]
async fn watch_that_is_answered_with_a_list_is_told() {
    let script = Script::new();
    script.json(&list("7", &[]));
    script.json(&list("8", &[item_json("a", "u", 8)]));
    script.json(&list("8", &[item_json("a", "u", 8)]));
    script.json(&list("8", &[item_json("a", "u", 8)]));
    let _watch = script.stream();
    let rig = rig(&script, paged());
    script.requested(5).await;
    assert_eq!(rig.kinds(), [WatchErrorKind::Protocol, WatchErrorKind::Protocol]);
    assert_eq!(script.query(3), "list limit=500", "the second time it lists");
    assert_eq!(rig.values(), ["a@8"]);
    rig.end().await;
}

// [I16] the last event of a stream counts without its line's end, too; half of one does not, and shows
#[tokio::test(start_paused = true)]
async fn last_line_without_its_end_counts_if_it_is_whole() {
    let added = event("ADDED", &item_json("a", "u", 8));
    for (line, told) in [
        (added.as_str(), &[][..]),
        (&added[..added.len() - 9], &[WatchErrorKind::Protocol]),
    ] {
        let script = Script::new();
        script.json(&list("7", &[]));
        let watch = script.stream();
        watch.send_raw(line.as_bytes());
        watch.end();
        let rig = rig(&script, paged());
        script.requested(3).await;
        let version = if told.is_empty() { 8 } else { 7 };
        assert_eq!(script.query(2), format!("resourceVersion={version}"));
        assert_eq!(rig.kinds(), told);
        rig.end().await;
    }
}

// [I14] the same holds for the end bookmark of a streaming list
#[tokio::test(start_paused = true)]
async fn end_bookmark_without_its_lines_end_ends_the_list() {
    let script = Script::new();
    let stream = script.stream();
    stream.send(&event("ADDED", &item_json("a", "u", 3)));
    stream.send_raw(end_bookmark("7").as_bytes());
    stream.end();
    let _watch = script.stream();
    let rig = rig(&script, InformerOptions::default());
    script.requested(2).await;
    assert_eq!(script.query(1), "resourceVersion=7");
    assert_eq!(rig.values(), ["a@3"]);
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// [I20] null is what is not there, as to every decoder of the API's own
#[tokio::test(start_paused = true)]
async fn null_is_as_good_as_nothing() {
    let script = Script::new();
    script.json(r#"{"metadata":{"resourceVersion":"7","continue":null},"items":null}"#);
    let watch = script.stream();
    let rig = rig(&script, paged());
    rig.at("7").await;
    watch.send(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":null}}}"#);
    rig.at("9").await;
    watch.send(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":null}}}"#);
    watch.send(r#"{"type":"BOOKMARK","object":{"metadata":null}}"#);
    let nothing = r#"{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":null}}}"#;
    watch.send(&event("BOOKMARK", nothing));
    rig.at("10").await;
    assert_eq!(rig.kinds(), []);
    rig.end().await;
}

// An encoding is the same in capitals, and under its old name (RFC 9110, 8.4.1).
#[tokio::test(start_paused = true)]
async fn encodings_are_told_without_regard_to_case() {
    for (encoding, packed) in [("GZIP", true), ("x-gzip", true), ("Identity", false)] {
        let script = Script::new();
        let answer = script.encoded(encoding);
        let text = list("7", &[item_json("a", "u", 1)]);
        if packed {
            answer.send_raw(&objects::gzip(&text));
        } else {
            answer.send_raw(text.as_bytes());
        }
        answer.end();
        let _watch = script.stream();
        let rig = rig(&script, paged());
        rig.at("7").await;
        assert_eq!(rig.kinds(), [], "{encoding}");
        rig.end().await;
    }
}

/// A metrics recorder that panics when something begins again.
#[derive(Debug)]
struct FailingRestarts;

struct FailingCounter;

impl metrics::CounterFn for FailingCounter {
    fn increment(&self, _: u64) {
        panic!("on purpose");
    }

    fn absolute(&self, _: u64) {
        panic!("on purpose");
    }
}

impl metrics::Recorder for FailingRestarts {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        if key.name().ends_with("restarts_total") {
            metrics::Counter::from_arc(Arc::new(FailingCounter))
        } else {
            metrics::Counter::noop()
        }
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

// [I39] a recorder is somebody else's code: if it panics each time that the informer begins again, it begins again all the same
#[tokio::test(start_paused = true)]
async fn panicking_metrics_recorder_does_not_end_the_informer() {
    let _recorder = metrics::set_default_local_recorder(&FailingRestarts);
    let script = Script::new();
    script.json(&list("7", &[]));
    script.stream().end();
    script.json(&list("8", &[item_json("a", "u", 8)]));
    let _watch = script.stream();
    let rig = rig(&script, paged());
    rig.at("8").await;
    assert!(
        rig.informer
            .stats()
            .last_error
            .unwrap()
            .to_string()
            .contains("panicked")
    );
    assert_eq!(rig.values(), ["a@8"]);
    rig.end().await;
}

// [I16] lines of nothing but space, as something on the way may send to keep the connection alive, say nothing; nor does a
// return before the newline
#[tokio::test(start_paused = true)]
async fn blank_lines_say_nothing() {
    let script = Script::new();
    let stream = script.stream();
    stream.send_raw(b"\r\n \n");
    stream.send(&format!("{}\r", event("ADDED", &item_json("a", "u", 3))));
    stream.send(&format!("{}\r", end_bookmark("7")));
    let rig = rig(&script, InformerOptions::default());
    rig.at("7").await;
    stream.send_raw(b"\r\n\t \r\n");
    stream.send(&event("ADDED", &item_json("b", "v", 8)));
    rig.at("8").await;
    stream.send_raw(b" \r");
    stream.end();
    let _watch = script.stream();
    script.requested(2).await;
    assert_eq!(script.query(1), "resourceVersion=8");
    assert_eq!(rig.kinds(), []);
    assert_eq!(rig.values(), ["a@3", "b@8"]);
    rig.end().await;
}
