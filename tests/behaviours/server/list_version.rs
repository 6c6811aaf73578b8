//! Which state a get or a list shows: `resourceVersion`, `resourceVersionMatch` and `limit` together. [F1]

use serde_json::{Value, json};

use crate::harness::{Answer, Namespace, Server, cases, eventually, version};

/// A namespace with the ConfigMaps `a`, `b` and `c`, and the version of the last of them.
pub(super) async fn three(server: &Server) -> (Namespace, u64) {
    let namespace = server.namespace().await;
    let mut newest = 0;
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name, "labels": {"name": name}}});
        newest = version(&namespace.create("configmaps", &object).await);
    }
    (namespace, newest)
}

/// The names of a list's items, with commas.
#[track_caller]
pub(super) fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let names: Vec<_> = items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().expect("a name"))
        .collect();
    names.join(",")
}

/// A future version, as far away as no other case gets.
pub(super) const FUTURE: u64 = 99_999_999_999;

#[track_caller]
pub(super) fn too_large(answer: &Answer, asked: u64) {
    let details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    });
    answer.is(
        504,
        "Timeout",
        &format!("Timeout: Too large resource version: {asked}, current: …"),
        details,
    );
}

// [F1] every combination that is allowed: what it returns, and whether the limit counts
async fn lists_at_every_allowed_version_and_limit(server: Server) {
    let (namespace, newest) = three(&server).await;
    let list = namespace.at("configmaps");
    // The version 0 takes any state: the real server's may be a moment old.
    eventually("version 0 shows all three", || async {
        (names(&server.get(&format!("{list}?resourceVersion=0")).await.ok()) == "a,b,c").then_some(())
    })
    .await;
    // (query, names, whether the answer is one page of several)
    let table = [
        ("", "a,b,c", false),
        ("limit=0", "a,b,c", false),
        ("limit=-1", "a,b,c", false),
        ("limit=2", "a,b", true),
        ("limit=3", "a,b,c", false),
        ("limit=4", "a,b,c", false),
        ("resourceVersion=&limit=1", "a", true),
        ("resourceVersionMatch=", "a,b,c", false),
        ("resourceVersion=0", "a,b,c", false),
        ("resourceVersion=0&limit=1", "a,b,c", false),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", "a,b,c", false),
        (
            "resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1",
            "a,b,c",
            false,
        ),
        ("resourceVersion={R}", "a,b,c", false),
        ("resourceVersion=0{R}", "a,b,c", false),
        ("resourceVersion={R}&limit=2", "a,b", true),
        ("resourceVersion={R}&resourceVersionMatch=Exact", "a,b,c", false),
        ("resourceVersion={R}&resourceVersionMatch=Exact&limit=2", "a,b", true),
        ("resourceVersion={R}&resourceVersionMatch=NotOlderThan", "a,b,c", false),
        (
            "resourceVersion={R}&resourceVersionMatch=NotOlderThan&limit=2",
            "a,b",
            true,
        ),
        ("unknown=parameter", "a,b,c", false),
    ];
    for (query, expected, paged) in table {
        let query = query.replace("{R}", &newest.to_string());
        let page = server.get(&format!("{list}?{query}")).await.ok();
        assert_eq!(names(&page), expected, "{query}");
        assert_eq!(page["kind"], "ConfigMapList", "{query}");
        assert_eq!(page["apiVersion"], "v1", "{query}");
        assert!(version(&page) >= newest, "{query}: {page}");
        let metadata = page["metadata"].as_object().expect("metadata");
        assert_eq!(metadata.contains_key("continue"), paged, "{query}");
        assert_eq!(metadata.contains_key("remainingItemCount"), paged, "{query}");
        assert!(!metadata.contains_key("selfLink"), "{query}");
        for item in page["items"].as_array().expect("items") {
            assert!(
                item.get("kind").is_none() && item.get("apiVersion").is_none(),
                "{query}: {item}"
            );
        }
    }
}

