//! Address space that is reserved for a guest's memory, and what is mapped in it.
#![expect(
    unsafe_code,
    reason = "maps memory; every mapping lies inside a reservation that its value owns"
)]

use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::{Backing, PRIVATE};
use crate::memory::{HOST_PAGE, MemoryError};

/// The address space itself; it is given back when its [`Space`] and every [`Extent`] are gone.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    /// What an [`Extent`] has mapped over the image and what was grown, as offsets from the base.
    overlaid: Mutex<Vec<Range<usize>>>,
}

// SAFETY: the value owns its address space and does not touch what is mapped in it.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new() -> Result<Self, MemoryError> {
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
        let base = unsafe {
            mm::mmap_anonymous(std::ptr::null_mut(), Space::RESERVED, ProtFlags::empty(), PRIVATE)
        }
        .map_err(|e| MemoryError::new("reserve address space")(e.into()))?;
        Ok(Self {
            base: NonNull::new(base.cast()).expect("a mapping is not at address zero"),
            overlaid: Mutex::default(),
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the address space is this value's own. A space or an extent that could lead
        // to it holds this value.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), Space::RESERVED) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A stretch of address space as large as the largest guest memory and its guard: accessible from its
/// start on as far as the guest reaches, and nothing past that.
#[derive(Debug)]
pub(in crate::memory) struct Space {
    reservation: Arc<Reservation>,
    /// Bytes from the base that can be read and written.
    accessible: usize,
}

impl Space {
    /// The largest 32-bit memory.
    pub(in crate::memory) const CAPACITY: usize = 1 << 32;
    /// wasmtime's default guard on 64-bit hosts.
    const GUARD: usize = 32 << 20;
    /// Address space of a guest: what compiled code relies on.
    pub(in crate::memory) const RESERVED: usize = Self::CAPACITY + Self::GUARD;

    /// Reserves address space.
    pub(in crate::memory) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            reservation: Arc::new(Reservation::new()?),
            accessible: 0,
        })
    }

    /// The address of its first byte.
    pub(in crate::memory) fn base(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    /// Bytes that can be read and written.
    pub(in crate::memory) fn len(&self) -> usize {
        self.accessible
    }

    /// What is in `range`.
    #[cfg(any(memory = "linux", test))]
    pub(in crate::memory) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.accessible);
        // SAFETY: so far the space is mapped, readable and writable (asserted), and it is borrowed
        // exclusively: no guest runs in it meanwhile.
        unsafe {
            let start = self.reservation.base.add(range.start).as_ptr();
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// Leave to map pages over the memory of the guest that lives here; `None` where the system's
    /// pages are larger than those that are set aside.
    pub(in crate::memory) fn extent(&self) -> Option<Extent> {
        (rustix::param::page_size() == HOST_PAGE).then(|| Extent(Arc::clone(&self.reservation)))
    }

    /// What was mapped over by an [`Extent`], of which it knows nothing any more.
    pub(in crate::memory) fn take_overlaid(&mut self) -> Vec<Range<usize>> {
        let overlaid = &self.reservation.overlaid;
        std::mem::take(&mut *overlaid.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes `size` bytes accessible, if they are not; new pages are zero.
    pub(in crate::memory) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        if size <= self.accessible {
            return Ok(());
        }
        if size > Self::CAPACITY {
            let e = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            return Err(MemoryError::new("grow the memory")(e));
        }
        let grown = self.accessible..size;
        // SAFETY: the range lies in this reservation (checked above), where the pages past
        // `accessible` are untouched anonymous ones.
        unsafe {
            let start = self.reservation.base.add(grown.start).as_ptr().cast();
            mm::mprotect(start, grown.len(), MprotectFlags::READ | MprotectFlags::WRITE)
        }
        .map_err(|e| MemoryError::new("grow the memory")(e.into()))?;
        self.accessible = size;
        Ok(())
    }

    /// Maps `range` of `image` where it belongs, over whatever was there or behind the last accessible
    /// byte.
    pub(in crate::memory) fn show(
        &mut self,
        image: &Backing,
        range: Range<usize>,
    ) -> Result<(), MemoryError> {
        assert!(range.start <= range.end && range.end <= image.len().min(Self::CAPACITY));
        assert!(range.start <= self.accessible, "a gap");
        let (file, at) = image.place(range.start);
        // SAFETY: the range lies in this reservation and in the image (asserted), and nothing else uses
        // it.
        unsafe {
            mm::mmap(
                self.reservation.base.add(range.start).as_ptr().cast(),
                range.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                PRIVATE | MapFlags::FIXED,
                file,
                at,
            )
        }
        .map_err(|e| MemoryError::new("map an image")(e.into()))?;
        self.accessible = self.accessible.max(range.end);
        Ok(())
    }

    /// Makes everything from `start` on inaccessible and forgets what was in it.
    pub(in crate::memory) fn discard(&mut self, start: usize) -> Result<(), MemoryError> {
        if start >= self.accessible {
            return Ok(());
        }
        // SAFETY: the range lies in this reservation, which nothing else uses.
        unsafe {
            mm::mmap_anonymous(
                self.reservation.base.add(start).as_ptr().cast(),
                self.accessible - start,
                ProtFlags::empty(),
                PRIVATE | MapFlags::FIXED,
            )
        }
        .map_err(|e| MemoryError::new("release memory")(e.into()))?;
        self.accessible = start;
        Ok(())
    }
}

/// Leave to map pages into one space. It outlives neither the address space, which it holds, nor
/// does it give access to it: whoever maps something brings an exclusive borrow of what is there.
#[derive(Clone, Debug)]
pub(crate) struct Extent(Arc<Reservation>);

impl Extent {
    /// Replaces `target`, whole pages of a resting guest's memory in this space, by a
    /// copy-on-write mapping of `file` from `at` on.
    ///
    /// # Safety
    ///
    /// The file keeps its length, and the bytes that are mapped, until the guest has written to those
    /// pages, another mapping has replaced this one, or the guest is gone.
    pub(crate) unsafe fn map_over(
        &self,
        target: &mut [u8],
        file: &File,
        at: u64,
    ) -> Result<(), MemoryError> {
        let start = (target.as_ptr() as usize).checked_sub(self.0.base.as_ptr() as usize);
        let end = start.and_then(|start| start.checked_add(target.len()));
        let inside = end.is_some_and(|end| end <= Space::CAPACITY);
        let whole_pages = target.len().is_multiple_of(HOST_PAGE);
        let there = at
            .checked_add(target.len() as u64)
            .is_some_and(|end| file.metadata().is_ok_and(|file| end <= file.len()));
        if !(inside && whole_pages && there) {
            let wrong = std::io::Error::from(std::io::ErrorKind::InvalidInput);
            return Err(MemoryError::new("map pages set aside")(wrong));
        }
        // SAFETY: `target` lies in this space's address space (checked), which the reservation
        // keeps from being anybody else's. A slice there is of pages that the guest may read and
        // write, and it is exclusively borrowed, so nobody looks while they are replaced. The new
        // mapping has their length (checked: whole pages) and their protection, so the borrow
        // stays valid and only bytes change; the file has all of them (checked), and keeps them (the
        // caller's promise). The system refuses an address between pages.
        unsafe {
            mm::mmap(
                target.as_mut_ptr().cast(),
                target.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                PRIVATE | MapFlags::FIXED,
                file,
                at,
            )
        }
        .map_err(|e| MemoryError::new("map pages set aside")(e.into()))?;
        let start = start.unwrap_or_default();
        let range = start..start + target.len();
        let mut overlaid = self.0.overlaid.lock().unwrap_or_else(PoisonError::into_inner);
        overlaid.retain(|old| old.start < range.start || range.end < old.end);
        overlaid.push(range);
        Ok(())
    }
}
