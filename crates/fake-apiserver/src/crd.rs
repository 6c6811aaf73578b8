//! Custom resource definitions: what makes a kind served, and what its removal takes away.
//!
//! [`reconcile`] runs after each write to a definition, inside the same request, so that a new kind is served as soon
//! as its creation is answered. Schemas say how objects are merged and owned; nothing is validated by them.

mod validation;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::clock::time_text;
use crate::codec::{ContentType, FieldValidation, decode};
use crate::kinds::{CustomResource, CustomVersion, Resource, Scope, TableColumn, api_version};
use crate::managed_fields::{WriteContext, track};
use crate::object::Object;
use crate::server::Shared;
use crate::storage::{Change, ListQuery, Range, ResourceId, Versioned};
use crate::stored::Stored;
use crate::structured;

pub(crate) use validation::validate;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// Keeps a deleted definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The parts of a definition's spec that the server acts on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    names: AcceptedNames,
    scope: String,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct AcceptedNames {
    plural: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    singular: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "nullable")]
    short_names: Vec<String>,
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    list_kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "nullable")]
    categories: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    subresources: Option<Subresources>,
    schema: Option<Validation>,
    #[serde(deserialize_with = "nullable")]
    additional_printer_columns: Vec<Column>,
    #[serde(deserialize_with = "nullable")]
    selectable_fields: Vec<SelectableField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    schema: Option<Value>,
}

impl Version {
    /// The types of its objects.
    fn structure(&self) -> structured::Schema {
        structured::of_definition(self.schema.as_ref().and_then(|validation| validation.schema.as_ref()))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    priority: i32,
    json_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectableField {
    json_path: String,
}

/// The definitions that are served, by name.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The spec that each served definition had when it was installed.
    installed: HashMap<String, Bytes>,
}

/// True for the resource of definitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == PLURAL
}

/// Reads a field where Go writes `null` for what is empty.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn spec(object: &Object) -> Option<Spec> {
    serde_json::from_slice(object.field("spec")?).ok()
}

/// The spec of the definition of a custom resource.
pub(crate) fn spec_of(server: &Shared, resource: &Resource) -> Option<Bytes> {
    let kinds = server.registry.snapshot();
    let id = server.resource_id(kinds.resource(GROUP, "v1", PLURAL)?)?;
    let definition = server.storage.get(id, &resource.qualified_plural())?;
    definition.object.object().field("spec").cloned()
}

/// The schema that a definition gives the version of a custom resource.
pub(crate) fn schema_of(server: &Shared, resource: &Resource) -> Option<Value> {
    let spec: Spec = serde_json::from_slice(&spec_of(server, resource)?).ok()?;
    let version = spec
        .versions
        .into_iter()
        .find(|version| version.name == resource.version)?;
    version.schema?.schema
}

/// The version in which custom resources are stored.
pub(crate) fn stored_version(server: &Shared, resource: &Resource) -> Option<String> {
    let spec: Spec = serde_json::from_slice(&spec_of(server, resource)?).ok()?;
    let stored = spec.versions.into_iter().find(|version| version.storage)?;
    Some(stored.name)
}

/// Fills in what a definition says by saying nothing: the singular, the list kind and the conversion.
pub(crate) fn on_write(resource: &Resource, object: &mut Object) {
    let Some(parsed) = spec(object) else { return };
    let Some(mut value) = object
        .field("spec")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok())
    else {
        return;
    };
    if let Some(names) = value.get_mut("names").and_then(Value::as_object_mut) {
        if parsed.names.singular.is_empty() && !parsed.names.kind.is_empty() {
            names.insert("singular".to_owned(), parsed.names.kind.to_lowercase().into());
        }
        if parsed.names.list_kind.is_empty() && !parsed.names.kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{}List", parsed.names.kind).into());
        }
    }
    if let Some(spec) = value.as_object_mut()
        && spec.get("conversion").is_none_or(Value::is_null)
    {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    set_field(resource, object, "spec", &value);
}

/// Gives a new definition its first status.
pub(crate) fn on_create(resource: &Resource, object: &mut Object) {
    let stored: Vec<String> = spec(object).and_then(storage_version).into_iter().collect();
    let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    set_field(resource, object, "status", &status);
}

/// Says of a changed definition that its objects may be stored in its present version from now on.
pub(crate) fn on_update(resource: &Resource, old: &Object, new: &mut Object) {
    if old.field("spec") == new.field("spec") {
        return;
    }
    let Some(version) = spec(new).and_then(storage_version) else {
        return;
    };
    let status = new
        .field("status")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let mut status = status.unwrap_or_else(|| json!({}));
    match status.get_mut("storedVersions").and_then(Value::as_array_mut) {
        Some(versions) if versions.iter().any(|known| *known == version) => return,
        Some(versions) => versions.push(version.into()),
        None => status["storedVersions"] = json!([version]),
    }
    set_field(resource, new, "status", &status);
}

/// The first version that is marked as the one to store.
fn storage_version(spec: Spec) -> Option<String> {
    spec.versions
        .into_iter()
        .find(|version| version.storage)
        .map(|version| version.name)
}

