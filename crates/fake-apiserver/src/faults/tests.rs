//! Tests of the rules: what they match, how they count, and what they do to a body.

use std::future::poll_fn;

use bytes::Bytes;
use http::HeaderMap;

use super::*;
use crate::body::{BodyError, Part, PartKind, Source};

fn request(method: &str, uri: &str) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::USER_AGENT, "tester/1.0 (linux)".parse().unwrap());
    Request::new(method.parse().unwrap(), uri.parse().unwrap(), headers, Bytes::new())
}

fn status_of(plan: &Plan) -> Option<u16> {
    match &plan.refusal {
        Some(Refusal::Status(status)) => Some(status.code),
        _ => None,
    }
}

#[test]
fn rule_fires_only_where_all_its_conditions_hold() {
    // [F22]
    let faults = Faults::seeded(0);
    let rule = Rule::new(Fault::status(503))
        .verb(Verb::Get)
        .resource("deployments.apps")
        .version("v1")
        .namespace("a")
        .name("b")
        .subresource("status")
        .user_agent("tester/");
    let handle = faults.add(rule);
    let fires = [("GET", "/apis/apps/v1/namespaces/a/deployments/b/status", true)];
    let passes = [
        ("PUT", "/apis/apps/v1/namespaces/a/deployments/b/status", false),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b", false),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/c/status", false),
        ("GET", "/apis/apps/v1/namespaces/c/deployments/b/status", false),
        ("GET", "/apis/apps/v1beta1/namespaces/a/deployments/b/status", false),
        ("GET", "/api/v1/namespaces/a/pods/b/status", false),
        ("GET", "/version", false),
    ];
    for (method, uri, fires) in fires.into_iter().chain(passes) {
        assert_eq!(
            status_of(&faults.plan(&request(method, uri))),
            fires.then_some(503),
            "{method} {uri}"
        );
    }
    assert_eq!(handle.fired(), 1);
}

#[test]
fn rule_skips_then_fires_the_given_times() {
    // [F22] nth request
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::status(429)).skip(1).times(2));
    let codes: Vec<_> = (0..5)
        .map(|_| status_of(&faults.plan(&request("GET", "/api/v1/pods"))))
        .collect();
    assert_eq!(codes, [None, Some(429), Some(429), None, None]);
    assert_eq!(handle.fired(), 2);
}

#[test]
fn removed_rule_fires_no_more() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::Refuse));
    assert!(matches!(
        faults.plan(&request("GET", "/version")).refusal,
        Some(Refusal::Connection)
    ));
    handle.remove();
    assert!(faults.plan(&request("GET", "/version")).refusal.is_none());
    assert_eq!(handle.fired(), 1);
}

#[test]
fn rules_apply_in_order_up_to_the_first_that_answers() {
    let faults = Faults::seeded(0);
    let first = faults.add(Rule::new(Fault::Latency(Duration::from_secs(1))));
    let second = faults.add(Rule::new(Fault::status(500)));
    let third = faults.add(Rule::new(Fault::Latency(Duration::from_secs(5))));
    let plan = faults.plan(&request("GET", "/api/v1/pods"));
    assert_eq!((plan.latency, status_of(&plan)), (Duration::from_secs(1), Some(500)));
    assert_eq!((first.fired(), second.fired(), third.fired()), (1, 1, 0));
}

#[test]
fn page_rule_fails_only_that_page() {
    // [F22] failing page n
    let faults = Faults::seeded(0);
    faults.add(Rule::new(Fault::status(500)).resource("pods").page(2));
    let list = |query: &str| status_of(&faults.plan(&request("GET", &format!("/api/v1/pods?limit=1{query}"))));
    assert_eq!(list(""), None);
    assert_eq!(list("&continue=x"), Some(500));
    assert_eq!(list("&continue=y"), None);
    assert_eq!(list(""), None);
    assert_eq!(list("&continue=x"), Some(500));
}

