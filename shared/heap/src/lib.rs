//! The memory of our programs. They live for milliseconds, of which musl's own allocator spends a third on asking the
//! kernel for pages, giving them back and asking again. So a small block that is freed is kept, in a list of those
//! of its size, for the next of that size; large ones (an image's user-data) are the C library's, which gives them
//! back to the kernel and lets them grow without copies.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Larger blocks are the C library's.
const LARGEST: usize = 64 << 10;

/// What every small block is aligned to. Nothing of ours asks for more; what does is the C library's.
const ALIGN: usize = 16;

/// Sizes of blocks: eight steps of 16 bytes, then each doubling in four steps.
const SIZES: usize = 8 + 4 * (LARGEST / 128).ilog2() as usize;

/// Small blocks are cut from pieces of this size, of which only what is used costs memory.
const PIECE: usize = 4 * LARGEST;

/// A block that nobody uses holds the address of the next one.
type Link = *mut u8;

struct Lists {
    free: [Link; SIZES],
    /// What is left of the last piece.
    rest: *mut u8,
    left: usize,
}

/// See the module: `#[global_allocator] static MEMORY: heap::Heap = heap::Heap::new();`.
pub struct Heap {
    taken: AtomicBool,
    lists: UnsafeCell<Lists>,
}

// SAFETY: the lists are reached through `with` only, by one thread at a time.
#[allow(unsafe_code)]
unsafe impl Sync for Heap {}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

/// Which of the sizes has room for so many bytes (at most LARGEST).
fn size_index(bytes: usize) -> usize {
    if bytes <= 128 {
        return bytes.saturating_sub(1) / 16;
    }
    let last = bytes - 1;
    let doubling = last.ilog2() as usize - 7;
    8 + 4 * doubling + ((last >> (doubling + 5)) & 3)
}

/// The bytes that a block of this size has; a multiple of ALIGN.
fn size_at(index: usize) -> usize {
    match index.checked_sub(8) {
        None => 16 * (index + 1),
        Some(step) => (32 << (step / 4)) * (4 + step % 4 + 1),
    }
}

fn is_small(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= ALIGN
}

impl Heap {
    pub const fn new() -> Heap {
        let lists = Lists { free: [ptr::null_mut(); SIZES], rest: ptr::null_mut(), left: 0 };
        Heap { taken: AtomicBool::new(false), lists: UnsafeCell::new(lists) }
    }

    /// Threads are rare here, and none holds the lists for longer than a call of the kernel.
    fn with<T>(&self, use_them: impl FnOnce(&mut Lists) -> T) -> T {
        while self.taken.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: `taken` was false: no other thread is here, and `use_them` allocates nothing through `self`.
        #[allow(unsafe_code)]
        let result = use_them(unsafe { &mut *self.lists.get() });
        self.taken.store(false, Ordering::Release);
        result
    }
}

impl Lists {
    /// A block of this size; null when the kernel has no memory.
    fn take(&mut self, index: usize) -> *mut u8 {
        let block = self.free[index];
        if !block.is_null() {
            // SAFETY: what is in a list was put there by `give`, which wrote the link, and nobody uses it since.
            #[allow(unsafe_code)]
            let next = unsafe { block.cast::<Link>().read() };
            self.free[index] = next;
            return block;
        }
        let size = size_at(index);
        if self.left < size {
            // What is left of the old piece, less than one large block, is given up.
            let Ok(layout) = Layout::from_size_align(PIECE, ALIGN) else { return ptr::null_mut() };
            // SAFETY: the size is not zero.
            #[allow(unsafe_code)]
            let piece = unsafe { System.alloc(layout) };
            if piece.is_null() {
                return piece;
            }
            (self.rest, self.left) = (piece, PIECE);
        }
        let block = self.rest;
        // Sizes are multiples of ALIGN, so that every block is aligned as the piece is.
        self.rest = block.wrapping_add(size);
        self.left -= size;
        block
    }

    fn give(&mut self, block: *mut u8, index: usize) {
        // SAFETY: a block that `take` gave for this size, which its user has done with; any has room for a link.
        #[allow(unsafe_code)]
        unsafe {
            block.cast::<Link>().write(self.free[index])
        };
        self.free[index] = block;
    }
}

