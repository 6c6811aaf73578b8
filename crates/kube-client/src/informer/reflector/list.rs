//! Fetching the whole state: as pages, or streamed on the watch that then stays open.

use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::decode::Undecodable;
use crate::decode::event::{NotAnEvent, WatchEvent};
use crate::decode::heap::HeapAhead;
use crate::decode::inflate::{Inflate, PACKED_PIECE};
use crate::decode::lines::LinePiece;
use crate::decode::list::{ListMeta, ListReader, NotAList, Piece};
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::deferred::{Each, discard, discard_each};
use crate::informer::options::OnUndecodable;
use crate::informer::reflector::connection::{Connection, Read, ReadError};
use crate::informer::reflector::crew::Crew;
use crate::informer::reflector::request::ListAt;
use crate::informer::reflector::{Reflector, Start, version};
use crate::informer::relist::Relist;
use crate::key::{KeyRef, ObjectKey};
use crate::object::Object;

/// A list that brings nothing for so long is given up.
const LIST_SILENCE: Duration = Duration::from_secs(90);
/// A streaming list, or a page, that brings neither its end nor an object that is new to the list for so long is given up. A server
/// that ignores the wish for a bookmark sends changes all the same, and one byte now and then is no silence either.
pub(super) const NOTHING_NEW: Duration = Duration::from_mins(2);
/// A list in pages that has not come to its end after so long is given up, whatever it brings: a server keeps a page's place for
/// five minutes or so. (The server is asked to end a streaming one within ten.)
const LONGEST_LIST: Duration = Duration::from_mins(30);
/// What is whole waits no longer than so long to be decoded with what comes after it: whether a list still brings something new is
/// known only then.
const HOLD: Duration = Duration::from_secs(1);
/// The most that is read at once.
const CHUNK: usize = 16 << 10;
/// So many pages in a row without an object that is new to the list, and it is given up. Pages may be empty, where a server
/// looks through much that does not match; those of a server that goes round in circles are.
const BARREN_PAGES: u32 = 1000;
/// A list on its way in.
struct Incoming<K> {
    relist: Relist<K>,
    // Objects of which the last that came does not decode, and why.
    undecodable: HashMap<ObjectKey, Undecodable, RandomState>,
    // Those of which not even the key could be read.
    nameless: Vec<Undecodable>,
    // Objects received, and the bytes they came in.
    objects: usize,
    bytes: usize,
}

/// A line of a streaming list.
enum Line<K> {
    Blank,
    /// An object, to be decoded with others.
    Held,
    /// Anything else, and its length.
    Event(usize, Result<WatchEvent<K>, NotAnEvent>),
}

/// The events of the lines of a piece, each with its length.
type DecodedLines<K> = Each<(usize, Result<WatchEvent<K>, NotAnEvent>)>;

/// The elements of a piece; and whether it was elements all through.
type Decoded<K> = (Each<Result<Arc<K>, Undecodable>>, Result<(), NotAList>);

impl<K: Object> Incoming<K> {
    /// How many different objects have come and were not deleted again.
    fn known(&self) -> usize {
        self.relist.len() + self.undecodable.len()
    }
}

impl<K: Object> Reflector<K> {
    /// Call it before the request is sent: `newest` says that it asks for the newest state, which then answers those who
    /// wait for a write.
    fn incoming(&self, newest: bool) -> Incoming<K> {
        let mut relist = Relist::new(self.keep_unchanged);
        relist.newest = newest.then(|| self.shared.begin_list());
        Incoming {
            relist,
            undecodable: HashMap::default(),
            nameless: Vec::new(),
            objects: 0,
            bytes: 0,
        }
    }

