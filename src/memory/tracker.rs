//! Takes a live memory's changes, and puts them into another.
//!
//! On Linux the kernel notes which pages are written ([`super::watch`]), so that a capture costs
//! what changed since the one before. Elsewhere, and where it may not, pages are compared with
//! what they were.

use std::ops::Range;
use std::sync::Arc;

use super::pages::{PAGE, PageStore, Pages, Stretch};
use super::{MemoryError, Source};
#[cfg(target_os = "linux")]
use super::{pagemap, watch};

/// Knows how the memory of one live guest, at rest, differs from its image.
#[derive(Debug)]
pub(crate) struct Tracker {
    image: Source,
    /// How many bytes from its start the kernel watches.
    #[cfg(target_os = "linux")]
    watched: usize,
    #[cfg(target_os = "linux")]
    busy: Busy,
    /// What is mapped over the image, of which no range covers another.
    #[cfg(target_os = "linux")]
    mapped: Vec<Range<usize>>,
}

/// Pages in a row from which on a capture leaves them to the file alone: until the guest writes to
/// them again they take no memory twice.
#[cfg(target_os = "linux")]
const SHARED_AFTER_CAPTURE: usize = 64;
/// Pages in a row from which on mapping them costs less than copying them.
#[cfg(target_os = "linux")]
const MAPPED_ON_RESTORE: usize = 16;
/// The most mappings for one guest: a process may have 65,530.
#[cfg(target_os = "linux")]
const MOST_MAPPED: usize = 48;

impl Tracker {
    /// For a memory that has just been made from `image`.
    pub(crate) fn new(image: &Source) -> Self {
        Self {
            image: image.clone(),
            #[cfg(target_os = "linux")]
            watched: 0,
            #[cfg(target_os = "linux")]
            busy: Busy::default(),
            #[cfg(target_os = "linux")]
            mapped: Vec::new(),
        }
    }

    /// Sets aside what differs from the image; `before` is what the last capture returned, or what
    /// was restored.
    pub(crate) fn capture(
        &mut self,
        memory: &mut [u8],
        before: &Pages,
        store: &Arc<PageStore>,
    ) -> Result<Pages, MemoryError> {
        let changed = self.changed(memory, before)?;
        let pages = before.with(store, memory, &changed)?;
        #[cfg(target_os = "linux")]
        if matches!(self.image, Source::Mapped(_)) {
            let long = |range: &&Range<usize>| range.len() >= SHARED_AFTER_CAPTURE * PAGE;
            for range in changed.iter().filter(long) {
                for stretch in pages.within(range.clone()) {
                    if self.may_map(&stretch.range()) {
                        map(&stretch, &mut memory[stretch.range()])?;
                        // A new mapping is not watched.
                        self.watched = 0;
                    }
                }
            }
        }
        Ok(pages)
    }

    /// Puts `pages` into a memory that is as its image.
    pub(crate) fn restore(&mut self, memory: &mut [u8], pages: &Pages) -> Result<(), MemoryError> {
        #[cfg(target_os = "linux")]
        if matches!(self.image, Source::Mapped(_)) {
            for stretch in pages.stretches() {
                let target = &mut memory[stretch.range()];
                if stretch.count >= MAPPED_ON_RESTORE && self.may_map(&stretch.range()) {
                    map(&stretch, target)?;
                } else {
                    stretch.read(target)?;
                }
            }
            // What was just copied is not a change.
            self.written(memory);
            self.busy.forget();
            return Ok(());
        }
        for stretch in pages.stretches() {
            stretch.read(&mut memory[stretch.range()])?;
        }
        Ok(())
    }

    /// Whether `range` may be mapped, which is then noted. A guest chooses what it writes in every
    /// run: what counts is all that is mapped.
    #[cfg(target_os = "linux")]
    fn may_map(&mut self, range: &Range<usize>) -> bool {
        self.mapped.retain(|old| old.start < range.start || range.end < old.end);
        let fits = self.mapped.len() < MOST_MAPPED;
        if fits {
            self.mapped.push(range.clone());
        }
        fits
    }

