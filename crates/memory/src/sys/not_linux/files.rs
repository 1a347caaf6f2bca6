//! The file of a page store, as a temporary file.

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;

/// Creates an empty file, which is removed when it is closed.
pub(crate) fn anonymous_file() -> io::Result<File> {
    tempfile::tempfile()
}

/// Fills `target` with the bytes of `file` at offset `at`.
pub(crate) fn read_exact_at(file: &File, mut at: u64, mut target: &mut [u8]) -> io::Result<()> {
    while !target.is_empty() {
        match read_at(file, target, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                target = &mut target[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes `slices` consecutively into `file` at offset `at`.
pub(crate) fn write_all_at(file: &File, mut at: u64, slices: &[&[u8]]) -> io::Result<()> {
    for slice in slices {
        let mut rest = *slice;
        while !rest.is_empty() {
            match write_at(file, rest, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Does nothing: files are not mapped here, so holes are harmless.
#[expect(clippy::unnecessary_wraps, reason = "as on systems where it can fail")]
pub(crate) fn reserve(_file: &File, _length: u64) -> io::Result<()> {
    Ok(())
}

/// Returns the file unchanged, for the same reason.
#[expect(clippy::unnecessary_wraps, reason = "as on systems where it can fail")]
pub(crate) fn without_holes(file: File) -> io::Result<File> {
    Ok(file)
}

/// Returns 0: the file is on disk.
pub(crate) fn memory_of(_file: &File) -> u64 {
    0
}

/// Does nothing: there is no portable way to punch a hole into a file.
pub(crate) fn release(_file: &File, _at: u64, _length: u64) {}

#[cfg(unix)]
fn read_at(file: &File, target: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(target, at)
}

#[cfg(windows)]
fn read_at(file: &File, target: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek_read(target, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    file.write_at(bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    file.seek_write(bytes, at)
}
