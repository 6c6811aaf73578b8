//! How much work was done, counted where loops over what clients send are: tests and fuzz targets hold it against the size of
//! the input, which the clock of a shared machine cannot tell. Elsewhere it costs nothing.

#[cfg(any(test, fuzzing))]
pub(crate) use counted::{count, step, steps};

/// One step.
#[cfg(not(any(test, fuzzing)))]
#[inline]
pub(crate) const fn step() {}

/// So many steps.
#[cfg(not(any(test, fuzzing)))]
#[inline]
pub(crate) const fn steps(_: usize) {}

#[cfg(any(test, fuzzing))]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn step() {
        steps(1);
    }

    pub(crate) fn steps(more: usize) {
        STEPS.with(|steps| steps.set(steps.get() + more));
    }

    /// How many steps this thread takes to do something.
    pub(crate) fn count<T>(run: impl FnOnce() -> T) -> (T, usize) {
        let before = STEPS.get();
        let result = run();
        (result, STEPS.get() - before)
    }
}
