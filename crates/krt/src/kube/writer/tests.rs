//! The writer on an in-memory API server.
