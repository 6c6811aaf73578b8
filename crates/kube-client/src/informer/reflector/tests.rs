//! Tests of the reflector.
