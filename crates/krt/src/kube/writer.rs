//! The writer of statuses: what a status collection says is brought to the API server.
//!
//! Owns when the writer runs, and its settings. `term` is one time of running: what is to be written for a key, and the write. `pace`
//! holds up keys that are written too often.
//!
//! # Design
//!
//! A handler of the statuses puts the keys of what changed into a work queue, and what is to be done for a key is found out when it
//! is its turn: from the newest state of the object and of its status, both of one epoch. So a status that changed several times
//! meanwhile is written once, and a retry writes what is desired by then.
//!
//! The fields are applied (server-side apply) by a field manager of their own. So there is no conflict and no read before the write, and
//! what others write into the same status stays. Whether a write is needed cannot always be told from the object: what there is more in
//! it than is desired may be others', or ours and to be given up. Therefore each combination of a desired and a live status that
//! differ is put to the server once, and what it answers is remembered. That also ends what would be a loop if the server changes what
//! is written.
//!
//! The event of a write comes after its answer. Until then the answer is taken as the live object, so that what follows in between is not
//! decided by an object that is older than our own write.

mod pace;
mod term;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ::kube::Resource;
use kclient::queue::Queue;
use kclient::{Object, Writer};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::term::Term;
use crate::collection::Collection;
use crate::event::Event;
use crate::handlers::Registration;
use crate::status::{Origin, WithStatus};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(30);
/// How long a request that is on its way at the end of a term may go on.
const GRACE: Duration = Duration::from_secs(5);

/// Brings the statuses of a status collection to the API server. It is a cheap clone.
///
/// ```
/// use kclient::WriteClient;
/// use krt::kube::{StatusWriter, conditions};
/// # use krt::kube::conditions::Is;
/// # use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
/// # use kclient::{Client, Filter, ObjectKey, Writer};
/// # use krt::{Krt, Text};
/// # use serde_json::json;
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kube_client::Client::fake_builder().build()?;
/// # let stop = CancellationToken::new();
/// let krt = Krt::builder("example").build();
/// let namespaces = krt.from_client::<Namespace>(&cluster, Filter::default())?;
/// let (statuses, _) = krt.status_collection("phases", &namespaces, |_, namespace| {
///     let is_known = namespace.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("team"));
///     let status = is_known.then(|| NamespaceStatus { phase: Some("Active".to_owned()), conditions: None });
///     (status, None::<Text>)
/// });
/// let writer = StatusWriter::builder("example", WriteClient::new(&cluster), &statuses, |namespace: &Namespace| {
///     namespace.status.as_ref()
/// })
/// .build();
/// krt.start()?;
/// cluster.run_and_wait(&stop).await?;
///
/// // For as long as this program is the leader; `leading` is cancelled when it is no more.
/// let leading = stop.child_token();
/// let running = tokio::spawn({
///     let (writer, leading) = (writer.clone(), leading.clone());
///     async move { writer.run(&leading).await }
/// });
/// # leading.cancel();
/// running.await?;
/// assert!(!writer.stats().is_running);
/// # krt.shutdown().await?;
/// # cluster.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// While it [runs](Self::run):
///
/// - *Level-triggered*: in the end, each object has the status that is desired by then. Of several changes in a row, some may not be
///   written. Keys are written in no order, one key never twice at once.
/// - *Only what changes*: nothing is sent if the live status equals the desired one. If it has more than that, by other field managers or
///   from defaults, the server is asked once for each state of both whether there is something to do. The events of its own writes lead
///   to no further one.
/// - *Without conflicts*: the desired fields are applied by a field manager of the writer's name, with force: a field that another manager
///   has too is taken from it, all others stay. What is desired no more is given up, and is gone if nobody else has it. Fields that
///   serialize as `null` are not desired.
/// - *Never for what is gone*: not for an object that is not in the collection any more, nor for another one of the same name, whose uid is
///   another.
/// - *No status*: when an input that is there gets no status any more, the fields of the writer are given up, once. At the beginning of
///   each run that is done also for objects that have a status, although they are to have none: the one who wrote before may have left it.
///   It takes one request for each such object, unless the [managed fields are kept](kclient::Filter::keep_managed_fields) where the
///   inputs come from, and do not name this writer.
/// - *Retries*: what fails is tried again with back-off, by the work queue of [`kclient::queue`], until it succeeds or there is nothing to
///   write any more.
/// - *Contention*: an object that would be written more than ten times within a minute, with contents that come back, has to wait, longer each
///   time, up to a minute: somebody else undoes what is written, or the desired status follows from the written one. It is
///   counted and logged, with the names. With contents that are new each time it is written at most once a second then, and nothing is logged.
///
/// What is not promised: fields that are right, but were written by somebody else alone, are not made the writer's own.
pub struct StatusWriter<K: Object, S: Send + Sync + 'static> {
    inner: Arc<Inner<K, S>>,
}

