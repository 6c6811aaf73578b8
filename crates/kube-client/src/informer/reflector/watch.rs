//! Following changes on an open watch, and opening one.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::decode::Undecodable;
use crate::decode::event::{NotAnEvent, WatchEvent};
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::reflector::answer::ANSWER;
use crate::informer::reflector::connection::{Connection, Read, ReadError};
use crate::informer::reflector::{Reflector, version};
use crate::informer::returns::Returns;
use crate::informer::shared::Received;
use crate::informer::status::Phase;
use crate::informer::turn::pass_turn;
use crate::object::Object;

/// A kind whose watches deliver bookmarks, about one a minute, is not silent for so long unless the connection is gone.
const SILENCE_WITH_BOOKMARKS: Duration = Duration::from_mins(3);
/// The most changes applied in one step. Few: the objects that they replace are freed once the handlers have seen the step,
/// and the allocator has their memory at hand, in pieces of the right sizes, for the next ones only while those are few.
const BATCH: usize = 4;
/// How long after a change what the handlers give back is waited for, about.
const LINGER: Duration = Duration::from_millis(20);

/// Closes it when the watch is over, however it ends.
struct Taking<K>(Arc<Returns<K>>);

impl<K> Drop for Taking<K> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Whether lines may be left after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    More,
    NoMore,
}

/// Changes that were received and not yet applied.
struct Pending<K> {
    changes: Vec<Received<K>>,
    // The bytes they came in.
    bytes: usize,
    // The version that the last of them, or a bookmark after it, carries.
    version: Option<String>,
}

impl<K: Object> Reflector<K> {
    /// Opens a watch; with `initial_events`, one that sends the whole state first.
    pub(super) async fn open(
        &mut self,
        step: Step,
        version: &str,
        initial_events: bool,
    ) -> Result<Connection, WatchError> {
        let timeout = Duration::from_secs(fastrand::u64(300..600));
        let request = self.target.watch(version, timeout, initial_events);
        let request = request.map_err(|error| self.failures.of(step, WatchErrorKind::Refused, &error.to_string()))?;
        let (body, inflate) = self.send(step, request, ANSWER).await?;
        self.status.update(|status| status.watches += 1);
        self.metrics.watch_opened();
        Ok(Connection::new(body, inflate, timeout))
    }

    pub(super) async fn open_watch(&mut self) -> Result<Connection, WatchError> {
        let version = self.version.clone();
        let connection = self.open(Step::Watch, &version, false).await?;
        self.metrics.failing(false);
        self.status.announce(|status| status.error = None);
        Ok(connection)
    }

    /// Applies what the watch brings until it ends. `Ok` is a clean end.
    pub(super) async fn follow(&mut self, connection: Connection) -> Result<(), WatchError> {
        self.status.announce(|status| {
            status.phase = Phase::Watching;
            status.watches_open = 1;
        });
        self.metrics.watch_followed();
        let ended = self.follow_open(connection).await;
        self.status.update(|status| status.watches_open = 0);
        ended
    }

    async fn follow_open(&mut self, mut connection: Connection) -> Result<(), WatchError> {
        let mut pending = Pending {
            changes: Vec::new(),
            bytes: 0,
            version: None,
        };
        let back = Taking(Arc::clone(self.shared.returns()));
        let mut linger = std::pin::pin!(tokio::time::sleep(LINGER));
        let mut lent = false;
        loop {
            if lent {
                back.0.open(); // and drops what was given back
            }
            let taken = self.take_lines(&mut connection, &mut pending);
            if !lent && !pending.changes.is_empty() {
                back.0.open();
                lent = true;
            }
            self.flush(&mut pending);
            // Handlers get their turn before anything more is read: a flood must not pile up in their queues, and what they
            // give back is freed while this processor's cache holds it.
            pass_turn().await;
            if taken? == Lines::More {
                continue;
            }
            let silence = self.has_bookmarks.then_some(SILENCE_WITH_BOOKMARKS);
            // Renewed when it is over, not with each change: to set a timer costs more than a small change.
            if lent && linger.is_elapsed() {
                linger.as_mut().reset(Instant::now() + LINGER);
            }
            let read = tokio::select! {
                biased;
                read = connection.read(silence) => read,
                () = linger.as_mut(), if lent => {
                    back.0.close();
                    lent = false;
                    continue;
                }
            };
            match read {
                Ok(Read::Data) => {}
                Ok(Read::End) => return Ok(()),
                Err(error) => return Err(self.read_failure(Step::Watch, &error)),
            }
        }
    }

    /// Decodes the lines that are there, at most a batch.
    fn take_lines(&mut self, connection: &mut Connection, pending: &mut Pending<K>) -> Result<Lines, WatchError> {
        while pending.changes.len() < BATCH {
            let decoder = &self.decoder;
            let line =
                connection.next_line(|line| (!line.trim_ascii().is_empty()).then(|| (line.len(), decoder.event(line))));
            match line.map_err(|error| {
                self.failures
                    .of(Step::Watch, WatchErrorKind::Protocol, &error.to_string())
            })? {
                Some(Some((bytes, event))) => {
                    let before = pending.changes.len();
                    self.take_event(event, pending)?;
                    if pending.changes.len() > before {
                        pending.bytes += bytes;
                    }
                }
                Some(None) => {} // a blank line
                None => return Ok(Lines::NoMore),
            }
        }
        Ok(Lines::More)
    }

