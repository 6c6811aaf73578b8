//! Event handlers: the trait, its ready-made forms, and what can be chosen when one is registered.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::event::Event;

/// Receives the changes of one informer, on a task or thread of its own.
///
/// Closures come as [`on_event`], [`on_batch`], [`on_event_async`] and [`on_batch_async`]; [`BlockingHandler`] is for code
/// that blocks, and [`Informer::events`](crate::Informer::events) for code that would rather ask than be called. Implement
/// the trait for anything else.
///
/// # What a handler sees
///
/// One thing holds always: folding the events gives the cache, and each event fits to what the handler was told before.
/// In each case:
///
/// | case | events |
/// | --- | --- |
/// | registered before the first list | `Added { initial: true }` for each object of that list, then changes |
/// | registered later, at any moment, on any thread, in a handler | `Added { initial: true }` for each object cached at that moment, then every later change; nothing twice, nothing left out |
/// | over several namespaces | the same; a namespace's first list is `initial`, whenever it comes, and changes elsewhere may come before it |
/// | a change on the server | `Added { initial: false }`, `Updated { old, new }` or `Deleted { stale: false }`, in the order of the cache |
/// | the object starts, or ceases, to match the informer's selectors | `Added`, or `Deleted { stale: false }`, though it was, or is, there |
/// | deleted and created anew under one name | `Deleted`, then `Added`, never `Updated`; `stale` if the delete itself was not seen |
/// | a fresh list after a break (relist) | only the difference, all of it in one step: unchanged objects say nothing, what vanished is `Deleted { stale: true }` |
/// | the server's storage was restored from a backup | as a relist, but unchanged versions count for nothing: `Updated` to what the server has now, older as it may be, and `Added` for what had been deleted since |
/// | the server refuses the watch for good (403, 404 after the kind was uninstalled, 405) | nothing: the cache stays as it is, and what vanishes meanwhile is told once a list works again. 405 is final. The reason stands in the informer's statistics |
/// | many objects change in one step of the cache, by a relist or a filter | one call or several; with [`whole_steps`](HandlerOptions::whole_steps), one |
/// | the handler lags, up to [`coalesce_above`](HandlerOptions::coalesce_above) changes | every change |
/// | it lags further | the net change per key, at the place of the key's first pending event: at most `Deleted` and then `Added`. `old` is always what the handler was last told; what was added and deleted meanwhile is never told |
/// | [resync](HandlerOptions::resync_every) | `Updated` with `old` and `new` the same `Arc`, per cached object, to this handler alone |
/// | an object that does not decode | nothing; its last good version, if there was one, stays until a good one (`Updated`, or `Added { initial: false }` if there was none) or a delete comes (`Deleted { stale: true }` if what it tells does not decode either). The first sync [does not wait for it](crate::OnUndecodable) |
/// | a panic in the handler | the events of that call count as handled; the next ones come as usual |
/// | a panic in an object's `Drop` | what it would be told anyway; the panic is logged. Of objects that the handler drops itself, it is one in the handler |
/// | the handler is [removed](crate::Registration::remove) | no call begins any more; the running one goes on to its end, and what it was given counts as handled |
/// | the informer stops | no call begins any more, pending events are dropped. An async call is dropped at its next await and did not handle its events; a synchronous or blocking one goes on to its end. No `Deleted` is made up: objects are not gone because we stopped looking |
/// | registered after the stop | nothing, and the registration says so |
///
/// When a call begins, the cache and its indexes hold what its events tell, or something newer. A handler is never called
/// twice at once; handlers of one informer see the same order but run independently: one that is slow, blocked or never
/// returns delays no other, and not the watch. What waits for it is [bounded](HandlerOptions::coalesce_above).
///
/// # Contract
///
/// 1. A synchronous handler must not block: it runs on a worker of the async runtime (cannot be checked). Wrap it in a
///    [`BlockingHandler`] otherwise.
/// 2. A handler that captures a [`Client`](crate::Client) keeps it alive; `Client::shutdown` is then what ends it
///    (cannot be checked).
///
/// # Panics
///
/// A panic counts the events of that call as handled; it is logged, counted, and the next events come as usual.
pub trait EventHandler<K>: Send + 'static {
    /// Handles the next events, oldest first; never empty, at most [`batch_size`](Self::batch_size) long. The next
    /// call starts only after this one is complete.
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a>;

    /// The most events that one call takes. With 1, a panic costs exactly one event.
    fn batch_size(&self) -> usize {
        1
    }

    /// Where the handler is called; asked once.
    fn runs_on(&self) -> RunsOn {
        RunsOn::Task
    }
}

