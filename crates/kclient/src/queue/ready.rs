//! The order in which ready slots are served.
//!
//! Owns: which slots are ready, first-in-first-out inside a priority, and the age order that keeps low priorities from
//! starving. Knows slots by number only; keys, delays and waiting tasks are the business of [`super::core`].
//!
//! # Design
//!
//! Every ready slot is in two doubly linked lists, whose links are in the slot: the list of its priority, and the list of all
//! ready slots by age. Taking, raising and removing are O(1) and allocate nothing, there is nothing to clean up later, and
//! memory is a fixed number of bytes per slot. The priorities in use are a short vector in ascending order, so that the
//! highest is the last and the usual single priority costs one comparison.

use super::slots::Slots;

/// No slot.
const NIL: u32 = u32::MAX;

/// Every how many takes the oldest ready slot is served instead of the first one of the highest priority.
pub(super) const AGEING_INTERVAL: u64 = 8;

/// One of the two lists that a slot is in.
#[derive(Clone, Copy)]
enum Chain {
    Age = 0,
    Priority = 1,
}

/// Where a slot is in the two lists: its neighbours, by [`Chain`]. Invariant: meaningful only while the slot is ready.
#[derive(Clone, Copy)]
pub(super) struct Link {
    previous: [u32; 2],
    next: [u32; 2],
}

impl Link {
    pub(super) const UNLINKED: Self = Self {
        previous: [NIL; 2],
        next: [NIL; 2],
    };
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL };

struct Level {
    priority: i32,
    list: List,
}

/// The ready slots. Invariant: a slot is in `age` iff it is in the level of its priority; no level is empty. While a slot is
/// ready, nobody else changes its priority.
pub(super) struct Ready {
    age: List,
    /// Ascending by priority.
    levels: Vec<Level>,
    len: usize,
    takes: u64,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self {
            age: EMPTY,
            levels: Vec::new(),
            len: 0,
            takes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot at the end of a priority and makes it the youngest. Precondition: it is not ready.
    #[inline]
    pub(super) fn push<T>(&mut self, slots: &mut Slots<T>, slot: u32, priority: i32) {
        link_last(slots, &mut self.age, Chain::Age, slot);
        self.push_level(slots, slot, priority);
        self.len += 1;
    }

    /// Moves a ready slot to the end of a higher priority; its age stays.
    pub(super) fn raise<T>(&mut self, slots: &mut Slots<T>, slot: u32, priority: i32) {
        self.unlink_level(slots, slot);
        self.push_level(slots, slot, priority);
    }

    /// The next slot to serve.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        let first = self.levels.last()?.list.head;
        let ages = (self.takes + 1).is_multiple_of(AGEING_INTERVAL);
        Some(if ages { self.age.head } else { first })
    }

    /// Removes the slot that [`first`](Self::first) named, because it is served.
    #[inline]
    pub(super) fn serve<T>(&mut self, slots: &mut Slots<T>, slot: u32) {
        self.takes += 1;
        self.remove(slots, slot);
    }

    /// Removes a slot. Precondition: it is ready.
    #[inline]
    pub(super) fn remove<T>(&mut self, slots: &mut Slots<T>, slot: u32) {
        unlink(slots, &mut self.age, Chain::Age, slot);
        self.unlink_level(slots, slot);
        self.len -= 1;
    }

    /// The ready slots from the oldest to the youngest.
    pub(super) fn iter<T>(&self, slots: &Slots<T>) -> impl Iterator<Item = u32> {
        chain(slots, self.age, Chain::Age)
    }

    /// The ready slots as they would be served if nobody aged: the highest priority first, first-in-first-out inside.
    pub(super) fn in_order<T>(&self, slots: &Slots<T>) -> impl Iterator<Item = u32> {
        let levels = self.levels.iter().rev();
        levels.flat_map(move |level| chain(slots, level.list, Chain::Priority))
    }

    #[inline]
    fn level_index(&self, priority: i32) -> Result<usize, usize> {
        match self.levels.last() {
            Some(last) if last.priority == priority => Ok(self.levels.len() - 1),
            _ => self.levels.binary_search_by_key(&priority, |level| level.priority),
        }
    }

    #[inline]
    fn push_level<T>(&mut self, slots: &mut Slots<T>, slot: u32, priority: i32) {
        let index = self.level_index(priority).unwrap_or_else(|index| {
            self.levels.insert(index, Level { priority, list: EMPTY });
            index
        });
        slots[slot].priority = priority;
        link_last(slots, &mut self.levels[index].list, Chain::Priority, slot);
    }

    #[inline]
    fn unlink_level<T>(&mut self, slots: &mut Slots<T>, slot: u32) {
        let Ok(index) = self.level_index(slots[slot].priority) else {
            unreachable!("a ready slot is in the level of its priority");
        };
        let level = &mut self.levels[index];
        unlink(slots, &mut level.list, Chain::Priority, slot);
        if level.list.head == NIL {
            self.levels.remove(index);
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants<T>(&self, slots: &Slots<T>) {
        assert_eq!(self.iter(slots).count(), self.len);
        let mut in_levels = 0;
        assert!(self.levels.is_sorted_by(|a, b| a.priority < b.priority));
        for level in &self.levels {
            assert_ne!(level.list.head, NIL, "no level is empty");
            for slot in chain(slots, level.list, Chain::Priority) {
                assert_eq!(slots[slot].priority, level.priority);
                in_levels += 1;
            }
        }
        assert_eq!(in_levels, self.len);
        assert_eq!(self.in_order(slots).count(), self.len);
    }
}

/// The slots of a list, from its head.
fn chain<T>(slots: &Slots<T>, list: List, chain: Chain) -> impl Iterator<Item = u32> {
    let mut next = list.head;
    std::iter::from_fn(move || {
        let slot = next;
        if slot == NIL {
            return None;
        }
        next = slots[slot].link.next[chain as usize];
        Some(slot)
    })
}

#[inline]
fn link_last<T>(slots: &mut Slots<T>, list: &mut List, chain: Chain, slot: u32) {
    let link = &mut slots[slot].link;
    link.previous[chain as usize] = list.tail;
    link.next[chain as usize] = NIL;
    match list.tail {
        NIL => list.head = slot,
        tail => slots[tail].link.next[chain as usize] = slot,
    }
    list.tail = slot;
}

#[inline]
fn unlink<T>(slots: &mut Slots<T>, list: &mut List, chain: Chain, slot: u32) {
    let Link { previous, next } = slots[slot].link;
    let (previous, next) = (previous[chain as usize], next[chain as usize]);
    match previous {
        NIL => list.head = next,
        previous => slots[previous].link.next[chain as usize] = next,
    }
    match next {
        NIL => list.tail = previous,
        next => slots[next].link.previous[chain as usize] = previous,
    }
}
