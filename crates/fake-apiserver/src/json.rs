//! JSON as this crate reads and writes it.
