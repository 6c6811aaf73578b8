//! Random histories on a server, against a model: edits of objects, steps of the filter, namespaces that come and
//! change their labels, handlers that are registered and removed. `VIEW_SEED` and `VIEW_STEPS` repeat one and hunt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kclient::{Client, DiscoveryNamespaces, Informer, InformerExt, ObjectKey, Reader, Registration, Selector};
use kube_client::Object;
use kube_client::testing::{EventLog, TestClient, assert_eventually};
use serde_json::json;

use super::log;
use crate::harness::Server;

const NAMESPACES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const TEAMS: [&str; 3] = ["red", "green", "blue"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What the world is, in the test's own words.
#[derive(Default)]
struct Model {
    // Namespaces and their teams.
    namespaces: BTreeMap<&'static str, &'static str>,
    // Objects and the number in them.
    objects: BTreeMap<ObjectKey, u64>,
    // The teams selected; `None` for everything.
    teams: Option<BTreeSet<&'static str>>,
}

impl Model {
    fn visible(&self) -> BTreeMap<ObjectKey, u64> {
        let shows = |key: &ObjectKey| {
            let team = self.namespaces.get(key.namespace().unwrap());
            self.teams
                .as_ref()
                .is_none_or(|teams| team.is_some_and(|team| teams.contains(team)))
        };
        let visible = self.objects.iter().filter(|(key, _)| shows(key));
        visible.map(|(key, number)| (key.clone(), *number)).collect()
    }

    fn selectors(&self) -> Vec<LabelSelector> {
        let Some(teams) = &self.teams else { return Vec::new() };
        vec![LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "team".to_owned(),
                operator: "In".to_owned(),
                values: Some(teams.iter().map(|team| (*team).to_owned()).collect()),
            }]),
            ..LabelSelector::default()
        }]
    }
}

fn number(map: &ConfigMap) -> u64 {
    crate::client::value(map).parse().unwrap()
}

fn body(name: &str, number: u64) -> serde_json::Value {
    json!({"metadata": {"name": name}, "data": {"v": number.to_string()}})
}

/// What a client reads, by two ways that have to agree.
fn read(client: &Client<ConfigMap>, by_name: &kclient::Index<ConfigMap>) -> BTreeMap<ObjectKey, u64> {
    let maps = client.list(None, &Selector::default());
    let listed: BTreeMap<ObjectKey, u64> = maps.iter().map(|map| (map.metadata().key(), number(map))).collect();
    let indexed = NAMES.iter().flat_map(|name| by_name.get(name));
    let indexed: BTreeMap<ObjectKey, u64> = indexed.map(|map| (map.metadata().key(), number(&map))).collect();
    if listed == indexed { listed } else { BTreeMap::new() }
}

fn folded(log: &EventLog<ConfigMap>) -> BTreeMap<ObjectKey, u64> {
    log.folded()
        .iter()
        .map(|(key, map)| (key.clone(), number(map)))
        .collect()
}

struct History {
    server: Server,
    cluster: TestClient,
    discovery: DiscoveryNamespaces,
    client: Client<ConfigMap>,
    model: Model,
    logs: Vec<(EventLog<ConfigMap>, Registration)>,
    random: fastrand::Rng,
    next: u64,
}

impl History {
    async fn step(&mut self) {
        self.next += 1;
        let namespace = NAMESPACES[self.random.usize(..NAMESPACES.len())];
        let name = NAMES[self.random.usize(..NAMES.len())];
        let team = TEAMS[self.random.usize(..TEAMS.len())];
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let key = ObjectKey::namespaced(namespace, name);
        match self.random.u8(..100) {
            0..45 if self.model.namespaces.contains_key(namespace) => {
                let known = self.model.objects.insert(key, self.next).is_some();
                let body = body(name, self.next);
                if known {
                    self.server.put(&format!("{maps}/{name}"), &body).await.ok();
                } else {
                    self.server.post(&maps, &body).await.created();
                }
            }
            45..60 if self.model.objects.remove(&key).is_some() => {
                self.server.delete(&format!("{maps}/{name}")).await.ok();
            }
            60..75 if self.model.namespaces.contains_key(namespace) => {
                self.model.namespaces.insert(namespace, team);
                let patch = json!({"metadata": {"labels": {"team": team}}});
                self.server
                    .merge(&format!("/api/v1/namespaces/{namespace}"), &patch)
                    .await
                    .ok();
            }
            0..85 => {
                if self.model.namespaces.insert(namespace, team).is_none() {
                    let labels = json!({"metadata": {"name": namespace, "labels": {"team": team}}});
                    self.server.post("/api/v1/namespaces", &labels).await.created();
                } else {
                    let patch = json!({"metadata": {"labels": {"team": team}}});
                    self.server
                        .merge(&format!("/api/v1/namespaces/{namespace}"), &patch)
                        .await
                        .ok();
                }
            }
            85..92 => {
                let teams = TEAMS
                    .into_iter()
                    .filter(|_| self.random.bool())
                    .collect::<BTreeSet<_>>();
                self.model.teams = (!teams.is_empty()).then_some(teams);
                self.discovery.set_selectors(self.model.selectors()).unwrap();
            }
            92..97 => self.logs.push(log(&self.client)),
            _ if self.logs.len() > 1 => {
                let (_, registration) = self.logs.swap_remove(self.random.usize(..self.logs.len()));
                self.client.shutdown_handler(&registration).unwrap();
            }
            _ => {}
        }
    }
}

// [V1] [V2] [V5] [V6] whatever happened in whatever order, reads, indexes and each handler end where the model does
#[tokio::test(start_paused = true)]
async fn histories_end_where_the_model_does() {
    let from = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (seed, steps): (u64, u64) = (
        from("VIEW_SEED").unwrap_or_else(|| fastrand::u64(..)),
        from("VIEW_STEPS").unwrap_or(600),
    );
    println!("VIEW_SEED={seed} VIEW_STEPS={steps}");
    let server = Server::fake();
    let discovery = DiscoveryNamespaces::new([]).unwrap();
    let options = kube_client::Client::builder().object_filter(Arc::new(discovery.clone()));
    let cluster = TestClient::new(options.build_with(server.client()).unwrap());
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let by_name = client
        .index("name", |map: &ConfigMap| map.metadata.name.clone())
        .unwrap();
    let mut history = History {
        server,
        cluster,
        discovery,
        logs: vec![log(&client)],
        client,
        model: Model::default(),
        random: fastrand::Rng::with_seed(seed),
        next: 0,
    };
    history.cluster.sync().await;
    for _ in 0..steps {
        history.step().await;
        // Let the cache see much or nothing of it before the next step.
        for _ in 0..history.random.u8(..30) {
            tokio::task::yield_now().await;
        }
        if history.random.u8(..20) == 0 {
            let expected = history.model.visible();
            let reads = async || read(&history.client, &by_name);
            assert_eventually("what is read", reads, |read| *read == expected).await;
            for (log, _) in &history.logs {
                assert_eventually("what a handler holds", async || folded(log), |held| *held == expected).await;
            }
        }
    }
    history.cluster.end().await;
}
