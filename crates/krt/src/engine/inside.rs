//! Whether the present thread runs code for an engine: a transformation or a handler. Waiting for the engine there would never end.

use std::cell::Cell;

#[cfg(test)]
use crate::sync::checked::DEPTH;

#[cfg(not(test))]
thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Marks the thread until it is dropped.
pub(crate) struct Inside(());

pub(crate) fn enter() -> Inside {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Inside(())
}

pub(crate) fn is_inside() -> bool {
    DEPTH.with(Cell::get) > 0
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
