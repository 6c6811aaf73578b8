//! The public handles of a view and of what it holds back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Held, Pace, Replica};
use crate::faults::PATIENCE;
use crate::server::{FakeApiServer, Shared};
use crate::service::FakeService;
use crate::stored::key_of;

/// One server of a cluster of several, which may be behind the others: what a client meets that is sent to another server behind
/// a load balancer. Made by [`FakeApiServer::view`]; a cheap handle.
///
/// All views share one log. A view follows it at once until it is told otherwise: [`freeze`](Self::freeze) and
/// [`freeze_at`](Self::freeze_at) let it stand still, [`lag`](Self::lag) lets it see everything later, [`hold`](Self::hold) keeps
/// the changes of one object back.
///
/// # Guarantees
/// What a client sees through a view could happen on a real cluster:
/// - Through the view, watches, and reads with resourceVersion `0`, show what the view has got to. A bookmark never says more.
/// - A read that asks for a resourceVersion that the view has not got to (`Exact`, `NotOlderThan`, a continue token) waits for it,
///   for three seconds on tokio's clock; then it is refused with 504, `Too large resource version`. A watch from such a version
///   is silent until the view gets there.
/// - Reads without a resourceVersion are consistent: they show every write before them. A list waits for the view first, for at
///   most three seconds, as a real server does before it asks the store. Watches that begin with the state of an unset
///   resourceVersion show what the view has got to, unless they say `sendInitialEvents`: those wait, and end with the error 504
///   if they wait in vain.
/// - Writes go to the log at once. So do all reads of `events`, which real servers do not cache.
/// - What a view has shown of a resource it does not take back. Each watch has all events of its resource in order, each once.
///
/// The history is that of the log: compaction takes a view that stands still along to the oldest state that is remembered, and
/// ends its watches that have not got there, as on a server that has lost its place in the store and lists anew. A
/// [`restore`](FakeApiServer::restore) takes back all views. Which kinds there are, every view knows at once.
///
/// Faults meet requests to views as all others; a [`Rule`](crate::Rule) may be for one [`view`](crate::Rule::view).
///
/// # Examples
/// ```
/// # use bytes::Bytes;
/// # use fake_apiserver::{FakeApiServer, FakeService};
/// # use http_body_util::{BodyExt as _, Full};
/// # use tower::ServiceExt as _;
/// # async fn get(service: FakeService, uri: &str) -> String {
/// #     let answer = service.oneshot(http::Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await.unwrap();
/// #     String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
/// # }
/// # async fn create(service: FakeService, name: &str) {
/// #     let body = Full::new(Bytes::from(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)));
/// #     let request = http::Request::post("/api/v1/namespaces/default/configmaps").body(body).unwrap();
/// #     assert_eq!(service.oneshot(request).await.unwrap().status(), 201);
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let fake = FakeApiServer::new();
/// let stale = fake.view("stale"); // With `kube`: `kube::Client::new(stale.service(), "default")`.
/// stale.freeze();
/// create(stale.service(), "settings").await;
///
/// let list = "/api/v1/configmaps?resourceVersion=0";
/// assert!(get(fake.service(), list).await.contains("settings"));
/// assert!(!get(stale.service(), list).await.contains("settings"));
/// stale.thaw();
/// assert!(get(stale.service(), list).await.contains("settings"));
/// # }
/// ```
#[derive(Clone)]
pub struct ServerView {
    shared: Arc<Shared>,
    replica: Arc<Replica>,
}

impl ServerView {
    pub(crate) fn new(shared: Arc<Shared>, replica: Arc<Replica>) -> Self {
        Self { shared, replica }
    }

    /// The name of the view.
    pub fn name(&self) -> &str {
        self.replica.name()
    }

    /// The view as a service, for `kube::Client::new(view.service(), "default")`.
    pub fn service(&self) -> FakeService {
        FakeService::through(Arc::clone(&self.shared), Arc::clone(&self.replica))
    }

    /// The resourceVersion that the view has got to; a resource of which it [holds](Self::hold) an event back is behind that.
    pub fn resource_version(&self) -> u64 {
        self.replica.reached(&self.shared.storage)
    }

