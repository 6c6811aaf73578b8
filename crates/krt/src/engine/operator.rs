//! How the content of each kind of collection comes about.

pub(crate) mod claims;
pub(crate) mod derive;
pub(crate) mod join;
pub(crate) mod parked;
pub(crate) mod source;
