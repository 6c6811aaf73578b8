//! One engine and its handle: building it, starting and ending it, and the constructors of collections.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::collection::Collection;
use crate::engine::operator::derive::{Derive, Input, Outputs};
use crate::engine::store::Equal;
use crate::engine::{Engine, inside};
use crate::error::Error;
use crate::fetch::Context;
use crate::key::Hashing;
use crate::options::Options;
use crate::shared::Shared;
use crate::snapshot::{Live, Snapshot};
use crate::sync::{Mutex, thread};
use crate::traits::Keyed;

/// The options of a [`Krt`].
#[derive(Debug)]
pub struct Builder {
    name: String,
    hashing: Hashing,
}

impl Builder {
    /// Makes the engine. Nothing runs before [`Krt::start`].
    pub fn build(self) -> Krt {
        let shared = Arc::new(Shared::new(self.name.into(), self.hashing));
        let engine = Engine::new(Arc::clone(&shared));
        Krt {
            inner: Arc::new(Inner {
                engine: Mutex::new(Some(Box::new(engine))),
                owner: Owner::Handles,
                shared,
            }),
        }
    }

    #[cfg(test)]
    pub(crate) fn weak_hashes(mut self) -> Self {
        self.hashing = Hashing::weak();
        self
    }
}

/// An engine that keeps collections up to date.
///
/// It is a cheap clone; when the last one is dropped, the engine ends as by [`shutdown`](Self::shutdown), without anybody waiting
/// for it. Do not move one into a transformation: the engine would own itself.
#[derive(Clone)]
pub struct Krt {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// `None` once somebody drives it.
    engine: Mutex<Option<Box<Engine>>>,
    owner: Owner,
}

/// Whose the end of an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// That of the last of these handles.
    Handles,
    /// Somebody else's: these handles are lent to a transformation.
    Others,
}