/// What a writer is told when it is built, and what it counts.
struct Inner<K: Object, S: Send + Sync + 'static> {
    name: String,
    client: Arc<dyn Writer<K>>,
    statuses: Collection<WithStatus<K, S>>,
    live: Live<K>,
    prepare: Option<Prepare<K, S>>,
    workers: usize,
    counters: Counters,
    /// Held by who runs.
    running: tokio::sync::Mutex<()>,
}

/// Reads the status that an object has, as JSON.
type Live<K> = Box<dyn Fn(&K) -> Result<Value, serde_json::Error> + Send + Sync>;
type Prepare<K, S> = Box<dyn Fn(&K, &mut S) + Send + Sync>;

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    released: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    contended: AtomicU64,
    is_running: AtomicBool,
}

impl Counters {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a writer has done since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StatusStats {
    /// Whether it [runs](StatusWriter::run).
    pub is_running: bool,
    /// Statuses that were applied, those included that changed nothing on the server.
    pub written: u64,
    /// How often all fields of an object were given up, because it is to have no status.
    pub released: u64,
    /// How often a key was looked at and there was nothing to write, or nobody to write it for.
    pub unchanged: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How often a key became contended.
    pub contended: u64,
}

impl<K, S> StatusWriter<K, S>
where
    K: Resource + Object,
    <K as Object>::DynamicType: Default,
    S: Clone + Serialize + Send + Sync + 'static,
{
    /// Describes a writer of these statuses. The name is that of its field manager: no other writer may have it for the same kind, and
    /// it has to stay the same from one version of the program to the next, or what was written before is never given up. `live`
    /// reads the status that an object has.
    ///
    /// # Panics
    ///
    /// If the statuses are not those that [`Krt::status_collection`](crate::Krt::status_collection) or
    /// [`status_many_collection`](crate::Krt::status_many_collection) has made, but a join of such, for example.
    #[track_caller]
    pub fn builder<L: Serialize + ?Sized>(
        name: impl Into<String>,
        client: impl Writer<K> + 'static,
        statuses: &Collection<WithStatus<K, S>>,
        live: impl Fn(&K) -> Option<&L> + Send + Sync + 'static,
    ) -> StatusWriterBuilder<K, S> {
        assert!(
            statuses.metadata::<Origin<K>>().is_some(),
            "{} is no collection of statuses with their inputs",
            statuses.name()
        );
        StatusWriterBuilder {
            inner: Inner {
                name: name.into(),
                client: Arc::new(client),
                statuses: statuses.clone(),
                live: Box::new(move |object| serde_json::to_value(live(object))),
                prepare: None,
                workers: 1,
                counters: Counters::default(),
                running: tokio::sync::Mutex::default(),
            },
        }
    }

    /// Writes until `term` is cancelled: for as long as this program is the leader, or for ever if there is only one of it. It begins with
    /// all statuses there are. When it returns, no request is under way and no handler is left; then, or later, it may be called
    /// again. While another call runs, it waits for the end of that.
    ///
    /// A request that is under way when the term ends has five seconds; what waits is left to the next run, or the next leader.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends it, as the end of the term does, but the server may or may not do what it was asked last.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime with time enabled.
    pub async fn run(&self, term: &CancellationToken) {
        let inner = &self.inner;
        let _running = tokio::select! {
            biased;
            () = term.cancelled() => return,
            running = inner.running.lock() => running,
        };
        let _shown = Shown::new(&inner.counters.is_running);
        let state = Arc::new(Term::new(Arc::clone(inner)));
        let reconcile = Arc::clone(&state);
        let queue = Queue::builder(&*inner.name)
            .concurrency(inner.workers)
            .timeout(REQUEST)
            .grace(GRACE)
            .reconciler(move |key| {
                let state = Arc::clone(&reconcile);
                async move { state.reconcile(&key).await }
            })
            .build();
        let handlers = Handlers::new(inner, &queue);
        let listen = async {
            let leftovers = async {
                handlers.synced().await;
                state.queue_inputs_without_status(&queue).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = term.cancelled() => {}
                () = leftovers => {}
            }
            drop(handlers);
        };
        let (ended, ()) = tokio::join!(queue.run(term), listen);
        if let Err(error) = ended {
            tracing::error!(writer = %inner.name, %error, "a fresh queue did not run, which is a bug of krt");
        }
    }
}

impl<K: Object, S: Send + Sync + 'static> StatusWriter<K, S> {
    /// What it has done.
    pub fn stats(&self) -> StatusStats {
        let counters = &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatusStats {
            is_running: counters.is_running.load(Ordering::Relaxed),
            written: read(&counters.written),
            released: read(&counters.released),
            unchanged: read(&counters.unchanged),
            failed: read(&counters.failed),
            contended: read(&counters.contended),
        }
    }
}

