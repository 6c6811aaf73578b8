//! What users need to test transformations: deterministic stepping, event tracking, leak checks.
