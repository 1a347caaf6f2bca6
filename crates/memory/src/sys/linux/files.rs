//! The file of a page store: anonymous memory with a descriptor, which may have holes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstatfs, memfd_create};

/// Maximum number of slices per system call.
const MAX_SLICES: usize = 1024;

/// Creates an empty file that no other process can open.
pub(crate) fn anonymous_file() -> io::Result<File> {
    Ok(memfd_create("belljar-pages", MemfdFlags::CLOEXEC)?.into())
}

/// Fills `target` with the bytes of `file` at offset `at`.
pub(crate) fn read_exact_at(file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(target, at)
}

/// Writes `slices` consecutively into `file` at offset `at`.
pub(crate) fn write_all_at(file: &File, at: u64, slices: &[&[u8]]) -> io::Result<()> {
    let mut at = at;
    for batch in slices.chunks(MAX_SLICES) {
        let wanted: usize = batch.iter().map(|slice| slice.len()).sum();
        let vectors: Vec<_> = batch.iter().map(|slice| io::IoSlice::new(slice)).collect();
        let mut done = rustix::io::pwritev(file, &vectors, at)?;
        if done < wanted {
            // Partial write: write the remaining slices one by one, from the partially written one
            // on.
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

/// File systems in memory, and overlays that may be based on one.
const TMPFS: u64 = 0x0102_1994;
const OVERLAY: u64 = 0x794c_7630;
/// Block size in which the system counts a file's space, in bytes.
const BLOCK: u64 = 512;

/// Allocates the first `length` bytes of `file` before they are written. A hole would be filled on
/// access through a mapping, and if no space is left then, the process is killed.
pub(crate) fn reserve(file: &File, length: u64) -> io::Result<()> {
    if matches!(file_system(file)?, TMPFS | OVERLAY) {
        match fallocate(file, FallocateFlags::empty(), 0, length) {
            // A file system without allocation has no such holes.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the memory that an anonymous file uses, in bytes.
pub(crate) fn memory_of(file: &File) -> u64 {
    file.metadata().map_or(0, |found| found.blocks().saturating_mul(BLOCK))
}

/// Returns a file with the bytes of `file` that can be mapped even if no space is left: usually the
/// file itself. A file in memory that was copied with holes, for example by `cp`, has its holes
/// filled; if it is not writable, a copy without holes is used.
pub(crate) fn without_holes(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    let is_whole = metadata.blocks().saturating_mul(BLOCK) >= metadata.len();
    if is_whole || file_system(&file)? != TMPFS {
        return Ok(file);
    }
    // Opens the same file, which may differ from the file now at its path.
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
    // Buffered, so that zeros are written as well.
    let mut buffer = io::BufReader::with_capacity(1 << 20, file);
    io::copy(&mut buffer, &mut io::BufWriter::with_capacity(1 << 20, &mut whole))?;
    Ok(whole)
}

fn file_system(file: &File) -> io::Result<u64> {
    // The field is as wide as a register, but file system numbers have 32 bits.
    Ok(u64::from(fstatfs(file)?.f_type as u32))
}

/// Releases `length` bytes of `file` at offset `at`. If this fails, only their memory is lost.
pub(crate) fn release(file: &File, at: u64, length: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, hole, at, length);
}
