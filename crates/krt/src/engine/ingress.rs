//! Everything that comes from outside, until the engine takes it: changes of sources, and operations on the graph.
//!
//! # Design
//!
//! One lock for all sources: what is taken under it is an atomic cut over all of them, in the order in which the program wrote. What
//! happens to a key between two cuts is coalesced, so memory is bounded by the number of keys. No user code runs under the lock;
//! what is replaced is handed to the caller to be dropped.

use std::any::Any;
use std::time::Duration;

use smallvec::SmallVec;

use super::id::NodeId;
use super::node::Node;
use super::planted::{self, Bug};
use crate::sync::{Condvar, Mutex};

/// An operation on the graph, done between epochs.
pub(crate) enum Operation {
    /// Adds a node, over the nodes that it reads from the start.
    Add(NodeId, Box<dyn Node>, NodeInfo),
    /// Nobody has a handle of the node any more.
    Release(NodeId),
    /// Freezes a node. If it was written to before, that comes first.
    Stop(NodeId),
    /// Does something typed to a node: a handler, an index.
    Edit(NodeId, EditCall),
}

/// What an [`Operation::Edit`] does to a `Cell<T>`.
pub(crate) type EditCall = Box<dyn FnOnce(&mut dyn Any, &mut Edit<'_>) + Send>;

/// What a node is called and reads.
pub(crate) struct NodeInfo {
    pub(crate) status: std::sync::Arc<super::status::Status>,
    pub(crate) sources: Vec<NodeId>,
    /// What is waited for beside these.
    pub(crate) declared: Vec<NodeId>,
}

/// What an [`Operation::Edit`] may use.
pub(crate) struct Edit<'a> {
    pub(crate) epoch: u64,
    pub(crate) delivery: super::sink::Delivery<'a>,
}

/// The pending changes of one source, with its type erased.
pub(crate) trait Buffer: Send {
    fn as_any(&mut self) -> &mut dyn Any;
    /// How many keys it knows.
    #[cfg(test)]
    fn live(&self) -> usize;
    /// Whether an id was written to and the engine has not taken that yet.
    fn is_kept(&self, id: u32) -> bool;
    /// Takes the changes, for the node to [ingest](super::node::Node::ingest).
    fn take(&mut self) -> Box<dyn Any + Send>;
    /// The source counts as synced from now on, whether it is or not.
    fn time_is_up(&mut self);
}

/// When a source counts as synced, at the latest.
struct Timeout {
    node: NodeId,
    after: Duration,
    /// The time at which that is; `None` until the driver of the engine has told what time it is.
    at: Option<Duration>,
}

struct Source {
    buffer: Box<dyn Buffer>,
    /// Invariant: whether it is in `changed`.
    is_changed: bool,
}

#[derive(Default)]
pub(crate) struct State {
    operations: Vec<Operation>,
    /// By node.
    sources: Vec<Option<Source>>,
    changed: Vec<NodeId>,
    /// What was written to sources before they were stopped.
    last: Vec<(NodeId, Box<dyn Any + Send>)>,
    timeouts: Vec<Timeout>,
    /// Node numbers that may be given out again.
    free: Vec<u32>,
    next: u32,
    next_uid: u64,
    /// Counts what was written.
    written: u64,
    /// What `written` was when the engine took something the last time.
    taken: u64,
    /// What `written` was when the last collection was made.
    made: u64,
    /// Whether pins went, so that old versions may go.
    pub(crate) unpinned: bool,
    /// Nothing is accepted any more.
    closed: bool,
    /// The engine's thread sleeps.
    asleep: bool,
}

#[derive(Default)]
pub(crate) struct Ingress {
    state: Mutex<State>,
    wake: Condvar,
}

/// What the engine takes at once.
#[derive(Default)]
pub(crate) struct Cut {
    pub(crate) operations: Vec<Operation>,
    pub(crate) changes: SmallVec<[(NodeId, Box<dyn Any + Send>); 2]>,
    pub(crate) unpinned: bool,
    /// Everything that was written up to here is in this cut or an earlier one.
    pub(crate) written: u64,
}

