//! Pages of a list: `limit` and `continue`. [F2]

use serde_json::{Value, json};

use super::list_version::{FUTURE, names, three, too_large};
use crate::harness::{Server, cases, version};

/// The query that fetches the page behind this one.
fn next(page: &Value) -> String {
    format!(
        "continue={}",
        page["metadata"]["continue"]
            .as_str()
            .unwrap_or_else(|| panic!("no next page: {page}"))
    )
}

/// A token as the server makes them: unpadded URL-safe base64 of JSON.
fn token(version: i64, start: &str) -> String {
    encode(
        json!({"v": "meta.k8s.io/v1", "rv": version, "start": start})
            .to_string()
            .as_bytes(),
    )
}

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

// [F2] the pages together are the list of the first page's version, whatever is written meanwhile
async fn all_pages_show_the_version_of_the_first(server: Server) {
    let (namespace, _) = three(&server).await;
    let list = namespace.at("configmaps");
    let first = server.get(&format!("{list}?limit=1")).await.ok();
    assert_eq!(names(&first), "a");
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    namespace.config_map("b2").await;
    server.delete(&namespace.at("configmaps/c")).await.ok();
    server
        .merge(&namespace.at("configmaps/b"), &json!({"data": {"k": "new"}}))
        .await
        .ok();
    let second = server.get(&format!("{list}?limit=1&{}", next(&first))).await.ok();
    assert_eq!(names(&second), "b");
    assert!(
        second["items"][0].get("data").is_none(),
        "the change came after the first page"
    );
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(version(&second), version(&first));
    let third = server.get(&format!("{list}?limit=1&{}", next(&second))).await.ok();
    assert_eq!(names(&third), "c");
    assert_eq!(
        third["metadata"],
        json!({"resourceVersion": first["metadata"]["resourceVersion"]})
    );
    // A token may be used again, and without a limit brings the rest.
    let rest = server.get(&format!("{list}?{}", next(&first))).await.ok();
    assert_eq!(names(&rest), "b,c");
    assert_eq!(version(&rest), version(&first));
}

// [F2] with a selector there is no remaining count, and the pages hold what matches
async fn pages_with_a_selector_tell_no_remaining_count(server: Server) {
    let (namespace, _) = three(&server).await;
    let list = namespace.at("configmaps");
    for (selector, first_names, rest_names) in [
        ("labelSelector=name%20in%20(a,c)", "a", "c"),
        ("fieldSelector=metadata.name!%3Da", "b", "c"),
    ] {
        let first = server.get(&format!("{list}?limit=1&{selector}")).await.ok();
        assert_eq!(names(&first), first_names, "{selector}");
        assert!(
            first["metadata"].get("remainingItemCount").is_none(),
            "{selector}: {first}"
        );
        let rest = server
            .get(&format!("{list}?limit=1&{selector}&{}", next(&first)))
            .await
            .ok();
        assert_eq!(names(&rest), rest_names, "{selector}");
        assert_eq!(version(&rest), version(&first), "{selector}");
    }
}

// [F2] pages over all namespaces continue in the right one
async fn pages_cross_namespaces(server: Server) {
    let short = server.namespace().await;
    let long = format!("{}-b", short.name());
    server
        .post("/api/v1/namespaces", &json!({"metadata": {"name": long}}))
        .await
        .created();
    let mut expected = Vec::new();
    for (namespace, name) in [
        (long.as_str(), "a"),
        (&long, "b"),
        (short.name(), "a"),
        (short.name(), "c"),
    ] {
        let object = json!({"metadata": {"name": name, "labels": {"case": short.name()}}});
        server
            .post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object)
            .await
            .created();
        expected.push(format!("{namespace}/{name}"));
    }
    let (mut found, mut query) = (Vec::new(), String::new());
    loop {
        let path = format!(
            "/api/v1/configmaps?limit=1&labelSelector=case%3D{}&{query}",
            short.name()
        );
        let page = server.get(&path).await.ok();
        for item in page["items"].as_array().expect("items") {
            let part = |key: &str| item["metadata"][key].as_str().expect("a string").to_owned();
            found.push(format!("{}/{}", part("namespace"), part("name")));
        }
        if page["metadata"].get("continue").is_none() {
            break;
        }
        query = next(&page);
    }
    assert_eq!(found, expected);
}

