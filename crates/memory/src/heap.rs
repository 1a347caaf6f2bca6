//! Returns free memory of the allocator to the system after interpreters were dropped.
//!
//! An interpreter uses several hundred KiB of heap in small pieces, mixed with longer-lived data.
//! The allocator keeps freed pieces for later interpreters. When many sessions are suspended, no
//! later interpreter uses them.

/// Other C libraries return freed memory by themselves, or never.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc;

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of dropped interpreters before the heap is trimmed: trimming takes as long as suspending
/// one.
const MAX_KEPT: u32 = 32;

/// Returns this process's freed memory to the system, if its allocator can, and memory that pools
/// keep for the growth of later sandboxes. It takes milliseconds during which other allocations
/// wait. Call it if the process has been measured to use too much memory.
pub fn trim_memory() {
    super::pool::release_kept();
    trim();
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::trim();
}

/// Records that a session's interpreter was dropped. It may take some milliseconds, on a thread
/// that may block.
pub fn note_freed() {
    static FREED: AtomicU32 = AtomicU32::new(0);
    if (FREED.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(MAX_KEPT) {
        trim();
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// By itself, the allocator keeps free memory between pieces in use.
    #[test]
    fn memory_that_is_free_is_given_back() {
        let before = resident();
        let mut blocks: Vec<_> = (0..4096).map(|number| vec![number as u8; MIB / 16]).collect();
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 64 == 0
        });
        let kept = resident();
        assert!(kept > before + 128 * MIB, "{before} {kept}");
        trim_memory();
        let trimmed = resident();
        assert!(trimmed + 128 * MIB < kept, "{kept} {trimmed} {}", blocks.len());
    }
}