    /// The ranges of `memory` that differ from `before`.
    fn changed(&mut self, memory: &[u8], before: &Pages) -> Result<Vec<Range<usize>>, MemoryError> {
        #[cfg(target_os = "linux")]
        if matches!(self.image, Source::Mapped(_)) {
            let candidates = self.written(memory).or_else(|| private(memory));
            let candidates = candidates.unwrap_or_else(|| whole(memory));
            // Half of the pages that a short run writes to end up as they were: counters of
            // references go up and down.
            return differing(memory, &candidates, before, None);
        }
        differing(memory, &whole(memory), before, self.image.copied())
    }

    /// What the kernel noted since the last call; `None` where it does not.
    #[cfg(target_os = "linux")]
    fn written(&mut self, memory: &[u8]) -> Option<Vec<Range<usize>>> {
        let all = memory.as_ptr_range();
        let (start, end) = (all.start as usize, all.end as usize);
        if self.watched != memory.len() {
            self.watched = 0;
            self.busy.forget();
            if !watch::watch(start..end) {
                return None;
            }
            self.watched = memory.len();
        }
        let written = pagemap::written_pages(start..end, false)?;
        match self.busy.settled(&written) {
            // A page that is not protected is written as far as the kernel can tell: it is looked
            // at every time.
            Some(settled) => {
                for range in settled {
                    pagemap::written_pages(range, true)?;
                }
            }
            None => {
                pagemap::written_pages(start..end, true)?;
            }
        }
        Some(within(&written, start))
    }
}

/// Which pages every run writes to. Noticing a write costs a page fault, so these are left
/// unprotected, and looked at after every run.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
struct Busy {
    /// The pages written before the last capture, by address, sorted.
    last: Vec<usize>,
    captures: u32,
}

/// Captures after which busy pages are found anew.
#[cfg(target_os = "linux")]
const BUSY_FOR: u32 = 64;
/// The most ranges that are protected one by one, rather than all that was written.
#[cfg(target_os = "linux")]
const MOST_APART: usize = 48;

#[cfg(target_os = "linux")]
impl Busy {
    fn forget(&mut self) {
        self.last.clear();
    }

    /// What of `written` was not written before the last capture as well, to be protected; `None`
    /// for all of it.
    fn settled(&mut self, written: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        let mut settled: Vec<Range<usize>> = Vec::new();
        let mut now = Vec::new();
        for page in written.iter().flat_map(|range| range.clone().step_by(PAGE)) {
            now.push(page);
            if self.last.binary_search(&page).is_err() {
                match settled.last_mut() {
                    Some(last) if last.end == page => last.end += PAGE,
                    _ => settled.push(page..page + PAGE),
                }
            }
        }
        self.captures += 1;
        if settled.len() > MOST_APART || self.captures.is_multiple_of(BUSY_FOR) {
            self.last = now;
            return None;
        }
        self.last = now;
        Some(settled)
    }
}

/// Addresses as offsets from `start`.
#[cfg(target_os = "linux")]
fn within(addresses: &[Range<usize>], start: usize) -> Vec<Range<usize>> {
    addresses.iter().map(|range| range.start - start..range.end - start).collect()
}

/// All of it, as one range.
fn whole(memory: &[u8]) -> Vec<Range<usize>> {
    std::iter::once(0..memory.len()).collect()
}

/// What was ever written to since the image was mapped; `None` when the kernel cannot tell.
#[cfg(target_os = "linux")]
fn private(memory: &[u8]) -> Option<Vec<Range<usize>>> {
    let all = memory.as_ptr_range();
    let (start, end) = (all.start as usize, all.end as usize);
    Some(within(&pagemap::private_pages(start..end, usize::MAX)?, start))
}

