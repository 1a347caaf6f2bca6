//! A memory view of a page store's file: reads need no system call, nor do writes to allocated
//! pages.
#![expect(
    unsafe_code,
    reason = "reads and writes through a mapping of a file that this process also writes to elsewhere"
)]

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, ProtFlags};

/// A view of a file from [`anonymous_file`](super::anonymous_file), including bytes to be written
/// later.
///
/// A part of the view is read only after it was written, and is neither rewritten nor released
/// meanwhile: a [`PageStore`](crate::PageStore) rewrites and releases only pages that no
/// state holds.
#[derive(Debug)]
pub(crate) struct View {
    start: NonNull<u8>,
}

// SAFETY: the view is a mapping, unmapped only when the value is dropped.
unsafe impl Send for View {}
// SAFETY: as above; bytes being written are not accessed otherwise: see the type, and `write`.
unsafe impl Sync for View {}

impl View {
    /// Size of the view. Only accessed pages use memory.
    const LENGTH: usize = 1 << 36;

    /// Maps the file; `None` if there is no address space.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
        let start = unsafe { mm::mmap(std::ptr::null_mut(), Self::LENGTH, access, flags, file, 0) };
        NonNull::new(start.ok()?.cast()).map(|start| Self { start })
    }

    /// Whether the file has `bytes` at offset `at`; `None` past the end of the view.
    pub(crate) fn is_same(&self, at: u64, bytes: &[u8]) -> Option<bool> {
        let at = Self::place(at, bytes.len())?;
        // SAFETY: the range is in the view (checked), the file has been that long since the range
        // was written, and the range is not rewritten while it is read: see the type.
        let there = unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), bytes.len()) };
        Some(there == bytes)
    }

    /// Copies bytes of the file from offset `at` to `target`. Returns false past the end of the
    /// view.
    pub(crate) fn read(&self, at: u64, target: &mut [u8]) -> bool {
        let Some(at) = Self::place(at, target.len()) else {
            return false;
        };
        // SAFETY: as above; `target` is not part of the view, to which no references exist.
        unsafe {
            let from = self.start.add(at).as_ptr();
            std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), target.len());
        }
        true
    }

    /// Writes `slices` consecutively into the file at offset `at`. Returns false past the end of
    /// the view.
    ///
    /// # Safety
    ///
    /// The file must extend to the end of the range, and no other code may access that range
    /// meanwhile.
    pub(crate) unsafe fn write(&self, at: u64, slices: &[&[u8]]) -> bool {
        let length = slices.iter().map(|slice| slice.len()).sum();
        let Some(mut at) = Self::place(at, length) else {
            return false;
        };
        for slice in slices {
            // SAFETY: the range is in the view (checked) and in the file (the caller's promise); no
            // reference to it exists, since no other code uses its pages (the caller's promise),
            // and `slice` is not part of the view.
            unsafe {
                let to = self.start.add(at).as_ptr();
                std::ptr::copy_nonoverlapping(slice.as_ptr(), to, slice.len());
            }
            at += slice.len();
        }
        true
    }

    fn place(at: u64, length: usize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        (at.checked_add(length)? <= Self::LENGTH).then_some(at)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view is this value's own mapping, and no reference to it outlives the value.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr().cast(), Self::LENGTH) };
        debug_assert!(unmapped.is_ok());
    }
}
