//! How fast the status of one object may be written.
//!
//! # Design
//!
//! A status that changes often is written often, and nothing is wrong with that; after ten writes within a minute, one in a second
//! is enough, since what is written next is the latest anyway. It is another matter if what was written before is
//! written again and again: then somebody undoes it, or what is desired follows from what was written. Such a key is *contended*: each
//! write has to wait twice as long as the one before it, up to a minute, until a minute has passed in which nothing had to be
//! written.
//!
//! This file decides. It has no clock and no lock.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// So many writes within this time are never held up.
const LIMIT: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);

/// How long the writes after those have to be apart at least; of a contended key, from the shortest time to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// The latest writes of one key.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When each was made and what was written, as a hash: it decides whether somebody is warned, and nothing else. `None` if it changed
    /// nothing.
    ///
    /// Invariant: in the order of time, none older than the window when they were looked at last, at most `LIMIT`.
    recent: VecDeque<(Instant, Option<u64>)>,
    contended: Option<Contended>,
}

#[derive(Debug)]
struct Contended {
    /// How long to wait after the last write.
    delay: Duration,
    until: Instant,
    /// Somebody was told to wait since the last write.
    is_waiting: bool,
}

/// Whether a key may be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Not before this time has passed.
    After(Duration, News),
}

/// What there is to tell about a key that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    /// It is contended from now on.
    Contended,
    /// It still is, and has to wait longer.
    StillContended,
}

impl Pace {
    /// Whether this content may be written now.
    pub(super) fn ask(&mut self, now: Instant, content: u64) -> Turn {
        self.recent.retain(|(time, _)| now.duration_since(*time) < WINDOW);
        let is_quiet = self.recent.is_empty();
        self.contended.take_if(|contended| is_quiet && !contended.is_waiting);
        if let Some(contended) = &mut self.contended {
            let wait = contended.until.saturating_duration_since(now);
            if wait.is_zero() {
                return Turn::Now;
            }
            let news = if contended.is_waiting {
                News::Nothing
            } else {
                News::StillContended
            };
            contended.is_waiting = true;
            return Turn::After(wait, news);
        }
        let (LIMIT.., Some((last, _))) = (self.recent.len(), self.recent.back()) else {
            return Turn::Now;
        };
        let until = *last + SHORTEST;
        let is_contended = self.alternates(content);
        if is_contended {
            self.contended = Some(Contended {
                delay: SHORTEST,
                until,
                is_waiting: true,
            });
        }
        let wait = until.saturating_duration_since(now);
        match (wait.is_zero(), is_contended) {
            (_, true) => Turn::After(wait, News::Contended),
            (true, false) => Turn::Now,
            (false, false) => Turn::After(wait, News::Nothing),
        }
    }

    /// A write was made. The content is `None` if it changed nothing.
    pub(super) fn written(&mut self, now: Instant, content: Option<u64>) {
        if self.recent.len() == LIMIT {
            self.recent.pop_front();
        }
        self.recent.push_back((now, content));
        if let Some(contended) = &mut self.contended {
            contended.delay = LONGEST.min(contended.delay * 2);
            contended.until = now + contended.delay;
            contended.is_waiting = false;
        }
    }

    /// Whether one write more of this content would be more than the limit, of contents that come back: each twice, on average.
    fn alternates(&self, content: u64) -> bool {
        let mut contents: Vec<u64> = self.recent.iter().filter_map(|(_, content)| *content).collect();
        contents.push(content);
        let all = contents.len();
        contents.sort_unstable();
        contents.dedup();
        all > LIMIT && contents.len() * 2 <= all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// Writes at once until it has to wait. Returns how often that was, and what it was told.
    fn write_until_held(pace: &mut Pace, now: Instant, mut content: impl FnMut(u64) -> u64) -> (u64, Turn) {
        for number in 0.. {
            match pace.ask(now, content(number)) {
                Turn::Now => pace.written(now, Some(content(number))),
                held @ Turn::After(..) => return (number, held),
            }
        }
        unreachable!("the numbers do not end")
    }

    // [K37] the eleventh write within a minute of what was written before is held up, longer each time
    #[test]
    fn a_key_whose_contents_come_back_is_contended() {
        for period in 1..=5 {
            let (mut pace, mut now) = (Pace::default(), Instant::now());
            let held = write_until_held(&mut pace, now, |number| number % period);
            assert_eq!(held, (10, Turn::After(seconds(1), News::Contended)), "{period}");
            for delay in [1, 2, 4, 8, 16, 32, 60, 60] {
                if delay > 1 {
                    let told = pace.ask(now, 0);
                    assert_eq!(told, Turn::After(seconds(delay), News::StillContended));
                }
                now += Duration::from_millis(1000 * delay - 1);
                assert_eq!(pace.ask(now, 0), Turn::After(Duration::from_millis(1), News::Nothing));
                now += Duration::from_millis(1);
                assert_eq!(pace.ask(now, 0), Turn::Now);
                pace.written(now, Some(0));
            }
        }
    }

    #[test]
    fn a_contended_key_is_free_again_after_a_minute_without_a_need() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        write_until_held(&mut pace, now, |_| 7);
        now += seconds(1);
        assert_eq!(pace.ask(now, 7), Turn::Now);
        pace.written(now, Some(7));
        // One that comes back less often than it has to wait is still the same matter.
        now += seconds(59);
        assert_eq!(pace.ask(now, 7), Turn::Now);
        pace.written(now, Some(7));
        assert_eq!(pace.ask(now, 7), Turn::After(seconds(4), News::StillContended));
        now += seconds(4);
        assert_eq!(pace.ask(now, 7), Turn::Now);
        pace.written(now, Some(7));
        now += seconds(60);
        let held = write_until_held(&mut pace, now, |_| 7);
        assert_eq!(held, (10, Turn::After(seconds(1), News::Contended)));
    }

    // Progress is not contended: it only is not told more than once a second.
    #[test]
    fn a_key_with_ever_new_contents_is_spaced() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for start in 0..20 {
            let held = write_until_held(&mut pace, now, |number| start * 100 + number);
            let expected = if start == 0 { 10 } else { 1 };
            assert_eq!(held, (expected, Turn::After(seconds(1), News::Nothing)));
            now += seconds(1);
        }
        now += WINDOW;
        assert_eq!(write_until_held(&mut pace, now, |number| number).0, 10);
    }

    // What others change in their part of a status makes us ask the server, but changes nothing.
    #[test]
    fn writes_that_change_nothing_are_spaced_and_no_contention() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(pace.ask(now, 7), Turn::Now);
            pace.written(now, None);
        }
        assert_eq!(pace.ask(now, 7), Turn::After(seconds(1), News::Nothing));
    }

    #[test]
    fn a_key_that_is_written_ten_times_a_minute_is_never_held_up() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..100 {
            assert_eq!(pace.ask(now, 7), Turn::Now);
            pace.written(now, Some(7));
            now += seconds(6);
        }
    }
}