/// The pages among `candidates` that are not what they were. A page that `before` does not hold was
/// `image`'s, or past its end zero; without an image to compare with it counts as changed.
fn differing(
    memory: &[u8],
    candidates: &[Range<usize>],
    before: &Pages,
    image: Option<&[u8]>,
) -> Result<Vec<Range<usize>>, MemoryError> {
    const STEP: usize = 64 * PAGE;
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut was = vec![0; STEP];
    for candidate in candidates {
        let mut at = candidate.start;
        while at < candidate.end {
            let step = at..candidate.end.min(at + STEP);
            at = step.end;
            let was = &mut was[..step.len()];
            was.fill(0);
            let mut known = [image.is_some(); STEP / PAGE];
            if let Some(bytes) = image.and_then(|image| image.get(step.start..)) {
                let length = bytes.len().min(was.len());
                was[..length].copy_from_slice(&bytes[..length]);
            }
            for stretch in before.within(step.clone()) {
                let range = stretch.range();
                let (from, to) = (range.start - step.start, range.end - step.start);
                stretch.read(&mut was[from..to])?;
                known[from / PAGE..to / PAGE].fill(true);
            }
            let pages = memory[step.clone()].chunks(PAGE).zip(was.chunks(PAGE)).zip(known);
            for (index, ((now, was), known)) in pages.enumerate() {
                if known && now == was {
                    continue;
                }
                let page = step.start + index * PAGE;
                match found.last_mut() {
                    Some(last) if last.end == page => last.end += PAGE,
                    _ => found.push(page..page + PAGE),
                }
            }
        }
    }
    Ok(found)
}

/// Replaces `target` by a copy-on-write mapping of `stretch`.
#[cfg(target_os = "linux")]
fn map(stretch: &Stretch<'_>, target: &mut [u8]) -> Result<(), MemoryError> {
    let (file, at) = stretch.file();
    super::region::map_over(target, file, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Strategy;
    use std::io::Write;

    const PAGES: usize = 600;

    /// Memory made from an image, kept alive beside its owner.
    struct Live {
        #[cfg(target_os = "linux")]
        region: Option<crate::memory::Region>,
        copied: Vec<u8>,
    }

    impl Live {
        fn new(image: &Source) -> Self {
            match image {
                #[cfg(target_os = "linux")]
                Source::Mapped(backing) => {
                    let mut region = crate::memory::Region::reserve().unwrap();
                    region.map(backing).unwrap();
                    Self {
                        region: Some(region),
                        copied: Vec::new(),
                    }
                }
                Source::Copied(bytes) => Self {
                    #[cfg(target_os = "linux")]
                    region: None,
                    copied: bytes.to_vec(),
                },
            }
        }

        fn bytes(&mut self) -> &mut [u8] {
            #[cfg(target_os = "linux")]
            if let Some(region) = &mut self.region {
                return region.bytes();
            }
            &mut self.copied
        }

        fn grow(&mut self, pages: usize) {
            #[cfg(target_os = "linux")]
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
        let mut tracker = Tracker::new(&image);
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
            states.push((live.bytes().to_vec(), Arc::new(pages)));
        }
        // Nothing was written: nothing is captured.
        let (_, last) = states.last().unwrap();
        let again = tracker.capture(live.bytes(), last, &store).unwrap();
        assert_eq!(again.beyond(last), 0);
        drop(again);

        for (expected, pages) in &states {
            let mut other = Live::new(&image);
            other.grow(expected.len() / PAGE);
            let mut tracker = Tracker::new(&image);
            tracker.restore(other.bytes(), pages).unwrap();
            assert!(other.bytes() == expected.as_slice());
            // What one does, neither the state nor another sees.
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
        let mut tracker = Tracker::new(&image);
        let mut pages = Pages::default();
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
        assert!(inside.count() <= 2 * MOST_MAPPED + 3);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn states_are_independent_when_mapped() {
        states_are_independent(Strategy::Map);
    }
}
