//! Regions: reserved address space in which images are mapped copy-on-write.
#![expect(
    unsafe_code,
    reason = "maps memory; every mapping lies inside a reservation that its value owns"
)]

use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::{pagemap, watch};
use crate::memory::{HOST_PAGE, MemoryError};

/// An image's bytes: a file, and a read-only view of it from which pages are put back.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    offset: u64,
    view: NonNull<u8>,
    length: usize,
}

// SAFETY: the view is a read-only mapping that nothing in this process writes to; it is unmapped
// only when the value is dropped.
unsafe impl Send for Backing {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Backing {}

impl Backing {
    /// Maps `length` bytes of `file` from `offset` on; both are multiples of the page size, and
    /// the file is at least that long: a view past its end would end the process when touched.
    pub(crate) fn new(file: File, offset: u64, length: usize) -> Result<Self, MemoryError> {
        let size = file.metadata().map_err(MemoryError::new("look at an image"))?.len();
        if length == 0 || offset.checked_add(length as u64).is_none_or(|end| end > size) {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(MemoryError::new("map an image")(short));
        }
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
        let view = unsafe {
            mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, &file, offset)
        }
        .map_err(|e| MemoryError::new("map an image")(e.into()))?;
        let view = NonNull::new(view.cast()).expect("a mapping is not at address zero");
        Ok(Self {
            file,
            offset,
            view,
            length,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Copies its bytes from `at` on to `target`, as far as there are any; returns how many.
    pub(crate) fn read(&self, at: usize, target: &mut [u8]) -> usize {
        let length = self.length.saturating_sub(at).min(target.len());
        if length > 0 {
            // SAFETY: `length` bytes from `at` on are in the view, and as many in `target`, which
            // is no part of it: nobody can write to the view.
            unsafe {
                let from = self.view.add(at).as_ptr();
                std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), length);
            }
        }
        length
    }

