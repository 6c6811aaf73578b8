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

/// The log itself.
#[derive(Debug)]
pub(crate) struct RequestLog {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Invariant: at most `capacity` records, the newest.
    records: VecDeque<Kept>,
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
        match self.counts.get_mut(&CountedRef(verb, name)) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(Counted(verb, name.into()), 1);
            }
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
        self.records.push_back(Kept {
            verb: request.verb,
            method: request.method.clone(),
            target: target.into(),
            user_agent,
            view: request.replica.as_ref().map(|replica| replica.name().into()),
            status,
        });
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
            if inner.records.len() >= self.capacity {
                inner.records.pop_front();
            }
            if self.capacity > 0 {
                inner.keep(request, status);
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
