//! Any of the ways in which a server misbehaves on lists and watches.

use std::time::Duration;

use fake_apiserver::{Cut, Fault, Rule, StatusFault, Verb};
use fastrand::Rng;

/// A rule with a random fault, for a random share of the requests; and whether it packs answers.
pub(super) fn any(rng: &mut Rng) -> (Rule, bool) {
    let after = rng.usize(..4);
    let fault = match rng.u8(..27) {
        0 | 1 => Fault::status(410),
        2 => StatusFault::new(429).retry_after(rng.u32(..40)).into(),
        3 => Fault::status(429),
        4 => Fault::status([401, 403, 404][rng.usize(..3)]),
        5 => Fault::status([500, 503, 504, 409][rng.usize(..4)]),
        6 => Fault::status([400, 422, 501][rng.usize(..3)]),
        7 => StatusFault::new(504)
            .message("Timeout: Too large resource version: 9, current: 1")
            .into(),
        8 => Fault::Refuse,
        9 => Fault::LoseResponse,
        10 | 11 => Fault::Reset {
            after,
            cut: [Cut::Between, Cut::MidLine][rng.usize(..2)],
        },
        12 => Fault::EndWatch { after },
        13 | 14 => Fault::WatchError {
            after,
            status: StatusFault::new(410),
        },
        15 => Fault::WatchError {
            after,
            status: StatusFault::new([500, 429, 403][rng.usize(..3)]),
        },
        16 => Fault::WithholdBookmarks,
        17 => Fault::WithholdInitialEventsEnd,
        18 => Fault::Latency(Duration::from_millis(rng.u64(..45_000))),
        19 | 20 => Fault::Compact,
        21 | 22 => Fault::Silence { after },
        23 => Fault::Chunks { size: rng.usize(1..40) },
        24 | 25 => Fault::Packed,
        _ => Fault::Page {
            code: [200, 404, 503][rng.usize(..3)],
            body: "<html></html>".to_owned(),
        },
    };
    let packs = fault == Fault::Packed;
    let mut rule = Rule::new(fault).resource("configmaps").chance(0.2 + 0.7 * rng.f64());
    rule = match rng.u8(..4) {
        0 => rule.verb(Verb::List),
        1 => rule.verb(Verb::Watch),
        2 => rule.verb(Verb::List).verb(Verb::Watch),
        _ => rule.verb(Verb::List).verb(Verb::Watch).times(rng.u64(1..6)),
    };
    if rng.u8(..8) == 0 {
        rule = rule.page(rng.u64(1..4));
    }
    (rule, packs)
}
