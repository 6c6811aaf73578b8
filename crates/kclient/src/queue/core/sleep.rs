//! Which consumers sleep, and whom to wake for what happened.
//!
//! # Design
//!
//! A consumer that finds nothing falls asleep under the lock. Whoever makes a key ready takes a sleeper out of the list and
//! wakes it after the lock is released; it looks again, and may find that another consumer was faster.
//!
//! *Invariant 1.* If somebody sleeps, there are no more ready keys than consumers that were woken and have not looked yet.
//! (A consumer falls asleep only when nothing is ready. A key that becomes ready wakes one more. A woken consumer that looks
//! takes a key or finds none; one that is dropped instead passes its wake-up on.) So no key waits while all sleep.
//!
//! One of the sleeping consumers, the timekeeper, sleeps no longer than the earliest deadline that it knew; the others sleep
//! without a timer, so a hundred consumers do not set a hundred timers.
//!
//! *Invariant 2.* If somebody sleeps and something is delayed, the timekeeper's deadline is the earliest one, or a consumer was
//! woken that has not looked yet. (When that one looks it becomes the timekeeper or, by leaving, wakes the next one.)

use std::task::Waker;

use super::{Core, Take};
use crate::queue::time::Tick;

/// What happened under the present lock that somebody outside has to be told.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one turn of the lock")]
pub(super) struct News {
    /// Keys that became ready and that no consumer was woken for.
    pub(super) fresh: usize,
    /// Whether the earliest deadline is now earlier than the timekeeper knows, or there is no timekeeper.
    pub(super) rearm: bool,
    /// Whether the drain ended.
    pub(super) drained: bool,
    /// Whether the queue was shut down.
    pub(super) shut_down: bool,
    /// Whether the last marked key was handled.
    pub(super) all_handled: bool,
}

/// What is to be done after the lock is released.
#[derive(Default)]
#[must_use = "somebody sleeps until it is told"]
pub(in crate::queue) struct Effects {
    /// To be woken. Nearly always there is nobody or one.
    pub(in crate::queue) wake: Option<Waker>,
    pub(in crate::queue) wake_too: Vec<Waker>,
    /// Whether the last marked key was handled.
    pub(in crate::queue) all_handled: bool,
}

/// What a consumer found that looked.
pub(in crate::queue) enum Look<T> {
    /// A key, or that there will be none any more. The consumer does not sleep.
    Found(Take<T>),
    /// Nothing: it sleeps now, until this time at the latest.
    Asleep(Option<Tick>),
}

impl<T: Clone + Eq> Core<T> {
    /// A consumer looks for a key, and falls asleep if there is none. Its ticket is given to it when it first falls asleep, and
    /// taken back when it finds something. What is left of its wakers is returned, to be dropped outside of the lock.
    pub(in crate::queue) fn look(
        &mut self,
        ticket: &mut Option<u64>,
        waker: Waker,
        now: Option<Tick>,
    ) -> (Look<T>, Option<Waker>) {
        self.promote(now);
        let fresh = self.news.fresh;
        match self.take(now) {
            Take::Empty => {
                let replaced = self.consumers.sleep(ticket, waker);
                (Look::Asleep(self.keep_time(*ticket)), replaced)
            }
            found => {
                let Some(ticket) = ticket.take() else {
                    return (Look::Found(found), None);
                };
                let left = self.leave(ticket);
                if left.is_none() {
                    // It was woken for a key and has got one: those that became ready at this look need others.
                    self.news.fresh = fresh.min(self.ready.len());
                }
                (Look::Found(found), left)
            }
        }
    }

    /// A consumer that slept is dropped. If it was woken before, its wake-up goes to another one.
    pub(in crate::queue) fn abandon(&mut self, ticket: u64) -> Option<Waker> {
        let asleep = self.leave(ticket);
        if asleep.is_none() && self.ready.len() > 0 {
            self.news.fresh = self.news.fresh.max(1);
        }
        asleep
    }

