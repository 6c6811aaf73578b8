//! What all parts of one client share: the connection, the runtime, the tasks and the stop token.
//!
//! Tasks hold this, never the client itself, so that dropping the last client ends them.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Tune;
use crate::error::{WatchError, WatchErrorKind};
use crate::informer::deferred::discard;
use crate::informer::options::Namespaces;
use crate::informer::reflector::{Helpers, Packed};
use crate::informer::{InformerId, metrics};

/// Called with each failure of each informer.
pub(crate) type WatchErrorHandler = Arc<dyn Fn(&InformerId, &WatchError) + Send + Sync>;

pub(crate) struct Environment {
    // The connection that informers use: without retries of its own, so that each failure shows at once.
    pub(crate) kube: kube::Client,
    // What each request of an informer waits for first: its connection has no limit of its own, so that waiting for the
    // limit and waiting for the server are two things.
    pub(crate) limit: Tune,
    // Which answers the informers ask for packed.
    pub(crate) packed: Packed,
    pub(crate) cluster: Arc<str>,
    // What informers of namespaced kinds may cover.
    pub(crate) namespaces: Namespaces,
    pub(crate) on_watch_error: Option<WatchErrorHandler>,
    // Threads that help to decode lists.
    pub(crate) helpers: Helpers,
    // Notified when an informer appears, fills, fails or stops.
    pub(crate) changed: Arc<Notify>,
    // The metrics' meaning was told to the recorder.
    pub(crate) described: Once,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) runtime: Handle,
}

/// The function is the user's, and goes with whatever held the client last.
impl Drop for Environment {
    fn drop(&mut self) {
        discard(self.on_watch_error.take());
    }
}

impl Environment {
    /// Runs a task that `shutdown` waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.tasks.spawn_on(task, &self.runtime)
    }

    /// Runs `work` on a thread of its own that `shutdown` waits for, in the context of the runtime.
    pub(crate) fn spawn_thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (counted, runtime) = (self.tasks.token(), self.runtime.clone());
        let thread = std::thread::Builder::new().name(name.replace('\0', " "));
        thread.spawn(move || {
            let _counted = counted;
            let _context = runtime.enter();
            work();
        })?;
        Ok(())
    }

    /// The span of everything that happens for one informer, or for one of the namespaces it covers.
    pub(crate) fn span(&self, informer: &InformerId, namespace: Option<&str>) -> tracing::Span {
        tracing::info_span!("informer", gvr = %informer.resource, %informer, cluster = %self.cluster, namespace)
    }

    /// Tells the metrics recorder, once, what the metrics mean.
    pub(crate) fn describe_metrics(&self) {
        metrics::describe(&self.described);
    }

    /// Logs a failure and gives it to the user's handler, panics contained.
    pub(crate) fn report(&self, informer: &InformerId, error: &WatchError) {
        if error.kind == WatchErrorKind::Undecodable {
            // Nothing mends it but another version of the object.
            tracing::error!(%informer, cluster = %self.cluster, step = %error.step, "{error}");
        } else {
            tracing::warn!(%informer, cluster = %self.cluster, step = %error.step, "{error}");
        }
        if let Some(handler) = &self.on_watch_error
            && catch_unwind(AssertUnwindSafe(|| handler(informer, error))).is_err()
        {
            tracing::error!(%informer, cluster = %self.cluster, "the watch error handler panicked");
        }
    }
}
