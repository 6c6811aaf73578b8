//! One face for both servers: plain HTTP requests through a `kube::Client`.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fake_apiserver::FakeApiServer;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::rig::Rig;
use super::{Answer, Watch};

/// A running API server: the in-memory one, or the kube-apiserver of `KUBECONFIG`.
#[derive(Clone)]
pub(crate) struct Server {
    client: kube::Client,
    fake: Option<FakeApiServer>,
    /// The process of this server, if it has one of its own.
    rig: Option<Arc<Rig>>,
}

/// A request that is not one of the plain ones: `server.request("PATCH", path).body(...).send().await`.
pub(crate) struct Request<'a> {
    server: &'a Server,
    builder: http::request::Builder,
    method: String,
    path: String,
    body: Vec<u8>,
}

/// The number of [`unique`] names that this process has made.
static NAMES: AtomicU32 = AtomicU32::new(0);

/// A lower-case name that nobody else uses, for cluster-scoped objects.
pub(crate) fn unique() -> String {
    let start = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_nanos() & 0xff_ffff_ffff;
    format!("case-{start:x}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

impl Server {
    /// An in-memory server of its own, in this process, with no socket.
    pub(crate) fn fake() -> Server {
        let builder = FakeApiServer::builder().bootstrap_objects(true);
        let fake = builder.build().expect("a server without objects of ours");
        Server {
            client: kube::Client::new(fake.service(), "default"),
            fake: Some(fake),
            rig: None,
        }
    }

    /// The API server that the file of the environment variable `KUBECONFIG` names, with the file's current context.
    pub(crate) async fn real() -> Server {
        let file = std::env::var("KUBECONFIG")
            .expect("set KUBECONFIG to the kubeconfig that `tests/apiserver/bin/apiserver --kubeconfig FILE` writes");
        let config = Kubeconfig::read_from(&file).unwrap_or_else(|error| panic!("KUBECONFIG={file}: {error}"));
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        Server::connect(
            config.unwrap_or_else(|error| panic!("KUBECONFIG={file}: {error}")),
            None,
        )
    }

    /// A kube-apiserver of its own, which forgets the past as soon as it is compacted.
    pub(crate) async fn of_its_own() -> Server {
        let rig = Rig::start(&["--feature-gates", "ListFromCacheSnapshot=false"]).await;
        Server::with_token("token", rig)
    }

    /// A kube-apiserver of its own, as it is by default.
    pub(crate) async fn alone() -> Server {
        Server::with_token("token", Rig::start(&[]).await)
    }

    /// A kube-apiserver of its own, for a user who has no rights.
    pub(crate) async fn without_rights() -> Server {
        let rig = Rig::start(&["--authorization", "RBAC"]).await;
        Server::with_token("userToken", rig)
    }

    /// A kube-apiserver of its own that asks for rights, for its administrator.
    pub(crate) async fn with_rights() -> Server {
        let rig = Rig::start(&["--authorization", "RBAC"]).await;
        Server::with_token("token", rig)
    }

    /// The same server for the user "nobody", who has the rights that were given to that name.
    pub(crate) fn as_nobody(&self) -> Server {
        let rig = self.rig.as_ref().expect("only a server of its own has other users");
        let mut nobody = Server::connect(Server::config("userToken", rig), None);
        nobody.rig = Some(Arc::clone(rig));
        nobody
    }

    fn with_token(key: &str, rig: Rig) -> Server {
        Server::connect(Server::config(key, &rig), Some(rig))
    }

    fn config(key: &str, rig: &Rig) -> kube::Config {
        let url = format!("https://127.0.0.1:{}", rig.ready["port"]);
        let mut config = kube::Config::new(url.parse().expect("a URL"));
        config.accept_invalid_certs = true; // our own process, on loopback
        config.auth_info.token = Some(rig.text(key).to_owned().into());
        config
    }

    fn connect(mut config: kube::Config, rig: Option<Rig>) -> Server {
        config.default_retry = false; // the cases are about the first answer
        let client = kube::Client::try_from(config).expect("a client");
        Server {
            client,
            fake: None,
            rig: rig.map(Arc::new),
        }
    }

    /// Forgets all versions before this one. Only for a server of its own.
    pub(crate) async fn compact(&self, version: u64) {
        if let Some(fake) = &self.fake {
            fake.compact(version);
            return;
        }
        let rig = self.rig.as_ref().expect("only a server of its own is compacted");
        let url = format!("http://{}", rig.text("etcd"));
        let store = Server::connect(kube::Config::new(url.parse().expect("a URL")), None);
        let compaction = json!({"revision": version.to_string(), "physical": true});
        store.post("/v3/kv/compaction", &compaction).await.ok();
    }

    /// The in-memory server, if this is it.
    pub(crate) fn in_memory(&self) -> Option<&FakeApiServer> {
        self.fake.as_ref()
    }

    /// The client that all requests go through.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// A namespace that nobody else uses.
    pub(crate) async fn namespace(&self) -> Namespace {
        let name = unique();
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .await
            .created();
        Namespace {
            server: self.clone(),
            name,
        }
    }

    /// A request with full control over its headers and body. `path` holds the query too.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request<'_> {
        let builder = http::Request::builder().method(method).uri(path);
        Request {
            server: self,
            builder,
            method: method.to_owned(),
            path: path.to_owned(),
            body: Vec::new(),
        }
    }

    /// A plain GET.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send().await
    }

    /// A POST of JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path).json(body).send().await
    }

    /// A PUT of JSON.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.request("PUT", path).json(body).send().await
    }

    /// A DELETE without a body.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path).send().await
    }

    /// A DELETE with `DeleteOptions`.
    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.request("DELETE", path).json(options).send().await
    }

    /// A JSON merge patch.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.patch("application/merge-patch+json", path, patch).await
    }

    /// A JSON patch (RFC 6902).
    pub(crate) async fn json_patch(&self, path: &str, patch: &Value) -> Answer {
        self.patch("application/json-patch+json", path, patch).await
    }

    /// A patch of any type.
    pub(crate) async fn patch(&self, content_type: &str, path: &str, patch: &Value) -> Answer {
        self.request("PATCH", path)
            .body(content_type, patch.to_string())
            .send()
            .await
    }

    /// Opens a watch, whose answer must be 200. `path` holds the query, `watch=1` included.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let request = self.request("GET", path);
        let described = format!("GET {path}");
        let response = request.start().await;
        let code = response.status().as_u16();
        if code != 200 {
            let body = response.into_body().collect_bytes().await.unwrap_or_default();
            panic!("{described} -> {code} {}", String::from_utf8_lossy(&body));
        }
        Watch::new(described, response)
    }

    /// The server's newest resource version, as a list of one small kind tells it.
    pub(crate) async fn current_version(&self) -> u64 {
        let list = self.get("/apis/node.k8s.io/v1/runtimeclasses").await.ok();
        version(&list)
    }
}

