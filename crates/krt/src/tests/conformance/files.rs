//! Files as kinds of collections: those of a folder, and a single one.

use tempfile::TempDir;

use super::super::files::{Rule, replace, rule};
use super::*;
use crate::files::Status;
use crate::{FileCollection, FileSingleton};

/// A function that waits for the thread of a source.
fn wait_for_thread(status: &Status, folder: TempDir) -> Box<dyn FnOnce()> {
    let thread = status.take_thread().expect("it was started");
    Box::new(move || {
        thread.join().unwrap();
        drop(folder);
    })
}

pub(super) struct Folder {
    folder: TempDir,
    rules: FileCollection<Rule>,
}

impl Folder {
    fn path(&self, key: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{}.yaml", key.replace('/', " ")))
    }
}

impl Subject for Folder {
    type Object = Rule;

    fn new(krt: &Krt, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = krt.folder(options, folder.path());
        Self { folder, rules }
    }

    fn collection(&self) -> &Collection<Rule> {
        &self.rules
    }

    fn create(&self, key: &str) {
        replace(&self.path(key), &rule(key, 1));
    }

    fn replace(&self, old: &str, new: &str) {
        self.create(new);
        std::fs::remove_file(self.path(old)).unwrap();
    }

    fn end(self) -> Box<dyn FnOnce()> {
        let status = self.rules.status_for_tests();
        drop(self.rules);
        wait_for_thread(&status, self.folder)
    }
}

pub(super) struct File {
    folder: TempDir,
    file: FileSingleton<Rule>,
}

impl Subject for File {
    type Object = Rule;

    fn new(krt: &Krt, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = krt.file(options, folder.path().join("rule.yaml"));
        Self { folder, file }
    }

    fn collection(&self) -> &Collection<Rule> {
        &self.file
    }

    fn create(&self, key: &str) {
        replace(&self.folder.path().join("rule.yaml"), &rule(key, 1));
    }

    fn replace(&self, _: &str, new: &str) {
        self.create(new);
    }

    fn end(self) -> Box<dyn FnOnce()> {
        let status = self.file.status_for_tests();
        drop(self.file);
        wait_for_thread(&status, self.folder)
    }
}
