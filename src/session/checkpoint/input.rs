//! The input of a checkpoint reader.

use std::fs::File;
use std::io::{self, Read, Seek};

use belljar_files::ContentReader;
use belljar_memory::read_exact_at;

/// The input of a checkpoint reader.
pub(super) trait Input: Read + Seek + Send + Sync {
    /// Fills `target` with the bytes at offset `at`, independently of the read position.
    fn read_exact_at(&self, at: u64, target: &mut [u8]) -> io::Result<()>;
}

impl Input for File {
    fn read_exact_at(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        read_exact_at(self, at, target)
    }
}

impl Input for ContentReader {
    fn read_exact_at(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        let read = self.read_at(at, target)?;
        (read == target.len()).then_some(()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl<T: AsRef<[u8]> + Send + Sync> Input for io::Cursor<T> {
    fn read_exact_at(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        let all = self.get_ref().as_ref();
        let there = usize::try_from(at).ok().and_then(|at| all.get(at..)?.get(..target.len()));
        target.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