#[test]
fn same_seed_draws_the_same_requests() {
    // [F22] the same seed gives the same run.
    let run = |seed| -> Vec<bool> {
        let faults = Faults::seeded(seed);
        faults.add(Rule::new(Fault::Refuse).chance(0.5));
        (0..64)
            .map(|_| faults.plan(&request("GET", "/api/v1/pods")).refusal.is_some())
            .collect()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let fired = run(3).into_iter().filter(|fired| *fired).count();
    assert!((16..48).contains(&fired), "{fired} of 64");
}

#[test]
fn status_fault_carries_reason_text_and_retry_after() {
    let faults = Faults::seeded(0);
    faults.add(Rule::new(StatusFault::new(429).retry_after(7)).times(1));
    let plan = faults.plan(&request("GET", "/api/v1/pods"));
    let Some(Refusal::Status(status)) = plan.refusal else {
        panic!()
    };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.retry_after_seconds(), Some(7));

    faults.add(Rule::new(Fault::status(403)).times(1));
    let plan = faults.plan(&request("GET", "/apis/apps/v1/namespaces/a/deployments"));
    let Some(Refusal::Status(status)) = plan.refusal else {
        panic!()
    };
    assert_eq!(status.reason, "Forbidden");
    assert_eq!(
        status.message,
        "deployments.apps is forbidden: User \"system:anonymous\" cannot list resource \"deployments\" in API group \
         \"apps\" in the namespace \"a\""
    );
}

#[tokio::test]
async fn wait_fired_resolves_when_the_rule_has_fired() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::Compact));
    tokio::join!(handle.wait_fired(2), async {
        faults.plan(&request("GET", "/version"));
        tokio::task::yield_now().await;
        faults.plan(&request("GET", "/version"));
    });
    assert_eq!(handle.fired(), 2);
}

/// A watch that delivers these parts, then stays silent.
struct Script(std::vec::IntoIter<Part>);

impl Source for Script {
    fn poll_part(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Result<Part, BodyError>>> {
        // Silent for ever after the last part; the tests never wait for it.
        self.0
            .next()
            .map_or(std::task::Poll::Pending, |part| std::task::Poll::Ready(Some(Ok(part))))
    }
}

/// What a client reads of `event1`, a bookmark, `event2`, the initial-events end, `event3` under a fault:
/// the lines, then how the body ended.
async fn read_under(fault: Fault) -> (Vec<String>, &'static str) {
    read_under_all(vec![fault]).await
}

/// As [`read_under`], under several faults.
async fn read_under_all(all: Vec<Fault>) -> (Vec<String>, &'static str) {
    let faults = Faults::seeded(0);
    for fault in all {
        faults.add(Rule::new(fault));
    }
    let plan = faults.plan(&request("GET", "/api/v1/pods?watch=1"));
    let part = |text: &str, kind| Part {
        bytes: Bytes::copy_from_slice(format!("{text}\n").as_bytes()),
        kind,
    };
    let script = vec![
        part("event1", PartKind::Event),
        part("bookmark", PartKind::Bookmark),
        part("event2", PartKind::Event),
        part("end", PartKind::InitialEventsEnd),
        part("event3", PartKind::Event),
    ];
    let mut source = FaultySource::new(Box::new(Script(script.into_iter())), plan.body);
    let mut lines = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            next = poll_fn(|cx| source.poll_part(cx)) => next,
            () = async { tokio::task::yield_now().await; tokio::task::yield_now().await } => return (lines, "open"),
        };
        match next {
            Some(Ok(part)) => lines.push(String::from_utf8(part.bytes.to_vec()).unwrap()),
            Some(Err(_)) => return (lines, "reset"),
            None => return (lines, "end"),
        }
    }
}

#[tokio::test]
async fn end_watch_ends_cleanly_after_the_given_events() {
    // [F22] clean EOF right after open, or after n events; bookmarks do not count.
    assert_eq!(read_under(Fault::EndWatch { after: 0 }).await, (vec![], "end"));
    let (lines, end) = read_under(Fault::EndWatch { after: 2 }).await;
    assert_eq!(
        (lines, end),
        (
            ["event1\n", "bookmark\n", "event2\n"].map(str::to_owned).to_vec(),
            "end"
        )
    );
}