/// The resource version of an object or list, as a number.
#[track_caller]
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no numeric resource version: {object}"))
}

impl Request<'_> {
    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// Sets the body and its content type.
    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Sets the body alone, without a content type.
    pub(crate) fn raw(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a body of JSON.
    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sends the request and reads the answer to its end.
    pub(crate) async fn send(self) -> Answer {
        let request = format!("{} {}", self.method, self.path);
        let response = self.start().await;
        let (head, body) = response.into_parts();
        let body: Bytes = limited(&request, body.collect_bytes())
            .await
            .unwrap_or_else(|e| panic!("{request}: {e}"));
        Answer {
            request,
            code: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    /// As [`send`](Self::send), for requests that may break the server's connection: nothing then. With `only_head` the
    /// body of an answer with code 200 is left unread: it may be a watch, without end.
    pub(crate) async fn attempt(self, only_head: bool) -> Option<Answer> {
        let described = format!("{} {}", self.method, self.path);
        let sent = limited(&described, Box::pin(self.try_start())).await;
        let (head, body) = sent.ok()?.into_parts();
        let body = if only_head && head.status == http::StatusCode::OK {
            Bytes::new()
        } else {
            limited(&described, body.collect_bytes()).await.ok()?
        };
        Some(Answer {
            request: described,
            code: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    /// Sends the request and looks only at the code of the answer.
    pub(crate) async fn code(self) -> u16 {
        self.start().await.status().as_u16()
    }

    async fn start(self) -> http::Response<Body> {
        let described = format!("{} {}", self.method, self.path);
        limited(&described, Box::pin(self.try_start()))
            .await
            .unwrap_or_else(|e| panic!("{described}: {e}"))
    }

    async fn try_start(self) -> kube::Result<http::Response<Body>> {
        let request = self.builder.body(Body::from(self.body));
        let request = request.unwrap_or_else(|e| panic!("{} {}: {e}", self.method, self.path));
        self.server.client.send(request).await
    }
}

/// A namespace of one case.
#[derive(Clone)]
pub(crate) struct Namespace {
    server: Server,
    name: String,
}

impl Namespace {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The path of a core kind's objects here: `at("pods")`, `at("pods/a?dryRun=All")`.
    pub(crate) fn at(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.name)
    }

    /// The path of another group's objects here: `of("apps/v1", "deployments/a")`.
    pub(crate) fn of(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.name)
    }

    /// Creates a `ConfigMap` without data and gives back what the server stored.
    pub(crate) async fn config_map(&self, name: &str) -> Value {
        self.create("configmaps", &json!({"metadata": {"name": name}})).await
    }

    /// Creates an object of a core kind and gives back what the server stored.
    pub(crate) async fn create(&self, resource: &str, object: &Value) -> Value {
        self.server.post(&self.at(resource), object).await.created()
    }
}

/// How long a case waits for anything before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The future's output, or a panic that says what did not come in time.
pub(crate) async fn limited<T>(what: &str, future: impl Future<Output = T>) -> T {
    limited_to(PATIENCE, what, future).await
}

/// As [`limited`], for what may take another time.
pub(super) async fn limited_to<T>(patience: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(patience, future).await {
        Ok(output) => output,
        Err(tokio::time::error::Elapsed { .. }) => panic!("{what}: nothing for {patience:?}"),
    }
}

/// Repeats `attempt` until it gives a value, for facts that the real server shows a moment later and of which there is
/// no event.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut attempt: impl FnMut() -> F) -> T {
    let retried = async {
        loop {
            if let Some(value) = attempt().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    limited(what, retried).await
}
