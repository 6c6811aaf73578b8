//! A tiny kind for the unit tests of this crate. (What users need in their tests is in `testing`.)

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::ApiResource;
use serde::Deserialize;

use crate::event::Event;
use crate::key::ObjectKey;
use crate::object::{Metadata, Object, Scope};

/// An object of one field, with a metadata type of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Item {
    pub(crate) metadata: ItemMeta,
    #[serde(default)]
    pub(crate) value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemMeta {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) resource_version: String,
}

impl Object for Item {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource {
            group: "test.io".into(),
            version: "v1".into(),
            api_version: "test.io/v1".into(),
            kind: "Item".into(),
            plural: "items".into(),
        }
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            namespace: self.metadata.namespace.as_deref(),
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            ..Metadata::default()
        }
    }
}

/// An item in namespace `n`.
pub(crate) fn item(name: &str, uid: &str, version: u64) -> Arc<Item> {
    Arc::new(Item {
        metadata: ItemMeta {
            name: name.to_owned(),
            namespace: Some("n".to_owned()),
            uid: uid.to_owned(),
            resource_version: version.to_string(),
        },
        value: format!("{name}@{version}"),
    })
}

/// What a handler holds after these events. Panics if they do not fit together.
pub(crate) fn fold<'a>(state: &mut BTreeMap<ObjectKey, Arc<Item>>, events: impl IntoIterator<Item = &'a Event<Item>>) {
    for event in events {
        match event {
            Event::Added { object, .. } => {
                let before = state.insert(event.key(), Arc::clone(object));
                assert!(before.is_none(), "{event:?}: added twice");
            }
            Event::Updated { old, new } => {
                let before = state.insert(event.key(), Arc::clone(new));
                assert_eq!(
                    before.as_ref(),
                    Some(old),
                    "{event:?}: the old object is not what was there"
                );
            }
            Event::Deleted { .. } => {
                assert!(
                    state.remove(&event.key()).is_some(),
                    "{event:?}: deleted what was not there"
                );
            }
        }
    }
}
