//! The allocator of every program: dlmalloc, with a list of small blocks before it. See docs/small-binaries.md, "Code".
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

use dlmalloc::Dlmalloc;
use spin::mutex::SpinMutex;
use spin::relax::Yield;

#[global_allocator]
static MEMORY: Memory = Memory(SpinMutex::new(Heap { free: null_mut(), rest: Dlmalloc::new() }));

struct Memory(SpinMutex<Heap, Yield>);

/// The size of dlmalloc's smallest block, in bytes. A block for a smaller request has this size too.
const SMALL: usize = 24;

struct Heap {
    /// The first free block of [`SMALL`] bytes, which begins with the address of the next one.
    free: *mut u8,
    rest: Dlmalloc,
}

// SAFETY: the list belongs to the heap.
unsafe impl Send for Heap {}

fn is_small(layout: Layout) -> bool {
    layout.size() <= SMALL && layout.align() <= align_of::<*mut u8>()
}

// SAFETY: what a caller of these promises is what dlmalloc requires, and the lock is held meanwhile. A block whose layout is small
// has at least SMALL bytes, so that it may be in the list; nothing else refers to one that is in it.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock();
        let first = heap.free;
        unsafe {
            if is_small(layout) && !first.is_null() {
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
                return;
            }
            heap.rest.free(block, layout.size(), layout.align());
        }
    }
}
