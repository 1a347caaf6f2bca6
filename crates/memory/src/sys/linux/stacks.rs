//! Stacks of guests, reused between runs.
//!
//! Unmapping a stack would interrupt every processor that runs a thread of this process.
#![expect(unsafe_code, reason = "maps, clears and unmaps stacks")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::{MemoryError, Process};

/// Size of the inaccessible guard below a stack, in bytes: a multiple of every page size.
const GUARD: usize = 64 << 10;
/// Bytes at the top of an idle stack that stay resident. A short run uses a third of them.
const MAX_RESIDENT: usize = 64 << 10;
/// Maximum number of idle stacks.
const MAX_IDLE: usize = 64;

/// Idle stacks of the process's guests.
#[derive(Debug, Default)]
pub struct Stacks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    idle: Mutex<Vec<Mapping>>,
    /// In a forked process, the lock may be held forever.
    process: Process,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            idle: Mutex::default(),
            process: Process::current(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stacks {
    /// Creates an empty set of stacks, if the system has stacks worth reusing.
    pub fn new() -> Option<Self> {
        Some(Self::default())
    }

    /// Returns a stack of at least `size` bytes, all zero, that nothing else uses.
    ///
    /// # Errors
    ///
    /// If the system has no memory left.
    pub fn take(&self, size: usize) -> Result<Stack, MemoryError> {
        let kept = self.shared.lock().pop_if(|mapping| mapping.size >= size);
        let mapping = kept.map_or_else(|| Mapping::new(size), Ok)?;
        Ok(Stack {
            mapping: Some(mapping),
            shared: Arc::clone(&self.shared),
        })
    }
}

/// The stack of one sandbox. Dropping it returns the mapping.
#[derive(Debug)]
pub struct Stack {
    /// `None` only during drop.
    mapping: Option<Mapping>,
    shared: Arc<Shared>,
}

impl Stack {
    /// Returns the end of the stack, aligned to a page: stacks grow down.
    pub fn top(&self) -> *mut u8 {
        self.mapping().top()
    }

    /// Returns the addresses of the stack, which do not change.
    pub fn range(&self) -> Range<usize> {
        let top = self.top() as usize;
        top - self.mapping().size..top
    }

    /// Returns the inaccessible memory below the stack.
    pub fn guard(&self) -> Range<*mut u8> {
        let base = self.mapping().base.as_ptr();
        base..base.wrapping_add(GUARD)
    }

    fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("a stack has its mapping until it is dropped")
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let Some(mut mapping) = self.mapping.take() else {
            return;
        };
        if self.shared.process.is_current() && mapping.clear().is_ok() {
            let mut idle = self.shared.lock();
            if idle.len() < MAX_IDLE {
                idle.push(mapping);
            }
        }
    }
}

/// A guard with a stack above it.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    /// Bytes above the guard: a multiple of its size.
    size: usize,
}

// SAFETY: a mapping owns its memory; only the sandbox that runs on it shares the pointer.
unsafe impl Send for Mapping {}
// SAFETY: shared references expose addresses only; code that dereferences them has its own
// argument.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(size: usize) -> Result<Self, MemoryError> {
        let failed = |e: rustix::io::Errno| MemoryError::new("map a stack")(e.into());
        let too_large = || failed(rustix::io::Errno::NOMEM);
        let size = size.max(1).checked_next_multiple_of(GUARD).ok_or_else(too_large)?;
        let length = size.checked_add(GUARD).ok_or_else(too_large)?;
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
        let base = unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(failed)?;
        let base = NonNull::new(base.cast()).expect("a mapping is not at address zero");
        let mapping = Self { base, size };
        // SAFETY: the range is the upper part of the new mapping, which no code uses yet.
        unsafe {
            let above = base.add(GUARD).as_ptr().cast();
            mm::mprotect(above, size, MprotectFlags::READ | MprotectFlags::WRITE)
        }
        .map_err(failed)?;
        Ok(mapping)
    }

    fn top(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(GUARD + self.size)
    }

    /// Zeroes the whole stack.
    fn clear(&mut self) -> rustix::io::Result<()> {
        let kept = self.size.min(MAX_RESIDENT);
        // SAFETY: both ranges are in this mapping, above its guard, and no sandbox runs on it:
        // `&mut self` belongs to the `Stack` being dropped.
        unsafe {
            let start = self.base.add(GUARD);
            if self.size > kept {
                // If nothing was used, this costs nothing and interrupts no processor.
                mm::madvise(start.as_ptr().cast(), self.size - kept, Advice::LinuxDontNeed)?;
            }
            start.add(self.size - kept).write_bytes(0, kept);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it outlives the value.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), GUARD + self.size) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    fn bytes(stack: &mut Stack) -> &mut [u8] {
        let range = stack.range();
        // SAFETY: the range is mapped, and only this test uses it.
        unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, range.len()) }
    }

    #[test]
    fn a_stack_is_zero_however_much_of_it_was_used() {
        let stacks = Stacks::default();
        let mut tops = Vec::new();
        for used in [SIZE, 100, MAX_RESIDENT, MAX_RESIDENT + 1, SIZE] {
            let mut stack = stacks.take(SIZE).unwrap();
            let all = bytes(&mut stack);
            assert_eq!(all.len(), SIZE);
            assert!(all.iter().all(|byte| *byte == 0));
            all[SIZE - used..].fill(0xab);
            tops.push(stack.top());
        }
        assert!(tops.iter().all(|top| *top == tops[0]), "one stack was enough");
    }

    #[test]
    fn what_is_below_a_stack_is_inaccessible() {
        let stacks = Stacks::default();
        let stack = stacks.take(SIZE).unwrap();
        let guard = stack.guard();
        assert_eq!(guard.end as usize, stack.range().start);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line =
            maps.lines().find(|line| line.starts_with(&format!("{:x}-", guard.start as usize)));
        assert!(line.is_some_and(|line| line.contains("---p")), "{line:?}");
    }

    #[test]
    fn stacks_that_are_in_use_are_different() {
        let stacks = Stacks::default();
        let all: Vec<_> = (0..MAX_IDLE + 8).map(|_| stacks.take(SIZE).unwrap()).collect();
        let mut starts: Vec<_> = all.iter().map(|stack| stack.range().start).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SIZE + GUARD));
        drop(all);
        assert_eq!(stacks.shared.lock().len(), MAX_IDLE);
    }
}
