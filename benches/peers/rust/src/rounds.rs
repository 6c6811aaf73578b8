//! Runs every contestant of a scenario in alternation, a process each and a server beside it, and collects what they
//! measured.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use clap::ValueEnum;

use crate::graphs::Graph;
use crate::outcome::Outcome;
use crate::{prepare, report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to run; everything by default.
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// Only check that everything runs: little data, one round, nothing is written.
    #[arg(long)]
    quick: bool,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The Go peer.
    #[arg(long)]
    go: PathBuf,
    /// Where prepared data is kept.
    #[arg(long)]
    data: PathBuf,
    /// The document that holds the results.
    #[arg(long)]
    results: PathBuf,
}

/// A set of contestants that run the same course.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Sync, relist and events of whole pods: P8, P9, P11.
    Pods,
    /// The same with small types: P10.
    Small,
    /// Many handlers on a synced informer: P14.
    Handlers,
    /// The work queue: P12.
    Queue,
    /// Collections on static sources: P1 to P6.
    Collections,
}

/// How much data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Pods, or keys of a queue.
    pub(crate) pods: u64,
    pub(crate) events: u64,
    pub(crate) handlers: u64,
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contestant {
    Ours,
    Floor,
    OursWorker,
    OursThreads,
    OursMimalloc,
    OursHuge,
    FloorMimalloc,
    KubeRuntime,
    GoJson,
    GoProtobuf,
    Slim,
    Tiny,
    GoTransform,
    Handlers,
    OurQueue,
    OurNext,
    /// What hands keys over and knows nothing of them.
    BareQueue,
    OurPriorities,
    GoQueue,
    GoPriorityQueue,
    Krt(Graph),
    /// The same, driven by the thread that writes.
    Driven(Graph),
    /// A loop by hand over the same structs.
    Hand(Graph),
    /// The same on a thread of its own.
    HandThread(Graph),
    Istio(Graph),
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 5] = [
        Scenario::Pods,
        Scenario::Small,
        Scenario::Handlers,
        Scenario::Queue,
        Scenario::Collections,
    ];

    pub(crate) fn contestants(self) -> &'static [Contestant] {
        use Contestant::{
            BareQueue, Driven, Floor, FloorMimalloc, GoJson, GoPriorityQueue, GoProtobuf, GoQueue, GoTransform, Hand,
            HandThread, Handlers, Istio, Krt, KubeRuntime, OurNext, OurPriorities, OurQueue, Ours, OursHuge,
            OursMimalloc, OursThreads, OursWorker, Slim, Tiny,
        };
        match self {
            Scenario::Pods => &[
                Ours,
                OursWorker,
                OursThreads,
                Floor,
                KubeRuntime,
                GoJson,
                GoProtobuf,
                OursMimalloc,
                OursHuge,
                FloorMimalloc,
            ],
            Scenario::Small => &[Slim, Tiny, GoTransform],
            Scenario::Handlers => &[Handlers],
            Scenario::Queue => &[OurQueue, OurNext, BareQueue, GoQueue, OurPriorities, GoPriorityQueue],
            Scenario::Collections => &[
                Krt(Graph::Small),
                Driven(Graph::Small),
                Hand(Graph::Small),
                HandThread(Graph::Small),
                Istio(Graph::Small),
                Krt(Graph::Middle),
                Driven(Graph::Middle),
                Hand(Graph::Middle),
                HandThread(Graph::Middle),
                Istio(Graph::Middle),
                Krt(Graph::Unique),
                Driven(Graph::Unique),
                Hand(Graph::Unique),
                HandThread(Graph::Unique),
                Istio(Graph::Unique),
                Krt(Graph::Large),
                Driven(Graph::Large),
                Hand(Graph::Large),
                HandThread(Graph::Large),
                Istio(Graph::Large),
                Krt(Graph::Million),
                Driven(Graph::Million),
                Hand(Graph::Million),
                HandThread(Graph::Million),
            ],
        }
    }

    pub(crate) fn size(self, quick: bool) -> Size {
        let (pods, events) = match (self, quick) {
            (Scenario::Pods | Scenario::Small, false) => (20_000, 50_000),
            (Scenario::Pods | Scenario::Small, true) => (500, 1_000),
            (Scenario::Handlers | Scenario::Queue, false) => (100_000, 0),
            (Scenario::Handlers | Scenario::Queue, true) => (500, 0),
            // Each graph has a size of its own.
            (Scenario::Collections, _) => (0, 0),
        };
        Size {
            pods,
            events,
            handlers: 100,
        }
    }
}

