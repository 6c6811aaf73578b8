//! Tests of faults as a client sees them on a socket, in the bytes of HTTP.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{Cut, FakeApiServer, Fault, Rule, StatusFault, Verb};

/// Serves a server of its own; gives its address.
async fn serve(fake: &FakeApiServer) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let fake = fake.clone();
    // Ends with the runtime of the test.
    tokio::spawn(async move { fake.serve(listener, std::future::pending()).await });
    address
}

/// Everything that the server sends for one request until it closes the connection.
async fn exchange(fake: &FakeApiServer, request_line: &str, body: &str) -> String {
    let mut connection = TcpStream::connect(serve(fake).await).await.unwrap();
    let request = format!(
        "{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: \
         {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    // A reset is an end, too: what counts is what came before.
    let _ = connection.read_to_end(&mut received).await;
    String::from_utf8(received).unwrap()
}

/// What ends a body that is whole.
const WHOLE: &str = "0\r\n\r\n";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn with_maps() -> FakeApiServer {
    let mut builder = FakeApiServer::builder();
    for name in ["a", "b"] {
        let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
        builder = builder.object(&map).unwrap();
    }
    builder.build().unwrap()
}

#[tokio::test]
async fn refused_and_lost_requests_get_no_byte() {
    // [F22] drop before the commit; commit, then drop the response
    let fake = with_maps();
    let rule = fake.inject(Rule::new(Fault::Refuse).verb(Verb::Create).times(1));
    let create = format!("POST {CONFIG_MAPS}");
    assert_eq!(exchange(&fake, &create, r#"{"metadata":{"name":"c"}}"#).await, "");
    assert_eq!((rule.fired(), fake.object_count("configmaps")), (1, 2));
    fake.inject(Rule::new(Fault::LoseResponse).verb(Verb::Create));
    assert_eq!(exchange(&fake, &create, r#"{"metadata":{"name":"c"}}"#).await, "");
    assert_eq!(fake.object_count("configmaps"), 3);
}

#[tokio::test]
async fn status_fault_is_a_whole_answer() {
    // [F22] 429 with Retry-After
    let fake = with_maps();
    fake.inject(Rule::new(StatusFault::new(429).retry_after(7)));
    let answer = exchange(&fake, &format!("GET {CONFIG_MAPS}"), "").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    assert!(head.contains("\r\nretry-after: 7\r\n"), "{head}");
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&status["reason"], &status["details"]["retryAfterSeconds"]),
        (&"TooManyRequests".into(), &7.into())
    );
}

#[tokio::test]
async fn reset_leaves_the_body_unfinished() {
    // [F22] connection reset, possibly mid-line
    let fake = with_maps();
    let whole = exchange(&fake, &format!("GET {CONFIG_MAPS}"), "").await;
    assert!(whole.contains(r#""name":"b""#));
    let rule = fake.inject(
        Rule::new(Fault::Reset {
            after: 0,
            cut: Cut::MidLine,
        })
        .verb(Verb::List),
    );
    let cut = exchange(&fake, &format!("GET {CONFIG_MAPS}"), "").await;
    assert!(
        cut.starts_with("HTTP/1.1 200 ") && cut.contains(r#"{"kind":"ConfigMapList""#),
        "{cut}"
    );
    assert!(!cut.contains(r#""name":"b""#) && !cut.ends_with(WHOLE), "{cut}");
    rule.remove();
    assert_eq!(
        exchange(&fake, &format!("GET {CONFIG_MAPS}"), "").await.len(),
        whole.len()
    );
}

#[tokio::test]
async fn watch_faults_end_the_watch_as_they_say() {
    // [F22] clean EOF after the initial events, an ERROR event, a reset between two events
    let fake = with_maps();
    let watch = format!(
        "GET {CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    for (fault, events, last, is_whole) in [
        (Fault::EndWatch { after: 2 }, 2, r#""name":"b""#, true),
        (
            Fault::WatchError {
                after: 1,
                status: StatusFault::new(410),
            },
            1,
            r#""reason":"Expired""#,
            true,
        ),
        (
            Fault::Reset {
                after: 1,
                cut: Cut::Between,
            },
            1,
            r#""name":"a""#,
            false,
        ),
    ] {
        let shown = format!("{fault:?}");
        let rule = fake.inject(Rule::new(fault).verb(Verb::Watch));
        let answer = exchange(&fake, &watch, "").await;
        assert_eq!(answer.matches(r#""type":"ADDED""#).count(), events, "{shown}: {answer}");
        assert!(
            answer.contains(last) && !answer.contains("BOOKMARK"),
            "{shown}: {answer}"
        );
        assert_eq!(answer.ends_with(WHOLE), is_whole, "{shown}: {answer}");
        rule.remove();
    }
    // Withheld, the end of the initial events does not come; the watch itself goes on until its own end.
    fake.inject(Rule::new(Fault::WithholdInitialEventsEnd));
    let answer = exchange(&fake, &format!("{watch}&timeoutSeconds=1"), "").await;
    assert!(
        answer.contains(r#""name":"b""#) && !answer.contains("initial-events-end"),
        "{answer}"
    );
    assert!(answer.ends_with(WHOLE), "{answer}");
}

#[tokio::test]
async fn watch_that_the_server_refuses_stays_as_it_is() {
    // [F22] faults of watches are for watches that are open
    let fake = with_maps();
    fake.inject(Rule::new(Fault::WatchError {
        after: 0,
        status: StatusFault::new(410),
    }));
    fake.inject(Rule::new(Fault::EndWatch { after: 0 }));
    let answer = exchange(&fake, &format!("GET {CONFIG_MAPS}?watch=1&labelSelector=%2C"), "").await;
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains(r#""reason":"BadRequest""#),
        "{answer}"
    );
}
