//! How the content of each kind of collection comes about.

mod children;
pub(crate) mod claims;
pub(crate) mod combine;
pub(crate) mod derive;
pub(crate) mod group;
pub(crate) mod join;
pub(crate) mod nested;
pub(crate) mod parked;
pub(crate) mod source;