// SAFETY: by its layout, which the caller repeats when it gives a block back, a block is either `System`'s and only
// `System` deals with it, or one of ours: aligned to ALIGN, of at least its size, cut from a piece once, and in a list
// only while nobody uses it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_small(layout) {
            return self.with(|lists| lists.take(size_index(layout.size())));
        }
        // SAFETY: the caller's layout as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_small(layout) {
            // SAFETY: the caller's layout as it came. Fresh pages are not zeroed twice.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's layout as it came; a block has room for its size.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_small(layout) {
            return self.with(|lists| lists.give(block, size_index(layout.size())));
        }
        // SAFETY: not ours, so it came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `size`, rounded up to the alignment, is a valid size.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_small(layout), is_small(new_layout)) {
            // SAFETY: `System`'s before and after.
            (false, false) => return unsafe { System.realloc(block, layout, size) },
            (true, true) if size_index(layout.size()) == size_index(size) => return block,
            _ => {}
        }
        // SAFETY: the new block has room for what is copied, both are disjoint, and the old one is the caller's.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_room() {
        for bytes in 1..=LARGEST {
            let index = size_index(bytes);
            assert!(size_at(index) >= bytes && size_at(index) % ALIGN == 0, "{bytes}");
            assert!(index == 0 || size_at(index - 1) < bytes, "{bytes} fits into less");
        }
        assert_eq!((size_index(LARGEST), size_at(SIZES - 1)), (SIZES - 1, LARGEST));
        assert_eq!(size_index(0), 0);
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    #[allow(unsafe_code)]
    fn blocks() {
        let heap = Heap::new();
        // SAFETY: each block is used within its size, and given back once with its own layout.
        unsafe {
            let first = heap.alloc(layout(3, 1));
            first.write_bytes(7, 3);
            // Grows where it is as far as its size goes, then moves with what it holds.
            assert_eq!(heap.realloc(first, layout(3, 1), 16), first);
            let moved = heap.realloc(first, layout(16, 1), 100);
            assert_eq!((moved == first, *moved, *moved.add(2)), (false, 7, 7));
            // What was freed is taken again, zeroed if asked for.
            let again = heap.alloc_zeroed(layout(10, 8));
            assert_eq!((again, *again), (first, 0));
            // Into the C library's and back.
            let large = heap.realloc(moved, layout(100, 1), LARGEST + 1);
            let larger = heap.realloc(large, layout(LARGEST + 1, 1), LARGEST * 40);
            assert_eq!(*larger.add(2), 7);
            let small = heap.realloc(larger, layout(LARGEST * 40, 1), 3);
            assert_eq!(*small.add(2), 7);
            heap.dealloc(small, layout(3, 1));
            let aligned = heap.alloc(layout(64, 64));
            assert_eq!(aligned.addr() % 64, 0);
            heap.dealloc(aligned, layout(64, 64));
        }
    }

    /// Blocks of all sizes, kept and freed in turns by several threads: each keeps what its owner wrote.
    #[test]
    #[allow(unsafe_code)]
    fn blocks_are_their_owners() {
        let heap = Heap::new();
        let work = |seed: u64| {
            let mut kept: Vec<(*mut u8, usize)> = Vec::new();
            let mut number = seed;
            for _ in 0..20_000 {
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let size = 1 + (number >> 33) as usize % (1 << (1 + (number >> 20) % 17));
                if kept.len() > 50 {
                    let (block, size) = kept.swap_remove((number >> 40) as usize % kept.len());
                    // SAFETY: a block of this thread, which is given back once.
                    unsafe {
                        assert_eq!((*block, *block.add(size - 1)), (seed as u8, seed as u8));
                        heap.dealloc(block, layout(size, 8));
                    }
                }
                // SAFETY: written within its size.
                unsafe {
                    let block = heap.alloc(layout(size, 8));
                    assert_eq!(block.addr() % ALIGN, 0);
                    block.write_bytes(seed as u8, size);
                    kept.push((block, size));
                }
            }
        };
        std::thread::scope(|scope| {
            for seed in 1..5 {
                scope.spawn(move || work(seed));
            }
        });
    }
}
