//! One atomic step of the engine: ingress, boundary operations, recomputation by height, publication.
