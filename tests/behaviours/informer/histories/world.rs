//! One history: the server, the faults, the writes, the informer and its handlers, and what is compared at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use fake_apiserver::{Builder, FakeApiServer, RuleHandle};
use fastrand::Rng;
use http_body_util::{BodyExt, Full};
use kube::core::{DynamicObject, Selector};
use kube_client::testing::TestClient;
use kube_client::{CaughtUpError, Event, Informer, InformerOptions, InitialList, ListMode, ObjectKey, Phase};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::checker::{Fold, Time, What, Write, exactly_once, fold};
use super::fault;
use super::note::Note;
use super::recorder::Recorder;
use super::tally::Tally;

const NAMESPACES: [&str; 2] = ["default", "kube-public"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Longer than anything takes on a server without faults, in virtual time.
const EVER: Duration = Duration::from_hours(6);

/// An object as it was last written.
#[derive(Debug, Clone)]
struct Live {
    uid: String,
    written: DynamicObject,
    good: bool,
}

pub(super) struct World<'a> {
    seed: u64,
    rng: Rng,
    fake: FakeApiServer,
    client: TestClient,
    informer: Informer<Note>,
    // The first one is prompt, was there before the start, and stays.
    recorders: Vec<Recorder>,
    removed: Vec<Recorder>,
    live: BTreeMap<ObjectKey, Live>,
    // The version that the server starts with: its namespaces.
    base: u64,
    // The server's log so far, whatever it has forgotten since.
    log: Vec<Write>,
    logged: u64,
    time: Time,
    // The informer has noticed every restore once it is at this version.
    floor: u64,
    faulty: bool,
    // The rules that pack answers.
    packing: Vec<RuleHandle>,
    // Uids whose end was waited for, and how much the first recorder had been told by then.
    ended: Vec<(String, usize)>,
    tally: &'a mut Tally,
}

impl<'a> World<'a> {
    /// Runs one history and compares.
    pub(super) async fn run(seed: u64, tally: &'a mut Tally) {
        let mut world = Self::new(seed, tally);
        for _ in 0..world.rng.usize(..4) {
            world.write().await;
        }
        for _ in 0..world.rng.usize(..3) {
            world.add_fault();
        }
        if world.rng.bool() {
            let slow = Recorder::slow(&world.informer, world.rng.fork());
            world.recorders.push(slow);
        }
        world.informer.start();
        for _ in 0..world.rng.usize(4..16) {
            world.step().await;
        }
        world.finish().await;
    }

    fn new(seed: u64, tally: &'a mut Tally) -> Self {
        let mut rng = Rng::with_seed(seed);
        let fake = Builder::default()
            .seed(seed)
            .bookmark_interval(Duration::from_secs(rng.u64(30..100)))
            .build()
            .unwrap();
        let client = TestClient::on(&fake);
        let modes = [ListMode::Auto, ListMode::Auto, ListMode::Paged, ListMode::Streaming];
        let options = InformerOptions::<Note>::default()
            .list_mode(modes[rng.usize(..4)])
            .initial_list([InitialList::Any, InitialList::Consistent][rng.usize(..2)])
            .page_size([0, 1, 2, 3, 500][rng.usize(..5)]);
        let informer = client.informers().typed(options).unwrap();
        let first = Recorder::prompt(&informer);
        let mut world = Self {
            seed,
            rng,
            client,
            informer,
            recorders: vec![first],
            removed: Vec::new(),
            live: BTreeMap::new(),
            base: fake.resource_version(),
            log: Vec::new(),
            logged: 0,
            time: Time::Forward,
            floor: 0,
            faulty: false,
            packing: Vec::new(),
            ended: Vec::new(),
            tally,
            fake,
        };
        world.collect();
        world
    }

