//! The errors of the public API.

use std::time::Duration;

/// Why something that was asked of a [`Krt`](crate::Krt) or of a collection was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call would wait for the engine, and was made by code that the engine itself is running. A retry cannot help: do it outside
    /// of transformations and handlers.
    #[error("this would wait for the engine from code that the engine runs")]
    InsideEngine,
    /// The collection has an index of this name. Keep the first one and use it in both places.
    #[error("collection {collection} already has an index {index}, made at {first}, asked for again at {second}")]
    IndexExists {
        /// The collection's name.
        collection: String,
        /// The index's name.
        index: String,
        /// Where the first index was made.
        first: &'static std::panic::Location<'static>,
        /// Where it was asked for again.
        second: &'static std::panic::Location<'static>,
    },
    /// A fetch would have closed a cycle of collections, so it was refused: these inputs keep their last outputs, and run again when the
    /// cycle is broken. A retry cannot help: one of the collections must not fetch the next one.
    #[error("a fetch of {input} would close the cycle {}", path.join(" -> "))]
    Cycle {
        /// The names along the cycle, with that of the collection that fetched at both ends.
        path: Vec<String>,
        /// The key of an input that fetched.
        input: String,
        /// How many inputs did.
        inputs: usize,
    },
    /// The collection did not become synced in time, or cannot any more because the engine has ended. A retry may help in the first case.
    #[error("{collection} is not synced after {timeout:?}; {}", waits.iter().map(ToString::to_string).collect::<Vec<_>>().join(". "))]
    NotSynced {
        /// Its name.
        collection: String,
        /// How long was waited for it, at most.
        timeout: Duration,
        /// What it waits for: see [`Collection::explain_unsynced`](crate::Collection::explain_unsynced).
        waits: Vec<crate::Unsynced>,
    },
    /// The engine's thread could not be started, for the reason given by the system. A retry may help.
    #[error("the engine's thread cannot be started: {0}")]
    Thread(String),
    /// The engine runs already, or has been stopped. A retry cannot help.
    #[error("the engine runs already, or is stopped")]
    NotStartable,
    /// The time was up before what was waited for came true. A retry may help.
    #[error("not reached within {0:?}")]
    Timeout(Duration),
}
