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

/// Gives a namespace the phase that it has if nobody says otherwise.
pub(super) fn default_phase(object: &mut Object) {
    let found: NamespaceStatus = part(object, "status");
    if !found.phase.is_empty() {
        return;
    }
    // It is the first field, and left out when it is empty.
    let rest = object.field("status").map_or(&b""[..], |bytes| {
        bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default()
    });
    let mut with_phase = br#"{"phase":"Active""#.to_vec();
    if !rest.is_empty() {
        with_phase.push(b',');
        with_phase.extend_from_slice(rest);
    }
    with_phase.push(b'}');
    object.set_field("status", with_phase.into());
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
