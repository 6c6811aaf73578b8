//! One program for all fuzz targets: `FUZZ_TARGET` names the one that is run, and the seeds of it are written to the folder
//! `FUZZ_CORPUS` at the start. The rest of the command line is libFuzzer's. `fuzz/run` sets all that.
#![no_main]

use std::sync::OnceLock;
use std::{env, fs, path::Path};

use fake_apiserver::fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

/// Chooses the target and writes its seeds.
fn begin() {
    // A panic that the server itself catches is none: those that get out still end the program.
    drop(std::panic::take_hook());
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("FUZZ_TARGET is one of {}", names.join(", "));
    };
    if let Ok(folder) = env::var("FUZZ_CORPUS") {
        for (number, seed) in target.seeds.iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{number}"));
            fs::write(&path, seed).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
        let words = target.words.iter().map(|word| quoted(word)).collect::<String>();
        let path = Path::new(&folder).with_extension("words");
        fs::write(&path, words).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
    TARGET.get_or_init(|| target);
}

/// A line of a dictionary.
fn quoted(word: &str) -> String {
    let bytes: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{bytes}\"\n")
}

fuzz_target!(init: begin(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        target.check(data);
    }
});
