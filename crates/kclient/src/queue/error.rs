//! The errors of queues.
//!
//! Owns: [`ReconcileError`], which a reconciler returns, and the errors of making limiters and of running and closing a queue.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a reconcile failed, and whether a retry can help.
///
/// Every error converts into it, so `?` works in a reconciler; it is retried with back-off unless it is marked
/// [`terminal`](Self::terminal). It does not implement [`Error`] itself, because it converts from every error; take
/// [`source`](Self::source) where one is needed.
///
/// `{}` prints the error, `{:#}` the error and its causes.
///
/// ```
/// use kclient::queue::ReconcileError;
///
/// fn parse(text: &str) -> Result<u8, ReconcileError> {
///     // No number of retries will make this a number.
///     text.parse::<u8>().map_err(|error| ReconcileError::from(error).terminal())
/// }
/// assert!(parse("many").unwrap_err().is_terminal());
/// ```
pub struct ReconcileError {
    error: Box<dyn Error + Send + Sync>,
    terminal: bool,
}

impl ReconcileError {
    /// An error with only a text.
    pub fn msg(text: impl Into<String>) -> Self {
        Self {
            error: text.into().into(),
            terminal: false,
        }
    }

    /// An error that `?` does not take, because it is none to the standard library: a `Box<dyn Error + Send + Sync>`, or `anyhow`'s.
    ///
    /// ```
    /// use kclient::queue::{Action, ReconcileError};
    ///
    /// fn upload(name: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     Err(format!("no room for {name}").into())
    /// }
    ///
    /// fn reconcile(name: &str) -> Result<Action, ReconcileError> {
    ///     upload(name).map_err(ReconcileError::boxed)?;
    ///     Ok(Action::Done)
    /// }
    /// assert_eq!(reconcile("a").unwrap_err().to_string(), "no room for a");
    /// ```
    pub fn boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            error: error.into(),
            terminal: false,
        }
    }

    /// The same error, but not to be retried: the key is forgotten until it is added again.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// Whether it is not to be retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error itself.
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self {
            error: Box::new(error),
            terminal: false,
        }
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        if f.alternate() {
            let mut cause = self.error.source();
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError")
            .field("error", &self.error)
            .field("terminal", &self.terminal)
            .finish()
    }
}

/// A reconciler panicked; the payload's text.
#[derive(Debug, thiserror::Error)]
#[error("the reconciler panicked: {0}")]
pub(super) struct Panicked(pub(super) String);

/// A reconcile took longer than its queue allows.
#[derive(Debug, thiserror::Error)]
#[error("the reconcile did not end within {0:?} and was dropped")]
pub(super) struct TimedOut(pub(super) Duration);

/// Why a rate limiter cannot be made. No retry helps; the figures have to change.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// An exponential back-off whose longest delay is shorter than its first.
    #[error("the longest delay of a back-off, {max:?}, is less than its first, {base:?}")]
    MaxBelowBase {
        /// The first delay.
        base: Duration,
        /// The longest one.
        max: Duration,
    },
    /// An exponential back-off that starts with no delay, and so never has one.
    #[error("a back-off from 0ns up to {max:?} never grows: start with more, or use `FastSlow` for constant delays")]
    ZeroBase {
        /// The longest delay.
        max: Duration,
    },
    /// Slow attempts that are faster than the fast ones.
    #[error("the slow delay, {slow:?}, is less than the fast one, {fast:?}")]
    SlowBelowFast {
        /// The delay of the first attempts.
        fast: Duration,
        /// The delay of the others.
        slow: Duration,
    },
    /// A bucket that never fills.
    #[error("tokens per second must be a positive number, not {per_second}")]
    Rate {
        /// What was given.
        per_second: f64,
    },
    /// A bucket that holds nothing.
    #[error("a bucket needs room for at least one token, not {burst}")]
    Burst {
        /// What was given.
        burst: u32,
    },
    /// A jitter that would shorten delays, or is no number.
    #[error("a jitter factor must be a number from 0 on, not {factor}")]
    Jitter {
        /// What was given.
        factor: f64,
    },
}

/// Why [`Queue::run`](super::Queue::run) did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A queue runs once in its life. Build a second queue for a second run.
    #[error("the queue was started before")]
    AlreadyStarted,
    /// [`shut_down`](super::Queue::shut_down) came first.
    #[error("the queue was shut down before it was started")]
    ShutDown,
}

/// The queue did not close in time: some reconcile still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue did not close within {waited:?}")]
#[non_exhaustive]
pub struct NotClosed {
    /// How long it was waited for.
    pub waited: Duration,
}

/// The queue closed before what was waited for came true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue closed first")]
#[non_exhaustive]
pub struct QueueClosed;
