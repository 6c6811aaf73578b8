//! Random histories on a server, against a model: edits of objects, steps of the filter, namespaces that come, change their labels,
//! go (with or without what is in them) and come again, handlers that are registered and removed. `VIEW_SEED` and `VIEW_STEPS`
//! repeat one and hunt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kclient::{
    Client, DiscoveryNamespaces, Filter, Informer, InformerExt, Namespaces, ObjectKey, Reader, Registration, Selector,
};
use kube_client::Object;
use kube_client::testing::{EventLog, TestClient, assert_eventually};
use serde_json::json;

use super::{log, names};
use crate::harness::{Server, cases, unique};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A namespace as the test made it.
struct Space {
    team: String,
    // It takes no new objects.
    terminating: bool,
}

/// What the world is, in the test's own words.
#[derive(Default)]
struct Model {
    // The namespaces that are there.
    spaces: BTreeMap<String, Space>,
    // Objects and the number in them. They outlive a namespace that goes without being emptied.
    objects: BTreeMap<ObjectKey, u64>,
    // The teams selected; `None` for everything.
    teams: Option<BTreeSet<String>>,
}

impl Model {
    fn shows(&self, namespace: &str) -> bool {
        let team = self.spaces.get(namespace).map(|space| &space.team);
        self.teams
            .as_ref()
            .is_none_or(|teams| team.is_some_and(|team| teams.contains(team)))
    }

    fn visible(&self) -> BTreeMap<ObjectKey, u64> {
        let objects = self.objects.iter();
        let visible = objects.filter(|(key, _)| self.shows(key.namespace().unwrap()));
        visible.map(|(key, number)| (key.clone(), *number)).collect()
    }

    fn visible_spaces(&self) -> Vec<String> {
        self.spaces.keys().filter(|name| self.shows(name)).cloned().collect()
    }

