//! Address space reserved for a guest's memory, and the mappings in it.
#![expect(
    unsafe_code,
    reason = "maps memory; every mapping lies inside a reservation that its value owns"
)]

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_PRESERVE_PLACEHOLDER, MEM_RELEASE, MEM_REPLACE_PLACEHOLDER,
    MEM_RESERVE, MEM_RESERVE_PLACEHOLDER, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile3,
    PAGE_NOACCESS, PAGE_READWRITE, PAGE_WRITECOPY, UnmapViewOfFile2, VirtualAlloc, VirtualAlloc2,
    VirtualFree,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::Backing;
use crate::MemoryError;
use crate::sys::mapping::Extent;

/// The reserved address space. It starts with a window for an image of a fixed length, filled by a
/// view or a placeholder. Reserved memory follows, part of which is committed.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    window: usize,
    /// Whether the window has a view.
    is_shown: bool,
}

// SAFETY: the value owns its address space and does not access the mappings in it.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves address space with a window of `window` bytes, a multiple of 64 KiB less than
    /// [`Space::RESERVED`].
    fn new(window: usize) -> Result<Self, MemoryError> {
        let failed = || MemoryError::new("reserve address space")(io::Error::last_os_error());
        assert!(window < Space::RESERVED);
        let kind = if window == 0 {
            MEM_RESERVE
        } else {
            MEM_RESERVE | MEM_RESERVE_PLACEHOLDER
        };
        let base = allocate(ptr::null_mut(), Space::RESERVED, kind);
        let mut reserved = Self {
            base: NonNull::new(base.cast()).ok_or_else(failed)?,
            window: 0,
            is_shown: false,
        };
        if window == 0 {
            return Ok(reserved);
        }
        // SAFETY: the placeholder is new and empty; the call splits it into two.
        if unsafe { VirtualFree(base, window, MEM_RELEASE | MEM_PRESERVE_PLACEHOLDER) } == 0 {
            return Err(failed());
        }
        reserved.window = window;
        let kind = MEM_RESERVE | MEM_REPLACE_PLACEHOLDER;
        if allocate(reserved.at(window), Space::RESERVED - window, kind).is_null() {
            return Err(failed());
        }
        Ok(reserved)
    }

    /// Returns the address at `offset`, which may be the end.
    fn at(&self, offset: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }

    /// Maps `image`, which has the length of the window, into the window.
    fn show(&mut self, image: &Backing) -> Result<(), MemoryError> {
        assert!(image.len() == self.window);
        self.clear()?;
        let (section, offset) = image.place();
        // SAFETY: the window is this value's own and contains a placeholder of that length. The
        // call replaces the placeholder by the view, or fails.
        let view = unsafe {
            MapViewOfFile3(
                section,
                GetCurrentProcess(),
                self.at(0),
                offset,
                self.window,
                MEM_REPLACE_PLACEHOLDER,
                PAGE_WRITECOPY,
                ptr::null_mut(),
                0,
            )
        };
        if view.Value.is_null() {
            return Err(MemoryError::new("map an image")(io::Error::last_os_error()));
        }
        self.is_shown = true;
        Ok(())
    }

    /// Removes the view from the window, and keeps the address space.
    fn clear(&mut self) -> Result<(), MemoryError> {
        if self.is_shown {
            self.unmap(MEM_PRESERVE_PLACEHOLDER)?;
        }
        Ok(())
    }

    fn unmap(&mut self, flags: u32) -> Result<(), MemoryError> {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: self.at(0) };
        // SAFETY: the view is this value's own, and its users borrow the value.
        if unsafe { UnmapViewOfFile2(GetCurrentProcess(), view, flags) } == 0 {
            return Err(MemoryError::new("release memory")(io::Error::last_os_error()));
        }
        self.is_shown = false;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the address space is this value's own, and any space that refers to it holds this
        // value.
        let release = |start: *mut c_void| unsafe { VirtualFree(start, 0, MEM_RELEASE) } != 0;
        let mut released = release(self.at(self.window));
        if self.is_shown {
            released &= self.unmap(0).is_ok();
        } else if self.window > 0 {
            released &= release(self.at(0));
        }
        debug_assert!(released);
    }
}

/// Reserves inaccessible memory: at an address chosen by the system, or in place of a placeholder.
fn allocate(at: *mut c_void, length: usize, kind: u32) -> *mut c_void {
    // SAFETY: the call takes only free address space, or a placeholder of that length.
    unsafe {
        VirtualAlloc2(GetCurrentProcess(), at, length, kind, PAGE_NOACCESS, ptr::null_mut(), 0)
    }
}

/// Address space for the largest guest memory and its guard: accessible from its start up to the
/// guest's size, and inaccessible after that.
#[derive(Debug)]
pub(crate) struct Space {
    reservation: Reservation,
    /// Number of accessible bytes from the base.
    accessible: usize,
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
            reservation: Reservation::new(0)?,
            accessible: 0,
        })
    }

    /// Returns the address of the first byte. It changes with the length of the image.
    pub(crate) fn base(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    /// Returns the number of accessible bytes.
    pub(crate) fn len(&self) -> usize {
        self.accessible
    }

    /// Returns the bytes in `range`.
    #[cfg(test)]
    pub(crate) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.accessible);
        // SAFETY: this part of the space is mapped, readable and writable (asserted), and is
        // borrowed exclusively: no guest runs in it meanwhile.
        unsafe {
            let start = self.base().add(range.start);
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// Returns `None`: single pages cannot be mapped.
    pub(crate) fn extent(&self) -> Option<Extent> {
        None
    }

    /// Does nothing: no mappings are placed over the image.
    pub(crate) fn take_overlaid(&mut self) {}

    /// Makes at least `size` bytes accessible; new pages are zero.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        if size <= self.accessible {
            return Ok(());
        }
        if size > Self::CAPACITY || self.accessible < self.reservation.window {
            return Err(MemoryError::new("grow the memory")(io::ErrorKind::OutOfMemory.into()));
        }
        let start = self.reservation.at(self.accessible);
        let length = size - self.accessible;
        // SAFETY: the range is in this reservation after the window (checked above), in reserved
        // memory that is not accessible yet.
        if unsafe { VirtualAlloc(start, length, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
            return Err(MemoryError::new("grow the memory")(io::Error::last_os_error()));
        }
        self.accessible = size;
        Ok(())
    }

    /// Maps all of `image` at the start, replacing the previous mapping.
    pub(crate) fn show(&mut self, image: &Backing, range: Range<usize>) -> Result<(), MemoryError> {
        assert!(range == (0..image.len()) && range.end <= Self::CAPACITY);
        self.discard(range.end)?;
        // Until the new mapping exists, no byte is accessible.
        self.accessible = 0;
        if self.reservation.window != range.end {
            self.reservation = Reservation::new(range.end)?;
        }
        self.reservation.show(image)?;
        self.accessible = range.end;
        Ok(())
    }

    /// Makes all bytes from `start` on inaccessible and discards their contents; `start` is the end
    /// of the image, or zero.
    pub(crate) fn discard(&mut self, start: usize) -> Result<(), MemoryError> {
        let window = self.reservation.window;
        if self.accessible > window {
            let length = self.accessible - window;
            // SAFETY: the range is in this reservation, which no other code uses.
            if unsafe { VirtualFree(self.reservation.at(window), length, MEM_DECOMMIT) } == 0 {
                return Err(MemoryError::new("release memory")(io::Error::last_os_error()));
            }
            self.accessible = window;
        }
        if start < self.accessible {
            self.accessible = 0;
            self.reservation.clear()?;
        }
        Ok(())
    }
}
