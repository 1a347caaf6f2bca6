//! Portable implementation: images are copied.
//!
//! A [`Region`] is a vector and reserves no address space. It must not run code that a
//! compiler made for memory with a guard: [`Region::RESERVED`] is zero, and images are copied into
//! the engine's own memories instead ([`MAPS_IMAGES`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

pub use super::not_linux::{Extent, Stack, Stacks};
pub(crate) use super::not_linux::{
    View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};
use crate::MemoryError;

/// Images are copied, not mapped.
pub(crate) const MAPS_IMAGES: bool = false;

/// An image's bytes.
#[derive(Debug)]
pub struct Backing {
    bytes: Box<[u8]>,
}

impl Backing {
    /// Reads `length` bytes of `file` at `offset`.
    pub(crate) fn new(mut file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        if length == 0 {
            return Err(MemoryError::new("read an image")(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; length];
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(MemoryError::new("read an image"))?;
        Ok(Self {
            bytes: bytes.into(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies bytes from offset `at` to `target`, up to the end of the image. Returns their number.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let there = self.bytes.get(at..).unwrap_or_default();
        let length = there.len().min(target.len());
        target[..length].copy_from_slice(&there[..length]);
        length
    }

    /// Whether the image has `bytes` at offset `at`; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }
}

/// A guest's memory: an image at its start, followed by zeros as the guest grows.
#[derive(Debug)]
pub(crate) struct Region {
    bytes: Vec<u8>,
    image: Option<Arc<Backing>>,
}

impl Region {
    /// Maximum size of a 32-bit memory.
    pub(crate) const CAPACITY: usize = u32::MAX as usize;
    /// No address space is reserved beyond the memory itself.
    pub(crate) const RESERVED: usize = 0;

    /// Creates an empty memory.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "other systems can fail to reserve"
    )]
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            bytes: Vec::new(),
            image: None,
        })
    }

    /// Returns the address of the guest's byte 0. It changes when the memory grows.
    pub(crate) fn base(&self) -> *mut u8 {
        self.bytes.as_ptr().cast_mut()
    }

    /// Returns the number of bytes that the guest can access.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes after the image.
    pub(crate) fn grown(&self) -> usize {
        self.bytes.len() - self.image.as_ref().map_or(0, |image| image.len())
    }

    /// Whether the region holds `image`, freshly mapped or used since.
    pub(crate) fn holds(&self, image: &Arc<Backing>) -> bool {
        self.image.as_ref().is_some_and(|held| Arc::ptr_eq(held, image))
    }

    /// Whether both regions hold the same image.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        other.image.as_ref().is_some_and(|image| self.holds(image))
    }

    /// Grows the guest's memory to `size` bytes; new pages are zero.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        let more = size.saturating_sub(self.bytes.len());
        if size > Self::CAPACITY || self.bytes.try_reserve_exact(more).is_err() {
            return Err(MemoryError::new("grow the memory")(io::ErrorKind::OutOfMemory.into()));
        }
        self.bytes.resize(self.bytes.len() + more, 0);
        Ok(())
    }

    /// Replaces the contents by `image`.
    pub(crate) fn map(&mut self, image: &Arc<Backing>) -> Result<(), MemoryError> {
        self.image = None;
        self.bytes.clear();
        self.grow(image.len())?;
        self.bytes.copy_from_slice(&image.bytes);
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Resets the memory to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        if let Some(image) = self.image.clone() {
            return self.map(&image);
        }
        self.bytes.clear();
        Ok(())
    }

    /// Returns 0: no pages are kept for growth.
    #[expect(clippy::unused_self, reason = "Linux keeps some")]
    pub(crate) fn kept(&self) -> usize {
        0
    }

    /// Does nothing, because no pages are kept for growth.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "Linux keeps some"
    )]
    pub(crate) fn release_kept(&mut self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Resets the memory of a session guest to its image's state.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.reset()
    }

    /// Returns `None`: nothing can be mapped into a vector.
    pub(crate) fn extent(&self) -> Option<Extent> {
        None
    }
}

#[cfg(test)]
impl Region {
    /// Returns the bytes that the guest can access.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
