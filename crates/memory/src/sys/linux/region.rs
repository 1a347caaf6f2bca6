//! Regions: an image mapped copy-on-write, reset by querying the kernel for written pages.
#![expect(unsafe_code, reason = "drops pages of a mapping, which its value owns")]

use std::ops::Range;
use std::sync::Arc;

use rustix::mm::{self, Advice};

use super::{pagemap, watch};
use crate::sys::mapping::{Backing, Extent, Space};
use crate::{HOST_PAGE, MemoryError};

/// Address space for the largest guest memory and its guard: an image at its start, followed by
/// zeroed pages as the guest grows, and inaccessible after that.
#[derive(Debug)]
pub(crate) struct Region {
    space: Space,
    /// `None` before the first image, and after a mapping that failed halfway.
    image: Option<Arc<Backing>>,
    watch: Watch,
    /// Number of consecutive resets that found most unprotected pages unchanged.
    quiet: u32,
    /// Size of the grown memory that the next sandbox is expected to use, in bytes.
    expected: usize,
}

/// Whether the kernel records writes to the pages of a region's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    NotYet,
    /// Written pages are unprotected, and all other pages are protected.
    Yes,
    /// The kernel cannot watch, or does not permit it.
    Never,
}

impl Region {
    /// Maximum size of a 32-bit memory.
    pub(crate) const CAPACITY: usize = Space::CAPACITY;
    /// Size of a region's address space, which compiled code relies on.
    pub(crate) const RESERVED: usize = Space::RESERVED;
    /// Maximum number of bytes that a reset copies back. A short run writes about 1 MiB, and a run
    /// that prints a DataFrame about 8 MiB. Larger writes are dropped, and later accesses fault the
    /// pages in again.
    const KEEP_RESIDENT: usize = 16 << 20;
    /// Maximum number of bytes to copy back after a session guest: the next guest has them in
    /// memory from the start.
    const KEEP_RESTED: usize = 24 << 20;
    /// Up to this size, all unprotected pages are copied back without checking whether they
    /// changed.
    const MAX_COPIED: usize = 2 << 20;
    /// Number of consecutive resets with mostly unchanged pages before pages are protected again.
    const QUIET_RESETS: u32 = 8;
    /// Maximum size of grown memory that a reset zeroes and keeps. Zeroing a page takes a quarter
    /// of the time of a page fault.
    const KEEP_GROWN: usize = 64 << 20;
    /// The unit in which guests grow, in bytes.
    const WASM_PAGE: usize = 64 << 10;

