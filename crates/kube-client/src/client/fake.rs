//! `Client::fake`: this client over the in-memory API server, for tests and examples without a cluster.

use fake_apiserver::{BuildError, Builder, FakeApiServer};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::client::{Client, ClientBuilder};
use crate::error::ClientError;

/// A fake client could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FakeError {
    /// The in-memory server refuses an object, as a real one would.
    #[error("the in-memory server does not accept the object")]
    Object(#[source] BuildError),
    /// The client itself could not be built.
    #[error("the client could not be built")]
    Client(#[source] ClientError),
}

impl Client {
    /// A client over an in-memory API server that holds these objects. They need `apiVersion` and `kind`, as all
    /// Kubernetes types write them; for objects of several types use [`fake_builder`](Self::fake_builder). Their
    /// namespaces are made.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_client::{Client, InformerOptions};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let mut settings = ConfigMap::default();
    /// settings.metadata.name = Some("settings".into());
    /// settings.metadata.namespace = Some("default".into());
    ///
    /// let client = Client::fake([settings])?;
    /// let maps = client.informers().typed::<ConfigMap>(InformerOptions::default())?;
    /// client.run_and_wait(&CancellationToken::new()).await?;
    /// assert_eq!(maps.len(), 1);
    /// client.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`FakeError`] for an object that the server refuses, or outside of a tokio runtime.
    pub fn fake(objects: impl IntoIterator<Item = impl Serialize>) -> Result<Self, FakeError> {
        let mut builder = Self::fake_builder();
        for object in objects {
            builder = builder.object(&object)?;
        }
        builder.build()
    }

    /// Builds a client over an in-memory API server with other than the default choices.
    pub fn fake_builder() -> FakeClientBuilder {
        FakeClientBuilder::default()
    }
}

/// Builds a [`Client`] over an in-memory API server; made by [`Client::fake_builder`].
#[derive(Debug, Default)]
pub struct FakeClientBuilder {
    server: Option<FakeApiServer>,
    // Options and objects of a new server.
    new_server: Builder,
    client: ClientBuilder,
}

impl FakeClientBuilder {
    /// Uses this server, so that the test can look into it, inject faults, or share it among clients. The objects
    /// given to this builder are added to it.
    #[must_use]
    pub fn server(mut self, server: &FakeApiServer) -> Self {
        self.server = Some(server.clone());
        self
    }

    /// Adds an object that exists from the start. Its namespace is made if it does not exist; a
    /// [`server`](Self::server) given before has the object at once, so that its namespace, if it is to have labels,
    /// comes first.
    ///
    /// # Errors
    ///
    /// [`FakeError::Object`] if it does not become JSON, or the server given refuses it.
    pub fn object(mut self, object: &impl Serialize) -> Result<Self, FakeError> {
        match &self.server {
            Some(server) => server.load(object).map_err(FakeError::Object)?,
            None => self.new_server = self.new_server.object(object).map_err(FakeError::Object)?,
        }
        Ok(self)
    }

    /// Sets the options of the client itself; its source of configuration is ignored.
    #[must_use]
    pub fn client(mut self, client: ClientBuilder) -> Self {
        self.client = client;
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    ///
    /// [`FakeError`] for an object that the server refuses, or outside of a tokio runtime.
    pub fn build(self) -> Result<Client, FakeError> {
        // The connection spawns on the current runtime.
        Handle::try_current().map_err(|_| FakeError::Client(ClientError::NoRuntime))?;
        let server = match self.server {
            Some(server) => server,
            None => self.new_server.build().map_err(FakeError::Object)?,
        };
        let kube = kube::Client::new(server.service(), "default");
        self.client.build_with(kube).map_err(FakeError::Client)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::informer::options::InformerOptions;
    use crate::testing::{TestClient, assert_eventually, assert_no_watches};

    #[tokio::test]
    async fn objects_bring_their_namespaces() {
        let mut settings = ConfigMap::default();
        settings.metadata.name = Some("settings".to_owned());
        settings.metadata.namespace = Some("shop".to_owned());
        let server = FakeApiServer::new();
        let builder = Client::fake_builder().server(&server).object(&settings).unwrap();
        assert!(server.object("namespaces", None, "shop").is_some());
        assert!(server.object("configmaps", Some("shop"), "settings").is_some());
        let client = TestClient::new(builder.build().unwrap());
        client.sync().await;
        client.end().await;
    }

    // A server given before has what it is given at once, so that the client shares it with others.
    #[tokio::test(start_paused = true)]
    async fn clients_share_a_server_and_each_has_its_options() {
        let server = FakeApiServer::new();
        let build = |id: &str| {
            let options = ClientBuilder::default().cluster_id(id);
            let client = Client::fake_builder().server(&server).client(options).build();
            TestClient::new(client.unwrap())
        };
        let (one, other) = (build("one"), build("other"));
        assert_eq!((one.cluster_id(), other.cluster_id()), ("one", "other"));
        let maps = one.informers().typed::<ConfigMap>(InformerOptions::default()).unwrap();
        one.sync().await;
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap {
            metadata,
            ..ConfigMap::default()
        };
        let api = kube::Api::<ConfigMap>::namespaced(other.kube().clone(), "default");
        api.create(&kube::api::PostParams::default(), &map).await.unwrap();
        assert_eventually("the other one's map", async || maps.len(), |len| *len == 1).await;
        one.end().await;
        other.end().await;
        assert_no_watches(&server).await;
    }

    #[test]
    fn outside_of_a_runtime_there_is_no_client() {
        let error = Client::fake_builder().build().unwrap_err();
        assert!(matches!(error, FakeError::Client(ClientError::NoRuntime)), "{error:?}");
    }
}
