//! Panics that are part of a test, and are not to be printed: random histories have thousands of them.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// The text of the last panic of a thread that is quiet.
    static QUIET: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls something that may panic; if it does, the panic's text, with its place. Nothing is printed on the way.
pub(super) fn failure(call: impl FnOnce()) -> Option<String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_quiet = QUIET.with_borrow_mut(|last| {
                let is_quiet = last.is_some();
                *last = is_quiet.then(|| info.to_string());
                is_quiet
            });
            if !is_quiet {
                before(info);
            }
        }));
    });
    QUIET.set(Some(String::new()));
    let failed = panic::catch_unwind(AssertUnwindSafe(call)).is_err();
    let last = QUIET.take().unwrap_or_default();
    failed.then_some(last)
}

#[test]
fn a_failure_is_told_with_its_place() {
    let text = failure(|| panic!("number {}", 7)).unwrap();
    assert!(text.contains("quiet.rs:") && text.contains("number 7"), "{text}");
    let contained = failure(|| drop(panic::catch_unwind(|| panic!("contained"))));
    assert_eq!(contained, None);
}
