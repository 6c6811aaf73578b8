//! Who waits for the cache: for its first list, and for it to have seen a write.

use std::task::{Context, Poll, Waker};

use crate::error::Stopped;
use crate::informer::progress::{Goal, Now, Source};
use crate::informer::shared::{Section, Shared, State};
use crate::informer::store::Outcome;
use crate::key::ObjectKey;
use crate::object::Object;

/// One who waits for the store to have seen a write; [`Shared::forget_wait`] ends it.
#[derive(Debug)]
pub(crate) struct Wait {
    goal: Goal,
    // Invariant: known to the `progress` of the goal's section while present.
    ticket: Option<u64>,
}

impl Wait {
    pub(crate) fn for_goal(goal: Goal) -> Self {
        Self { goal, ticket: None }
    }
}

impl<K: Object> Shared<K> {
    pub(crate) fn poll_filled(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        self.poll_until(ticket, cx, |state| state.or_stopped(state.unfilled == 0))
    }

    /// Waits for [`is_listed`](Self::is_listed); pending for ever once stopped.
    pub(crate) fn poll_listed(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        self.poll_until(ticket, cx, |state| state.is_listed().then_some(()))
    }

    /// Gives the answer if there is one. On `Pending` the waker is kept under the ticket; it is cloned, and the one that it replaces
    /// dropped, while no lock is held.
    pub(super) fn poll_until<R>(
        &self,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
        answer: impl FnOnce(&State<K>) -> Option<R>,
    ) -> Poll<R> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.write();
            if let Some(answer) = answer(&state) {
                return Poll::Ready(answer);
            }
            state.waiters.register(ticket, waker)
        };
        drop(replaced);
        Poll::Pending
    }

    pub(crate) fn forget(&self, ticket: Option<u64>) {
        if ticket.is_some() {
            let forgotten = self.state.write().waiters.forget(ticket);
            drop(forgotten);
        }
    }

    /// Whether the store has seen a write. On `Pending` the waker is kept; drop the wait through
    /// [`forget_wait`](Self::forget_wait).
    pub(crate) fn poll_reached(&self, wait: &mut Wait, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        let waker = cx.waker().clone();
        let (result, replaced) = {
            let mut state = self.state.write();
            let stopped = state.stopped;
            let at = state.section_of(wait.goal.key());
            match wait.ticket {
                Some(ticket) => {
                    let progress = &mut state.sections[at].progress;
                    match progress.poll(ticket, waker) {
                        (false, replaced) if !stopped => (Poll::Pending, replaced),
                        (reached, replaced) => {
                            wait.ticket = None;
                            let forgotten = progress.forget(ticket);
                            drop(state);
                            drop((forgotten, replaced));
                            return Poll::Ready(if reached { Ok(()) } else { Err(Stopped) });
                        }
                    }
                }
                None if state.sections[at].progress.is_reached(&wait.goal, &state.now(at)) => {
                    (Poll::Ready(Ok(())), Some(waker))
                }
                None if stopped => (Poll::Ready(Err(Stopped)), Some(waker)),
                None => {
                    wait.ticket = Some(state.sections[at].progress.wait(wait.goal.clone(), waker));
                    (Poll::Pending, None)
                }
            }
        };
        drop(replaced);
        result
    }

    pub(crate) fn forget_wait(&self, wait: &mut Wait) {
        if let Some(ticket) = wait.ticket.take() {
            let forgotten = {
                let mut state = self.state.write();
                let at = state.section_of(wait.goal.key());
                state.sections[at].progress.forget(ticket)
            };
            drop(forgotten);
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting_for_progress(&self) -> usize {
        let state = self.state.read();
        state.sections.iter().map(|section| section.progress.len()).sum()
    }
}

impl<K: Object> State<K> {
    /// The answer for one who waits for something: that it is so, or never will be.
    pub(super) fn or_stopped(&self, is_so: bool) -> Option<Result<(), Stopped>> {
        if is_so {
            return Some(Ok(()));
        }
        self.stopped.then_some(Err(Stopped))
    }

    /// The section that the objects of this key's namespace belong to. A key that no section covers waits with the first.
    fn section_of(&self, key: &ObjectKey) -> usize {
        let namespace = key.namespace();
        let own = |section: &Section| section.namespace.as_deref() == namespace;
        self.sections.iter().position(own).unwrap_or_default()
    }

    /// A section as one who waits for a write sees it.
    fn now(&self, at: usize) -> Now<'_, K> {
        let section = &self.sections[at];
        Now {
            store: &self.store,
            version: &section.version,
            filled: section.filled,
        }
    }

    /// Tells those who wait for writes to a section's objects what has changed; gives who is to be woken.
    pub(super) fn progressed(&mut self, at: usize, outcome: &Outcome<K>, source: Source) -> Vec<Waker> {
        let mut progress = std::mem::take(&mut self.sections[at].progress);
        let wakers = progress.advance(&outcome.events, source, &self.now(at));
        self.sections[at].progress = progress;
        wakers
    }
}
