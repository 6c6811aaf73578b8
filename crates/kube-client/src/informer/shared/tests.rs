//! Tests of `shared`.
