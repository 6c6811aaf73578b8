//! The comparison of work queues as Markdown.

use std::fmt::Write;

use crate::report::Figure;
use crate::rounds::{Contestant, Measured};

/// The parts of the course: figure, title.
const PARTS: [(&str, &str); 6] = [
    ("one_ns", "add, get, done"),
    ("drain_ns", "1,000 adds, then drain"),
    ("again_ns", "add of a waiting key"),
    ("contended_ns", "4 producers, 4 consumers"),
    ("after_ns", "add_after, end to end"),
    ("limiter_ns", "limiter: when, forget"),
];

/// Nanoseconds per key of each part, and what follows from them.
pub(crate) fn of(keys: u64, measured: &[Measured]) -> String {
    let mut text = "Nanoseconds per key, minimum / median over the rounds.\n\n| |".to_owned();
    for (_, title) in PARTS {
        let _ = write!(text, " {title} |");
    }
    let _ = write!(text, "\n| --- |{}", " --- |".repeat(PARTS.len()));
    for one in measured {
        let _ = write!(text, "\n| {} |", one.contestant.name());
        for (name, _) in PARTS {
            let figure = Figure::of(one, name).map(|figure| figure.per(keys));
            let _ = write!(text, " {} |", Figure::show(figure, 0));
        }
    }
    text.push_str("\n\n| target | must reach | measured | |\n| --- | --- | --- | --- |");
    let figure = |contestant: Contestant, name: &str| {
        let one = measured.iter().find(|one| one.contestant == contestant)?;
        Figure::of(one, name)
    };
    let mut row = |peer: Contestant, ours: Contestant, bound: f64, (name, title): (&str, &str)| {
        let (Some(theirs), Some(our)) = (figure(peer, name), figure(ours, name)) else {
            return;
        };
        let ratio = theirs.over(our);
        let verdict = if ratio.reaches(bound) { "holds" } else { "**missed**" };
        let _ = write!(
            text,
            "\n| P12: {title}: {} over {} | at least {bound} | {} | {verdict} |",
            peer.name(),
            ours.name(),
            Figure::show(Some(ratio), 2)
        );
    };
    for part in PARTS {
        row(Contestant::GoQueue, Contestant::OurQueue, 1.0, part);
    }
    for part in PARTS {
        row(Contestant::GoPriorityQueue, Contestant::OurPriorities, 5.0, part);
    }
    text.push('\n');
    text
}