/// Sets a field in Go's form.
fn set_field(resource: &Resource, object: &mut Object, name: &'static str, value: &Value) {
    let body = json!({ name: value }).to_string();
    // What the server itself writes is an object of the kind; otherwise the field stays as it is.
    if let Ok(decoded) = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore)
        && let Some(value) = decoded.object.field(name)
    {
        object.set_field(name, value.clone());
    }
}

/// Begins the deletion of a definition: it stays until its objects are gone.
pub(crate) fn on_delete(resource: &Resource, object: &mut Object, now: Timestamp) {
    if !object.meta.finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        object.meta.finalizers.push(CLEANUP.to_owned());
    }
    let status = object
        .field("status")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let mut status = status.unwrap_or_else(|| json!({}));
    let condition = json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": time_text(now),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => conditions.push(condition),
        None => status["conditions"] = json!([condition]),
    }
    set_field(resource, object, "status", &status);
}

/// Brings the set of served kinds in line with the stored definitions.
pub(crate) fn reconcile(server: &Arc<Shared>) {
    let mut definitions = server.definitions.lock().unwrap_or_else(PoisonError::into_inner);
    let kinds = server.registry.snapshot();
    let Some(id) = kinds
        .resource(GROUP, "v1", PLURAL)
        .and_then(|resource| server.resource_id(resource))
    else {
        return;
    };
    let query = ListQuery {
        range: Range::All,
        after: None,
        at: None,
        limit: 0,
        filter: &|_, _| true,
    };
    let (page, _) = server.storage.snapshot(id, &query);
    let gone: Vec<String> = {
        let there = |name: &String| page.items.iter().any(|(key, _)| key.as_ref() == name.as_str());
        definitions
            .installed
            .keys()
            .filter(|name| !there(name))
            .cloned()
            .collect()
    };
    for name in gone {
        definitions.withdraw(server, &name);
    }
    for (name, version) in page.items {
        let object = version.object.object();
        if object.meta.deletion_timestamp.is_some() {
            definitions.withdraw(server, &name);
            finish_deletion(server, id, &name);
        } else {
            definitions.serve(server, id, &name, &object);
        }
    }
}

impl Definitions {
    fn serve(&mut self, server: &Shared, id: ResourceId, name: &str, object: &Object) {
        let Some(bytes) = object.field("spec") else { return };
        if self.installed.get(name) == Some(bytes) {
            return;
        }
        let Some(spec) = spec(object) else { return };
        let changed = self.installed.insert(name.to_owned(), bytes.clone()).is_some();
        let custom = custom_resource(&spec);
        server.registry.install(&custom);
        let kinds = server.registry.snapshot();
        for version in &custom.versions {
            let Some(resource) = kinds.resource(&custom.group, &version.name, &custom.plural) else {
                continue;
            };
            server.add_storage(&resource.storage, false);
            if changed && let Some(id) = server.resource_id(resource) {
                server.storage.end_watches(id);
            }
        }
        // Last: whoever reads that the kind is served may ask for it.
        accept(server, id, name, &spec);
    }

    fn withdraw(&mut self, server: &Shared, name: &str) {
        if self.installed.remove(name).is_none() {
            return;
        }
        let Some((plural, group)) = name.split_once('.') else {
            return;
        };
        let kinds = server.registry.snapshot();
        let storages: Vec<_> = kinds
            .group(group)
            .into_iter()
            .flat_map(|group| &group.versions)
            .flat_map(|version| &version.resources)
            .filter(|resource| resource.plural == plural)
            .map(|resource| resource.storage.clone())
            .collect();
        server.registry.uninstall(group, plural);
        for storage in storages {
            if let Some(id) = server.remove_storage(&storage) {
                server.storage.close_resource(id);
            }
        }
    }
}

/// Says in the status that the names are accepted and the kind is served.
fn accept(server: &Shared, id: ResourceId, name: &str, spec: &Spec) {
    let now = time_text(server.clock.now());
    let stored: Vec<&str> = spec
        .versions
        .iter()
        .filter(|version| version.storage)
        .map(|version| version.name.as_str())
        .collect();
    change(server, id, name, |resource, object| {
        let old: Value = object
            .field("status")
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default();
        let mut versions: Vec<Value> = old
            .get("storedVersions")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for version in &stored {
            if !versions.iter().any(|known| known == version) {
                versions.push((*version).into());
            }
        }
        let conditions = old
            .get("conditions")
            .filter(|conditions| !conditions.is_null())
            .cloned();
        let conditions = conditions.unwrap_or_else(|| {
            json!([
                {"type": "NamesAccepted", "status": "True", "lastTransitionTime": now, "reason": "NoConflicts",
                 "message": "no conflicts found"},
                {"type": "Established", "status": "True", "lastTransitionTime": now, "reason": "InitialNamesAccepted",
                 "message": "the initial names have been accepted"},
            ])
        });
        let status = json!({"conditions": conditions, "acceptedNames": spec.names, "storedVersions": versions});
        set_field(resource, object, "status", &status);
        Outcome::Store
    });
}

