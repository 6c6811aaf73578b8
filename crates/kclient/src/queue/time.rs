//! Time as the queue counts it.
//!
//! Owns: [`Tick`], a point in time relative to the queue's birth, and the [`Epoch`] that converts from and to the clock's
//! instants. Eight bytes instead of sixteen, and no overflow: a time too far to count is the last one.

use std::time::Duration;

use tokio::time::Instant;

/// A deadline further away than any clock can add is simply so far away.
const FAR_FUTURE: Duration = Duration::from_hours(24 * 365 * 30);

/// Nanoseconds since the birth of a queue; saturates after 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u64);

impl Tick {
    /// The birth of the queue.
    pub(super) const START: Self = Self(0);

    /// So much later.
    pub(super) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(delay)))
    }

    /// The time since `earlier`; nothing if that is later.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The duration in nanoseconds, at most as many as can be counted.
pub(super) fn saturating_nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().checked_mul(1_000_000_000);
    seconds
        .and_then(|nanos| nanos.checked_add(u64::from(duration.subsec_nanos())))
        .unwrap_or(u64::MAX)
}

/// The birth of a queue, by tokio's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch(Instant);

impl Epoch {
    pub(super) fn now() -> Self {
        Self(Instant::now())
    }

    /// The current time.
    #[inline]
    pub(super) fn tick(self) -> Tick {
        Tick(saturating_nanos(Instant::now().saturating_duration_since(self.0)))
    }

    /// The instant of a tick, for a timer.
    pub(super) fn instant(self, tick: Tick) -> Instant {
        let after = Duration::from_nanos(tick.0);
        self.0.checked_add(after).unwrap_or_else(|| Instant::now() + FAR_FUTURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate_instead_of_overflowing() {
        assert_eq!(saturating_nanos(Duration::MAX), u64::MAX);
        assert_eq!(saturating_nanos(Duration::new(3, 7)), 3_000_000_007);
        let end = Tick::START.after(Duration::MAX);
        assert_eq!(end.after(Duration::from_secs(1)), end);
        assert_eq!(Tick::START.since(end), Duration::ZERO);
        assert!(Epoch::now().instant(end) > Instant::now());
    }
}
