//! The bridge to the typed clients: an informer as a source. The only module that knows Kubernetes types.