    /// Fetches the whole state in pages and puts it into the cache. An expired page starts it over once, without pages.
    pub(super) async fn list_paged(&mut self) -> Result<(), WatchError> {
        let mut limit = self.tuning.page_size;
        let mut started_over = false;
        let give_up = Instant::now() + LONGEST_LIST;
        'whole: loop {
            let mut incoming = self.incoming(self.wants_newest());
            let mut token = String::new();
            let (mut most, mut barren) = (0, 0);
            loop {
                let at = match token.as_str() {
                    "" if self.wants_newest() => ListAt::Newest { limit },
                    "" if self.start == Start::First => ListAt::Any,
                    "" => ListAt::NotOlderThan(&self.version),
                    token => ListAt::Continue { token, limit },
                };
                match self.fetch_page(at, &mut incoming, give_up).await {
                    Ok(meta) if meta.next.is_empty() => return self.commit(&incoming, meta.resource_version),
                    Ok(meta) => {
                        if incoming.known() > most {
                            (most, barren) = (incoming.known(), 0);
                        } else {
                            barren += 1;
                        }
                        if meta.next == token || barren == BARREN_PAGES {
                            let detail = "the pages of the list lead to no end";
                            return Err(self.failures.of(Step::List, WatchErrorKind::Unfinished, detail));
                        }
                        token = meta.next;
                    }
                    // The pages were too slow for the server's memory: fetch the newest state as one.
                    // A server that gives pages all the same, and lets them expire again, is one for the back-off.
                    Err(error) if error.kind == WatchErrorKind::Expired && !token.is_empty() && !started_over => {
                        self.restarted(error.kind.as_str());
                        self.fail(error);
                        self.start = Start::Newest;
                        limit = 0;
                        started_over = true;
                        continue 'whole;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    async fn fetch_page(
        &self,
        at: ListAt<'_>,
        incoming: &mut Incoming<K>,
        give_up: Instant,
    ) -> Result<ListMeta, WatchError> {
        let fail = |kind, detail: &str| self.failures.of(Step::List, kind, detail);
        let request = self
            .target
            .list(at)
            .map_err(|error| fail(WatchErrorKind::Refused, &error.to_string()))?;
        let (body, inflate) = self.send(Step::List, request, LIST_SILENCE).await?;
        self.read_page(body, inflate, incoming, give_up).await
    }

    async fn read_page(
        &self,
        mut body: Body,
        mut inflate: Inflate,
        incoming: &mut Incoming<K>,
        give_up: Instant,
    ) -> Result<ListMeta, WatchError> {
        let piece_length = if inflate.is_plain() { CHUNK } else { PACKED_PIECE };
        let broken = |error: NotAList| self.no_list(&error);
        let fail = |kind, detail: &str| self.failures.of(Step::List, kind, detail);
        let (mut reader, mut crew) = (ListReader::new(self.tuning.piece), Crew::new(&self.env));
        let mut bytes = 0;
        let (mut most, mut stalled) = (incoming.known(), Instant::now() + NOTHING_NEW);
        let (mut heard, mut flush_at) = (Instant::now(), Instant::now() + HOLD);
        loop {
            // Looked at here as well: a body that is always ready leaves the timeout no turn.
            let now = Instant::now();
            if now >= give_up {
                let detail = format!(
                    "the list has not come to its end within {} min",
                    LONGEST_LIST.as_secs() / 60
                );
                return Err(fail(WatchErrorKind::Unfinished, &detail));
            }
            if now >= flush_at || now >= stalled {
                reader.flush(&mut |piece| self.decode(&mut crew, piece));
                self.receive_all(&mut crew, incoming).await.map_err(broken)?;
                heard += now.elapsed(); // the server had no say in it
                flush_at = now + HOLD;
            }
            if incoming.known() > most {
                (most, stalled) = (incoming.known(), now + NOTHING_NEW);
            } else if now >= stalled {
                let detail = format!(
                    "what came of a page for {} s was neither its end nor an object that is new to the list",
                    NOTHING_NEW.as_secs()
                );
                return Err(fail(WatchErrorKind::Unfinished, &detail));
            }
            let silent = heard + LIST_SILENCE;
            let mut limit = silent.min(stalled).min(give_up);
            if reader.holds_elements() || !crew.is_empty() {
                limit = limit.min(flush_at);
            }
            let chunk = match timeout_at(limit, body.frame()).await {
                Err(_) if limit == silent => return Err(self.silent(Step::List, LIST_SILENCE)),
                Err(_) => continue, // to where it is told
                Ok(Some(Err(error))) => return Err(self.failures.transport(Step::List, &error)),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(), // trailers say nothing
                Ok(None) => break,
            };
            for piece in chunk.chunks(piece_length) {
                let unpacked = inflate.push(piece);
                let unpacked = unpacked.map_err(|error| self.no_list(&error))?;
                bytes += unpacked.len();
                for chunk in unpacked.chunks(CHUNK) {
                    let read = reader.push(chunk, &mut |piece| self.decode(&mut crew, piece));
                    read.map_err(broken)?;
                    while let Some(decoded) = crew.take_done() {
                        self.receive_piece(incoming, decoded).map_err(broken)?;
                    }
                    tokio::task::consume_budget().await;
                }
            }
            heard = Instant::now(); // what decoding took is no silence
        }
        let meta = reader.finish(&mut |piece| self.decode(&mut crew, piece));
        self.receive_all(&mut crew, incoming).await.map_err(broken)?;
        incoming.bytes += bytes;
        meta.map_err(broken)
    }

    /// Has a piece of the list decoded.
    fn decode(&self, crew: &mut Crew<Decoded<K>>, piece: Piece) {
        let decoder = Arc::clone(&self.decoder);
        crew.push(move || {
            let mut objects = Vec::new();
            let whole = piece.decode(&decoder, &mut |object| objects.push(object));
            (Each::from(objects), whole)
        });
    }

    /// Waits for all that is being decoded.
    async fn receive_all(&self, crew: &mut Crew<Decoded<K>>, incoming: &mut Incoming<K>) -> Result<(), NotAList> {
        while let Some(decoded) = crew.next().await {
            self.receive_piece(incoming, decoded)?;
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    fn receive_piece(&self, incoming: &mut Incoming<K>, (objects, whole): Decoded<K>) -> Result<(), NotAList> {
        for object in objects {
            self.receive(incoming, object);
        }
        whole
    }

    /// Takes one object of the list.
    fn receive(&self, incoming: &mut Incoming<K>, object: Result<Arc<K>, Undecodable>) {
        incoming.objects += 1;
        match object {
            Ok(object) => {
                if !incoming.undecodable.is_empty() {
                    incoming.undecodable.remove(&object.metadata().key_ref());
                }
                let dropped = self.shared.with_store(|store| incoming.relist.upsert(store, object));
                discard_each(dropped); // not under the lock
            }
            Err(bad) => match bad.key.clone() {
                Some(key) => {
                    let dropped = self
                        .shared
                        .with_store(|store| incoming.relist.keep(store, key.as_ref(), &bad.uid));
                    discard(dropped); // not under the lock
                    incoming.undecodable.insert(key, bad);
                }
                None => incoming.nameless.push(bad),
            },
        }
    }

    /// The list is whole: put it into the cache.
    fn commit(&mut self, incoming: &Incoming<K>, version: String) -> Result<(), WatchError> {
        if self.keep_unchanged && version::compare(&version, &self.version) == Some(Ordering::Less) {
            let detail = format!("from {} to {version}", self.version);
            return Err(self.failures.of(Step::List, WatchErrorKind::VersionWentBack, &detail));
        }
        self.status.update(|status| status.undecodable.clear());
        let mut undecodable: Vec<&Undecodable> = incoming.undecodable.values().collect();
        undecodable.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        undecodable.extend(&incoming.nameless);
        for bad in &undecodable {
            self.fail_decode(bad);
        }
        if self.tuning.on_undecodable == OnUndecodable::BlockFirstSync
            && !self.shared.is_filled()
            && let Some(bad) = undecodable.first()
        {
            let detail = format!("the first sync waits until every object decodes: {}", bad.error);
            return Err(self.failures.of(Step::List, WatchErrorKind::Undecodable, &detail));
        }
        self.version.clone_from(&version);
        self.shared.replace(&incoming.relist, version);
        self.status.update(|status| {
            status.size.listed(incoming.objects, incoming.bytes);
            status.heard = Some(Instant::now());
        });
        self.heard();
        Ok(())
    }

    /// Fetches the whole state on a watch, puts it into the cache, and gives the watch back: it goes on.
    pub(super) async fn list_streaming(&mut self) -> Result<Connection, WatchError> {
        let version = if self.start == Start::LastSeen {
            self.version.clone()
        } else {
            String::new()
        };
        let mut incoming = self.incoming(version.is_empty());
        let mut connection = self.open(Step::List, &version, true).await?;
        let opened = Instant::now();
        self.streaming_opened = Some(opened);
        connection.limit(NOTHING_NEW);
        let silence = Some(self.tuning.silence);
        let (mut held, mut crew) = (LinePiece::new(self.tuning.piece), Crew::new(&self.env));
        let (mut most, mut flush_at) = (0, opened + HOLD);
        loop {
            let (decoder, over) = (&self.decoder, connection.is_over());
            let line = connection.next_line(|line| {
                if line.trim_ascii().is_empty() {
                    Line::Blank
                } else if !over && held.push(line) {
                    Line::Held
                } else {
                    Line::Event(line.len(), decoder.event(line))
                }
            });
            let line = line.map_err(|error| self.no_list(&error))?;
            match line {
                Some(Line::Blank) => {}
                Some(Line::Held) if held.is_full() => {
                    self.decode_lines(&mut crew, &mut held);
                    while let Some(events) = crew.take_done() {
                        self.receive_lines(&mut incoming, events)?;
                    }
                }
                Some(Line::Held) => continue,
                Some(Line::Event(bytes, event)) => {
                    // What came before it comes first.
                    self.receive_all_lines(&mut crew, &mut held, &mut incoming).await?;
                    incoming.bytes += bytes;
                    let event = match event {
                        Ok(event) => event,
                        Err(_) if over => continue, // a line that was cut off
                        Err(error) => return Err(self.no_list(&error)),
                    };
                    if let Some(version) = self.receive_event(&mut incoming, event)? {
                        self.commit(&incoming, version)?;
                        self.streaming_silences = 0;
                        self.streaming_opened = None;
                        connection.lift_limit();
                        return Ok(connection);
                    }
                }
                None => {
                    tokio::task::consume_budget().await;
                    let read = tokio::select! {
                        biased;
                        () = sleep_until(flush_at), if !held.is_empty() || !crew.is_empty() => {
                            self.receive_all_lines(&mut crew, &mut held, &mut incoming).await?;
                            flush_at = Instant::now() + HOLD;
                            Ok(Read::Data)
                        }
                        read = connection.read(silence) => read,
                    };
                    match read {
                        Ok(Read::Data) => {}
                        Ok(Read::End) => {
                            let lasted = opened.elapsed();
                            let kind = if lasted < NOTHING_NEW {
                                WatchErrorKind::Protocol
                            } else {
                                WatchErrorKind::Unfinished
                            };
                            let detail =
                                format!("the stream ended before its end bookmark, after {} s", lasted.as_secs());
                            return Err(self.failures.of(Step::List, kind, &detail));
                        }
                        Err(error) => {
                            // What came in time counts, though it was to be decoded with what comes after it.
                            self.receive_all_lines(&mut crew, &mut held, &mut incoming).await?;
                            if !(matches!(error, ReadError::Late(_)) && incoming.known() > most) {
                                return Err(self.read_failure(Step::List, &error));
                            }
                        }
                    }
                }
            }
            if incoming.known() > most {
                most = incoming.known();
                connection.limit(NOTHING_NEW);
            }
        }
    }

    /// Has the lines that are held decoded.
    fn decode_lines(&self, crew: &mut Crew<DecodedLines<K>>, held: &mut LinePiece) {
        let (piece, decoder) = (held.take(), Arc::clone(&self.decoder));
        crew.push(move || {
            let mut heap = HeapAhead::default();
            let events = piece.lines().map(|line| {
                heap.expect(line.len());
                (line.len(), decoder.event(line))
            });
            Each::from(events.collect::<Vec<_>>())
        });
    }

    /// Waits for all lines that are held or being decoded.
    async fn receive_all_lines(
        &mut self,
        crew: &mut Crew<DecodedLines<K>>,
        held: &mut LinePiece,
        incoming: &mut Incoming<K>,
    ) -> Result<(), WatchError> {
        if !held.is_empty() {
            self.decode_lines(crew, held);
        }
        while let Some(events) = crew.next().await {
            self.receive_lines(incoming, events)?;
        }
        Ok(())
    }

    fn receive_lines(&mut self, incoming: &mut Incoming<K>, events: DecodedLines<K>) -> Result<(), WatchError> {
        for (bytes, event) in events {
            incoming.bytes += bytes;
            let event = event.map_err(|error| self.no_list(&error))?;
            if self.receive_event(incoming, event)?.is_some() {
                let detail = "an event says that it is of two types";
                return Err(self.failures.of(Step::List, WatchErrorKind::Protocol, detail));
            }
        }
        Ok(())
    }

    /// What came makes no sense.
    fn no_list(&self, error: &dyn Display) -> WatchError {
        self.failures
            .of(Step::List, WatchErrorKind::Protocol, &error.to_string())
    }

    /// Takes an event before the end bookmark; that bookmark gives the list's version. Nothing else moves it.
    fn receive_event(
        &mut self,
        incoming: &mut Incoming<K>,
        event: WatchEvent<K>,
    ) -> Result<Option<String>, WatchError> {
        match event {
            WatchEvent::Upsert { object, .. } => self.receive(incoming, object),
            WatchEvent::Deleted(Ok(object)) => {
                self.forget(incoming, object.metadata().key_ref());
                discard(object);
            }
            WatchEvent::Deleted(Err(bad)) => match &bad.key {
                Some(key) => self.forget(incoming, key.as_ref()),
                // Nobody knows what is gone.
                None => self.fail_decode(&bad),
            },
            WatchEvent::Bookmark {
                version,
                initial_events_end,
            } => {
                self.has_bookmarks |= !initial_events_end;
                if initial_events_end && version.is_empty() {
                    let detail = "the end bookmark carries no resource version";
                    return Err(self.failures.of(Step::List, WatchErrorKind::Protocol, detail));
                }
                return Ok(initial_events_end.then_some(version));
            }
            WatchEvent::Error(status) => return Err(self.failures.status(Step::List, status.code, None, &status)),
            WatchEvent::Unknown(kind) => tracing::debug!("ignoring a watch event of unknown type {kind:?}"),
        }
        Ok(None)
    }

    /// An object was deleted before the list was whole.
    fn forget(&self, incoming: &mut Incoming<K>, key: KeyRef<'_>) {
        incoming.undecodable.remove(&key);
        let dropped = self.shared.with_store(|store| incoming.relist.remove(store, key));
        discard(dropped); // not under the lock
    }
}
