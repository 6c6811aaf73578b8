//! The API server's own behaviours, one file each; the tag of the behaviour stands above the case.

mod compaction;
mod crd;
mod create;
mod delete;
mod differential;
mod edges;
mod forbidden;
mod found;
mod found_custom;
mod found_kinds;
mod found_objects;
mod found_options;
mod found_texts;
mod found_written;
mod fuzz;
mod history;
mod list_version;
mod noise;
mod pages;
mod patch;
mod protocol;
mod selectors;
mod shared_storage;
mod texts;
mod update;
mod watch;
