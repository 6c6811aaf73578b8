//! `Client::fake`: this client over the in-memory API server.
