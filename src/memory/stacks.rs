//! Serves wasmtime's requests for stacks. wasmtime itself would map a stack for each sandbox and
//! unmap it at the end.
#![expect(
    unsafe_code,
    reason = "wasmtime's traits for host stacks are unsafe to implement"
)]

use std::ops::Range;
use std::sync::Arc;

use belljar_memory::{Stack, Stacks};
use wasmtime::{StackCreator, StackMemory};

/// Returns a stack creator for wasmtime; `None` if its own is as good.
pub(crate) fn stack_creator() -> Option<Arc<dyn StackCreator>> {
    Some(Arc::new(Creator(Stacks::new()?)))
}

struct Creator(Stacks);

// SAFETY: the contract is that a stack is page-aligned, zero, at least as large as requested, has
// inaccessible memory below it, and is used by no other code: `Stacks::take` promises all of that.
unsafe impl StackCreator for Creator {
    fn new_stack(&self, size: usize, _zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        Ok(Box::new(Memory(self.0.take(size)?)))
    }
}

struct Memory(Stack);

// SAFETY: the ranges belong to a stack that lives as long as this value and does not move.
unsafe impl StackMemory for Memory {
    fn top(&self) -> *mut u8 {
        self.0.top()
    }

    fn range(&self) -> Range<usize> {
        self.0.range()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        self.0.guard()
    }
}
