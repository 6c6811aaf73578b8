//! Tables in which things are found by their dense ids.
//!
//! They grow by a sixteenth: when a table of everything in a collection doubles, up to half of it is empty, in each of the tables
//! that the collection has.

use std::hint::black_box;

use super::id::id32;

/// Reads something of each of many entries, for nothing but to have it near when it is needed.
///
/// What an epoch needs of a big collection is in memory that was last used long ago, for each object elsewhere. Reads that follow each other
/// wait for memory together; those of the work itself, between which there are locked instructions (reference counts), wait one
/// by one.
pub(crate) fn warm(entries: impl Iterator<Item = usize>) {
    black_box(entries.fold(0, |seen, one| seen ^ one));
}

/// Makes a table at least so long.
#[inline]
pub(crate) fn lengthen<T>(table: &mut Vec<T>, length: usize, empty: impl FnMut() -> T) {
    if length > table.len() {
        make_room(table, length - table.len());
        table.resize_with(length, empty);
    }
}

/// Adds something at the end, which has the id that is returned.
pub(crate) fn push<T>(table: &mut Vec<T>, new: T) -> u32 {
    let id = id32(table.len());
    make_room(table, 1);
    table.push(new);
    id
}

/// Makes room for so many more at once, where it is known how many there will be.
pub(crate) fn make_room<T>(table: &mut Vec<T>, more: usize) {
    if table.capacity() - table.len() < more {
        table.reserve_exact(more.max(growth(table.len())));
    }
}

/// How much longer a list becomes that is full. There are many that stay short, such as one for each dependency.
pub(crate) fn growth(length: usize) -> usize {
    (length / 16).max(length.clamp(1, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_seldom_and_by_a_sixteenth() {
        let (mut table, mut grown) = (Vec::new(), 0);
        for number in 0..10_000 {
            let before = table.capacity();
            assert_eq!(push(&mut table, number), number);
            grown += u32::from(table.capacity() != before);
            assert!(table.capacity() <= table.len() + (table.len() / 16).max(4));
        }
        assert!(grown < 120, "{grown}");
    }

    #[test]
    fn a_table_is_made_longer_by_what_is_missing() {
        let mut table = Vec::new();
        for (length, expected, capacity) in [(100, 100, 100), (50, 100, 100), (101, 101, 106), (112, 112, 112)] {
            lengthen(&mut table, length, || 7);
            assert_eq!((table.len(), table.capacity()), (expected, capacity));
        }
        assert!(table.iter().all(|one| *one == 7));
    }
}
