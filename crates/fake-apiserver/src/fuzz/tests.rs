//! The bounded form of the targets: their seeds, and mutations of these. What was found is here by name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;

use super::{TARGETS, Target};

/// Inputs of a target in one run of the tests, the same ones each time, so that a change is judged by them. `FUZZ_INPUTS` names
/// another number, `FUZZ_SEED` another seed.
const INPUTS: usize = 2_000;
const SEED: u64 = 25;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A few changes to a text.
fn mutate(rng: &mut Rng, target: &Target, data: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=data.len());
        let end = at + rng.usize(..=(data.len() - at).min(24));
        match rng.u8(..9) {
            0 => {
                let word = target.words[rng.usize(..target.words.len())];
                data.splice(at..at, word.bytes());
            }
            1 => {
                let word = target.words[rng.usize(..target.words.len())];
                data.splice(at..end, word.bytes());
            }
            2 => drop(data.drain(at..end)),
            3 => {
                let piece = data[at..end].repeat(rng.usize(1..4));
                data.splice(at..at, piece);
            }
            4 => {
                let other = target.seeds[rng.usize(..target.seeds.len())].as_bytes();
                let from = rng.usize(..other.len());
                let to = from + rng.usize(..=(other.len() - from).min(40));
                data.splice(at..end, other[from..to].iter().copied());
            }
            5 if at < data.len() => data[at] = rng.u8(..),
            6 if at < data.len() => data[at] ^= 1 << rng.u8(..8),
            7 => {
                let piece = data[at..end].to_vec();
                let to = rng.usize(..=data.len());
                data.splice(to..to, piece);
            }
            8 if rng.u8(..32) == 0 => {
                let piece = data[at..end].repeat(2_000 / (end - at).max(1));
                data.splice(at..at, piece);
            }
            _ => data.insert(at, rng.u8(..)),
        }
        data.truncate(64 * 1024);
    }
}

/// Runs a target on its seeds, and on mutations of them.
fn bounded(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    for seed in target.seeds {
        target.check(seed.as_bytes());
    }
    let seed = number("FUZZ_SEED").unwrap_or(SEED);
    let inputs = number("FUZZ_INPUTS").map_or(INPUTS, |inputs| usize::try_from(inputs).expect("a number of inputs"));
    println!("{name}: FUZZ_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..inputs {
        let mut data = target.seeds[rng.usize(..target.seeds.len())].as_bytes().to_vec();
        mutate(&mut rng, target, &mut data);
        let outcome = catch_unwind(AssertUnwindSafe(|| target.check(&data)));
        assert!(
            outcome.is_ok(),
            "{name}, FUZZ_SEED={seed}: {:?}",
            String::from_utf8_lossy(&data)
        );
    }
}

macro_rules! targets {
    ($($name:ident),+ $(,)?) => {
        const BOUNDED: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                // [F25]
                bounded(stringify!($name));
            }
        )+
    };
}

targets!(
    url, selectors, json, patches, strategic, apply, fields, schema, rules, protobuf, body, texts
);

#[test]
fn every_target_has_its_bounded_form() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, BOUNDED);
}

/// What is left of the seeds' kind when it is found that something was quadratic: each took minutes at these sizes.
mod grows_with_its_input {
    use crate::codec::{ContentType, FieldValidation, decode, duplicates};
    use crate::fuzz::resources;
    use crate::json::Tape;
    use crate::patch::{PatchType, field_findings};
    use crate::structured::{check, fields_v1};

    fn joined(parts: impl Iterator<Item = String>) -> String {
        parts.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_set_of_fields_in_any_order_and_with_repetitions() {
        // [F25] [F11]
        const COUNT: usize = 200_000;
        let backwards = joined((0..COUNT).rev().map(|at| format!(r#""f:{at:07}":{{}}"#)));
        let repeated = joined((0..COUNT).map(|at| format!(r#""f:a":{{"f:{at}":{{}}}}"#)));
        for fields in [backwards, repeated] {
            let text = format!("{{{fields}}}");
            let tape = Tape::parse(text.as_bytes()).unwrap();
            let set = fields_v1::decode(tape.root()).unwrap();
            assert_eq!(set.paths().len(), COUNT);
        }
    }

    #[test]
    fn many_owners() {
        // [F25]
        const COUNT: usize = 150_000;
        let owners = joined((0..COUNT).chain(0..2).map(|at| format!(r#"{{"uid":"{at}"}}"#)));
        let body = format!(r#"{{"metadata":{{"ownerReferences":[{owners}]}}}}"#);
        let maps = resources::built_in("configmaps");
        let decoded = decode(maps, ContentType::Json, body.as_bytes(), FieldValidation::Warn).unwrap();
        assert_eq!(decoded.object.meta.owner_references.len(), COUNT);
        assert!(
            decoded
                .repeated_owners
                .unwrap()
                .ends_with("duplicate UID(s) observed: 0, 1")
        );
    }

    #[test]
    fn fields_that_are_there_many_times_far_down() {
        // [F25] [F14]
        let depth = 2_000;
        let inner = joined((0..200_000).map(|_| r#""b":1"#.to_owned()));
        let text = format!("{}{{{inner}}}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let tape = Tape::parse(text.as_bytes()).unwrap();
        assert_eq!(duplicates(tape.root()).len(), 1);
    }

    #[test]
    fn members_of_an_operation_that_are_there_many_times() {
        // [F25] [F10]
        let [ops, paths] =
            [r#""op":"add""#, r#""path":"/a""#].map(|member| joined((0..100_000).map(|_| member.to_owned())));
        let patch = format!("[{{{ops},{paths}}}]");
        let found = field_findings(PatchType::Json, patch.as_bytes());
        let wanted = ["op", "path"].map(|name| format!(r#"json patch duplicate field "[0].{name}""#));
        assert_eq!(found, wanted);
    }

    #[test]
    fn items_that_keys_tell_apart() {
        // [F25] [F11]
        let finalizers = joined((0..150_000).rev().map(|at| format!(r#""a/{at:06}""#)));
        let text = format!(r#"{{"metadata":{{"finalizers":[{finalizers},"a/000000"]}}}}"#);
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let maps = resources::built_in("configmaps");
        assert_eq!(check(maps.structures.own.root(), tape.root()).len(), 1);
    }
}
