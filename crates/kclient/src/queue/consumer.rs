//! Waiting: for a key, or for the end of a drain.
//!
//! Owns: the futures behind `get` and `shut_down_with_drain`, and the timer of the consumer that keeps the time. Who is woken,
//! and why nothing is lost, is said in the part `sleep` of [`super::core`].

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

use tokio::time::{Sleep, sleep_until};

use super::core::{Handout, Look, Take};
#[cfg(test)]
use super::time::Tick;
use super::workqueue::Shared;

/// A consumer that found nothing at its first look. Dropping it gives its place up.
pub(super) struct Consumer<'a, T: Clone + Eq> {
    shared: &'a Shared<T>,
    /// Invariant: `Some` from the first time that it falls asleep until it finds something.
    ticket: Option<u64>,
}

impl<'a, T: Clone + Eq> Consumer<'a, T> {
    pub(super) fn new(shared: &'a Shared<T>) -> Self {
        Self { shared, ticket: None }
    }

    /// Looks for a key; if there is none, `waker` is woken when it is worth another look.
    fn look(&mut self, waker: &Waker) -> Look<T> {
        // A waker's code is not the queue's: cloned and dropped outside of the lock.
        let waker = waker.clone();
        let ticket = &mut self.ticket;
        let (look, left) = self.shared.with_time(|core, now| core.look(ticket, waker, now));
        drop(left);
        look
    }

    /// The same at a time that a model says.
    #[cfg(test)]
    pub(super) fn look_at(&mut self, waker: &Waker, now: Tick) -> Look<T> {
        let waker = waker.clone();
        let ticket = &mut self.ticket;
        self.shared.with(|core| core.look(ticket, waker, Some(now))).0
    }

    /// Waits for a key.
    pub(super) async fn wait(mut self) -> Option<Handout<T>> {
        let mut timer = pin!(None::<Sleep>);
        poll_fn(|cx| {
            loop {
                // On every way to `Pending` this look has stored the waker.
                let until = match self.look(cx.waker()) {
                    Look::Found(Take::Item(handout)) => return Poll::Ready(Some(handout)),
                    Look::Found(Take::Empty | Take::Closed) => return Poll::Ready(None),
                    Look::Asleep(None) => {
                        timer.set(None);
                        return Poll::Pending;
                    }
                    Look::Asleep(Some(until)) => self.shared.epoch().instant(until),
                };
                match timer.as_mut().as_pin_mut() {
                    Some(timer) if timer.deadline() == until => {}
                    Some(timer) => timer.reset(until),
                    None => timer.set(Some(sleep_until(until))),
                }
                let due = timer
                    .as_mut()
                    .as_pin_mut()
                    .is_none_or(|timer| timer.poll(cx).is_ready());
                if !due {
                    return Poll::Pending;
                }
                timer.set(None);
            }
        })
        .await
    }
}

impl<T: Clone + Eq> Drop for Consumer<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let left = self.shared.with(|core| core.abandon(ticket));
            drop(left);
        }
    }
}

/// Waits until a drain is over.
pub(super) async fn drained<T: Clone + Eq>(shared: &Shared<T>) {
    let mut drainer = Drainer { shared, ticket: None };
    poll_fn(|cx| {
        let waker = cx.waker().clone();
        let ticket = &mut drainer.ticket;
        let (over, left) = shared.with(|core| core.look_drained(ticket, waker));
        drop(left);
        // The look has stored the waker if it is not over.
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Somebody who waits for the end of a drain.
struct Drainer<'a, T: Clone + Eq> {
    shared: &'a Shared<T>,
    ticket: Option<u64>,
}

impl<T: Clone + Eq> Drop for Drainer<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let left = self.shared.with(|core| core.abandon_drain(ticket));
            drop(left);
        }
    }
}
