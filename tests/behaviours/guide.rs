//! The guide `docs/writing-a-controller.md` is the program `examples/team_info`, word for word: that one is compiled and its tests
//! are run, so what the guide shows works.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The Rust blocks of the guide by the file that the line before them names, as in "`src/main.rs`:".
fn files(guide: &str) -> BTreeMap<String, Vec<String>> {
    let (mut files, mut named, mut block) = (BTreeMap::<String, Vec<String>>::new(), None, None);
    for line in guide.lines() {
        match (line, &mut block) {
            ("```rust", None) => block = Some(Vec::new()),
            ("```", Some(lines)) => {
                let file = named.take().unwrap_or_else(|| panic!("a block of no file: {lines:?}"));
                files.entry(file).or_default().push(lines.join("\n"));
                block = None;
            }
            (line, Some(lines)) => lines.push(line),
            ("", None) => {}
            (line, None) => {
                let quoted = line.strip_prefix("`src/").and_then(|rest| rest.split_once('`'));
                named = quoted.map(|(name, _)| name.to_owned());
            }
        }
    }
    assert!(block.is_none(), "a block without an end");
    files
}

#[test]
fn the_program_of_the_guide_is_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/writing-a-controller.md")).unwrap();
    let files = files(&guide);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["controller.rs", "controller/tests.rs", "main.rs"]);
    for (name, blocks) in &files {
        let example = fs::read_to_string(root.join("examples/team_info").join(name)).unwrap();
        let (shown, example) = (blocks.join("\n\n"), example.trim_end());
        let differs = shown
            .lines()
            .zip(example.lines())
            .find(|(shown, example)| shown != example);
        assert_eq!(differs, None, "{name}: the guide, and the example");
        assert_eq!(shown, example, "{name}");
    }
}

/// The versions that the guide asks for are those that the workspace is built with.
#[test]
fn the_guide_asks_for_the_versions_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/writing-a-controller.md")).unwrap();
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let version = |line: &str| {
        let (name, rest) = line.split_once(" = ")?;
        let rest = rest.strip_prefix("{ version = ").unwrap_or(rest);
        let version = rest.strip_prefix('"')?.split_once('"')?.0;
        Some((name.to_owned(), version.to_owned()))
    };
    let (_, manifest) = guide.split_once("```toml\n").unwrap();
    let (_, asked) = manifest
        .split_once("\n```")
        .unwrap()
        .0
        .split_once("[dependencies]\n")
        .unwrap();
    let used: BTreeMap<String, String> = workspace.lines().filter_map(version).collect();
    let asked: Vec<(String, String)> = asked.lines().filter_map(version).collect();
    assert!(asked.len() >= 5, "{asked:?}");
    for (name, version) in asked {
        let used = &used[&name];
        assert!(
            used == &version || used.starts_with(&format!("{version}.")),
            "{name}: {version} in the guide, {used} in the workspace"
        );
    }
}
