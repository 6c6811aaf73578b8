//! Why a collection is not synced, told to users.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::engine::status::{Status, Waits};

/// A collection that waits, and what for. Told by [`Collection::explain_unsynced`](crate::Collection::explain_unsynced).
///
/// ```
/// use krt::testing::Stepper;
/// use krt::{Krt, Text};
///
/// let krt = Krt::builder("test").build();
/// let mut stepper = Stepper::new(&krt)?;
/// let pods = krt.unsynced_collection::<Text>("pods");
/// let workloads = krt.collection("workloads", &pods, |_, pod| Some(Text(pod.0.to_uppercase())));
/// stepper.settle();
/// let told: Vec<_> = workloads.explain_unsynced().iter().map(ToString::to_string).collect();
/// assert_eq!(
///     told,
///     [
///         "workloads is not synced: it waits for its input pods",
///         "pods is not synced: its source has not said that its initial content is complete",
///     ]
/// );
/// # Ok::<_, krt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsynced {
    /// Its name.
    pub collection: String,
    /// Whether it is synced all the same: then only some of its inputs wait, and keep their last outputs; or some of its members, whose
    /// predecessors stay until then.
    pub is_synced: bool,
    /// What it waits for.
    pub waits: Vec<Wait>,
}

/// Something that a collection waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// The engine has not seen it yet: it was not started, or the collection has just been made.
    Engine,
    /// The engine has ended, so that nothing will come any more.
    Ended,
    /// The source is not marked as synced: see [`StaticCollection::mark_synced`](crate::StaticCollection::mark_synced).
    Source,
    /// A collection that it is computed from.
    Input {
        /// Its name.
        collection: String,
    },
    /// A collection that it was made to [depend on](crate::Options::depends_on).
    DependsOn {
        /// Its name.
        collection: String,
    },
    /// A collection that an object lends to this join: see [`Krt::nested_join`](crate::Krt::nested_join).
    Member {
        /// Its name.
        collection: String,
        /// The key of the object.
        lender: String,
    },
    /// A collection that some of its inputs fetched; these inputs are parked.
    Fetched {
        /// Its name.
        collection: String,
        /// How many inputs wait for it.
        inputs: usize,
        /// The keys of some of them.
        keys: Vec<String>,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("the engine has not seen it yet"),
            Self::Ended => f.write_str("the engine has ended"),
            Self::Source => f.write_str("its source has not said that its initial content is complete"),
            Self::Input { collection } => write!(f, "it waits for its input {collection}"),
            Self::DependsOn { collection } => write!(f, "it waits for {collection}, which it depends on"),
            Self::Member { collection, lender } => write!(f, "it waits for {collection}, lent by {lender}"),
            Self::Fetched {
                collection,
                inputs,
                keys,
            } => {
                write!(f, "it waits for {collection}, fetched by {}", keys.join(", "))?;
                match inputs.saturating_sub(keys.len()) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_synced && self.waits.iter().any(|wait| matches!(wait, Wait::Member { .. })) {
            "has members that wait"
        } else if self.is_synced {
            "has inputs that wait"
        } else {
            "is not synced"
        };
        write!(f, "{} {how}", self.collection)?;
        for (number, wait) in self.waits.iter().enumerate() {
            write!(f, "{} {wait}", if number == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// What a collection waits for, then what those wait for, and so on, each once.
pub(crate) fn explain(status: &Arc<Status>, has_ended: bool) -> Vec<Unsynced> {
    let mut told = Vec::new();
    let mut seen = BTreeSet::from([status.uid]);
    let mut next = vec![Arc::clone(status)];
    while !next.is_empty() {
        let mut further = Vec::new();
        for status in next {
            let waits = status.waits();
            if waits.is_empty() {
                continue;
            }
            let others = waits.iter().filter_map(Waits::other);
            further.extend(others.filter(|other| seen.insert(other.uid)).map(Arc::clone));
            let mut waits: Vec<_> = waits.iter().map(Wait::from).collect();
            if has_ended {
                waits.insert(0, Wait::Ended);
            }
            told.push(Unsynced {
                collection: status.name.to_string(),
                is_synced: status.is_synced(),
                waits,
            });
        }
        next = further;
    }
    told
}

impl From<&Waits> for Wait {
    fn from(waits: &Waits) -> Self {
        let name = |status: &Status| status.name.to_string();
        match waits {
            Waits::Engine => Self::Engine,
            Waits::Source => Self::Source,
            Waits::Input(status) => Self::Input {
                collection: name(status),
            },
            Waits::Declared(status) => Self::DependsOn {
                collection: name(status),
            },
            Waits::Member { status, lender } => Self::Member {
                collection: name(status),
                lender: lender.to_string(),
            },
            Waits::Fetched { status, inputs, keys } => Self::Fetched {
                collection: name(status),
                inputs: *inputs,
                keys: keys.iter().map(ToString::to_string).collect(),
            },
        }
    }
}
