//! From outcomes to the part of RESULTS.md that is written by the command: what was measured, and whether it is enough.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::rounds::{Contestant, Measured, Scenario, Size};
use crate::{collection_report, queue_report};

const BEGIN: &str = "<!-- measured: written by benches/peers/run -->";
const END: &str = "<!-- measured: end -->";

/// The results of every scenario as Markdown.
pub(crate) fn of(all: &[(Scenario, Size, Vec<Measured>)], rounds: usize, load: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", environment(rounds, load));
    for (scenario, size, measured) in all {
        let table = match scenario {
            Scenario::Pods | Scenario::Small => course(size, measured),
            Scenario::Handlers => handlers(size, measured),
            Scenario::Queue => queue_report::of(size.pods, measured),
            Scenario::Collections => collection_report::of(measured),
        };
        let _ = writeln!(text, "### {}\n\n{table}", title(*scenario, size));
    }
    text
}

/// Puts the text between the markers of the document, or makes a new document.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let old = match std::fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("# Results\n\n{BEGIN}\n{END}\n"),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let marked = old
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) =
        marked.with_context(|| format!("{} lacks the markers of the measured part", path.display()))?;
    let new = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim());
    std::fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))
}

fn title(scenario: Scenario, size: &Size) -> String {
    let Size { pods, events, handlers } = size;
    match scenario {
        Scenario::Pods => format!("Whole pods: sync of {pods}, relist, {events} events"),
        Scenario::Small => format!("Small types: sync of {pods} pods, relist, {events} events"),
        Scenario::Handlers => format!("{handlers} handlers on {pods} objects"),
        Scenario::Queue => format!("Work queues: {pods} keys"),
        Scenario::Collections => "Collections on static sources".to_owned(),
    }
}

fn environment(rounds: usize, load: &str) -> String {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.filter(|text| !text.is_empty())
            .unwrap_or_else(|| "unknown".to_owned())
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let rows = [
        ("date", said("date", &["-u", "+%F %H:%M UTC"])),
        (
            "machine",
            format!(
                "{cores} x {}, Linux {}",
                model.map_or("unknown", |model| model.1),
                said("uname", &["-r"])
            ),
        ),
        ("load average before", load.to_owned()),
        (
            "rounds",
            format!("{rounds}, in alternation; a process and a server of its own each"),
        ),
        ("Watershed", said("git", &["rev-parse", "--short=12", "HEAD"])),
        (
            "Rust",
            format!(
                "{}; allocator: the system's, {}",
                said("rustc", &["--version"]),
                said("getconf", &["GNU_LIBC_VERSION"])
            ),
        ),
        ("Go", said("go", &["version"])),
        (
            "peers",
            "kube-runtime 5.0.0; client-go 0.37.2, gzip off; controller-runtime 0.25.2; istio eed52ebb66ad".to_owned(),
        ),
    ];
    let mut text = "| | |\n| --- | --- |".to_owned();
    for (name, value) in rows {
        let _ = write!(text, "\n| {name} | {value} |");
    }
    text
}

/// Minimum and median of one figure over the rounds.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    min: f64,
    median: f64,
}

