//! A set of slots, one bit each.

/// Slots of a store.
#[derive(Debug, Default)]
pub(super) struct Slots {
    words: Vec<u64>,
    // Invariant: the number of bits that are set.
    len: usize,
}

fn place(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    // Asked for each event by code that is compiled in the user's crate, as `set` is.
    #[inline]
    pub(super) fn contains(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Puts the slot in or takes it out; whether it was in.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, to: bool) -> bool {
        let (at, bit) = place(slot);
        if at >= self.words.len() {
            if !to {
                return false;
            }
            self.words.resize(at + 1, 0);
        }
        let word = &mut self.words[at];
        let was = *word & bit != 0;
        if to {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        self.len = self.len + usize::from(to) - usize::from(was);
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_a_set() {
        let mut slots = Slots::default();
        assert!(!slots.contains(1000) && !slots.set(1000, false));
        for slot in [0, 63, 64, 1000, 63] {
            assert_eq!(slots.set(slot, true), slot == 63 && slots.len() == 4);
        }
        assert!(slots.contains(63) && slots.contains(64) && !slots.contains(65));
        assert_eq!(slots.len(), 4);
        assert!(slots.set(63, false) && !slots.set(63, false) && !slots.contains(63));
        assert_eq!(slots.len(), 3);
    }
}
