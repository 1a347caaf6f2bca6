//! Address space reserved for a guest's memory, and the mappings in it.
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
use crate::{HOST_PAGE, MemoryError};

/// The reserved address space. It is released when its [`Space`] and all [`Extent`]s are dropped.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    /// Ranges that an [`Extent`] has mapped over the image and the grown memory, as offsets from
    /// the base.
    overlaid: Mutex<Vec<Range<usize>>>,
}

// SAFETY: the value owns its address space and does not access the mappings in it.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new() -> Result<Self, MemoryError> {
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
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
        // SAFETY: the address space is this value's own. Any space or extent that refers to it
        // holds this value.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), Space::RESERVED) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Address space for the largest guest memory and its guard: accessible from its start up to the
/// guest's size, and inaccessible after that.
#[derive(Debug)]
pub(crate) struct Space {
    reservation: Arc<Reservation>,
    /// Number of accessible bytes from the base.
    accessible: usize,
    /// Number of bytes from the base that may use memory. Those past `accessible` are zero.
    used: usize,
    /// Whether a growth failed, perhaps halfway, so that bytes past `accessible` may be accessible.
    is_partial: bool,
}

impl Space {
    /// Maximum size of a 32-bit memory.
    pub(crate) const CAPACITY: usize = 1 << 32;
    /// wasmtime's default guard on 64-bit hosts.
    const GUARD: usize = 32 << 20;
    /// Size of a guest's address space, which compiled code relies on.
    pub(crate) const RESERVED: usize = Self::CAPACITY + Self::GUARD;

    /// Reserves address space.
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            reservation: Arc::new(Reservation::new()?),
            accessible: 0,
            used: 0,
            is_partial: false,
        })
    }

    /// Returns the address of the first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    /// Returns the number of accessible bytes.
    pub(crate) fn len(&self) -> usize {
        self.accessible
    }

    /// Returns the bytes in `range`.
    #[cfg(any(memory = "linux", test))]
    pub(crate) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.accessible);
        // SAFETY: this part of the space is mapped, readable and writable (asserted), and is
        // borrowed exclusively: no guest runs in it meanwhile.
        unsafe {
            let start = self.reservation.base.add(range.start).as_ptr();
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// Returns the permission to map pages over the guest's memory; `None` if the system's pages
    /// are larger than those of a page store.
    pub(crate) fn extent(&self) -> Option<Extent> {
        (rustix::param::page_size() == HOST_PAGE).then(|| Extent(Arc::clone(&self.reservation)))
    }

    /// Takes and clears the list of ranges mapped by an [`Extent`].
    pub(crate) fn take_overlaid(&mut self) -> Vec<Range<usize>> {
        let overlaid = &self.reservation.overlaid;
        std::mem::take(&mut *overlaid.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes at least `size` bytes accessible; new pages are zero.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        if size <= self.accessible {
            return Ok(());
        }
        if size > Self::CAPACITY {
            let e = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            return Err(MemoryError::new("grow the memory")(e));
        }
        let grown = self.accessible..size;
        self.used = self.used.max(size);
        // SAFETY: the range is in this reservation (checked above), where the pages past
        // `accessible` are anonymous ones, untouched or zeroed.
        let made = unsafe {
            let start = self.reservation.base.add(grown.start).as_ptr().cast();
            mm::mprotect(start, grown.len(), MprotectFlags::READ | MprotectFlags::WRITE)
        };
        if let Err(e) = made {
            self.is_partial = true;
            // If this fails too, the pages are discarded with the guest.
            let _ = self.discard(self.accessible);
            return Err(MemoryError::new("grow the memory")(e.into()));
        }
        self.accessible = size;
        Ok(())
    }

    /// Makes all bytes from `start` on inaccessible and keeps their pages for the next growth,
    /// which makes them accessible as they are: `start` must be past all images, and the bytes from
    /// there on must be zero.
    #[cfg(memory = "linux")]
    pub(crate) fn hide(&mut self, start: usize) -> Result<(), MemoryError> {
        if start >= self.accessible {
            return Ok(());
        }
        // SAFETY: the range is in this reservation, which no other code uses.
        unsafe {
            let first = self.reservation.base.add(start).as_ptr().cast();
            mm::mprotect(first, self.accessible - start, MprotectFlags::empty())
        }
        .map_err(|e| MemoryError::new("release memory")(e.into()))?;
        self.accessible = start;
        Ok(())
    }

    /// Returns the number of bytes from the base that may use memory.
    #[cfg(memory = "linux")]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether bytes past the accessible ones may not be zero.
    #[cfg(memory = "linux")]
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Maps `range` of `image` at the same offsets, over previous contents or after the last
    /// accessible byte.
    pub(crate) fn show(&mut self, image: &Backing, range: Range<usize>) -> Result<(), MemoryError> {
        assert!(range.start <= range.end && range.end <= image.len().min(Self::CAPACITY));
        assert!(range.start <= self.accessible, "a gap");
        let (file, at) = image.place(range.start);
        // SAFETY: the range is in this reservation and in the image (asserted), and no other code
        // uses it.
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
        self.used = self.used.max(range.end);
        Ok(())
    }

    /// Makes all bytes from `start` on inaccessible and discards their contents.
    pub(crate) fn discard(&mut self, start: usize) -> Result<(), MemoryError> {
        if start >= self.used {
            return Ok(());
        }
        // SAFETY: the range is in this reservation, which no other code uses.
        unsafe {
            mm::mmap_anonymous(
                self.reservation.base.add(start).as_ptr().cast(),
                self.used - start,
                ProtFlags::empty(),
                PRIVATE | MapFlags::FIXED,
            )
        }
        .map_err(|e| MemoryError::new("release memory")(e.into()))?;
        self.is_partial &= start > self.accessible;
        self.accessible = self.accessible.min(start);
        self.used = start;
        Ok(())
    }
}

/// Permission to map pages into one space. It keeps the address space reserved but gives no access
/// to it: a caller that maps pages must hold an exclusive borrow of the memory.
#[derive(Clone, Debug)]
pub struct Extent(Arc<Reservation>);

impl Extent {
    /// Replaces `target`, whole pages of a resting guest's memory in this space, by a copy-on-write
    /// mapping of `file` at offset `at`.
    ///
    /// # Safety
    ///
    /// The file must keep its length and the mapped bytes until the guest has written to those
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
        // SAFETY: `target` is in this space's address space (checked), which the reservation keeps
        // exclusive. A slice there consists of pages that the guest may read and write, and it is
        // exclusively borrowed, so no code accesses them while they are replaced. The new mapping
        // has their length (checked: whole pages) and their protection, so the borrow stays valid
        // and only bytes change; the file has all of them (checked), and keeps them (the caller's
        // promise). The system rejects an address between pages.
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