impl Cut {
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.changes.is_empty() && !self.unpinned
    }
}

impl Ingress {
    /// Changes something under the lock; everything in one call is in one cut.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = write(&mut state);
        // What leaves nothing to take is not waited for.
        state.written += u64::from(state.has_work());
        // A thread that is awake looks again before it sleeps.
        let wake = std::mem::take(&mut state.asleep);
        drop(state);
        if wake && !planted::has(Bug::WorkerNotWoken) {
            self.wake.notify_all();
        }
        result
    }

    /// Does something under the lock that is no write.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.state.lock())
    }

    /// The number up to which everything must be applied for all writes to be. Some writes leave nothing to apply, such as those to a source
    /// that was stopped: the engine is not told of them.
    pub(crate) fn written(&self) -> u64 {
        let state = self.state.lock();
        if state.has_work() { state.written } else { state.taken }
    }

    /// The number up to which everything must be applied for all collections to be added that were made so far.
    pub(crate) fn made(&self) -> u64 {
        self.state.lock().made
    }

    pub(crate) fn take(&self) -> Cut {
        self.state.lock().take()
    }

    /// Waits for something to take; `None` once the ingress is closed. `now` tells how long the engine has been running.
    pub(crate) fn wait(&self, now: impl Fn() -> Duration) -> Option<Cut> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            let next = if state.timeouts.is_empty() {
                None
            } else {
                state.pass(now())
            };
            if state.has_work() {
                return Some(state.take());
            }
            state.asleep = true;
            state = match next {
                None => self.wake.wait(state),
                Some(after) => self.wake.wait_timeout(state, after).0,
            };
        }
    }

    /// Waits for something to take, and leaves it; tells whether it came in time.
    #[cfg(test)]
    pub(crate) fn wait_for_work(&self, timeout: Duration) -> bool {
        let deadline = std::time::Instant::now() + timeout;
        let mut state = self.state.lock();
        while !state.has_work() {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return false;
            }
            state.asleep = true;
            state = self.wake.wait_timeout(state, left).0;
        }
        true
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Accepts nothing any more, and returns what was pending, to be dropped.
    pub(crate) fn close(&self) -> impl Sized {
        self.write(|state| {
            state.closed = true;
            state.changed.clear();
            state.timeouts.clear();
            (
                std::mem::take(&mut state.operations),
                std::mem::take(&mut state.sources),
                std::mem::take(&mut state.last),
            )
        })
    }
}

