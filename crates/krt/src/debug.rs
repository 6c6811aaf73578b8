//! Looking inside a running engine: dump, graph, why an output has its value, purity guard.
