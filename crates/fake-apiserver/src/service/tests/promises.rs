//! One test for each fault: a client meets exactly what the fault promises. Each compares with what the same request gets without.

use flate2::read::GzDecoder;

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Which test here shows a fault. A fault that is added needs one more.
fn shown_by(fault: &Fault) -> &'static str {
    match fault {
        Fault::Latency(_) => "latency",
        Fault::Status(_) => "status, conflict_storm, failing_page",
        Fault::Refuse => "refuse",
        Fault::LoseResponse => "lose_response",
        Fault::Compact => "compact",
        Fault::EndWatch { .. } => "end_watch",
        Fault::WatchError { .. } => "watch_error",
        Fault::Reset { .. } => "reset",
        Fault::Silence { .. } => "silence",
        Fault::Chunks { .. } => "chunks",
        Fault::Packed => "packed",
        Fault::Page { .. } => "page",
        Fault::WithholdBookmarks | Fault::WithholdInitialEventsEnd => "withhold",
    }
}

/// What a client gets of an answer.
#[derive(Debug, PartialEq)]
struct Got {
    code: u16,
    headers: Vec<(String, String)>,
    frames: Vec<Bytes>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Clean,
    Broken,
    /// Nothing comes for an hour, and the body is open.
    Open,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    fn body(&self) -> Vec<u8> {
        self.frames.concat()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).unwrap()
    }

    /// The events of a watch: type, and name or code.
    fn events(&self) -> Vec<String> {
        let body = self.body();
        let lines = body.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| match serde_json::from_slice::<Value>(line) {
                Ok(event) => {
                    let object = &event["object"];
                    let about = object["metadata"]["name"].as_str().map(str::to_owned);
                    let about = about.unwrap_or_else(|| object["code"].to_string());
                    format!("{} {about}", event["type"].as_str().unwrap())
                }
                Err(_) => "half".to_owned(),
            })
            .collect()
    }
}

async fn get(fake: &FakeApiServer, method: &str, uri: &str, body: Value) -> Result<Got, ServiceError> {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let response = send(fake, method, uri, body).await?;
    let (head, mut body) = response.into_parts();
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let mut got = Got {
        code: head.status.as_u16(),
        headers: headers.collect(),
        frames: Vec::new(),
        end: End::Clean,
    };
    loop {
        match tokio::time::timeout(Duration::from_hours(1), body.frame()).await {
            Ok(Some(Ok(frame))) => got.frames.push(frame.into_data().unwrap()),
            Ok(Some(Err(_))) => got.end = End::Broken,
            Ok(None) => {}
            Err(_) => got.end = End::Open,
        }
        if got.end != End::Clean || http_body::Body::is_end_stream(&body) {
            return Ok(got);
        }
    }
}

/// A server with the config maps `a` and `b`, the rule in force, and what it said was not there before.
async fn with_maps(rule: Rule, fault: &str) -> (FakeApiServer, crate::RuleHandle) {
    assert!(shown_by(&rule.fault().clone()).contains(fault), "the wrong name");
    let fake = FakeApiServer::builder().start_time(1_000_000_000).build().unwrap();
    create(&fake, "a", json!({})).await;
    create(&fake, "b", json!({})).await;
    let rule = fake.inject(rule.times(1));
    (fake, rule)
}

async fn list(fake: &FakeApiServer) -> Got {
    get(fake, "GET", MAPS, Value::Null).await.unwrap()
}

/// A watch from the state, with its end and bookmarks, for two minutes.
async fn watch(fake: &FakeApiServer) -> Got {
    let uri = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
               &timeoutSeconds=100";
    get(fake, "GET", uri, Value::Null).await.unwrap()
}

/// What [`watch`] gets without a fault.
const WHOLE: [&str; 4] = ["ADDED a", "ADDED b", "BOOKMARK null", "BOOKMARK null"];

#[tokio::test(start_paused = true)]
async fn latency_answers_later_and_the_same() {
    // [F22] latency, on the paused clock
    let rule = Rule::new(Fault::Latency(Duration::from_millis(1500))).verb(Verb::List);
    let (fake, rule) = with_maps(rule, "latency").await;
    let start = Instant::now();
    let late = list(&fake).await;
    assert_eq!(start.elapsed().as_millis(), 1500);
    assert_eq!((late, rule.fired()), (list(&fake).await, 1));
    assert_eq!(start.elapsed().as_millis(), 1500, "the next one is not late");
}

