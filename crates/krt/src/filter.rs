//! The filters of a fetch, and the traits that decide at compile time which filters a type allows.
