//! The engine of collections, driven by the caller's thread.

use super::{Kernel, counted};

#[path = "../../crates/krt/benches/scenario/pods.rs"]
#[expect(dead_code, reason = "the loop by hand is not ours")]
mod pods;
#[path = "../../crates/krt/benches/scenario/stepped.rs"]
#[expect(dead_code, reason = "one size is enough here")]
mod stepped;

use pods::{Fetch, Updates};
use stepped::{Engine, SMALL};

const UPDATES: u32 = 500;
/// All services: each of them changes.
const SERVICES: u32 = 50;
const PODS: u32 = 1_000;

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "krt/update-of-a-pod",
        units: UPDATES,
        run: || updates_of_pods(UPDATES as usize),
    },
    Kernel {
        name: "krt/update-of-a-pod-an-epoch-each",
        units: UPDATES,
        run: || updates_of_pods(1),
    },
    Kernel {
        name: "krt/update-of-a-service-fetched",
        units: SERVICES,
        run: || updates_of_services(Fetch::Services),
    },
    Kernel {
        name: "krt/update-of-a-service-fetched-by-map",
        units: SERVICES,
        run: || updates_of_services(Fetch::Names),
    },
    Kernel {
        name: "krt/initial-computation-of-a-pod",
        units: PODS,
        run: initial,
    },
];

/// So many updates to an epoch.
fn updates_of_pods(at_once: usize) {
    let (pods, services) = (SMALL.all_pods(), SMALL.all_services());
    let mut engine = Engine::new(&pods, &services, Fetch::Services);
    drop((pods, services));
    let mut updates = Updates::new(SMALL);
    // The first ones make room, which the others find.
    engine.apply(updates.pods(UPDATES as usize));
    let (epochs, before) = (UPDATES as usize / at_once, engine.seen());
    let epochs: Vec<_> = (0..epochs).map(|_| updates.pods(at_once)).collect();
    counted(|| epochs.into_iter().for_each(|updates| engine.apply(updates)));
    assert_eq!(engine.seen() - before, u64::from(UPDATES), "the handler is told");
}

fn updates_of_services(fetch: Fetch) {
    let (pods, services) = (SMALL.all_pods(), SMALL.all_services());
    let mut engine = Engine::new(&pods, &services, fetch);
    let (mut updates, before) = (Updates::new(SMALL), engine.seen());
    engine.apply_services(updates.services(SERVICES as usize));
    let updates = updates.services(SERVICES as usize);
    counted(|| engine.apply_services(updates));
    assert_eq!(engine.seen(), before, "no workload changes");
}

fn initial() {
    let (pods, services) = (SMALL.all_pods(), SMALL.all_services());
    assert_eq!(pods.len(), PODS as usize);
    counted(|| Engine::new(&pods, &services, Fetch::Services));
}
