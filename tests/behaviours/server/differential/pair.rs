//! The two servers, kept in the same state.

use serde_json::json;

use super::kinds::Kind;
use super::normal::{Normal, normal};
use super::probe::{Probe, fill};
use crate::harness::{CustomKind, Server, unique};

/// An in-memory server and a real one that have been told the same.
pub(super) struct Pair {
    fake: Server,
    real: Server,
    group: String,
    /// How often the run has started again.
    epoch: u32,
}

impl Pair {
    /// Both servers, with the custom kind registered. The real one is a process of its own: odd requests to a shared
    /// one would be in the way of other tests, and the objects of those in the way of the comparison.
    pub(super) async fn new() -> Pair {
        let pair = Pair {
            fake: Server::fake(),
            real: Server::alone().await,
            group: format!("{}.example.com", unique()),
            epoch: 0,
        };
        let definition = Kind::of("customresourcedefinitions").expect("it is in the table");
        let definition = definition.object("widgets.{group}").to_string();
        let definition = serde_json::from_slice(&pair.filled(&definition, &[])).expect("it stays JSON");
        for server in [&pair.fake, &pair.real] {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            server.post(path, &definition).await.created();
            CustomKind {
                group: pair.group.clone(),
            }
            .served(server)
            .await;
        }
        pair
    }

    /// Goes on in a new namespace and with new names of cluster objects.
    pub(super) async fn start_again(&mut self) {
        self.epoch += 1;
        for server in [&self.fake, &self.real] {
            let namespace = json!({"metadata": {"name": self.run()}});
            server.post("/api/v1/namespaces", &namespace).await.created();
        }
    }

    fn run(&self) -> String {
        format!("diff-{}", self.epoch)
    }

    fn filled(&self, text: &str, more: &[(&str, &str)]) -> Vec<u8> {
        self.filled_bytes(text.as_bytes(), more)
    }

    fn filled_bytes(&self, text: &[u8], more: &[(&str, &str)]) -> Vec<u8> {
        let run = self.run();
        let mut places = vec![
            ("ns", run.as_str()),
            ("run", run.as_str()),
            ("group", self.group.as_str()),
        ];
        places.extend_from_slice(more);
        fill(text, &places)
    }

    /// Both answers to a request, the in-memory server's first.
    pub(super) async fn ask(&self, probe: &Probe) -> (Normal, Normal) {
        tokio::join!(self.ask_one(&self.fake, probe), self.ask_one(&self.real, probe))
    }

    async fn ask_one(&self, server: &Server, probe: &Probe) -> Normal {
        let (uid, version) = self.identity(server, probe).await;
        let named = probe.uri().contains("{rv}") || probe.body.bytes().windows(4).any(|part| part == b"{rv}");
        let places = [("uid", uid.as_str()), ("rv", version.as_str())];
        let uri = self.filled(&probe.uri(), &places);
        let uri = String::from_utf8(uri).expect("it was text");
        // What was a place before it was damaged.
        let uri = uri.replace('{', "%7B").replace('}', "%7D");
        let mut request = server.request(probe.method, &uri);
        for (name, value) in &probe.headers {
            request = request.header(name, value);
        }
        let sent = self.filled_bytes(&probe.body.bytes(), &places);
        let request = request.raw(sent.clone());
        match request.attempt(probe.watches()).await {
            Some(answer) => normal(probe, &self.run(), &sent, named.then_some(&version), &answer),
            None => Normal::broken(),
        }
    }

    /// The uid and the resource version of the object that the path names, if they are asked for.
    async fn identity(&self, server: &Server, probe: &Probe) -> (String, String) {
        let absent = ("no-uid".to_owned(), "1".to_owned());
        let text = [probe.uri().into_bytes(), probe.body.bytes()].concat();
        let asked = |place: &[u8]| text.windows(place.len()).any(|part| part == place);
        if !asked(b"{uid}") && !asked(b"{rv}") {
            return absent;
        }
        let path = String::from_utf8(self.filled(&probe.object_path(), &[])).expect("it was text");
        // The old form of a watch does not end by itself.
        let path = path.replacen("/watch/", "/", 1);
        let answer = server.get(&path).await;
        if answer.code != 200 {
            return absent;
        }
        let object: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or("1").to_owned();
        (text("uid"), text("resourceVersion"))
    }
}