// [F1] Exact, and a version with a limit, show the state of that version; NotOlderThan shows the newest
async fn exact_lists_show_the_past(server: Server) {
    let namespace = server.namespace().await;
    let list = namespace.at("configmaps");
    let first = version(&namespace.config_map("a").await);
    let second = version(
        &server
            .merge(&namespace.at("configmaps/a"), &json!({"data": {"k": "new"}}))
            .await
            .ok(),
    );
    namespace.config_map("b").await;
    server.delete(&namespace.at("configmaps/a")).await.ok();
    let third = version(&server.get(&list).await.ok());
    for (at, expected) in [(first, "a"), (second, "a"), (third, "b")] {
        for query in [
            format!("resourceVersion={at}&resourceVersionMatch=Exact"),
            format!("resourceVersion={at}&limit=5"),
        ] {
            let page = server.get(&format!("{list}?{query}")).await.ok();
            assert_eq!(names(&page), expected, "{query}");
            assert_eq!(version(&page), at, "{query}");
            assert_eq!(
                page["items"][0]["data"]["k"].as_str(),
                (at == second).then_some("new"),
                "{query}"
            );
        }
        let page = server.get(&format!("{list}?resourceVersion={at}")).await.ok();
        assert_eq!(names(&page), "b", "not older than {at}");
    }
}

// [F1] combinations that are refused, with the text and the causes
async fn refuses_lists_at_forbidden_versions(server: Server) {
    let namespace = server.namespace().await;
    let list = namespace.at("configmaps");
    const FORBIDDEN: &str = "FieldValueForbidden";
    const UNSUPPORTED: &str = "FieldValueNotSupported";
    let unless = (
        FORBIDDEN,
        "resourceVersionMatch",
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    );
    let zero = (
        FORBIDDEN,
        "resourceVersionMatch",
        r#"Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
    );
    let unknown = (
        UNSUPPORTED,
        "resourceVersionMatch",
        r#"Unsupported value: "foo": supported values: "Exact", "NotOlderThan", """#,
    );
    let initial = (
        FORBIDDEN,
        "sendInitialEvents",
        "Forbidden: sendInitialEvents is forbidden for list",
    );
    let table: &[(&str, &[(&str, &str, &str)])] = &[
        ("resourceVersionMatch=Exact", &[unless]),
        ("resourceVersionMatch=NotOlderThan", &[unless]),
        ("resourceVersionMatch=foo", &[unless, unknown]),
        ("resourceVersion=5&resourceVersionMatch=foo", &[unknown]),
        ("resourceVersion=abc&resourceVersionMatch=foo", &[unknown]),
        ("resourceVersion=0&resourceVersionMatch=Exact", &[zero]),
        ("resourceVersion=0&resourceVersionMatch=Exact&limit=2", &[zero]),
        ("sendInitialEvents=true", &[initial]),
        ("sendInitialEvents=false", &[initial]),
        ("sendInitialEvents=maybe", &[initial]),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            &[unless, initial],
        ),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", &[unless, initial]),
    ];
    for (query, causes) in table {
        server
            .get(&format!("{list}?{query}"))
            .await
            .invalid("meta.k8s.io", "ListOptions", "", causes);
    }
}

