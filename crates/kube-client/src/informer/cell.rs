//! The inside of one informer, whatever handles there are of it: its identity, its parts, and the handlers' way from registration
//! to a task. `presence` starts and stops what fills it, [`Informer`](super::Informer) is its public face.

use std::any::Any;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use kube::core::ApiResource;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::crd::KindSubscription;
use crate::environment::Environment;
use crate::error::{RegisterError, Stopped, TransformConflict};
use crate::informer::dispatch::HandlerQueue;
use crate::informer::factory::Control;
use crate::informer::handler::{EventHandler, HandlerOptions, RunsOn};
use crate::informer::metrics::HandlerMetrics;
use crate::informer::options::{InformerId, InformerKey, InformerOptions, Tuning};
use crate::informer::part::Part;
use crate::informer::presence::{Presence, Running};
use crate::informer::registration::{Registered, Registration};
use crate::informer::resync::Resync;
use crate::informer::runner::Runner;
use crate::informer::shared::Shared;
use crate::informer::shared::views::ViewId;
use crate::informer::status::{self, InformerStats, Phase, Unfilled};
use crate::informer::transform::Transform;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::sync::Mutex;

/// One informer.
pub(crate) struct Cell<K: Object> {
    pub(super) id: InformerId,
    pub(super) dynamic_type: K::DynamicType,
    pub(super) resource: ApiResource,
    pub(super) key: InformerKey,
    pub(super) tuning: Tuning,
    pub(super) transform: Option<Transform<K>>,
    pub(super) asked_at: &'static Location<'static>,
    pub(super) shared: Arc<Shared<K>>,
    // One per reflector: one, or one per namespace of several.
    pub(super) parts: Box<[Part<K>]>,
    pub(super) env: Arc<Environment>,
    pub(super) stop: CancellationToken,
    pub(super) launch: Mutex<Launch<K>>,
    pub(super) presence: Presence,
}

/// What waits for the start.
pub(super) struct Launch<K: Object> {
    pub(super) started: bool,
    // Invariant: empty once `started`.
    pub(super) waiting: Vec<Runner<K>>,
    // Tells when to list and watch, if not at once. Invariant: `None` once `started`.
    pub(super) kind: Option<KindSubscription>,
    pub(super) running: Option<Running>,
}

impl<K: Object> Cell<K> {
    pub(super) fn new(
        key: InformerKey,
        dynamic_type: K::DynamicType,
        options: InformerOptions<K>,
        asked_at: &'static Location<'static>,
        env: Arc<Environment>,
    ) -> Self {
        let shared = Arc::new(Shared::new(&key.namespaces));
        Self {
            id: key.id(),
            parts: Part::all(&key.namespaces, &shared, &env.changed),
            shared,
            dynamic_type,
            resource: key.resource.clone(),
            key,
            tuning: options.tuning,
            transform: options.transform,
            asked_at,
            stop: env.stop.child_token(),
            env,
            launch: Mutex::new(Launch {
                started: false,
                waiting: Vec::new(),
                kind: None,
                running: None,
            }),
            presence: Presence::default(),
        }
    }

    /// Whether the transform asked for is the one this informer has.
    pub(super) fn check_transform(
        &self,
        wanted: Option<&Transform<K>>,
        asked_at: &'static Location<'static>,
    ) -> Result<(), RegisterError> {
        let same = match (&self.transform, wanted) {
            (None, None) => true,
            (Some(known), Some(wanted)) => known.same(wanted),
            _ => false,
        };
        if same {
            return Ok(());
        }
        Err(RegisterError::TransformConflict(Box::new(TransformConflict {
            informer: self.id.clone(),
            first: self.transform.as_ref().map(|transform| transform.name().to_owned()),
            first_at: self.transform.as_ref().map_or(self.asked_at, Transform::at),
            second: wanted.map(|transform| transform.name().to_owned()),
            second_at: wanted.map_or(asked_at, Transform::at),
        })))
    }

    pub(super) fn phase(&self) -> Phase {
        status::sum(self.parts.iter().map(|part| &**part.status())).phase
    }

    /// The objects that do not decode, and why.
    pub(super) fn undecodable(&self) -> impl Iterator<Item = (ObjectKey, String)> {
        self.parts.iter().flat_map(|part| {
            part.status().update(|status| {
                let bad = status.undecodable.iter();
                bad.map(|(key, error)| (key.clone(), error.clone())).collect::<Vec<_>>()
            })
        })
    }

    pub(super) fn spawn_runner(&self, runner: Runner<K>) {
        let span =
            tracing::info_span!(parent: &self.env.span(&self.id, None), "handler", handler = runner.queue.name());
        match runner.runs_on() {
            RunsOn::Task => {
                self.env.spawn(runner.run(self.stop.clone()).instrument(span));
            }
            RunsOn::Thread => {
                let queue = Arc::clone(&runner.queue);
                let work = move || span.in_scope(|| runner.run_here());
                if let Err(error) = self.env.spawn_thread(queue.name(), work) {
                    tracing::error!(informer = %self.id, handler = queue.name(), %error, "no thread for an event handler");
                    queue.stop();
                    self.shared.unregister(&queue);
                }
            }
        }
    }