    /// A consumer that slept goes. If it kept the time, or was woken to do so and found something better to do, another has to.
    fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let asleep = self.consumers.take(ticket);
        self.timekeeper = self.timekeeper.filter(|(keeper, _)| *keeper != ticket);
        if let Some(next) = self.delays.next(&self.slots) {
            self.note_deadline(next);
        }
        asleep
    }

    /// Until when the holder of this ticket, who falls asleep, sleeps at most.
    fn keep_time(&mut self, ticket: Option<u64>) -> Option<Tick> {
        let (ticket, next) = (ticket?, self.delays.next(&self.slots));
        let is_keeper = |(keeper, armed): (u64, Tick)| keeper == ticket || next.is_some_and(|next| next < armed);
        if self.timekeeper.is_none_or(is_keeper) {
            self.timekeeper = next.map(|next| (ticket, next));
            return next;
        }
        None
    }

    /// Somebody has to sleep no longer than until this deadline.
    pub(super) fn note_deadline(&mut self, deadline: Tick) {
        self.news.rearm |= self.timekeeper.is_none_or(|(_, armed)| deadline < armed);
    }

    /// What is to be done for what happened since the last call; nearly always nothing, unless somebody sleeps.
    #[inline]
    pub(in crate::queue) fn effects(&mut self) -> Option<Effects> {
        let news = &mut self.news;
        if self.consumers.len() > 0 || news.drained || news.shut_down || news.all_handled {
            return self.take_effects();
        }
        news.fresh = 0;
        news.rearm = false;
        None
    }

    fn take_effects(&mut self) -> Option<Effects> {
        let news = std::mem::take(&mut self.news);
        let mut effects = Effects {
            all_handled: news.all_handled,
            ..Effects::default()
        };
        if news.shut_down {
            effects.wake_too = self.consumers.take_all();
            effects.wake_too.extend(self.drainers.take_all());
        } else {
            if (news.fresh > 0 || news.rearm) && self.consumers.len() > 0 {
                self.wake_consumers(news.fresh, news.rearm, &mut effects);
            }
            if news.drained {
                effects.wake_too.extend(self.drainers.take_all());
            }
        }
        let any = effects.wake.is_some() || !effects.wake_too.is_empty() || effects.all_handled;
        any.then_some(effects)
    }

    fn wake_consumers(&mut self, fresh: usize, rearm: bool, effects: &mut Effects) {
        let keeper = self.timekeeper.map(|(keeper, _)| keeper);
        if rearm {
            // The timekeeper, if it sleeps, only has to look at the time again; whoever else is woken takes over.
            let woken = keeper.and_then(|keeper| self.consumers.take(keeper));
            effects.wake = woken.or_else(|| self.consumers.take_one(None));
        }
        while usize::from(effects.wake.is_some()) + effects.wake_too.len() < fresh
            && let Some(waker) = self.consumers.take_one(keeper)
        {
            if effects.wake.is_none() {
                effects.wake = Some(waker);
            } else {
                effects.wake_too.push(waker);
            }
        }
    }

    /// Somebody waits for the end of a drain: true if it is over, otherwise it sleeps from now on.
    pub(in crate::queue) fn look_drained(&mut self, ticket: &mut Option<u64>, waker: Waker) -> (bool, Option<Waker>) {
        if self.is_drained() {
            return (true, Some(waker));
        }
        (false, self.drainers.sleep(ticket, waker))
    }

    /// Somebody who waited for the end of a drain is gone.
    pub(in crate::queue) fn abandon_drain(&mut self, ticket: u64) -> Option<Waker> {
        self.drainers.take(ticket)
    }

    #[cfg(test)]
    pub(in crate::queue) fn sleepers(&self) -> usize {
        self.consumers.len()
    }

    /// Whether a consumer sleeps that nobody has woken.
    #[cfg(test)]
    pub(in crate::queue) fn sleeps(&self, ticket: u64) -> bool {
        self.consumers.contains(ticket)
    }
}
