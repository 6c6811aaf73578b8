//! What the engine tells of a collection beside its content: what it waits for, and what went wrong.
//!
//! The engine writes it at the end of each epoch that changed it; handles read it at any time, without waiting for the engine. It has
//! names and no handles, so it keeps no collection alive.

use std::sync::Arc;

use super::Engine;
use super::id::NodeId;
use super::operator::parked::Parked;
use crate::error::Error;
use crate::sync::Mutex;

/// Why something waits.
#[derive(Debug, Clone)]
pub(crate) enum Waits {
    /// The engine has not had its node.
    Engine,
    /// The source is not marked.
    Source,
    /// A collection that it reads for as long as it lives.
    Input(Arc<Status>),
    /// A collection that it was declared to wait for.
    Declared(Arc<Status>),
    /// A collection that is to contribute to it, and the key of who lends it.
    Member { status: Arc<Status>, lender: Arc<str> },
    /// A collection that parked inputs fetched.
    Fetched {
        status: Arc<Status>,
        inputs: usize,
        keys: Vec<Arc<str>>,
    },
}

impl Waits {
    /// The collection that is waited for.
    pub(crate) fn other(&self) -> Option<&Arc<Status>> {
        match self {
            Self::Engine | Self::Source => None,
            Self::Input(status)
            | Self::Declared(status)
            | Self::Member { status, .. }
            | Self::Fetched { status, .. } => Some(status),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) name: Arc<str>,
    pub(crate) uid: u64,
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    waits: Vec<Waits>,
    synced: bool,
    stopped: bool,
    errors: Vec<Error>,
}

impl Status {
    pub(crate) fn new(name: Arc<str>, uid: u64) -> Self {
        Self {
            name,
            uid,
            told: Mutex::new(Told {
                waits: vec![Waits::Engine],
                synced: false,
                stopped: false,
                errors: Vec::new(),
            }),
        }
    }

    pub(crate) fn waits(&self) -> Vec<Waits> {
        self.told.lock().waits.clone()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.told.lock().synced
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.told.lock().stopped
    }

    pub(super) fn set_stopped(&self) {
        self.told.lock().stopped = true;
    }

    pub(crate) fn errors(&self) -> Vec<Error> {
        self.told.lock().errors.clone()
    }

    fn set_waits(&self, waits: Vec<Waits>, synced: bool) {
        let old = {
            let mut told = self.told.lock();
            told.synced = synced;
            std::mem::replace(&mut told.waits, waits)
        };
        drop(old);
    }

    fn set_errors(&self, errors: Vec<Error>) {
        let old = std::mem::replace(&mut self.told.lock().errors, errors);
        drop(old);
    }
}

impl Engine {
    /// Tells what has changed in this epoch: of nodes that wait or have waited, and of those whose errors are others now.
    pub(super) fn tell(&mut self) {
        for id in std::mem::take(&mut self.untold) {
            let Some(synced) = self.nodes.is_synced(id) else {
                continue;
            };
            let waits = self.waits(id, synced);
            if let Some(node) = self.nodes.get_mut(id) {
                node.set_told(!waits.is_empty());
            }
            if let Some(status) = self.status(id) {
                status.set_waits(waits, synced);
            }
        }
        for id in self.cycles.take_changed() {
            if let Some(status) = self.status(id) {
                status.set_errors(self.cycles.errors(id, |path| super::names(&self.meta, path)));
            }
        }
    }

    pub(super) fn status(&self, id: NodeId) -> Option<&Arc<Status>> {
        let meta = self.meta.get(id.index())?.as_ref()?;
        Some(&meta.status)
    }

    fn waits(&self, id: NodeId, synced: bool) -> Vec<Waits> {
        let Some(meta) = self.meta.get(id.index()).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let mut waits = Vec::new();
        let (parked, members) = (self.nodes.parked(id), self.nodes.members(id));
        if !synced {
            for source in self.graph.sources(id) {
                let is_told = parked.is_some_and(|parked| parked.is_for(source))
                    || members.iter().any(|(member, _)| *member == source);
                if let (Some(false), Some(status), false) = (self.nodes.is_synced(source), self.status(source), is_told)
                {
                    let status = Arc::clone(status);
                    waits.push(if meta.declared.contains(&source) {
                        Waits::Declared(status)
                    } else {
                        Waits::Input(status)
                    });
                }
            }
        }
        for (source, inputs, keys) in parked.into_iter().flat_map(Parked::by_source) {
            // What was made while this epoch ran is told of once it is there.
            if let Some(status) = self.status(source) {
                let status = Arc::clone(status);
                waits.push(Waits::Fetched { status, inputs, keys });
            }
        }
        // The same holds here. A member that is synced waits for nothing but the others.
        for (member, lender) in &members {
            if let (Some(false), Some(status)) = (self.nodes.is_synced(*member), self.status(*member)) {
                waits.push(Waits::Member {
                    status: Arc::clone(status),
                    lender: Arc::clone(lender),
                });
            }
        }
        if waits.is_empty() && !synced {
            waits.push(
                if parked.is_some_and(|parked| !parked.is_empty()) || !members.is_empty() {
                    Waits::Engine
                } else {
                    Waits::Source
                },
            );
        }
        waits
    }
}
