//! Those who sleep until the queue wakes them.
//!
//! Owns: the wakers of waiting futures, by ticket. Wakers are code of whoever polls: they are cloned before the queue's lock is
//! taken, and what comes out of here is woken or dropped after it was released.

use std::task::Waker;

/// The wakers of the futures that sleep now. Each future holds at most one ticket and gives it back when it is dropped, so the
/// list is bounded by the number of live futures.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// In the order of falling asleep. Invariant: tickets are unique and at most `last`.
    asleep: Vec<(u64, Waker)>,
    last: u64,
}

impl Waiters {
    /// Puts the holder of `ticket` to sleep; it gets its ticket at the first time. Returns the waker that this one replaces.
    #[must_use = "drop it after the lock is released"]
    pub(super) fn sleep(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let id = *ticket.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        if let Some((_, known)) = self.asleep.iter_mut().find(|(known, _)| *known == id) {
            return Some(std::mem::replace(known, waker));
        }
        self.asleep.push((id, waker));
        None
    }

    /// Takes one sleeper out, if it sleeps.
    #[must_use = "wake it, or drop it, after the lock is released"]
    pub(super) fn take(&mut self, ticket: u64) -> Option<Waker> {
        let at = self.asleep.iter().position(|(known, _)| *known == ticket)?;
        Some(self.asleep.remove(at).1)
    }

    /// Takes the one out that fell asleep last, whose state is the most likely to be in a cache; `spared` only if there is
    /// nobody else.
    #[must_use = "wake it after the lock is released"]
    pub(super) fn take_one(&mut self, spared: Option<u64>) -> Option<Waker> {
        let (ticket, waker) = self.asleep.pop()?;
        if Some(ticket) == spared
            && let Some((_, other)) = self.asleep.pop()
        {
            self.asleep.push((ticket, waker));
            return Some(other);
        }
        Some(waker)
    }

    /// Takes all of them out.
    #[must_use = "wake them after the lock is released"]
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        self.asleep.drain(..).map(|(_, waker)| waker).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.asleep.len()
    }

    #[cfg(test)]
    pub(super) fn contains(&self, ticket: u64) -> bool {
        self.asleep.iter().any(|(known, _)| *known == ticket)
    }
}
