//! Definitions that come, go and change a thousand times under faults: whoever follows them ends with the truth. [I29] [I32]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, StatusFault, Verb};
use futures_util::FutureExt;
use kube::core::GroupVersionResource;
use kube_client::testing::assert_eventually_within;
use kube_client::{CrdSource, KindGuard, KindState, KindSubscription};

use super::{DEFINITIONS, Widgets};
use crate::informer::Rig;

const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Longer than any back-off.
const HEALED: Duration = Duration::from_mins(10);

/// All that one kind is followed by.
struct Followers {
    kind: GroupVersionResource,
    told: Arc<Mutex<Vec<KindState>>>,
    _guard: KindGuard,
    eager: KindSubscription,
    eager_told: Vec<KindState>,
    lazy: KindSubscription,
    // Calls asked for, and made.
    asked: u32,
    called: Arc<Mutex<u32>>,
}

impl Followers {
    fn new(rig: &Rig, kind: &GroupVersionResource) -> Self {
        let crds = rig.client.crd_watcher();
        let told: Arc<Mutex<Vec<KindState>>> = Arc::default();
        let sink = Arc::clone(&told);
        let guard = crds.on_change(kind, move |state| sink.lock().unwrap().push(state));
        Self {
            kind: kind.clone(),
            told,
            _guard: guard,
            eager: crds.subscribe(kind),
            eager_told: Vec::new(),
            lazy: crds.subscribe(kind),
            asked: 0,
            called: Arc::default(),
        }
    }

    /// Takes what there is, and asks for a call if none is under way.
    fn step(&mut self, rig: &Rig) {
        drain(&mut self.eager, &mut self.eager_told);
        if *self.called.lock().unwrap() == self.asked {
            let called = Arc::clone(&self.called);
            let callback = move || *called.lock().unwrap() += 1;
            if !rig.client.crd_watcher().known_or_callback(&self.kind, callback) {
                self.asked += 1;
            }
        }
    }

    fn end(mut self, rig: &Rig, served: bool) {
        let last = if served { KindState::Known } else { KindState::Unknown };
        assert_eq!(rig.client.crd_watcher().known(&self.kind), served, "{:?}", self.kind);
        drain(&mut self.eager, &mut self.eager_told);
        let mut lazy = Vec::new();
        drain(&mut self.lazy, &mut lazy);
        assert!(lazy.len() <= 2, "net effect: {lazy:?}");
        let called = self.told.lock().unwrap().clone();
        for told in [&called, &self.eager_told, &lazy] {
            assert_eq!(told.last(), Some(&last), "{:?}", self.kind);
            assert!(
                told.windows(2).all(|pair| pair[0] != pair[1]),
                "they alternate: {told:?}"
            );
        }
        let (asked, called) = (self.asked, *self.called.lock().unwrap());
        assert_eq!(
            asked - called,
            u32::from(!served && asked > called),
            "a call is made once, when it is due"
        );
    }
}

fn drain(subscription: &mut KindSubscription, told: &mut Vec<KindState>) {
    told.extend(std::iter::from_fn(|| subscription.next().now_or_never().flatten()));
}

fn fault(random: &mut fastrand::Rng) -> Rule {
    let own = |fault| Rule::new(fault).user_agent("informer-case");
    match random.u32(..9) {
        0 => own(Fault::Refuse).times(random.u64(1..6)),
        1 => own(Fault::status([401, 403, 404, 500, 503][random.usize(..5)]))
            .resource(RESOURCE)
            .times(random.u64(1..6)),
        2 => own(Fault::status([403, 404, 500, 503][random.usize(..4)])).times(random.u64(1..6)),
        3 => own(Fault::EndWatch {
            after: random.usize(..3),
        })
        .times(1),
        4 => own(Fault::WatchError {
            after: random.usize(..3),
            status: StatusFault::new(410),
        })
        .times(1),
        5 => own(Fault::Latency(Duration::from_millis(random.u64(..3000)))).times(random.u64(1..4)),
        6 => own(Fault::LoseResponse).verb(Verb::Watch).times(1),
        7 => own(Fault::Compact).times(1),
        _ => own(Fault::Silence { after: 0 }).times(1),
    }
}