    /// Registers a queue, for everything or what a view shows, and runs its handler once the informer is started.
    pub(super) fn add(
        self: &Arc<Self>,
        handler: Box<dyn EventHandler<K>>,
        options: HandlerOptions,
        view: Option<ViewId>,
    ) -> Registration {
        let queue = self.add_queue(options, view);
        if !queue.is_ended() {
            let runner = Runner {
                queue: Arc::clone(&queue),
                handler,
                informer: self.id.clone(),
                resync: self.resync_of(&queue),
                shared: Arc::downgrade(&self.shared),
            };
            let ready = {
                let mut launch = self.launch.lock();
                if launch.started {
                    Some(runner)
                } else {
                    launch.waiting.push(runner);
                    None
                }
            };
            if let Some(runner) = ready {
                self.spawn_runner(runner);
            } else if queue.is_ended() {
                self.drop_ended(); // stopped or removed in between
            }
        }
        Registration::new(Arc::new(Handle {
            queue,
            cell: Arc::downgrade(self),
        }))
    }

    pub(super) fn add_queue(&self, options: HandlerOptions, view: Option<ViewId>) -> Arc<HandlerQueue<K>> {
        let metrics = HandlerMetrics::new(&self.id, &self.env.cluster, &options.name);
        let queue = Arc::new(HandlerQueue::new(options).with_metrics(metrics));
        match view {
            None => self.shared.register(&queue),
            Some(view) => self.shared.register_in(view, &queue),
        };
        queue
    }

    pub(super) fn resync_of(&self, queue: &HandlerQueue<K>) -> Option<Resync<K>> {
        Resync::of(queue, &self.shared, &self.env.runtime)
    }

    /// Drops handlers that were removed before the start.
    pub(super) fn drop_ended(&self) {
        let ended: Vec<Runner<K>> = {
            let mut launch = self.launch.lock();
            launch
                .waiting
                .extract_if(.., |runner| runner.queue.is_ended())
                .collect()
        };
        drop(ended); // handlers are the user's: not under the lock
    }
}

impl<K: Object> Control for Cell<K> {
    fn id(&self) -> &InformerId {
        &self.id
    }

    fn object_type(&self) -> &'static str {
        std::any::type_name::<K>()
    }

    fn start(self: Arc<Self>) {
        if self.stop.is_cancelled() {
            return;
        }
        let (waiting, kind) = {
            let mut launch = self.launch.lock();
            if std::mem::replace(&mut launch.started, true) {
                return;
            }
            (std::mem::take(&mut launch.waiting), launch.kind.take())
        };
        self.env.describe_metrics();
        self.start_filling(kind);
        for runner in waiting {
            self.spawn_runner(runner);
        }
    }

    fn stop(&self) {
        self.stop.cancel();
        self.shared.stop();
        self.drop_ended();
        for part in &self.parts {
            part.status().announce(|status| status.phase = Phase::Stopped);
        }
    }

    fn unfilled(&self) -> Vec<Unfilled> {
        self.unfilled_parts()
    }

    fn stats(&self) -> InformerStats {
        let handlers = self.shared.handler_stats();
        let (objects, last_version) = (self.shared.len(), self.shared.version());
        let status = status::sum(self.parts.iter().map(|part| &**part.status()));
        InformerStats {
            informer: self.id.clone(),
            object_type: self.object_type(),
            phase: status.phase,
            has_synced: self.shared.is_filled(),
            objects,
            last_version,
            watches_open: status.watches_open,
            lists: status.lists,
            watches: status.watches,
            events: status.events,
            failures: status.failures,
            restarts: status.restarts,
            json_bytes: self.parts.iter().map(Part::json_bytes).sum(),
            last_heard: status.heard.map(|at| at.elapsed()),
            error: status.error,
            last_error: status.last_error,
            undecodable: self.undecodable().count(),
            handlers,
            namespaces: self.parts.iter().filter_map(Part::stats).collect(),
        }
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// What a [`Registration`] holds: the queue, and where to take it out of.
pub(super) struct Handle<K: Object> {
    pub(super) queue: Arc<HandlerQueue<K>>,
    pub(super) cell: Weak<Cell<K>>,
}

impl<K: Object> Registered for Handle<K> {
    fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    fn is_stopped(&self) -> bool {
        self.queue.is_ended()
    }

    fn poll_synced(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        self.queue.poll_synced(ticket, cx)
    }

    fn poll_removed(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_removed(ticket, cx)
    }

    fn forget(&self, ticket: Option<u64>) {
        self.queue.forget(ticket);
    }

    fn remove(&self) {
        self.queue.remove();
        if let Some(cell) = self.cell.upgrade() {
            cell.shared.unregister(&self.queue);
            cell.drop_ended(); // one that still waited for the start
        }
    }

    fn owner(&self) -> usize {
        self.cell.as_ptr() as usize
    }
}
