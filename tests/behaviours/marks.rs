//! The list in `docs/behaviours.md` against the marks in the sources: a line that says *held* has a test, and no mark is
//! for a behaviour that the list does not know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust and Go source of the workspace, without build output.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name != "target" && !name.starts_with('.') {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The marks in comments of `text`: `[I16]` gives `I16`.
fn marks(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| line.trim_start().starts_with("//"))
        .flat_map(|line| {
            line.split('[').skip(1).filter_map(|rest| {
                let mark = rest.split_once(']')?.0;
                let digits = mark.trim_start_matches(|c: char| c.is_ascii_uppercase());
                let letters = mark.len() - digits.len();
                let well_formed = (1..=2).contains(&letters) && !digits.is_empty();
                (well_formed && digits.bytes().all(|b| b.is_ascii_digit())).then_some(mark)
            })
        })
}

#[test]
fn every_behaviour_listed_as_held_has_a_marked_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(root.join("docs/behaviours.md")).unwrap();
    let mut held = BTreeSet::new();
    let mut known = BTreeSet::new();
    for line in list.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, id, state @ ("held" | "open"), ..] = cells[..] {
            assert!(known.insert(id.to_owned()), "{id} is listed twice");
            if state == "held" {
                held.insert(id.to_owned());
            }
        }
    }
    assert!(held.len() > 50, "the list was not read: {} held lines", held.len());

    let mut files = Vec::new();
    for folder in ["crates", "src", "tests", "examples"] {
        sources(&root.join(folder), &mut files);
    }
    let mut marked = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("tests/behaviours/marks.rs")) {
        let text = fs::read_to_string(file).unwrap();
        marked.extend(marks(&text).map(str::to_owned));
    }
    let untested: Vec<_> = held.difference(&marked).collect();
    assert!(
        untested.is_empty(),
        "listed as held, but no test carries the mark: {untested:?}"
    );
    let unknown: Vec<_> = marked.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "marked in a test, but not in docs/behaviours.md: {unknown:?}"
    );
}
