//! Captures the changes in a live memory, and restores them into another.
//!
//! If the kernel records which pages are written ([`sys::watch`]), a capture costs as much as the
//! changes since the previous capture. Otherwise all pages are compared.
#![expect(
    unsafe_code,
    reason = "maps pages that a state holds over a guest's memory"
)]

mod writes;

use std::ops::Range;
use std::sync::Arc;

use self::writes::Writes;
use super::pages::{PAGE, PageStore, Pages, Stretch};
use super::sys::Extent;
use super::{MemoryError, Source};

/// Tracks how the memory of one live guest differs from its image while the guest rests.
#[derive(Debug)]
pub struct Tracker {
    image: Source,
    /// The permission to map pages; without it, pages are copied.
    extent: Option<Extent>,
    writes: Writes,
    /// Ranges that may have been written, if they were queried since the guest came to rest.
    looked: Option<Vec<Range<usize>>>,
    /// Ranges mapped over the image, without overlaps.
    mapped: Vec<Range<usize>>,
    /// The state last captured or restored. It contains every mapped page that the guest has not
    /// written to since, and keeps those pages in the file.
    shown: Arc<Pages>,
}

/// Minimum number of consecutive pages that a capture replaces by a mapping of the file: until the
/// guest writes to them again, they use no memory twice.
const SHARED_AFTER_CAPTURE: usize = 64;
/// Minimum number of consecutive pages that a restore maps, because mapping is then cheaper than
/// copying.
const MAPPED_ON_RESTORE: usize = 16;
/// Maximum number of mappings for one guest: a process may have 65,530.
const MAX_MAPPED: usize = 48;

impl Tracker {
    /// Creates a tracker for a memory that was just created from `image`; `extent` belongs to its
    /// region, if it has one.
    pub fn new(image: &Source, extent: Option<Extent>) -> Self {
        Self {
            image: image.clone(),
            extent,
            writes: Writes::default(),
            looked: None,
            mapped: Vec::new(),
            shown: Arc::default(),
        }
    }

    /// Returns the number of bytes that the next capture must compare; all bytes if writes are not
    /// tracked.
    pub fn look(&mut self, memory: &[u8]) -> usize {
        self.looked = self.candidates(memory);
        self.looked.as_deref().map_or(memory.len(), |found| writes::count(found) * PAGE)
    }

    /// Captures the differences from the image; `before` is the state that was last captured or
    /// restored.
    ///
    /// # Errors
    ///
    /// If the pages cannot be compared or stored.
    pub fn capture(
        &mut self,
        memory: &mut [u8],
        before: &Pages,
        store: &Arc<PageStore>,
    ) -> Result<Arc<Pages>, MemoryError> {
        let candidates = self.looked.take().or_else(|| self.candidates(memory));
        let changed = match &candidates {
            // Half of the pages that a short run writes to end up unchanged, since reference counts
            // go up and down.
            Some(candidates) => rewritten(memory, candidates, before, &self.image)?,
            None => differing(memory, &whole(memory), before, &self.image)?,
        };
        let pages = Arc::new(before.with(store, memory, &changed)?);
        self.shown = Arc::clone(&pages);
        let looked_at = candidates.as_deref().map_or(0, writes::count);
        self.writes.settle(memory, (looked_at, writes::count(&changed)));
        let long = |range: &&Range<usize>| range.len() >= SHARED_AFTER_CAPTURE * PAGE;
        for range in changed.iter().filter(long) {
            for stretch in pages.within(range.clone()) {
                if self.map(&stretch, &mut memory[stretch.range()])? {
                    self.writes.remapped(memory, &stretch.range());
                }
            }
        }
        Ok(pages)
    }

    /// Restores `pages` into a memory that equals its image.
    ///
    /// # Errors
    ///
    /// If the pages cannot be mapped or read.
    pub fn restore(&mut self, memory: &mut [u8], pages: &Arc<Pages>) -> Result<(), MemoryError> {
        self.shown = Arc::clone(pages);
        for stretch in pages.stretches() {
            let target = &mut memory[stretch.range()];
            if stretch.count < MAPPED_ON_RESTORE || !self.map(&stretch, target)? {
                stretch.read(target)?;
            }
        }
        // Pages just copied, and pages resident from earlier guests, count as written until the
        // first capture compares them. Tracking them now would cost the next run a fault for each
        // page that it writes.
        self.writes.forget();
        Ok(())
    }

