//! The table of `recovery`, row by row: what a server's answer leads to, in each state. A row that fails is named.

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
pub(super) const NEWEST: &str = "list limit=500";
pub(super) const SAME: &str = "resourceVersion=7";

/// Each row twice: with a list that is decoded as one, and with one whose pieces are shared out.
fn with_both(
    rows: &[Row],
    options: fn() -> InformerOptions<Item>,
) -> impl Iterator<Item = (&Row, InformerOptions<Item>)> {
    rows.iter()
        .flat_map(move |row| [(row, options()), (row, in_pieces(options()))])
}

impl Answer {
    fn play(&self, script: &Script) -> Option<Stream> {
        let send = |lines: &[String]| {
            let stream = script.stream();
            for line in lines {
                stream.send(line);
            }
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

pub(super) fn too_large_event() -> String {
    error_event(504, "Timeout").replace("text", "Too large resource version: 70, current: 9")
}

/// What leads, in every state, to the same request after a wait, and only to that.
fn common(next: &'static str) -> Vec<Row> {
    use WatchErrorKind as Kind;
    use When::{Secs, Wait};
    let server = |code| Kind::Server { code };
    vec![
        row("401", Answer::Status(401), Wait, next, Kind::Unauthorized),
        row("403", Answer::Status(403), Wait, next, Kind::Forbidden),
        row("404", Answer::Status(404), Wait, next, Kind::NotFound),
        row("409", Answer::Status(409), Wait, next, server(409)),
        row("500", Answer::Status(500), Wait, next, server(500)),
        row("503", Answer::Status(503), Wait, next, server(503)),
        row("504", Answer::Status(504), Wait, next, server(504)),
        row("429", Answer::Status(429), Wait, next, throttled(None)),
        row(
            "429, 9 s",
            Answer::RetryAfter(429, 9),
            Secs(9),
            next,
            throttled(Some(9)),
        ),
        row("429, 0 s", Answer::RetryAfter(429, 0), Wait, next, throttled(Some(0))),
        row("page, 400", Answer::Page(400), Wait, next, Kind::NotKubernetes),
        row("page, 404", Answer::Page(404), Wait, next, Kind::NotKubernetes),
        row("page, 405", Answer::Page(405), Wait, next, Kind::NotKubernetes),
        row("page, 410", Answer::Page(410), Wait, next, Kind::NotKubernetes),
        row("page, 503", Answer::Page(503), Wait, next, server(503)),
        row("page, 200", Answer::Html, Wait, next, Kind::NotKubernetes),
        row("refused", Answer::Refuse, Wait, next, Kind::Unreachable),
        row("garbage", open(&["<html>"]), Wait, next, Kind::Protocol),
    ]
}

fn throttled(seconds: Option<u64>) -> WatchErrorKind {
    let retry_after = seconds.map(Duration::from_secs);
    WatchErrorKind::TooManyRequests { retry_after }
}

fn open(lines: &[&str]) -> Answer {
    Answer::Open(lines.iter().map(|line| (*line).to_owned()).collect())
}

fn error(code: u16) -> Answer {
    open(&[&error_event(code, "x")])
}

#[tokio::test(start_paused = true)]
async fn streaming_list_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Once, Secs, Wait};
    let one = &event("ADDED", &item_json("a", "u", 1));
    let pages = |name, answer| Row {
        name,
        answer,
        when: Once,
        next: PAGES,
        told: None,
    };
    let next = STREAMING;
    let mut rows = common(next);
    rows.extend([
        pages("400", Answer::Status(400)),
        pages("422", Answer::Status(422)),
        pages("501", Answer::Status(501)),
        pages("405", Answer::Status(405)),
        pages("ERROR 400", error(400)),
        row("410", Answer::Status(410), Once, next, Kind::Expired),
        row("504 too large", Answer::TooLarge, Once, next, Kind::VersionTooLarge),
        row("reset", Answer::Break(vec![one.clone()]), Wait, next, Kind::Unreachable),
        row("no answer", Answer::Never, Secs(30), next, Kind::NoAnswer),
        row("end at once", Answer::End(vec![]), Wait, next, Kind::Protocol),
        row(
            "end half way",
            Answer::End(vec![one.clone()]),
            Wait,
            next,
            Kind::Protocol,
        ),
        row(
            "ERROR 410",
            open(&[one, &error_event(410, "Expired")]),
            Once,
            next,
            Kind::Expired,
        ),
        row(
            "ERROR too large",
            open(&[&too_large_event()]),
            Once,
            next,
            Kind::VersionTooLarge,
        ),
        row("ERROR 500", error(500), Wait, next, Kind::Server { code: 500 }),
        row("silence", open(&[one]), Secs(30), next, Kind::Silent),
        row(
            "end bookmark without a version",
            open(&[&end_bookmark("")]),
            Wait,
            next,
            Kind::Protocol,
        ),
    ]);
    for (row, options) in with_both(&rows, InformerOptions::default) {
        let script = Script::new();
        let rig = rig(&script, options);
        row.check(&script, rig, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn paged_list_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Once, SecsAndWait, Wait};
    let half = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}"#;
    let json = |body: &str| Answer::Json(body.to_owned());
    let next = PAGES;
    let mut rows = common(next);
    rows.extend([
        row("400", Answer::Status(400), Wait, next, Kind::Refused),
        row("422", Answer::Status(422), Wait, next, Kind::Refused),
        row("501", Answer::Status(501), Wait, next, Kind::Server { code: 501 }),
        row("410", Answer::Status(410), Once, NEWEST, Kind::Expired),
        row("504 too large", Answer::TooLarge, Once, NEWEST, Kind::VersionTooLarge),
        row(
            "reset",
            Answer::Break(vec![half.to_owned()]),
            Wait,
            next,
            Kind::Unreachable,
        ),
        row("half a list", json(half), Wait, next, Kind::Protocol),
        row("nothing", json(""), Wait, next, Kind::Protocol),
        row("no list", json(r#"{"kind":"Status"}"#), Wait, next, Kind::Protocol),
        row("silence", open(&[half]), SecsAndWait(90), next, Kind::Silent),
    ]);
    for (row, options) in with_both(&rows, paged) {
        let script = Script::new();
        let rig = rig(&script, options);
        row.check(&script, rig, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_goes_on_as_the_table_says() {
    use WatchErrorKind as Kind;
    use When::{Secs, Wait};
    let one = &event("ADDED", &item_json("a", "u", 7));
    let details = r#""details":{"retryAfterSeconds":5},"message""#;
    let error_429 = error_event(429, "TooManyRequests").replace(r#""message""#, details);
    let next = SAME;
    let mut rows = common(next);
    rows.extend([
        row("400", Answer::Status(400), Wait, NEWEST, Kind::Refused),
        row("422", Answer::Status(422), Wait, NEWEST, Kind::Refused),
        row("501", Answer::Status(501), Wait, next, Kind::Server { code: 501 }),
        row("410", Answer::Status(410), Wait, NEWEST, Kind::Expired),
        row("504 too large", Answer::TooLarge, Wait, NEWEST, Kind::VersionTooLarge),
        row("reset", Answer::Break(vec![one.clone()]), Wait, next, Kind::Unreachable),
        row("ERROR 400", error(400), Wait, NEWEST, Kind::Refused),
        row(
            "ERROR 410",
            open(&[one, &error_event(410, "Expired")]),
            Wait,
            NEWEST,
            Kind::Expired,
        ),
        row(
            "ERROR too large",
            open(&[&too_large_event()]),
            Wait,
            NEWEST,
            Kind::VersionTooLarge,
        ),
        row("ERROR 429", open(&[&error_429]), Secs(5), next, throttled(Some(5))),
        row("ERROR 403", error(403), Wait, next, Kind::Forbidden),
        row("ERROR 500", error(500), Wait, next, Kind::Server { code: 500 }),
        row(
            "half an object",
            open(&[&event("ADDED", "{")]),
            Wait,
            next,
            Kind::Protocol,
        ),
        Row {
            name: "end at once",
            answer: Answer::End(vec![one.clone()]),
            when: Wait,
            next,
            told: None,
        },
    ]);
    for row in rows {
        let script = Script::new();
        script.json(&list("7", &[]));
        let rig = rig(&script, paged());
        row.check(&script, rig, 1).await;
    }
}
