//! Requests written by hand: what clients get wrong, and what random requests rarely have.
//!
//! `written.txt` and, for the bodies of built-in kinds, `builtin.txt` have one on each line, in the form in which the random comparison shows what it has found; `=` begins again
//! in an empty namespace, `#` is a remark. `DIFFERENTIAL_FILE` names another file of this form.

use super::pair::Pair;
use super::probe::Probe;
use super::{Report, Verdict, ask, difference, exempt};

const REQUESTS: &str = include_str!("written.txt");
const BUILT_IN: &str = include_str!("builtin.txt");

// [F18] what clients get wrong is answered alike
#[tokio::test]
#[ignore = "needs the API server rig"]
async fn both_servers_answer_written_requests_alike() {
    let file = std::env::var("DIFFERENTIAL_FILE")
        .ok()
        .map(|path| std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("DIFFERENTIAL_FILE={path}: {e}")));
    compare(file.as_deref().unwrap_or(REQUESTS), Specs::Some).await;
}

// [F16] built-in kinds are filled in, and refused, alike
#[tokio::test]
#[ignore = "needs the API server rig"]
async fn both_servers_fill_in_and_refuse_built_in_kinds_alike() {
    compare(BUILT_IN, Specs::All).await;
}

/// What of specs is validated here as on a real server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specs {
    Some,
    All,
}

async fn compare(requests: &str, specs: Specs) {
    let mut pair = Pair::new().await;
    let mut report = Report::default();
    pair.start_again().await;
    for line in requests.lines().map(str::trim_start) {
        if line.starts_with('=') {
            pair.start_again().await;
        } else if !line.is_empty() && !line.starts_with('#') {
            let probe = Probe::parse(line);
            let (fake, real, mut verdict) = ask(&mut pair, &probe).await;
            // What these requests are about is no exemption.
            if specs == Specs::All && matches!(verdict, Verdict::Exempt(exempt::SPEC)) {
                verdict = Verdict::Found(difference(&probe, &fake, &real));
            }
            report.count(&probe, &real, &verdict);
            report.show(verdict, &format!("    {probe}"));
        }
    }
    report.conclude();
}