/// Where a handler is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunsOn {
    /// On a task of the async runtime: it must not block.
    #[default]
    Task,
    /// On a thread of its own: see [`BlockingHandler`].
    Thread,
}

/// The outcome of a handler call.
pub enum Handled<'a> {
    /// All done.
    Done,
    /// Done when the future is. On stop it is dropped at its next await; on removal it runs to its end.
    Later(BoxFuture<'a, ()>),
}

impl fmt::Debug for Handled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Handled::Done => "Done",
            Handled::Later(_) => "Later",
        })
    }
}

impl<K: 'static> EventHandler<K> for Box<dyn EventHandler<K>> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        (**self).handle(events)
    }

    fn batch_size(&self) -> usize {
        (**self).batch_size()
    }

    fn runs_on(&self) -> RunsOn {
        (**self).runs_on()
    }
}

/// A handler that may block: it is called on a thread of its own, inside the runtime's context.
///
/// ```
/// # use k8s_openapi::api::core::v1::Node;
/// # fn example(nodes: &kube_client::Informer<Node>) {
/// use kube_client::{BlockingHandler, Event, HandlerOptions, on_batch};
///
/// let write = on_batch(|events: &[Event<Node>]| {
///     let lines: Vec<String> = events.iter().map(|event| format!("{event:?}\n")).collect();
///     std::fs::write("/tmp/nodes.log", lines.concat()).expect("a disk with space");
/// });
/// nodes.add_handler(BlockingHandler::new(write), HandlerOptions::named("log"));
/// # }
/// ```
///
/// # Guarantees
///
/// Those of a handler. The thread starts with the informer and ends with the handler's removal or the stop.
///
/// A call is never interrupted, since a thread cannot be: on a stop no further call begins, and
/// [`Client::shutdown`](crate::Client::shutdown) waits until the one that runs returns, however long it blocks (bound the
/// wait with a timeout of your own; the thread then lives on until the call returns). What it was given counts as handled.
/// Dropping the last client does not wait.
///
/// If the operating system gives no thread, that is logged, and the [`Registration`](crate::Registration) says stopped.
#[derive(Debug)]
pub struct BlockingHandler<H>(H);

impl<H> BlockingHandler<H> {
    /// Calls this handler on a thread of its own. A future that it gives is awaited there.
    pub fn new(handler: H) -> Self {
        Self(handler)
    }
}

impl<K: 'static, H: EventHandler<K>> EventHandler<K> for BlockingHandler<H> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        self.0.handle(events)
    }

    fn batch_size(&self) -> usize {
        self.0.batch_size()
    }

    fn runs_on(&self) -> RunsOn {
        RunsOn::Thread
    }
}

/// A handler that calls `f` for each event.
pub fn on_event<K, F>(f: F) -> impl EventHandler<K>
where
    K: 'static,
    F: FnMut(&Event<K>) + Send + 'static,
{
    PerEvent(f)
}

/// A handler that calls `f` for each batch: what has come since the last call, bounded by a few hundred events.
pub fn on_batch<K, F>(f: F) -> impl EventHandler<K>
where
    K: 'static,
    F: FnMut(&[Event<K>]) + Send + 'static,
{
    PerBatch(f)
}

/// A handler that awaits `f` for each event before the next one.
///
/// `f` gives a new future each time, which must own what it uses: clone what the closure captures before the `async move`, once
/// per event. Clones of handles (an [`Informer`](crate::Informer), an `Arc`, a channel's sender) cost next to nothing.
///
/// ```
/// # use k8s_openapi::api::core::v1::Node;
/// # fn example(nodes: &kube_client::Informer<Node>) {
/// use kube_client::{Event, HandlerOptions, on_event_async};
///
/// let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
/// let pass_on = on_event_async(move |event: Event<Node>| {
///     let sender = sender.clone(); // into the future; the closure keeps its own for the next event
///     async move {
///         // Waits while the channel is full. Nobody else is held up, and what comes meanwhile is merged per object.
///         if sender.send(event.key()).await.is_err() {
///             tracing::debug!("nobody listens any more");
///         }
///     }
/// });
/// nodes.add_handler(pass_on, HandlerOptions::named("pass-on"));
/// # drop(receiver.try_recv());
/// # }
/// ```
pub fn on_event_async<K, F, Fut>(f: F) -> impl EventHandler<K>
where
    K: Send + Sync + 'static,
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    PerEventAsync(f)
}

