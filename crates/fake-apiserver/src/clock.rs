//! The server's clock, randomness, and what is generated from them: times, uids and name suffixes.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Wall-clock time that follows tokio's clock, so that a paused runtime also pauses `creationTimestamp`.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Invariant: the wall-clock time at `started`.
    base: jiff::Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that shows `base` now.
    pub(crate) fn starting_at(base: jiff::Timestamp) -> Self {
        Self {
            base,
            started: Instant::now(),
        }
    }

    /// The time, in whole seconds as the API stores it.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_secs()).unwrap_or(i64::MAX);
        let seconds = self.base.as_second().saturating_add(elapsed);
        jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX)
    }
}

impl Clock {
    /// When the clock will show a time; now, if it shows that or a later one.
    pub(crate) fn instant_of(&self, time: jiff::Timestamp) -> Instant {
        let seconds = time.as_second().saturating_sub(self.base.as_second());
        let after = std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        // A time that the runtime's clock does not reach is as good as any other that is far away.
        let far = std::time::Duration::from_hours(24 * 365);
        self.started + after.min(self.started.elapsed() + far)
    }
}

/// A time as the API writes it.
pub(crate) fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Generates uids and name suffixes; the same seed gives the same sequence.
#[derive(Debug)]
pub(crate) struct Names {
    random: Mutex<fastrand::Rng>,
}

impl Names {
    /// A generator with a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let bits = self.random.lock().unwrap_or_else(PoisonError::into_inner).u128(..);
        let bits = (bits & !(0xf000_u128 << 64) & !(0xc000_u128 << 48)) | (0x4000_u128 << 64) | (0x8000_u128 << 48);
        let mut text = String::with_capacity(36);
        for place in 0..32 {
            if matches!(place, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            let digit = (bits >> (124 - 4 * place)) & 0xf;
            text.push(char::from(b"0123456789abcdef"[digit as usize]));
        }
        text
    }

    /// A number below another one, which is not 0.
    pub(crate) fn below(&self, end: u32) -> u32 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).u32(..end)
    }

    /// A name that starts with `prefix`: five random characters follow, as on a real server.
    pub(crate) fn name(&self, prefix: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        const LONGEST_PREFIX: usize = 63 - 5;
        let mut name: String = prefix.chars().take(LONGEST_PREFIX).collect();
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..5 {
            name.push(char::from(ALPHABET[random.usize(..ALPHABET.len())]));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn uid_is_a_version_4_uuid_and_repeats_with_the_seed() {
        let first = Names::seeded(7).uid();
        assert_eq!(first, Names::seeded(7).uid());
        assert_ne!(first, Names::seeded(8).uid());
        let parts: Vec<_> = first.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(first.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&first.as_bytes()[19]));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_follows_the_paused_runtime() {
        let clock = Clock::starting_at("2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!(time_text(clock.now()), "2026-01-02T03:04:05Z");
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(time_text(clock.now()), "2026-01-02T03:05:05Z");
        tokio::time::sleep_until(clock.instant_of("2026-01-02T03:06:00Z".parse().unwrap())).await;
        assert_eq!(time_text(clock.now()), "2026-01-02T03:06:00Z");
        assert!(clock.instant_of(jiff::Timestamp::MIN) <= Instant::now());
    }
}
