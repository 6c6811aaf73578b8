//! The order in which ready slots are served.
//!
//! Owns: which slots are ready, first-in-first-out inside a priority, and the age order that keeps low priorities from
//! starving. Knows slots by number only; keys, delays and waiting tasks are the business of [`super::core`].
//!
//! # Design
//!
//! Every ready slot is in two doubly linked lists that live in one vector of links, indexed by slot: the list of its
//! priority, and the list of all ready slots by age. Taking, raising and removing are O(1) and allocate nothing, there
//! is nothing to clean up later, and memory is a fixed number of bytes per slot. The priorities in use are a short
//! vector in ascending order, so that the highest is the last and the usual single priority costs one comparison.

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

#[derive(Clone, Copy)]
struct Link {
    /// Neighbours, by [`Chain`]. Invariant: meaningful only while the slot is ready.
    previous: [u32; 2],
    next: [u32; 2],
    priority: i32,
}

const UNLINKED: Link = Link {
    previous: [NIL; 2],
    next: [NIL; 2],
    priority: 0,
};

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

/// The ready slots. Invariant: a slot is in `age` iff it is in the level of its link's priority; no level is empty.
pub(super) struct Ready {
    links: Vec<Link>,
    age: List,
    /// Ascending by priority.
    levels: Vec<Level>,
    len: usize,
    takes: u64,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self {
            links: Vec::new(),
            age: EMPTY,
            levels: Vec::new(),
            len: 0,
            takes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for a slot number. Slots are numbered densely, so this grows by one at a time.
    pub(super) fn grow(&mut self) {
        self.links.push(UNLINKED);
    }

    /// Gives memory back. Precondition: nothing is ready and all slots were given up.
    pub(super) fn reset(&mut self) {
        debug_assert_eq!(self.len, 0);
        self.links = Vec::new();
    }

    /// Puts a slot at the end of its priority and makes it the youngest. Precondition: it is not ready.
    pub(super) fn push(&mut self, slot: u32, priority: i32) {
        self.links[slot as usize].priority = priority;
        let Self { links, age, .. } = self;
        link_last(links, age, Chain::Age, slot);
        self.push_level(slot, priority);
        self.len += 1;
    }

    /// Moves a ready slot to the end of a higher priority; its age stays.
    pub(super) fn raise(&mut self, slot: u32, priority: i32) {
        self.unlink_level(slot);
        self.links[slot as usize].priority = priority;
        self.push_level(slot, priority);
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
    pub(super) fn serve(&mut self, slot: u32) {
        self.takes += 1;
        self.remove(slot);
    }

    /// Removes a slot. Precondition: it is ready.
    pub(super) fn remove(&mut self, slot: u32) {
        let Self { links, age, .. } = self;
        unlink(links, age, Chain::Age, slot);
        self.unlink_level(slot);
        self.len -= 1;
    }

    /// The ready slots from the oldest to the youngest.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.age.head;
        std::iter::from_fn(move || {
            let slot = next;
            let link = self.links.get(slot as usize)?;
            next = link.next[Chain::Age as usize];
            Some(slot)
        })
    }

    /// The ready slots as they would be served if nobody aged: the highest priority first, first-in-first-out inside.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.iter().rev().flat_map(move |level| {
            let mut next = level.list.head;
            std::iter::from_fn(move || {
                let slot = next;
                let link = self.links.get(slot as usize)?;
                next = link.next[Chain::Priority as usize];
                Some(slot)
            })
        })
    }

    fn level_index(&self, priority: i32) -> Result<usize, usize> {
        match self.levels.last() {
            Some(last) if last.priority == priority => Ok(self.levels.len() - 1),
            _ => self.levels.binary_search_by_key(&priority, |level| level.priority),
        }
    }

    fn push_level(&mut self, slot: u32, priority: i32) {
        let index = self.level_index(priority).unwrap_or_else(|index| {
            self.levels.insert(index, Level { priority, list: EMPTY });
            index
        });
        link_last(&mut self.links, &mut self.levels[index].list, Chain::Priority, slot);
    }

    fn unlink_level(&mut self, slot: u32) {
        let Ok(index) = self.level_index(self.links[slot as usize].priority) else {
            unreachable!("a ready slot is in the level of its priority");
        };
        let level = &mut self.levels[index];
        unlink(&mut self.links, &mut level.list, Chain::Priority, slot);
        if level.list.head == NIL {
            self.levels.remove(index);
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.iter().count(), self.len);
        let mut in_levels = 0;
        assert!(self.levels.is_sorted_by(|a, b| a.priority < b.priority));
        for level in &self.levels {
            let mut slot = level.list.head;
            assert_ne!(slot, NIL, "no level is empty");
            while slot != NIL {
                assert_eq!(self.links[slot as usize].priority, level.priority);
                in_levels += 1;
                slot = self.links[slot as usize].next[Chain::Priority as usize];
            }
        }
        assert_eq!(in_levels, self.len);
        assert_eq!(self.in_order().count(), self.len);
    }
}

fn link_last(links: &mut [Link], list: &mut List, chain: Chain, slot: u32) {
    let link = &mut links[slot as usize];
    link.previous[chain as usize] = list.tail;
    link.next[chain as usize] = NIL;
    match list.tail {
        NIL => list.head = slot,
        tail => links[tail as usize].next[chain as usize] = slot,
    }
    list.tail = slot;
}

fn unlink(links: &mut [Link], list: &mut List, chain: Chain, slot: u32) {
    let Link { previous, next, .. } = links[slot as usize];
    let (previous, next) = (previous[chain as usize], next[chain as usize]);
    match previous {
        NIL => list.head = next,
        previous => links[previous as usize].next[chain as usize] = next,
    }
    match next {
        NIL => list.tail = previous,
        next => links[next as usize].previous[chain as usize] = previous,
    }
}