impl State {
    /// A number for a new node.
    pub(crate) fn new_node(&mut self) -> (NodeId, u64) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.next_uid += 1;
        (NodeId(number), self.next_uid)
    }

    /// Queues an operation; gives it back if nothing is accepted any more.
    pub(crate) fn push(&mut self, operation: Operation) -> Option<Operation> {
        if self.closed {
            return Some(operation);
        }
        if matches!(operation, Operation::Add(..)) {
            // This is what the write at hand will count as.
            self.made = self.written + 1;
        }
        self.operations.push(operation);
        None
    }

    /// Queues the stop of a node. If it is a source, what was written before still counts, and nothing that comes after. What is returned is to
    /// be dropped.
    pub(crate) fn stop(&mut self, node: NodeId) -> impl Sized + use<> {
        let source = self.sources.get_mut(node.index()).and_then(Option::take);
        let mut buffer = source.map(|source| {
            if source.is_changed {
                self.changed.retain(|changed| *changed != node);
            }
            (source.buffer, source.is_changed)
        });
        if let Some((buffer, true)) = &mut buffer {
            self.last.push((node, buffer.take()));
        }
        (buffer, self.push(Operation::Stop(node)))
    }

    /// Gives a node its buffer; gives it back if nothing is accepted any more.
    pub(crate) fn add_source(&mut self, node: NodeId, buffer: Box<dyn Buffer>) -> Option<Box<dyn Buffer>> {
        if self.closed {
            return Some(buffer);
        }
        if node.index() >= self.sources.len() {
            self.sources.resize_with(node.index() + 1, || None);
        }
        self.sources[node.index()] = Some(Source {
            buffer,
            is_changed: true,
        });
        self.changed.push(node);
        None
    }

    /// The buffer of a source, to be looked at. `None` after the end.
    pub(crate) fn buffer<B: 'static>(&mut self, node: NodeId) -> Option<&B> {
        let source = self.sources.get_mut(node.index())?.as_mut()?;
        source.buffer.as_any().downcast_ref()
    }

    /// Whether an id of a source was written to and the engine has not taken that yet.
    pub(crate) fn is_kept(&self, node: NodeId, id: u32) -> bool {
        let source = self.sources.get(node.index()).and_then(Option::as_ref);
        source.is_some_and(|source| source.buffer.is_kept(id))
    }

    /// A source counts as synced once this time has passed, from now or from the start of the engine if that is later.
    pub(crate) fn add_timeout(&mut self, node: NodeId, after: Duration) {
        if !self.closed {
            self.timeouts.push(Timeout { node, after, at: None });
        }
    }

    /// It is `now` so long after the start of the engine. Tells how long it is to the next timeout.
    pub(crate) fn pass(&mut self, now: Duration) -> Option<Duration> {
        let mut timeouts = std::mem::take(&mut self.timeouts);
        let due = timeouts.extract_if(.., |timeout| {
            let (node, after) = (timeout.node, timeout.after);
            let at = *timeout.at.get_or_insert_with(|| now.saturating_add(after));
            let source = self.sources.get(node.index()).and_then(Option::as_ref);
            at <= now || source.is_none()
        });
        let due: Vec<NodeId> = due.map(|timeout| timeout.node).collect();
        for node in due {
            if let Some(Some(source)) = self.sources.get_mut(node.index()) {
                source.buffer.time_is_up();
                if !std::mem::replace(&mut source.is_changed, true) {
                    self.changed.push(node);
                }
            }
        }
        let next = timeouts.iter().filter_map(|timeout| timeout.at).min();
        self.timeouts = timeouts;
        next.map(|at| at.saturating_sub(now))
    }

    /// The buffer of a source, which counts as changed. `None` after the end.
    pub(crate) fn source<B: 'static>(&mut self, node: NodeId) -> Option<&mut B> {
        let source = self.sources.get_mut(node.index())?.as_mut()?;
        if !source.is_changed {
            source.is_changed = true;
            self.changed.push(node);
        }
        source.buffer.as_any().downcast_mut()
    }

    /// Forgets a node, whose number may be given out again. Returns its buffer, to be dropped.
    pub(crate) fn free(&mut self, node: NodeId) -> impl Sized + use<> {
        self.free.push(node.0);
        self.remove_source(node)
    }

    /// Forgets the buffer of a source.
    pub(crate) fn remove_source(&mut self, node: NodeId) -> impl Sized + use<> {
        self.changed.retain(|changed| *changed != node);
        self.timeouts.retain(|timeout| timeout.node != node);
        self.sources
            .get_mut(node.index())
            .and_then(Option::take)
            .map(|source| source.buffer)
    }

    /// How many keys each source knows.
    #[cfg(test)]
    pub(crate) fn live(&self) -> Vec<usize> {
        let sources = self.sources.iter().flatten();
        sources.map(|source| source.buffer.live()).collect()
    }

    fn has_work(&self) -> bool {
        !self.operations.is_empty() || !self.changed.is_empty() || !self.last.is_empty() || self.unpinned
    }

    fn take(&mut self) -> Cut {
        let mut changes = SmallVec::with_capacity(self.last.len() + self.changed.len());
        changes.extend(self.last.drain(..));
        for node in self.changed.drain(..) {
            if let Some(source) = &mut self.sources[node.index()] {
                source.is_changed = false;
                changes.push((node, source.buffer.take()));
            }
        }
        self.taken = self.written;
        Cut {
            operations: std::mem::take(&mut self.operations),
            changes,
            unpinned: std::mem::take(&mut self.unpinned),
            written: self.written,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often its time was up.
    struct Clock(Arc<AtomicUsize>);

    impl Buffer for Clock {
        fn as_any(&mut self) -> &mut dyn Any {
            self
        }

        fn live(&self) -> usize {
            0
        }

        fn is_kept(&self, _: u32) -> bool {
            false
        }

        fn take(&mut self) -> Box<dyn Any + Send> {
            Box::new(())
        }

        fn time_is_up(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn source(state: &mut State) -> (NodeId, Arc<AtomicUsize>) {
        let up = Arc::new(AtomicUsize::new(0));
        let (node, _) = state.new_node();
        assert!(state.add_source(node, Box::new(Clock(Arc::clone(&up)))).is_none());
        (node, up)
    }

    fn changed(state: &mut State) -> Vec<NodeId> {
        state.take().changes.iter().map(|(node, _)| *node).collect()
    }

    #[test]
    fn a_timeout_counts_from_the_first_time_that_is_told_after_it() {
        let mut state = State::default();
        let [(one, first), (other, second)] = [(); 2].map(|()| source(&mut state));
        assert_eq!(changed(&mut state), [one, other]);
        assert_eq!(state.pass(seconds(5)), None, "nobody waits");
        state.add_timeout(one, seconds(10));
        assert_eq!(state.pass(seconds(7)), Some(seconds(10)));
        state.add_timeout(other, seconds(4));
        assert_eq!(state.pass(seconds(9)), Some(seconds(4)), "the next one");
        assert!(!state.has_work());
        assert_eq!(state.pass(seconds(13)), Some(seconds(4)));
        assert_eq!(changed(&mut state), [other]);
        assert_eq!(state.pass(seconds(17)), None);
        assert_eq!(changed(&mut state), [one]);
        assert_eq!(state.pass(seconds(99)), None);
        assert_eq!(changed(&mut state), Vec::new());
        assert_eq!([&first, &second].map(|up| up.load(Ordering::Relaxed)), [1, 1]);
    }

    #[test]
    fn a_timeout_of_a_source_that_is_written_to_has_it_taken_once() {
        let mut state = State::default();
        let (node, up) = source(&mut state);
        state.add_timeout(node, seconds(1));
        state.pass(seconds(0));
        assert_eq!(state.pass(seconds(1)), None);
        assert_eq!(changed(&mut state), [node]);
        assert_eq!(up.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn timeouts_go_with_their_sources_and_with_the_end() {
        let ingress = Ingress::default();
        let up = ingress.look(|state| {
            let [(stopped, first), (gone, second), (kept, third)] = [(); 3].map(|()| source(state));
            for (node, after) in [(stopped, 2), (gone, 3), (kept, 9)] {
                state.add_timeout(node, seconds(after));
            }
            assert_eq!(state.pass(seconds(1)), Some(seconds(2)));
            drop(state.stop(stopped));
            drop(state.free(gone));
            assert_eq!(state.pass(seconds(2)), Some(seconds(8)));
            [first, second, third]
        });
        assert!(!ingress.is_closed());
        drop(ingress.close());
        assert!(ingress.is_closed());
        ingress.look(|state| {
            state.add_timeout(NodeId(2), seconds(1));
            assert_eq!(state.pass(seconds(100)), None);
            let clock = Box::new(Clock(Arc::default()));
            assert!(
                state.add_source(NodeId(2), clock).is_some(),
                "nothing is accepted any more"
            );
            assert!(state.push(Operation::Release(NodeId(2))).is_some());
        });
        assert_eq!(up.map(|up| up.load(Ordering::Relaxed)), [0, 0, 0]);
        assert!(ingress.wait(|| seconds(0)).is_none());
    }
}
