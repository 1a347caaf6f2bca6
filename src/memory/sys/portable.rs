//! Any system: an image is copied.
//!
//! A [`Region`] is a vector, so it reserves no address space. Code that wasmtime compiled for memory
//! with a guard must not run in one: [`Region::RESERVED`] says so, and
//! [`Creator`](crate::memory::Creator) refuses. Guests get wasmtime's own memories instead
//! ([`MAPS_IMAGES`]).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

pub(crate) use super::not_linux::stacks;
pub(in crate::memory) use super::not_linux::{
    Extent, View, anonymous_file, memory_of, private_pages, process_number, protect, read_exact_at,
    release, reserve, unprotected_pages, watch, without_holes, write_all_at, written_pages,
};
use crate::memory::MemoryError;

/// Images are copied.
pub(in crate::memory) const MAPS_IMAGES: bool = false;

/// An image's bytes.
#[derive(Debug)]
pub(crate) struct Backing {
    bytes: Box<[u8]>,
}

impl Backing {
    /// Reads `length` bytes of `file` from `offset` on.
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

    /// Copies its bytes from `at` on to `target`, as far as there are any.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let there = self.bytes.get(at..).unwrap_or_default();
        let length = there.len().min(target.len());
        target[..length].copy_from_slice(&there[..length]);
        length
    }

    /// Whether `bytes` are its own from `at` on; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }
}

/// A guest's memory: an image at its start, zeros after that as the guest grows.
#[derive(Debug)]
pub(crate) struct Region {
    bytes: Vec<u8>,
    image: Option<Arc<Backing>>,
}

impl Region {
    /// The largest 32-bit memory.
    pub(crate) const CAPACITY: usize = u32::MAX as usize;
    /// No address space past the memory itself.
    pub(crate) const RESERVED: usize = 0;

    /// An empty memory.
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

    /// The address of the guest's byte 0. It changes when the memory grows.
    pub(crate) fn base(&self) -> *mut u8 {
        self.bytes.as_ptr().cast_mut()
    }

    /// Bytes that the guest can reach.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes past the image.
    pub(crate) fn grown(&self) -> usize {
        self.bytes.len() - self.image.as_ref().map_or(0, |image| image.len())
    }

    /// Whether this is `image`'s memory, as it was baked or after a reset.
    pub(crate) fn holds(&self, image: &Arc<Backing>) -> bool {
        self.image.as_ref().is_some_and(|held| Arc::ptr_eq(held, image))
    }

    /// Whether both hold the same image.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        other.image.as_ref().is_some_and(|image| self.holds(image))
    }

    /// Makes the guest's memory `size` bytes long; new pages are zero.
    pub(crate) fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        let more = size.saturating_sub(self.bytes.len());
        if size > Self::CAPACITY || self.bytes.try_reserve_exact(more).is_err() {
            return Err(MemoryError::new("grow the memory")(io::ErrorKind::OutOfMemory.into()));
        }
        self.bytes.resize(self.bytes.len() + more, 0);
        Ok(())
    }

    /// Puts `image` in place of whatever was there.
    pub(crate) fn map(&mut self, image: &Arc<Backing>) -> Result<(), MemoryError> {
        self.image = None;
        self.bytes.clear();
        self.grow(image.len())?;
        self.bytes.copy_from_slice(&image.bytes);
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Puts the memory back to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        if let Some(image) = self.image.clone() {
            return self.map(&image);
        }
        self.bytes.clear();
        Ok(())
    }

    /// Puts the memory of a guest that was kept back to its image's state.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.reset()
    }

    /// `None`: nothing is mapped into a vector.
    pub(crate) fn extent(&self) -> Option<Extent> {
        None
    }
}

#[cfg(test)]
impl Region {
    /// What the guest can reach.
    pub(in crate::memory) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
