//! Collections on static sources, by the engine and by hand: the course that the Go side runs in `collections.go`.
//!
//! The engine runs as in production, on its own thread, with a pool for the handler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use krt::Krt;

use crate::memory;
use crate::outcome::Outcome;
use crate::scenario::{ByHand, Fetch, Graph, Pod, PodLabels, Service, Size, Updates};

/// How long a round may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// What does not change for so long is what is left.
const QUIET: Duration = Duration::from_millis(100);

/// By what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of {
    Engine,
    /// Only of pods; who writes such a loop leaves out what to do when services change.
    Hand,
}

/// How much of what, and how often.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Course {
    #[arg(long)]
    pods: usize,
    #[arg(long)]
    services: usize,
    /// Different labels of pods.
    #[arg(long)]
    apps: usize,
    #[arg(long)]
    namespaces: usize,
    /// Each pod has a label that no other has.
    #[arg(long)]
    unique: bool,
    /// Rounds of updates of pods; a tenth of them of services.
    #[arg(long)]
    rounds: usize,
    /// Updates in a round.
    #[arg(long)]
    round: usize,
}

/// What is measured, whoever does the work.
trait Contestant {
    /// Applies the updates, and returns how many of them its handler was told.
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<u64>;
}

pub(crate) fn run(course: Course, of: Of) -> anyhow::Result<Outcome> {
    let Course { rounds, round, .. } = course;
    let labels = if course.unique {
        PodLabels::Unique
    } else {
        PodLabels::Shared
    };
    let size = Size {
        pods: course.pods,
        services: course.services,
        apps: course.apps,
        namespaces: course.namespaces,
        labels,
    };
    anyhow::ensure!(
        rounds > 0 && round > 0 && round <= size.pods,
        "no rounds, or more updates than pods"
    );
    let mut outcome = Outcome::default();
    let (pods, services) = (size.all_pods(), size.all_services());
    let before = memory::requested();
    let began = Instant::now();
    match of {
        Of::Engine => {
            let mut engine = Engine::new(&pods, &services, Fetch::Services)?;
            measured(&mut outcome, began, before);
            pod_updates(&mut engine, course, size, &mut outcome)?;
            engine.service_updates("service_ns", course, size, &mut outcome)?;
            drop(engine);
            let mut engine = Engine::new(&pods, &services, Fetch::Names)?;
            engine.service_updates("service_map_ns", course, size, &mut outcome)?;
        }
        Of::Hand => {
            let mut by_hand = ByHand::new(&pods, &services);
            measured(&mut outcome, began, before);
            pod_updates(&mut by_hand, course, size, &mut outcome)?;
        }
    }
    Ok(outcome)
}

/// Everything was computed for the first time.
#[expect(clippy::disallowed_methods, reason = "no runtime here whose thread this blocks")]
fn measured(outcome: &mut Outcome, began: Instant, before: Option<memory::Requested>) {
    outcome.set("initial_ns", began.elapsed().as_nanos());
    let Some(before) = before else { return };
    // Nobody waits for a handler to drop what it was told, so that may be going on.
    let mut bytes = u64::MAX;
    while let Some(now) = memory::requested()
        && now.bytes != bytes
    {
        bytes = now.bytes;
        std::thread::sleep(QUIET);
    }
    outcome.set("heap", bytes.saturating_sub(before.bytes));
}

/// Each pod of a round gets an address that it did not have; a round ends when the handler has seen them all. The processor time is of everything
/// from the end of the first round on, so that it has what the rounds leave to be done later: above all to free objects. It has the making
/// of the objects, too, on all sides.
fn pod_updates(
    contestant: &mut impl Contestant,
    course: Course,
    size: Size,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut updates = Updates::new(size);
    let mut took = Duration::ZERO;
    let mut used = 0;
    // The first round is not counted: nothing is measured for the first time.
    for number in 0..=course.rounds {
        if number == 1 {
            used = memory::cpu()?;
        }
        let pods: Vec<Arc<Pod>> = updates.pods(course.round).into_iter().map(Arc::new).collect();
        let began = Instant::now();
        let seen = contestant.apply(pods)?;
        if number > 0 {
            took += began.elapsed();
        }
        anyhow::ensure!(
            seen == course.round as u64,
            "the handler saw {seen} of {} updates",
            course.round
        );
    }
    let updates_done = (course.rounds * course.round) as u128;
    outcome.set("pod_ns", took.as_nanos() / updates_done);
    outcome.set("pod_cpu_ns", u128::from(memory::cpu()? - used) / updates_done);
    Ok(())
}

struct Engine {
    krt: Krt,
    graph: Graph,
}

impl Engine {
    /// Everything is computed when this returns.
    fn new(pods: &[Arc<Pod>], services: &[Arc<Service>], fetch: Fetch) -> anyhow::Result<Self> {
        let krt = Krt::builder("bench").build();
        let graph = Graph::new(&krt, pods, services, fetch);
        krt.start()?;
        let own = Self { krt, graph };
        let seen = own.settled(0)?;
        anyhow::ensure!(
            seen == pods.len() as u64,
            "the handler saw {seen} of {} pods",
            pods.len()
        );
        Ok(own)
    }

    /// How many changes the handler was told since it had seen so many, after everything was computed.
    fn settled(&self, before: u64) -> anyhow::Result<u64> {
        self.krt
            .wait_settled_blocking(PATIENCE)
            .context("a round takes for ever")?;
        Ok(self.graph.seen() - before)
    }

    /// Each service of a round gets something that concerns no pod.
    fn service_updates(&mut self, name: &str, course: Course, size: Size, outcome: &mut Outcome) -> anyhow::Result<()> {
        let count = course.round.min(size.services);
        let rounds = (course.rounds / 10).max(1);
        let mut updates = Updates::new(size);
        let mut took = Duration::ZERO;
        for number in 0..=rounds {
            let services: Vec<Arc<Service>> = updates.services(count).into_iter().map(Arc::new).collect();
            let before = self.graph.seen();
            let began = Instant::now();
            for service in services {
                self.graph.services.update(service);
            }
            let seen = self.settled(before)?;
            if number > 0 {
                took += began.elapsed();
            }
            anyhow::ensure!(seen == 0, "the handler saw {seen} changes of what did not change");
        }
        outcome.set(name, took.as_nanos() / (rounds * count) as u128);
        Ok(())
    }
}

impl Contestant for Engine {
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<u64> {
        let before = self.graph.seen();
        for pod in updates {
            self.graph.pods.update(pod);
        }
        self.settled(before)
    }
}

impl Contestant for ByHand {
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<u64> {
        let before = self.seen;
        for pod in updates {
            self.set(pod);
        }
        Ok(self.seen - before)
    }
}