/// Shows that the writer runs, until it is dropped.
struct Shown<'a>(&'a AtomicBool);

impl<'a> Shown<'a> {
    fn new(is_running: &'a AtomicBool) -> Self {
        is_running.store(true, Ordering::Relaxed);
        Self(is_running)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// What puts keys into the queue, until it is dropped.
struct Handlers {
    /// Invariant: `None` in the drop alone.
    statuses: Option<Registration>,
    inputs: Option<Registration>,
}

impl Handlers {
    fn new<K: Object, S: Send + Sync + 'static>(inner: &Inner<K, S>, queue: &Queue) -> Self {
        let name = format!("status writer {}", inner.name);
        let changed = queue.clone();
        let statuses = inner.statuses.handler().name(&*name).on_change(move |event| {
            changed.add(&event.latest().object().metadata().key());
        });
        // The statuses do not tell of the end of an object that has none any more, and what is known of it has to go too.
        let inputs = inner.statuses.metadata::<Origin<K>>().and_then(Origin::inputs);
        let gone = queue.clone();
        let inputs = inputs.map(|inputs| {
            inputs.handler().name(name).without_initial().on_change(move |event| {
                if let Event::Deleted(object) = event {
                    gone.add(&Object::metadata(&**object).key());
                }
            })
        });
        Self {
            statuses: Some(statuses),
            inputs,
        }
    }

    /// Waits until the keys of all statuses that there were are in the queue.
    async fn synced(&self) {
        if let Some(registration) = &self.statuses {
            registration.synced().await;
        }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for registration in [self.statuses.take(), self.inputs.take()].into_iter().flatten() {
            registration.remove();
        }
    }
}

/// Settings of a [`StatusWriter`]; see [`StatusWriter::builder`].
#[must_use = "a builder does nothing by itself"]
pub struct StatusWriterBuilder<K: Object, S: Send + Sync + 'static> {
    inner: Inner<K, S>,
}

impl<K: Object, S: Send + Sync + 'static> StatusWriterBuilder<K, S> {
    /// Completes a desired status by what only the time of writing knows. The function gets the object as it is, and is called before
    /// the two statuses are compared. What it adds has to be the same again once it is written, or there is no end of writing.
    ///
    /// It is the place for the times of [conditions](super::conditions):
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::{Deployment};
    /// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    /// # #[derive(Clone, PartialEq, serde::Serialize)]
    /// # struct Status { conditions: Vec<Condition> }
    /// # fn example(
    /// #     builder: krt::kube::StatusWriterBuilder<Deployment, Status>,
    /// #     live: fn(&Deployment) -> &[Condition],
    /// # ) -> krt::kube::StatusWriterBuilder<Deployment, Status> {
    /// use k8s_openapi::jiff::Timestamp;
    /// use krt::kube::conditions;
    ///
    /// builder.prepare(move |object, status| {
    ///     conditions::merge(live(object), &mut status.conditions, &Time(Timestamp::now()));
    /// })
    /// # }
    /// ```
    pub fn prepare(mut self, prepare: impl Fn(&K, &mut S) + Send + Sync + 'static) -> Self {
        self.inner.prepare = Some(Box::new(prepare));
        self
    }

    /// How many statuses are written at the same time; 1 by default.
    ///
    /// # Panics
    ///
    /// If `workers` is zero.
    pub fn concurrency(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a writer needs at least one worker");
        self.inner.workers = workers;
        self
    }

    /// Makes the writer. It does nothing before it [runs](StatusWriter::run).
    pub fn build(self) -> StatusWriter<K, S> {
        StatusWriter {
            inner: Arc::new(self.inner),
        }
    }
}

impl<K: Object, S: Send + Sync + 'static> Clone for StatusWriter<K, S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Object, S: Send + Sync + 'static> fmt::Debug for StatusWriter<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusWriter")
            .field("name", &self.inner.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl<K: Object, S: Send + Sync + 'static> fmt::Debug for StatusWriterBuilder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusWriterBuilder")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}
