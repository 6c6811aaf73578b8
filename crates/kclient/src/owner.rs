//! Owner references: whose an object is, so that it goes when its owner goes, and its changes reach the owner's controller.
//!
//! Owns: [`Owner`], which marks objects. [`enqueue_for_parent`](crate::handler::enqueue_for_parent) leads back from them.
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use kclient::owner::{Owner, OwnerError};
//!
//! # let object = |name: &str, uid: &str| {
//! #     let mut map = ConfigMap::default();
//! #     map.metadata.name = Some(name.to_owned());
//! #     map.metadata.namespace = Some("default".to_owned());
//! #     map.metadata.uid = Some(uid.to_owned());
//! #     map
//! # };
//! # let (parent, other) = (object("parent", "u1"), object("other", "u2"));
//! let mut child = Secret::default();
//! child.metadata.name = Some("child".to_owned());
//! child.metadata.namespace = Some("default".to_owned());
//! Owner::new(&parent)?.controls(&mut child)?;
//! // Only one controller may manage an object.
//! let refused = Owner::new(&other)?.controls(&mut child).unwrap_err();
//! assert!(matches!(refused, OwnerError::AlreadyOwned { .. }));
//! assert_eq!(refused.to_string(), "default/child is controlled by ConfigMap parent already");
//! # Ok::<(), OwnerError>(())
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::{Object, ObjectKey, Scope};

use crate::handler::group;

/// An object as the owner of others.
///
/// # Guarantees
///
/// - It is made of an object that the server knows, so that the reference is one that the garbage collector can follow.
/// - What the server or the collector would not accept is refused: an owner with a namespace owns objects of that namespace
///   only, one without a namespace owns any.
/// - References are told apart by group, kind and name. A reference to this owner in another version, or to a former object of
///   its name, is brought up to date, and of several one is left; all other references stay as they are, well formed or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Owner {
    /// Without `controller` and `blockOwnerDeletion`.
    reference: OwnerReference,
    namespace: Option<String>,
}

impl Owner {
    /// This object as an owner.
    ///
    /// # Errors
    ///
    /// [`OwnerError::Unknown`] if it has no name or no uid, or no namespace though its kind lives in namespaces: it does not come
    /// from the server.
    pub fn new<K: Object<DynamicType: Default>>(owner: &K) -> Result<Self, OwnerError> {
        Self::of(owner, &K::DynamicType::default())
    }

    /// The general form: any [`Object`] and its dynamic type.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of<K: Object>(owner: &K, dynamic_type: &K::DynamicType) -> Result<Self, OwnerError> {
        let (resource, scope, metadata) = (K::api_resource(dynamic_type), K::scope(dynamic_type), owner.metadata());
        let namespace = metadata.namespace.filter(|namespace| !namespace.is_empty());
        let missing = match (scope, namespace) {
            _ if metadata.name.is_empty() => Some("name"),
            _ if metadata.uid.is_empty() => Some("uid"),
            (Scope::Namespaced, None) => Some("namespace"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(OwnerError::Unknown {
                kind: resource.kind,
                key: metadata.key(),
                missing,
            });
        }
        let reference = OwnerReference {
            api_version: resource.api_version,
            kind: resource.kind,
            name: metadata.name.to_owned(),
            uid: metadata.uid.to_owned(),
            ..OwnerReference::default()
        };
        let namespace = namespace.filter(|_| scope != Scope::Cluster).map(str::to_owned);
        Ok(Self { reference, namespace })
    }

    /// Makes this the managing controller of the object, which has one at most. The owner's deletion in the foreground waits for
    /// the object (`blockOwnerDeletion`); where the server asks for rights to set that, the right is to `update` the owner's
    /// `finalizers`.
    ///
    /// # Errors
    ///
    /// [`OwnerError::AlreadyOwned`] if another controller manages it, [`OwnerError::OtherNamespace`] if this owner cannot own it.
    /// The object is unchanged then. No retry helps while the other manages it.
    pub fn controls<K: kube::Resource>(&self, object: &mut K) -> Result<(), OwnerError> {
        self.check(object)?;
        let references = object.meta().owner_references.as_deref().unwrap_or_default();
        let other = references
            .iter()
            .find(|reference| reference.controller == Some(true) && !self.is_same(reference));
        if let Some(owner) = other {
            return Err(OwnerError::AlreadyOwned {
                object: key(object),
                owner: Box::new(owner.clone()),
            });
        }
        let reference = self.mark(object);
        reference.controller = Some(true);
        reference.block_owner_deletion = Some(true);
        Ok(())
    }

