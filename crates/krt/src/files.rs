//! A file or a folder as a source: debounced, and the last good content is kept when parsing fails.