    /// Whether `bytes` are its own from `at` on; false past its end.
    pub(crate) fn is_same(&self, at: usize, bytes: &[u8]) -> bool {
        let is_inside = at.checked_add(bytes.len()).is_some_and(|end| end <= self.length);
        // SAFETY: the range is in the view (checked), to which nobody writes.
        is_inside
            && unsafe { std::slice::from_raw_parts(self.view.add(at).as_ptr(), bytes.len()) }
                == bytes
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: the view is this value's own mapping, and no reference to it outlives the value.
        let unmapped = unsafe { mm::munmap(self.view.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Address space of a region; it is given back when its region and every [`Extent`] are gone.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    /// What an [`Extent`] has mapped over the image and what was grown, as offsets from the base.
    overlaid: Mutex<Vec<Range<usize>>>,
}

// SAFETY: the value owns its address space and does not touch what is mapped in it.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    fn new() -> Result<Self, MemoryError> {
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
        let base = unsafe {
            mm::mmap_anonymous(
                std::ptr::null_mut(),
                Region::RESERVED,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|e| MemoryError::new("reserve address space")(e.into()))?;
        Ok(Self {
            base: NonNull::new(base.cast()).expect("a mapping is not at address zero"),
            overlaid: Mutex::default(),
        })
    }

    /// What was mapped over, of which it knows nothing any more.
    fn take_overlaid(&self) -> Vec<Range<usize>> {
        std::mem::take(&mut *self.overlaid.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the address space is this value's own. A region or an extent that could lead
        // to it holds this value.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), Region::RESERVED) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A stretch of address space as large as the largest guest memory and its guard: an image
/// mapped at its start, zeroed pages after that as the guest grows, nothing past them.
#[derive(Debug)]
pub(crate) struct Region {
    reservation: Arc<Reservation>,
    /// Bytes from the base that the guest can reach.
    accessible: usize,
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
    pub(crate) const CAPACITY: usize = 1 << 32;
    /// wasmtime's default guard on 64-bit hosts.
    const GUARD: usize = 32 << 20;
    /// Address space of a region: what compiled code relies on.
    pub(crate) const RESERVED: usize = Self::CAPACITY + Self::GUARD;
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
            reservation: Arc::new(Reservation::new()?),
            accessible: 0,
            image: None,
            watch: Watch::NotYet,
            quiet: 0,
        })
    }

    /// The address of the guest's byte 0.
    pub(crate) fn base(&self) -> *mut u8 {
        self.reservation.base.as_ptr()
    }

    /// Leave to map pages over the memory of the guest that lives here; `None` where the system's
    /// pages are larger than those that are set aside.
    pub(crate) fn extent(&self) -> Option<Extent> {
        (rustix::param::page_size() == HOST_PAGE).then(|| Extent(Arc::clone(&self.reservation)))
    }

    /// Bytes that the guest can reach.
    pub(crate) fn len(&self) -> usize {
        self.accessible
    }

    /// Bytes past the image.
    pub(crate) fn grown(&self) -> usize {
        self.accessible - self.image.as_ref().map_or(0, |image| image.length)
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
        if size <= self.accessible {
            return Ok(());
        }
        if size > Self::CAPACITY {
            let e = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
            return Err(MemoryError::new("grow the memory")(e));
        }
        let grown = self.accessible..size;
        // SAFETY: the range lies in this reservation (checked above), where the pages past
        // `accessible` are untouched anonymous ones.
        unsafe {
            let start = self.reservation.base.add(grown.start).as_ptr().cast();
            mm::mprotect(start, grown.len(), MprotectFlags::READ | MprotectFlags::WRITE)
        }
        .map_err(|e| MemoryError::new("grow the memory")(e.into()))?;
        self.accessible = size;
        Ok(())
    }

    /// Maps `image` over the start, replacing whatever was there.
    pub(crate) fn map(&mut self, image: &Arc<Backing>) -> Result<(), MemoryError> {
        self.image = None;
        // A new mapping is not watched.
        self.watch = Watch::NotYet;
        self.discard(0)?;
        self.reservation.take_overlaid();
        self.show(image, 0..image.length)?;
        self.accessible = image.length;
        self.image = Some(Arc::clone(image));
        Ok(())
    }

    /// Maps `range` of `image` where it belongs, over whatever was there.
    fn show(&mut self, image: &Backing, range: Range<usize>) -> Result<(), MemoryError> {
        assert!(range.start <= range.end && range.end <= image.length.min(Self::CAPACITY));
        // SAFETY: the range lies in this reservation and in the image (asserted), and nothing else uses
        // it.
        unsafe {
            mm::mmap(
                self.reservation.base.add(range.start).as_ptr().cast(),
                range.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
                &image.file,
                image.offset + range.start as u64,
            )
        }
        .map_err(|e| MemoryError::new("map an image")(e.into()))?;
        Ok(())
    }

    /// Puts the memory of a guest that was kept back to its image's state. What it wrote was protected
    /// again and again, and pages set aside were mapped over it; so what was ever written is looked for,
    /// and nothing is left protected on purpose.
    pub(crate) fn rest(&mut self) -> Result<(), MemoryError> {
        self.watch = Watch::Never;
        let Some(image) = self.image.clone() else {
            return self.discard(0);
        };
        self.discard(image.length)?;
        for overlaid in self.reservation.take_overlaid() {
            let range = overlaid.start..overlaid.end.min(image.length);
            if !range.is_empty() {
                self.show(&image, range)?;
            }
        }
        let base = self.reservation.base.as_ptr() as usize;
        match pagemap::private_pages(base..base + image.length, Self::KEEP_RESTED) {
            Some(written) => {
                let written: Vec<_> =
                    written.iter().map(|range| range.start - base..range.end - base).collect();
                self.copy_back(&image, &written);
                Ok(())
            }
            // A mapping of its own: in one that was watched, what is dropped would still count as there.
            None => self.show(&image, 0..image.length),
        }
    }

    /// Puts the memory back to its image's state.
    pub(crate) fn reset(&mut self) -> Result<(), MemoryError> {
        let Some(image) = self.image.clone() else {
            return self.discard(0);
        };
        self.discard(image.length)?;
        let Some(written) = self.written(image.length) else {
            // What is dropped is as it was, but is not protected any more.
            if self.watch == Watch::Yes {
                self.watch = Watch::NotYet;
            }
            return self.drop_private_pages(image.length);
        };
        if self.watch == Watch::NotYet {
            self.watch = self.begin_watching(image.length);
        }
        // After that, so that the next sandbox finds unprotected what the last one wrote.
        self.copy_back(&image, &written);
        Ok(())
    }

    /// The ranges of the image's part that may have been written; `None` when they are more than is
    /// worth copying, or the kernel cannot tell.
    fn written(&mut self, length: usize) -> Option<Vec<Range<usize>>> {
        let base = self.reservation.base.as_ptr() as usize;
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
        let base = self.reservation.base.as_ptr() as usize;
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

    /// Makes everything from `start` on inaccessible and forgets what was in it.
    fn discard(&mut self, start: usize) -> Result<(), MemoryError> {
        if start >= self.accessible {
            return Ok(());
        }
        // SAFETY: the range lies in this reservation, which nothing else uses.
        unsafe {
            mm::mmap_anonymous(
                self.reservation.base.add(start).as_ptr().cast(),
                self.accessible - start,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )
        }
        .map_err(|e| MemoryError::new("release memory")(e.into()))?;
        self.accessible = start;
        Ok(())
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
            let base = self.reservation.base.as_ptr() as usize;
            if pagemap::unprotected_pages(base..base + image.length, true).is_none() {
                self.watch = Watch::NotYet;
            }
        }
    }

    fn copy_range(&mut self, image: &Backing, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= image.length);
        // SAFETY: both ranges are in bounds (asserted; the image is mapped over this region's
        // start) and belong to different mappings; no guest runs here, for `&mut self` is with
        // the pool, after the instance that owned the region is gone.
        unsafe {
            std::ptr::copy_nonoverlapping(
                image.view.add(range.start).as_ptr(),
                self.reservation.base.add(range.start).as_ptr(),
                range.len(),
            );
        }
    }

    /// Returns how many bytes were copied: all of the range or none.
    fn copy_range_if_changed(&mut self, image: &Backing, range: Range<usize>) -> usize {
        assert!(range.start <= range.end && range.end <= image.length);
        // SAFETY: both ranges are in bounds and readable (as in `copy_range`), and nothing writes
        // to either while they are borrowed.
        let (is, was) = unsafe {
            (
                std::slice::from_raw_parts(
                    self.reservation.base.add(range.start).as_ptr(),
                    range.len(),
                ),
                std::slice::from_raw_parts(image.view.add(range.start).as_ptr(), range.len()),
            )
        };
        if is == was {
            return 0;
        }
        let length = range.len();
        self.copy_range(image, range);
        length
    }

    /// Drops every page that was written, so that the file's content shows again.
    fn drop_private_pages(&mut self, length: usize) -> Result<(), MemoryError> {
        // SAFETY: the range is this region's private mapping of an image file.
        unsafe { mm::madvise(self.reservation.base.as_ptr().cast(), length, Advice::LinuxDontNeed) }
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
        // SAFETY: so far the region is mapped, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base(), self.accessible) }
    }
}

/// Leave to map pages into one region. It outlives neither the address space, which it holds, nor
/// does it give access to it: whoever maps something brings an exclusive borrow of what is there.
#[derive(Clone, Debug)]
pub(crate) struct Extent(Arc<Reservation>);

impl Extent {
    /// Replaces `target`, whole pages of a resting guest's memory in this region, by a
    /// copy-on-write mapping of `file` from `at` on. What the file has there must stay until the
    /// guest has written to those pages or is gone: the caller holds the pages that long.
    pub(crate) fn map_over(
        &self,
        target: &mut [u8],
        file: &File,
        at: u64,
    ) -> Result<(), MemoryError> {
        let start = (target.as_ptr() as usize).checked_sub(self.0.base.as_ptr() as usize);
        let end = start.and_then(|start| start.checked_add(target.len()));
        let inside = end.is_some_and(|end| end <= Region::CAPACITY);
        let whole_pages = target.len().is_multiple_of(HOST_PAGE);
        let there = at
            .checked_add(target.len() as u64)
            .is_some_and(|end| file.metadata().is_ok_and(|file| end <= file.len()));
        if !(inside && whole_pages && there) {
            let wrong = std::io::Error::from(std::io::ErrorKind::InvalidInput);
            return Err(MemoryError::new("map pages set aside")(wrong));
        }
        // SAFETY: `target` lies in this region's address space (checked), which the reservation
        // keeps from being anybody else's. A slice there is of pages that the guest may read and
        // write, and it is exclusively borrowed, so nobody looks while they are replaced. The new
        // mapping has their length (checked: whole pages) and their protection, so the borrow
        // stays valid and only bytes change; the file has all of them (checked). The kernel
        // refuses an address between pages.
        unsafe {
            mm::mmap(
                target.as_mut_ptr().cast(),
                target.len(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
                file,
                at,
            )
        }
        .map_err(|e| MemoryError::new("map pages set aside")(e.into()))?;
        let start = start.unwrap_or_default();
        let range = start..start + target.len();
        let mut overlaid = self.0.overlaid.lock().unwrap_or_else(PoisonError::into_inner);
        overlaid.retain(|old| old.start < range.start || range.end < old.end);
        overlaid.push(range);
        Ok(())
    }
}
