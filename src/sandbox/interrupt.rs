//! The soft interrupt: makes CPython run its SIGINT handler at the next bytecode.
#![expect(
    unsafe_code,
    reason = "writes to a guest's memory while its call is suspended and its store is borrowed"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use wasmtime::{AsContext, Memory};

use crate::artifact::image::InterruptAddresses;

/// CPython's `_PY_SIGNALS_PENDING_BIT`.
const SIGNALS_PENDING: u32 = 2;

/// The three words in a guest's memory that represent a pending SIGINT.
#[derive(Debug)]
pub(super) struct Handle {
    tripped: NonNull<AtomicU32>,
    is_tripped: NonNull<AtomicU32>,
    eval_breaker: NonNull<AtomicU32>,
}

// SAFETY: the words belong to the instance that the handle is stored with; they are only accessed
// through `pull` and `release`, under their conditions.
unsafe impl Send for Handle {}
// SAFETY: as above; both are atomic accesses.
unsafe impl Sync for Handle {}

impl Handle {
    /// Locates the words; `None` if an address is not a word inside the memory.
    pub(super) fn new(
        memory: &Memory,
        store: impl AsContext,
        addresses: InterruptAddresses,
    ) -> Option<Self> {
        let length = memory.data_size(&store);
        let base = memory.data_ptr(&store);
        let word = |address: u32| {
            let at = address as usize;
            if !at.is_multiple_of(4) || at.checked_add(4)? > length {
                return None;
            }
            // SAFETY: in bounds of the memory (checked), whose base never moves: the engine is
            // configured so, and a memory never shrinks.
            NonNull::new(unsafe { base.add(at) }.cast())
        };
        Some(Self {
            tripped: word(addresses.tripped)?,
            is_tripped: word(addresses.is_tripped)?,
            eval_breaker: word(addresses.eval_breaker)?,
        })
    }

    /// Makes the interrupt pending.
    ///
    /// # Safety
    ///
    /// The guest must be suspended: its instance is alive, and no thread is inside a poll of the
    /// call that runs it, so that no other code accesses the words.
    pub(super) unsafe fn pull(&self) {
        // SAFETY: the words are in the live instance's memory, and no other code accesses them now
        // (the caller's promise).
        unsafe {
            self.tripped.as_ref().store(1, Ordering::Relaxed);
            self.is_tripped.as_ref().store(1, Ordering::Relaxed);
            self.eval_breaker.as_ref().fetch_or(SIGNALS_PENDING, Ordering::Release);
        }
    }

    /// Clears an interrupt that the guest has not handled.
    ///
    /// # Safety
    ///
    /// As for [`pull`](Self::pull).
    pub(super) unsafe fn release(&self) {
        // SAFETY: as in `pull`.
        unsafe {
            self.tripped.as_ref().store(0, Ordering::Relaxed);
            self.is_tripped.as_ref().store(0, Ordering::Relaxed);
        }
    }
}
