//! The collection handle and its constructors: one input to at most one output, and one input to many outputs.
//!
//! Reading, subscribing and waiting for sync live here too; how a collection is recomputed is the business of `engine`.
