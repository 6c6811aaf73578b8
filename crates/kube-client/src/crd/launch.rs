//! `Crds`: the watcher behind every [`CrdWatcher`](crate::CrdWatcher) of one client, and when it runs: from the moment that
//! somebody has asked about a kind and the client is started.

use std::sync::Arc;

use kube::core::GroupVersionResource;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::crd::definition::Definition;
use crate::crd::driver::{Driver, definitions, falls_back};
use crate::crd::options::Rules;
use crate::crd::report::{CrdSource, CrdWatcherStats};
use crate::crd::state::{Source, State};
use crate::discovery::Mapper;
use crate::environment::Environment;
use crate::error::WatchError;
use crate::informer::status::{InformerStats, Unfilled};
use crate::informer::{Informer, InformerId};
use crate::object::Scope;
use crate::sync::Mutex;

/// The watcher behind every [`CrdWatcher`](crate::CrdWatcher) of one client.
pub(crate) struct Crds {
    env: Arc<Environment>,
    discovery: Arc<Mapper>,
    state: Arc<State>,
    status: Arc<Status>,
    // The only one that is kept of a definition's.
    annotation: String,
    // Lock order: this one, then the informer's in `status`.
    launch: Mutex<Launch>,
}

#[derive(Default)]
struct Launch {
    // Somebody has asked about a kind.
    wanted: bool,
    client_started: bool,
    // Invariant: only if both are true.
    running: bool,
}

/// What the driver tells.
pub(super) struct Status {
    pub(super) synced: watch::Sender<bool>,
    // Somebody new waits for a kind.
    pub(super) wanted: Notify,
    // What keeps discovery from answering.
    pub(super) discovery_error: Mutex<Option<WatchError>>,
    // Why the definitions cannot be read, if discovery alone decides.
    pub(super) refused: Mutex<Option<WatchError>>,
    // The informer of definitions; another one each time that they can no longer be read.
    pub(super) informer: Mutex<Option<Informer<Definition>>>,
}

impl Crds {
    pub(crate) fn new(env: &Arc<Environment>, discovery: &Arc<Mapper>, rules: Rules) -> Self {
        Self {
            env: Arc::clone(env),
            discovery: Arc::clone(discovery),
            annotation: rules.annotation().to_owned(),
            state: Arc::new(State::new(rules)),
            status: Arc::new(Status {
                synced: watch::Sender::new(false),
                wanted: Notify::new(),
                discovery_error: Mutex::new(None),
                refused: Mutex::new(None),
                informer: Mutex::new(None),
            }),
            launch: Mutex::new(Launch::default()),
        }
    }

    /// The client was started.
    pub(crate) fn start(&self) {
        self.launch(|launch| launch.client_started = true);
    }

    /// Somebody asks about a kind.
    pub(super) fn want(&self) {
        self.launch(|launch| launch.wanted = true);
    }

    /// Has discovery asked soon.
    pub(super) fn hurry(&self) {
        self.status.wanted.notify_one();
    }

    fn launch(&self, change: impl FnOnce(&mut Launch)) {
        let informer = {
            let mut launch = self.launch.lock();
            change(&mut launch);
            let go = launch.wanted && launch.client_started && !launch.running && !self.env.stop.is_cancelled();
            if !go {
                return;
            }
            launch.running = true;
            // Under the lock: whoever starts the client at the same time has to see what it waits for.
            let informer = definitions(&self.env, &self.annotation);
            *self.status.informer.lock() = Some(informer.clone());
            informer
        };
        let driver = Driver {
            env: Arc::clone(&self.env),
            discovery: Arc::clone(&self.discovery),
            state: Arc::clone(&self.state),
            status: Arc::clone(&self.status),
            annotation: self.annotation.clone(),
        };
        let feed = driver.feed(informer);
        self.env.spawn(driver.run(feed));
        self.env.changed.notify_waiters();
    }

    pub(crate) fn stop(&self) {
        self.state.stop();
        if let Some(informer) = self.informer() {
            informer.stop();
        }
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn stop_token(&self) -> &CancellationToken {
        &self.env.stop
    }

    pub(super) fn synced(&self) -> &watch::Sender<bool> {
        &self.status.synced
    }

    fn informer(&self) -> Option<Informer<Definition>> {
        self.status.informer.lock().clone()
    }

    /// The scope of a kind that its definition tells, if it was read; starts nothing.
    pub(crate) fn scope(&self, kind: &GroupVersionResource) -> Scope {
        self.state.scope(kind)
    }

    /// The informer of definitions, if the first sync waits for the watcher, and the failure that it meets.
    pub(crate) fn unsynced(&self) -> Option<(InformerId, Unfilled)> {
        let informer = self.informer()?;
        if *self.status.synced.borrow() {
            return None;
        }
        // Definitions that may not be read are no failure: discovery stands in.
        let from_definitions = informer.stats().error.filter(|error| !falls_back(error));
        let unfilled = Unfilled {
            namespace: None,
            error: from_definitions.or_else(|| self.status.discovery_error.lock().clone()),
        };
        Some((informer.id().clone(), unfilled))
    }

    pub(crate) fn informer_stats(&self) -> Option<InformerStats> {
        Some(self.informer()?.stats())
    }

    pub(crate) fn stats(&self) -> Option<CrdWatcherStats> {
        self.informer()?;
        let (definitions, waiting, ignored) = self.state.summary();
        Some(CrdWatcherStats {
            source: match self.state.source() {
                Source::Starting => CrdSource::Starting,
                Source::Definitions => CrdSource::Definitions,
                Source::Discovery => CrdSource::Discovery,
            },
            has_synced: *self.status.synced.borrow(),
            definitions,
            waiting,
            ignored,
            refused: self.status.refused.lock().clone(),
            discovery_error: self.status.discovery_error.lock().clone(),
        })
    }
}
