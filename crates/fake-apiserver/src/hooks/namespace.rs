//! What is special about namespaces: a phase, and finalizers of their own.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Kept;
use crate::json::write::quoted;
use crate::object::Object;
use crate::validation::{FieldError, Written, label_key_errors};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    finalizers: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamespaceStatus {
    phase: String,
}

/// A field, from the canonical bytes of a decoded object; one that is absent is as if it were empty.
fn part<T: DeserializeOwned + Default>(object: &Object, field: &str) -> T {
    object
        .field(field)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// A namespace stays until its `spec.finalizers` are empty.
pub(super) fn spec_finalizers(object: &Object) -> Kept {
    let spec: Spec = part(object, "spec");
    if spec.finalizers.is_empty() {
        Kept::No
    } else {
        Kept::Yes
    }
}

/// What is wrong with a phase that does not fit, and with finalizers, which only a subresource changes.
pub(super) fn validate(written: &Written<'_>) -> Vec<FieldError> {
    let namespace = written.new;
    let mut errors = Vec::new();
    if written.of_status {
        let NamespaceStatus { phase } = part(namespace, "status");
        let (wanted, is) = if namespace.meta.deletion_timestamp.is_some() {
            ("Terminating", "is not empty")
        } else {
            ("Active", "is empty")
        };
        if phase != wanted {
            let text = format!("may only be '{wanted}' if `deletionTimestamp` {is}");
            errors.push(FieldError::invalid_raw("status.Phase", &quoted(&phase), &text));
        }
    } else if written.old.is_some() {
        let spec: Spec = part(namespace, "spec");
        for (index, name) in spec.finalizers.iter().enumerate() {
            let field = format!("spec.finalizers[{index}]");
            for text in label_key_errors(name) {
                errors.push(FieldError::invalid(&field, name, &text));
            }
            if !name.contains('/') && !matches!(name.as_str(), "orphan" | "foregroundDeletion" | "kubernetes") {
                let text = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(FieldError::invalid(&field, name, text));
            }
        }
    }
    errors
}