    fn selectors(&self) -> Vec<LabelSelector> {
        let Some(teams) = &self.teams else { return Vec::new() };
        vec![LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "team".to_owned(),
                operator: "In".to_owned(),
                values: Some(teams.iter().cloned().collect()),
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

/// One way to look at the objects.
struct Eye {
    client: Client<ConfigMap>,
    by_name: kclient::Index<ConfigMap>,
    logs: Vec<(EventLog<ConfigMap>, Registration)>,
}

impl Eye {
    fn new(client: Client<ConfigMap>) -> Self {
        let by_name = client
            .index("name", |map: &ConfigMap| map.metadata.name.clone())
            .unwrap();
        Self {
            logs: vec![log(&client)],
            client,
            by_name,
        }
    }

    /// What it reads, by two ways that have to agree.
    fn read(&self) -> BTreeMap<ObjectKey, u64> {
        let maps = self.client.list(None, &Selector::default());
        let listed: BTreeMap<ObjectKey, u64> = maps.iter().map(|map| (map.metadata().key(), number(map))).collect();
        let indexed = NAMES.iter().flat_map(|name| self.by_name.get(name));
        let indexed: BTreeMap<ObjectKey, u64> = indexed.map(|map| (map.metadata().key(), number(&map))).collect();
        if listed == indexed { listed } else { BTreeMap::new() }
    }
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
    // Of a client as any, and of a delayed one.
    eyes: [Eye; 2],
    spaces: Client<Namespace>,
    spaces_log: EventLog<Namespace>,
    // The names of all namespaces there ever are, which no other case has, and of the teams.
    namespaces: Vec<String>,
    teams: Vec<String>,
    model: Model,
    random: fastrand::Rng,
    next: u64,
}

impl History {
    fn new(server: Server, seed: u64) -> Self {
        let prefix = unique();
        let namespaces: Vec<String> = (0..4).map(|n| format!("{prefix}-n{n}")).collect();
        let teams = ["red", "green", "blue"].map(|team| format!("{prefix}-{team}")).to_vec();
        let discovery = DiscoveryNamespaces::new([]).unwrap();
        let options = kube_client::Client::builder().object_filter(Arc::new(discovery.clone()));
        let cluster = TestClient::new(options.build_with(server.client()).unwrap());
        // A server that others use as well has their objects, too.
        let filter = || match server.in_memory() {
            Some(_) => Filter::default(),
            None => Filter::default().namespaces(Namespaces::many(&namespaces)),
        };
        let eyes = [
            Client::filtered(&cluster, filter()).unwrap(),
            Client::delayed(&cluster, filter()).unwrap(),
        ];
        let spaces = Client::<Namespace>::new(&cluster).unwrap();
        Self {
            eyes: eyes.map(Eye::new),
            spaces_log: log(&spaces).0,
            server,
            cluster,
            discovery,
            spaces,
            namespaces,
            teams,
            model: Model::default(),
            random: fastrand::Rng::with_seed(seed),
            next: 0,
        }
    }

    async fn step(&mut self) {
        self.next += 1;
        let namespace = self.random.choice(&self.namespaces).unwrap().clone();
        let name = *self.random.choice(&NAMES).unwrap();
        let team = self.random.choice(&self.teams).unwrap().clone();
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let key = ObjectKey::namespaced(&namespace, name);
        match self.random.u8(..100) {
            0..40 => self.write(&namespace, name).await,
            40..52 if self.model.objects.remove(&key).is_some() => {
                self.server.delete(&format!("{maps}/{name}")).await.ok();
            }
            52..72 => self.label_or_create(namespace, team).await,
            72..82 if self.model.spaces.contains_key(&namespace) => self.remove(namespace).await,
            82..90 => {
                let teams = self.teams.iter().filter(|_| self.random.bool()).cloned();
                let teams: BTreeSet<String> = teams.collect();
                self.model.teams = (!teams.is_empty()).then_some(teams);
                self.discovery.set_selectors(self.model.selectors()).unwrap();
            }
            90..96 => {
                let eye = &mut self.eyes[self.random.usize(..2)];
                eye.logs.push(log(&eye.client));
            }
            96.. => {
                let eye = &mut self.eyes[self.random.usize(..2)];
                if eye.logs.len() > 1 {
                    let (_, registration) = eye.logs.swap_remove(self.random.usize(..eye.logs.len()));
                    eye.client.shutdown_handler(&registration).unwrap();
                }
            }
            _ => {}
        }
    }

    async fn write(&mut self, namespace: &str, name: &str) {
        let Some(space) = self.model.spaces.get(namespace) else {
            return;
        };
        let (maps, key) = (
            format!("/api/v1/namespaces/{namespace}/configmaps"),
            ObjectKey::namespaced(namespace, name),
        );
        let body = body(name, self.next);
        if self.model.objects.contains_key(&key) {
            self.server.put(&format!("{maps}/{name}"), &body).await.ok();
        } else if space.terminating {
            return;
        } else {
            self.server.post(&maps, &body).await.created();
        }
        self.model.objects.insert(key, self.next);
    }

    async fn label_or_create(&mut self, namespace: String, team: String) {
        let labels = json!({"metadata": {"name": namespace, "labels": {"team": team}}});
        if let Some(space) = self.model.spaces.get_mut(&namespace) {
            let path = format!("/api/v1/namespaces/{namespace}");
            self.server.merge(&path, &labels).await.ok();
            space.team = team;
        } else {
            self.server.post("/api/v1/namespaces", &labels).await.created();
            let terminating = false;
            self.model.spaces.insert(namespace, Space { team, terminating });
        }
    }

    /// Begins the deletion of a namespace, or ends it as the controller of namespaces would: after everything in it, which is
    /// missed out now and then.
    async fn remove(&mut self, namespace: String) {
        let path = format!("/api/v1/namespaces/{namespace}");
        let space = self.model.spaces.get_mut(&namespace).unwrap();
        if !std::mem::replace(&mut space.terminating, true) {
            self.server.delete(&path).await.ok();
            return;
        }
        if self.random.u8(..4) > 0 {
            self.server.delete(&format!("{path}/configmaps")).await.ok();
            let inside = |key: &ObjectKey| key.namespace() == Some(&*namespace);
            self.model.objects.retain(|key, _| !inside(key));
        }
        let finalized = json!({"metadata": {"name": namespace}, "spec": {"finalizers": []}});
        self.server.put(&format!("{path}/finalize"), &finalized).await.ok();
        self.model.spaces.remove(&namespace);
    }

    async fn check(&self) {
        let (expected, spaces) = (self.model.visible(), self.model.visible_spaces());
        for eye in &self.eyes {
            assert_eventually("what is read", async || eye.read(), |read| *read == expected).await;
            for (log, _) in &eye.logs {
                assert_eventually("what a handler holds", async || folded(log), |held| *held == expected).await;
            }
        }
        let ours = |mut names: Vec<String>| {
            names.retain(|name| self.namespaces.contains(name));
            names
        };
        let read = async || ours(names(&self.spaces, None));
        assert_eventually("the namespaces", read, |read| *read == spaces).await;
        let told = async || {
            let names = self.spaces_log.folded();
            ours(names.keys().map(|key| key.name().to_owned()).collect())
        };
        assert_eventually("the namespaces that are told", told, |told| *told == spaces).await;
    }
}

// [V1] [V2] [V5] [V6] whatever happened in whatever order, reads, indexes and each handler end where the model does
async fn histories_end_where_the_model_does(server: Server) {
    let from = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed: u64 = from("VIEW_SEED").unwrap_or_else(|| fastrand::u64(..));
    let steps: u64 = from("VIEW_STEPS").unwrap_or(if server.in_memory().is_some() { 600 } else { 200 });
    println!("VIEW_SEED={seed} VIEW_STEPS={steps}");
    let mut history = History::new(server, seed);
    history.cluster.sync().await;
    for _ in 0..steps {
        history.step().await;
        // Let the cache see much or nothing of it before the next step.
        for _ in 0..history.random.u8(..30) {
            tokio::task::yield_now().await;
        }
        if history.random.u8(..20) == 0 {
            history.check().await;
        }
    }
    history.check().await;
    for namespace in &history.namespaces {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        history.server.delete(&maps).await.ok();
    }
    history.cluster.end().await;
}

cases!(histories_end_where_the_model_does);
