//! Images as files that are mapped.
#![expect(
    unsafe_code,
    reason = "reads through a mapping of a file that nobody writes to"
)]

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, ProtFlags};

use crate::memory::MemoryError;

/// An image's bytes: a file, and a read-only view of it from which pages are put back.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
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
    /// Maps `length` bytes of `file` from `offset` on; both are multiples of the page size, and
    /// the file is at least that long: a view past its end would end the process when touched.
    pub(crate) fn new(file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        let size = file.metadata().map_err(MemoryError::new("look at an image"))?.len();
        if length == 0 || offset.checked_add(length as u64).is_none_or(|end| end > size) {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(MemoryError::new("map an image")(short));
        }
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
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

    /// The file that it is in, and where its byte `at` is there.
    pub(super) fn place(&self, at: usize) -> (&File, u64) {
        (&self.file, self.offset + at as u64)
    }

    /// Copies its bytes from `at` on to `target`, as far as there are any; returns how many.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let length = self.length.saturating_sub(at).min(target.len());
        if length > 0 {
            // SAFETY: `length` bytes from `at` on are in the view, and as many in `target`, which
            // is no part of it: nobody can write to the view.
            unsafe {
                let from = self.view.add(at).as_ptr();
                std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), length);
            }
        }
        length
    }

    /// Whether `bytes` are its own from `at` on; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        let is_inside = at.checked_add(bytes.len()).is_some_and(|end| end <= self.length);
        // SAFETY: the range is in the view (checked), to which nobody writes.
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
