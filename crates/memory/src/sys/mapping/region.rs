//! Regions for systems that do not report written pages: the image is mapped again for each guest.

use std::sync::Arc;

use super::{Backing, Extent, Space};
use crate::MemoryError;

/// Address space for the largest guest memory and its guard: an image at its start, followed by
/// zeroed pages as the guest grows, and inaccessible after that.
#[derive(Debug)]
pub(crate) struct Region {
    space: Space,
    /// `None` before the first image, and after a mapping that failed halfway.
    image: Option<Arc<Backing>>,
}

impl Region {
    /// Maximum size of a 32-bit memory.
    pub(crate) const CAPACITY: usize = Space::CAPACITY;
    /// Size of a region's address space, which compiled code relies on.
    pub(crate) const RESERVED: usize = Space::RESERVED;

    /// Reserves address space.
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            space: Space::reserve()?,
            image: None,
        })
    }

    /// Returns the address of the guest's byte 0.
    pub(crate) fn base(&self) -> *mut u8 {
        self.space.base()
    }

    /// Returns the permission to map pages over the guest's memory; `None` if the system's pages
    /// are larger than those of a page store.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.space.extent()
    }

    /// Returns the number of bytes that the guest can access.
    pub(crate) fn len(&self) -> usize {
        self.space.len()
    }

    /// Returns the number of bytes after the image.
    pub(crate) fn grown(&self) -> usize {
        self.len() - self.image.as_ref().map_or(0, |image| image.len())
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
        self.space.grow(size)
    }

    /// Maps `image` at the start, replacing the previous contents.
    pub(crate) fn map(&mut self, image: &Arc<Backing>) -> Result<(), MemoryError> {
        self.image = None;
        self.space.discard(0)?;
        self.space.take_overlaid();
        self.space.show(image, 0..image.len())?;
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Resets the memory to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        let Some(image) = self.image.take() else {
            return self.space.discard(0);
        };
        self.space.discard(image.len())?;
        self.space.take_overlaid();
        // Only Linux has a call that drops written pages.
        self.space.show(&image, 0..image.len())?;
        self.image = Some(image);
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
}

#[cfg(test)]
impl Region {
    /// Returns the bytes that the guest can access.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.space.bytes(0..self.len())
    }
}
