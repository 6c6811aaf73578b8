//! What a request asks for: the verb, the resource path and the query, read from method and URI alone.
//!
//! Knows no kinds: whether the resource exists is for the caller. Start at [`Request::new`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use crate::gotext;
use crate::replica::Replica;

/// What a request does, in the API's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Add an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object in part.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove many objects.
    DeleteCollection,
    /// A request for something that is no resource, such as `/version`, or with a method that no resource has.
    Other,
}

impl Verb {
    /// The verb as authorization rules and audit logs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }

    /// True if the verb may change an object.
    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A path below `/api/v1` or `/apis/GROUP/VERSION` that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// API group; empty for the core group.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Namespace, if the path has one.
    pub(crate) namespace: Option<String>,
    /// Plural name of the resource.
    pub(crate) resource: String,
    /// Object name, if the path has one.
    pub(crate) name: Option<String>,
    /// Subresource, if the path has one.
    pub(crate) subresource: Option<String>,
    /// More segments follow, which only `proxy` allows.
    pub(crate) tail: bool,
    /// The old form `/watch/` before the resource.
    pub(crate) legacy_watch: bool,
    /// The path has the place of a namespace, with nothing in it.
    pub(crate) empty_namespace: bool,
}

/// The decoded query of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=b&c=d`. As in Go, parts with a semicolon or a malformed escape are left out.
    pub(crate) fn parse(raw: &str) -> Self {
        let good = |part: &&str| !part.is_empty() && !part.contains(';') && well_escaped(part);
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (
                percent_decode(&key.replace('+', " ")),
                percent_decode(&value.replace('+', " ")),
            )
        };
        Self(raw.split('&').filter(good).map(pair).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter unless it is empty.
    pub(crate) fn non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// All parameters in their order.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Every value of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean: any value is true but `0` and `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// One request with its body read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The body had more bytes than the server reads; the one here is empty. Who needs it refuses the request.
    pub(crate) too_large: bool,
    pub(crate) verb: Verb,
    pub(crate) path: Option<ResourcePath>,
    pub(crate) query: Query,
    /// The view that is asked; none for the log itself.
    pub(crate) replica: Option<Arc<Replica>>,
    /// What the answer warns of, beyond what the verb says.
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Request {
    /// Sets what the answer warns of beyond what the verb says: a verb that tries again says it anew.
    pub(crate) fn warn(&self, warnings: Vec<String>) {
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
    }

    /// What was set by [`Request::warn`].
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads method and URI; the body may be added later.
    pub(crate) fn new(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Self {
        let path = ResourcePath::parse(uri.path());
        let query = Query::parse(uri.query().unwrap_or_default());
        let verb = path.as_ref().map_or(Verb::Other, |path| verb(&method, path, &query));
        Self {
            method,
            uri,
            headers,
            body,
            too_large: false,
            verb,
            path,
            query,
            replica: None,
            warnings: Arc::default(),
        }
    }

    /// A header as text; empty if it is absent. What is no text is there all the same, and means nothing.
    pub(crate) fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| std::str::from_utf8(value.as_bytes()).unwrap_or("\u{fffd}"))
    }

    /// Whether a path ends with a word that says what is to be done with what comes after it.
    pub(crate) fn lacks_target(&self) -> bool {
        let path = percent_decode(self.uri.path());
        let mut parts = path.trim_matches('/').split('/');
        let last = match parts.next() {
            Some("api") => parts.nth(1),
            Some("apis") => parts.nth(2),
            _ => None,
        };
        matches!(last, Some("watch" | "proxy")) && parts.next().is_none()
    }

    /// The client's name for itself.
    pub(crate) fn user_agent(&self) -> &str {
        self.header(http::header::USER_AGENT)
    }
}

