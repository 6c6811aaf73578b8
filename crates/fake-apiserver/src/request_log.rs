//! What the server was asked: a bounded log of requests and exact counts, with a way to wait for them.
//!
//! The log keeps a request as it was sent, in two texts; a [`RequestRecord`], with every part of the path apart, is made of
//! it when somebody asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{Equivalent, HashMap};
use http::Method;
use tokio::sync::watch;

use crate::request::{Request, ResourcePath, Verb};

/// One request that the server has answered, or refused by a fault rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestRecord {
    /// What the request does.
    pub verb: Verb,
    /// HTTP method.
    pub method: String,
    /// Path, as sent.
    pub path: String,
    /// Query, as sent; empty if there is none.
    pub query: String,
    /// API group of the resource; empty for the core group and for what is no resource.
    pub group: String,
    /// Plural name of the resource; empty for what is no resource.
    pub resource: String,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Object name in the path.
    pub name: Option<String>,
    /// Subresource in the path.
    pub subresource: Option<String>,
    /// The client's name for itself.
    pub user_agent: String,
    /// The [view](crate::FakeApiServer::view) that was asked; none for the server itself.
    pub view: Option<String>,
    /// Status of the answer; none if a fault rule gave the client no answer.
    pub status: Option<u16>,
}

impl RequestRecord {
    /// `pods`, or `deployments.apps`: how resources are named in this crate's API.
    pub fn qualified_resource(&self) -> String {
        qualified(&self.resource, &self.group)
    }
}

pub(crate) fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// What the log keeps of a request.
#[derive(Debug)]
struct Kept {
    verb: Verb,
    method: Method,
    /// Path and query, as sent; without the question mark if there is no query.
    target: Box<str>,
    /// Shared with the record before, if that is of the same client.
    user_agent: Arc<str>,
    /// The view that was asked, if it was not the server itself.
    view: Option<Box<str>>,
    status: Option<u16>,
}

impl Kept {
    /// How many bytes of text it holds.
    fn bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, |view| view.len());
        self.method.as_str().len() + self.target.len() + self.user_agent.len() + view
    }

    fn record(&self) -> RequestRecord {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let parts = ResourcePath::parse(path).unwrap_or_default();
        RequestRecord {
            verb: self.verb,
            method: self.method.to_string(),
            path: path.to_owned(),
            query: query.to_owned(),
            group: parts.group,
            resource: parts.resource,
            namespace: parts.namespace,
            name: parts.name,
            subresource: parts.subresource,
            user_agent: self.user_agent.to_string(),
            view: self.view.as_deref().map(str::to_owned),
            status: self.status,
        }
    }
}

/// What is counted together: a verb and the qualified name of a resource.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted(Verb, Box<str>);

/// The same, borrowed.
#[derive(Hash)]
struct CountedRef<'a>(Verb, &'a str);

impl Equivalent<Counted> for CountedRef<'_> {
    fn equivalent(&self, key: &Counted) -> bool {
        (self.0, self.1) == (key.0, &*key.1)
    }
}

/// So many bytes of text may a record of the log have on average: a client can make its name and its paths long.
const RECORD_BYTES: usize = 4096;
/// So many pairs of verb and resource are counted. There are fewer than a thousand but for clients that ask for names which
/// nobody serves.
const MAX_COUNTS: usize = 16_384;
/// No name of a resource with its group is longer.
const LONGEST_NAME: usize = 512;

/// The log itself.
#[derive(Debug)]
pub(crate) struct RequestLog {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Invariant: at most `capacity` records, the newest, and fewer if their texts are long.
    records: VecDeque<Kept>,
    /// Invariant: the bytes of text in `records`, those that records share counted for each.
    bytes: usize,
    /// Invariant: at most [`MAX_COUNTS`], of names up to [`LONGEST_NAME`].
    counts: HashMap<Counted, u64, foldhash::fast::RandomState>,
    /// Where names are put together, for the sake of its memory.
    name: String,
}

