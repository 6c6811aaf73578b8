//! Collections on static sources, by the engine and by hand: the course that the Go side runs in `collections.go`.
//!
//! The engine runs as in production, on its own thread, with a pool for the handler; or driven by the thread that writes, which shows what
//! the engine takes without what two processors cost each other. The loop by hand, too, is run both ways.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use krt::Krt;
use krt::testing::Stepper;

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
    /// The engine, driven by the thread that writes.
    Driven,
    /// Only of pods; who writes such a loop leaves out what to do when services change.
    Hand,
    /// The same on a thread of its own, which is handed the pods.
    HandThread,
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
    /// Applies the updates, and returns how many of them its handler was told, and when that was over.
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<(u64, Instant)>;
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
        Of::Engine | Of::Driven => {
            let mut engine = Engine::new(of, &pods, &services, Fetch::Services)?;
            measured(&mut outcome, began, before);
            pod_updates(&mut engine, course, size, &mut outcome)?;
            engine.service_updates("service_ns", course, size, &mut outcome)?;
            drop(engine);
            let mut engine = Engine::new(of, &pods, &services, Fetch::Names)?;
            engine.service_updates("service_map_ns", course, size, &mut outcome)?;
        }
        Of::Hand => {
            let mut by_hand = ByHand::new(&pods, &services);
            measured(&mut outcome, began, before);
            pod_updates(&mut by_hand, course, size, &mut outcome)?;
        }
        Of::HandThread => {
            let mut by_hand = OnThread::new(ByHand::new(&pods, &services));
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
        let (seen, ended) = contestant.apply(pods)?;
        if number > 0 {
            took += ended - began;
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
    /// Who drives it, if that is not its own thread.
    stepper: Option<Stepper>,
    graph: Graph,
}

impl Engine {
    /// Everything is computed when this returns.
    fn new(of: Of, pods: &[Arc<Pod>], services: &[Arc<Service>], fetch: Fetch) -> anyhow::Result<Self> {
        let krt = Krt::builder("bench").build();
        let stepper = (of == Of::Driven).then(|| Stepper::new(&krt)).transpose()?;
        let graph = Graph::new(&krt, pods, services, fetch);
        if stepper.is_none() {
            krt.start()?;
        }
        let mut own = Self { krt, stepper, graph };
        let seen = own.settled(0)?;
        anyhow::ensure!(
            seen == pods.len() as u64,
            "the handler saw {seen} of {} pods",
            pods.len()
        );
        Ok(own)
    }

    /// How many changes the handler was told since it had seen so many, after everything was computed.
    fn settled(&mut self, before: u64) -> anyhow::Result<u64> {
        match &mut self.stepper {
            Some(stepper) => stepper.settle(),
            None => self
                .krt
                .wait_settled_blocking(PATIENCE)
                .context("a round takes for ever")?,
        }
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
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<(u64, Instant)> {
        let before = self.graph.seen();
        self.graph.expect(updates.len() as u64);
        for pod in updates {
            self.graph.pods.update(pod);
        }
        let seen = self.settled(before)?;
        // On a thread of its own, the engine drops what was replaced after it told that everything is settled. Driven, it does so before
        // it comes back, and after the handler was told.
        let ended = match self.stepper {
            Some(_) => self.graph.reached().context("the handler saw less")?,
            None => Instant::now(),
        };
        Ok((seen, ended))
    }
}

impl Contestant for ByHand {
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<(u64, Instant)> {
        let before = self.seen;
        for pod in updates {
            self.set(pod);
        }
        Ok((self.seen - before, Instant::now()))
    }
}

/// A loop by hand on a thread of its own, as who reads from a watch elsewhere has it: what is written meanwhile is handed over at once.
struct OnThread {
    waiting: Arc<Waiting>,
    /// What the loop has seen.
    seen: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    state: Mutex<Handed>,
    /// There is something to take, or it is over.
    more: Condvar,
    /// Everything was seen.
    done: Condvar,
}

#[derive(Default)]
struct Handed {
    pods: Vec<Arc<Pod>>,
    /// How many changes the loop has seen, when it last had nothing to do.
    seen: u64,
    busy: bool,
    over: bool,
}

impl OnThread {
    fn new(mut by_hand: ByHand) -> Self {
        let waiting = Arc::new(Waiting::default());
        let seen = by_hand.seen;
        let shared = Arc::clone(&waiting);
        let thread = std::thread::spawn(move || {
            let mut taken = Vec::new();
            loop {
                {
                    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.seen = by_hand.seen;
                    state.busy = false;
                    if state.pods.is_empty() {
                        shared.done.notify_one();
                    }
                    while state.pods.is_empty() && !state.over {
                        state = shared.more.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    if state.over {
                        return;
                    }
                    state.busy = true;
                    std::mem::swap(&mut state.pods, &mut taken);
                }
                taken.drain(..).for_each(|pod| by_hand.set(pod));
            }
        });
        Self {
            waiting,
            seen,
            thread: Some(thread),
        }
    }
}

impl Contestant for OnThread {
    fn apply(&mut self, updates: Vec<Arc<Pod>>) -> anyhow::Result<(u64, Instant)> {
        for pod in updates {
            let mut state = self.waiting.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.pods.push(pod);
            let wake = !state.busy && state.pods.len() == 1;
            drop(state);
            if wake {
                self.waiting.more.notify_one();
            }
        }
        let state = self.waiting.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = |state: &mut Handed| state.busy || !state.pods.is_empty();
        let state = self.waiting.done.wait_while(state, unfinished);
        let seen = state.unwrap_or_else(PoisonError::into_inner).seen;
        Ok((seen - std::mem::replace(&mut self.seen, seen), Instant::now()))
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        self.waiting.state.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.waiting.more.notify_one();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}
