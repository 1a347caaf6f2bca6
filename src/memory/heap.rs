//! Gives back to the system what the allocator keeps of interpreters that are gone.
//!
//! An interpreter has some hundred KiB on the heap, in pieces, beside what outlives it: the allocator
//! keeps them for whoever comes next. When many sessions are put away nobody does.

/// Other C libraries give back what is freed by themselves, or not at all.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc;

use std::sync::atomic::{AtomicU32, Ordering};

/// Interpreters after which the heap is looked through: that takes as long as putting one of them away.
const MAX_KEPT: u32 = 32;

/// Gives freed memory of this process back to the system, where its allocator can. It takes milliseconds, in
/// which others wait who want memory: for those who have just measured that the process holds too much.
pub fn trim_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::trim();
}

/// An interpreter that was kept is gone. It may take some milliseconds, on a thread that may block.
pub(crate) fn note_freed() {
    static FREED: AtomicU32 = AtomicU32::new(0);
    if (FREED.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(MAX_KEPT) {
        trim_memory();
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

    /// What lies between memory that is in use stays the process's by itself.
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