#[tokio::test]
async fn watch_error_sends_an_error_event_and_ends() {
    // [F22] ERROR event in a watch
    let (lines, end) = read_under(Fault::WatchError {
        after: 1,
        status: StatusFault::new(410),
    })
    .await;
    assert_eq!((lines.len(), end), (2, "end"));
    let event: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        (&event["object"]["code"], &event["object"]["reason"]),
        (&410.into(), &"Expired".into())
    );
}

#[tokio::test]
async fn reset_breaks_between_lines_or_inside_one() {
    // [F22] connection reset, possibly mid-line
    let (lines, end) = read_under(Fault::Reset {
        after: 1,
        cut: Cut::Between,
    })
    .await;
    assert_eq!((lines, end), (vec!["event1\n".to_owned()], "reset"));
    let (lines, end) = read_under(Fault::Reset {
        after: 0,
        cut: Cut::MidLine,
    })
    .await;
    assert_eq!((lines, end), (vec!["eve".to_owned()], "reset"));
}

#[tokio::test]
async fn withheld_bookmarks_leave_all_else() {
    // [F22] withheld bookmarks, and the one that ends the initial events
    let (lines, end) = read_under(Fault::WithholdBookmarks).await;
    assert_eq!(
        (lines.join(""), end),
        ("event1\nevent2\nend\nevent3\n".to_owned(), "open")
    );
    let (lines, end) = read_under(Fault::WithholdInitialEventsEnd).await;
    assert_eq!(
        (lines.join(""), end),
        ("event1\nbookmark\nevent2\nevent3\n".to_owned(), "open")
    );
}

#[tokio::test]
async fn silence_delivers_nothing_more_and_stays_open() {
    // [F22] a connection that goes silent without closing
    let (lines, end) = read_under(Fault::Silence { after: 1 }).await;
    assert_eq!((lines, end), (vec!["event1\n".to_owned()], "open"));
}

#[tokio::test]
async fn chunks_cut_wherever_they_fall() {
    // [F22] chunk boundaries at every byte
    let part = Part {
        bytes: Bytes::from_static("aü\n".as_bytes()),
        kind: PartKind::Event,
    };
    let mut source = Chunked::new(Box::new(Script(vec![part.clone(), part].into_iter())), 3);
    let mut chunks = Vec::new();
    for _ in 0..4 {
        chunks.push(poll_fn(|cx| source.poll_part(cx)).await.unwrap().unwrap().bytes);
    }
    assert_eq!(chunks, [&b"a\xc3\xbc"[..], b"\n", b"a\xc3\xbc", b"\n"]);
}

#[test]
fn page_answers_instead_of_the_server() {
    // [F22] a proxy's page
    let faults = Faults::seeded(0);
    let body = "<html></html>".to_owned();
    faults.add(Rule::new(Fault::Page { code: 404, body }));
    let plan = faults.plan(&request("GET", "/api/v1/pods"));
    assert!(matches!(plan.refusal, Some(Refusal::Page { code: 404, .. })));
}

#[test]
fn watch_faults_do_not_meet_lists() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::EndWatch { after: 0 }).resource("pods"));
    assert!(faults.plan(&request("GET", "/api/v1/pods")).body.is_empty());
    assert_eq!(handle.fired(), 0);
    assert_eq!(faults.plan(&request("GET", "/api/v1/pods?watch=true")).body.len(), 1);
}

#[test]
fn lost_answer_ends_the_asking() {
    // [F22] the request takes effect: no later rule answers in place of the server
    let faults = Faults::seeded(0);
    faults.add(Rule::new(Fault::LoseResponse));
    let later = faults.add(Rule::new(Fault::status(500)));
    let plan = faults.plan(&request("POST", "/api/v1/namespaces/default/pods"));
    assert!(plan.lose_response && plan.refusal.is_none());
    assert_eq!(later.fired(), 0);
}

#[test]
fn latencies_add_up_and_never_overflow() {
    let faults = Faults::seeded(0);
    for _ in 0..2 {
        faults.add(Rule::new(Fault::Latency(Duration::MAX)));
    }
    assert_eq!(faults.plan(&request("GET", "/version")).latency, Duration::MAX);
}

