//! Secondary indexes of a collection: lookup, use inside a fetch, and an index seen as a collection of groups.
