//! What the server was asked: a bounded log of requests and exact counts, with a way to wait for them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::request::{Request, Verb};

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
    /// Status of the answer; none if a fault rule gave the client no answer.
    pub status: Option<u16>,
}

impl RequestRecord {
    pub(crate) fn of(request: &Request) -> Self {
        let path = request.path.clone().unwrap_or_default();
        Self {
            verb: request.verb,
            method: request.method.to_string(),
            path: request.uri.path().to_owned(),
            query: request.uri.query().unwrap_or_default().to_owned(),
            group: path.group,
            resource: path.resource,
            namespace: path.namespace,
            name: path.name,
            subresource: path.subresource,
            user_agent: request.user_agent().to_owned(),
            status: None,
        }
    }

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
    records: VecDeque<RequestRecord>,
    counts: HashMap<(Verb, String), u64>,
}

impl RequestLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
            capacity,
        }
    }

    pub(crate) fn push(&self, record: RequestRecord) {
        {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            *inner
                .counts
                .entry((record.verb, record.qualified_resource()))
                .or_default() += 1;
            if inner.records.len() >= self.capacity {
                inner.records.pop_front();
            }
            if self.capacity > 0 {
                inner.records.push_back(record);
            }
        }
        self.changed.send_replace(());
    }

    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .records
            .iter()
            .cloned()
            .collect()
    }

    pub(crate) fn count(&self, verb: Verb, resource: &str) -> u64 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .counts
            .get(&(verb, resource.to_owned()))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn clear(&self) {
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Inner::default();
        self.changed.send_replace(());
    }

    /// Notifies about each new record.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}
