//! Leaves out of the steps to a difference whatever it does not need.

use serde_json::Value;

use super::pair::Pair;
use super::probe::{Content, Probe};
use super::{Verdict, ask};

/// How many smaller runs are tried.
const TRIES: usize = 250;

/// The steps without those parts that the difference at their end does not need.
pub(super) async fn shrink(pair: &mut Pair, mut steps: Vec<Probe>, signature: &str) -> Vec<Probe> {
    let mut tries = TRIES;
    // The last step alone, and then the history from its end, are the likeliest.
    if let Some(last) = steps.last().cloned() {
        if reproduces(pair, std::slice::from_ref(&last), signature).await {
            steps = vec![last];
        } else {
            let path = last.object_path();
            let of_same = |step: &&Probe| step.object_path() == path || path.starts_with(&step.path);
            let same: Vec<_> = steps.iter().filter(of_same).cloned().collect();
            if reproduces(pair, &same, signature).await {
                steps = same;
            }
        }
    }
    while tries > 0 {
        let mut smaller = None;
        for candidate in candidates(&steps) {
            tries -= 1;
            if reproduces(pair, &candidate, signature).await {
                smaller = Some(candidate);
                break;
            }
            if tries == 0 {
                break;
            }
        }
        match smaller {
            Some(found) => steps = found,
            None => break,
        }
    }
    steps
}

async fn reproduces(pair: &mut Pair, steps: &[Probe], signature: &str) -> bool {
    let Some((last, before)) = steps.split_last() else {
        return false;
    };
    pair.start_again().await;
    for step in before {
        pair.ask(step).await;
    }
    let (_, _, verdict) = ask(pair, last).await;
    matches!(verdict, Verdict::Found(found) if found.signature == signature)
}

/// Every way to leave out one thing.
fn candidates(steps: &[Probe]) -> Vec<Vec<Probe>> {
    let mut all = Vec::new();
    for at in 0..steps.len().saturating_sub(1) {
        let mut fewer = steps.to_vec();
        fewer.remove(at);
        all.push(fewer);
    }
    for (at, step) in steps.iter().enumerate() {
        let mut with = |changed: Probe| {
            let mut other = steps.to_vec();
            other[at] = changed;
            all.push(other);
        };
        for pair in 0..step.query.len() {
            let mut changed = step.clone();
            changed.query.remove(pair);
            with(changed);
        }
        for header in 0..step.headers.len() {
            let mut changed = step.clone();
            changed.headers.remove(header);
            with(changed);
        }
        if let Content::Json(value) = &step.body {
            for smaller in without_one(value) {
                let mut changed = step.clone();
                changed.body = Content::Json(smaller);
                with(changed);
            }
        }
    }
    all
}

/// The value without one of its members or items, at any depth.
fn without_one(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let mut fewer = members.clone();
                fewer.remove(key);
                all.push(Value::Object(fewer));
                for smaller in without_one(member) {
                    let mut changed = members.clone();
                    changed.insert(key.clone(), smaller);
                    all.push(Value::Object(changed));
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let mut fewer = items.clone();
                fewer.remove(at);
                all.push(Value::Array(fewer));
                for smaller in without_one(item) {
                    let mut changed = items.clone();
                    changed[at] = smaller;
                    all.push(Value::Array(changed));
                }
            }
        }
        _ => {}
    }
    all
}
