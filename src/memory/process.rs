//! Tells a process from its forked children. Both have everything in memory, but only one of them
//! owns what it stands for elsewhere: files, threads, page tables.

use super::sys;

/// A process, told from those that it was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    pub(crate) fn current() -> Self {
        Self(sys::process_number())
    }

    /// Whether this is it.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}
