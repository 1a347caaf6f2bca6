//! The file of a page store: memory with a descriptor, and with holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

/// As many slices as one system call takes.
const MAX_SLICES: usize = 1024;

/// An empty file that no other process can open.
pub(in crate::memory) fn anonymous_file() -> io::Result<File> {
    Ok(memfd_create("belljar-pages", MemfdFlags::CLOEXEC)?.into())
}

/// Fills `target` with what is in `file` from `at` on.
pub(in crate::memory) fn read_exact_at(file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(target, at)
}

/// Writes `slices` one after the other into `file` from `at` on.
pub(in crate::memory) fn write_all_at(file: &File, at: u64, slices: &[&[u8]]) -> io::Result<()> {
    let mut at = at;
    for batch in slices.chunks(MAX_SLICES) {
        let wanted: usize = batch.iter().map(|slice| slice.len()).sum();
        let vectors: Vec<_> = batch.iter().map(|slice| io::IoSlice::new(slice)).collect();
        let mut done = rustix::io::pwritev(file, &vectors, at)?;
        if done < wanted {
            // Cut short: the rest slice by slice, from the start of the one that was cut.
            for slice in batch {
                let skipped = done.min(slice.len());
                done -= skipped;
                let from = at + skipped as u64;
                file.write_all_at(&slice[skipped..], from)?;
                at += slice.len() as u64;
            }
        } else {
            at += wanted as u64;
        }
    }
    Ok(())
}

/// Gives `length` bytes of `file` from `at` on back to the system. Failing to costs only their
/// memory.
pub(in crate::memory) fn release(file: &File, at: u64, length: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, hole, at, length);
}