impl Contestant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Ours => "Watershed",
            Contestant::Floor => "`serde_json`, no managedFields",
            Contestant::OursWorker => "Watershed, on a worker of its own",
            Contestant::OursThreads => "Watershed, on a worker of its own, lists decoded by two threads",
            Contestant::OursMimalloc => "Watershed, mimalloc",
            Contestant::OursHuge => "Watershed, on a worker of its own, mimalloc with huge pages",
            Contestant::FloorMimalloc => "`serde_json`, no managedFields, mimalloc",
            Contestant::KubeRuntime => "kube-runtime",
            Contestant::GoJson => "client-go, JSON",
            Contestant::GoProtobuf => "client-go, protobuf",
            Contestant::Slim => "Watershed, slim type",
            Contestant::Tiny => "Watershed, tiny type",
            Contestant::GoTransform => "client-go, JSON, managedFields dropped by a transform",
            Contestant::Handlers => "Watershed, tiny type",
            Contestant::OurQueue => "Watershed",
            Contestant::OurNext => "Watershed, workers with `next`",
            Contestant::BareQueue => "`Mutex<VecDeque>` and `Notify`",
            Contestant::OurPriorities => "Watershed, three priorities",
            Contestant::GoQueue => "client-go",
            Contestant::GoPriorityQueue => "controller-runtime, three priorities",
            Contestant::Krt(_) => "Watershed",
            Contestant::Driven(_) => "Watershed, driven by who writes",
            Contestant::Hand(_) => "a loop by hand",
            Contestant::HandThread(_) => "a loop by hand, on a thread of its own",
            Contestant::Istio(_) => "Istio",
        }
    }

    /// The name, and the graph if there is one.
    pub(crate) fn title(self) -> String {
        match self.graph() {
            Some(graph) => format!("{}: {}", graph.name(), self.name()),
            None => self.name().to_owned(),
        }
    }

    fn graph(self) -> Option<Graph> {
        match self {
            Contestant::Krt(graph)
            | Contestant::Driven(graph)
            | Contestant::Hand(graph)
            | Contestant::HandThread(graph)
            | Contestant::Istio(graph) => Some(graph),
            _ => None,
        }
    }

    pub(crate) fn is_go(self) -> bool {
        matches!(
            self,
            Contestant::GoJson
                | Contestant::GoProtobuf
                | Contestant::GoTransform
                | Contestant::GoQueue
                | Contestant::GoPriorityQueue
                | Contestant::Istio(_)
        )
    }

    /// Whether it runs the course of queues: without a server, without data.
    fn is_queue(self) -> bool {
        Scenario::Queue.contestants().contains(&self)
    }

    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Contestant::Floor | Contestant::FloorMimalloc)
    }

    /// The binary of this package that it runs in; they differ in their allocator.
    fn binary(self) -> &'static str {
        match self {
            Contestant::OursMimalloc | Contestant::OursHuge | Contestant::FloorMimalloc => "peers-mimalloc",
            _ => "peers",
        }
    }

    fn environment(self) -> Option<(&'static str, &'static str)> {
        (self == Contestant::OursHuge).then_some(("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1"))
    }

    /// Whether counting its requests tells anything new.
    fn is_counted(self) -> bool {
        !self.is_go() && !self.is_queue() && self.binary() == "peers" && self.graph() != Some(Graph::Million)
    }

    fn args(self) -> &'static [&'static str] {
        match self {
            Contestant::Ours | Contestant::OursMimalloc => &["ours", "--of=full"],
            Contestant::OursWorker | Contestant::OursHuge => &["ours", "--of=full", "--own-worker"],
            Contestant::OursThreads => &["ours", "--of=full", "--own-worker", "--decode-threads=2"],
            Contestant::Slim => &["ours", "--of=slim"],
            Contestant::Tiny => &["ours", "--of=tiny"],
            Contestant::Floor | Contestant::FloorMimalloc => &["floor"],
            Contestant::KubeRuntime => &["kube-runtime"],
            Contestant::Handlers => &["handlers"],
            Contestant::GoJson => &["informer"],
            Contestant::GoProtobuf => &["informer", "-protobuf"],
            Contestant::GoTransform => &["informer", "-transform"],
            Contestant::OurQueue => &["queue", "--repeats=5", "--of=plain"],
            Contestant::OurNext => &["queue", "--repeats=5", "--of=next"],
            Contestant::BareQueue => &["queue", "--repeats=5", "--of=bare"],
            Contestant::OurPriorities => &["queue", "--repeats=5", "--of=priorities"],
            Contestant::GoQueue => &["queue", "-repeats=5"],
            Contestant::GoPriorityQueue => &["queue", "-repeats=5", "-priority"],
            // After those of the graph.
            Contestant::Krt(_) => &["--of=engine"],
            Contestant::Driven(_) => &["--of=driven"],
            Contestant::Hand(_) => &["--of=hand"],
            Contestant::HandThread(_) => &["--of=hand-thread"],
            Contestant::Istio(_) => &[],
        }
    }
}

