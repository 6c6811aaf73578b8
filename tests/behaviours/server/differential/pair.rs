//! The two servers, kept in the same state.

use serde_json::json;

use super::kinds::definitions;
use super::normal::{Normal, normal};
use super::probe::{Probe, fill};
use crate::harness::{Server, eventually, unique};

/// An in-memory server and a real one that have been told the same.
pub(super) struct Pair {
    fake: Server,
    real: Server,
    group: String,
    /// How often the run has started again.
    epoch: u32,
}

impl Pair {
    /// Both servers, with the custom kinds registered. The real one is a process of its own: odd requests to a shared
    /// one would be in the way of other tests, and the objects of those in the way of the comparison.
    pub(super) async fn new() -> Pair {
        let pair = Pair {
            fake: Server::fake(),
            real: Server::alone().await,
            group: format!("{}.example.com", unique()),
            epoch: 0,
        };
        for spec in definitions() {
            let plural = spec["names"]["plural"].as_str().expect("a text").to_owned();
            let mut definition = json!({"metadata": {"name": format!("{plural}.{}", pair.group)}, "spec": spec});
            definition["spec"]["group"] = pair.group.clone().into();
            let list = format!("/apis/{}/v1/{plural}", pair.group);
            for server in [&pair.fake, &pair.real] {
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                server.post(path, &definition).await.created();
                eventually("the custom kind is served", || async {
                    // A watch is refused for longer than a list.
                    let watch = server.request("GET", &format!("{list}?watch=1")).code().await;
                    (watch == 200 && server.get(&list).await.code == 200).then_some(())
                })
                .await;
            }
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

    /// The real server's answer to a request.
    pub(super) async fn ask_real(&self, probe: &Probe) -> Normal {
        self.ask_one(&self.real, probe).await
    }

    /// The object that a request is about, as the real server has it.
    pub(super) async fn real_object(&self, probe: &Probe) -> Option<serde_json::Value> {
        let path = String::from_utf8(self.filled(&probe.object_path(), &[])).expect("it was text");
        let answer = self.real.get(&path).await;
        (answer.code == 200).then(|| answer.json())
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
