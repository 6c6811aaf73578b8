//! Lists that are filled in each epoch, and keep their memory for the next one.

/// What one great epoch needed beyond this is given back.
const KEPT: usize = 1024;

/// Keeps the memory of a list, unless it is much. Precondition: the list is empty.
pub(crate) fn keep<T>(list: &mut Vec<T>) {
    debug_assert!(list.is_empty());
    if list.capacity() > KEPT {
        *list = Vec::new();
    }
}