impl Inner {
    fn close(&self) {
        let pending = self.shared.ingress.close();
        self.shared.pool.stop();
        self.shared.forget_start();
        // What is dropped has handles, whose own ends are told to the ingress: no lock may be held.
        crate::engine::panics::drop_each([pending]);
        let engine = self.engine.lock().take();
        if engine.is_some() {
            crate::engine::panics::drop_each(engine);
            self.shared.set_ended();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owner == Owner::Handles {
            self.close();
        }
    }
}

impl Krt {
    /// Describes an engine. The name is that of its threads, and is logged.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            hashing: Hashing::new(),
        }
    }

    /// Starts the engine's thread and the handlers.
    ///
    /// # Errors
    ///
    /// [`Error::NotStartable`] if it was started before, is driven by a [`Stepper`](crate::testing::Stepper) or has ended;
    /// [`Error::Thread`] if the system has no thread for it: then it may be tried again.
    pub fn start(&self) -> Result<(), Error> {
        let engine = self.take_engine().ok_or(Error::NotStartable)?;
        let shared = Arc::clone(&self.inner.shared);
        // The engine waits where both can reach it, so that it is not lost with a thread that cannot be started.
        let place = Arc::new(Mutex::new(Some(engine)));
        let taken = Arc::clone(&place);
        let work = move || {
            let engine = taken.lock().take();
            if let Some(engine) = engine {
                engine_thread(engine, &shared);
            }
        };
        let name = format!("krt {}", self.inner.shared.name);
        if let Err(error) = thread::spawn(name, work) {
            *self.inner.engine.lock() = place.lock().take();
            return Err(Error::Thread(error.to_string()));
        }
        self.inner.shared.pool.start();
        self.inner.shared.set_started();
        Ok(())
    }

    /// A handle that does not keep the engine.
    pub(crate) fn lent(shared: &Arc<Shared>) -> Self {
        Self {
            inner: Arc::new(Inner {
                shared: Arc::clone(shared),
                engine: Mutex::new(None),
                owner: Owner::Others,
            }),
        }
    }

    pub(crate) fn take_engine(&self) -> Option<Box<Engine>> {
        if self.inner.shared.ingress.is_closed() {
            return None;
        }
        self.inner.engine.lock().take()
    }

    /// Ends the engine without waiting.
    pub(crate) fn end(&self) {
        self.inner.close();
        self.shared().set_ended();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// A collection with at most one object for each of the input's.
    ///
    /// The function is called for an input when the input changed, or anything that it fetched the last time. It should depend on nothing
    /// else.
    ///
    /// # Guarantees
    ///
    /// An object that equals the one before is no change, and nobody is told. If two inputs give an object with the same key, that
    /// of the input with the smaller key counts. If the function panics, the input keeps its last object. A cycle of fetches
    /// is refused in the same way.
    pub fn collection<I, O>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> Option<O> + Send + Sync + 'static,
    ) -> Collection<O>
    where
        I: Keyed,
        O: Keyed + PartialEq,
    {
        self.derive_many(name, input, O::eq, f)
    }

    /// A collection with any number of objects for each of the input's, each with a key of its own.
    ///
    /// # Guarantees
    ///
    /// As [`collection`](Self::collection), for each object by itself. If one call gives two objects with the same key, the first
    /// one counts.
    pub fn many_collection<I, O, M>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> M + Send + Sync + 'static,
    ) -> Collection<O>
    where
        I: Keyed,
        O: Keyed + PartialEq,
        M: IntoIterator<Item = O>,
    {
        self.derive_many(name, input, O::eq, f)
    }

    pub(crate) fn derive_many<I: Keyed, O: Keyed, M: IntoIterator<Item = O>>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        equal: Equal<O>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> M + Send + Sync + 'static,
    ) -> Collection<O> {
        let f = move |cx: &mut Context<'_>, input: &Arc<I>, outputs: &mut Outputs<O>| {
            for output in f(cx, input) {
                outputs.push(Arc::new(output));
            }
        };
        self.derive(name, Input::Collection(input.clone()), equal, f)
    }

    pub(crate) fn derive<I: Keyed, O: Keyed>(
        &self,
        name: impl Into<Options>,
        input: Input<I>,
        equal: Equal<O>,
        f: impl Fn(&mut Context<'_>, &Arc<I>, &mut Outputs<O>) + Send + Sync + 'static,
    ) -> Collection<O> {
        if let Input::Collection(collection) = &input {
            self.check(collection);
        }
        derive(self.shared(), name, input, equal, f)
    }

    /// # Panics
    ///
    /// If the collection is another engine's.
    pub(crate) fn check<T: Keyed>(&self, collection: &Collection<T>) {
        assert!(
            collection.is_of(self.shared()),
            "collection {} belongs to another Krt than {}",
            collection.name(),
            self.shared().name
        );
    }

    /// All collections as of the last published epoch, for as long as it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(self.shared()))
    }

    /// Reads the newest state by queries.
    pub fn live(&self) -> Live {
        Live::new()
    }

    /// Waits until everything that was written before this call is applied, published and handled by all handlers, or until the engine
    /// has ended. What transformations [made](Context::scoped) of it, which comes in later epochs, belongs to it. Before the engine
    /// is started, nothing is applied.
    ///
    /// What was replaced, and the closures of handlers that were removed meanwhile, may be dropped a moment later.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when it is dropped.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        Arc::clone(&self.shared().progress).until(self.is_settled())
    }

    /// A function that tells whether all that was written until now is settled.
    fn is_settled(&self) -> impl FnMut() -> bool + Send + Unpin + use<> {
        let shared = Arc::clone(self.shared());
        let mut written = shared.ingress.written();
        let mut applied_with = None;
        move || {
            let applied = shared.applied();
            if applied_with.is_none() && applied.written >= written {
                // Some of the collections that were made meanwhile may be what this led to.
                written = written.max(shared.ingress.made());
                applied_with = (applied.written >= written).then_some(applied.epoch);
            }
            applied.ended || applied_with.is_some_and(|epoch| shared.is_settled(epoch))
        }
    }

    /// Blocks until [`settled`](Self::settled), for programs without an async runtime.
    ///
    /// # Errors
    ///
    /// [`Error::InsideEngine`] in a transformation or handler, which would wait for itself; [`Error::Timeout`] if the time is up.
    pub fn wait_settled_blocking(&self, timeout: Duration) -> Result<(), Error> {
        if inside::is_inside() {
            return Err(Error::InsideEngine);
        }
        let is_settled = self.is_settled();
        if self.shared().progress.block_until(timeout, is_settled) {
            Ok(())
        } else {
            Err(Error::Timeout(timeout))
        }
    }

    /// Ends the engine and waits for its threads: for the epoch that is being computed, and for handlers that are being called. Nobody is
    /// told anything; collections stay readable while there are handles. An engine that a
    /// [`Stepper`](crate::testing::Stepper) drives ends when that is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::InsideEngine`] in a transformation or handler, which would wait for itself. Nothing is ended then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its first poll it does nothing; afterwards the engine ends all the same.
    pub async fn shutdown(&self) -> Result<(), Error> {
        if inside::is_inside() {
            return Err(Error::InsideEngine);
        }
        self.inner.close();
        let shared = Arc::clone(self.shared());
        let progress = Arc::clone(&shared.progress);
        progress
            .until(move || shared.applied().ended && shared.pool.threads() == 0)
            .await;
        Ok(())
    }
}

/// A collection that is computed from inputs by a function.
pub(crate) fn derive<I: Keyed, O: Keyed>(
    shared: &Arc<Shared>,
    name: impl Into<Options>,
    input: Input<I>,
    equal: Equal<O>,
    f: impl Fn(&mut Context<'_>, &Arc<I>, &mut Outputs<O>) + Send + Sync + 'static,
) -> Collection<O> {
    let sources = match &input {
        Input::Collection(collection) => vec![collection.id()],
        Input::Constant(_) => Vec::new(),
    };
    Collection::add(shared, name, sources, Some(equal), |counters| {
        Box::new(Derive::new(input, Box::new(f), equal, counters))
    })
}

/// The engine's thread: applies what is written until the ingress is closed.
fn engine_thread(mut engine: Box<Engine>, shared: &Arc<Shared>) {
    /// Tells that the engine has ended, however it did.
    struct Ended<'a>(&'a Arc<Shared>);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                tracing::error!(engine = %self.0.name, "the engine panicked, which is a bug of krt: nothing is computed any more");
                crate::engine::panics::drop_each([self.0.ingress.close()]);
            }
            self.0.set_ended();
        }
    }
    let ended = Ended(shared);
    let start = Instant::now();
    while let Some(cut) = shared.ingress.wait(|| start.elapsed()) {
        engine.apply(cut);
        // Mostly those who were told wake on this processor: they go first.
        thread::yield_now();
        engine.drop_values();
    }
    crate::engine::panics::drop_each([engine]);
    drop(ended);
}

impl fmt::Debug for Krt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Krt")
            .field("name", &self.inner.shared.name)
            .finish_non_exhaustive()
    }
}
