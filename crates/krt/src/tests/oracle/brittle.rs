//! Objects whose code, which is the user's, panics while the engine runs it: their key, their equality, their drop, what an index or a
//! closure makes of them.

use std::cell::Cell;

use crate::sync::checked::holds_lock;

thread_local! {
    /// Whether the engine runs. The model and the comparisons of the test read the same objects, and nothing of them panics there.
    static ARMED: Cell<bool> = const { Cell::new(false) };
    /// What of an object's code ran last under a lock, which none may. A panic there would be contained like any other.
    static UNDER_LOCK: Cell<Option<Break>> = const { Cell::new(None) };
}

/// Which of an object's code panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    Key,
    Equal,
    Drop,
    Index,
    Filter,
    Projection,
}

/// The part of an object that panics. Two of them are always equal, as far as they tell.
#[derive(Debug, Default)]
pub(super) struct Brittle {
    breaks: Option<Break>,
    /// In the model: which run made the object. The same object in two places is compared by nobody.
    pub(super) made: u64,
}

impl Brittle {
    pub(super) fn new(breaks: Option<Break>) -> Self {
        Self { breaks, made: 0 }
    }

    pub(super) fn breaks_at(&self, what: Break) -> bool {
        self.breaks == Some(what)
    }

    /// Panics if this is what breaks, and the engine runs.
    pub(super) fn at(&self, what: Break) {
        if ARMED.with(Cell::get) && holds_lock() {
            UNDER_LOCK.set(Some(what));
        }
        assert!(
            !(self.breaks_at(what) && ARMED.with(Cell::get)),
            "the object breaks at {what:?}"
        );
    }
}

impl Clone for Brittle {
    /// Clones are made inside of transformations, where a drop that panics would be another failure.
    fn clone(&self) -> Self {
        Self {
            breaks: self.breaks.filter(|breaks| *breaks != Break::Drop),
            made: self.made,
        }
    }
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        self.at(Break::Equal);
        other.at(Break::Equal);
        true
    }
}

impl Eq for Brittle {}

impl Drop for Brittle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.at(Break::Drop);
        }
    }
}

/// Has objects break for as long as a call takes.
///
/// # Panics
///
/// If an object's code ran under a lock.
pub(super) fn armed<R>(call: impl FnOnce() -> R) -> R {
    struct Disarm;
    impl Drop for Disarm {
        fn drop(&mut self) {
            ARMED.with(|armed| armed.set(false));
        }
    }
    UNDER_LOCK.set(None);
    ARMED.with(|armed| armed.set(true));
    let disarm = Disarm;
    let result = call();
    drop(disarm);
    assert_eq!(UNDER_LOCK.take(), None, "an object's code ran under a lock");
    result
}
