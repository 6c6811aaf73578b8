//! An in-memory Kubernetes API server.
//!
//! The lower half of the crate knows objects and texts, and nothing of storage or HTTP:
//! [`kinds`] (which resources exist and how they behave), [`object`] (what is stored), [`codec`] (bytes in, canonical
//! bytes out), [`selector`], [`validation`], [`patch`] and [`managed_fields`]. Start reading at [`kinds`].
#![forbid(unsafe_code)]

mod codec;
mod json;
mod kinds;
mod managed_fields;
mod object;
mod patch;
mod selector;
mod validation;
