//! Tells a process from its forked children. Both have everything in memory, but only one of them
//! owns what it stands for elsewhere: files, threads, page tables.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sys;

/// A process, told from those that it was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

/// The first process that asked for its number, or zero; children inherit it.
static FIRST: AtomicU64 = AtomicU64::new(0);

impl Process {
    pub(crate) fn current() -> Self {
        let number = sys::process_number();
        if FIRST.load(Ordering::Relaxed) == 0 {
            let _ = FIRST.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        }
        Self(number)
    }

    /// Whether this is it.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Whether one that this process was forked from has used this library before. Threads that
    /// were started there are not here.
    pub(crate) fn is_forked() -> bool {
        let current = Self::current();
        FIRST.load(Ordering::Relaxed) != current.0
    }
}