/// The verb of a method on a path.
fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Verb {
    match *method {
        // Whether another method than GET may is for the handler.
        _ if path.legacy_watch => Verb::Watch,
        Method::GET if path.name.is_some() => Verb::Get,
        Method::GET if query.flag("watch") => Verb::Watch,
        Method::GET => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if path.name.is_some() => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

impl ResourcePath {
    /// Reads a path; none if it names no resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        // The real server splits the decoded path, so that an encoded slash separates too.
        let path = percent_decode(path);
        let path = path.strip_prefix('/')?;
        let path = path.trim_end_matches('/');
        let mut parts = path.split('/').map(str::to_owned);
        let mut found = Self::default();
        match parts.next()?.as_str() {
            "api" => found.version = parts.next()?,
            "apis" => {
                found.group = parts.next().filter(|group| !group.is_empty())?;
                found.version = parts.next()?;
            }
            _ => return None,
        }
        let mut rest: Vec<String> = parts.collect();
        if rest.first().is_some_and(|first| first == "watch") {
            found.legacy_watch = true;
            rest.remove(0);
        }
        // `namespaces/x/pods` is a namespaced path, `namespaces/x/status` a subresource of the namespace itself.
        let of_namespace = |part: &str| part == "status" || part == "finalize";
        if rest.len() > 2 && rest[0] == "namespaces" && !(rest.len() == 3 && of_namespace(&rest[2])) {
            found.namespace = Some(std::mem::take(&mut rest[1])).filter(|namespace| !namespace.is_empty());
            found.empty_namespace = found.namespace.is_none();
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        found.resource = rest.next().filter(|resource| !resource.is_empty())?;
        found.name = rest.next();
        found.subresource = rest.next().filter(|subresource| !subresource.is_empty());
        found.tail = rest.next().is_some();
        Some(found)
    }
}

/// Whether every percent sign begins an escape.
pub(crate) fn well_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

/// Decodes `%41`; what is malformed stays as it is. Bytes that are no UTF-8 are kept.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return gotext::decode(text.as_bytes().to_vec());
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1).zip(bytes.get(at + 2));
        let value = digits.and_then(|(high, low)| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        });
        match value {
            Some(value) if byte == b'%' => {
                decoded.push(value);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    gotext::decode(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> Request {
        Request::new(
            method.parse().unwrap(),
            uri.parse().unwrap(),
            HeaderMap::new(),
            Bytes::new(),
        )
    }

    #[test]
    fn verb_follows_method_and_path() {
        let cases = [
            ("GET", "/api/v1/pods", Verb::List),
            ("GET", "/api/v1/pods?watch=1", Verb::Watch),
            ("GET", "/api/v1/pods?watch=", Verb::Watch),
            ("GET", "/api/v1/pods?watch=False", Verb::List),
            ("GET", "/api/v1/watch/pods", Verb::Watch),
            ("GET", "/api/v1/namespaces/a/pods/b?watch=1", Verb::Get),
            ("POST", "/apis/apps/v1/namespaces/a/deployments", Verb::Create),
            ("DELETE", "/api/v1/namespaces/a/pods", Verb::DeleteCollection),
            ("DELETE", "/api/v1/namespaces/a", Verb::Delete),
            ("OPTIONS", "/api/v1/pods", Verb::Other),
            ("GET", "/version", Verb::Other),
            ("GET", "/apis/apps/v1", Verb::Other),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(parse(method, uri).verb, expected, "{method} {uri}");
        }
    }

    #[test]
    fn path_separates_namespace_name_and_subresource() {
        let path = ResourcePath::parse("/apis/apps/v1/namespaces/a/deployments/b/status").unwrap();
        assert_eq!((path.group.as_str(), path.version.as_str()), ("apps", "v1"));
        assert_eq!(path.namespace.as_deref(), Some("a"));
        assert_eq!(
            (path.resource.as_str(), path.name.as_deref()),
            ("deployments", Some("b"))
        );
        assert_eq!(path.subresource.as_deref(), Some("status"));

        let path = ResourcePath::parse("/api/v1/namespaces/a/finalize").unwrap();
        assert_eq!(
            (path.resource.as_str(), path.name.as_deref()),
            ("namespaces", Some("a"))
        );
        assert_eq!((path.namespace, path.subresource.as_deref()), (None, Some("finalize")));
        assert_eq!(ResourcePath::parse("/apis/apps/v1"), None);
        assert_eq!(ResourcePath::parse("/healthz"), None);
    }

    #[test]
    fn header_that_is_no_text_is_not_absent() {
        // [F25] as a content type it is an unknown one
        let mut request = parse("POST", "/api/v1/pods");
        let header = |value: &[u8]| http::HeaderValue::from_bytes(value).unwrap();
        assert_eq!(request.header(http::header::CONTENT_TYPE), "");
        for (value, text) in [(&b"\xff"[..], "\u{fffd}"), ("\u{e9}".as_bytes(), "\u{e9}"), (b"a", "a")] {
            request.headers.insert(http::header::CONTENT_TYPE, header(value));
            assert_eq!(request.header(http::header::CONTENT_TYPE), text);
        }
    }

    #[test]
    fn query_decodes_percent_and_plus() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&x=1+2&&y");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some("1 2"));
        assert_eq!(query.get("y"), Some(""));
        assert_eq!(query.non_empty("y"), None);
        let query = Query::parse("a=%8a%C3%A9%e2%82");
        assert_eq!(&*gotext::bytes(query.get("a").unwrap()), b"\x8a\xc3\xa9\xe2\x82");
        for left_out in ["a=%zz", "a=%4", "a=%", "a=1;b", "a;b=c"] {
            assert_eq!(Query::parse(left_out).get("a"), None, "{left_out}");
        }
    }
}
