//! What a transformation may read: the context through which each read is recorded as a dependency.