#[tokio::test(start_paused = true)]
async fn status_answers_instead_of_the_server_with_no_effect() {
    // [F22] 429 + Retry-After, 5xx
    for (code, reason) in [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let rule = Rule::new(StatusFault::new(code).retry_after(7)).verb(Verb::Delete);
        let (fake, rule) = with_maps(rule, "status").await;
        let before = fake.dump();
        let got = get(&fake, "DELETE", &format!("{MAPS}/a"), Value::Null).await.unwrap();
        assert_eq!(
            (got.code, got.header("retry-after"), got.end),
            (code, Some("7"), End::Clean)
        );
        let status = got.json();
        assert_eq!(
            (
                &status["kind"],
                &status["reason"],
                &status["code"],
                &status["details"]["retryAfterSeconds"]
            ),
            (&json!("Status"), &json!(reason), &json!(code), &json!(7))
        );
        assert_eq!((fake.dump(), rule.fired()), (before, 1));
        let again = get(&fake, "DELETE", &format!("{MAPS}/a"), Value::Null).await.unwrap();
        assert_eq!((again.code, fake.object_count("configmaps")), (200, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_storm_refuses_the_updates_of_one_object_as_often_as_it_says() {
    // [F22] 409 storms
    let fake = FakeApiServer::new();
    for name in ["a", "b"] {
        create(&fake, name, json!({})).await;
    }
    let storm = Rule::new(Fault::status(409))
        .verb(Verb::Update)
        .resource("configmaps")
        .name("a");
    let storm = fake.inject(storm.times(3));
    let (_, mut map) = call(&fake, "GET", &format!("{MAPS}/a"), Value::Null).await;
    map["data"]["k"] = json!("new");
    let before = fake.resource_version();
    // As the server's own conflict, word for word.
    let (_, mut stale) = call(&fake, "GET", &format!("{MAPS}/a"), Value::Null).await;
    stale["metadata"]["resourceVersion"] = json!("1");
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(call(&fake, "PUT", &format!("{MAPS}/a"), map.clone()).await);
        assert_eq!(fake.resource_version(), before);
    }
    let real = call(&fake, "PUT", &format!("{MAPS}/a"), stale).await;
    assert!(told.iter().all(|conflict| *conflict == real), "{told:?} {real:?}");
    assert_eq!(real.0, 409);
    // The storm is over; the other object never met it.
    assert_eq!(call(&fake, "PUT", &format!("{MAPS}/a"), map).await.0, 200);
    let (_, other) = call(&fake, "GET", &format!("{MAPS}/b"), Value::Null).await;
    assert_eq!(call(&fake, "PUT", &format!("{MAPS}/b"), other).await.0, 200);
    assert_eq!(storm.fired(), 3);
}

#[tokio::test(start_paused = true)]
async fn failing_page_is_the_one_that_was_named() {
    // [F22] failing page n
    let (fake, _) = with_maps(
        Rule::new(Fault::status(500)).resource("configmaps").page(2),
        "failing_page",
    )
    .await;
    let (code, first) = call(&fake, "GET", &format!("{MAPS}?limit=1"), Value::Null).await;
    assert_eq!(code, 200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = format!("{MAPS}?limit=1&continue={token}");
    assert_eq!(call(&fake, "GET", &second, Value::Null).await.0, 500);
    let (code, again) = call(&fake, "GET", &second, Value::Null).await;
    assert_eq!((code, &again["items"][0]["metadata"]["name"]), (200, &json!("b")));
}

#[tokio::test(start_paused = true)]
async fn refuse_drops_the_request_before_it_is_committed() {
    // [F22] drop before commit
    let (fake, rule) = with_maps(Rule::new(Fault::Refuse).verb(Verb::Create), "refuse").await;
    let before = (fake.dump(), fake.resource_version());
    let body = json!({"metadata": {"name": "c"}});
    let refused = get(&fake, "POST", MAPS, body.clone()).await;
    assert!(matches!(refused, Err(ServiceError::Refused)));
    assert_eq!(((fake.dump(), fake.resource_version()), rule.fired()), (before, 1));
    assert_eq!(get(&fake, "POST", MAPS, body).await.unwrap().code, 201);
}

#[tokio::test(start_paused = true)]
async fn lose_response_commits_and_drops_the_answer() {
    // [F22] commit, then drop the response
    let (fake, rule) = with_maps(Rule::new(Fault::LoseResponse).verb(Verb::Create), "lose_response").await;
    let body = json!({"metadata": {"name": "c"}});
    let lost = get(&fake, "POST", MAPS, body.clone()).await;
    assert!(matches!(lost, Err(ServiceError::Reset)));
    assert!(fake.object("configmaps", Some("default"), "c").is_some());
    let again = get(&fake, "POST", MAPS, body).await.unwrap();
    assert_eq!(
        (again.code, &again.json()["reason"], rule.fired()),
        (409, &json!("AlreadyExists"), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn compact_forgets_the_past_and_nothing_else() {
    // [F22] compact(rv), by a rule and by hand
    let (fake, rule) = with_maps(Rule::new(Fault::Compact).verb(Verb::Get), "compact").await;
    let (objects, current) = (fake.objects("configmaps"), fake.resource_version());
    let old = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", current - 1);
    assert_eq!(call(&fake, "GET", &old, Value::Null).await.0, 200);
    assert_eq!(call(&fake, "GET", &format!("{MAPS}/a"), Value::Null).await.0, 200);
    assert_eq!((rule.fired(), fake.oldest_resource_version()), (1, current));
    let (code, status) = call(&fake, "GET", &old, Value::Null).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    assert_eq!(
        (fake.objects("configmaps"), fake.resource_version()),
        (objects, current)
    );
    // By hand, up to a version.
    create(&fake, "c", json!({})).await;
    create(&fake, "d", json!({})).await;
    fake.compact(current + 1);
    assert_eq!(fake.oldest_resource_version(), current + 1);
    for (version, code) in [(current, 410), (current + 1, 200)] {
        let exact = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
        assert_eq!(call(&fake, "GET", &exact, Value::Null).await.0, code);
    }
}

#[tokio::test(start_paused = true)]
async fn end_watch_is_a_clean_end_after_so_many_events() {
    // [F22] clean EOF
    for after in 0..=2 {
        let (fake, _) = with_maps(Rule::new(Fault::EndWatch { after }), "end_watch").await;
        let ended = watch(&fake).await;
        assert_eq!((ended.code, ended.end), (200, End::Clean));
        assert_eq!(ended.events(), &WHOLE[..after]);
        let whole = watch(&fake).await;
        assert_eq!(
            (whole.events(), whole.end),
            (WHOLE.map(str::to_owned).to_vec(), End::Clean)
        );
        assert_eq!(whole.frames[..after], ended.frames, "what came is as it always is");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_error_is_an_error_event_and_a_clean_end() {
    // [F22] an ERROR event
    let fault = Fault::WatchError {
        after: 1,
        status: StatusFault::new(410),
    };
    let (fake, _) = with_maps(Rule::new(fault), "watch_error").await;
    let ended = watch(&fake).await;
    assert_eq!((ended.code, ended.end), (200, End::Clean));
    assert_eq!(ended.events(), ["ADDED a", "ERROR 410"]);
}

#[tokio::test(start_paused = true)]
async fn reset_breaks_the_body_where_it_says() {
    // [F22] reset mid-line, and between two lines
    for (cut, rest) in [(Cut::Between, None), (Cut::MidLine, Some("half"))] {
        let (fake, _) = with_maps(Rule::new(Fault::Reset { after: 1, cut }), "reset").await;
        let broken = watch(&fake).await;
        assert_eq!((broken.code, broken.end), (200, End::Broken));
        let expected: Vec<_> = std::iter::once("ADDED a").chain(rest).collect();
        assert_eq!(broken.events(), expected, "{cut:?}");
        let whole = watch(&fake).await.body();
        assert!(whole.starts_with(&broken.body()), "what came is as it always is");
        // Of a list, half of the body.
        let rule = fake.inject(Rule::new(Fault::Reset { after: 0, cut }).verb(Verb::List).times(1));
        let (broken, whole) = (list(&fake).await, list(&fake).await);
        assert_eq!((broken.code, broken.end, rule.fired()), (200, End::Broken, 1));
        let length = if cut == Cut::Between { 0 } else { whole.body().len() / 2 };
        assert_eq!(broken.body(), whole.body()[..length]);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_sends_nothing_more_and_stays_open() {
    // [F22] a connection that goes silent
    let (fake, _) = with_maps(Rule::new(Fault::Silence { after: 1 }), "silence").await;
    let silent = watch(&fake).await;
    assert_eq!(
        (silent.code, silent.events(), silent.end),
        (200, vec!["ADDED a".to_owned()], End::Open)
    );
}

#[tokio::test(start_paused = true)]
async fn chunks_are_of_their_size_and_make_the_same_body() {
    // [F22] chunks cut anywhere
    for size in [1, 7] {
        let (fake, _) = with_maps(Rule::new(Fault::Chunks { size }).verb(Verb::List), "chunks").await;
        let (cut, whole) = (list(&fake).await, list(&fake).await);
        assert_eq!((cut.body(), cut.code, cut.end), (whole.body(), 200, End::Clean));
        let (last, others) = cut.frames.split_last().unwrap();
        assert!(others.iter().all(|chunk| chunk.len() == size) && last.len() <= size);
    }
}

#[tokio::test(start_paused = true)]
async fn packed_is_gzip_of_the_same_body() {
    // [F22] a proxy that packs on its own
    let (fake, _) = with_maps(Rule::new(Fault::Packed).verb(Verb::List), "packed").await;
    let (packed, whole) = (list(&fake).await, list(&fake).await);
    assert_eq!(
        (packed.header("content-encoding"), whole.header("content-encoding")),
        (Some("gzip"), None)
    );
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(&packed.body()[..]), &mut unpacked).unwrap();
    assert_eq!((unpacked, packed.code, packed.end), (whole.body(), 200, End::Clean));
}

#[tokio::test(start_paused = true)]
async fn page_is_what_it_says_and_nothing_happens() {
    // [F22] a proxy's page
    for code in [200, 502] {
        let body = "<html>sorry</html>".to_owned();
        let fault = Fault::Page {
            code,
            body: body.clone(),
        };
        let (fake, _) = with_maps(Rule::new(fault).verb(Verb::Create), "page").await;
        let got = get(&fake, "POST", MAPS, json!({"metadata": {"name": "c"}}))
            .await
            .unwrap();
        assert_eq!(
            (got.code, got.header("content-type")),
            (code, Some("text/html; charset=utf-8"))
        );
        assert_eq!((got.body(), fake.object_count("configmaps")), (body.into_bytes(), 2));
    }
}

#[tokio::test(start_paused = true)]
async fn withhold_leaves_out_the_bookmarks_that_it_names() {
    // [F22] withheld bookmarks
    let end_mark = "k8s.io/initial-events-end";
    let shown = |got: &Got| {
        let body = String::from_utf8(got.body()).unwrap();
        (body.matches("\"BOOKMARK\"").count(), body.contains(end_mark))
    };
    for (fault, expected) in [
        (Fault::WithholdBookmarks, (1, true)),
        (Fault::WithholdInitialEventsEnd, (1, false)),
    ] {
        let (fake, _) = with_maps(Rule::new(fault), "withhold").await;
        let (without, whole) = (watch(&fake).await, watch(&fake).await);
        assert_eq!((shown(&without), shown(&whole)), (expected, (2, true)));
        assert_eq!((&without.frames[..2], without.end), (&whole.frames[..2], End::Clean));
    }
}

#[tokio::test(start_paused = true)]
async fn rule_for_a_key_meets_whatever_is_about_it() {
    // [F22] rules match by client, verb, GVR, key, nth
    let fake = FakeApiServer::new();
    let rule = Rule::new(Fault::status(503))
        .resource("deployments.apps")
        .version("v1")
        .namespace("default")
        .name("x");
    let rule = fake.inject(rule.user_agent("tests/1").skip(1).times(3));
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let body = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }})
    };
    let mut codes = Vec::new();
    // The first is let pass; what has another key or another resource does not count.
    for (method, uri, body) in [
        ("GET", format!("{deployments}/x"), Value::Null),
        ("POST", deployments.to_owned(), body("y")),
        ("POST", MAPS.to_owned(), json!({"metadata": {"name": "x"}})),
        ("POST", deployments.to_owned(), body("x")),
        ("PATCH", format!("{deployments}/x"), json!({})),
        ("GET", deployments.to_owned(), Value::Null),
        ("DELETE", format!("{deployments}/x"), Value::Null),
        ("POST", deployments.to_owned(), body("x")),
    ] {
        codes.push(call(&fake, method, &uri, body).await.0);
    }
    assert_eq!((codes, rule.fired()), (vec![404, 201, 201, 503, 503, 200, 503, 201], 3));
    // In any format: YAML, and protobuf as kubectl sends it.
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\n"
        .as_bytes()
        .to_vec();
    let mut protobuf = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05".to_vec();
    protobuf.extend_from_slice(b"\x0a\x03\x0a\x01m");
    let rule = fake.inject(Rule::new(Fault::status(503)).verb(Verb::Create).name("m"));
    for (content_type, body) in [
        ("application/yaml", yaml),
        ("application/vnd.kubernetes.protobuf", protobuf),
    ] {
        let request = http::Request::post(MAPS).header("content-type", content_type);
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = fake.service().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 503, "{content_type}");
    }
    assert_eq!(rule.fired(), 2);
}
