//! Tests of `dispatch`.
