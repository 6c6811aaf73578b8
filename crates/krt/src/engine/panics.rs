//! Calls of the user's code, whose panics end here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the user's code. A panic is the text of its payload.
///
/// What the call may leave half done is the caller's to judge; each caller lends it only what it can put right.
pub(crate) fn contain<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| describe(&*payload))
}

fn describe(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Drops values of the user's types, each by itself, so that a panic in one does not keep another.
pub(crate) fn drop_each<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        if let Err(text) = contain(|| drop(value)) {
            tracing::error!(panic = text, "dropping an object panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_text() {
        assert_eq!(contain(|| 1), Ok(1));
        assert_eq!(contain(|| panic!("unlucky")), Err::<(), _>("unlucky".to_owned()));
        let number = 13;
        assert_eq!(
            contain(|| panic!("unlucky {number}")),
            Err::<(), _>("unlucky 13".to_owned())
        );
        let other = contain(|| std::panic::panic_any(number));
        assert_eq!(other, Err::<(), _>("a panic without a text".to_owned()));
    }
}
