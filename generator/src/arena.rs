//! The memory of the program (the local stage, which has the library too, keeps its own allocator). A generator
//! lives for a millisecond, of which asking the kernel for memory and giving it back page by page was a third: so
//! blocks are cut from one piece that is never given back, and what does not fit goes to the C library. Bad
//! input therefore costs no more memory than without it, but for the piece itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A usual run takes half of it; pages that nothing was written to cost nothing.
const SIZE: usize = 256 << 10;

/// Larger blocks are few, and mostly never used up.
const LARGEST: usize = SIZE / 4;

#[repr(align(16))]
struct Piece(UnsafeCell<[u8; SIZE]>);

/// See the module.
pub struct Arena {
    piece: Piece,
    /// Bytes that are taken, from the start.
    taken: AtomicUsize,
}

// SAFETY: each block is handed out once (`taken` changes by compare-and-exchange only), and the arena itself never
// looks into one but in `realloc`, whose caller owns it.
#[allow(unsafe_code)]
unsafe impl Sync for Arena {}

impl Arena {
    pub const fn new() -> Arena {
        Arena { piece: Piece(UnsafeCell::new([0; SIZE])), taken: AtomicUsize::new(0) }
    }

    fn start(&self) -> usize {
        self.piece.0.get().addr()
    }

    /// Where in the piece this block is, if it is.
    fn offset(&self, block: *mut u8) -> Option<usize> {
        block.addr().checked_sub(self.start()).filter(|offset| *offset < SIZE)
    }

    /// Takes a block; `None` when it does not fit.
    fn take(&self, layout: Layout) -> Option<usize> {
        if layout.size() > LARGEST {
            return None;
        }
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            // Aligned as an address, not as an offset.
            let begin = (self.start() + taken).checked_next_multiple_of(layout.align())? - self.start();
            let end = begin.checked_add(layout.size()).filter(|end| *end <= SIZE)?;
            match self.taken.compare_exchange_weak(taken, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(begin),
                Err(now) => taken = now,
            }
        }
    }

    /// Moves the end of the block that was taken last; `false` when it was another one, or there is no room.
    fn resize_last(&self, begin: usize, old: usize, new: usize) -> bool {
        let Some(end) = begin.checked_add(new).filter(|end| *end <= SIZE) else { return false };
        self.taken.compare_exchange(begin + old, end, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: a block is either `System`'s, and then only `System` deals with it, or lies in the piece: aligned and
// within its bounds (`take`), disjoint from all others, and valid as long as the program.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            // SAFETY: `begin` is within the piece.
            Some(begin) => unsafe { self.piece.0.get().cast::<u8>().add(begin) },
            // SAFETY: the caller's layout as it came.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.offset(block) {
            Some(begin) => {
                self.resize_last(begin, layout.size(), 0);
            }
            // SAFETY: not ours, so it came from `System` with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(begin) = self.offset(block) else {
            // SAFETY: not ours, so it came from `System` with this layout.
            return unsafe { System.realloc(block, layout, size) };
        };
        if self.resize_last(begin, layout.size(), size) || size <= layout.size() {
            return block;
        }
        // SAFETY: the caller guarantees that `size`, rounded up to the alignment, is a valid size; the new block
        // has room for what the old one holds, and both are disjoint.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size());
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn blocks() {
        let arena = Box::new(Arena::new());
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        // SAFETY: each block is used within its size, and given back once with its own layout.
        unsafe {
            let first = arena.alloc(layout(3, 1));
            first.write_bytes(7, 3);
            let second = arena.alloc(layout(8, 64));
            assert_eq!(second.addr() % 64, 0);
            // Not the last one: it moves, with what it holds.
            let moved = arena.realloc(first, layout(3, 1), 100);
            assert_eq!((moved.addr() > second.addr(), *moved, *moved.add(2)), (true, 7, 7));
            // The last one grows and shrinks where it is, and what it leaves is taken again.
            assert_eq!(arena.realloc(moved, layout(100, 1), 5000), moved);
            assert_eq!(arena.realloc(moved, layout(5000, 1), 10), moved);
            arena.dealloc(moved, layout(10, 1));
            assert_eq!(arena.alloc(layout(1, 1)), moved);
            // Zeroed also where something was before.
            arena.dealloc(moved, layout(1, 1));
            let zeroed = arena.alloc_zeroed(layout(3, 1));
            assert_eq!((zeroed, *zeroed), (moved, 0));
            // What is large, or does not fit any more, is the C library's.
            let large = arena.alloc(layout(LARGEST + 1, 8));
            assert!(arena.offset(large).is_none());
            let large = arena.realloc(large, layout(LARGEST + 1, 8), LARGEST * 2);
            arena.dealloc(large, layout(LARGEST * 2, 8));
            for _ in 0..1000 {
                let block = arena.alloc(layout(1000, 1));
                assert!(!block.is_null());
                block.write_bytes(1, 1000);
            }
            let last = arena.alloc(layout(1000, 1));
            assert!(arena.offset(last).is_none());
            System.dealloc(last, layout(1000, 1));
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn threads_get_blocks_of_their_own() {
        let arena = Arena::new();
        let blocks = std::thread::scope(|scope| {
            let one = || {
                let layout = Layout::from_size_align(24, 8).unwrap();
                // SAFETY: the blocks are not written to.
                (0..1000).map(|_| unsafe { arena.alloc(layout) }.addr()).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
        });
        let mut sorted = blocks.clone();
        sorted.sort();
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 24), "blocks overlap");
    }
}
