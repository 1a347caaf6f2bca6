//! Address space that is reserved for a guest's memory, and what is mapped in it.
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
use crate::memory::MemoryError;
use crate::memory::sys::mapping::Extent;

/// The address space itself: at its start a window for an image of one length, which a view or a
/// placeholder fills, and behind it memory that is reserved and in part committed.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    window: usize,
    /// The window has a view.
    is_shown: bool,
}

// SAFETY: the value owns its address space and does not touch what is mapped in it.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves address space with a window of so many bytes, a multiple of 64 KiB less than
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
        // SAFETY: the placeholder was just made; it becomes two, and nothing is in it.
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

    /// The address of a byte in it, or of its end.
    fn at(&self, offset: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }

    /// Maps `image`, as long as the window, into the window.
    fn show(&mut self, image: &Backing) -> Result<(), MemoryError> {
        assert!(image.len() == self.window);
        self.clear()?;
        let (section, offset) = image.place();
        // SAFETY: the window is this value's own and holds a placeholder of that length, in whose place the
        // view is put, or the call fails.
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

    /// Takes the view out of the window, and keeps its address space.
    fn clear(&mut self) -> Result<(), MemoryError> {
        if self.is_shown {
            self.unmap(MEM_PRESERVE_PLACEHOLDER)?;
        }
        Ok(())
    }

    fn unmap(&mut self, flags: u32) -> Result<(), MemoryError> {
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: self.at(0) };
        // SAFETY: the view is this value's own, and whoever uses it borrows the value.
        if unsafe { UnmapViewOfFile2(GetCurrentProcess(), view, flags) } == 0 {
            return Err(MemoryError::new("release memory")(io::Error::last_os_error()));
        }
        self.is_shown = false;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the address space is this value's own, and a space that could lead to it holds this value.
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

/// Reserves what nobody can reach: at an address of the system's choice, or in the place of a placeholder.
fn allocate(at: *mut c_void, length: usize, kind: u32) -> *mut c_void {
    // SAFETY: only what is free, or a placeholder of that length, is taken.
    unsafe {
        VirtualAlloc2(GetCurrentProcess(), at, length, kind, PAGE_NOACCESS, ptr::null_mut(), 0)
    }
}

/// A stretch of address space as large as the largest guest memory and its guard: accessible from its
/// start on as far as the guest reaches, and nothing past that.
#[derive(Debug)]
pub(in crate::memory) struct Space {
    reservation: Reservation,
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
            reservation: Reservation::new(0)?,
            accessible: 0,
        })
    }

    /// The address of its first byte. It changes with the length of the image.
    pub(in crate::memory) fn base(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    /// Bytes that can be read and written.
    pub(in crate::memory) fn len(&self) -> usize {
        self.accessible
    }

    /// What is in `range`.
    #[cfg(test)]
    pub(in crate::memory) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.accessible);
        // SAFETY: so far the space is mapped, readable and writable (asserted), and it is borrowed
        // exclusively: no guest runs in it meanwhile.
        unsafe {
            let start = self.base().add(range.start);
            std::slice::from_raw_parts_mut(start, range.len())
        }
    }

    /// `None`: pages are too small to be mapped.
    pub(in crate::memory) fn extent(&self) -> Option<Extent> {
        None
    }

    /// Nothing is ever mapped over what is there.
    pub(in crate::memory) fn take_overlaid(&mut self) {}

    /// Makes `size` bytes accessible, if they are not; new pages are zero.
    pub(in crate::memory) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        if size <= self.accessible {
            return Ok(());
        }
        if size > Self::CAPACITY || self.accessible < self.reservation.window {
            return Err(MemoryError::new("grow the memory")(io::ErrorKind::OutOfMemory.into()));
        }
        let start = self.reservation.at(self.accessible);
        let length = size - self.accessible;
        // SAFETY: the range lies in this reservation behind the window (checked above), where memory is
        // reserved that nobody can reach yet.
        if unsafe { VirtualAlloc(start, length, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
            return Err(MemoryError::new("grow the memory")(io::Error::last_os_error()));
        }
        self.accessible = size;
        Ok(())
    }

    /// Maps all of `image` at the start, in the place of what was mapped there.
    pub(in crate::memory) fn show(
        &mut self,
        image: &Backing,
        range: Range<usize>,
    ) -> Result<(), MemoryError> {
        assert!(range == (0..image.len()) && range.end <= Self::CAPACITY);
        self.discard(range.end)?;
        // Until it is mapped anew, nothing is there.
        self.accessible = 0;
        if self.reservation.window != range.end {
            self.reservation = Reservation::new(range.end)?;
        }
        self.reservation.show(image)?;
        self.accessible = range.end;
        Ok(())
    }

    /// Makes everything from `start` on inaccessible and forgets what was in it; `start` is where the image
    /// ends, or nothing.
    pub(in crate::memory) fn discard(&mut self, start: usize) -> Result<(), MemoryError> {
        let window = self.reservation.window;
        if self.accessible > window {
            let length = self.accessible - window;
            // SAFETY: the range lies in this reservation, which nothing else uses.
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
