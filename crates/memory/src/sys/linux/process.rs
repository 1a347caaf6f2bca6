//! Distinguishes a process from its forked children, and stores values that each process creates
//! for itself.
//!
//! This module takes no locks: a child would wait forever for a lock that another thread held at
//! the time of the fork.
#![expect(
    unsafe_code,
    reason = "maps a page that the kernel empties in a child, and shares it for good"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// Returns a number that differs from those of all ancestor processes.
pub(crate) fn process_number() -> u64 {
    /// The last number assigned, here or before the fork.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some(mark) = mark() else {
        return u64::from(std::process::id());
    };
    match mark.load(Ordering::Acquire) {
        // First call in this process.
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            match mark.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => next,
                Err(other) => other,
            }
        }
        number => number,
    }
}

/// Returns a number that is reset to zero in every forked child; `None` if the kernel does not
/// support such pages.
fn mark() -> Option<&'static AtomicU64> {
    /// Represents a missing page.
    static NONE: AtomicU64 = AtomicU64::new(0);
    static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    let none = std::ptr::from_ref(&NONE).cast_mut();
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let made = page().map_or(none, |page| page.cast().as_ptr());
        // If another thread was faster, this page stays unused.
        mark = MARK
            .compare_exchange(mark, made, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|first| first, |_| made);
    }
    // SAFETY: it points to a static, or to the start of a page that is readable, writable,
    // initially zero and never unmapped, in this process and in its children. An atomic integer may
    // have any bits.
    (mark != none).then(|| unsafe { &*mark })
}

/// Maps a page of zeros, which the kernel zeroes again in every child.
fn page() -> Option<NonNull<u8>> {
    let length = rustix::param::page_size();
    // SAFETY: a new mapping at an address chosen by the system affects no other memory.
    let page = unsafe {
        mm::mmap_anonymous(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let page = page.ok()?;
    // SAFETY: no other code knows the page yet.
    let advised = unsafe { mm::madvise(page, length, Advice::LinuxWipeOnFork) };
    if advised.is_err() {
        // SAFETY: as above.
        let _ = unsafe { mm::munmap(page, length) };
        return None;
    }
    NonNull::new(page.cast())
}

/// A value that each process creates for itself.
pub(super) struct PerProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    process: u64,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns this process's value, and creates it on the first call.
    pub(super) fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        let process = process_number();
        let there = self.0.load(Ordering::Acquire);
        // SAFETY: null, or created below and never freed.
        if let Some(made) = unsafe { there.as_ref() }
            && made.process == process
        {
            return &made.value;
        }
        let own = Box::into_raw(Box::new(Made {
            process,
            value: make(),
        }));
        // An inherited value is not freed: another thread may be reading its number.
        match self.0.compare_exchange(there, own, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the value is shared from here on, and never freed.
            Ok(_) => unsafe { &(*own).value },
            Err(first) => {
                // SAFETY: no other code has seen the pointer.
                drop(unsafe { Box::from_raw(own) });
                // SAFETY: another thread of this process created it, since only those store values
                // here; it is shared and never freed.
                unsafe { &(*first).value }
            }
        }
    }
}
