//! Linear memories that start from an image.
//!
//! wasmtime asks its `MemoryCreator` for every linear memory. Ours hands out slots:
//! reservations of address space that a pool reuses, in which an image is mapped copy-on-write.
//! When a sandbox ends, only the pages that it wrote are put back, so the next sandbox on that
//! slot finds them already in place and pays no page fault for them.
//!
//! Where the mapping is not available the same interface copies the image instead
//! ([`Strategy::Copy`]): slower, with nothing but portable and safe code.

mod creator;
mod heap;
mod pages;
mod pool;
mod process;
mod sys;
mod tracker;

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::util::hint::Hint;

pub(crate) use creator::Creator;
pub(crate) use heap::note_freed;
pub use heap::trim_memory;
pub(crate) use pages::{Imported, PAGE as HOST_PAGE, PageStore, Pages, Stretch};
pub(crate) use pool::{Pool, Slot};
pub(crate) use process::Process;
pub(crate) use sys::stacks;
use sys::{Backing, Region};
pub(crate) use tracker::Tracker;

/// How an image gets into a sandbox's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Map the image copy-on-write. The default on Linux, macOS, FreeBSD and Windows; elsewhere it means
    /// `Copy`.
    Map,
    /// Copy the whole image. The default elsewhere.
    Copy,
}

impl Strategy {
    /// Whether images are mapped.
    pub(crate) fn maps(self) -> bool {
        self == Self::Map && sys::MAPS_IMAGES
    }
}

impl Default for Strategy {
    fn default() -> Self {
        if sys::MAPS_IMAGES {
            Self::Map
        } else {
            Self::Copy
        }
    }
}

/// A failure to make memory for a sandbox.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} for a sandbox's memory")]
pub struct MemoryError {
    action: &'static str,
    source: io::Error,
}

impl MemoryError {
    pub(crate) fn new(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, source }
    }
}

impl Hint for MemoryError {
    fn hint(&self) -> Option<String> {
        let is_full = self.source.kind() == io::ErrorKind::OutOfMemory;
        is_full.then(|| {
            "every sandbox reserves 4 GiB of address space, of which it uses little: raise the limit \
             on that (ulimit -v)"
                .into()
        })
    }
}

/// Fills `target` with what is in `file` from `at` on, wherever reading it has come to.
pub(crate) fn read_exact_at(file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
    sys::read_exact_at(file, at, target)
}

/// Takes the room of a file that is to be mapped before it is written with holes in it.
pub(crate) fn reserve(file: &File, length: u64) -> io::Result<()> {
    sys::reserve(file, length)
}

/// Makes sure that mapping `file` cannot end the process for want of room where it is.
pub(crate) fn without_holes(file: File) -> io::Result<File> {
    sys::without_holes(file)
}

/// The memory of an image, ready to become any number of sandboxes' memories.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Mapped(Arc<Backing>),
    Copied(Arc<[u8]>),
}

impl Source {
    /// Takes `length` bytes of `file` from `offset` on. `offset` is a multiple of 64 KiB.
    pub(crate) fn from_file(
        strategy: Strategy,
        file: File,
        offset: u64,
        length: usize,
    ) -> Result<Self, MemoryError> {
        if strategy.maps() {
            return Ok(Self::Mapped(Arc::new(Backing::new(file, offset, length)?)));
        }
        Self::load(file, offset, length).map_err(MemoryError::new("read an image"))
    }

    fn load(mut file: File, offset: u64, length: usize) -> io::Result<Self> {
        use std::io::{Read, Seek, SeekFrom};
        let mut bytes = vec![0; length];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut bytes)?;
        Ok(Self::Copied(bytes.into()))
    }

    /// Copies its bytes from `at` on to `target`, as far as there are any; returns how many.
    fn read(&self, at: usize, target: &mut [u8]) -> usize {
        match self {
            Self::Mapped(backing) => backing.read(at, target),
            Self::Copied(bytes) => {
                let there = bytes.get(at..).unwrap_or_default();
                let length = there.len().min(target.len());
                target[..length].copy_from_slice(&there[..length]);
                length
            }
        }
    }

    /// Whether `bytes`, a page, are what it has from `at` on; past its end that is zeros.
    fn is_page(&self, at: usize, bytes: &[u8]) -> bool {
        if at >= self.len() {
            return bytes == [0; HOST_PAGE];
        }
        match self {
            Self::Mapped(backing) => backing.is_same(at, bytes),
            Self::Copied(all) => all.get(at..at + bytes.len()) == Some(bytes),
        }
    }

    /// Bytes of memory.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped(backing) => backing.len(),
            Self::Copied(bytes) => bytes.len(),
        }
    }
}