#[test]
fn skip_times_and_page_count_what_the_rule_matches() {
    // [F22] the second and third time that page two is asked for
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::status(500)).resource("pods").page(2).skip(1).times(2));
    let list = |query: &str| status_of(&faults.plan(&request("GET", &format!("/api/v1/pods?limit=1{query}"))));
    let second_pages: Vec<_> = (0..4)
        .map(|_| {
            assert_eq!(list(""), None);
            // A request that the rule does not match is no page.
            faults.plan(&request("GET", "/api/v1/configmaps?limit=1&continue=x"));
            list("&continue=x")
        })
        .collect();
    assert_eq!(second_pages, [None, Some(500), Some(500), None]);
    assert_eq!(handle.fired(), 2);
}

#[test]
fn chance_counts_only_what_fires_against_times() {
    let faults = Faults::seeded(7);
    let handle = faults.add(Rule::new(Fault::Refuse).chance(0.5).times(3));
    let fired = (0..64)
        .filter(|_| faults.plan(&request("GET", "/version")).refusal.is_some())
        .count();
    assert_eq!((fired, handle.fired()), (3, 3));
    for chance in [0.0, f64::NAN] {
        let never = faults.add(Rule::new(Fault::Refuse).chance(chance));
        faults.plan(&request("GET", "/version"));
        assert_eq!(never.fired(), 0);
    }
}

#[tokio::test]
#[should_panic(expected = "the rule was removed when it had fired 1 times, not 2")]
async fn wait_fired_fails_when_the_rule_is_removed_meanwhile() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::Compact));
    tokio::join!(handle.wait_fired(2), async {
        faults.plan(&request("GET", "/version"));
        tokio::task::yield_now().await;
        faults.clear();
    });
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "the rule has fired 0 times and not again within 600s, 1 are awaited: was anything asked that it matches"
)]
async fn wait_fired_fails_for_a_rule_that_nothing_meets() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::Compact).resource("deployments"));
    // Somebody who never rests, so that time passes in steps.
    tokio::join!(handle.wait_fired(1), async {
        loop {
            faults.plan(&request("GET", "/apis/apps/v1/namespaces/a/deployments"));
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    });
}

#[tokio::test]
#[should_panic(expected = "the rule fires at most 1 times, not 2")]
async fn wait_fired_fails_for_more_than_the_rule_may_fire() {
    Faults::seeded(0)
        .add(Rule::new(Fault::Compact).times(1))
        .wait_fired(2)
        .await;
}

#[tokio::test]
async fn wait_fired_is_content_with_a_removed_rule_that_has_fired() {
    let faults = Faults::seeded(0);
    let handle = faults.add(Rule::new(Fault::Compact));
    faults.plan(&request("GET", "/version"));
    handle.remove();
    handle.wait_fired(1).await;
}

#[test]
#[should_panic(expected = "200 is not the code of an error")]
fn status_fault_is_an_error() {
    let _ = StatusFault::new(200);
}

#[tokio::test]
async fn first_due_end_of_a_body_wins_and_of_equals_the_first_injected() {
    // [F22] several rules for one watch
    let reset = |after, cut| Fault::Reset { after, cut };
    for (faults, lines, end) in [
        (
            vec![Fault::EndWatch { after: 2 }, reset(1, Cut::Between)],
            vec!["event1\n"],
            "reset",
        ),
        (
            vec![reset(1, Cut::MidLine), Fault::EndWatch { after: 1 }],
            vec!["event1\n", "book"],
            "reset",
        ),
        (
            vec![Fault::EndWatch { after: 1 }, reset(1, Cut::MidLine)],
            vec!["event1\n"],
            "end",
        ),
        (
            vec![Fault::WithholdBookmarks, reset(1, Cut::MidLine)],
            vec!["event1\n", "eve"],
            "reset",
        ),
    ] {
        let shown = format!("{faults:?}");
        let lines = lines.into_iter().map(str::to_owned).collect();
        assert_eq!(read_under_all(faults).await, (lines, end), "{shown}");
    }
}