impl Figure {
    #[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
    pub(crate) fn of(measured: &Measured, name: &str) -> Option<Self> {
        let mut values: Vec<u64> = measured
            .rounds
            .iter()
            .filter_map(|round| round.0.get(name).copied())
            .collect();
        values.sort_unstable();
        let middle = values.len().checked_sub(1)? / 2;
        let upper = values.len() / 2;
        Some(Self {
            min: values[0] as f64,
            median: f64::midpoint(values[middle] as f64, values[upper] as f64),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
    pub(crate) fn per(self, count: u64) -> Self {
        self.times(1.0 / count as f64)
    }

    fn times(self, factor: f64) -> Self {
        Self {
            min: self.min * factor,
            median: self.median * factor,
        }
    }

    pub(crate) fn show(this: Option<Self>, digits: usize) -> String {
        this.map_or_else(
            || "-".to_owned(),
            |Self { min, median }| format!("{min:.digits$} / {median:.digits$}"),
        )
    }

    /// How often the first goes into this, by minimum and by median.
    pub(crate) fn over(self, first: Self) -> Self {
        Self {
            min: self.min / first.min,
            median: self.median / first.median,
        }
    }
}

impl Figure {
    /// Whether it is at least so much, by the minimum: noise only ever adds.
    pub(crate) fn reaches(self, bound: f64) -> bool {
        self.min >= bound
    }

    /// Whether it is at most so much, by the minimum.
    pub(crate) fn stays_below(self, bound: f64) -> bool {
        self.min <= bound
    }

    /// What was counted, and so is the same in each round.
    #[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
    pub(crate) fn exact(counted: u64) -> Self {
        Self {
            min: counted as f64,
            median: counted as f64,
        }
    }
}

const MIB: f64 = 1.0 / 1_048_576.0;

fn course(size: &Size, measured: &[Measured]) -> String {
    let mut text =
        "Times in µs, minimum / median; the ratio is to the first row. CPU is of all threads of the contestant.\n\n\
        | | sync, per pod | ratio | CPU | event | ratio | CPU |\n| --- | --- | --- | --- | --- | --- | --- |"
            .to_owned();
    let time = |one: &Measured, name, count| Figure::of(one, name).map(|figure| figure.per(count).times(1e-3));
    let sync = |one: &Measured, name| time(one, name, size.pods);
    let event = |one: &Measured, name| time(one, name, size.events);
    let ratio = |one: Option<Figure>, first: Option<Figure>| {
        Figure::show(one.zip(first).map(|(one, first)| one.over(first)), 2)
    };
    let first = &measured[0];
    let mut row = |name: &str, one: &Measured, wall: &'static str, cpu: &'static str| {
        let _ = write!(
            text,
            "\n| {name} | {} | {} | {} | {} | {} | {} |",
            Figure::show(sync(one, "sync_ns"), 1),
            ratio(sync(one, "sync_ns"), sync(first, "sync_ns")),
            Figure::show(sync(one, "sync_cpu_ns"), 1),
            Figure::show(event(one, wall), 1),
            ratio(event(one, wall), event(first, "events_ns")),
            Figure::show(event(one, cpu), 1),
        );
    };
    for one in measured {
        row(one.contestant.name(), one, "events_ns", "events_cpu_ns");
        if one.contestant.is_floor() {
            row("the same, keeping the objects", one, "kept_ns", "kept_cpu_ns");
        }
    }
    text.push_str(
        "\n\nMemory: MiB, minimum / median; and counts, from the counting allocator or the Go runtime.\n\n\
        | | peak RSS at sync | steady RSS | peak RSS at relist | heap B per pod | allocations per event |\n\
        | --- | --- | --- | --- | --- | --- |",
    );
    for one in measured {
        let mib = |name| Figure::show(Figure::of(one, name).map(|figure| figure.times(MIB)), 0);
        let counted = |name: &str, count: u64| {
            let counted = one.counted.as_ref().and_then(|counted| counted.0.get(name).copied());
            let counted = counted.or_else(|| one.rounds.first()?.0.get(name).copied());
            counted.map_or_else(|| "-".to_owned(), |value: u64| (value / count).to_string())
        };
        let _ = write!(
            text,
            "\n| {} | {} | {} | {} | {} | {} |",
            one.contestant.name(),
            mib("sync_peak"),
            mib("steady"),
            mib("relist_peak"),
            counted("heap", size.pods),
            counted("allocations", size.events),
        );
    }
    let held = targets(size, measured);
    let _ = writeln!(
        text,
        "\n\n| target | must reach | measured | |\n| --- | --- | --- | --- |\n{held}"
    );
    text
}

/// The targets that can be told from this table.
fn targets(size: &Size, measured: &[Measured]) -> String {
    let find = |contestant| measured.iter().find(|one| one.contestant == contestant);
    let figure = |contestant, name| Figure::of(find(contestant)?, name);
    let ratio = |above: (Contestant, &'static str), below: (Contestant, &'static str)| {
        Some(figure(above.0, above.1)?.over(figure(below.0, below.1)?))
    };
    let heap = |contestant| find(contestant)?.counted.as_ref()?.0.get("heap").copied();
    let mut text = String::new();
    let mut row = |target: &str, at_least: bool, bound: f64, measured: Option<Figure>| {
        let Some(figure) = measured else { return };
        // By the minimum: noise only ever adds.
        let holds = if at_least {
            figure.reaches(bound)
        } else {
            figure.stays_below(bound)
        };
        let word = if at_least { "at least" } else { "at most" };
        let verdict = if holds { "holds" } else { "**missed**" };
        let _ = writeln!(
            text,
            "| {target} | {word} {bound} | {} | {verdict} |",
            Figure::show(measured, 2)
        );
    };
    let ours = Contestant::Ours;
    let alone = [
        ("the same, ours on a worker of its own", Contestant::OursWorker),
        ("the same, and lists decoded by two threads", Contestant::OursThreads),
        ("on a worker of its own with huge pages", Contestant::OursHuge),
    ];
    row(
        "P8: client-go's time of a sync (JSON) over ours",
        true,
        4.0,
        ratio((Contestant::GoJson, "sync_ns"), (ours, "sync_ns")),
    );
    for (name, contestant) in alone {
        let sync = ratio((Contestant::GoJson, "sync_ns"), (contestant, "sync_ns"));
        row(name, true, 4.0, sync);
    }
    row(
        "P8: our peak at sync over our steady state",
        false,
        1.15,
        ratio((ours, "sync_peak"), (ours, "steady")),
    );
    row(
        "P9: client-go's time of an event (JSON) over ours",
        true,
        7.0,
        ratio((Contestant::GoJson, "events_ns"), (ours, "events_ns")),
    );
    for (name, contestant) in alone {
        let event = ratio((Contestant::GoJson, "events_ns"), (contestant, "events_ns"));
        row(name, true, 7.0, event);
    }
    row(
        "P9: kube-runtime's time of an event over ours",
        true,
        1.7,
        ratio((Contestant::KubeRuntime, "events_ns"), (ours, "events_ns")),
    );
    row(
        "P9: our time of an event over `serde_json` without managedFields",
        false,
        1.15,
        ratio((ours, "events_ns"), (Contestant::Floor, "events_ns")),
    );
    row(
        "the same, `serde_json` keeping the objects as a cache does",
        false,
        1.15,
        ratio((ours, "events_ns"), (Contestant::Floor, "kept_ns")),
    );
    row(
        "the same, ours on a worker of its own",
        false,
        1.15,
        ratio((Contestant::OursWorker, "events_ns"), (Contestant::Floor, "kept_ns")),
    );
    row(
        "the same, both with mimalloc and two workers",
        false,
        1.15,
        ratio(
            (Contestant::OursMimalloc, "events_ns"),
            (Contestant::FloorMimalloc, "kept_ns"),
        ),
    );
    row(
        "P11: our peak at relist over our steady state",
        false,
        1.15,
        ratio((ours, "relist_peak"), (ours, "steady")),
    );
    for (name, contestant, bound) in [("slim", Contestant::Slim, 2300.0), ("tiny", Contestant::Tiny, 500.0)] {
        let bytes = heap(contestant).map(|bytes| Figure::exact(bytes).per(size.pods));
        row(&format!("P10: requested bytes per {name} pod"), false, bound, bytes);
        let peak = ratio((Contestant::GoTransform, "sync_peak"), (contestant, "sync_peak"));
        row(
            &format!("P10: client-go's peak over that of the {name} type"),
            true,
            4.0,
            peak,
        );
    }
    text
}

fn handlers(size: &Size, measured: &[Measured]) -> String {
    let mut text = "| | |\n| --- | --- |".to_owned();
    for one in measured {
        let figure = |name| Figure::of(one, name);
        let micros = |name| Figure::show(figure(name).map(|figure| figure.times(1e-3)), 1);
        let counted = |name: &str| {
            let counted = one.counted.as_ref().and_then(|counted| counted.0.get(name).copied());
            counted.map_or_else(|| "-".to_owned(), |value| value.to_string())
        };
        let rows = [
            ("registering the first handler, which blocks, µs", micros("blocked_ns")),
            (
                "registering one of the others, median, µs",
                micros("register_median_ns"),
            ),
            ("registering one of the others, worst, µs", micros("register_worst_ns")),
            ("registering all others, µs", micros("registered_ns")),
            ("until all others are synced, µs", micros("synced_ns")),
            ("requested bytes of the blocked handler", counted("blocked_heap")),
            (
                "requested bytes of each other handler, once synced",
                counted("handler_heap"),
            ),
            (
                "peak RSS above the steady state, MiB",
                Figure::show(figure("peak_above_steady").map(|figure| figure.times(MIB)), 1),
            ),
        ];
        for (name, value) in rows {
            let _ = write!(text, "\n| {name} | {value} |");
        }
    }
    let _ = writeln!(
        text,
        "\n\nThe {} objects are of the tiny type and shared by all handlers.",
        size.pods
    );
    text
}
