//! The table in the module's docs, row by row: what a server's answer leads to, in each state. A row that fails is named.

use super::*;
use crate::informer::reflector::tests::script::Stream;

/// What the server does.
enum Answer {
    Status(u16),
    RetryAfter(u16, u64),
    TooLarge,
    Page(u16),
    Html,
    Refuse,
    Json(String),
    /// A stream of these lines that then ends.
    End(Vec<String>),
    /// A stream of these lines that then breaks.
    Break(Vec<String>),
    /// A stream of these lines that stays open.
    Open(Vec<String>),
    Never,
}

/// When the next request comes.
#[derive(Debug, Clone, Copy)]
enum When {
    Once,
    /// After one back-off step.
    Wait,
    Secs(u64),
    /// After so long, and one back-off step.
    SecsAndWait(u64),
}

struct Row {
    name: &'static str,
    answer: Answer,
    when: When,
    next: &'static str,
    told: Option<WatchErrorKind>,
}

fn row(name: &'static str, answer: Answer, when: When, next: &'static str, told: WatchErrorKind) -> Row {
    let told = Some(told);
    Row {
        name,
        answer,
        when,
        next,
        told,
    }
}

const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const PAGES: &str = "list resourceVersion=0";
const NEWEST: &str = "list limit=500";
const SAME: &str = "resourceVersion=7";

impl Answer {
    fn play(&self, script: &Script) -> Option<Stream> {
        let send = |lines: &[String]| {
            let stream = script.stream();
            lines.iter().for_each(|line| stream.send(line));
            stream
        };
        match self {
            Answer::Status(code) => script.status(*code, "{}"),
            Answer::RetryAfter(code, seconds) => script.retry_after(*code, *seconds),
            Answer::TooLarge => script.status(
                504,
                r#"{"message":"Timeout: Too large resource version: 9, current: 1"}"#,
            ),
            Answer::Page(code) => script.status(*code, "<html><title>proxy</title></html>"),
            Answer::Html => script.typed("text/html", "<html></html>"),
            Answer::Refuse => script.refuse(),
            Answer::Json(body) => script.json(body),
            Answer::End(lines) => send(lines).end(),
            Answer::Break(lines) => send(lines).fail(),
            Answer::Open(lines) => return Some(send(lines)),
            Answer::Never => {}
        }
        None
    }
}

impl Row {
    /// Plays the row as the answer to request `at`, counted from 0.
    async fn check(&self, script: &Script, rig: Rig, at: usize) {
        let name = self.name;
        script.requested(at + 1).await;
        let start = Instant::now();
        let open = self.answer.play(script);
        let next = at + 2;
        let asked = async { script.requested(next).await };
        assert!(
            tokio::time::timeout(Duration::from_mins(20), asked).await.is_ok(),
            "{name}: no further request"
        );
        let waited = start.elapsed().as_millis();
        let range = match self.when {
            When::Once => 0..=2,
            When::Wait => 800..=1202,
            When::Secs(seconds) => u128::from(seconds) * 1000..=u128::from(seconds) * 1000 + 2,
            When::SecsAndWait(seconds) => u128::from(seconds) * 1000 + 800..=u128::from(seconds) * 1000 + 1204,
        };
        assert!(
            range.contains(&waited),
            "{name}: waited {waited} ms, not {:?}",
            self.when
        );
        assert_eq!(script.query(at + 1), self.next, "{name}");
        assert_eq!(rig.kinds(), self.told.iter().cloned().collect::<Vec<_>>(), "{name}");
        drop(open);
        rig.end().await;
    }
}

fn too_large_event() -> String {
    error_event(504, "Timeout").replace("text", "Too large resource version: 70, current: 9")
}

fn bad(value: &str) -> String {
    event("ADDED", value)
}

