//! A resource in the versions in which the managers of its objects speak of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::codec::{FieldValidation, decode_patched};
use crate::json::write;
use crate::kinds::{Resource, version_of};
use crate::object::{Object, write_metadata_of, write_unmanaged};
use crate::structured::Schema;

/// One version of a resource.
pub(super) struct Version {
    pub(super) schema: Arc<Schema>,
    /// The resource in that version, if its objects look different there.
    other: Option<Resource>,
}

impl Version {
    /// The version that a manager names; `None` if there is none, so that what it says means nothing.
    pub(super) fn find(of: &Resource, api_version: &str) -> Option<Self> {
        if of.custom {
            let found = of.structures.versions.iter().find(|(name, _)| name == api_version);
            return found.map(|(_, schema)| Self {
                schema: Arc::clone(schema),
                other: None,
            });
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Both groups of events have a kind of the same name, as have all versions of any other.
        let other = version_of(of, group, version, &of.kind)?;
        Some(Self {
            schema: Arc::clone(&other.structures.own),
            other: Some(other),
        })
    }

    /// An object of the resource as a document of this version.
    pub(super) fn document(&self, of: &Resource, object: &Object) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.other {
            Some(other) => write_unmanaged(&other.to_served(of.to_stored(object).into_owned()), &mut out),
            None => write_unmanaged(object, &mut out),
        }
        out
    }
}

/// A resource in its own version and in those of the managers.
#[derive(Clone, Copy)]
pub(super) struct Versions<'v> {
    pub(super) own: &'v Resource,
    pub(super) others: &'v HashMap<String, Version>,
}

impl Versions<'_> {
    /// The types of a version.
    pub(super) fn schema(&self, api_version: &str) -> &Arc<Schema> {
        let other = self.others.get(api_version);
        other.map_or(&self.own.structures.own, |version| &version.schema)
    }

    /// A whole object of one version in another one: as it is where both show the same.
    ///
    /// # Errors
    ///
    /// The text about an object that is none of that version.
    pub(super) fn convert(&self, json: Vec<u8>, from: &str, to: &str) -> Result<Vec<u8>, String> {
        let (from, to) = (self.resource(from), self.resource(to));
        if std::ptr::eq(from, to) || from.stored_as.is_none() && to.stored_as.is_none() {
            return Ok(json);
        }
        let decoded = decode_patched(from, &json, FieldValidation::Ignore).map_err(|error| error.cause().to_owned())?;
        let object = to.to_served(from.to_stored(&decoded.object).into_owned());
        let mut out = vec![b'{'];
        for (name, value) in [("apiVersion", &*to.api_version()), ("kind", &*to.kind)] {
            write::name(&mut out, name);
            write::string(&mut out, value);
        }
        write::name(&mut out, "metadata");
        write_metadata_of(&object.meta, &mut out);
        for (name, value) in &object.fields {
            write::name(&mut out, name);
            out.extend_from_slice(value);
        }
        out.push(b'}');
        Ok(out)
    }

    fn resource(&self, api_version: &str) -> &Resource {
        let other = self.others.get(api_version).and_then(|version| version.other.as_ref());
        other.unwrap_or(self.own)
    }
}
