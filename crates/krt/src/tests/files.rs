//! Files on a real disk, with the threads that programs have: nobody waits for a time, but for what is told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use serde::Deserialize;

use super::threads::LONG;
use crate::files::Status;
use crate::{Event, FileCollection, KeyRef, Keyed, Krt, Options};

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Rule {
    name: String,
    value: i64,
}

impl Keyed for Rule {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.name)
    }
}

/// What a handler was told, batch by batch.
struct Told {
    batches: mpsc::Receiver<Vec<String>>,
    _handler: crate::Registration,
}

impl Told {
    fn follow(collection: &crate::Collection<Rule>) -> Self {
        let (sender, batches) = mpsc::channel();
        let handler = collection.on_batch(move |batch| {
            let line = |event: &Event<Rule>| match event {
                Event::Added(new) => format!("+{}={}", new.name, new.value),
                Event::Updated { old, new } => format!("{}={}>{}", new.name, old.value, new.value),
                Event::Deleted(old) => format!("-{}={}", old.name, old.value),
            };
            let mut lines: Vec<String> = batch.events().map(line).collect();
            lines.sort();
            // Whoever does not look any more has seen enough.
            drop(sender.send(lines));
        });
        Self {
            batches,
            _handler: handler,
        }
    }

    #[track_caller]
    fn next(&self) -> Vec<String> {
        self.batches.recv_timeout(LONG).expect("a batch")
    }
}

/// Replaces a file as one should.
pub(super) fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("fresh");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

pub(super) fn rule(name: &str, value: i64) -> String {
    format!("name: {name}\nvalue: {value}\n")
}

// [K24] [K1] a file from before it is there to after it is gone; its errors; its thread's end
#[tokio::test]
async fn a_file_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rule.yaml");
    let krt = Krt::builder("files").build();
    let file = krt.file::<Rule>("rule", &path);
    let derived = krt.collection("derived", &file, |_, rule| Some((**rule).clone()));
    let told = Told::follow(&derived);
    assert!(!file.has_synced() && file.name() == "rule");
    replace(&path, &rule("a", 1));
    krt.start().unwrap();
    derived.synced().await;
    assert_eq!(told.next(), ["+a=1"]);
    assert_eq!(file.get().map(|rule| rule.value), Some(1));
    replace(&path, &rule("a", 2));
    assert_eq!(told.next(), ["a=1>2"]);
    // Wrong, which is told, and good again: nothing came in between.
    replace(&path, "name: [");
    let progress = &krt.shared().progress;
    assert!(progress.block_until(LONG, || file.error().is_some()));
    krt.settled().await;
    assert_eq!(file.get().map(|rule| rule.value), Some(2));
    assert!(file.error().unwrap().to_string().contains("rule.yaml: "));
    replace(&path, &rule("a", 3));
    assert_eq!(told.next(), ["a=2>3"]);
    assert_eq!(file.error(), None);
    replace(&path, &rule("b", 3));
    assert_eq!(told.next(), ["+b=3", "-a=3"], "another key");
    // Written in place, it may be seen empty in between.
    fs::write(&path, rule("c", 3)).unwrap();
    let mut lines = told.next();
    if lines == ["-b=3"] {
        lines.splice(..0, told.next());
    }
    assert_eq!(lines, ["+c=3", "-b=3"]);
    fs::write(&path, "").unwrap();
    assert_eq!(told.next(), ["-c=3"]);
    fs::write(&path, rule("b", 4)).unwrap();
    assert_eq!(told.next(), ["+b=4"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(told.next(), ["-b=4"]);
    // Its folder goes and comes again.
    fs::remove_dir(folder.path()).unwrap();
    fs::create_dir(folder.path()).unwrap();
    fs::write(&path, rule("c", 5)).unwrap();
    assert_eq!(told.next(), ["+c=5"]);
    krt.shutdown().await.unwrap();
}

// [K24] [K33] a folder that is swapped is one epoch; many quick writes are few
#[cfg(unix)]
#[tokio::test]
async fn a_folder_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let swap = |version: &str, rules: &BTreeMap<&str, i64>| {
        let side = at(&format!("..{version}"));
        fs::create_dir(&side).unwrap();
        for (name, value) in rules {
            fs::write(side.join(format!("{name}.yaml")), rule(name, *value)).unwrap();
            let link = at(&format!("{name}.yaml"));
            if fs::symlink_metadata(&link).is_err() {
                std::os::unix::fs::symlink(format!("..data/{name}.yaml"), link).unwrap();
            }
        }
        std::os::unix::fs::symlink(format!("..{version}"), at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    swap("one", &BTreeMap::from([("a", 1), ("b", 1)]));
    let krt = Krt::builder("files").build();
    let rules = krt.folder::<Rule>("rules", folder.path());
    let told = Told::follow(&rules);
    krt.start().unwrap();
    assert_eq!(told.next(), ["+a=1", "+b=1"]);
    swap("two", &BTreeMap::from([("a", 2), ("c", 2)]));
    assert_eq!(told.next(), ["+c=2", "-b=1", "a=1>2"]);
    // Written a thousand times on its way.
    for value in 3..=1000 {
        fs::write(fs::canonicalize(at("..data")).unwrap().join("a.yaml"), rule("a", value)).unwrap();
    }
    let mut batches = 0;
    loop {
        batches += 1;
        // It may have been seen empty in between.
        if told.next().last().is_some_and(|line| line.ends_with("1000")) {
            break;
        }
    }
    assert!(batches < 100, "{batches} readings of a thousand writes");
    krt.shutdown().await.unwrap();
}

// [K5] [K38] the thread ends with its source: by a stop, by the last handle, by the engine's end; none is there before the start
#[tokio::test]
async fn the_thread_of_a_source_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let krt = Krt::builder("files").build();
    let source = |name: &str| {
        fs::write(folder.path().join(format!("{name}.yaml")), rule(name, 1)).unwrap();
        krt.file::<Rule>(name, folder.path().join(format!("{name}.yaml")))
    };
    let [stopped, dropped, ended] = ["stopped", "dropped", "ended"].map(source);
    let [one, two, three] = [&stopped, &dropped, &ended].map(crate::FileSingleton::status_for_tests);
    // The thread, which is waited for.
    let assert_ends = |status: &Status| {
        let thread = status.take_thread().expect("it was started");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(thread.join().is_ok()).unwrap());
        assert_eq!(told.recv_timeout(LONG), Ok(true));
    };
    assert!(one.take_thread().is_none(), "nothing is read before the start");
    krt.start().unwrap();
    for file in [&stopped, &dropped, &ended] {
        file.synced().await;
    }
    stopped.stop();
    drop(dropped);
    assert_ends(&one);
    assert_ends(&two);
    assert_eq!([&one, &two].map(Arc::strong_count), [2, 1], "it leaves nothing");
    assert_eq!(stopped.get().map(|rule| rule.value), Some(1), "frozen");
    krt.shutdown().await.unwrap();
    assert_ends(&three);
    // After the end nothing is begun, and before the start nothing is kept.
    let late: FileCollection<Rule> = krt.folder(Options::new("late").metadata(7_u32), folder.path());
    assert!(late.is_empty() && late.name() == "late" && late.metadata() == Some(&7_u32));
    let never = Krt::builder("never").build();
    let unread = never.file::<Rule>("unread", folder.path().join("ended.yaml"));
    let status = unread.status_for_tests();
    drop(never);
    assert_eq!(Arc::strong_count(&status), 2, "the handle's and ours");
    assert!(unread.get().is_none());
}
