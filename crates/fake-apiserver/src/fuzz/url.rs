//! Paths, queries, and the tokens and options in them.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use super::{Target, parts, resources};
use crate::deadline;
use crate::gotext;
use crate::request::{Query, Request, ResourcePath, percent_decode};
use crate::verbs::{ListOptions, Token};

/// A method and a URI; a token.
pub(super) const TARGET: Target = Target {
    name: "url",
    run,
    seeds: &[
        "GET /api/v1/namespaces/default/pods?limit=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9\n{\"v\":\"meta.k8s.io/v1\",\"rv\":12,\"start\":\"a/b\\u0000\"}",
        "DELETE /apis/apps/v1/namespaces/a/deployments/b/status?timeout=1h2.5ms&dryRun=All\neyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
        "GET /api/v1/watch/namespaces/%64efault/pods?watch=1&resourceVersion=0&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\n",
        "PATCH /apis/a.b/v1/x/%ff%2e%2E?fieldSelector=metadata.name%3Da%2Cspec.nodeName%21%3D&labelSelector=a+in+(b)\nx",
        "POST /?a;b&c=%zz&d=%4&e=+\n{\"V\":null,\"RV\":\"1\",\"start\":[]}",
    ],
    words: &[
        "/",
        "//",
        "..",
        "%2F",
        "%00",
        "%",
        "%ff",
        "?",
        "&",
        "=",
        "+",
        ";",
        "#",
        "namespaces",
        "watch",
        "proxy",
        "status",
        "finalize",
        "api",
        "apis",
        "limit=",
        "continue=",
        "resourceVersion=",
        "resourceVersionMatch=Exact",
        "sendInitialEvents=1",
        "timeoutSeconds=-1",
        "timeout=",
        "99999999999999999999",
        "shardSelector=",
    ],
};

fn run(data: &[u8]) {
    let Some([request, token]) = parts(data) else { return };
    tokens(token);
    let Some(space) = request.iter().position(|byte| *byte == b' ') else {
        return;
    };
    let (method, uri) = (&request[..space], &request[space + 1..]);
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method), Uri::try_from(uri)) else {
        return;
    };
    paths(uri.path());
    queries(uri.query().unwrap_or_default());
    let request = Request::new(method, uri, HeaderMap::new(), Bytes::new());
    // Whatever is said, it is said.
    let _ = (request.lacks_target(), deadline::check(&request));
}

/// A path that is escaped all through is the same path.
fn paths(path: &str) {
    let parsed = ResourcePath::parse(path);
    let escaped = escape(&percent_decode(path));
    assert_eq!(ResourcePath::parse(&escaped), parsed, "{path:?}");
}

/// A query reads back from its own text, and its options are read or refused.
fn queries(text: &str) {
    let query = Query::parse(text);
    let mut again = String::new();
    for (key, value) in query.pairs() {
        let _ = write!(again, "{}={}&", escape(key), escape(value));
    }
    assert_eq!(Query::parse(&again), query, "{text:?}");
    for watch in [false, true] {
        let Ok(options) = ListOptions::parse(&query, resources::built_in("pods"), watch) else {
            continue;
        };
        if let Some(token) = options.continue_token.filter(|_| !watch) {
            tokens(token.as_bytes());
        }
    }
}

/// A token that is good is one of those that the server itself would write.
fn tokens(text: &[u8]) {
    for text in [gotext::decode(text.to_vec()), Token::text_of(text)] {
        if let Ok(token) = Token::decode(&text) {
            assert_eq!(Token::decode(&token.encode()).ok(), Some(token), "{text:?}");
        }
    }
}

/// Every byte as an escape.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in gotext::bytes(text).iter() {
        let _ = write!(out, "%{byte:02x}");
    }
    out
}
