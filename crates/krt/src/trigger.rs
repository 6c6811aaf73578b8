//! Sources for state outside the engine: triggers, and values that recompute their readers when modified.
