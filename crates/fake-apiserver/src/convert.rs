//! Conversion between the version in which an object is served and the one in which it is stored.
//!
//! Resources that share a storage are one collection under several names. Nearly all have one content and need nothing of
//! this; for the others a [`Converter`] stands between them and [`crate::stored`]. Each has a file of its own in `convert/`.

pub(crate) mod autoscaling;
mod events;

use std::borrow::Cow;
use std::fmt::Debug;

use crate::kinds::{Resource, SelectableField};
use crate::object::Object;
use crate::schemas::{Defaults, Shape};

/// Translates between a served version and the stored one.
///
/// # Contract
///
/// 1. `to_served(to_stored(x))` is `x` for every canonical object `x` of the served version that was defaulted.
/// 2. Both give canonical objects: fields in Go's order, fields that Go writes when empty present.
/// 3. Metadata stays as it is, but for annotations that are part of the content.
pub(crate) trait Converter: Debug + Sync {
    /// An object of the served version in the stored one.
    fn to_stored(&self, object: &Object) -> Object;

    /// A stored object in the served version.
    fn to_served(&self, object: &Object) -> Object;

    /// The label by which a field selector of the stored version names what `label` names in the served one.
    fn stored_label<'l>(&self, label: &'l str) -> &'l str;
}

/// How the objects of a resource are stored, where that is not how they are served.
#[derive(Debug)]
pub(crate) struct StoredAs {
    pub(crate) converter: &'static dyn Converter,
    /// The selectable fields of the stored version: selectors of every served version are about these.
    pub(crate) fields: Vec<SelectableField>,
    /// The stored version, if writes are settled in it: where the served one shows parts of the status, say, among the
    /// metadata, or not all of the spec, what a write keeps of the old object can be told there only.
    pub(crate) settled_in: Option<Box<Resource>>,
}

/// The version in which a write is settled, when it is known what is wanted and who owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Served,
    Stored,
}

/// The converter of a built-in resource that is served in another form than it is stored in.
pub(crate) fn built_in(group: &str, version: &str, plural: &str) -> Option<(&'static dyn Converter, Settled)> {
    match (group, version, plural) {
        ("events.k8s.io", _, "events") => Some((&events::Events, Settled::Served)),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some((&autoscaling::Autoscalers, Settled::Stored)),
        _ => None,
    }
}

impl Resource {
    /// The object in the stored version.
    pub(crate) fn to_stored<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        match (&self.stored_as, &self.defined) {
            (Some(stored), _) => Cow::Owned(stored.converter.to_stored(object)),
            (None, Some(defined)) if !defined.shows_stored => {
                Cow::Owned(defined.stored.apply(object.clone(), Defaults::Filled))
            }
            (None, _) => Cow::Borrowed(object),
        }
    }

    /// The version in which writes through this one are settled.
    pub(crate) fn settled_in(&self) -> &Self {
        let stored = self.stored_as.as_ref().and_then(|stored| stored.settled_in.as_deref());
        stored.unwrap_or(self)
    }

    /// Whether writes are settled in the version of the request.
    pub(crate) fn settles_as_served(&self) -> bool {
        self.stored_as.as_ref().is_none_or(|stored| stored.settled_in.is_none())
    }

    /// The object in the version of [`Resource::settled_in`].
    pub(crate) fn to_settled(&self, object: Object) -> Object {
        match &self.stored_as {
            Some(stored) if stored.settled_in.is_some() => stored.converter.to_stored(&object),
            _ => object,
        }
    }

    /// A stored object in the version of this resource.
    pub(crate) fn to_served(&self, object: Object) -> Object {
        match &self.stored_as {
            Some(stored) => stored.converter.to_served(&object),
            None => object,
        }
    }

    /// An object that was stored in a form, in that of this resource: the definition may have changed since, and other
    /// versions have other forms. `None` if it is in this form already.
    pub(crate) fn reshaped(&self, object: impl FnOnce() -> Object, form: Option<&Shape>) -> Option<Object> {
        let defined = self.defined.as_ref()?;
        let is_current = form.is_some_and(|form| form.is_same(&defined.stored));
        if is_current && defined.shows_stored {
            return None;
        }
        let mut object = object();
        if !is_current {
            object = defined.stored.apply(object, Defaults::Filled);
        }
        if !defined.shows_stored {
            object = defined.shape.apply(object, Defaults::Left);
        }
        Some(object)
    }

    /// The selectable fields of the stored version.
    pub(crate) fn stored_fields(&self) -> &[SelectableField] {
        match (&self.stored_as, &self.defined) {
            (Some(stored), _) => &stored.fields,
            (None, Some(defined)) => &defined.selectable,
            (None, None) => &self.policy.field_selectors.fields,
        }
    }

    /// The stored version's name of a label of this resource's field selectors.
    pub(crate) fn stored_label<'l>(&self, label: &'l str) -> &'l str {
        match &self.stored_as {
            Some(stored) => stored.converter.stored_label(label),
            None => label,
        }
    }
}
