//! Distinguishes a process from its forked children. Both have the same memory, but only one of
//! them owns the external resources: files, threads, page tables.

use super::sys;

/// Identity of a process among those related by `fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// Returns the identity of the current process.
    pub fn current() -> Self {
        Self(sys::process_number())
    }

    /// Whether this is the current process.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }
}
