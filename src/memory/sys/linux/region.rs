//! Regions: an image mapped copy-on-write, put back by asking the kernel which pages were written.
#![expect(unsafe_code, reason = "drops pages of a mapping, which its value owns")]

use std::ops::Range;
use std::sync::Arc;

use rustix::mm::{self, Advice};

use super::{pagemap, watch};
use crate::memory::sys::mapping::{Backing, Extent, Space};
use crate::memory::{HOST_PAGE, MemoryError};

/// A stretch of address space as large as the largest guest memory and its guard: an image
/// mapped at its start, zeroed pages after that as the guest grows, nothing past them.
#[derive(Debug)]
pub(crate) struct Region {
    space: Space,
    /// `None` until the first image, and after a mapping that failed half-way.
    image: Option<Arc<Backing>>,
    watch: Watch,
    /// Resets in a row that found most of what is unprotected as it was.
    quiet: u32,
}

/// Whether the kernel notes which pages of a region's image are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    NotYet,
    /// What has been written is not protected, and all else is.
    Yes,
    /// It cannot, or may not.
    Never,
}

impl Region {
    /// The largest 32-bit memory.
    pub(crate) const CAPACITY: usize = Space::CAPACITY;
    /// Address space of a region: what compiled code relies on.
    pub(crate) const RESERVED: usize = Space::RESERVED;
    /// The most bytes that a reset puts back by copying. A short run writes about 1 MiB, one that
    /// prints a DataFrame about 8. What a long one wrote is dropped, and faulted in again by
    /// whoever needs it.
    const KEEP_RESIDENT: usize = 16 << 20;
    /// The most bytes that are put back by copying after a guest that was kept: what the next one has
    /// in its memory from the beginning.
    const KEEP_RESTED: usize = 24 << 20;
    /// Bytes up to which everything unprotected is copied back, whether it was written or not.
    const MAX_COPIED: usize = 2 << 20;
    /// Resets that have to find most of what is unprotected as it was before it is protected again.
    const QUIET_RESETS: u32 = 8;

    /// Reserves address space.
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            space: Space::reserve()?,
            image: None,
            watch: Watch::NotYet,
            quiet: 0,
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
        // A new mapping is not watched.
        self.watch = Watch::NotYet;
        self.space.discard(0)?;
        self.space.take_overlaid();
        self.space.show(image, 0..image.len())?;
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Puts the memory of a guest that was kept back to its image's state. What it wrote was protected
    /// again and again, and pages set aside were mapped over it; so what was ever written is looked for,
    /// and nothing is left protected on purpose.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.watch = Watch::Never;
        let Some(image) = self.image.clone() else {
            return self.space.discard(0);
        };
        self.space.discard(image.len())?;
        let base = self.base() as usize;
        // Each page that is protected would cost a fault when it is put back, and when the next guest
        // writes to it.
        watch::unprotect(base..base + image.len());
        for overlaid in self.space.take_overlaid() {
            let range = overlaid.start..overlaid.end.min(image.len());
            if !range.is_empty() {
                self.space.show(&image, range)?;
            }
        }
        match pagemap::private_pages(base..base + image.len(), Self::KEEP_RESTED) {
            Some(written) => {
                let written: Vec<_> =
                    written.iter().map(|range| range.start - base..range.end - base).collect();
                self.copy_back(&image, &written);
                Ok(())
            }
            // A mapping of its own: in one that was watched, what is dropped would still count as there.
            None => self.space.show(&image, 0..image.len()),
        }
    }

    /// Puts the memory back to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        let Some(image) = self.image.clone() else {
            return self.space.discard(0);
        };
        self.space.discard(image.len())?;
        let Some(written) = self.written(image.len()) else {
            // What is dropped is as it was, but is not protected any more.
            if self.watch == Watch::Yes {
                self.watch = Watch::NotYet;
            }
            return self.drop_private_pages(image.len());
        };
        if self.watch == Watch::NotYet {
            self.watch = self.begin_watching(image.len());
        }
        // After that, so that the next sandbox finds unprotected what the last one wrote.
        self.copy_back(&image, &written);
        Ok(())
    }

    /// The ranges of the image's part that may have been written; `None` when they are more than is
    /// worth copying, or the kernel cannot tell.
    fn written(&mut self, length: usize) -> Option<Vec<Range<usize>>> {
        let base = self.base() as usize;
        let all = base..base + length;
        let mut written = match self.watch {
            Watch::Yes => pagemap::unprotected_pages(all.clone(), false),
            Watch::NotYet | Watch::Never => None,
        };
        if written.is_none() {
            // Also in a child of the process that watched it.
            if self.watch == Watch::Yes {
                self.watch = Watch::NotYet;
            }
            written = pagemap::private_pages(all, Self::KEEP_RESIDENT);
        }
        let mut written = written?;
        for range in &mut written {
            *range = range.start - base..range.end - base;
        }
        (bytes(&written) <= Self::KEEP_RESIDENT).then_some(written)
    }

    /// Has the kernel protect the image's part, and note what is written to.
    fn begin_watching(&self, length: usize) -> Watch {
        let base = self.base() as usize;
        let all = base..base + length;
        if !watch(all.clone()) || !watch::protect(all.clone()) {
            return Watch::Never;
        }
        // Kernels before 6.18 may take for written what is merely not there.
        match pagemap::unprotected_pages(all, false) {
            Some(none) if none.is_empty() => Watch::Yes,
            _ => Watch::Never,
        }
    }

    /// Puts the image's bytes into `written`.
    fn copy_back(&mut self, image: &Backing, written: &[Range<usize>]) {
        let all = bytes(written);
        if all <= Self::MAX_COPIED || self.watch != Watch::Yes {
            for range in written {
                self.copy_range(image, range.clone());
            }
            return;
        }
        // A run that wrote a lot leaves a lot unprotected, of which the next ones write little.
        let mut changed = 0;
        for page in written.iter().flat_map(|range| range.clone().step_by(HOST_PAGE)) {
            changed += self.copy_range_if_changed(image, page..page + HOST_PAGE);
        }
        self.quiet = if changed < all / 2 { self.quiet + 1 } else { 0 };
        if self.quiet >= Self::QUIET_RESETS {
            self.quiet = 0;
            let base = self.base() as usize;
            if pagemap::unprotected_pages(base..base + image.len(), true).is_none() {
                self.watch = Watch::NotYet;
            }
        }
    }

    fn copy_range(&mut self, image: &Backing, range: Range<usize>) {
        image.read(range.start, self.space.bytes(range));
    }

    /// Returns how many bytes were copied: all of the range or none.
    fn copy_range_if_changed(&mut self, image: &Backing, range: Range<usize>) -> usize {
        if image.is_same(range.start, self.space.bytes(range.clone())) {
            return 0;
        }
        let length = range.len();
        self.copy_range(image, range);
        length
    }

    /// Drops every page that was written, so that the file's content shows again.
    fn drop_private_pages(&mut self, length: usize) -> Result<(), MemoryError> {
        // SAFETY: the range is this region's private mapping of an image file.
        unsafe { mm::madvise(self.base().cast(), length, Advice::LinuxDontNeed) }
            .map_err(|e| MemoryError::new("reset memory")(e.into()))
    }
}

/// How long `ranges` are together.
fn bytes(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

#[cfg(test)]
impl Region {
    /// What the guest can reach.
    pub(in crate::memory) fn bytes(&mut self) -> &mut [u8] {
        self.space.bytes(0..self.len())
    }
}