#[tokio::test(start_paused = true)]
async fn streaming_list_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Once, Secs, Wait};
    let throttled = |seconds| Kind::TooManyRequests {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let one = || event("ADDED", &item_json("a", "u", 1));
    let refused = |name, answer| Row {
        name,
        answer,
        when: Once,
        next: PAGES,
        told: None,
    };
    let rows = [
        refused("400", Answer::Status(400)),
        refused("422", Answer::Status(422)),
        refused("501", Answer::Status(501)),
        refused("405", Answer::Status(405)),
        refused("ERROR event 400", Answer::Open(vec![error_event(400, "BadRequest")])),
        row("401", Answer::Status(401), Wait, STREAMING, Kind::Unauthorized),
        row("403", Answer::Status(403), Wait, STREAMING, Kind::Forbidden),
        row("404", Answer::Status(404), Wait, STREAMING, Kind::NotFound),
        row("409", Answer::Status(409), Wait, STREAMING, Kind::Server { code: 409 }),
        row("500", Answer::Status(500), Wait, STREAMING, Kind::Server { code: 500 }),
        row("503", Answer::Status(503), Wait, STREAMING, Kind::Server { code: 503 }),
        row("504", Answer::Status(504), Wait, STREAMING, Kind::Server { code: 504 }),
        row("410", Answer::Status(410), Once, STREAMING, Kind::Expired),
        row(
            "504 too large",
            Answer::TooLarge,
            Once,
            STREAMING,
            Kind::VersionTooLarge,
        ),
        row(
            "429",
            Answer::Status(429),
            Wait,
            STREAMING,
            Kind::TooManyRequests { retry_after: None },
        ),
        row(
            "429 after 9 s",
            Answer::RetryAfter(429, 9),
            Secs(9),
            STREAMING,
            throttled(9),
        ),
        row(
            "a page with 404",
            Answer::Page(404),
            Wait,
            STREAMING,
            Kind::NotKubernetes,
        ),
        row(
            "a page with 405",
            Answer::Page(405),
            Wait,
            STREAMING,
            Kind::NotKubernetes,
        ),
        row(
            "a page with 503",
            Answer::Page(503),
            Wait,
            STREAMING,
            Kind::Server { code: 503 },
        ),
        row("HTML", Answer::Html, Wait, STREAMING, Kind::NotKubernetes),
        row("refused", Answer::Refuse, Wait, STREAMING, Kind::Unreachable),
        row("reset", Answer::Break(vec![one()]), Wait, STREAMING, Kind::Unreachable),
        row("no answer", Answer::Never, Secs(30), STREAMING, Kind::NoAnswer),
        row(
            "clean end at once",
            Answer::End(vec![]),
            Wait,
            STREAMING,
            Kind::Protocol,
        ),
        row(
            "clean end half way",
            Answer::End(vec![one()]),
            Wait,
            STREAMING,
            Kind::Protocol,
        ),
        row(
            "ERROR event 410",
            Answer::Open(vec![one(), error_event(410, "Expired")]),
            Once,
            STREAMING,
            Kind::Expired,
        ),
        row(
            "ERROR event too large",
            Answer::Open(vec![too_large_event()]),
            Once,
            STREAMING,
            Kind::VersionTooLarge,
        ),
        row(
            "ERROR event 500",
            Answer::Open(vec![error_event(500, "x")]),
            Wait,
            STREAMING,
            Kind::Server { code: 500 },
        ),
        row(
            "garbage",
            Answer::Open(vec!["<html>".to_owned()]),
            Wait,
            STREAMING,
            Kind::Protocol,
        ),
        row("silence", Answer::Open(vec![one()]), Secs(30), STREAMING, Kind::Silent),
        row(
            "end bookmark without a version",
            Answer::Open(vec![end_bookmark("")]),
            Wait,
            STREAMING,
            Kind::Protocol,
        ),
    ];
    for row in rows {
        let script = Script::new();
        let rig = rig(&script, InformerOptions::default());
        row.check(&script, rig, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn paged_list_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Once, Secs, Wait};
    let throttled = |seconds| Kind::TooManyRequests {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let half = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}"#;
    let rows = [
        row("400", Answer::Status(400), Wait, PAGES, Kind::Refused),
        row("422", Answer::Status(422), Wait, PAGES, Kind::Refused),
        row("501", Answer::Status(501), Wait, PAGES, Kind::Server { code: 501 }),
        row("401", Answer::Status(401), Wait, PAGES, Kind::Unauthorized),
        row("403", Answer::Status(403), Wait, PAGES, Kind::Forbidden),
        row("404", Answer::Status(404), Wait, PAGES, Kind::NotFound),
        row("409", Answer::Status(409), Wait, PAGES, Kind::Server { code: 409 }),
        row("500", Answer::Status(500), Wait, PAGES, Kind::Server { code: 500 }),
        row("503", Answer::Status(503), Wait, PAGES, Kind::Server { code: 503 }),
        row("410", Answer::Status(410), Once, NEWEST, Kind::Expired),
        row("504 too large", Answer::TooLarge, Once, NEWEST, Kind::VersionTooLarge),
        row("504", Answer::Status(504), Wait, PAGES, Kind::Server { code: 504 }),
        row(
            "429",
            Answer::Status(429),
            Wait,
            PAGES,
            Kind::TooManyRequests { retry_after: None },
        ),
        row(
            "429 after 9 s",
            Answer::RetryAfter(429, 9),
            Secs(9),
            PAGES,
            throttled(9),
        ),
        row("429 after 0 s", Answer::RetryAfter(429, 0), Wait, PAGES, throttled(0)),
        row("a page with 410", Answer::Page(410), Wait, PAGES, Kind::NotKubernetes),
        row("HTML", Answer::Html, Wait, PAGES, Kind::NotKubernetes),
        row("refused", Answer::Refuse, Wait, PAGES, Kind::Unreachable),
        row(
            "reset",
            Answer::Break(vec![half.to_owned()]),
            Wait,
            PAGES,
            Kind::Unreachable,
        ),
        row(
            "half a list",
            Answer::Json(half.to_owned()),
            Wait,
            PAGES,
            Kind::Protocol,
        ),
        row("nothing", Answer::Json(String::new()), Wait, PAGES, Kind::Protocol),
        row(
            "no list",
            Answer::Json(r#"{"kind":"Status"}"#.to_owned()),
            Wait,
            PAGES,
            Kind::Protocol,
        ),
        row(
            "silence",
            Answer::Open(vec![half.to_owned()]),
            When::SecsAndWait(90),
            PAGES,
            Kind::Silent,
        ),
    ];
    for row in rows {
        let script = Script::new();
        let rig = rig(&script, paged());
        row.check(&script, rig, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Secs, Wait};
    let throttled = |seconds| Kind::TooManyRequests {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let one = || event("ADDED", &item_json("a", "u", 7));
    let event_429 =
        error_event(429, "TooManyRequests").replace(r#""message""#, r#""details":{"retryAfterSeconds":5},"message""#);
    let rows = [
        row("400", Answer::Status(400), Wait, NEWEST, Kind::Refused),
        row("422", Answer::Status(422), Wait, NEWEST, Kind::Refused),
        row("501", Answer::Status(501), Wait, SAME, Kind::Server { code: 501 }),
        row("401", Answer::Status(401), Wait, SAME, Kind::Unauthorized),
        row("403", Answer::Status(403), Wait, SAME, Kind::Forbidden),
        row("404", Answer::Status(404), Wait, SAME, Kind::NotFound),
        row("409", Answer::Status(409), Wait, SAME, Kind::Server { code: 409 }),
        row("500", Answer::Status(500), Wait, SAME, Kind::Server { code: 500 }),
        row("503", Answer::Status(503), Wait, SAME, Kind::Server { code: 503 }),
        row("504", Answer::Status(504), Wait, SAME, Kind::Server { code: 504 }),
        row("410", Answer::Status(410), Wait, NEWEST, Kind::Expired),
        row("504 too large", Answer::TooLarge, Wait, NEWEST, Kind::VersionTooLarge),
        row(
            "429",
            Answer::Status(429),
            Wait,
            SAME,
            Kind::TooManyRequests { retry_after: None },
        ),
        row("429 after 9 s", Answer::RetryAfter(429, 9), Secs(9), SAME, throttled(9)),
        row("a page with 404", Answer::Page(404), Wait, SAME, Kind::NotKubernetes),
        row("HTML", Answer::Html, Wait, SAME, Kind::NotKubernetes),
        row("refused", Answer::Refuse, Wait, SAME, Kind::Unreachable),
        row("reset", Answer::Break(vec![one()]), Wait, SAME, Kind::Unreachable),
        row(
            "ERROR event 400",
            Answer::Open(vec![error_event(400, "x")]),
            Wait,
            NEWEST,
            Kind::Refused,
        ),
        row(
            "ERROR event 410",
            Answer::Open(vec![one(), error_event(410, "Expired")]),
            Wait,
            NEWEST,
            Kind::Expired,
        ),
        row(
            "ERROR event too large",
            Answer::Open(vec![too_large_event()]),
            Wait,
            NEWEST,
            Kind::VersionTooLarge,
        ),
        row(
            "ERROR event 429",
            Answer::Open(vec![event_429]),
            Secs(5),
            SAME,
            throttled(5),
        ),
        row(
            "ERROR event 403",
            Answer::Open(vec![error_event(403, "x")]),
            Wait,
            SAME,
            Kind::Forbidden,
        ),
        row(
            "ERROR event 500",
            Answer::Open(vec![error_event(500, "x")]),
            Wait,
            SAME,
            Kind::Server { code: 500 },
        ),
        row(
            "garbage",
            Answer::Open(vec!["<html>".to_owned()]),
            Wait,
            SAME,
            Kind::Protocol,
        ),
        row(
            "half a line, then the end of the object",
            Answer::Open(vec![bad("{")]),
            Wait,
            SAME,
            Kind::Protocol,
        ),
        Row {
            name: "clean end at once",
            answer: Answer::End(vec![one()]),
            when: Wait,
            next: SAME,
            told: None,
        },
    ];
    for row in rows {
        let script = Script::new();
        script.json(&list("7", &[]));
        let rig = rig(&script, paged());
        row.check(&script, rig, 1).await;
    }
}

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
            lines.iter().for_each(|line| stream.send(line));
            stream
        };
        let streams = [
            play(&[line.clone()]),
            play(&[event("ADDED", &item_json("a", "u", 8)), line.clone()]),
            play(&[line.clone()]),
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

fn gzip(text: &str) -> Vec<u8> {
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
