//! Images as files that are mapped.
#![expect(
    unsafe_code,
    reason = "reads through a view of a file that nobody writes to"
)]

use std::fs::File;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{self, NonNull};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, PAGE_WRITECOPY,
    UnmapViewOfFile,
};

use crate::memory::MemoryError;

/// An image's bytes: a file that can be mapped, and a read-only view of it.
#[derive(Debug)]
pub(crate) struct Backing {
    section: OwnedHandle,
    offset: u64,
    view: NonNull<u8>,
    length: usize,
}

// SAFETY: the view is a read-only mapping that nothing in this process writes to; it is unmapped
// only when the value is dropped.
unsafe impl Send for Backing {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Backing {}

impl Backing {
    /// Maps `length` bytes of `file` from `offset` on; both are multiples of 64 KiB, and the file is at
    /// least that long.
    pub(crate) fn new(file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        let size = file.metadata().map_err(MemoryError::new("look at an image"))?.len();
        if length == 0 || offset.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(MemoryError::new("map an image")(io::ErrorKind::UnexpectedEof.into()));
        }
        let failed = || MemoryError::new("map an image")(io::Error::last_os_error());
        // SAFETY: the file is open, and no name and no attributes are given.
        let section = unsafe {
            let file = file.as_raw_handle();
            CreateFileMappingW(file, ptr::null(), PAGE_WRITECOPY, 0, 0, ptr::null())
        };
        if section.is_null() {
            return Err(failed());
        }
        // SAFETY: the handle was just made, and nobody else has it.
        let section = unsafe { OwnedHandle::from_raw_handle(section) };
        // SAFETY: a new view at an address of the system's choice affects no other memory.
        let view = unsafe {
            let (high, low) = ((offset >> 32) as u32, offset as u32);
            MapViewOfFile(section.as_raw_handle(), FILE_MAP_READ, high, low, length)
        };
        Ok(Self {
            section,
            offset,
            view: NonNull::new(view.Value.cast()).ok_or_else(failed)?,
            length,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// What is mapped, and from where on.
    pub(super) fn place(&self) -> (HANDLE, u64) {
        (self.section.as_raw_handle(), self.offset)
    }

    /// Copies its bytes from `at` on to `target`, as far as there are any; returns how many.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let there = self.bytes().get(at..).unwrap_or_default();
        let length = there.len().min(target.len());
        target[..length].copy_from_slice(&there[..length]);
        length
    }

    /// Whether `bytes` are its own from `at` on; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        self.bytes().get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the view is `length` bytes long, nobody writes to it, and it is there as long as this
        // value.
        unsafe { std::slice::from_raw_parts(self.view.as_ptr(), self.length) }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let view = MEMORY_MAPPED_VIEW_ADDRESS {
            Value: self.view.as_ptr().cast(),
        };
        // SAFETY: the view is this value's own, and no reference to it outlives the value.
        let unmapped = unsafe { UnmapViewOfFile(view) };
        debug_assert!(unmapped != 0);
    }
}
