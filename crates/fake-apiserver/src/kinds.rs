//! Kinds as data: which resources the server has, and how each of them behaves.
//!
//! [`Registry`] is the server-wide, swappable set; a request takes one [`Kinds`] snapshot and reads everything from
//! it. A [`Resource`] is one served `group/version/plural` with its [`Policy`]: verbs never ask "which kind is this",
//! they read the policy. Built-in kinds come from tables that the build script packs; custom resources are added and
//! removed at run time. This module knows no object and no storage. Start at [`Resource`].

mod builtin;
mod custom;
mod policy;
mod registry;
mod resource;

pub(crate) use builtin::{built_in, is_built_in_version, is_listed_kind, of_body, scale, version_of};
pub(crate) use policy::{
    DeleteReturns, FieldSelectors, GenerationMode, NameValidation, Policy, Propagation, SelectableField, StatusPolicy,
    TableColumn,
};
pub(crate) use registry::{CustomResource, CustomVersion, Group, GroupVersion, Kinds, Registry};
pub(crate) use resource::{
    Defined, Name, Resource, Schema, Scope, StorageId, Structures, Subresource, Verb, Verbs, api_version,
};
