//! Image files that are mapped.
#![expect(
    unsafe_code,
    reason = "reads through a mapping of a file that nobody writes to"
)]

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, ProtFlags};

use crate::MemoryError;

/// The bytes of an image: a file, and a read-only view of it from which pages are restored.
#[derive(Debug)]
pub struct Backing {
    file: File,
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
    /// Maps `length` bytes of `file` at `offset`. Both must be multiples of the page size, and the
    /// file must be at least that long: an access past its end would kill the process.
    pub(crate) fn new(file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        let size = file.metadata().map_err(MemoryError::new("look at an image"))?.len();
        if length == 0 || offset.checked_add(length as u64).is_none_or(|end| end > size) {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(MemoryError::new("map an image")(short));
        }
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
        let view = unsafe {
            mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, offset)
        }
        .map_err(|e| MemoryError::new("map an image")(e.into()))?;
        let view = NonNull::new(view.cast()).expect("a mapping is not at address zero");
        Ok(Self {
            file,
            offset,
            view,
            length,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the image's file and the file offset of byte `at`.
    pub(super) fn place(&self, at: usize) -> (&File, u64) {
        (&self.file, self.offset + at as u64)
    }

    /// Copies bytes from offset `at` to `target`, up to the end of the image. Returns their number.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let length = self.length.saturating_sub(at).min(target.len());
        if length > 0 {
            // SAFETY: `length` bytes from `at` on are in the view, and as many in `target`, which
            // is not part of the read-only view.
            unsafe {
                let from = self.view.add(at).as_ptr();
                std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), length);
            }
        }
        length
    }

    /// Whether the image has `bytes` at offset `at`; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        let is_inside = at.checked_add(bytes.len()).is_some_and(|end| end <= self.length);
        // SAFETY: the range is in the view (checked), which is read-only.
        is_inside
            && unsafe { std::slice::from_raw_parts(self.view.add(at).as_ptr(), bytes.len()) }
                == bytes
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: the view is this value's own mapping, and no reference to it outlives the value.
        let unmapped = unsafe { mm::munmap(self.view.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}
