//! What a reflector shows of itself: its phase, counters and failures, in status, metrics, log and error handler.

use crate::decode::Undecodable;
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::metrics::contained;
use crate::informer::reflector::Reflector;
use crate::informer::status::Phase;
use crate::object::Object;

impl<K: Object> Reflector<K> {
    pub(super) fn enter(&self, phase: Phase) {
        tracing::debug!(?phase);
        self.status.announce(|status| status.phase = phase);
    }

    /// A list or watch begins again.
    pub(super) fn restarted(&self, reason: &'static str) {
        self.status
            .update(|status| *status.restarts.entry(reason).or_default() += 1);
        self.metrics.restarted(reason);
    }

    /// The cache changed or was found to be current up to a newer version.
    pub(super) fn heard(&self) {
        self.metrics.version_moved();
        self.metrics.cached(self.shared.len());
        self.metrics
            .left_out(self.status.update(|status| status.undecodable.len()));
        self.shared.report();
    }

    /// Shows a failure in status, log and error handler.
    pub(super) fn fail(&self, error: WatchError) {
        self.env.report(&self.id, &error);
        self.status.announce(|status| {
            status.failures += 1;
            status.last_error = Some(error.clone());
            status.error = Some(error);
        });
        self.metrics.failing(true);
    }

    /// Shows an object that does not decode. The informer itself goes on.
    pub(super) fn fail_decode(&self, bad: &Undecodable) {
        let what = bad
            .key
            .as_ref()
            .map_or_else(|| "an object without a readable name".to_owned(), ToString::to_string);
        let error = self.failures.of(
            Step::Decode,
            WatchErrorKind::Undecodable,
            &format!("{what}: {}", bad.error),
        );
        self.env.report(&self.id, &error);
        self.metrics.decode_failed();
        let left_out = self.status.update(|status| {
            status.failures += 1;
            status.last_error = Some(error);
            if let Some(key) = &bad.key {
                status.undecodable.insert(key.clone(), bad.error.clone());
            }
            status.undecodable.len()
        });
        self.metrics.left_out(left_out);
    }

    /// The watch, if one was open, is no more. Outside of the machine, so panics of a metrics recorder are contained.
    pub(super) fn lose_watch(&self) {
        self.status.update(|status| status.watches_open = 0);
        contained(|| self.metrics.watch_lost());
    }
}
