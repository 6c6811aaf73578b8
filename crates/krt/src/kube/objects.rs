//! What every object of Kubernetes tells about itself.
//!
//! `Object` is implemented for every `kube::Resource`, and by users for types that keep less, so one blanket impl reaches them all.
//! No type of this crate or of a user's can be both an `Object` and have an impl of these traits of its own.

use ::kube::Resource;
use kclient::Object;

use crate::key::KeyRef;
use crate::traits::{Keyed, Labeled, Labels, Named, Namespaced};

static NO_LABELS: Labels = Labels::new();

impl<K: Object> Keyed for K {
    fn key(&self) -> KeyRef<'_> {
        let metadata = self.metadata();
        KeyRef::namespaced(metadata.namespace.unwrap_or_default(), metadata.name)
    }
}

impl<K: Object> Named for K {
    fn name(&self) -> &str {
        self.metadata().name
    }
}

impl<K: Object> Namespaced for K {
    fn namespace(&self) -> &str {
        self.metadata().namespace.unwrap_or_default()
    }
}

impl<K: Resource + Object> Labeled for K {
    fn labels(&self) -> &Labels {
        self.meta().labels.as_ref().unwrap_or(&NO_LABELS)
    }
}
