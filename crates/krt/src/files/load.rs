//! Reading: from a path to objects, file by file, with the last good ones of those that cannot be read. Knows no engine and no
//! notifications.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::engine::panics;
use crate::traits::Keyed;

/// Larger files are refused.
const LARGEST: u64 = 16 << 20;

/// How often a folder is read again that was swapped meanwhile.
const TRIES: usize = 10;

/// A file that gives nothing new for a reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
#[non_exhaustive]
pub struct FileError {
    /// The file, or the folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What is read.
#[derive(Debug, Clone)]
pub(super) enum Place {
    File(PathBuf),
    Folder(PathBuf),
}

impl Place {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Folder(path) => path,
        }
    }

    /// The folders in which something happens when what is read changes: where it is, and where it really is.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let real = fs::canonicalize(self.path()).ok();
        let mut folders = match self {
            Self::Folder(path) => {
                let data = fs::canonicalize(path.join("..data")).ok();
                [Some(path.clone()), real, data].into_iter().flatten().collect()
            }
            Self::File(path) => {
                let parents = [Some(path.as_path()), real.as_deref()];
                let parents = parents.into_iter().flatten().map(folder_of);
                parents.collect::<Vec<_>>()
            }
        };
        folders.sort();
        folders.dedup();
        folders
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What was read last.
pub(super) struct Files<T> {
    place: Place,
    /// The objects of each file, by name. Invariant: only of files that are there.
    good: BTreeMap<PathBuf, Vec<Arc<T>>>,
    errors: Vec<FileError>,
}

impl<T: Keyed + DeserializeOwned> Files<T> {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            good: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    /// Reads everything. The objects have different keys, none of which is empty.
    pub(super) fn load(&mut self) -> (Vec<Arc<T>>, Vec<FileError>) {
        let found = match self.place.clone() {
            Place::File(path) => Ok(vec![(path.clone(), read(&path, Documents::One))]),
            Place::Folder(path) => read_folder(&path),
        };
        self.errors.clear();
        match found {
            Ok(found) => self.take(found),
            Err(error) => self.errors.push(error),
        }
        (self.distinct(), self.errors.clone())
    }

    fn take(&mut self, found: Vec<(PathBuf, Outcome<T>)>) {
        let mut known = std::mem::take(&mut self.good);
        for (path, outcome) in found {
            let objects = match outcome {
                Outcome::Gone => continue,
                Outcome::Good(objects) => Some(objects),
                Outcome::Bad(reason) => {
                    self.errors.push(FileError {
                        path: path.clone(),
                        reason,
                    });
                    known.remove(&path)
                }
            };
            if let Some(objects) = objects {
                self.good.insert(path, objects);
            }
        }
        panics::drop_each(known.into_values().flatten());
    }

    /// One object of each key: that of the smallest name.
    fn distinct(&mut self) -> Vec<Arc<T>> {
        let (mut keys, mut distinct) = (HashSet::new(), Vec::new());
        for (path, objects) in &self.good {
            for object in objects {
                let key = object.key().to_string();
                if keys.insert(key.clone()) {
                    distinct.push(Arc::clone(object));
                } else {
                    self.errors.push(FileError {
                        path: path.clone(),
                        reason: format!("there is an object with the key {key} already"),
                    });
                }
            }
        }
        distinct
    }
}

/// What a file gives.
enum Outcome<T> {
    Good(Vec<Arc<T>>),
    Gone,
    Bad(String),
}

/// How many documents a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Documents {
    One,
    Any,
}

/// Reads the files of a folder, all of one side of a swap.
fn read_folder<T: Keyed + DeserializeOwned>(path: &Path) -> Result<Vec<(PathBuf, Outcome<T>)>, FileError> {
    let mut found = Vec::new();
    for _ in 0..TRIES {
        // What is shown are links to files behind the one link that is swapped.
        let data = fs::canonicalize(path.join("..data")).ok();
        let from = data.as_deref().unwrap_or(path);
        let names = match names(from) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(FileError {
                    path: path.to_owned(),
                    reason: error.to_string(),
                });
            }
        };
        let outcomes = names
            .into_iter()
            .map(|name| (path.join(&name), read(&from.join(&name), Documents::Any)));
        found = outcomes.collect();
        if fs::canonicalize(path.join("..data")).ok() == data {
            break;
        }
    }
    Ok(found)
}

/// The names of the files that count, in order.
fn names(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let counts = path.extension().is_some_and(|ending| {
            let endings = ["yaml", "yml", "json"];
            endings.iter().any(|known| ending.eq_ignore_ascii_case(known))
        });
        if let Some(name) = path.file_name()
            && counts
            && !name.as_encoded_bytes().starts_with(b".")
            && !path.is_dir()
        {
            names.push(PathBuf::from(name));
        }
    }
    names.sort();
    Ok(names)
}

fn read<T: Keyed + DeserializeOwned>(path: &Path, documents: Documents) -> Outcome<T> {
    let mut text = String::new();
    // To open a pipe would wait for somebody to write, for ever perhaps.
    let opened = fs::metadata(path).and_then(|found| {
        if found.is_file() {
            File::open(path)
        } else {
            Err(std::io::Error::other("it is no regular file"))
        }
    });
    match opened.and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text)) {
        Ok(_) if text.len() as u64 > LARGEST => return Outcome::Bad(format!("more than {} MiB", LARGEST >> 20)),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Outcome::Gone,
        Err(error) => return Outcome::Bad(error.to_string()),
    }
    // The type is the user's.
    match panics::contain(|| parse(path, &text, documents)) {
        Ok(Ok(objects)) => Outcome::Good(objects),
        Ok(Err(reason)) => Outcome::Bad(reason),
        Err(panic) => Outcome::Bad(format!("panicked: {panic}")),
    }
}

fn parse<T: Keyed + DeserializeOwned>(path: &Path, text: &str, documents: Documents) -> Result<Vec<Arc<T>>, String> {
    let is_json = path
        .extension()
        .and_then(OsStr::to_str)
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let objects: Vec<T> = if text.trim().is_empty() {
        Vec::new()
    } else if is_json {
        vec![serde_json::from_str(text).map_err(|error| error.to_string())?]
    } else {
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?
    };
    if documents == Documents::One && objects.len() > 1 {
        return Err(format!("{} documents where one is expected", objects.len()));
    }
    if objects.iter().any(|object| object.key().is_empty()) {
        return Err("an object has an empty key".to_owned());
    }
    Ok(objects.into_iter().map(Arc::new).collect())
}

#[cfg(test)]
mod tests;