/// Takes the finalizer of the cleanup away, and the definition with it if nothing else keeps it.
fn finish_deletion(server: &Shared, id: ResourceId, name: &str) {
    change(server, id, name, |_, object| {
        object.meta.finalizers.retain(|finalizer| finalizer != CLEANUP);
        if object.meta.finalizers.is_empty() {
            Outcome::Remove
        } else {
            Outcome::Store
        }
    });
}

enum Outcome {
    Store,
    Remove,
}

fn change(server: &Shared, id: ResourceId, name: &str, mut edit: impl FnMut(&Resource, &mut Object) -> Outcome) {
    let kinds = server.registry.snapshot();
    let Some(resource) = kinds.resource(GROUP, "v1", PLURAL) else {
        return;
    };
    let result: Result<_, std::convert::Infallible> =
        server.storage.update(id, name, |old: Option<&Versioned<Stored>>| {
            let Some(old) = old else { return Ok(Change::Keep) };
            let before = old.object.object();
            let mut object = before.clone();
            Ok(match edit(resource, &mut object) {
                Outcome::Remove => Change::Delete,
                Outcome::Store => {
                    let writer = WriteContext {
                        resource,
                        manager: "kube-apiserver".into(),
                        subresource: "status",
                        now: server.clock.now(),
                    };
                    track(&writer, Some(&before), &mut object);
                    let stored = Stored::of(resource, &object);
                    if stored.canonical == old.object.canonical {
                        Change::Keep
                    } else {
                        Change::Put(Arc::new(stored))
                    }
                }
            })
        });
    match result {
        Ok(_) => {}
        Err(never) => match never {},
    }
}

fn custom_resource(spec: &Spec) -> CustomResource {
    let names = &spec.names;
    let structures: Arc<[(String, Arc<structured::Schema>)]> = spec
        .versions
        .iter()
        .map(|version| (api_version(&spec.group, &version.name), Arc::new(version.structure())))
        .collect();
    let of_versions = structures.iter().map(|(_, structure)| structure);
    let mut versions: Vec<(&Version, &Arc<structured::Schema>)> = spec
        .versions
        .iter()
        .zip(of_versions)
        .filter(|(version, _)| version.served)
        .collect();
    versions.sort_by(|(a, _), (b, _)| {
        priority(&b.name)
            .cmp(&priority(&a.name))
            .then_with(|| a.name.cmp(&b.name))
    });
    let versions = versions
        .iter()
        .enumerate()
        .map(|(at, (version, structure))| CustomVersion {
            deprecation: deprecation(spec, version, versions[..at].iter().map(|(better, _)| *better)),
            ..custom_version(version, Arc::clone(structure))
        })
        .collect();
    CustomResource {
        group: spec.group.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        scope: if spec.scope == "Cluster" {
            Scope::Cluster
        } else {
            Scope::Namespaced
        },
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        versions,
        structures,
    }
}

/// What requests for a version warn of, given those that are better.
fn deprecation<'v>(spec: &Spec, version: &Version, mut better: impl Iterator<Item = &'v Version>) -> Option<String> {
    if !version.deprecated || version.deprecation_warning.is_some() {
        return version.deprecation_warning.clone().filter(|_| version.deprecated);
    }
    let named = |version: &Version| format!("{}/{} {}", spec.group, version.name, spec.names.kind);
    let instead = better.find(|other| !other.deprecated);
    let instead = instead.map_or_else(String::new, |other| format!("; use {}", named(other)));
    Some(format!("{} is deprecated{instead}", named(version)))
}

fn custom_version(version: &Version, structure: Arc<structured::Schema>) -> CustomVersion {
    let subresources = version.subresources.as_ref();
    CustomVersion {
        name: version.name.clone(),
        status_subresource: subresources.is_some_and(|found| found.status.is_some()),
        deprecation: None,
        structure,
        scale_subresource: subresources.is_some_and(|found| found.scale.is_some()),
        selectable_fields: version
            .selectable_fields
            .iter()
            .map(|field| field.json_path.clone())
            .collect(),
        columns: version
            .additional_printer_columns
            .iter()
            .map(|column| TableColumn {
                name: column.name.clone().into(),
                kind: column.kind.clone().into(),
                format: column.format.clone().into(),
                priority: column.priority,
                json_path: Some(column.json_path.clone().into()),
            })
            .collect(),
    }
}

/// Kubernetes' order of versions: GA before beta before alpha, higher numbers first; other names last.
fn priority(name: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = name.strip_prefix('v')?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let major: u64 = rest.get(..digits)?.parse().ok()?;
        let stage = rest.get(digits..)?;
        Some(match stage {
            "" => (3, major, 0),
            stage if stage.starts_with("beta") => (2, major, stage[4..].parse().ok()?),
            stage if stage.starts_with("alpha") => (1, major, stage[5..].parse().ok()?),
            _ => return None,
        })
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn versions_order_by_stage_then_number() {
        let mut names = ["foo10", "v1alpha1", "v2", "v1beta2", "v10", "v1beta10", "v1"];
        names.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| a.cmp(b)));
        assert_eq!(names, ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo10"]);
    }
}