    async fn step(&mut self) {
        match self.rng.u8(..100) {
            0..45 => self.write().await,
            45..65 => {
                let times = [0, 1, 50, 1_000, 20_000, 240_000, 700_000];
                let time = times[self.rng.usize(..times.len())];
                tokio::time::sleep(Duration::from_millis(time)).await;
            }
            65..70 => tokio::task::yield_now().await,
            70..75 => self.fake.compact_now(),
            75..80 => self.fake.close_watches("configmaps"),
            80..86 => self.add_fault(),
            86..89 => self.clear_faults(),
            89..93 => self.change_handlers(),
            93..97 => self.wait_for_a_write().await,
            _ => self.restore().await,
        }
    }

    /// Straight to the server: a client in between would cost more than the server does.
    async fn send(&self, method: &str, key: &ObjectKey, body: &Value) -> Value {
        let namespace = key.namespace().unwrap_or_default();
        let name = if method == "POST" { "" } else { key.name() };
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        let request = http::Request::builder()
            .method(method)
            .uri(path.trim_end_matches('/'))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let answer = self.fake.service().oneshot(request).await.unwrap();
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(
            code.is_success(),
            "seed {}: {method} {key}: {code}: {bytes:?}",
            self.seed
        );
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn write(&mut self) {
        let key = ObjectKey::namespaced(NAMESPACES[self.rng.usize(..2)], NAMES[self.rng.usize(..4)]);
        match self.live.contains_key(&key) {
            true if self.rng.u8(..10) < 4 => self.delete(&key).await,
            exists => {
                let good = self.rng.u8(..10) > 0;
                self.put(&key, if exists { "PUT" } else { "POST" }, good).await;
            }
        }
    }

    async fn put(&mut self, key: &ObjectKey, method: &str, good: bool) {
        let value = if good {
            self.rng.u32(..).to_string()
        } else {
            "bad".to_owned()
        };
        let body = json!({"metadata": {"name": key.name()}, "data": {"v": value}});
        let answer = self.send(method, key, &body).await;
        let uid = answer["metadata"]["uid"].as_str().unwrap().to_owned();
        let written = serde_json::from_value(answer).unwrap();
        self.live.insert(key.clone(), Live { uid, written, good });
        self.tally.writes += 1;
        self.tally.undecodable += u64::from(!good);
        self.collect();
    }

    async fn delete(&mut self, key: &ObjectKey) {
        let gone = self.live.remove(key).unwrap();
        self.send("DELETE", key, &json!({})).await;
        self.tally.writes += 1;
        self.collect();
        // Of an object that does not decode, nobody can tell that it is gone.
        if gone.good && self.rng.u8(..4) == 0 && self.has_noticed() {
            let patience = self.patience();
            let seen = self.informer.caught_up_deleted(key, &gone.uid, patience).await;
            if !self.was_seen(seen) {
                return;
            }
            self.tally.seen_deleted += 1;
            let cached = self.informer.get(key);
            assert!(
                cached.is_none_or(|note| note.metadata.uid != gone.uid),
                "seed {}: {key} is there after its end was seen",
                self.seed
            );
            // What is in the handler's queue by now is older; it is prompt, so that is taken after a moment.
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.ended
                .push((gone.uid, self.recorders[0].events.lock().unwrap().len()));
        }
    }

    /// Reads the new part of the server's log.
    fn collect(&mut self) {
        for entry in self.fake.history("configmaps", self.logged) {
            self.logged = entry.resource_version;
            let what = match &entry.object {
                None => What::Gone,
                Some(object) if is_good(object) => What::Good,
                Some(_) => What::Bad,
            };
            self.log.push(Write {
                version: entry.resource_version,
                key: ObjectKey::new(entry.namespace.as_deref(), &entry.name),
                what,
            });
        }
    }

    fn add_fault(&mut self) {
        let (rule, packs) = fault::any(&mut self.rng);
        let rule = self.fake.inject(rule);
        self.packing.extend(packs.then_some(rule));
        self.faulty = true;
        self.tally.faults += 1;
    }

    fn clear_faults(&mut self) {
        self.fake.clear_faults();
        self.faulty = false;
    }

    fn change_handlers(&mut self) {
        if self.recorders.len() > 1 && self.rng.bool() {
            let recorder = self.recorders.swap_remove(self.rng.usize(1..self.recorders.len()));
            recorder.registration.remove();
            self.removed.push(recorder);
        } else if self.rng.bool() {
            self.recorders.push(Recorder::prompt(&self.informer));
        } else {
            self.recorders.push(Recorder::slow(&self.informer, self.rng.fork()));
        }
    }

    fn patience(&mut self) -> Duration {
        if self.faulty {
            Duration::from_secs(self.rng.u64(..1_800))
        } else {
            EVER
        }
    }

    /// Without faults, a write is always seen.
    fn was_seen(&mut self, result: Result<(), CaughtUpError>) -> bool {
        match result {
            Ok(()) => true,
            Err(CaughtUpError::TimedOut { .. }) if self.faulty => {
                self.tally.not_seen_in_time += 1;
                false
            }
            Err(error) => panic!("seed {}: {error}; {:?}", self.seed, self.informer.stats()),
        }
    }

    /// Whether the informer runs and knows of the last restore; before that, nothing can be said of what it has seen.
    fn has_noticed(&self) -> bool {
        let started = self.informer.stats().phase != Phase::Idle;
        started && self.floor == 0 || self.version().is_some_and(|version| version >= self.floor)
    }

    /// The informer's version.
    fn version(&self) -> Option<u64> {
        self.informer.last_version().and_then(|text| text.parse().ok())
    }

    async fn wait_for_a_write(&mut self) {
        if self.live.is_empty() || !self.has_noticed() {
            return;
        }
        let (key, live) = self.live.iter().nth(self.rng.usize(..self.live.len())).unwrap();
        let (key, live) = (key.clone(), live.clone());
        let patience = self.patience();
        let seen = self.informer.caught_up(&live.written, patience).await;
        if !self.was_seen(seen) {
            return;
        }
        self.tally.seen += 1;
        if live.good {
            let cached = self.informer.get(&key).map(|note| note.version());
            let version: u64 = live
                .written
                .metadata
                .resource_version
                .as_ref()
                .unwrap()
                .parse()
                .unwrap();
            // It is still the newest: nobody has written meanwhile.
            assert_eq!(cached, Some(version), "seed {}: {key} after it was seen", self.seed);
        }
    }

    /// The store goes back to an older state; sometimes with versions that jump ahead, as its tool can do it.
    async fn restore(&mut self) {
        let (oldest, newest) = (self.fake.oldest_resource_version(), self.fake.resource_version());
        let first = oldest.max(newest.saturating_sub(8)).max(self.base);
        let version = self.rng.u64(first..=newest);
        assert!(self.fake.restore(version), "seed {}", self.seed);
        self.time = Time::WentBack;
        self.tally.restores += 1;
        self.log.retain(|write| write.version <= version);
        self.logged = version;
        self.live = live(&self.fake);
        if self.rng.bool() {
            self.fake.skip_versions(1_000);
            self.floor = self.fake.resource_version();
            return;
        }
        // A client cannot know of a restore if the server writes on until it has passed the client's version: wait until
        // the informer has noticed.
        self.clear_faults();
        tokio::time::sleep(Duration::from_secs(61)).await;
        let noticed = async {
            loop {
                let current = self
                    .version()
                    .is_some_and(|version| version <= self.fake.resource_version());
                if current && self.informer.stats().phase == Phase::Watching {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(61)).await;
            }
        };
        let noticed = tokio::time::timeout(EVER, noticed).await;
        assert!(
            noticed.is_ok(),
            "seed {}: the restore was not noticed: {:?}",
            self.seed,
            self.informer.stats()
        );
    }

    /// The faults are over: everything has to come right.
    async fn finish(mut self) {
        self.clear_faults();
        let end = ObjectKey::namespaced(NAMESPACES[0], "end");
        self.put(&end, "POST", true).await;
        let seen = self.informer.caught_up(&self.live[&end].written, EVER).await;
        self.was_seen(seen);
        self.compare_cache();
        let cache = self.cache();
        for recorder in &self.recorders {
            self.compare_handler(recorder, &cache).await;
        }
        for recorder in &self.removed {
            self.fold(&recorder.events());
        }
        let first = self.recorders[0].events();
        for (uid, told) in &self.ended {
            let again = first[*told..].iter().find(|event| event.object().metadata.uid == *uid);
            if self.time == Time::Forward {
                assert!(again.is_none(), "seed {}: {again:?} after its end was seen", self.seed);
            }
        }
        // A watch that was opened under a fault may break after it has brought everything.
        let healed = async {
            while self.informer.stats().error.is_some() {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        let healed = tokio::time::timeout(EVER, healed).await;
        let stats = self.informer.stats();
        assert!(healed.is_ok(), "seed {}: {stats:?}", self.seed);
        self.tally.lists += stats.lists;
        self.tally.packed += self.packing.iter().map(RuleHandle::fired).sum::<u64>();
        self.tally.told += first.len() as u64;
        self.tally.merged += stats.handlers.iter().map(|handler| handler.coalesced).sum::<u64>();
        if stats.lists == 1 && self.time == Time::Forward {
            self.tally.exactly_once += 1;
            if let Err(wrong) = exactly_once(&first, &self.log) {
                panic!("seed {}: not told every write exactly once: {wrong}", self.seed);
            }
        }
        self.client.end().await; // leaves no task, no handler and no watch
    }

    fn cache(&self) -> Fold {
        let notes = self.informer.list(None, &Selector::default());
        notes
            .into_iter()
            .map(|note| (kube_client::Object::metadata(&*note).key(), note))
            .collect()
    }

    /// The cache is what the server holds, but for what does not decode: of that, the last good version or nothing.
    fn compare_cache(&self) {
        let mut cache = self.cache();
        let mut bad = BTreeSet::new();
        for object in self.fake.objects("configmaps") {
            let key = key_of(&object);
            let cached = cache.remove(&key);
            if is_good(&object) {
                let expected: Note = serde_json::from_value(object).unwrap();
                assert_eq!(cached.as_deref(), Some(&expected), "seed {}: {key}", self.seed);
            } else {
                if let Some(cached) = cached {
                    assert_eq!(
                        cached.metadata.uid, object["metadata"]["uid"],
                        "seed {}: {key}",
                        self.seed
                    );
                    if self.time == Time::Forward {
                        let known = |write: &Write| write.version == cached.version() && write.what == What::Good;
                        assert!(self.log.iter().any(known), "seed {}: {cached:?} never was", self.seed);
                    }
                }
                bad.insert(key);
            }
        }
        assert!(
            cache.is_empty(),
            "seed {}: the server does not have {cache:?}",
            self.seed
        );
        let named: BTreeSet<ObjectKey> = self.informer.undecodable().into_iter().map(|(key, _)| key).collect();
        assert_eq!(named, bad, "seed {}: what does not decode", self.seed);
    }

    async fn compare_handler(&self, recorder: &Recorder, cache: &Fold) {
        let settled = async {
            while self.fold(&recorder.events()) != *cache {
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
        };
        if tokio::time::timeout(EVER, settled).await.is_err() {
            let told = recorder.events();
            let folded = self.fold(&told);
            panic!("seed {}: folds to {folded:?}, not to {cache:?}; {told:?}", self.seed);
        }
        let synced = tokio::time::timeout(EVER, recorder.registration.synced()).await;
        assert!(matches!(synced, Ok(Ok(()))), "seed {}: {synced:?}", self.seed);
    }

    fn fold(&self, events: &[Event<Note>]) -> Fold {
        fold(events, self.time).unwrap_or_else(|wrong| panic!("seed {}: {wrong}; {events:?}", self.seed))
    }
}

fn is_good(object: &Value) -> bool {
    let value = object["data"]["v"].as_str();
    value.is_some_and(|value| value.parse::<u32>().is_ok())
}

fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    ObjectKey::new(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// The objects that the server holds.
fn live(fake: &FakeApiServer) -> BTreeMap<ObjectKey, Live> {
    let objects = fake.objects("configmaps").into_iter();
    objects
        .map(|object| {
            let live = Live {
                uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
                good: is_good(&object),
                written: serde_json::from_value(object.clone()).unwrap(),
            };
            (key_of(&object), live)
        })
        .collect()
}
