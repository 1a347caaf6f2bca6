//! Gives back to the system what the allocator keeps of interpreters that are gone.
//!
//! An interpreter has some hundred KiB on the heap, in pieces, beside what outlives it: the allocator
//! keeps them for whoever comes next. When many sessions are put away nobody does.

use std::sync::atomic::{AtomicU32, Ordering};

use super::sys;

/// Interpreters after which the heap is looked through: that takes as long as putting one of them away.
const MAX_KEPT: u32 = 32;

/// An interpreter that was kept is gone. It may take some milliseconds, on a thread that may block.
pub(crate) fn note_freed() {
    static FREED: AtomicU32 = AtomicU32::new(0);
    if (FREED.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(MAX_KEPT) {
        sys::trim_heap();
    }
}
