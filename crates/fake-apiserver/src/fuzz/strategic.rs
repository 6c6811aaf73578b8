//! Strategic merge patch.

use super::{Target, parts, resources};
use crate::codec::{FieldValidation, decode_patched};
use crate::json::{Tape, canonical};
use crate::patch::{apply_strategic, strategic_left_over};

/// A letter that picks a kind, a document and a patch.
pub(super) const TARGET: Target = Target {
    name: "strategic",
    run,
    seeds: &[
        "p\n{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"},\"finalizers\":[\"a/b\",\"c/d\"]},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i\",\"ports\":[{\"containerPort\":1}]},{\"name\":\"b\"}],\"tolerations\":[{\"key\":\"k\"}]}}\n{\"metadata\":{\"labels\":{\"x\":null},\"$deleteFromPrimitiveList/finalizers\":[\"a/b\"]},\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}],\"containers\":[{\"name\":\"b\",\"image\":\"j\"},{\"$patch\":\"delete\",\"name\":\"c\"}]}}",
        "d\n{\"metadata\":{\"name\":\"a\"},\"spec\":{\"strategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":{\"maxSurge\":1}}}}\n{\"spec\":{\"strategy\":{\"$retainKeys\":[\"type\"],\"type\":\"Recreate\"},\"template\":{\"$patch\":\"replace\",\"spec\":null}}}",
        "s\n{\"spec\":{\"ports\":[{\"port\":1,\"name\":\"a\"},{\"port\":2}]}}\n{\"spec\":{\"ports\":[{\"port\":1,\"$patch\":\"delete\"},{\"$patch\":\"replace\"}]}}",
        "c\n{\"data\":{\"a\":\"b\"}}\n{\"$patch\":\"merge\",\"data\":{\"a\":null,\"c\":\"d\"}}",
    ],
    words: &[
        "\"$patch\":\"delete\"",
        "\"$patch\":\"replace\"",
        "\"$patch\":\"merge\"",
        "$setElementOrder/",
        "$retainKeys",
        "$deleteFromPrimitiveList/",
        "containers",
        "\"name\":\"a\"",
        "finalizers",
        "null",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"\"",
        "0",
    ],
};

fn run(data: &[u8]) {
    let Some([kind, document, patch]) = parts(data) else {
        return;
    };
    let resource = resources::picked(kind.first().copied().unwrap_or_default());
    let Some(id) = resources::type_of(resource) else { return };
    let Some(current) = canonical_of(document).filter(|text| text.starts_with(b"{")) else {
        return;
    };
    let same = apply_strategic(&current, b"{}", id).expect("an empty patch is one");
    assert_eq!(
        canonical_of(&same),
        Some(current.clone()),
        "an empty patch changes nothing"
    );
    let Ok(patched) = apply_strategic(&current, patch, id) else {
        return;
    };
    let text = canonical_of(&patched);
    assert!(text.is_some(), "no JSON: {}", String::from_utf8_lossy(&patched));
    // What may be wrong with the result, or with what is left of the patch, is told.
    let _ = strategic_left_over(&current, patch, id);
    let _ = decode_patched(resource, &patched, FieldValidation::Strict);
}

/// The canonical text, if it is JSON with numbers that are.
fn canonical_of(text: &[u8]) -> Option<Vec<u8>> {
    let tape = Tape::parse(text).ok()?;
    let mut out = Vec::new();
    canonical::write(&mut out, tape.root()).ok()?;
    Some(out)
}
