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
