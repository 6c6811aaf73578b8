//! A client under test: at its end it asserts that nothing is left.

use std::fmt;
use std::ops::Deref;

use fake_apiserver::FakeApiServer;
use serde::Serialize;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::eventually::{PATIENCE, assert_eventually};
use super::server::resource_of;
use crate::client::{Client, ClientBuilder, Stats, SyncOptions};
use crate::key::ObjectKey;
use crate::object::Object;

/// A [`Client`] for a test, which has to be [`end`](Self::end)ed once it was started: that is where leaks show.
///
/// Dereferences to the client, so it is used like one.
///
/// # Panics
///
/// When it is dropped while it runs, without one of its ends, unless the test fails already: an asserting end that can be
/// forgotten is none. A client that only read and wrote may just be dropped.
pub struct TestClient {
    // Invariant: `None` only once it was ended.
    client: Option<Client>,
    server: Option<FakeApiServer>,
}

impl TestClient {
    /// A client over an in-memory server of its own: [`server`](Self::server) is it.
    pub fn fake() -> Self {
        Self::on(&FakeApiServer::new())
    }

    /// A client over an in-memory server of its own that holds these objects from the start, in one kind or as JSON; more go
    /// in with [`load`](Self::load). They need `apiVersion` and `kind`, as all Kubernetes types write them. Their namespaces
    /// are made, unless they are among the objects. Those of a custom kind need its definition among them:
    /// `with_objects([json!(Site::crd()), json!(site)])`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_client::InformerOptions;
    /// use kube_client::testing::TestClient;
    ///
    /// let mut settings = ConfigMap::default();
    /// settings.metadata.name = Some("settings".into());
    /// settings.metadata.namespace = Some("shop".into());
    ///
    /// let client = TestClient::with_objects([settings]);
    /// let maps = client.informers().typed::<ConfigMap>(InformerOptions::default())?;
    /// client.sync().await;
    /// assert!(maps.get(&"shop/settings".parse()?).is_some());
    /// client.end().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the server refuses an object, with its reason.
    #[track_caller]
    pub fn with_objects(objects: impl IntoIterator<Item = impl Serialize>) -> Self {
        let server = objects
            .into_iter()
            .try_fold(FakeApiServer::builder(), |server, object| server.object(&object));
        match server.and_then(fake_apiserver::Builder::build) {
            Ok(server) => Self::on(&server),
            Err(error) => panic!("the in-memory server does not take what it should hold: {error}"),
        }
    }

    /// A client over this in-memory server, which nobody else watches at the end of the test.
    pub fn on(server: &FakeApiServer) -> Self {
        Self::build_on(server, ClientBuilder::default())
    }

    /// [`on`](Self::on) with options of the client; their source of configuration is ignored.
    ///
    /// # Panics
    ///
    /// If the client cannot be built: outside of a tokio runtime, or with an invalid user agent.
    pub fn build_on(server: &FakeApiServer, options: ClientBuilder) -> Self {
        let kube = kube::Client::new(server.service(), "default");
        let client = options
            .build_with(kube)
            .unwrap_or_else(|error| panic!("the client cannot be built: {error}"));
        Self {
            client: Some(client),
            server: Some(server.clone()),
        }
    }

    /// Any other client, for example on a real server, or one of several on an in-memory server.
    pub fn new(client: Client) -> Self {
        Self {
            client: Some(client),
            server: None,
        }
    }

    /// The in-memory server.
    ///
    /// # Panics
    ///
    /// If this client was made by [`new`](Self::new).
    pub fn server(&self) -> &FakeApiServer {
        self.server.as_ref().expect("this client was made without its server")
    }

    /// Puts an object into the in-memory server without a request, with the status that it has; watches see it like any other.
    /// It needs `apiVersion` and `kind`. Its namespace is made if it does not exist.
    ///
    /// # Panics
    ///
    /// If the server refuses the object, as one that is there already, with its reason; or if this client was made by [`new`](Self::new).
    #[track_caller]
    pub fn load(&self, object: &impl Serialize) {
        if let Err(error) = self.server().load(object) {
            panic!("the in-memory server does not take the object: {error}");
        }
    }

