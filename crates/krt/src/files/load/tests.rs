//! What each state of a file or folder gives.

use serde::Deserialize;

use super::*;
use crate::key::KeyRef;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    #[serde(default)]
    value: i64,
}

impl Keyed for Rule {
    fn key(&self) -> KeyRef<'_> {
        assert_ne!(self.name, "panics", "a key of the user's");
        KeyRef::Plain(&self.name)
    }
}

/// A folder, and what is read of it.
struct Rig {
    folder: tempfile::TempDir,
    files: Files<Rule>,
}

impl Rig {
    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Place::Folder(folder.path().to_owned()));
        Self { folder, files }
    }

    fn file(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Place::File(folder.path().join(name)));
        Self { folder, files }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    /// The objects as `name=value`, and the reasons of the errors.
    fn load(&mut self) -> (Vec<String>, Vec<String>) {
        let (objects, errors) = self.files.load();
        let objects = objects
            .iter()
            .map(|rule| format!("{}={}", rule.name, rule.value))
            .collect();
        (objects, errors.into_iter().map(|error| error.to_string()).collect())
    }

    /// The objects, where nothing is wrong.
    fn good(&mut self) -> Vec<String> {
        let (objects, errors) = self.load();
        assert_eq!(errors, [""; 0]);
        objects
    }

    /// The objects, where this is wrong with one file.
    fn bad(&mut self, file: &str, reason: &str) -> Vec<String> {
        let (objects, errors) = self.load();
        let path = self.folder.path().join(file).display().to_string();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(&path) && errors[0].contains(reason), "{errors:?}");
        objects
    }
}

// [K24] a file: not there, created, changed, empty, wrong (the last good one stays), good again, gone
#[test]
fn a_file_gives_what_it_has_or_had() {
    for name in ["rule.yaml", "rule"] {
        let mut rig = Rig::file(name);
        assert_eq!(rig.good(), [""; 0]);
        rig.write(name, "name: a\nvalue: 1");
        assert_eq!(rig.good(), ["a=1"]);
        rig.write(name, "name: a\nvalue: [");
        assert_eq!(rig.bad(name, ""), ["a=1"]);
        rig.write(name, "name: a\nvalue: 2\nsurplus: 3");
        assert_eq!(rig.bad(name, "surplus"), ["a=1"]);
        rig.write(name, "name: a\n---\nname: b");
        assert_eq!(rig.bad(name, "2 documents where one is expected"), ["a=1"]);
        rig.write(name, "name: ''");
        assert_eq!(rig.bad(name, "empty key"), ["a=1"]);
        rig.write(name, "name: panics");
        assert_eq!(rig.bad(name, "panicked"), ["a=1"]);
        rig.write(name, "name: a\nvalue: 2");
        assert_eq!(rig.good(), ["a=2"]);
        for empty in ["", " \n", "# nothing\n", "---\n"] {
            rig.write(name, empty);
            assert_eq!(rig.good(), [""; 0], "{empty:?}");
        }
        rig.write(name, "name: [");
        assert_eq!(rig.bad(name, ""), [""; 0], "the last good one was nothing");
        rig.remove(name);
        assert_eq!(rig.good(), [""; 0]);
    }
}