async fn flap(seed: u64, steps: u32) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let rig = Rig::fake();
    let kinds: Vec<Widgets> = (0..3).map(|_| Widgets::new(&rig.server)).collect();
    // Which versions each serves; `None` if it is not defined.
    let mut truth: Vec<Option<[bool; 2]>> = vec![None; kinds.len()];
    let mut followers: Vec<[Followers; 2]> = kinds
        .iter()
        .map(|widgets| ["v1", "v2"].map(|version| Followers::new(&rig, &widgets.version(version))))
        .collect();
    rig.run().await;
    for _ in 0..steps {
        let at = random.usize(..kinds.len());
        let widgets = &kinds[at];
        match truth[at] {
            None => {
                widgets.define().await;
                truth[at] = Some([true, false]);
            }
            Some(_) if random.bool() => {
                widgets.remove().await;
                if random.bool() {
                    widgets.define().await; // at once: another one of the same name
                    truth[at] = Some([true, false]);
                } else {
                    truth[at] = None;
                }
            }
            Some(_) => {
                let served = [random.bool(), random.bool()];
                widgets.serve(&[("v1", served[0]), ("v2", served[1])]).await;
                truth[at] = Some(served);
            }
        }
        if random.u32(..4) == 0 {
            rig.memory().inject(fault(&mut random));
        }
        if random.u32(..4) == 0 {
            rig.memory().close_watches(RESOURCE);
        }
        match random.u32(..20) {
            0 => tokio::time::sleep(Duration::from_secs(random.u64(..90))).await,
            1..12 => tokio::time::sleep(Duration::from_millis(random.u64(..1500))).await,
            _ => tokio::task::yield_now().await,
        }
        for one in followers.iter_mut().flatten() {
            one.step(&rig);
        }
    }
    rig.memory().clear_faults();
    rig.memory().close_watches(RESOURCE);
    let settled = async || {
        let crds = rig.client.crd_watcher();
        let served = |widgets: &Widgets, version: &str| crds.known(&widgets.version(version));
        let seen: Vec<[bool; 2]> = kinds
            .iter()
            .map(|kind| [served(kind, "v1"), served(kind, "v2")])
            .collect();
        (rig.client.stats().crd_watcher.unwrap().source, seen)
    };
    let expected: Vec<[bool; 2]> = truth.iter().map(|served| served.unwrap_or_default()).collect();
    assert_eventually_within(HEALED, "the truth", settled, |(source, seen)| {
        *source == CrdSource::Definitions && *seen == expected
    })
    .await;
    // And it stays the truth.
    tokio::time::sleep(HEALED).await;
    assert_eq!(settled().await.1, expected);
    for (of_one, served) in followers.into_iter().zip(&expected) {
        for (one, served) in of_one.into_iter().zip(served) {
            one.end(&rig, *served);
        }
    }
    let stats = rig.client.stats().crd_watcher.unwrap();
    assert_eq!(stats.definitions, truth.iter().flatten().count());
    assert!(stats.refused.is_none() && stats.discovery_error.is_none(), "{stats:?}");
    assert_eq!(rig.memory().open_watches(RESOURCE), 1);
    assert!(rig.server.get(DEFINITIONS).await.code == 200);
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn definitions_that_flap_under_faults_end_with_the_truth() {
    flap(1, 1000).await;
}

// `FLAPPING_SEED=random FLAPPING=1000` hunts.
#[tokio::test(start_paused = true)]
async fn definitions_that_flap_end_with_the_truth_for_many_seeds() {
    let rounds = std::env::var("FLAPPING").ok().and_then(|rounds| rounds.parse().ok());
    let first = match std::env::var("FLAPPING_SEED").as_deref() {
        Ok("random") => fastrand::u64(..),
        Ok(seed) => seed.parse().expect("FLAPPING_SEED is a number or `random`"),
        Err(_) => 100,
    };
    for seed in first..first.saturating_add(rounds.unwrap_or(20)) {
        flap(seed, 60).await;
    }
}