    /// Restores `memory` to the last capture or restore. Returns false if writes are not tracked.
    ///
    /// # Errors
    ///
    /// If the pages cannot be mapped or read.
    pub fn put_back(&mut self, memory: &mut [u8], before: &Pages) -> Result<bool, MemoryError> {
        self.looked = None;
        let Some(candidates) = self.candidates(memory) else {
            return Ok(false);
        };
        let mut held = Vec::new();
        for range in differing(memory, &candidates, before, &self.image)? {
            held.clear();
            held.resize(range.len(), 0);
            self.image.read(range.start, &mut held);
            for stretch in before.within(range.clone()) {
                let inside = stretch.range();
                stretch.read(&mut held[inside.start - range.start..inside.end - range.start])?;
            }
            // Copied by this thread instead of the kernel, which considers a watched page absent.
            memory[range].copy_from_slice(&held);
        }
        Ok(true)
    }

    /// Replaces `target` by a copy-on-write mapping of `stretch`, which the caller keeps alive.
    /// Returns whether it did. The guest controls what it writes in every run, so the limit counts
    /// all mappings.
    fn map(&mut self, stretch: &Stretch<'_>, target: &mut [u8]) -> Result<bool, MemoryError> {
        let Some(extent) = &self.extent else {
            return Ok(false);
        };
        let range = stretch.range();
        self.mapped.retain(|old| old.start < range.start || range.end < old.end);
        if self.mapped.len() >= MAX_MAPPED {
            return Ok(false);
        }
        let (file, at) = stretch.file()?;
        // SAFETY: the stretch belongs to the state in `shown`. Its blocks release their pages to
        // the file only when no state holds them, and the file never becomes shorter than a page
        // that is held. `shown` changes to a state that holds every page that is mapped and was not
        // written to since: `capture` builds it from all pages that differ, and `restore` starts
        // with a memory that equals its image. Both also hold for a put-back, which writes and maps
        // nothing.
        unsafe { extent.map_over(target, file, at)? };
        self.mapped.push(range);
        Ok(true)
    }

    /// Returns the ranges of `memory` that may differ from the last capture or restore; `None` if
    /// writes are not tracked.
    fn candidates(&mut self, memory: &[u8]) -> Option<Vec<Range<usize>>> {
        self.extent.as_ref()?;
        self.writes.find(memory).or_else(|| writes::private(memory))
    }
}

/// Returns all of the memory as one range.
fn whole(memory: &[u8]) -> Vec<Range<usize>> {
    std::iter::once(0..memory.len()).collect()
}

/// Returns the pages among `candidates` that changed. The previous contents are in `before`, or
/// else in `image`, or zero past its end.
fn rewritten(
    memory: &[u8],
    candidates: &[Range<usize>],
    before: &Pages,
    image: &Source,
) -> Result<Vec<Range<usize>>, MemoryError> {
    let mut found = Vec::new();
    let unknown = |found: &mut Vec<_>, range: Range<usize>| {
        for page in range.step_by(PAGE) {
            if !image.is_page(page, &memory[page..page + PAGE]) {
                add(found, page..page + PAGE);
            }
        }
    };
    for candidate in candidates {
        let mut known = candidate.start;
        for stretch in before.within(candidate.clone()) {
            let range = stretch.range();
            unknown(&mut found, known..range.start);
            for (index, page) in range.clone().step_by(PAGE).enumerate() {
                if !stretch.is_page(index, &memory[page..page + PAGE])? {
                    add(&mut found, page..page + PAGE);
                }
            }
            known = range.end;
        }
        unknown(&mut found, known..candidate.end);
    }
    Ok(found)
}

