//! Linear memories that start from an image.
//!
//! wasmtime calls its `MemoryCreator` for every linear memory. This one provides slots:
//! reservations of address space that a pool reuses, in which an image is mapped copy-on-write.
//! When a sandbox ends, only the pages that it wrote are restored, so the next sandbox in that slot
//! finds its pages resident and needs no page faults for them.
//!
//! If mapping is not available, the same interface copies the image instead ([`Strategy::Copy`]):
//! slower, but with portable and safe code only.

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

/// How an image is placed in a sandbox's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Maps the image copy-on-write. Default on Linux, macOS, FreeBSD and Windows; on other
    /// systems, it is the same as `Copy`.
    Map,
    /// Copies the whole image. Default on other systems.
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

/// Memory for a sandbox could not be provided.
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

/// Opens `/proc` files that runs need, before the process gives up the right to open them.
pub(crate) fn prepare() {
    #[cfg(memory = "linux")]
    sys::open_what_is_read();
}

/// Fills `target` with the bytes of `file` at offset `at`, independently of the read position.
pub(crate) fn read_exact_at(file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
    sys::read_exact_at(file, at, target)
}

/// Allocates the space of a file that will be mapped before it is written with holes.
pub(crate) fn reserve(file: &File, length: u64) -> io::Result<()> {
    sys::reserve(file, length)
}

/// Ensures that mapping `file` cannot kill the process when no space is left.
pub(crate) fn without_holes(file: File) -> io::Result<File> {
    sys::without_holes(file)
}

/// The memory of an image, from which any number of sandboxes' memories can be created.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Mapped(Arc<Backing>),
    Copied(Arc<[u8]>),
}

impl Source {
    /// Uses `length` bytes of `file` at `offset`, a multiple of 64 KiB.
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

    /// Copies bytes from offset `at` to `target`, up to the end of the image. Returns their number.
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

    /// Whether `bytes`, a page, equal the image's bytes at offset `at`; past its end, these are
    /// zeros.
    fn is_page(&self, at: usize, bytes: &[u8]) -> bool {
        if at >= self.len() {
            return bytes == [0; HOST_PAGE];
        }
        match self {
            Self::Mapped(backing) => backing.is_same(at, bytes),
            Self::Copied(all) => all.get(at..at + bytes.len()) == Some(bytes),
        }
    }

    /// Returns the size of the memory, in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mapped(backing) => backing.len(),
            Self::Copied(bytes) => bytes.len(),
        }
    }
}
