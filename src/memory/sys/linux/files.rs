//! The file of a page store: memory with a descriptor, and with holes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstatfs, memfd_create};

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

/// File systems in memory, and those that may lie over one.
const TMPFS: u64 = 0x0102_1994;
const OVERLAY: u64 = 0x794c_7630;
/// Bytes of a block, as the system counts those of a file.
const BLOCK: u64 = 512;

/// Takes the room for the first `length` bytes of `file` before they are written, where a hole would
/// have to be filled by whoever looks at it in a mapping: when there is no room then, that ends the
/// process.
pub(in crate::memory) fn reserve(file: &File, length: u64) -> io::Result<()> {
    if matches!(file_system(file)?, TMPFS | OVERLAY) {
        match fallocate(file, FallocateFlags::empty(), 0, length) {
            // What cannot be reserved has no such holes either.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Bytes of memory that `file` takes, which is an anonymous one.
pub(in crate::memory) fn memory_of(file: &File) -> u64 {
    file.metadata().map_or(0, |found| found.blocks().saturating_mul(BLOCK))
}

/// A file with the bytes of `file` that can be mapped whatever room there is: mostly the file
/// itself. One in memory that was copied with holes, by `cp` say, has them filled; where it cannot be
/// written to, a copy without holes takes its place.
pub(in crate::memory) fn without_holes(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    let is_whole = metadata.blocks().saturating_mul(BLOCK) >= metadata.len();
    if is_whole || file_system(&file)? != TMPFS {
        return Ok(file);
    }
    // The same file, not what has its name now.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let Ok(writable) = File::options().write(true).open(itself) else {
        return copy(&file);
    };
    reserve(&writable, metadata.len())?;
    Ok(file)
}

fn copy(mut file: &File) -> io::Result<File> {
    let mut whole = anonymous_file()?;
    io::Seek::rewind(&mut file)?;
    // Through a buffer, so that zeros are written as well.
    let mut buffer = io::BufReader::with_capacity(1 << 20, file);
    io::copy(&mut buffer, &mut io::BufWriter::with_capacity(1 << 20, &mut whole))?;
    Ok(whole)
}

fn file_system(file: &File) -> io::Result<u64> {
    // As wide as a register, of which the numbers of file systems have 32 bits.
    Ok(u64::from(fstatfs(file)?.f_type as u32))
}

/// Gives `length` bytes of `file` from `at` on back to the system. Failing to costs only their
/// memory.
pub(in crate::memory) fn release(file: &File, at: u64, length: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, hole, at, length);
}