impl Inner {
    fn count(&mut self, verb: Verb, path: Option<&ResourcePath>) {
        let (resource, group) = path.map_or(("", ""), |path| (&path.resource, &path.group));
        let mut name = resource;
        if !group.is_empty() {
            self.name.clear();
            self.name.extend([resource, ".", group]);
            name = &self.name;
        }
        if let Some(count) = self.counts.get_mut(&CountedRef(verb, name)) {
            *count += 1;
        } else if self.counts.len() < MAX_COUNTS && name.len() <= LONGEST_NAME {
            self.counts.insert(Counted(verb, name.into()), 1);
        }
    }

    fn keep(&mut self, request: &Request, status: Option<u16>) {
        let path = request.uri.path();
        let query = request.uri.query().unwrap_or_default();
        let mut target = String::with_capacity(path.len() + 1 + query.len());
        target.push_str(path);
        if !query.is_empty() {
            target.push('?');
            target.push_str(query);
        }
        let user_agent = request.user_agent();
        let last = self.records.back().map(|last| &last.user_agent);
        let user_agent = last
            .filter(|last| ***last == *user_agent)
            .map_or_else(|| user_agent.into(), Arc::clone);
        let kept = Kept {
            verb: request.verb,
            method: request.method.clone(),
            target: target.into(),
            user_agent,
            view: request.replica.as_ref().map(|replica| replica.name().into()),
            status,
        };
        self.bytes += kept.bytes();
        self.records.push_back(kept);
    }

    /// Drops the oldest records until there are no more than so many, with no more text than they may have.
    fn trim(&mut self, capacity: usize) {
        while self.records.len() > capacity || self.bytes > capacity.saturating_mul(RECORD_BYTES) {
            let Some(oldest) = self.records.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

impl RequestLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
            capacity,
        }
    }

    /// Adds a request and the status of its answer, if the client got one.
    pub(crate) fn push(&self, request: &Request, status: Option<u16>) {
        let is_awaited = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.count(request.verb, request.path.as_ref());
            if self.capacity > 0 {
                inner.keep(request, status);
                inner.trim(self.capacity);
            }
            // Who subscribes after this reads after it, too.
            self.changed.receiver_count() > 0
        };
        if is_awaited {
            self.changed.send_replace(());
        }
    }

    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.records.iter().map(Kept::record).collect()
    }

    pub(crate) fn count(&self, verb: Verb, resource: &str) -> u64 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .counts
            .get(&CountedRef(verb, resource))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn clear(&self) {
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Inner::default();
        self.changed.send_replace(());
    }

    /// Notifies about each record that is added from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        // Under the lock, so that a request that is being added sees the subscriber or is seen by it.
        let _inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, header};

    use super::*;

    fn request(path: &str, user_agent: &str) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_str(user_agent).unwrap());
        Request::new(Method::GET, path.parse().unwrap(), headers, Bytes::new())
    }

    #[test]
    fn long_names_and_paths_drop_old_records() {
        // [F25] a client cannot make the log hold as much as it likes
        let log = RequestLog::new(100);
        for at in 0..150 {
            log.push(&request(&format!("/api/v1/namespaces/n{at}/pods"), "short"), Some(200));
        }
        assert_eq!(log.records().len(), 100);
        for at in 0..20 {
            let agent = format!("{at}{}", "a".repeat(RECORD_BYTES * 10));
            log.push(&request("/api/v1/pods", &agent), Some(200));
        }
        assert_eq!(log.records().len(), 9);
        assert!(log.records()[8].user_agent.starts_with("19a"), "the newest stay");
        log.push(&request("/api/v1/pods", "short"), Some(200));
        assert_eq!(log.records().len(), 10);
        let agent = "a".repeat(RECORD_BYTES * 101);
        log.push(&request("/api/v1/pods", &agent), Some(200));
        assert_eq!(log.records().len(), 0);
        assert_eq!(log.count(Verb::List, "pods"), 172, "counts are exact");
    }

    #[test]
    fn names_that_nobody_serves_are_counted_up_to_a_bound() {
        // [F25]
        let log = RequestLog::new(0);
        for at in 0..MAX_COUNTS + 10 {
            log.push(&request(&format!("/apis/g/v1/things{at}"), "a"), Some(404));
        }
        assert_eq!(log.inner.lock().unwrap().counts.len(), MAX_COUNTS);
        log.push(&request("/apis/g/v1/things0", "a"), Some(404));
        assert_eq!(log.count(Verb::List, "things0.g"), 2);
    }
}
