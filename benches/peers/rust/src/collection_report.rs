//! The comparison of collections as Markdown.

use std::fmt::Write;

use crate::graphs::Graph;
use crate::report::Figure;
use crate::rounds::{Contestant, Measured};

/// The parts of the course: figure, title, what its nanoseconds are divided by, digits.
const PARTS: [(&str, &str, u64, usize); 5] = [
    ("pod_ns", "update of a pod, µs", 1_000, 2),
    (
        "pod_cpu_ns",
        "its processor time, with making and freeing the pod",
        1_000,
        2,
    ),
    ("service_ns", "update of a service, `fetch`, µs", 1_000, 2),
    ("service_map_ns", "the same, `fetch_map`, µs", 1_000, 2),
    ("initial_ns", "initial computation, ms", 1_000_000, 1),
];

/// Figures of each graph, and what follows from them.
pub(crate) fn of(measured: &[Measured]) -> String {
    let mut text = "Pods x services. Minimum / median over the rounds; heap as it was counted, or live after a collection (Go).\n\n| |"
        .to_owned();
    for (_, title, ..) in PARTS {
        let _ = write!(text, " {title} |");
    }
    let _ = write!(text, " heap, MB |\n| --- |{}", " --- |".repeat(PARTS.len() + 1));
    for one in measured {
        let _ = write!(text, "\n| {} |", one.contestant.title());
        for (name, _, unit, digits) in PARTS {
            let figure = Figure::of(one, name).map(|figure| figure.per(unit));
            let _ = write!(text, " {} |", Figure::show(figure, digits));
        }
        let heap = heap(one).map(|figure| figure.per(1_000_000));
        let _ = write!(text, " {} |", Figure::show(heap, 1));
    }
    text.push_str("\n\n| target | must reach | measured | |\n| --- | --- | --- | --- |\n");
    text.push_str(&targets(measured));
    text
}

/// Bytes that everything computed takes.
fn heap(one: &Measured) -> Option<Figure> {
    if let Some(counted) = &one.counted {
        return counted.0.get("heap").map(|bytes| Figure::exact(*bytes));
    }
    one.contestant.is_go().then(|| Figure::of(one, "heap"))?
}

/// A row about the engine when nothing is on another thread.
const DRIVEN: &str = "the same, driven by who writes";

/// What one is measured by.
type Measure = fn(&Measured) -> Option<Figure>;

fn targets(measured: &[Measured]) -> String {
    const POD: Measure = |one| Figure::of(one, "pod_ns");
    const SERVICE: Measure = |one| Figure::of(one, "service_ns");
    const SERVICE_MAP: Measure = |one| Figure::of(one, "service_map_ns");
    const INITIAL: Measure = |one| Figure::of(one, "initial_ns");
    let figure =
        |contestant: Contestant, measure: Measure| measure(measured.iter().find(|one| one.contestant == contestant)?);
    let mut text = String::new();
    let mut row = |name: String, at_least: bool, bound: f64, above: Option<Figure>, below: Option<Figure>| {
        let Some((above, below)) = above.zip(below) else {
            return;
        };
        let ratio = above.over(below);
        let (word, holds) = if at_least {
            ("at least", ratio.reaches(bound))
        } else {
            ("at most", ratio.stays_below(bound))
        };
        let verdict = if holds { "holds" } else { "**missed**" };
        let shown = Figure::show(Some(ratio), 2);
        let _ = writeln!(text, "| {name} | {word} {bound} | {shown} | {verdict} |");
    };
    let (ours, istio, hand) = (Contestant::Krt, Contestant::Istio, Contestant::Hand);
    for (target, graph, bound) in [
        ("P1", Graph::Small, 20.0),
        ("P2", Graph::Middle, 25.0),
        ("P2", Graph::Unique, 25.0),
        ("P3", Graph::Large, 30.0),
    ] {
        let name = format!("{target}: Istio's time of a pod's update over ours, {}", graph.name());
        for (name, contestant) in [
            (&name[..], ours(graph)),
            (DRIVEN, Contestant::Driven(graph)),
            ("for comparison: Istio's over that of the loop by hand", hand(graph)),
            (
                "for comparison: Istio's over that of the loop on a thread of its own",
                Contestant::HandThread(graph),
            ),
        ] {
            row(
                name.to_owned(),
                true,
                bound,
                figure(istio(graph), POD),
                figure(contestant, POD),
            );
        }
    }
    let (middle, large) = (Graph::Middle, Graph::Large);
    row(
        "P2: our time of a pod's update with unique labels over that without".to_owned(),
        false,
        1.3,
        figure(ours(Graph::Unique), POD),
        figure(ours(middle), POD),
    );
    row(
        "P3: Istio's initial computation over ours".to_owned(),
        true,
        10.0,
        figure(istio(large), INITIAL),
        figure(ours(large), INITIAL),
    );
    row(
        "P3: Istio's heap over ours".to_owned(),
        true,
        3.0,
        figure(istio(large), heap),
        figure(ours(large), heap),
    );
    for (how, measure) in [("fetch", SERVICE), ("fetch_map", SERVICE_MAP)] {
        row(
            format!("P4: Istio's time of a service's update over ours with `{how}`"),
            true,
            50.0,
            figure(istio(middle), SERVICE),
            figure(ours(middle), measure),
        );
    }
    row(
        "P5: our time of a pod's update among 1,000,000 over that among 10,000".to_owned(),
        false,
        2.0,
        figure(ours(Graph::Million), POD),
        figure(ours(middle), POD),
    );
    for graph in Graph::ALL {
        let name = format!("P6: our time of a pod's update over that by hand, {}", graph.name());
        for (name, ours, hand) in [
            (&name[..], ours(graph), hand(graph)),
            (DRIVEN, Contestant::Driven(graph), hand(graph)),
            (
                "ours over that by hand, each on a thread of its own",
                ours(graph),
                Contestant::HandThread(graph),
            ),
        ] {
            row(name.to_owned(), false, 1.5, figure(ours, POD), figure(hand, POD));
        }
    }
    text
}
