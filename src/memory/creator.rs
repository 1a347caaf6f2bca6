//! Serves wasmtime's requests for linear memories.
#![expect(
    unsafe_code,
    reason = "wasmtime's traits for host memory are unsafe to implement: compiled code trusts them"
)]

use std::cell::RefCell;

use belljar_memory::Slot;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

thread_local! {
    /// The slot for the current instantiation on this thread. wasmtime's trait has no parameter to
    /// pass it.
    static NEXT: RefCell<Option<Slot>> = const { RefCell::new(None) };
}

/// Memory creator for wasmtime.
#[derive(Debug)]
pub(crate) struct Creator;

impl Creator {
    /// Uses `slot` as the memory of the instantiation that `instantiate` performs. Because
    /// `instantiate` is synchronous, no other code runs on this thread meanwhile, and no other
    /// sandbox can take the slot. An unused slot is returned to the pool, even after an error or
    /// panic.
    pub(crate) fn provide<T>(slot: Option<Slot>, instantiate: impl FnOnce() -> T) -> T {
        struct TakeBack(Option<Slot>);
        impl Drop for TakeBack {
            fn drop(&mut self) {
                NEXT.replace(self.0.take());
            }
        }
        // Restores the slot of an enclosing instantiation.
        let _take_back = TakeBack(NEXT.replace(slot));
        instantiate()
    }
}

// SAFETY: the contract is that the memory is at least as large as requested, zero except for the
// image, and that `reserved + guard` bytes from its base belong to this memory alone and are
// inaccessible past its size. For the module's memory, `Slot` ensures this with a private mapping
// of `Slot::RESERVED` bytes, checked here against the request. The only other memory is the heap
// of exception objects, for which the engine is configured with no reservation and no guard
// (`artifact::config`), so that its accesses are bounds-checked, and it may move.
unsafe impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if minimum == 0 && guard == 0 {
            return Ok(Box::new(ExceptionHeap(Vec::new())));
        }
        let slot = NEXT.take().ok_or("a memory was asked for outside an instantiation")?;
        if reserved.unwrap_or(0).saturating_add(guard) > Slot::RESERVED || minimum > slot.len() {
            return Err("the engine asks for more memory than a slot reserves".into());
        }
        Ok(Box::new(Memory(slot)))
    }
}

/// The memory of the module.
struct Memory(Slot);

// SAFETY: a slot's base never moves, `len` bytes from it are readable and writable, and the rest of
// its reservation is not accessible.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.0.len()
    }

    fn byte_capacity(&self) -> usize {
        Slot::CAPACITY
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        Ok(self.0.grow(new_size)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.base()
    }
}

/// The heap of wasm exceptions: small, usually empty, and bounds-checked by compiled code.
struct ExceptionHeap(Vec<u8>);

// SAFETY: the vector's buffer is at least `len` bytes long, zeroed, and moves only in `grow_to`,
// which the engine's configuration allows for this heap.
unsafe impl LinearMemory for ExceptionHeap {
    fn byte_size(&self) -> usize {
        self.0.len()
    }

    fn byte_capacity(&self) -> usize {
        self.0.capacity()
    }

    fn grow_to(&mut self, new_size: usize) -> wasmtime::Result<()> {
        let more = new_size.saturating_sub(self.0.len());
        self.0.try_reserve(more).map_err(|_| wasmtime::format_err!("no memory for exceptions"))?;
        self.0.resize(new_size.max(self.0.len()), 0);
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_memory::{Pool, Source, Strategy};
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const PAGE: usize = 65_536;

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it is asked for as the engine has it"
    )]
    fn slot() -> Option<Slot> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; PAGE]).unwrap();
        match Source::from_file(Strategy::Map, file, 0, PAGE).unwrap() {
            Source::Mapped(image) => Some(Pool::new(0).lasting(&image).unwrap()),
            Source::Copied(_) => panic!("this system maps no images"),
        }
    }

    fn ask(bytes: usize) -> Result<Box<dyn LinearMemory>, String> {
        Creator.new_memory(MemoryType::new(1, None), bytes, None, None, 0)
    }

    #[test]
    fn a_slot_is_had_within_its_instantiation_only() {
        assert!(ask(PAGE).is_err());
        Creator::provide(slot(), || {
            assert_eq!(ask(PAGE).unwrap().byte_size(), PAGE);
            assert!(ask(PAGE).is_err(), "two memories of one slot");
        });
        assert!(ask(PAGE).is_err());
        Creator::provide(slot(), || ());
        assert!(ask(PAGE).is_err(), "one that was not taken");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Creator::provide(slot(), || panic!("on purpose"));
        }));
        assert!(panicked.is_err() && ask(PAGE).is_err(), "one whose instantiation panicked");
    }

    #[test]
    fn no_instantiation_takes_the_slot_of_another() {
        Creator::provide(slot(), || {
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(ask(PAGE).is_err(), "on another thread"));
            });
            Creator::provide(None, || assert!(ask(PAGE).is_err(), "within this one"));
            assert!(ask(PAGE).is_ok());
        });
    }

    #[test]
    fn more_than_a_slot_has_is_refused() {
        Creator::provide(slot(), || assert!(ask(PAGE + 1).is_err()));
        let huge = Some(Slot::RESERVED + 1);
        Creator::provide(slot(), || {
            let memory = Creator.new_memory(MemoryType::new(1, None), PAGE, None, huge, 0);
            assert!(memory.is_err());
        });
    }
}
