//! Values that are kept once, numbered and counted: a number is used again once nobody holds its value any more.

use hashbrown::HashTable;

use super::super::by_id;

struct Entry<V> {
    value: V,
    hash: u64,
    /// Invariant: how often it is held; not zero.
    holders: u32,
}

/// Values by number, and numbers by value. What makes two values equal is told by each call.
pub(super) struct Interned<V> {
    entries: Vec<Option<Entry<V>>>,
    free: Vec<u32>,
    /// By hash. Invariant: exactly the numbers of the entries there are.
    table: HashTable<u32>,
}

impl<V> Default for Interned<V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
        }
    }
}

impl<V> Interned<V> {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn find(&self, hash: u64, is: impl Fn(&V) -> bool) -> Option<u32> {
        let is = |id: &u32| self.entry(*id).is_some_and(|entry| is(&entry.value));
        self.table.find(hash, is).copied()
    }

    fn entry(&self, id: u32) -> Option<&Entry<V>> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// Precondition: somebody holds it.
    pub(super) fn get(&self, id: u32) -> &V {
        &self.entry(id).expect("a value that is held").value
    }

    /// Precondition: somebody holds it.
    pub(super) fn get_mut(&mut self, id: u32) -> &mut V {
        let entry = self.entries[id as usize].as_mut();
        &mut entry.expect("a value that is held").value
    }

    /// Adds a value, which the caller holds. Precondition: there is none that equals it.
    pub(super) fn insert(&mut self, hash: u64, value: V) -> u32 {
        let free = self.free.pop();
        let id = free.unwrap_or_else(|| by_id::push(&mut self.entries, None));
        self.entries[id as usize] = Some(Entry {
            value,
            hash,
            holders: 1,
        });
        let entries = &self.entries;
        let hash_of = |id: &u32| entries[*id as usize].as_ref().map_or(0, |entry| entry.hash);
        self.table.insert_unique(hash, id, hash_of);
        id
    }

    /// Precondition: somebody holds it.
    pub(super) fn hold(&mut self, id: u32) {
        if let Some(entry) = &mut self.entries[id as usize] {
            entry.holders += 1;
        }
    }

    /// One holder less; returns the value if that was the last one. Precondition: the caller holds it.
    pub(super) fn release(&mut self, id: u32) -> Option<V> {
        let entry = self.entries[id as usize].as_mut()?;
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        let Entry { value, hash, .. } = self.entries[id as usize].take()?;
        if let Ok(found) = self.table.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.free.push(id);
        Some(value)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &V, u32)> {
        let entries = (0..).zip(&self.entries);
        entries.filter_map(|(id, entry)| entry.as_ref().map(|entry| (id, &entry.value, entry.holders)))
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let mut held = 0;
        for (id, entry) in (0..).zip(&self.entries) {
            let Some(entry) = entry else {
                assert!(self.free.contains(&id), "a number is in use or free");
                continue;
            };
            assert!(entry.holders > 0);
            assert!(self.table.find(entry.hash, |other| *other == id).is_some());
            held += 1;
        }
        assert_eq!(self.len(), held);
        assert_eq!(self.free.len() + held, self.entries.len(), "a number is free once");
    }
}