/// A handler that awaits `f` for each batch before the next one. Its futures own what they use, as those of [`on_event_async`].
pub fn on_batch_async<K, F, Fut>(f: F) -> impl EventHandler<K>
where
    K: Send + Sync + 'static,
    F: FnMut(Vec<Event<K>>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    PerBatchAsync(f)
}

struct PerEvent<F>(F);

impl<K: 'static, F: FnMut(&Event<K>) + Send + 'static> EventHandler<K> for PerEvent<F> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        for event in events {
            (self.0)(event);
        }
        Handled::Done
    }
}

struct PerBatch<F>(F);

impl<K: 'static, F: FnMut(&[Event<K>]) + Send + 'static> EventHandler<K> for PerBatch<F> {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        (self.0)(events);
        Handled::Done
    }

    fn batch_size(&self) -> usize {
        usize::MAX
    }
}

struct PerEventAsync<F>(F);

impl<K, F, Fut> EventHandler<K> for PerEventAsync<F>
where
    K: Send + Sync + 'static,
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        let this = &mut self.0;
        Handled::Later(
            async move {
                for event in events {
                    this(event.clone()).await;
                }
            }
            .boxed(),
        )
    }
}

struct PerBatchAsync<F>(F);

impl<K, F, Fut> EventHandler<K> for PerBatchAsync<F>
where
    K: Send + Sync + 'static,
    F: FnMut(Vec<Event<K>>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        Handled::Later((self.0)(events.to_vec()).boxed())
    }

    fn batch_size(&self) -> usize {
        usize::MAX
    }
}

/// The shortest time between two resyncs: each costs an event per object.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// What can be chosen for a handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// The name in logs and in [`Client::stats`](crate::Client::stats). Default: `handler`.
    pub name: Cow<'static, str>,
    /// Pending events beyond which a key's events are merged to their net effect. Default: 1,024. The initial state and
    /// resyncs do not count towards it.
    ///
    /// This bounds what waits for a handler that lags, or for a stream that is not polled: this many events plus two per key,
    /// besides the at most 256 that it has in hand. A key counts if it is cached, or if the handler was told of its object and
    /// not yet of its end.
    pub coalesce_above: usize,
    /// How often every cached object is told again, as an [`Updated`](Event::Updated) with the same `Arc` as `old` and
    /// `new`, to this handler alone. Default: zero, which means never; what is shorter than a second counts as a second.
    ///
    /// Nothing is fetched: it is the cache that is told again, for handlers that want to look at everything now and then.
    /// It is no initial event, and begins only after the initial state was handled. While one is not wholly handled the
    /// next does not begin, so there is never more than one per key; of those that fall due meanwhile, or before the initial
    /// state was handled, one comes late, as soon as the handler is ready, and the others not at all. A change of an object is told before or after it in the order of the cache, never out of
    /// order. A stream is told when it is polled.
    pub resync_every: Duration,
    /// Whether what changed in one step of the cache may be handed over in parts. Default: it may.
    pub steps: Steps,
}

/// How a handler is given what changed in one step of the cache: a fresh list, say, or what a filter shows from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steps {
    /// In parts of a few hundred events, so that a handler lets its neighbours run.
    #[default]
    Parts,
    /// Never in parts: after each call, what the handler was told is a state that the cache had. For those who keep a copy of it
    /// that others read. The handler's [`batch_size`](EventHandler::batch_size) has to allow it, and a call may take as many
    /// events as there are objects.
    Whole,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            name: Cow::Borrowed("handler"),
            coalesce_above: 1024,
            resync_every: Duration::ZERO,
            steps: Steps::Parts,
        }
    }
}

impl HandlerOptions {
    /// The defaults, under a name.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Sets [`coalesce_above`](Self::coalesce_above).
    #[must_use]
    pub fn coalesce_above(mut self, events: usize) -> Self {
        self.coalesce_above = events;
        self
    }

    /// Sets [`resync_every`](Self::resync_every).
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = period;
        self
    }

    /// Hands over whole steps of the cache: see [`Steps::Whole`].
    #[must_use]
    pub fn whole_steps(mut self) -> Self {
        self.steps = Steps::Whole;
        self
    }

    pub(crate) fn resync_period(&self) -> Option<Duration> {
        (!self.resync_every.is_zero()).then(|| self.resync_every.max(SHORTEST_RESYNC))
    }
}
