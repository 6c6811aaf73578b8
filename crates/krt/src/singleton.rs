//! Collections without an input: one value, or many values, computed from what they fetch.
