//! Which objects of a collection are in which rows: by namespace, by name, by label; by a value of an index.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::by_id;
use super::planted::{self, Bug};

/// The row of the objects that every query has to look at: those that could not be read, or that ask for nothing in particular.
pub(crate) const EVERYBODY: u64 = 0;

/// Rows of objects. That two rows may have the same number is no harm: who looks into one looks at each object itself, too.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    /// By object: the rows that it is in, each once, and its place in each.
    held: Vec<SmallVec<[(u64, u32); 1]>>,
    /// Invariant: no row is empty.
    rows: HashMap<u64, Vec<u32>, foldhash::fast::RandomState>,
}

impl Postings {
    /// Puts an object into these rows and no others.
    pub(crate) fn replace(&mut self, id: u32, rows: &[u64]) {
        let index = id as usize;
        by_id::lengthen(&mut self.held, index + 1, SmallVec::new);
        let held = &self.held[index];
        if held.iter().map(|(row, _)| row).eq(rows) || (rows.is_empty() && planted::has(Bug::KeptPosting)) {
            return;
        }
        for (row, place) in std::mem::take(&mut self.held[index]) {
            self.remove(row, place);
        }
        for row in rows {
            if self.held[index].iter().any(|(own, _)| own == row) {
                continue;
            }
            let entries = self.rows.entry(*row).or_default();
            self.held[index].push((*row, by_id::push(entries, id)));
        }
    }

    fn remove(&mut self, row: u64, place: u32) {
        let Some(entries) = self.rows.get_mut(&row) else { return };
        entries.swap_remove(place as usize);
        if let Some(moved) = entries.get(place as usize) {
            let held = self.held[*moved as usize].iter_mut();
            for (_, own) in held.filter(|(own, _)| *own == row) {
                *own = place;
            }
        } else if entries.is_empty() {
            self.rows.remove(&row);
        }
    }

    /// The objects in a row, in no order.
    pub(crate) fn row(&self, row: u64) -> &[u32] {
        self.rows.get(&row).map_or(&[], Vec::as_slice)
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows that an object is in.
    #[cfg(test)]
    pub(crate) fn rows_of(&self, id: u32) -> Vec<u64> {
        let held = self.held.get(id as usize).into_iter().flatten();
        held.map(|(row, _)| *row).collect()
    }

    /// `objects` are those that there are.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self, objects: &std::collections::BTreeSet<u32>) {
        let mut entries = 0;
        for (id, held) in (0..).zip(&self.held) {
            assert!(
                held.is_empty() || objects.contains(&id),
                "an object that is gone is in rows"
            );
            for (row, place) in held {
                assert_eq!(self.rows[row][*place as usize], id);
            }
            entries += held.len();
        }
        assert_eq!(entries, self.rows.values().map(Vec::len).sum::<usize>());
        assert!(self.rows.values().all(|row| !row.is_empty()));
    }
}
