//! Who owns the number of replicas: in a workload it is one of many fields, in its scale all that there is.
//!
//! [`to_scale`] takes the entries of a workload that own the number and words them for the scale, [`to_workload`] brings
//! back what a write to the scale has made of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;

use super::entries::{Entry, Identity, Managers};
use crate::json::Tape;
use crate::kinds::Resource;
use crate::structured::{Set, of_paths};

/// The same path in a workload and in a scale.
static REPLICAS: LazyLock<Set<'static>> = LazyLock::new(|| of_paths(&[&["spec", "replicas"]]));

/// In which versions a workload is known; entries of others are dropped.
fn is_known(resource: &Resource, api_version: &str) -> bool {
    match &*resource.plural {
        "replicationcontrollers" => api_version == "v1",
        "replicasets" => matches!(api_version, "apps/v1" | "apps/v1beta2"),
        _ => matches!(api_version, "apps/v1" | "apps/v1beta2" | "apps/v1beta1"),
    }
}

fn owns_replicas(entry: &Entry<'_>) -> bool {
    !entry.set.intersection(&REPLICAS).is_empty()
}

fn parse(fields: Option<&Bytes>) -> Result<Tape<'_>, String> {
    Tape::parse(fields.map_or(b"[]", |fields| fields)).map_err(|error| error.to_string())
}

/// The managed fields of the scale of a workload.
///
/// # Errors
///
/// The text about entries that cannot be read.
pub(crate) fn to_scale(workload: &Resource, scale: &Resource, fields: Option<&Bytes>) -> Result<Option<Bytes>, String> {
    let tape = parse(fields)?;
    let managers = Managers::decode(&tape)?;
    let entries = managers.iter().map(|(_, entry)| entry);
    let own = entries.filter(|entry| is_known(workload, &entry.api_version) && owns_replicas(entry));
    let entries: Vec<_> = own
        .map(|entry| Entry {
            api_version: Cow::Owned(scale.api_version()),
            set: REPLICAS.clone(),
            ..entry.clone()
        })
        .collect();
    Ok(super::entries::encode(entries.iter()))
}

/// The managed fields of a workload after a write to its scale, whose managed fields are now `of_scale`.
///
/// # Errors
///
/// The text about entries that cannot be read.
pub(crate) fn to_workload(
    workload: &Resource,
    fields: Option<&Bytes>,
    of_scale: Option<&Bytes>,
) -> Result<Option<Bytes>, String> {
    let (tape, scale_tape) = (parse(fields)?, parse(of_scale)?);
    let managers = Managers::decode(&tape)?;
    let of_scale = Managers::decode(&scale_tape)?;
    let mut left: BTreeMap<&Identity, &Entry<'_>> = of_scale.iter().collect();
    let mut entries = Vec::new();
    for (identity, entry) in managers.iter() {
        if !is_known(workload, &entry.api_version) {
            continue;
        }
        // As the version is part of what tells updates apart, their entries are always split here, and put together anew when
        // they are read.
        if !owns_replicas(entry) || left.remove(identity).is_some() {
            entries.push(entry.clone());
            continue;
        }
        let set = entry.set.clone().difference(&REPLICAS);
        if !set.is_empty() {
            entries.push(Entry { set, ..entry.clone() });
        }
    }
    for entry in left.into_values().filter(|entry| owns_replicas(entry)) {
        entries.push(Entry {
            api_version: Cow::Owned(workload.api_version()),
            set: REPLICAS.clone(),
            time: None,
            ..entry.clone()
        });
    }
    Ok(super::entries::encode(entries.iter()))
}
