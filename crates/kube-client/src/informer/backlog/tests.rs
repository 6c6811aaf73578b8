//! Tests of `backlog`.
