//! An informer of a kind that may not be installed: it lists and watches while the kind is known, and is empty otherwise.
//!
//! # Design
//!
//! The informer itself stays, with its cache, indexes and handlers; only its reflectors come and go. So nothing has to be
//! carried over when the kind appears, and handlers see one history: `Added` when it does, `Deleted` when it goes. One
//! task per informer follows the CRD watcher and is the only one who starts and stops reflectors; it waits for the end of
//! the old ones before it empties the cache, so that none of them can fill it again.
//!
//! Whoever asks for the informer without saying that the kind may be absent gets the same one, with one watch; only that
//! such a client has synced when the kind was listed, and not because it is known to be absent.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kube::core::GroupVersionResource;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::crd::{CrdWatcher, Crds, KindState, KindSubscription};
use crate::error::{Step, WatchErrorKind};
use crate::informer::Cell;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::factory::Control;
use crate::informer::part::Part;
use crate::informer::reflector::Reflector;
use crate::informer::reflector::failure::Failures;
use crate::informer::shared::Shared;
use crate::informer::shared::views::ViewId;
use crate::informer::status::{Phase, Unfilled};
use crate::object::Object;
use crate::sync::Mutex;

/// Whether the kind of a delayed client is there, and how far its objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// The kind is not installed, or that is not known yet: reads are empty.
    Absent,
    /// The kind is installed; it is being listed, or this client's handlers are at their initial events.
    Syncing,
    /// The kind was listed, and every handler that was registered by then has handled what the list brought.
    Active,
}

/// The presence of one informer's kind.
#[derive(Default)]
pub(crate) struct Presence {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    // The informer waits for its kind.
    gated: bool,
    // Somebody wants it whether the kind is there or not.
    wanted_anyway: bool,
    // What the CRD watcher told last.
    known: Option<bool>,
    clients: Vec<Weak<Delayed>>,
}

/// What is kept of one delayed view.
pub(crate) struct Delayed {
    view: ViewId,
    activation: watch::Sender<Activation>,
}

/// The reflectors that run.
pub(super) struct Running {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Delayed {
    pub(crate) fn activation(&self) -> watch::Receiver<Activation> {
        self.activation.subscribe()
    }
}

impl Presence {
    /// Somebody asks for the informer who does not expect that the kind may be absent.
    pub(super) fn want_anyway(&self) {
        self.state.lock().wanted_anyway = true;
    }

    /// Whether the kind is known to be absent.
    pub(super) fn is_absent(&self) -> bool {
        let state = self.state.lock();
        state.gated && state.known == Some(false)
    }

    /// Adds a delayed view. `listed` is asked whether the kind was listed.
    pub(super) fn join(&self, view: ViewId, listed: impl FnOnce() -> bool) -> Arc<Delayed> {
        let mut state = self.state.lock();
        let now = match state.known {
            None | Some(false) => Activation::Absent,
            Some(true) if listed() => Activation::Active,
            Some(true) => Activation::Syncing,
        };
        let delayed = Arc::new(Delayed {
            view,
            activation: watch::Sender::new(now),
        });
        state.clients.retain(|known| known.strong_count() > 0);
        state.clients.push(Arc::downgrade(&delayed));
        delayed
    }

    /// Notes what the CRD watcher tells, and tells the clients.
    fn set(&self, known: bool) {
        let clients = {
            let mut state = self.state.lock();
            state.known = Some(known);
            state.clients.clone()
        };
        let activation = if known { Activation::Syncing } else { Activation::Absent };
        for client in clients.iter().filter_map(Weak::upgrade) {
            client.activation.send_replace(activation);
        }
    }