// [F2] continue and versions: 0 brings all the rest, any other is refused, and so is any match
async fn continuing_allows_no_version(server: Server) {
    let (namespace, newest) = three(&server).await;
    let list = namespace.at("configmaps");
    let first = server.get(&format!("{list}?limit=1")).await.ok();
    let go_on = next(&first);
    let rest = server
        .get(&format!("{list}?limit=1&{go_on}&resourceVersion=0"))
        .await
        .ok();
    assert_eq!(names(&rest), "b,c");
    let versioned = server
        .get(&format!("{list}?limit=1&{go_on}&resourceVersion={newest}"))
        .await;
    versioned.is(
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
        Value::Null,
    );
    let unless = (
        "FieldValueForbidden",
        "resourceVersionMatch",
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    );
    let continued = (
        "FieldValueForbidden",
        "resourceVersionMatch",
        "Forbidden: resourceVersionMatch is forbidden when continue is provided",
    );
    let matched = server
        .get(&format!("{list}?limit=1&{go_on}&resourceVersionMatch=Exact"))
        .await;
    matched.invalid("meta.k8s.io", "ListOptions", "", &[unless, continued]);
    let matched = server
        .get(&format!(
            "{list}?{go_on}&resourceVersion=0&resourceVersionMatch=NotOlderThan"
        ))
        .await;
    matched.invalid("meta.k8s.io", "ListOptions", "", &[continued]);
    let empty = server.get(&format!("{list}?continue=&limit=1")).await.ok();
    assert_eq!(names(&empty), "a");
}

// [F2] a token of version -1 goes on at the newest state, and its next token has a version again
async fn an_inconsistent_token_continues_at_the_newest_state(server: Server) {
    let (namespace, _) = three(&server).await;
    let list = namespace.at("configmaps");
    let page = server
        .get(&format!("{list}?limit=1&continue={}", token(-1, "a\0")))
        .await
        .ok();
    assert_eq!(names(&page), "b");
    let newer = version(&namespace.config_map("b2").await);
    let rest = server.get(&format!("{list}?{}", next(&page))).await.ok();
    assert_eq!(names(&rest), "c");
    assert_eq!(version(&rest), version(&page));
    let again = server.get(&format!("{list}?continue={}", token(-1, "b\0"))).await.ok();
    assert_eq!(names(&again), "b2,c");
    assert!(version(&again) >= newer);
}

// [F2] tokens that the server did not make: 400
async fn refuses_malformed_tokens(server: Server) {
    let (namespace, newest) = three(&server).await;
    let list = namespace.at("configmaps");
    let newest = i64::try_from(newest).expect("a small version");
    let foreign = encode(json!({"v": "v2", "rv": newest, "start": "a"}).to_string().as_bytes());
    let table = [
        ("garbage".to_owned(), "invalid character …"),
        ("!!!".to_owned(), "illegal base64 data at input byte …"),
        (
            format!("{}=", token(newest, "a")),
            "illegal base64 data at input byte …",
        ),
        (
            token(0, "a"),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (foreign, "server does not recognize this encoded version v2"),
        (token(newest, ""), "encoded start key empty (version meta.k8s.io/v1)"),
        (token(newest, "../x"), "../x"),
    ];
    for (token, problem) in table {
        let answer = server.get(&format!("{list}?limit=1&continue={token}")).await;
        let text = format!("invalid continue token: continue key is not valid: {problem}");
        answer.is(400, "BadRequest", &text, Value::Null);
    }
    let future = i64::try_from(FUTURE).expect("a small version");
    let answer = server
        .get(&format!("{list}?limit=1&continue={}", token(future, "a")))
        .await;
    too_large(&answer, FUTURE);
}

cases![
    all_pages_show_the_version_of_the_first,
    pages_with_a_selector_tell_no_remaining_count,
    pages_cross_namespaces,
    continuing_allows_no_version,
    an_inconsistent_token_continues_at_the_newest_state,
    refuses_malformed_tokens,
];
