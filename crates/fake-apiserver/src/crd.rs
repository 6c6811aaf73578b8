//! Custom resource definitions: what makes a kind served, and what its removal takes away.
//!
//! [`reconcile`] runs after each write to a definition, inside the same request, so that a new kind is served as soon
//! as its creation is answered. [`names`] says which names a definition gets, [`removal`] how it goes; what its schemas say of
//! objects is in [`crate::schemas`].

mod names;
mod removal;
mod validation;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::clock::time_text;
use crate::codec::{ContentType, FieldValidation, decode};
use crate::kinds::{CustomResource, CustomVersion, Resource, Scope, TableColumn, api_version};
use crate::managed_fields::{WriteContext, track};
use crate::object::Object;
use crate::schemas::{ScalePaths, Shape};
use crate::server::Shared;
use crate::storage::{Change, Range, ResourceId, Versioned};
use crate::stored::Stored;
use crate::structured;

pub(crate) use removal::{check_create, is_terminating};
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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
    schema: Option<Box<RawValue>>,
}

impl Version {
    /// The types of its objects.
    fn structure(&self) -> structured::Schema {
        let schema = self.raw_schema().and_then(|raw| serde_json::from_str(raw).ok());
        structured::of_definition(schema.as_ref())
    }

    /// The schema as the definition has it.
    fn raw_schema(&self) -> Option<&str> {
        self.schema.as_ref()?.schema.as_deref().map(RawValue::get)
    }

    /// The form of its objects; what has none keeps everything.
    fn shape(&self) -> Shape {
        let scale = self.subresources.as_ref().and_then(|found| found.scale.clone());
        let shape = self.raw_schema().and_then(|raw| Shape::new(raw.as_bytes(), scale));
        shape.unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<ScalePaths>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    description: String,
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
    /// The spec and the names that each served definition had when it was installed.
    installed: HashMap<String, (Bytes, AcceptedNames)>,
    /// Those that wait for their objects to be gone.
    terminating: HashSet<String>,
}

/// True for the resource of definitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == PLURAL
}

/// What follows from a write: kinds come and go, and a definition that waits for its objects may be done waiting.
pub(crate) fn after_write(server: &Arc<Shared>, resource: &Resource) {
    if is_definition(resource) || resource.custom && is_terminating(server, resource) {
        reconcile(server);
    }
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
    serde_json::from_str(version.schema?.schema?.get()).ok()
}

/// The version in which custom resources are stored.
pub(crate) fn stored_version(server: &Shared, resource: &Resource) -> Option<String> {
    let spec: Spec = serde_json::from_slice(&spec_of(server, resource)?).ok()?;
    let stored = spec.versions.into_iter().find(|version| version.storage)?;
    Some(stored.name)
}

/// Fills in what a definition says by saying nothing: the singular, the list kind, the conversion,
/// and of the versions that objects are stored in, the one.
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
    let status = object
        .field("status")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    if let Some(mut status) = status
        && status["storedVersions"].as_array().is_none_or(Vec::is_empty)
        && let Some(version) = storage_version(parsed)
    {
        status["storedVersions"] = json!([version]);
        set_field(resource, object, "status", &status);
    }
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
    let condition = [
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    ];
    removal::set_terminating(resource, object, condition, &time_text(now));
}

/// Brings the set of served kinds in line with the stored definitions.
pub(crate) fn reconcile(server: &Arc<Shared>) {
    let mut definitions = server.definitions.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(id) = names::definitions(server) else { return };
    // A definition that goes, or gives a name up, may make others good; each round makes one better at least.
    let mut rounds = server.storage.count(id) + 1;
    while definitions.round(server, id) && rounds > 0 {
        rounds -= 1;
    }
}

impl Definitions {
    /// Looks at each stored definition; returns whether any has got or given up names.
    fn round(&mut self, server: &Shared, id: ResourceId) -> bool {
        let all = server.storage.all(id, Range::All);
        let there = |name: &String| all.iter().any(|(key, _)| key.as_ref() == name.as_str());
        let gone: Vec<String> = self.installed.keys().filter(|name| !there(name)).cloned().collect();
        for name in gone {
            self.withdraw(server, &name);
        }
        let mut changed = false;
        for (name, version) in all {
            let object = version.object.object();
            changed |= if object.meta.deletion_timestamp.is_some() {
                self.remove(server, id, &name)
            } else {
                self.serve(server, id, &name, &object)
            };
        }
        changed
    }

