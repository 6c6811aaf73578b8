//! Event handlers: the trait, its ready-made forms, and what can be chosen when one is registered.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::event::Event;

/// Receives the changes of one informer, on a task of its own.
///
/// Closures come as [`on_event`], [`on_batch`] and [`on_event_async`]; implement the trait for anything else.
///
/// # Contract
///
/// 1. A synchronous handler must not block: it runs on a worker of the async runtime (cannot be checked).
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
pub fn on_event_async<K, F, Fut>(f: F) -> impl EventHandler<K>
where
    K: Send + Sync + 'static,
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    PerEventAsync(f)
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

/// What can be chosen for a handler.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// The name in logs and in [`Client::stats`](crate::Client::stats). Default: `handler`.
    pub name: Cow<'static, str>,
    /// Pending events beyond which a key's events are merged to their net effect. Default: 1,024.
    ///
    /// The memory of a handler that lags is bounded by this number plus two events per key.
    pub coalesce_above: usize,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            name: Cow::Borrowed("handler"),
            coalesce_above: 1024,
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
}
