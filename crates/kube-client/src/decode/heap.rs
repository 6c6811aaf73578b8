//! Asking the allocator for the room of many small pieces in one.

/// So much JSON at a time.
const TEXT: usize = 16 << 10;
/// About what the objects of so much text take in memory: pods take some five times their JSON. Below the 128 KiB from which
/// glibc's allocator would map it apart.
const OBJECTS: usize = 96 << 10;

/// Makes room for objects before they are decoded: glibc's allocator grows the heap of a thread that is not the main one by what is
/// asked for, page by page, with a system call each; asking for more, and giving it back at once, makes one call of twenty.
#[derive(Debug, Default)]
pub(crate) struct HeapAhead {
    // Text for which there is room.
    left: usize,
}

impl HeapAhead {
    /// The objects of so much text are decoded next.
    pub(crate) fn expect(&mut self, bytes: usize) {
        if bytes > self.left {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(OBJECTS)));
            self.left = TEXT;
        }
        self.left = self.left.saturating_sub(bytes);
    }
}
