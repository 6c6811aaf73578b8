//! Conditions: the part of a status that says what is the case, and since when.
//!
//! A transformation says what is the case. Since when, it cannot know, as it reads no clock: that is found by [`merge`] at the time of
//! writing, from the conditions that the object has.
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
//! use krt::kube::conditions::{self, Is};
//!
//! let [midnight, later] = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"].map(|time| Time(time.parse().expect("a time")));
//! let mut live = [conditions::new("Ready", Is::False, "Starting", "")];
//! conditions::merge(&[], &mut live, &midnight);
//!
//! // Another reason of the same status is no transition.
//! let mut desired = [conditions::new("Ready", Is::False, "Pulling", "the image is large")];
//! conditions::merge(&live, &mut desired, &later);
//! assert_eq!(desired[0].last_transition_time, midnight);
//!
//! let mut desired = [conditions::new("Ready", Is::True, "Started", "")];
//! conditions::merge(&live, &mut desired, &later);
//! assert_eq!(desired[0].last_transition_time, later);
//! ```

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Is {
    /// It is the case.
    True,
    /// It is not.
    False,
    /// It is not known.
    Unknown,
}

impl fmt::Display for Is {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl From<bool> for Is {
    fn from(is: bool) -> Self {
        if is { Self::True } else { Self::False }
    }
}

/// A condition without a time: it has the time 0, until [`merge`] gives it one. Type and reason are words as `ReferencesResolved`; the
/// message is for people.
pub fn new(type_: impl Into<String>, is: Is, reason: impl Into<String>, message: impl Into<String>) -> Condition {
    Condition {
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        message: message.into(),
        observed_generation: None,
        reason: reason.into(),
        status: is.to_string(),
        type_: type_.into(),
    }
}

/// Gives each of the desired conditions the time of its last transition: that of the live condition of its type, if the status is the
/// same there, and `now` if it is not. All else of it stays as it is desired, and live conditions of other types are no business of it.
///
/// It is a pure function: the same arguments lead to the same conditions.
pub fn merge(live: &[Condition], desired: &mut [Condition], now: &Time) {
    for condition in desired {
        let before = live.iter().find(|live| live.type_ == condition.type_);
        let since = before.filter(|before| before.status == condition.status);
        condition.last_transition_time = since.map_or(now, |before| &before.last_transition_time).clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn at(second: i64, mut condition: Condition) -> Condition {
        condition.last_transition_time = time(second);
        condition
    }

    // [K37] the time of a condition stays while its status does
    #[test]
    fn the_time_of_a_condition_changes_with_its_status_alone() {
        let live = [
            at(10, new("Ready", Is::True, "Up", "all is well")),
            at(20, new("Accepted", Is::False, "Invalid", "")),
        ];
        let mut desired = [
            Condition {
                observed_generation: Some(2),
                ..new("Accepted", Is::False, "Unsupported", "for another reason")
            },
            new("Ready", Is::Unknown, "Lost", ""),
            new("Programmed", Is::from(true), "Done", ""),
        ];
        merge(&live, &mut desired, &time(30));
        let times = desired
            .each_ref()
            .map(|condition| condition.last_transition_time.clone());
        assert_eq!(times, [time(20), time(30), time(30)]);
        let accepted = &desired[0];
        assert_eq!(
            (&*accepted.reason, &*accepted.message, accepted.observed_generation),
            ("Unsupported", "for another reason", Some(2)),
            "all else is what is desired"
        );
        assert_eq!(desired[1].status, "Unknown");

        // What it gave is what it gives the next time.
        let again = desired.clone();
        merge(&again, &mut desired, &time(40));
        assert_eq!(desired, again);
    }
}