    /// Makes this one of the object's owners, without managing it: the object goes when all of its owners are gone. If it manages
    /// the object already, that stays.
    ///
    /// # Errors
    ///
    /// [`OwnerError::OtherNamespace`] if this owner cannot own it.
    pub fn owns<K: kube::Resource>(&self, object: &mut K) -> Result<(), OwnerError> {
        self.check(object)?;
        self.mark(object);
        Ok(())
    }

    /// Takes the reference to this owner away. Returns whether there was one.
    pub fn releases<K: kube::Resource>(&self, object: &mut K) -> bool {
        let references = object.meta_mut().owner_references.as_mut();
        references.is_some_and(|references| {
            let before = references.len();
            references.retain(|reference| !self.is_same(reference));
            references.len() < before
        })
    }

    /// Whether the object has a reference to this owner, to this very object and not to a former one of its name.
    pub fn is_owner_of<K: Object>(&self, object: &K) -> bool {
        let mut owners = object.metadata().owners.iter();
        owners.any(|reference| self.is_same(reference) && reference.uid == self.reference.uid)
    }

    fn is_same(&self, reference: &OwnerReference) -> bool {
        let ours = &self.reference;
        group(&reference.api_version) == group(&ours.api_version)
            && reference.kind == ours.kind
            && reference.name == ours.name
    }

    fn check<K: kube::Resource>(&self, object: &K) -> Result<(), OwnerError> {
        let theirs = object.meta().namespace.as_deref().filter(|name| !name.is_empty());
        match &self.namespace {
            Some(ours) if theirs != Some(ours) => Err(OwnerError::OtherNamespace {
                owner: ObjectKey::namespaced(ours, &self.reference.name),
                object: key(object),
            }),
            _ => Ok(()),
        }
    }

    /// The reference to this owner in the object, added if there was none.
    fn mark<'a, K: kube::Resource>(&self, object: &'a mut K) -> &'a mut OwnerReference {
        let references = object.meta_mut().owner_references.get_or_insert_default();
        let ours = |reference: &OwnerReference| self.is_same(reference);
        // The one that manages it, if there are several: they may be of former objects of the name.
        let controls = references
            .iter()
            .position(|known| ours(known) && known.controller == Some(true));
        let at = controls
            .or_else(|| references.iter().position(ours))
            .unwrap_or_else(|| {
                references.push(self.reference.clone());
                references.len() - 1
            });
        let mut others = 0..;
        references.retain(|reference| others.next() == Some(at) || !ours(reference));
        let at = references.iter().position(ours).unwrap_or_default();
        let reference = &mut references[at];
        reference.api_version.clone_from(&self.reference.api_version);
        reference.uid.clone_from(&self.reference.uid);
        reference
    }
}

/// The reference to the controller that manages an object, if one does.
pub fn controller_of<K: Object>(object: &K) -> Option<&OwnerReference> {
    let mut owners = object.metadata().owners.iter();
    owners.find(|reference| reference.controller == Some(true))
}

fn key<K: kube::Resource>(object: &K) -> ObjectKey {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    ObjectKey::new(namespace, meta.name.as_deref().unwrap_or_default())
}

/// Why an object cannot be marked as owned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner lacks what a reference needs: it was not read from the server. Create or fetch it first.
    #[error("{kind} {key} cannot own anything: it has no {missing}")]
    Unknown {
        /// The owner's kind.
        kind: String,
        /// The owner.
        key: ObjectKey,
        /// What it lacks.
        missing: &'static str,
    },
    /// The owner lives in a namespace, and the object in another one or in none.
    #[error("{owner} cannot own {object}: an owner in a namespace owns only objects of that namespace")]
    OtherNamespace {
        /// The owner.
        owner: ObjectKey,
        /// The object.
        object: ObjectKey,
    },
    /// Another controller manages the object.
    #[error("{object} is controlled by {} {} already", .owner.kind, .owner.name)]
    AlreadyOwned {
        /// The object.
        object: ObjectKey,
        /// The reference to its controller.
        owner: Box<OwnerReference>,
    },
}

#[cfg(test)]
mod tests;
