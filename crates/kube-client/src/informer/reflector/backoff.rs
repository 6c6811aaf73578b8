//! How long to wait before the next try.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// After so long without a failure, the next one starts at the first step again.
const HEALTHY: Duration = Duration::from_mins(2);

/// Doubling waits with jitter.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    // When the last wait given out was over.
    over: Instant,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            next: FIRST,
            over: Instant::now(),
        }
    }

    /// The next wait: between the step and one and a half times it, so that many clients do not come back as one.
    pub(crate) fn next(&mut self) -> Duration {
        let now = Instant::now();
        if now.saturating_duration_since(self.over) >= HEALTHY {
            self.next = FIRST;
        }
        let wait = self.next.mul_f64(1.0 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(LONGEST);
        self.over = now + wait;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_up_to_the_longest_and_resets_after_health() {
        let mut backoff = Backoff::new();
        let mut step = FIRST;
        for _ in 0..10 {
            let wait = backoff.next();
            assert!(wait >= step && wait <= step.mul_f64(1.5), "{wait:?} at step {step:?}");
            tokio::time::advance(wait).await;
            step = (step * 2).min(LONGEST);
        }
        tokio::time::advance(HEALTHY - Duration::from_millis(1)).await;
        assert!(backoff.next() >= LONGEST, "reset too early");
        tokio::time::advance(LONGEST * 2 + HEALTHY).await;
        assert!(backoff.next() <= FIRST.mul_f64(1.5), "not reset after health");
    }
}