// [K24] JSON by its name
#[test]
fn json_is_read_as_json() {
    let mut rig = Rig::file("rule.json");
    rig.write("rule.json", r#"{"name": "a", "value": 1}"#);
    assert_eq!(rig.good(), ["a=1"]);
    rig.write("rule.json", "name: b");
    assert_eq!(rig.bad("rule.json", "line 1"), ["a=1"]);
}

// [K24] a folder: each file by itself
#[test]
fn a_folder_gives_the_files_that_count() {
    let mut rig = Rig::folder();
    assert_eq!(rig.good(), [""; 0]);
    rig.write("b.yaml", "name: b");
    rig.write("a.yml", "name: a\n---\nname: c\n---\n# nothing");
    rig.write("d.JSON", r#"{"name": "d"}"#);
    rig.write(".hidden.yaml", "name: hidden");
    rig.write("notes.txt", "name: notes");
    fs::create_dir(rig.folder.path().join("deeper.yaml")).unwrap();
    assert_eq!(rig.good(), ["a=0", "c=0", "b=0", "d=0"], "by file, then by document");
    // A wrong one keeps what it had; others go on.
    rig.write("a.yml", "name: a\n---\nname: [");
    rig.write("b.yaml", "name: b\nvalue: 2");
    assert_eq!(rig.bad("a.yml", ""), ["a=0", "c=0", "b=2", "d=0"]);
    rig.remove("a.yml");
    assert_eq!(rig.good(), ["b=2", "d=0"]);
    // Of two with one key, the first file's counts, until it goes.
    rig.write("c.yaml", "name: b\nvalue: 3");
    assert_eq!(rig.bad("c.yaml", "the key b already"), ["b=2", "d=0"]);
    rig.remove("b.yaml");
    assert_eq!(rig.good(), ["b=3", "d=0"]);
    fs::remove_dir_all(rig.folder.path()).unwrap();
    assert_eq!(rig.good(), [""; 0]);
}

#[test]
fn what_is_too_large_or_no_text_is_refused() {
    let mut rig = Rig::file("rule.yaml");
    rig.write("rule.yaml", "name: a");
    assert_eq!(rig.good(), ["a=0"]);
    let large = File::create(rig.folder.path().join("rule.yaml")).unwrap();
    large.set_len(LARGEST + 1).unwrap();
    assert_eq!(rig.bad("rule.yaml", "more than 16 MiB"), ["a=0"]);
    fs::write(rig.folder.path().join("rule.yaml"), [0xff, 0xfe]).unwrap();
    assert_eq!(rig.bad("rule.yaml", "UTF-8"), ["a=0"]);
}

// A pipe would be waited for, and so keep the thread from ending with its source.
#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let mut rig = Rig::folder();
    rig.write("a.yaml", "name: a");
    let pipe = rig.folder.path().join("b.yaml");
    let made = std::process::Command::new("mkfifo").arg(pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(rig.bad("b.yaml", "no regular file"), ["a=0"]);
    let mut folder = Files::<Rule>::new(Place::File(rig.folder.path().to_owned()));
    assert_eq!(folder.load().1[0].reason, "it is no regular file");
}

/// A folder as the kubelet makes one of a config map.
#[cfg(unix)]
struct Volume(PathBuf);

#[cfg(unix)]
impl Volume {
    /// Puts a new version behind the link.
    fn swap(&self, version: &str, files: &[(&str, &str)]) {
        let side = self.0.join(format!("..{version}"));
        fs::create_dir(&side).unwrap();
        for (name, text) in files {
            fs::write(side.join(name), text).unwrap();
            let link = self.0.join(name);
            if fs::symlink_metadata(&link).is_err() {
                std::os::unix::fs::symlink(Path::new("..data").join(name), link).unwrap();
            }
        }
        let fresh = self.0.join("..data_tmp");
        std::os::unix::fs::symlink(format!("..{version}"), &fresh).unwrap();
        fs::rename(&fresh, self.0.join("..data")).unwrap();
    }
}

// [K24] what the kubelet makes of a config map: links behind one link that is swapped
#[cfg(unix)]
#[test]
fn a_swapped_folder_is_read_from_one_side() {
    let mut rig = Rig::folder();
    let volume = Volume(rig.folder.path().to_owned());
    volume.swap(
        "one",
        &[("a.yaml", "name: a\nvalue: 1"), ("b.yaml", "name: b\nvalue: 1")],
    );
    assert_eq!(rig.good(), ["a=1", "b=1"]);
    let place = Place::Folder(volume.0.clone());
    let data = fs::canonicalize(volume.0.join("..data")).unwrap();
    assert!(place.folders().contains(&data) && place.folders().contains(&volume.0));
    volume.swap(
        "two",
        &[("a.yaml", "name: a\nvalue: 2"), ("c.yaml", "name: c\nvalue: 2")],
    );
    fs::remove_dir_all(data).unwrap();
    assert_eq!(rig.good(), ["a=2", "c=2"], "b.yaml leads nowhere");
    // A single file of such a volume.
    let mut file = Files::<Rule>::new(Place::File(volume.0.join("a.yaml")));
    let (objects, errors) = file.load();
    assert!(errors.is_empty() && objects[0].value == 2);
    let folders = Place::File(volume.0.join("a.yaml")).folders();
    assert_eq!(folders.len(), 2, "where the link is, and where it leads: {folders:?}");
}

#[test]
fn a_file_without_a_folder_is_in_the_present_one() {
    assert_eq!(folder_of(Path::new("a.yaml")), Path::new("."));
    assert_eq!(folder_of(Path::new("x/a.yaml")), Path::new("x"));
}