    /// Removes an object from the in-memory server without a request, at once and for good, finalizers or not; watches see it like
    /// any other delete. The counterpart of [`load`](Self::load).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_client::testing::{EventLog, TestClient};
    /// use serde_json::json;
    ///
    /// let client = TestClient::fake();
    /// client.load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}));
    /// let maps = client.informers().typed::<ConfigMap>(Default::default())?;
    /// let log = EventLog::new();
    /// log.register(&maps);
    /// client.sync().await;
    /// client.delete::<ConfigMap>(&"shop/a".parse()?);
    /// let events = log.wait_for(2).await;
    /// assert_eq!(format!("{:?}", events[1]), "Deleted(shop/a, stale: false)");
    /// client.end().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such object, or if this client was made by [`new`](Self::new).
    #[track_caller]
    pub fn delete<K: Object<DynamicType: Default>>(&self, key: &ObjectKey) {
        let resource = resource_of::<K>();
        let removed = self.server().remove(&resource, key.namespace(), key.name());
        assert!(removed, "the in-memory server has no {resource} {key} to delete");
    }

    /// Starts every informer and waits until each cache is filled, as [`Client::run_and_wait`] does. The token that stops the
    /// client is still for the code under test to give.
    ///
    /// # Panics
    ///
    /// If they do not fill within 30 s on tokio's clock, with the state of each, or if the client is stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; what was started goes on.
    pub async fn sync(&self) {
        self.start();
        let never = CancellationToken::new();
        let filled = self.wait_filled(&never, SyncOptions::default());
        match timeout(PATIENCE, filled).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("the caches do not fill: {error}"),
            Err(Elapsed { .. }) => panic!("the caches do not fill within {PATIENCE:?}: {}", states(&self.stats())),
        }
    }

    /// Shuts the client down and asserts that nothing is left: no task, no open watch, no handler, and on the in-memory server
    /// of [`fake`](Self::fake) and [`on`](Self::on) no watch either.
    ///
    /// On a paused clock the 30 s pass at once while a thread is waited for: where a
    /// [`BlockingHandler`](crate::BlockingHandler) may be in a call, await [`Client::shutdown`] before.
    ///
    /// # Panics
    ///
    /// If anything is left 30 s later on tokio's clock; the text names it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; the shutdown goes on.
    pub async fn end(mut self) {
        let Some(client) = self.client.take() else { return };
        let ended = timeout(PATIENCE, client.shutdown()).await;
        assert!(
            ended.is_ok(),
            "the shutdown does not end within {PATIENCE:?}: {}",
            states(&client.stats())
        );
        assert_nothing_left(&client.stats());
        if let Some(server) = &self.server {
            assert_no_watches(server).await;
        }
    }

    /// Drops the client, which has to be the last clone, and asserts that everything ends by itself.
    ///
    /// # Panics
    ///
    /// If a clone is left somewhere, or anything still runs 30 s later on tokio's clock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; the client is gone all the same.
    pub async fn drop_and_assert_idle(mut self) {
        let Some(client) = self.client.take() else { return };
        let core = client.downgrade();
        drop(client);
        assert!(core.is_stopped(), "a clone of the client is left, so it goes on");
        let stats = assert_eventually("no tasks", async || core.stats(), |stats| stats.tasks == 0).await;
        assert_nothing_left(&stats);
        if let Some(server) = &self.server {
            assert_no_watches(server).await;
        }
    }
}

fn assert_nothing_left(stats: &Stats) {
    assert!(
        stats.tasks == 0 && stats.watches_open() == 0 && stats.handlers() == 0,
        "left after the end: {} tasks; {}",
        stats.tasks,
        states(stats)
    );
}

/// One phrase for each informer.
fn states(stats: &Stats) -> String {
    let one = |stats: &crate::InformerStats| {
        let handlers: Vec<&str> = stats.handlers.iter().map(|handler| handler.name.as_str()).collect();
        format!(
            "{} is {} with {} watches and handlers {handlers:?}, last failure: {}",
            stats.informer,
            stats.phase,
            stats.watches_open,
            stats.last_error.as_ref().map_or("none", |error| &error.message)
        )
    };
    stats.informers.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Asserts that nobody watches the in-memory server, at latest 30 s from now on tokio's clock. For tests with several clients
/// on one server, once all have ended.
///
/// # Panics
///
/// If a watch stays open.
///
/// # Cancel safety
///
/// Dropping the future loses nothing.
pub async fn assert_no_watches(server: &FakeApiServer) {
    let closed = timeout(PATIENCE, server.wait_for_no_watches()).await;
    assert!(
        closed.is_ok(),
        "{} watches stay open at the server",
        server.open_watches_total()
    );
}

impl Deref for TestClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
            .as_ref()
            .expect("only the ends take the client out, and they take `self`")
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        let Some(client) = &self.client else { return };
        let stats = client.stats();
        assert!(
            stats.tasks == 0 || std::thread::panicking(),
            "a TestClient was dropped without `end` while it runs, so nothing was asserted of what it leaves: {}",
            states(&stats)
        );
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