    fn clients(&self) -> Vec<Arc<Delayed>> {
        self.state.lock().clients.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<K: Object> Cell<K> {
    /// Lists and watches from now on only while the kind is known.
    pub(super) fn gate(self: &Arc<Self>, crds: &Arc<Crds>) {
        if std::mem::replace(&mut self.presence.state.lock().gated, true) {
            return;
        }
        let resource = &self.resource;
        let kind = GroupVersionResource::gvr(&resource.group, &resource.version, &resource.plural);
        let states = CrdWatcher::new(Arc::clone(crds)).subscribe(&kind);
        let unstarted = {
            let mut launch = self.launch.lock();
            if launch.started {
                Some(states)
            } else {
                launch.kind = Some(states);
                None
            }
        };
        if let Some(states) = unstarted {
            self.follow(states);
        }
    }

    /// Starts what keeps the cache current: the reflectors, or who waits for the kind.
    pub(super) fn start_filling(self: &Arc<Self>, kind: Option<KindSubscription>) {
        match kind {
            Some(states) => self.follow(states),
            None => self.start_reflectors(),
        }
    }

    fn follow(self: &Arc<Self>, mut states: KindSubscription) {
        let cell = Arc::clone(self);
        self.spawn_to_its_end(async move {
            let stop = cell.stop.clone();
            let following = async {
                let mut syncing = false;
                loop {
                    tokio::select! {
                        biased;
                        state = states.next() => match state {
                            None => return,
                            Some(KindState::Known) => {
                                cell.open().await;
                                syncing = true;
                            }
                            Some(KindState::Unknown) => {
                                cell.close().await;
                                syncing = false;
                            }
                        },
                        () = cell.activated(), if syncing => syncing = false,
                    }
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = following => {}
            }
        });
    }

    /// Runs a task that the informer needs. Should it be dropped half-way, the runtime is going, and with it all that the
    /// client does: then the client is stopped, so that those who wait elsewhere wait no longer. Should it panic, the
    /// informer alone is.
    fn spawn_to_its_end(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let unfinished = Unfinished(Some(Arc::downgrade(self)));
        self.env.spawn(async move {
            task.await;
            unfinished.finish();
        })
    }

    fn start_reflectors(self: &Arc<Self>) {
        let stop = self.stop.child_token();
        let start = |part: &Part<K>| {
            let reflector = Reflector::new(
                &self.env,
                &self.key,
                self.id.clone(),
                self.tuning.clone(),
                self.transform.clone(),
                part.clone(),
            );
            self.spawn_to_its_end(reflector.run(stop.clone(), self.stop.clone()))
        };
        let tasks = self.parts.iter().map(start).collect();
        self.launch.lock().running = Some(Running { stop, tasks });
    }

    async fn stop_reflectors(&self) -> bool {
        let running = self.launch.lock().running.take();
        let Some(running) = running else { return false };
        running.stop.cancel();
        for task in running.tasks {
            // It ends by itself; a panic in it was contained and logged there.
            let _ended = task.await;
        }
        true
    }

    /// The kind is there.
    async fn open(self: &Arc<Self>) {
        self.presence.set(true);
        if self.shared.is_listed() {
            return;
        }
        // Those of somebody who did not wait for the kind are in their back-off.
        self.stop_reflectors().await;
        self.start_reflectors();
        self.env.changed.notify_waiters();
    }

    /// The kind is gone, or not there yet.
    async fn close(&self) {
        self.stop_reflectors().await;
        self.shared.clear();
        self.presence.set(false);
        for part in &self.parts {
            part.status().announce(|status| {
                status.phase = Phase::Absent;
                status.error = None;
                status.undecodable.clear();
            });
        }
        self.env.changed.notify_waiters();
    }

    /// Waits until the kind was listed, then for the handlers of each delayed view, which is active then.
    async fn activated(&self) {
        Listed {
            shared: &self.shared,
            ticket: None,
        }
        .await;
        self.env.changed.notify_waiters();
        let mut waits: FuturesUnordered<_> = self
            .presence
            .clients()
            .into_iter()
            .map(|client| {
                let queues = self.shared.handlers_in(client.view);
                async move {
                    for queue in queues {
                        Settled { queue, ticket: None }.await;
                    }
                    client.activation.send_replace(Activation::Active);
                }
            })
            .collect();
        while waits.next().await.is_some() {}
    }

    /// What the first sync waits for.
    pub(super) fn unfilled_parts(&self) -> Vec<Unfilled> {
        let (gated, known, wanted_anyway) = {
            let state = self.presence.state.lock();
            (state.gated, state.known, state.wanted_anyway)
        };
        match known {
            _ if !gated => self.parts.iter().filter_map(Part::unfilled).collect(),
            None => vec![Unfilled {
                namespace: None,
                error: None,
            }],
            Some(false) if wanted_anyway => {
                let failures = Failures::new(&self.resource, None);
                let detail = "the kind is not installed, and a delayed client waits for it";
                vec![Unfilled {
                    namespace: None,
                    error: Some(failures.of(Step::List, WatchErrorKind::NotFound, detail)),
                }]
            }
            Some(false) => Vec::new(),
            Some(true) => {
                let mut parts: Vec<Unfilled> = self.parts.iter().filter_map(Part::unlisted).collect();
                for part in &mut parts {
                    // A server that has just taken the kind in may not serve it for a moment.
                    part.error = part.error.take().filter(|error| error.kind != WatchErrorKind::NotFound);
                }
                parts
            }
        }
    }
}

/// The informer of a task that has not come to its end; `None` once it has.
struct Unfinished<K: Object>(Option<Weak<Cell<K>>>);

impl<K: Object> Unfinished<K> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl<K: Object> Drop for Unfinished<K> {
    fn drop(&mut self) {
        let Some(cell) = self.0.take().and_then(|cell| cell.upgrade()) else {
            return;
        };
        if std::thread::panicking() {
            tracing::error!(informer = %cell.id, "what keeps an informer current panicked; it is stopped");
        } else {
            cell.env.stop.cancel();
        }
        cell.stop();
        for part in &cell.parts {
            part.status().update(|status| status.watches_open = 0);
        }
    }
}

/// Waits until the kind was listed.
struct Listed<'a, K: Object> {
    shared: &'a Shared<K>,
    ticket: Option<u64>,
}

impl<K: Object> Future for Listed<'_, K> {
    type Output = ();

    /// On `Pending` the shared state keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.shared.poll_listed(&mut this.ticket, cx)
    }
}

impl<K: Object> Drop for Listed<'_, K> {
    fn drop(&mut self) {
        self.shared.forget(self.ticket);
    }
}

/// Waits until a handler has no initial events left.
struct Settled<K: Object> {
    queue: Arc<HandlerQueue<K>>,
    ticket: Option<u64>,
}

impl<K: Object> Future for Settled<K> {
    type Output = ();

    /// On `Pending` the queue keeps the waker under our ticket.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.queue.poll_settled(&mut this.ticket, cx)
    }
}

impl<K: Object> Drop for Settled<K> {
    fn drop(&mut self) {
        self.queue.forget(self.ticket);
    }
}
