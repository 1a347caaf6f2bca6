//! Regions in which an image is mapped anew for each guest, where nothing says which pages were written.

use std::sync::Arc;

use super::{Backing, Extent, Space};
use crate::memory::MemoryError;

/// A stretch of address space as large as the largest guest memory and its guard: an image
/// mapped at its start, zeroed pages after that as the guest grows, nothing past them.
#[derive(Debug)]
pub(crate) struct Region {
    space: Space,
    /// `None` until the first image, and after a mapping that failed half-way.
    image: Option<Arc<Backing>>,
}

impl Region {
    /// The largest 32-bit memory.
    pub(crate) const CAPACITY: usize = Space::CAPACITY;
    /// Address space of a region: what compiled code relies on.
    pub(crate) const RESERVED: usize = Space::RESERVED;

    /// Reserves address space.
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            space: Space::reserve()?,
            image: None,
        })
    }

    /// The address of the guest's byte 0.
    pub(crate) fn base(&self) -> *mut u8 {
        self.space.base()
    }

    /// Leave to map pages over the memory of the guest that lives here; `None` where the system's
    /// pages are larger than those that are set aside.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.space.extent()
    }

    /// Bytes that the guest can reach.
    pub(crate) fn len(&self) -> usize {
        self.space.len()
    }

    /// Bytes past the image.
    pub(crate) fn grown(&self) -> usize {
        self.len() - self.image.as_ref().map_or(0, |image| image.len())
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
        self.space.grow(size)
    }

    /// Maps `image` over the start, replacing whatever was there.
    pub(crate) fn map(&mut self, image: &Arc<Backing>) -> Result<(), MemoryError> {
        self.image = None;
        self.space.discard(0)?;
        self.space.take_overlaid();
        self.space.show(image, 0..image.len())?;
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Puts the memory back to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        let Some(image) = self.image.take() else {
            return self.space.discard(0);
        };
        self.space.discard(image.len())?;
        self.space.take_overlaid();
        // Other systems than Linux have no call that drops what was written.
        self.space.show(&image, 0..image.len())?;
        self.image = Some(image);
        Ok(())
    }

    /// Puts the memory of a guest that was kept back to its image's state.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.reset()
    }
}

#[cfg(test)]
impl Region {
    /// What the guest can reach.
    pub(in crate::memory) fn bytes(&mut self) -> &mut [u8] {
        self.space.bytes(0..self.len())
    }
}
