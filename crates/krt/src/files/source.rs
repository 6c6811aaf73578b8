//! The collections of files: what users hold, and how what is read becomes the content of a source.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use serde::de::DeserializeOwned;

use super::load::{FileError, Files, Place};
use super::watch::{self, Signal};
use crate::collection::Collection;
use crate::engine::id::NodeId;
use crate::engine::operator::source::{Source, SourceBuffer, Touch};
use crate::engine::panics;
use crate::krt::Krt;
use crate::options::Options;
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::traits::Keyed;

/// The objects in the files of a folder. It is a cheap clone, and is read as the [`Collection`] that it derefs to. See
/// [`crate::files`] for what it guarantees.
pub struct FileCollection<T: Keyed> {
    collection: Collection<T>,
    status: Arc<Status>,
}

/// The object in a file, if there is one. It is a cheap clone, and is read as the [`Collection`] that it derefs to. See
/// [`crate::files`] for what it guarantees.
pub struct FileSingleton<T: Keyed> {
    files: FileCollection<T>,
}

/// What is to be said of the files, and the thread that reads them.
#[derive(Debug, Default)]
pub(crate) struct Status {
    errors: Mutex<Vec<FileError>>,
    /// `None` before the engine is started.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[cfg(test)]
impl Status {
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().take()
    }
}

impl Krt {
    /// The object that is in a file, in YAML or JSON. The file need not be there yet; its folder is waited for.
    pub fn file<T: Keyed + PartialEq + DeserializeOwned>(
        &self,
        name: impl Into<Options>,
        path: impl Into<PathBuf>,
    ) -> FileSingleton<T> {
        FileSingleton {
            files: self.files(name.into(), Place::File(path.into())),
        }
    }

    /// The objects that are in the files of a folder, in YAML or JSON. The folder need not be there yet.
    pub fn folder<T: Keyed + PartialEq + DeserializeOwned>(
        &self,
        name: impl Into<Options>,
        path: impl Into<PathBuf>,
    ) -> FileCollection<T> {
        self.files(name.into(), Place::Folder(path.into()))
    }

    fn files<T: Keyed + PartialEq + DeserializeOwned>(&self, options: Options, place: Place) -> FileCollection<T> {
        let shared = self.shared();
        let name = Arc::clone(&options.name);
        let signal = Arc::new(Signal::default());
        let buffer = SourceBuffer::<T>::new(&shared.hashing, false);
        let collection = Collection::add(shared, options, Vec::new(), Some(T::eq), |_| {
            let end = watch::End(Arc::clone(&signal));
            Box::new(Source::new(&buffer, Some(T::eq)).fed_by(Box::new(end)))
        });
        let node = collection.id();
        let refused = shared.ingress.write(|state| state.add_source(node, Box::new(buffer)));
        panics::drop_each(refused);
        let status = Arc::<Status>::default();
        let sink = Sink {
            shared: Arc::downgrade(shared),
            node,
            signal: Arc::clone(&signal),
            status: Arc::clone(&status),
            name,
        };
        // The engine is not kept by what waits for its start.
        shared.on_start(Box::new(move || {
            let thread = format!("krt {}", sink.name);
            let (mut files, status) = (Files::<T>::new(place.clone()), Arc::clone(&sink.status));
            let load = move || {
                let (objects, errors) = files.load();
                sink.take(objects, errors);
            };
            *status.thread.lock() = watch::spawn(&thread, place, signal, load);
        }));
        FileCollection { collection, status }
    }
}

/// Where what is read goes.
struct Sink {
    shared: Weak<Shared>,
    node: NodeId,
    signal: Arc<Signal>,
    status: Arc<Status>,
    name: Arc<str>,
}

impl Sink {
    /// Makes the content exactly this, in one step. The first time, the source is synced by it.
    fn take<T: Keyed>(&self, objects: Vec<Arc<T>>, errors: Vec<FileError>) {
        self.tell(errors);
        let Some(shared) = self.shared.upgrade() else { return };
        let objects: Vec<_> = objects
            .into_iter()
            .map(|object| (shared.hashing.keep(object.key()), object))
            .collect();
        let replaced = shared.ingress.write(|state| {
            // The number of the node may be another's.
            if self.signal.has_ended() {
                return Err(objects);
            }
            let Some(buffer) = state.source::<SourceBuffer<T>>(self.node) else {
                return Err(objects);
            };
            let mut replaced = buffer.clear();
            replaced.extend(
                objects
                    .into_iter()
                    .filter_map(|(key, object)| buffer.set(&key, object, Touch::IfDifferent)),
            );
            buffer.mark_synced();
            Ok(replaced)
        });
        match replaced {
            Ok(replaced) => panics::drop_each(replaced),
            Err(unused) => panics::drop_each(unused),
        }
    }

    /// Keeps what is wrong, and logs what is newly so.
    fn tell(&self, errors: Vec<FileError>) {
        let fresh: Vec<FileError> = {
            let mut known = self.status.errors.lock();
            let fresh = errors.iter().filter(|error| !known.contains(error)).cloned().collect();
            *known = errors;
            fresh
        };
        for error in fresh {
            let path = error.path.display();
            tracing::error!(collection = %self.name, %path, reason = error.reason, "a file gives nothing new");
        }
    }
}

impl<T: Keyed> FileCollection<T> {
    /// What is wrong with the files, as they were read last. A file that is named here gives what it gave before.
    pub fn errors(&self) -> Vec<FileError> {
        self.status.errors.lock().clone()
    }

    /// What the handle shares with the thread.
    #[cfg(test)]
    pub(crate) fn status_for_tests(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }
}

impl<T: Keyed> FileSingleton<T> {
    /// The object.
    pub fn get(&self) -> Option<Arc<T>> {
        self.files.list().pop()
    }

    /// What the handle shares with the thread.
    #[cfg(test)]
    pub(crate) fn status_for_tests(&self) -> Arc<Status> {
        self.files.status_for_tests()
    }

    /// What is wrong with the file, as it was read last. It gives what it gave before then.
    pub fn error(&self) -> Option<FileError> {
        self.files.errors().pop()
    }
}

impl<T: Keyed> Deref for FileCollection<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<T: Keyed> Deref for FileSingleton<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.files
    }
}

impl<T: Keyed> Clone for FileCollection<T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            status: Arc::clone(&self.status),
        }
    }
}

impl<T: Keyed> Clone for FileSingleton<T> {
    fn clone(&self) -> Self {
        Self {
            files: self.files.clone(),
        }
    }
}

impl<T: Keyed> fmt::Debug for FileCollection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}

impl<T: Keyed> fmt::Debug for FileSingleton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}