/// Returns the pages among `candidates` that changed. A page that is not in `before` was equal to
/// `image`, or zero past its end.
fn differing(
    memory: &[u8],
    candidates: &[Range<usize>],
    before: &Pages,
    image: &Source,
) -> Result<Vec<Range<usize>>, MemoryError> {
    const STEP: usize = 64 * PAGE;
    let mut found = Vec::new();
    let mut was = vec![0; STEP];
    for candidate in candidates {
        let mut at = candidate.start;
        while at < candidate.end {
            let step = at..candidate.end.min(at + STEP);
            at = step.end;
            let was = &mut was[..step.len()];
            was.fill(0);
            image.read(step.start, was);
            for stretch in before.within(step.clone()) {
                let range = stretch.range();
                stretch.read(&mut was[range.start - step.start..range.end - step.start])?;
            }
            let pages = memory[step.clone()].chunks(PAGE).zip(was.chunks(PAGE));
            for (page, (now, was)) in step.step_by(PAGE).zip(pages) {
                if now != was {
                    add(&mut found, page..page + PAGE);
                }
            }
        }
    }
    Ok(found)
}

/// Adds pages that follow those found so far.
fn add(found: &mut Vec<Range<usize>>, pages: Range<usize>) {
    match found.last_mut() {
        _ if pages.is_empty() => {}
        Some(last) if last.end == pages.start => last.end = pages.end,
        _ => found.push(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Region, Strategy};
    use std::io::Write;

    const PAGES: usize = 600;

    /// Memory created from an image, kept alive with its owner.
    struct Live {
        region: Option<Region>,
        copied: Vec<u8>,
    }

    impl Live {
        fn new(image: &Source) -> Self {
            match image {
                Source::Mapped(backing) => {
                    let mut region = Region::reserve().unwrap();
                    region.map(backing).unwrap();
                    Self {
                        region: Some(region),
                        copied: Vec::new(),
                    }
                }
                Source::Copied(bytes) => Self {
                    region: None,
                    copied: bytes.to_vec(),
                },
            }
        }

        fn extent(&self) -> Option<Extent> {
            self.region.as_ref().and_then(Region::extent)
        }

        fn bytes(&mut self) -> &mut [u8] {
            if let Some(region) = &mut self.region {
                return region.bytes();
            }
            &mut self.copied
        }

        fn grow(&mut self, pages: usize) {
            if let Some(region) = &mut self.region {
                return region.grow(pages * PAGE).unwrap();
            }
            self.copied.resize(pages * PAGE, 0);
        }
    }

    fn image(strategy: Strategy) -> Source {
        let mut file = tempfile::tempfile().unwrap();
        for page in 0..PAGES {
            file.write_all(&[(page % 251) as u8; PAGE]).unwrap();
        }
        Source::from_file(strategy, file, 0, PAGES * PAGE).unwrap()
    }

    fn states_are_independent(strategy: Strategy) {
        let image = image(strategy);
        let store = PageStore::new().unwrap();
        let mut live = Live::new(&image);
        let mut tracker = Tracker::new(&image, live.extent());
        let mut states = vec![(live.bytes().to_vec(), Arc::new(Pages::default()))];
        for turn in 1..6u8 {
            if turn == 3 {
                live.grow(PAGES + 200);
            }
            let end = live.bytes().len() / PAGE;
            for page in (usize::from(turn)..end).step_by(37).chain(100..300).chain(end - 90..end) {
                live.bytes()[page * PAGE + usize::from(turn)] ^= turn | 0x80;
            }
            let (_, before) = states.last().unwrap();
            let pages = tracker.capture(live.bytes(), before, &store).unwrap();
            assert!(pages.count() < end, "not everything changed");
            states.push((live.bytes().to_vec(), pages));
        }
        // Without writes, nothing is captured.
        let (_, last) = states.last().unwrap();
        let again = tracker.capture(live.bytes(), last, &store).unwrap();
        assert_eq!(again.beyond(last), 0);
        drop(again);

        for (expected, pages) in &states {
            let mut other = Live::new(&image);
            other.grow(expected.len() / PAGE);
            let mut tracker = Tracker::new(&image, other.extent());
            tracker.restore(other.bytes(), pages).unwrap();
            assert!(other.bytes() == expected.as_slice());
            // Writes of one guest are visible neither in the state nor to another guest.
            other.bytes().fill(255);
            let all = tracker.capture(other.bytes(), pages, &store).unwrap();
            assert_eq!(all.count(), expected.len() / PAGE);
        }
        assert!(live.bytes() == states.last().unwrap().0.as_slice());
    }

    #[test]
    fn states_are_independent_when_copied() {
        states_are_independent(Strategy::Copy);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn mappings_do_not_add_up_from_capture_to_capture() {
        const APART: usize = SHARED_AFTER_CAPTURE + 2;
        let image = image(Strategy::Map);
        let store = PageStore::new().unwrap();
        let mut live = Live::new(&image);
        live.grow(PAGES + 400 * APART);
        let mut tracker = Tracker::new(&image, live.extent());
        let mut pages = Arc::new(Pages::default());
        for turn in 0..10 {
            for number in turn * 40..turn * 40 + 40 {
                let start = (PAGES + number * APART) * PAGE;
                live.bytes()[start..start + SHARED_AFTER_CAPTURE * PAGE].fill(turn as u8 + 1);
            }
            pages = tracker.capture(live.bytes(), &pages, &store).unwrap();
        }
        let memory = live.bytes().as_ptr_range();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let starts =
            maps.lines().filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
        let inside =
            starts.filter(|start| (memory.start as usize..memory.end as usize).contains(start));
        assert!(inside.count() <= 2 * MAX_MAPPED + 3);
    }

    /// A deterministic random number generator.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) as usize % end
        }
    }

    #[test]
    fn a_guest_that_is_kept_never_finds_what_another_left() {
        let image = image(Strategy::Map);
        let Source::Mapped(backing) = &image else {
            return crate::sys::skip("a system that maps images");
        };
        let (pool, store) = (crate::Pool::new(2), PageStore::new().unwrap());
        let fresh = Live::new(&image).bytes().to_vec();
        let mut states = vec![(fresh.clone(), Arc::new(Pages::default()))];
        let mut random = Random(1);
        let mut others = Vec::new();
        for round in 0..120 {
            let (mut expected, mut pages) = states[random.below(states.len())].clone();
            let mut slot = pool.lasting(backing).unwrap();
            let region = slot.region_mut();
            assert!(region.bytes() == fresh, "round {round}");
            region.grow(expected.len()).unwrap();
            let mut tracker = Tracker::new(&image, region.extent());
            tracker.restore(region.bytes(), &pages).unwrap();
            for _ in 0..random.below(4) {
                assert!(region.bytes() == expected, "round {round}");
                if random.below(5) == 0 {
                    region.grow(expected.len() + 50 * PAGE).unwrap();
                }
                // Short and long ranges, so that captures map some of them.
                for _ in 0..random.below(12) {
                    let length = [1, 2, SHARED_AFTER_CAPTURE + 20][random.below(3)];
                    let end = region.len() / PAGE;
                    let start = random.below(end - length);
                    let byte = random.below(256) as u8;
                    for page in start..start + length {
                        region.bytes()[page * PAGE + random.below(PAGE)] = byte;
                    }
                }
                if random.below(6) == 0 {
                    // A query, which is undone.
                    let is_known = tracker.put_back(region.bytes(), &pages).unwrap();
                    let grown = region.len() > expected.len();
                    expected.resize(region.len(), 0);
                    assert!(!is_known || grown || region.bytes() == expected);
                }
                pages = tracker.capture(region.bytes(), &pages, &store).unwrap();
                expected = region.bytes().to_vec();
                states.push((expected.clone(), Arc::clone(&pages)));
            }
            if random.below(2) == 0 {
                // A cancelled run.
                let page = random.below(region.len() / PAGE);
                region.bytes()[page * PAGE..][..PAGE].fill(round as u8);
            }
            others.push(slot);
            if random.below(3) == 0 {
                others.clear();
            }
            if states.len() > 20 {
                states.remove(0);
            }
        }
    }

    #[test]
    fn states_are_independent_when_mapped() {
        states_are_independent(Strategy::Map);
    }
}