/// What one contestant measured, round by round; and, for Rust, what the counting allocator counted.
pub(crate) struct Measured {
    pub(crate) contestant: Contestant,
    pub(crate) rounds: Vec<Outcome>,
    pub(crate) counted: Option<Outcome>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(args.rounds > 0, "no rounds");
    let rounds = if args.quick { 1 } else { args.rounds };
    let scenarios = if args.scenarios.is_empty() {
        &Scenario::ALL[..]
    } else {
        &args.scenarios
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut all = Vec::new();
    for &scenario in scenarios {
        let size = scenario.size(args.quick);
        let runner = Runner::new(args, scenario, size)?;
        let mut measured: Vec<Measured> = Vec::new();
        for &contestant in scenario.contestants() {
            if contestant.is_counted() {
                eprintln!("{scenario:?}: {}, counted", contestant.title());
            }
            let counted = contestant
                .is_counted()
                .then(|| runner.measure(contestant, true))
                .transpose()?;
            measured.push(Measured {
                contestant,
                rounds: Vec::new(),
                counted,
            });
        }
        for round in 1..=rounds {
            for one in &mut measured {
                eprint!("{scenario:?}: round {round} of {rounds}, {}: ", one.contestant.title());
                let outcome = runner.measure(one.contestant, false)?;
                eprintln!("{}", serde_json::to_string(&outcome)?);
                one.rounds.push(outcome);
            }
        }
        all.push((scenario, size, measured));
    }
    let text = report::of(&all, rounds, load.trim());
    if args.quick {
        eprintln!("everything runs");
        return Ok(());
    }
    report::write(&args.results, &text)?;
    eprintln!("written: {}", args.results.display());
    Ok(())
}

/// What is needed to run a contestant.
struct Runner<'a> {
    go: &'a Path,
    data: PathBuf,
    size: Size,
    quick: bool,
}

/// Ends its process when dropped.
struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl<'a> Runner<'a> {
    /// Prepares the data, unless it is there from an earlier run of the same program.
    fn new(args: &'a Args, scenario: Scenario, size: Size) -> anyhow::Result<Self> {
        let this = Self {
            go: &args.go,
            data: args.data.join(format!("{}-{}", size.pods, size.events)),
            size,
            quick: args.quick,
        };
        if matches!(scenario, Scenario::Queue | Scenario::Collections) {
            return Ok(this);
        }
        let done = this.data.join("done");
        let program = std::env::current_exe()?;
        let newer = |path: &Path| path.metadata().and_then(|meta| meta.modified());
        if newer(&done).is_ok_and(|done| newer(&program).is_ok_and(|program| program < done)) {
            return Ok(this);
        }
        eprintln!("preparing {} pods and {} events", size.pods, size.events);
        prepare::prepare(&this.data, size.pods, size.events)?;
        let status = Command::new(this.go)
            .arg("encode")
            .arg(&this.data)
            .status()
            .context("cannot start the Go peer")?;
        anyhow::ensure!(status.success(), "the Go peer cannot encode: {status}");
        std::fs::write(done, "")?;
        Ok(this)
    }

    fn serve(&self, protobuf: bool) -> anyhow::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("serve")
            .arg(&self.data)
            .args(protobuf.then_some("--protobuf"));
        let child = command
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut server = Server {
            process: child,
            address: String::new(),
        };
        let out = server.process.stdout.take().context("the server has no output")?;
        BufReader::new(out).read_line(&mut server.address)?;
        server.address.truncate(server.address.trim_end().len());
        anyhow::ensure!(!server.address.is_empty(), "the server did not tell its address");
        Ok(server)
    }

    fn measure(&self, contestant: Contestant, counted: bool) -> anyhow::Result<Outcome> {
        let mut program = std::env::current_exe()?;
        program.set_file_name(if counted { "peers-counted" } else { contestant.binary() });
        let mut command = Command::new(if contestant.is_go() { self.go } else { &program });
        if let Some(graph) = contestant.graph() {
            command.args(graph.args(self.quick));
        }
        command.args(contestant.args()).envs(contestant.environment());
        let server = match contestant {
            _ if contestant.is_floor() => {
                command.arg(&self.data);
                None
            }
            _ if contestant.is_queue() || contestant.graph().is_some() => None,
            _ => Some(self.serve(contestant == Contestant::GoProtobuf)?),
        };
        let Size { pods, events, handlers } = self.size;
        match contestant {
            _ if contestant.is_floor() => {
                command.arg(format!("--pods={pods}"));
            }
            _ if contestant.is_queue() => {
                command.arg(format!("--keys={pods}"));
            }
            Contestant::Handlers => {
                command.arg(format!("--handlers={handlers}"));
            }
            _ if contestant.graph().is_some() => {}
            _ => {
                command.arg(format!("--pods={pods}")).arg(format!("--events={events}"));
            }
        }
        if let Some(server) = &server {
            command.arg(&server.address);
        }
        let name = contestant.title();
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {name}"))?;
        anyhow::ensure!(output.status.success(), "{name} failed: {}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("what {name} printed is no outcome"))
    }
}