    fn take_event(
        &mut self,
        event: Result<WatchEvent<K>, NotAnEvent>,
        pending: &mut Pending<K>,
    ) -> Result<(), WatchError> {
        let event = event.map_err(|error| {
            self.failures
                .of(Step::Watch, WatchErrorKind::Protocol, &error.to_string())
        })?;
        match event {
            WatchEvent::Upsert { object: Ok(object), .. } => {
                self.see(pending, object.metadata().resource_version);
                self.clear_undecodable(&object);
                pending.changes.push(Received::Upsert(object));
            }
            WatchEvent::Deleted(Ok(object)) => {
                self.see(pending, object.metadata().resource_version);
                let key = object.metadata().key();
                self.clear_undecodable(&object);
                pending.changes.push(Received::Delete {
                    key,
                    last: Some(object),
                });
            }
            // The last good version stays until a good one or a delete comes.
            WatchEvent::Upsert { object: Err(bad), .. } => {
                self.see(pending, &bad.version);
                self.fail_decode(&bad);
            }
            WatchEvent::Deleted(Err(bad)) => self.take_undecodable_delete(bad, pending),
            WatchEvent::Bookmark { version, .. } => {
                self.has_bookmarks = true;
                self.see(pending, &version);
            }
            WatchEvent::Error(status) => return Err(self.failures.status(Step::Watch, status.code, None, &status)),
            WatchEvent::Unknown(kind) => tracing::debug!("ignoring a watch event of unknown type {kind:?}"),
        }
        Ok(())
    }

    /// An event or bookmark carries this version: the cache is current up to it.
    ///
    /// Nothing that carries none resets it, and nothing older takes it back: a server may send the last version of a
    /// deleted object with its deletion. Where the list told no version, nothing here can make up for it: a watch from no
    /// version begins with the state at its own begin and says nothing of what was deleted between the list and that, so
    /// the cache is current up to no version before another list brings one.
    fn see(&self, pending: &mut Pending<K>, version: &str) {
        let known = pending.version.as_deref().unwrap_or(&self.version);
        if version.is_empty() || known.is_empty() || version::compare(version, known) == Some(Ordering::Less) {
            return;
        }
        match &mut pending.version {
            Some(known) => {
                known.clear();
                known.push_str(version);
            }
            None => pending.version = Some(version.to_owned()),
        }
    }

    fn take_undecodable_delete(&mut self, bad: Undecodable, pending: &mut Pending<K>) {
        self.see(pending, &bad.version);
        match bad.key {
            Some(key) => {
                self.status.update(|status| status.undecodable.remove(&key));
                pending.changes.push(Received::Delete { key, last: None });
            }
            None => self.fail_decode(&bad),
        }
    }

    /// A good version of the object came.
    fn clear_undecodable(&self, object: &K) {
        self.status.update(|status| {
            if !status.undecodable.is_empty() {
                status.undecodable.remove(&object.metadata().key_ref());
            }
        });
    }

    /// Applies what is pending, in one step.
    fn flush(&mut self, pending: &mut Pending<K>) {
        let version = pending.version.take();
        if let Some(version) = &version {
            self.version.clone_from(version);
        }
        let changes = pending.changes.len();
        if changes > 0 {
            self.shared.apply(&mut pending.changes, version);
        } else if let Some(version) = version {
            self.shared.set_version(version);
        } else {
            return;
        }
        let (bytes, cached) = (std::mem::take(&mut pending.bytes), self.shared.len());
        self.status.update(|status| {
            status.events += changes as u64;
            status.size.changed(changes, bytes, cached);
            status.heard = Some(Instant::now());
        });
        self.metrics.received(changes);
        self.heard();
    }

    pub(super) fn read_failure(&self, step: Step, error: &ReadError) -> WatchError {
        match error {
            ReadError::Silent(after) => self.silent(step, *after),
            ReadError::Late(after) => {
                let detail = format!(
                    "what came for {} s was neither its end bookmark nor an object that is new to it",
                    after.as_secs()
                );
                self.failures.of(step, WatchErrorKind::Unfinished, &detail)
            }
            ReadError::Overdue => {
                let detail = "the server has not ended the stream in the time that it was asked to";
                self.failures.of(step, WatchErrorKind::Silent, detail)
            }
            ReadError::Broken(error) => self.failures.transport(step, error),
        }
    }

    pub(super) fn silent(&self, step: Step, after: Duration) -> WatchError {
        let detail = format!("nothing came for {} s", after.as_secs());
        self.failures.of(step, WatchErrorKind::Silent, &detail)
    }
}
