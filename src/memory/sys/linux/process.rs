//! Tells a process from its forked children, and keeps what each of them has to open for itself.
//!
//! Nothing in here waits for a lock: a child would wait for ever for one that another thread had at
//! the moment of the fork.
#![expect(
    unsafe_code,
    reason = "maps a page that the kernel empties in a child, and shares it for good"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// A number that no process has that this one was forked from.
pub(in crate::memory) fn process_number() -> u64 {
    /// The last number given, here or before the fork.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some(mark) = mark() else {
        return u64::from(std::process::id());
    };
    match mark.load(Ordering::Acquire) {
        // The first time in this process.
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

/// A number that is zero again in every forked child; `None` where the kernel has no such page.
fn mark() -> Option<&'static AtomicU64> {
    /// Stands for the page where there is none.
    static NONE: AtomicU64 = AtomicU64::new(0);
    static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    let none = std::ptr::from_ref(&NONE).cast_mut();
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let made = page().map_or(none, |page| page.cast().as_ptr());
        // A page that came second stays, unused.
        mark = MARK
            .compare_exchange(mark, made, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|first| first, |_| made);
    }
    // SAFETY: it points to a static, or to the start of a page that is readable, writable, zero at
    // first and never unmapped, in this process and in children alike. An atomic number may be any.
    (mark != none).then(|| unsafe { &*mark })
}

/// A page of zeros, and of zeros again in every child.
fn page() -> Option<NonNull<u8>> {
    let length = rustix::param::page_size();
    // SAFETY: a new mapping at an address of the system's choice affects no other memory.
    let page = unsafe {
        mm::mmap_anonymous(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let page = page.ok()?;
    // SAFETY: nobody else knows the page yet.
    let advised = unsafe { mm::madvise(page, length, Advice::LinuxWipeOnFork) };
    if advised.is_err() {
        // SAFETY: as above.
        let _ = unsafe { mm::munmap(page, length) };
        return None;
    }
    NonNull::new(page.cast())
}

/// A value that every process makes for itself.
pub(super) struct PerProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    process: u64,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// This process's value, made now if there is none yet.
    pub(super) fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        let process = process_number();
        let there = self.0.load(Ordering::Acquire);
        // SAFETY: null, or made below and never freed.
        if let Some(made) = unsafe { there.as_ref() }
            && made.process == process
        {
            return &made.value;
        }
        let own = Box::into_raw(Box::new(Made {
            process,
            value: make(),
        }));
        // One that was inherited stays: another thread may be looking at its number.
        match self.0.compare_exchange(there, own, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it is shared from here on, and never freed.
            Ok(_) => unsafe { &(*own).value },
            Err(first) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(own) });
                // SAFETY: made by another thread of this process, for only those store here; shared
                // and never freed.
                unsafe { &(*first).value }
            }
        }
    }
}