    /// Reserves address space.
    pub(crate) fn reserve() -> Result<Self, MemoryError> {
        Ok(Self {
            space: Space::reserve()?,
            image: None,
            watch: Watch::NotYet,
            quiet: 0,
            expected: 0,
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
        self.expected = 0;
        // A new mapping is not watched.
        self.watch = Watch::NotYet;
        self.space.discard(0)?;
        self.space.take_overlaid();
        self.space.show(image, 0..image.len())?;
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Resets the memory of a session guest to its image's state. Its writes were protected
    /// repeatedly, and stored pages were mapped over it. So this looks for all pages ever written,
    /// and removes the write protection.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.watch = Watch::Never;
        let Some(image) = self.image.clone() else {
            return self.space.discard(0);
        };
        self.space.discard(image.len())?;
        let base = self.base() as usize;
        // Each protected page would cost a fault when it is reset, and another when the next guest
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
            // Map the image again: in a watched mapping, dropped pages would still count as
            // present.
            None => self.space.show(&image, 0..image.len()),
        }
    }

    /// Resets the memory to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        let Some(image) = self.image.clone() else {
            return self.space.discard(0);
        };
        self.clear_grown(image.len())?;
        let Some(written) = self.written(image.len()) else {
            // Dropped pages have their original contents, but are no longer protected.
            if self.watch == Watch::Yes {
                self.watch = Watch::NotYet;
            }
            return self.drop_private_pages(image.len());
        };
        if self.watch == Watch::NotYet {
            self.watch = self.begin_watching(image.len());
        }
        // Last, so that pages written by the previous sandbox are unprotected for the next one.
        self.copy_back(&image, &written);
        Ok(())
    }

    /// Returns the size of grown memory that idle pages are kept for, in bytes.
    pub(crate) fn kept(&self) -> usize {
        self.space.used() - self.len()
    }

    /// Releases the pages kept for growth.
    pub(crate) fn release_kept(&mut self) -> Result<(), MemoryError> {
        self.expected = 0;
        self.space.discard(self.len())
    }

    /// Shrinks the memory to `start`, the image's size. Pages that the next sandbox is expected to
    /// grow into are zeroed, other pages are discarded.
    fn clear_grown(&mut self, start: usize) -> Result<(), MemoryError> {
        if self.space.is_partial() {
            return self.space.discard(start);
        }
        // The expectation sinks slowly, because small runs follow large ones in turn.
        let unused = self.expected.saturating_sub(self.grown());
        let sunk = self.expected - (unused / 16).next_multiple_of(Self::WASM_PAGE).min(unused);
        self.expected = sunk.max(self.grown()).min(Self::KEEP_GROWN);
        let kept = start..self.len().min(start + self.expected);
        if kept.is_empty() {
            return self.space.discard(start + self.expected);
        }
        let base = self.base() as usize;
        // Only sessions map pages over grown memory.
        let touched = pagemap::touched_pages(base + kept.start..base + kept.end);
        let Some(touched) = touched else {
            return self.space.discard(start);
        };
        self.space.discard(start + self.expected)?;
        for range in touched {
            self.space.bytes(range.start - base..range.end - base).fill(0);
        }
        self.space.hide(start)
    }

    /// Returns the ranges of the image that may have been written; `None` if they are too large to
    /// copy, or the kernel cannot tell.
    fn written(&mut self, length: usize) -> Option<Vec<Range<usize>>> {
        let base = self.base() as usize;
        let all = base..base + length;
        let mut written = match self.watch {
            Watch::Yes => pagemap::unprotected_pages(all.clone(), false),
            Watch::NotYet | Watch::Never => None,
        };
        if written.is_none() {
            // Also in a forked child of the process that watched it.
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

    /// Asks the kernel to protect the image's pages and to record writes.
    fn begin_watching(&self, length: usize) -> Watch {
        let base = self.base() as usize;
        let all = base..base + length;
        if !watch(all.clone()) || !watch::protect(all.clone()) {
            return Watch::Never;
        }
        // Kernels before 6.18 may report pages that are merely absent as written.
        match pagemap::unprotected_pages(all, false) {
            Some(none) if none.is_empty() => Watch::Yes,
            _ => Watch::Never,
        }
    }

    /// Copies the image's bytes back into the ranges `written`.
    fn copy_back(&mut self, image: &Backing, written: &[Range<usize>]) {
        let all = bytes(written);
        if all <= Self::MAX_COPIED || self.watch != Watch::Yes {
            for range in written {
                self.copy_range(image, range.clone());
            }
            return;
        }
        // After a run with many writes, many pages are unprotected, but the next runs write to few
        // of them.
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

    /// Returns the number of bytes copied: the whole range or zero.
    fn copy_range_if_changed(&mut self, image: &Backing, range: Range<usize>) -> usize {
        if image.is_same(range.start, self.space.bytes(range.clone())) {
            return 0;
        }
        let length = range.len();
        self.copy_range(image, range);
        length
    }

    /// Drops all written pages, so that the file's contents reappear.
    fn drop_private_pages(&mut self, length: usize) -> Result<(), MemoryError> {
        // SAFETY: the range is this region's private mapping of an image file.
        unsafe { mm::madvise(self.base().cast(), length, Advice::LinuxDontNeed) }
            .map_err(|e| MemoryError::new("reset memory")(e.into()))
    }
}

/// Returns the total length of `ranges`.
fn bytes(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

#[cfg(test)]
impl Region {
    /// Returns the bytes that the guest can access.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.space.bytes(0..self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::skip;
    use std::io::Write;

    const IMAGE: usize = 4 * Region::WASM_PAGE;

    fn region() -> Region {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; IMAGE]).unwrap();
        let mut region = Region::reserve().unwrap();
        region.map(&Arc::new(Backing::new(file, 0, IMAGE).unwrap())).unwrap();
        region
    }

    /// A sandbox that grows by `more` bytes, expects zeros, and writes to every `step`th page.
    fn run(region: &mut Region, more: usize, step: usize) {
        region.grow(IMAGE + more).unwrap();
        let grown = &mut region.bytes()[IMAGE..];
        assert!(grown.iter().all(|byte| *byte == 0), "bytes of another sandbox");
        for page in grown.chunks_mut(HOST_PAGE).step_by(step) {
            page.fill(0xa5);
        }
        region.reset().unwrap();
        assert_eq!(region.len(), IMAGE);
    }

    /// Returns the number of bytes past the image that use memory.
    fn resident(region: &Region) -> usize {
        let start = region.base() as usize + IMAGE;
        pagemap::touched_pages(start..start + (256 << 20)).as_deref().map_or(0, bytes)
    }

    fn can_keep() -> bool {
        let region = region();
        let base = region.base() as usize;
        let can = pagemap::touched_pages(base..base + IMAGE).is_some();
        if !can {
            skip("a kernel that lists pages (PAGEMAP_SCAN, Linux 6.7)");
        }
        can
    }

    #[test]
    fn grown_memory_is_kept_without_its_bytes() {
        let mut region = region();
        let mut random = 1_u64;
        for round in 0..60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let more = (random >> 33) as usize % 100 * Region::WASM_PAGE;
            run(&mut region, more, 1 + round % 7);
        }
        if can_keep() {
            assert!(region.kept() > 0 && resident(&region) > 0);
        }
        region.release_kept().unwrap();
        assert_eq!((region.kept(), resident(&region)), (0, 0));
        run(&mut region, 1 << 20, 1);
    }

    #[test]
    fn kept_memory_is_inaccessible() {
        let mut region = region();
        run(&mut region, 2 << 20, 1);
        let start = format!("{:x}-", region.base() as usize + IMAGE);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.contains("---p")), "{line:?}");
        // The next sandbox may grow by less, and gets the rest only when it asks for it.
        region.grow(IMAGE + Region::WASM_PAGE).unwrap();
        assert_eq!(region.len(), IMAGE + Region::WASM_PAGE);
        let start = format!("{:x}-", region.base() as usize + region.len());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.contains("---p")), "{line:?}");
    }

    #[test]
    fn kept_memory_has_a_limit() {
        let mut region = region();
        run(&mut region, 3 * Region::KEEP_GROWN, 1);
        assert!(region.kept() <= Region::KEEP_GROWN && resident(&region) <= Region::KEEP_GROWN);
        // Untouched memory is not touched by the reset.
        region.release_kept().unwrap();
        region.grow(1 << 31).unwrap();
        region.bytes()[IMAGE + (1 << 20)] = 1;
        region.reset().unwrap();
        assert!(resident(&region) <= HOST_PAGE);
        run(&mut region, 2 << 20, 1);
    }

    #[test]
    fn kept_memory_follows_use() {
        if !can_keep() {
            return;
        }
        let mut region = region();
        run(&mut region, 16 << 20, 1);
        assert_eq!(region.kept(), 16 << 20);
        run(&mut region, 1 << 20, 1);
        assert!((8 << 20..16 << 20).contains(&region.kept()));
        for _ in 0..200 {
            run(&mut region, 1 << 20, 1);
        }
        assert_eq!((region.kept(), resident(&region)), (1 << 20, 1 << 20));
    }

    #[test]
    fn kept_memory_goes_with_the_image() {
        let mut region = region();
        run(&mut region, 4 << 20, 1);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![8; 2 * IMAGE]).unwrap();
        let other = Arc::new(Backing::new(file, 0, 2 * IMAGE).unwrap());
        region.map(&other).unwrap();
        assert!(region.bytes() == vec![8; 2 * IMAGE]);
        region.grow(4 * IMAGE).unwrap();
        assert!(region.bytes()[2 * IMAGE..] == vec![0; 2 * IMAGE]);
    }
}
