//! The file of a page store as memory: looking at a page there takes no system call, nor does writing
//! to one whose memory is there.
#![expect(
    unsafe_code,
    reason = "reads and writes through a mapping of a file that this process also writes to elsewhere"
)]

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{self, MapFlags, ProtFlags};

/// A view of a file from [`anonymous_file`](super::anonymous_file), also of what is yet to
/// be written to it.
///
/// Whoever looks at a place has written it, and neither writes it again nor gives it back meanwhile:
/// a [`PageStore`](crate::memory::PageStore) does either only with pages that no state holds.
#[derive(Debug)]
pub(in crate::memory) struct View {
    start: NonNull<u8>,
}

// SAFETY: the view is a mapping, unmapped only when the value is dropped.
unsafe impl Send for View {}
// SAFETY: as above; what is written to is nobody else's meanwhile: see the type, and `write`.
unsafe impl Sync for View {}

impl View {
    /// Address space, of which only what is looked at takes anything.
    const LENGTH: usize = 1 << 36;

    /// `None` where there is no address space for it.
    pub(in crate::memory) fn of(file: &File) -> Option<Self> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
        let start = unsafe { mm::mmap(std::ptr::null_mut(), Self::LENGTH, access, flags, file, 0) };
        NonNull::new(start.ok()?.cast()).map(|start| Self { start })
    }

    /// Whether `bytes` are those of the file from `at` on; `None` past the end of the view.
    pub(in crate::memory) fn is_same(&self, at: u64, bytes: &[u8]) -> Option<bool> {
        let at = Self::place(at, bytes.len())?;
        // SAFETY: the range lies in the view (checked), and the file is that long since the range was
        // written, which nobody does again while it is looked at: see the type.
        let there = unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), bytes.len()) };
        Some(there == bytes)
    }

    /// Copies the bytes of the file from `at` on to `target`; false past the end of the view.
    pub(in crate::memory) fn read(&self, at: u64, target: &mut [u8]) -> bool {
        let Some(at) = Self::place(at, target.len()) else {
            return false;
        };
        // SAFETY: as above; `target` is no part of the view, of which nobody has a reference.
        unsafe {
            let from = self.start.add(at).as_ptr();
            std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), target.len());
        }
        true
    }

    /// Writes `slices` one after the other into the file from `at` on; false past the end of the view.
    ///
    /// # Safety
    ///
    /// The file reaches that far, and nobody else reads or writes that part of it meanwhile.
    pub(in crate::memory) unsafe fn write(&self, at: u64, slices: &[&[u8]]) -> bool {
        let length = slices.iter().map(|slice| slice.len()).sum();
        let Some(mut at) = Self::place(at, length) else {
            return false;
        };
        for slice in slices {
            // SAFETY: the range lies in the view (checked) and in the file (the caller's promise); no
            // reference to it exists, since nobody else uses its pages (the caller's promise), and
            // `slice` is no part of the view.
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
