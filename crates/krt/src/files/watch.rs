//! When to read: the thread of a source, which waits for the system to tell of changes.
//!
//! # Design
//!
//! Folders are watched, not files: a file may be replaced by another one, or come later, and the kubelet swaps a link beside it. What
//! is to be watched is looked up anew before each reading, since a link may lead elsewhere by then. While a folder is not
//! there, or the system cannot watch it, it is looked at every second.
//!
//! Notifications only set a mark, so a flood of them costs no memory. The mark is also how the source's end ends the thread.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::load::Place;
use crate::sync::{Condvar, Mutex};

/// Changes are collected until it was quiet for so long,
const QUIET: Duration = Duration::from_millis(100);
/// but for no longer than this.
const LONGEST: Duration = Duration::from_secs(1);
/// How often what cannot be watched is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What the thread waits for.
#[derive(Debug, Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Something changed since the thread looked.
    changed: bool,
    ended: bool,
}

impl Signal {
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    fn note(&self) {
        self.state.lock().changed = true;
        self.wake.notify_all();
    }

    fn end(&self) {
        self.state.lock().ended = true;
        self.wake.notify_all();
    }

    /// Waits for a change, or for some time if there is a limit; then for quiet. False at the end.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let start = Instant::now();
        while !state.changed && !state.ended {
            state = match limit {
                None => self.wake.wait(state),
                Some(limit) => {
                    let left = limit.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return true;
                    }
                    self.wake.wait_timeout(state, left).0
                }
            };
        }
        let mut gathered = Gathered::new(Instant::now());
        loop {
            if state.ended {
                return false;
            }
            let now = Instant::now();
            if std::mem::take(&mut state.changed) {
                gathered.note(now);
            }
            let Some(left) = gathered.left(now) else { return true };
            state = self.wake.wait_timeout(state, left).0;
        }
    }
}

/// Changes that are being collected.
#[derive(Debug)]
struct Gathered {
    first: Instant,
    last: Instant,
}

impl Gathered {
    fn new(now: Instant) -> Self {
        Self { first: now, last: now }
    }

    fn note(&mut self, now: Instant) {
        self.last = now;
    }

    /// How long more may come; `None` if it is enough.
    fn left(&self, now: Instant) -> Option<Duration> {
        let end = (self.last + QUIET).min(self.first + LONGEST);
        Some(end.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// The source's end, which is the thread's.
pub(super) struct End(pub(super) Arc<Signal>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Starts the thread of a source, if the system has one. It ends with the source's [`End`].
pub(super) fn spawn(
    name: &str,
    place: Place,
    signal: Arc<Signal>,
    mut load: impl FnMut() + Send + 'static,
) -> Option<JoinHandle<()>> {
    let work = move || {
        let mut watching = Watching::new(&signal);
        while !signal.has_ended() {
            // Watched before it is read, so that nothing falls in between.
            let complete = watching.follow(&place);
            load();
            if !signal.wait((!complete).then_some(LOOK)) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread
        .inspect_err(
            |error| tracing::error!(source = name, %error, "no thread for the files of a source: they are not read"),
        )
        .ok()
}

/// The system's notifications.
struct Watching {
    /// `None` if the system has none.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
}

impl Watching {
    fn new(signal: &Arc<Signal>) -> Self {
        let noted = Arc::clone(signal);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is told too, and would never end. An error may hide a change.
            if event.map_or(true, |event| is_change(event.kind)) {
                noted.note();
            }
        });
        let watcher =
            watcher.map_err(|error| tracing::warn!(%error, "files cannot be watched: they are looked at every second"));
        Self {
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
        }
    }

    /// Watches the folders of a place, and no others. False if some of them are not.
    fn follow(&mut self, place: &Place) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let wanted: BTreeSet<PathBuf> = place.folders().into_iter().collect();
        for folder in self.folders.difference(&wanted) {
            // It is gone, or leads elsewhere.
            if let Err(error) = watcher.unwatch(folder) {
                tracing::debug!(%error, folder = %folder.display(), "a folder was not watched any more");
            }
        }
        let mut complete = true;
        let mut watched = BTreeSet::new();
        for folder in wanted {
            // Again each time: what is watched is a folder, and another one may have taken its name.
            if let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive) {
                tracing::debug!(%error, folder = %folder.display(), "a folder cannot be watched yet");
                complete = false;
            } else {
                watched.insert(folder);
            }
        }
        self.folders = watched;
        complete
    }
}

fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [K24] many quick changes are one, and changes that never end are not waited for
    #[test]
    fn changes_are_collected_until_it_is_quiet() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut gathered = Gathered::new(start);
        assert_eq!(gathered.left(start), Some(QUIET));
        gathered.note(at(60));
        assert_eq!(gathered.left(at(90)), Some(Duration::from_millis(70)));
        assert_eq!(gathered.left(at(160)), None);
        for millis in (100..1000).step_by(50) {
            gathered.note(at(millis));
        }
        assert_eq!(gathered.left(at(970)), Some(Duration::from_millis(30)));
        assert_eq!(gathered.left(at(1000)), None);
    }

    #[test]
    fn reading_is_no_change() {
        let access = |kind| EventKind::Access(kind);
        assert!(!is_change(access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Any));
    }

    #[test]
    fn the_end_is_not_waited_out() {
        let signal = Arc::new(Signal::default());
        drop(End(Arc::clone(&signal)));
        assert!(signal.has_ended() && !signal.wait(None));
        signal.note();
        assert!(!signal.wait(Some(LOOK)));
    }
}