    /// Settles the names of a definition, and serves its kind if they are good; returns whether the names have changed.
    fn serve(&mut self, server: &Shared, id: ResourceId, name: &str, object: &Object) -> bool {
        let Some(bytes) = object.field("spec") else {
            return false;
        };
        let is_settled = |(spec, names): &(Bytes, AcceptedNames)| spec == bytes && *names == names::accepted(object);
        if self.installed.get(name).is_some_and(is_settled) {
            return false;
        }
        let Some(spec) = spec(object) else { return false };
        let before = names::accepted(object);
        let decision = names::used(server, id, &spec.group).decide(&spec.names, &before);
        let is_served = decision.conflict.is_none() || names::is_true(object, "Established");
        if is_served {
            let installed = (bytes.clone(), decision.accepted.clone());
            let changed = self.installed.insert(name.to_owned(), installed).is_some();
            install(server, &custom_resource(&spec, &decision.accepted), changed);
        }
        // Last: whoever reads that the kind is served may ask for it.
        settle(server, id, name, &spec, &decision);
        decision.accepted != before
    }

    /// Removes the objects of a definition, and the definition when there are none; returns whether it is gone.
    fn remove(&mut self, server: &Shared, id: ResourceId, name: &str) -> bool {
        let kinds = server.registry.snapshot();
        let served = self.installed.contains_key(name).then_some(()).and_then(|()| {
            let (plural, group) = name.split_once('.')?;
            let mut versions = kinds
                .group(group)?
                .versions
                .iter()
                .flat_map(|version| &version.resources);
            versions.find(|resource| resource.plural == plural)
        });
        if let Some(resource) = served
            && let Some(objects) = server.resource_id(resource)
            && !removal::delete_objects(server, resource, objects)
        {
            if self.terminating.insert(name.to_owned()) {
                removal::say_in_progress(server, id, name);
            }
            return false;
        }
        self.terminating.remove(name);
        self.withdraw(server, name);
        let is_there = |name: &str| server.storage.get(id, name).is_some();
        removal::finish(server, id, name);
        !is_there(name)
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

/// Serves a kind; if it was served before in another form, its watches end.
fn install(server: &Shared, custom: &CustomResource, changed: bool) {
    server.registry.install(custom);
    let kinds = server.registry.snapshot();
    for version in &custom.versions {
        let Some(resource) = kinds.resource(&custom.group, &version.name, &custom.plural) else {
            continue;
        };
        server.add_storage(&resource.storage, false);
        if changed && let Some(id) = server.resource_id(resource) {
            // A real server makes the cache of the resource anew, which knows nothing of before.
            server.storage.begin_watches_anew(id);
        }
    }
}

/// Says in the status which names are accepted, and whether the kind is served.
fn settle(server: &Shared, id: ResourceId, name: &str, spec: &Spec, decision: &names::Decision) {
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
        let conditions = names::conditions(&old["conditions"], decision, &now);
        let status = json!({"conditions": conditions, "acceptedNames": decision.accepted, "storedVersions": versions});
        set_field(resource, object, "status", &status);
        Outcome::Store
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

fn custom_resource(spec: &Spec, names: &AcceptedNames) -> CustomResource {
    let stored = spec.versions.iter().find(|version| version.storage);
    let stored = Arc::new(stored.map(Version::shape).unwrap_or_default());
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
            shape: if version.storage {
                Arc::clone(&stored)
            } else {
                Arc::new(version.shape())
            },
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
        stored,
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
        shape: Arc::default(),
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
                description: if column.description.is_empty() {
                    format!(
                        "Custom resource definition column (in JSONPath format): {}",
                        column.json_path
                    )
                    .into()
                } else {
                    column.description.clone().into()
                },
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
