//! Transformations that yield the status of their input beside their outputs, and the writer that stores it.
