//! Lists that are filled in each epoch, and keep their memory for the next one.

/// What one great epoch needed beyond this is given back. Lists of an epoch of a thousand changes fit: to free and allocate such
/// blocks in each epoch has the system's allocator sort all small blocks that are free, which cost a tenth of an epoch.
const KEPT_BYTES: usize = 64 << 10;

/// Keeps the memory of a list, unless it is much. Precondition: the list is empty.
pub(crate) fn keep<T>(list: &mut Vec<T>) {
    debug_assert!(list.is_empty());
    if list.capacity() * size_of::<T>() > KEPT_BYTES {
        *list = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_much_memory_is_given_back() {
        let kept = |capacity| {
            let mut list: Vec<u64> = Vec::with_capacity(capacity);
            keep(&mut list);
            list.capacity()
        };
        assert_eq!([1000, 8192, 8193].map(kept), [1000, 8192, 0]);
    }
}