    /// Lets the view stand still where it is, and gives that resourceVersion. What is [held](Self::hold) is from before that, and
    /// still comes when it is released.
    pub fn freeze(&self) -> u64 {
        let mut at = 0;
        self.replica.set_pace(&self.shared.storage, |reached| {
            at = reached;
            Pace::UpTo(reached)
        });
        at
    }

    /// Lets the view follow the log up to a resourceVersion, which may be yet to come, and stand still there. Where the view is
    /// further already, it stays: a view never goes back. Call it again to go on step by step.
    pub fn freeze_at(&self, resource_version: u64) {
        self.replica
            .set_pace(&self.shared.storage, |_| Pace::UpTo(resource_version));
    }

    /// Lets the view see each write that long after it was made, on tokio's clock. Writes before the first call of this on any view
    /// count as old.
    pub fn lag(&self, lag: Duration) {
        self.shared.storage.keep_times();
        self.replica.set_pace(&self.shared.storage, |_| Pace::Lag(lag));
    }

    /// Lets the view follow the log at once again. What is held stays held.
    pub fn thaw(&self) {
        self.replica.set_pace(&self.shared.storage, |_| Pace::Follow);
    }

    /// Keeps the next change of an object back that the view has not seen yet: its creation, a change, or its removal. The object
    /// need not exist. Cluster-scoped objects have no namespace. Several holds may be in force at once.
    ///
    /// # Guarantees
    /// The order of events stays as it is. So all later changes of the *same resource*, as of all pods, are kept back too, from all
    /// watches and reads of this view, until the hold is released: the cache of this resource on this server stands still. Other
    /// resources, and other views, go on. What was kept back then comes at once, each event in its place.
    ///
    /// The hold is for every later change as well, until it is [released](HoldHandle::release); dropping the handle leaves it in
    /// force. If compaction takes a change from the log that is held, the view has seen it then.
    ///
    /// # Panics
    /// If no such resource, as `pods` or `deployments.apps`, is served, or if it is not cached: there is nothing to hold for `events`.
    pub fn hold(&self, resource: &str, namespace: Option<&str>, name: &str) -> HoldHandle {
        let server = FakeApiServer {
            shared: Arc::clone(&self.shared),
        };
        let Some((found, id)) = server.find(resource) else {
            panic!("no resource {resource:?} is served (those of a group have it in the name, as `deployments.apps`)");
        };
        assert!(found.is_cached(), "events are not cached, so that none can be held");
        let number = self.replica.hold(&self.shared.storage, id, key_of(namespace, name));
        HoldHandle {
            view: self.clone(),
            number,
        }
    }

    /// Releases everything that the view holds.
    pub fn release_all(&self) {
        self.replica.release_all();
    }
}

impl fmt::Debug for ServerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerView")
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}

/// What a view holds back; made by [`ServerView::hold`]. A cheap handle; dropping it leaves the hold in force.
#[derive(Clone, Debug)]
pub struct HoldHandle {
    view: ServerView,
    number: u64,
}

impl HoldHandle {
    /// The resourceVersion of the change that is held; none if there is none yet, or if the hold was released.
    pub fn held(&self) -> Option<u64> {
        let view = &self.view;
        match view.replica.held(&view.shared.storage, self.number) {
            Held::Change(rv) => Some(rv),
            Held::Nothing | Held::Released => None,
        }
    }

    /// Lets through what was held, and everything behind it.
    pub fn release(&self) {
        self.view.replica.release(self.number);
    }

    /// Waits until a change is held, and gives its resourceVersion.
    ///
    /// # Panics
    /// If that cannot come any more, since the hold was released, and if it does not come for ten minutes on tokio's clock: a
    /// test would wait for ever.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_held(&self) -> u64 {
        let view = &self.view;
        let mut held = Held::Nothing;
        let search = || {
            held = view.replica.held(&view.shared.storage, self.number);
            held != Held::Nothing
        };
        let found = timeout(PATIENCE, view.replica.until(&view.shared.storage, search)).await;
        assert!(
            found.is_ok(),
            "no change has come to be held within {PATIENCE:?}: was the object of this resource, namespace and name written?"
        );
        match held {
            Held::Change(rv) => rv,
            Held::Nothing | Held::Released => panic!("the hold was released before a change came"),
        }
    }
}
