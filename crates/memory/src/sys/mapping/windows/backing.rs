//! Image files that are mapped.
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

use crate::MemoryError;

/// The bytes of an image: a mappable file and a read-only view of it.
#[derive(Debug)]
pub struct Backing {
    section: OwnedHandle,
    offset: u64,
    view: NonNull<u8>,
    length: usize,
}

// SAFETY: the view is a read-only mapping that no code in this process writes to; it is unmapped
// only when the value is dropped.
unsafe impl Send for Backing {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Backing {}

impl Backing {
    /// Maps `length` bytes of `file` at `offset`. Both must be multiples of 64 KiB, and the file
    /// must be at least that long.
    pub(crate) fn new(file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        let size = file.metadata().map_err(MemoryError::new("look at an image"))?.len();
        if length == 0 || offset.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(MemoryError::new("map an image")(io::ErrorKind::UnexpectedEof.into()));
        }
        let failed = || MemoryError::new("map an image")(io::Error::last_os_error());
        // SAFETY: the file is open, and neither a name nor attributes are passed.
        let section = unsafe {
            let file = file.as_raw_handle();
            CreateFileMappingW(file, ptr::null(), PAGE_WRITECOPY, 0, 0, ptr::null())
        };
        if section.is_null() {
            return Err(failed());
        }
        // SAFETY: the handle is new, and no other code has it.
        let section = unsafe { OwnedHandle::from_raw_handle(section) };
        // SAFETY: a new view at an address chosen by the system affects no other memory.
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

    /// Returns the mapped section and the offset of the image in it.
    pub(super) fn place(&self) -> (HANDLE, u64) {
        (self.section.as_raw_handle(), self.offset)
    }

    /// Copies bytes from offset `at` to `target`, up to the end of the image. Returns their number.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let there = self.bytes().get(at..).unwrap_or_default();
        let length = there.len().min(target.len());
        target[..length].copy_from_slice(&there[..length]);
        length
    }

    /// Whether the image has `bytes` at offset `at`; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        self.bytes().get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the view is `length` bytes long, read-only, and lives as long as this value.
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
