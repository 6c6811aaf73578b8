//! Awaiting facts that have no event of their own.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything in this module is waited for, on tokio's clock.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How often the other tasks get a turn before time is let pass.
const TURNS: u32 = 32;
/// The pauses between two looks grow from here …
const SHORTEST: Duration = Duration::from_millis(1);
/// … to here.
const LONGEST: Duration = Duration::from_millis(100);

/// Looks at `observe` until `holds` says yes, and gives what was seen.
///
/// Between two looks the other tasks run: first without time passing, then with pauses of 1 to 100 ms on tokio's clock. On a
/// paused clock these cost nothing, and time moves only when nobody has anything left to do.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use kube_client::testing::assert_eventually;
///
/// let count = Arc::new(AtomicU32::new(0));
/// let counting = Arc::clone(&count);
/// tokio::spawn(async move { counting.fetch_add(3, Ordering::SeqCst) });
/// let seen = assert_eventually("the count", async || count.load(Ordering::SeqCst), |count| *count > 2).await;
/// assert_eq!(seen, 3);
/// # }
/// ```
///
/// # Panics
///
/// If it does not hold within 30 s on tokio's clock; the text names `what`, the caller, and what was seen last.
///
/// # Cancel safety
///
/// Dropping the future loses nothing.
#[track_caller]
pub fn assert_eventually<T: Debug>(
    what: &str,
    observe: impl AsyncFnMut() -> T,
    holds: impl FnMut(&T) -> bool,
) -> impl Future<Output = T> {
    within(Location::caller(), PATIENCE, what, observe, holds)
}

/// [`assert_eventually`] with a patience of its own.
///
/// # Panics
///
/// If it does not hold within `patience` on tokio's clock.
///
/// # Cancel safety
///
/// Dropping the future loses nothing.
#[track_caller]
pub fn assert_eventually_within<T: Debug>(
    patience: Duration,
    what: &str,
    observe: impl AsyncFnMut() -> T,
    holds: impl FnMut(&T) -> bool,
) -> impl Future<Output = T> {
    within(Location::caller(), patience, what, observe, holds)
}

async fn within<T: Debug>(
    caller: &Location<'_>,
    patience: Duration,
    what: &str,
    mut observe: impl AsyncFnMut() -> T,
    mut holds: impl FnMut(&T) -> bool,
) -> T {
    let begun = Instant::now();
    let mut pause = SHORTEST;
    for look in 0_u32.. {
        let seen = observe().await;
        if holds(&seen) {
            return seen;
        }
        assert!(
            begun.elapsed() < patience,
            "{what}: not within {patience:?} (at {caller}); last seen: {seen:?}"
        );
        if look < TURNS {
            tokio::task::yield_now().await;
        } else {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
    unreachable!("the patience ends before the numbers do")
}
