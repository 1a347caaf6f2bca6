//! Linear memories that start from an image.
//!
//! A [`Pool`] provides slots: reservations of address space that it reuses, in which an image is
//! mapped copy-on-write. When a sandbox ends, only the pages that it wrote are restored, so the
//! next sandbox in that slot finds its pages resident and needs no page faults for them.
//!
//! A [`Tracker`] finds the pages that a guest wrote, and a [`PageStore`] keeps them. Stacks for
//! guests are reused, too ([`Stacks`]).
//!
//! If mapping is not available, the same interface copies the image instead ([`Strategy::Copy`]):
//! slower, but with portable and safe code only.

#![deny(unsafe_code)]

mod heap;
mod pages;
mod pool;
mod process;
mod sys;
mod tracker;

use std::fs::File;
use std::io;
use std::sync::Arc;

pub use heap::{note_freed, trim_memory};
pub use pages::{Imported, PAGE as HOST_PAGE, PageStore, Pages, Stretch};
pub use pool::{Pool, Slot};
pub use process::Process;
use sys::Region;
pub use sys::{Backing, Extent, Stack, Stacks};
pub use tracker::Tracker;

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
    #[doc(hidden)]
    pub fn maps(self) -> bool {
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

/// Opens `/proc` files that runs need, before the process gives up the right to open them.
pub fn prepare() {
    #[cfg(memory = "linux")]
    sys::open_what_is_read();
}

/// Fills `target` with the bytes of `file` at offset `at`, independently of the read position.
///
/// # Errors
///
/// If the file cannot be read, or is too short.
pub fn read_exact_at(file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
    sys::read_exact_at(file, at, target)
}

/// Allocates the space of a file that will be mapped before it is written with holes.
///
/// # Errors
///
/// If the disk is full.
pub fn reserve(file: &File, length: u64) -> io::Result<()> {
    sys::reserve(file, length)
}

/// Ensures that mapping `file` cannot kill the process when no space is left.
///
/// # Errors
///
/// If the file cannot be read or copied.
pub fn without_holes(file: File) -> io::Result<File> {
    sys::without_holes(file)
}

/// The memory of an image, from which any number of sandboxes' memories can be created.
#[derive(Clone, Debug)]
pub enum Source {
    /// Is mapped copy-on-write.
    Mapped(Arc<Backing>),
    /// Is copied into every memory.
    Copied(Arc<[u8]>),
}

impl Source {
    /// Uses `length` bytes of `file` at `offset`, a multiple of 64 KiB.
    ///
    /// # Errors
    ///
    /// If the file cannot be mapped or read.
    pub fn from_file(
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
    #[expect(clippy::len_without_is_empty, reason = "no image is empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Mapped(backing) => backing.len(),
            Self::Copied(bytes) => bytes.len(),
        }
    }
}