// [F1] numbers that are none: 400 on a list, 500 without a reason on a get
async fn refuses_versions_and_limits_that_are_no_numbers(server: Server) {
    let (namespace, _) = three(&server).await;
    let bad = [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("0x10", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
    ];
    for (value, problem) in bad {
        let text =
            format!("resourceVersion: Invalid value: {value:?}: strconv.ParseUint: parsing {value:?}: {problem}");
        let list = server
            .get(&namespace.at(&format!("configmaps?resourceVersion={value}")))
            .await;
        list.is(
            400,
            "BadRequest",
            &format!("invalid resource version: {text}"),
            Value::Null,
        );
        let exact = format!("configmaps?resourceVersion={value}&resourceVersionMatch=Exact");
        let exact = server.get(&namespace.at(&exact)).await;
        exact.is(
            400,
            "BadRequest",
            &format!("invalid resource version: {text}"),
            Value::Null,
        );
        let get = server
            .get(&namespace.at(&format!("configmaps/a?resourceVersion={value}")))
            .await;
        get.is(500, "", &text, Value::Null);
    }
    for (query, value, problem) in [
        ("limit=abc", "abc", "invalid syntax"),
        ("limit=9223372036854775808", "9223372036854775808", "value out of range"),
        ("timeoutSeconds=abc", "abc", "invalid syntax"),
    ] {
        let answer = server.get(&namespace.at(&format!("configmaps?{query}"))).await;
        answer.is(
            400,
            "BadRequest",
            &format!("strconv.ParseInt: parsing {value:?}: {problem}"),
            Value::Null,
        );
    }
}

// [F1] a version that does not exist yet: 504 after three seconds, list and get, with the retry hint
async fn answers_a_future_version_with_a_timeout(server: Server) {
    let (namespace, _) = three(&server).await;
    let paths = [
        format!("configmaps?resourceVersion={FUTURE}"),
        format!("configmaps?resourceVersion={FUTURE}&limit=1"),
        format!("configmaps?resourceVersion={FUTURE}&resourceVersionMatch=Exact"),
        format!("configmaps?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan"),
        format!("configmaps/a?resourceVersion={FUTURE}"),
    ];
    let asked = paths.iter().map(|path| {
        let (server, path) = (server.clone(), namespace.at(path));
        async move { server.get(&path).await }
    });
    let start = tokio::time::Instant::now();
    let answers = futures_util::future::join_all(asked).await;
    assert!(
        start.elapsed().as_secs_f64() > 2.8,
        "they wait for the version to come: {:?}",
        start.elapsed()
    );
    for answer in answers {
        too_large(&answer, FUTURE);
    }
    let largest = server
        .get(&namespace.at(&format!("configmaps?resourceVersion={}", u64::MAX)))
        .await;
    too_large(&largest, u64::MAX);
}

// [F1] a read of a version that comes while it waits is answered, not timed out
async fn waits_for_a_version_that_is_about_to_come(server: Server) {
    let namespace = server.namespace().await;
    let next = version(&namespace.config_map("a").await) + 1;
    let path = namespace.at(&format!("configmaps?resourceVersion={next}"));
    let (list, _) = tokio::join!(server.get(&path), namespace.config_map("b"));
    assert!(version(&list.ok()) >= next);
}

// [F1] get: any version up to now shows the newest object; the match and list parameters do not count
async fn gets_ignore_what_only_lists_know(server: Server) {
    let (namespace, newest) = three(&server).await;
    let path = namespace.at("configmaps/a");
    let plain = server.get(&path).await.ok();
    let queries = [
        format!("resourceVersion={newest}"),
        "resourceVersion=1".to_owned(),
        "resourceVersionMatch=foo".to_owned(),
        "resourceVersion=1&resourceVersionMatch=Exact".to_owned(),
        "watch=1".to_owned(),
        "labelSelector=none".to_owned(),
        "fieldSelector=bogus%3D1".to_owned(),
        "limit=abc".to_owned(),
    ];
    for query in queries {
        assert_eq!(server.get(&format!("{path}?{query}")).await.ok(), plain, "{query}");
    }
    eventually("version 0 shows it", || async {
        (server.get(&format!("{path}?resourceVersion=0")).await.code == 200).then_some(())
    })
    .await;
}

// [F1] [F26] lists go by the bytes of `namespace/name`, so the namespace `x-b` comes before `x`
async fn lists_in_the_order_of_the_storage_keys(server: Server) {
    let short = server.namespace().await;
    let long = format!("{}-b", short.name());
    server
        .post("/api/v1/namespaces", &json!({"metadata": {"name": long}}))
        .await
        .created();
    let label = json!({"case": short.name()});
    for (namespace, name) in [
        (short.name(), "z"),
        (short.name(), "a.b"),
        (short.name(), "a-b"),
        (&long, "m"),
    ] {
        let object = json!({"metadata": {"name": name, "labels": label}});
        server
            .post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object)
            .await
            .created();
    }
    let list = server
        .get(&format!("/api/v1/configmaps?labelSelector=case%3D{}", short.name()))
        .await
        .ok();
    assert_eq!(names(&list), "m,a-b,a.b,z");
}

cases![
    lists_at_every_allowed_version_and_limit,
    exact_lists_show_the_past,
    refuses_lists_at_forbidden_versions,
    refuses_versions_and_limits_that_are_no_numbers,
    answers_a_future_version_with_a_timeout,
    waits_for_a_version_that_is_about_to_come,
    gets_ignore_what_only_lists_know,
    lists_in_the_order_of_the_storage_keys,
];
