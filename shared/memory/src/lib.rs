//! The allocator of the programs: dlmalloc behind a lock, with a list of free small blocks before it. See docs/small-binaries.md,
//! "Code".

#![warn(missing_docs)]
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

use dlmalloc::Dlmalloc;
use spin::mutex::SpinMutex;
use spin::relax::Yield;

/// A global allocator.
pub struct Memory(SpinMutex<Heap, Yield>);

/// The size of dlmalloc's smallest block, in bytes: a block for less is as large. Most strings need no more.
const SMALL: usize = 24;

struct Heap {
    /// The first free block of at least [`SMALL`] bytes, which begins with the address of the next one.
    free: *mut u8,
    rest: Dlmalloc,
}

// SAFETY: the blocks belong to the heap, whichever thread uses it.
unsafe impl Send for Heap {}

impl Memory {
    /// Returns an allocator without memory; it takes what it needs from the kernel.
    pub const fn empty() -> Memory {
        Memory(SpinMutex::new(Heap { free: null_mut(), rest: Dlmalloc::new() }))
    }
}

fn is_small(layout: Layout) -> bool {
    layout.size() <= SMALL && layout.align() <= align_of::<*mut u8>()
}

// SAFETY: what a caller of these promises is what dlmalloc requires, and the lock is held meanwhile. Each block has at least SMALL
// bytes, whatever its layout says, so that a small one may be in the list; then nothing else refers to it.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock();
        let first = heap.free;
        unsafe {
            if !first.is_null() && is_small(layout) {
                heap.free = first.cast::<*mut u8>().read();
                return first;
            }
            heap.rest.malloc(layout.size().max(SMALL), layout.align())
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { self.0.lock().rest.calloc(layout.size().max(SMALL), layout.align()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe { self.0.lock().rest.realloc(block, layout.size(), layout.align(), size.max(SMALL)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut heap = self.0.lock();
        unsafe {
            if is_small(layout) {
                block.cast::<*mut u8>().write(heap.free);
                heap.free = block;
            } else {
                heap.rest.free(block, layout.size(), layout.align());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static MEMORY: Memory = Memory::empty();

    #[derive(Clone, PartialEq, Debug)]
    #[repr(align(64))]
    struct Aligned([u8; 10]);

    /// Allocates blocks of many sizes, also ones that were larger or smaller before, and zeroed ones, and compares their bytes
    /// when all are there.
    fn fill_blocks(round: usize) {
        let sizes = || (1..120).flat_map(|size| [0, 1, size / 2, 3 * size].map(|before| (size, before)));
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut aligned = Vec::new();
        for (size, before) in sizes() {
            let byte = (size + before + round) as u8;
            let mut block = vec![byte; before];
            block.resize(size, byte);
            block.shrink_to_fit();
            assert!(block.iter().all(|there| *there == byte));
            blocks.push(block);
            let zeroed = vec![0; size];
            assert!(zeroed.iter().all(|there| *there == 0));
            blocks.push(zeroed);
            aligned.push(Box::new(Aligned([byte; 10])));
        }
        for (number, (size, before)) in sizes().enumerate() {
            let byte = (size + before + round) as u8;
            assert_eq!(blocks[2 * number], vec![byte; size]);
            assert_eq!(blocks[2 * number + 1], vec![0; size]);
            assert_eq!(*aligned[number], Aligned([byte; 10]));
            assert_eq!((&raw const *aligned[number]).addr() % 64, 0);
        }
        let mut places: Vec<_> = blocks.iter().map(|block| block.as_ptr_range()).collect();
        places.extend(aligned.iter().map(|block| block.0.as_ptr_range()));
        places.sort_by_key(|place| place.start);
        assert!(places.windows(2).all(|two| two[0].end <= two[1].start));
    }

    #[test]
    fn blocks_do_not_overlap() {
        (0..3).for_each(fill_blocks);
        std::thread::scope(|scope| {
            (0..4).for_each(|round| drop(scope.spawn(move || fill_blocks(round))));
        });
        fill_blocks(4);
    }
}
