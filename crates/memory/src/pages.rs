//! Stored pages of guests' memories, which make up the states that sessions can return to.
//!
//! All pages are in one anonymous file, so that a state's memory can be mapped copy-on-write from
//! it. Each capture writes a block of pages. Each page counts the windows that hold it
//! ([`windows`]). When the last window is dropped, the page's place in the file is reused or
//! released to the system.
#![expect(unsafe_code, reason = "writes pages through the view of the file")]

mod free_list;
mod page_map;

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::free_list::Freed;
use self::page_map::Run;
pub use self::page_map::{Imported, Pages};
use super::{MemoryError, Process, sys};

/// Page size, in bytes: the unit of comparing, storing and sharing. It divides a page of
/// WebAssembly.
pub const PAGE: usize = 4096;

/// The file that stores pages.
#[derive(Debug)]
pub struct PageStore {
    file: File,
    /// Mapping of the file, if possible.
    view: Option<sys::View>,
    /// Next unused page index in the file, for blocks that cannot reuse freed pages. The file may
    /// have holes; its end only moves up.
    next: AtomicU64,
    /// Number of pages ever stored.
    written: AtomicU64,
    /// Length of the file, in bytes: bytes beyond it cannot be accessed through the view.
    length: AtomicU64,
    freed: Mutex<Freed>,
    /// Owner of the file. A forked child shares the file and must not change it.
    process: Process,
}

/// Pages that were stored together, consecutively in the file.
#[derive(Debug)]
struct Block {
    store: Arc<PageStore>,
    /// Place of the first page in the file.
    start: u64,
    /// Global number of the first page. Places are reused, numbers are not.
    number: u64,
    /// Number of the first page in its import, if it was imported.
    first: u32,
    /// Whether the places were used before: their memory is then usually allocated.
    is_reused: bool,
    /// Whether the pages are unwritten, so that they cannot be read.
    is_hollow: AtomicBool,
    /// Number of windows that hold each page. A page may be in every place of a guest's memory, in
    /// every state of any number of sessions: 32 bits would not suffice.
    holders: Box<[AtomicU64]>,
}

/// A range of a state's memory.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Number of the first page in the guest's memory.
    pub page: usize,
    /// Number of pages.
    pub count: usize,
    block: &'a Block,
    /// Offset in the file, in bytes.
    at: u64,
    /// Global number of the first page.
    number: u64,
}

impl PageStore {
    /// Creates an empty store.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn new() -> Result<Arc<Self>, MemoryError> {
        let file = sys::anonymous_file().map_err(MemoryError::new("make a file"))?;
        Ok(Arc::new(Self {
            view: sys::View::of(&file),
            file,
            next: AtomicU64::new(0),
            written: AtomicU64::new(0),
            length: AtomicU64::new(0),
            freed: Mutex::default(),
            process: Process::current(),
        }))
    }

    /// Stores the pages in `ranges` of `memory`, which are aligned to pages.
    fn append(
        self: &Arc<Self>,
        memory: &[u8],
        ranges: &[Range<usize>],
    ) -> Result<Vec<Run>, MemoryError> {
        let total: usize = ranges.iter().map(|range| range.len() / PAGE).sum();
        if total == 0 {
            return Ok(Vec::new());
        }
        self.check_process()?;
        let (places, used) = self.places(total as u64, Freed::take);
        let runs = self.write(memory, ranges, &places, used);
        if runs.is_err() {
            self.release(&places);
        }
        runs
    }

    /// Returns places for `count` pages: free places chosen by `take`, then a new one. Also returns
    /// the number of reused places.
    fn places(
        &self,
        total: u64,
        take: impl Fn(&mut Freed, u64) -> Vec<Range<u64>>,
    ) -> (Vec<Range<u64>>, usize) {
        let mut places =
            take(&mut self.freed.lock().unwrap_or_else(PoisonError::into_inner), total);
        let used = places.len();
        let left = total - places.iter().map(|place| place.end - place.start).sum::<u64>();
        if left > 0 {
            let start = self.next.fetch_add(left, Ordering::Relaxed);
            places.push(start..start + left);
        }
        (places, used)
    }

    /// Writes the pages in `ranges` of `memory` to `places`, each of which becomes a block. The
    /// first `used` places are reused.
    fn write(
        self: &Arc<Self>,
        memory: &[u8],
        ranges: &[Range<usize>],
        places: &[Range<u64>],
        used: usize,
    ) -> Result<Vec<Run>, MemoryError> {
        let mut runs = Vec::with_capacity(ranges.len() + places.len());
        let mut ranges = ranges.iter();
        let mut left = 0..0;
        for (index, place) in places.iter().enumerate() {
            let total = place.end - place.start;
            let number = self.written.fetch_add(total, Ordering::Relaxed);
            let block = self.block(place, number, 0, index < used);
            let (mut slices, mut offset) = (Vec::new(), 0);
            while u64::from(offset) < total {
                if left.is_empty() {
                    left = ranges.next().cloned().unwrap_or_default();
                }
                // A guest's memory has fewer than 2^32 bytes.
                let count = (total - u64::from(offset)).min((left.len() / PAGE) as u64) as u32;
                if count == 0 {
                    break;
                }
                let page = (left.start / PAGE) as u32;
                let end = left.start + count as usize * PAGE;
                slices.push(&memory[left.start..end]);
                left.start = end;
                runs.push(Run {
                    page,
                    count,
                    block: Arc::clone(&block),
                    offset,
                });
                offset += count;
            }
            // SAFETY: the place was free or is new, and its block is in no state before this
            // returns.
            unsafe { self.put(place, &slices, block.is_reused)? };
        }
        Ok(runs)
    }

    /// Writes `slices` to `place`. A reused place usually has its memory allocated.
    ///
    /// # Safety
    ///
    /// No other code may access the pages of `place` meanwhile.
    unsafe fn put(
        &self,
        place: &Range<u64>,
        slices: &[&[u8]],
        was_used: bool,
    ) -> Result<(), MemoryError> {
        let (at, end) = (place.start * PAGE as u64, place.end * PAGE as u64);
        // A reserved place may have been released before it was written.
        let is_there = was_used && end <= self.length.load(Ordering::Acquire);
        let view = self.view.as_ref().filter(|_| is_there);
        // SAFETY: the file is that long (checked: `length` is never too large, and the file never
        // becomes shorter), and no other code uses the pages (the caller's promise).
        if view.is_some_and(|view| unsafe { view.write(at, slices) }) {
            return Ok(());
        }
        sys::write_all_at(&self.file, at, slices).map_err(MemoryError::new("set aside pages"))?;
        self.length.fetch_max(end, Ordering::Release);
        Ok(())
    }

    fn block(
        self: &Arc<Self>,
        place: &Range<u64>,
        number: u64,
        first: u32,
        is_reused: bool,
    ) -> Arc<Block> {
        Arc::new(Block {
            store: Arc::clone(self),
            start: place.start,
            number,
            first,
            is_reused,
            is_hollow: AtomicBool::new(false),
            holders: place.clone().map(|_| AtomicU64::new(0)).collect(),
        })
    }
}

impl PageStore {
    /// Imports `count` pages, which `fill` writes piece by piece into a buffer.
    #[cfg(test)]
    pub(crate) fn import<E: From<MemoryError>>(
        self: &Arc<Self>,
        count: u32,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Imported, E> {
        const STEP: u32 = 256;
        let imported = self.reserve(count)?;
        let mut buffer = vec![0; STEP.min(count) as usize * PAGE];
        let mut done = 0;
        while done < count {
            let pages = STEP.min(count - done);
            let piece = &mut buffer[..pages as usize * PAGE];
            fill(piece)?;
            imported.write(done, &[piece])?;
            done += pages;
        }
        Ok(imported)
    }

    /// Reserves a place for an import of `count` pages, to be written later.
    ///
    /// # Errors
    ///
    /// In a forked child, which does not own the file.
    pub fn reserve(self: &Arc<Self>, count: u32) -> Result<Imported, MemoryError> {
        Ok(Imported::new(self.reserve_blocks(count, 0)?))
    }

    /// Reserves a place for an import of `count` pages after those of `state`, if given, which have
    /// the numbers before them. All pages of `state` must come from one import, and the state must
    /// hold all pages of it.
    ///
    /// # Errors
    ///
    /// In a forked child, which does not own the file.
    pub fn reserve_after(
        self: &Arc<Self>,
        state: Option<&Arc<Pages>>,
        count: u32,
    ) -> Result<Imported, MemoryError> {
        let Some(state) = state else {
            return self.reserve(count);
        };
        let before = state.came_in();
        let blocks = self.reserve_blocks(count, before.last().map_or(0, |last| last.end()))?;
        Ok(Imported::after(state, before, blocks))
    }

    /// Reserves places for an import of `count` pages, numbered from `first` on. Imports are often
    /// large, and most of their cost is allocating memory, so allocated places are reused.
    fn reserve_blocks(
        self: &Arc<Self>,
        count: u32,
        first: u32,
    ) -> Result<Vec<Arc<Block>>, MemoryError> {
        self.check_process()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (places, used) = self.places(u64::from(count), Freed::take_long);
        // Consecutive numbers, wherever the places are.
        let number = self.written.fetch_add(u64::from(count), Ordering::Relaxed);
        let mut done = 0;
        let blocks = places.iter().enumerate().map(|(index, place)| {
            let block = self.block(place, number + u64::from(done), first + done, index < used);
            done += block.count();
            block
        });
        Ok(blocks.collect())
    }

    /// Returns the memory that all pages use, in bytes. The system does not count it as memory of
    /// this process.
    pub fn memory(&self) -> u64 {
        sys::memory_of(&self.file)
    }

    /// Releases places kept for imports, after some time without an import.
    pub fn trim(&self) {
        if self.process.is_current() {
            let surplus = self.freed.lock().unwrap_or_else(PoisonError::into_inner).trim();
            self.give_back(surplus);
        }
    }
}

impl<'a> Stretch<'a> {
    /// Returns `count` of its pages from `index` on.
    #[must_use]
    pub fn part(&self, index: usize, count: usize) -> Self {
        debug_assert!(index + count <= self.count);
        Self {
            page: self.page + index,
            count,
            block: self.block,
            at: self.at + (index * PAGE) as u64,
            number: self.number + index as u64,
        }
    }

    /// Whether page `index` of `other` follows its last page in the file, and was stored after it.
    pub fn continues(&self, other: &Self, index: usize) -> bool {
        self.at + (self.count * PAGE) as u64 == other.at + (index * PAGE) as u64
            && self.number + self.count as u64 == other.number + index as u64
    }

    /// Merges two ranges, if `next` follows in the guest's memory and in the file.
    fn joined(&self, next: &Self) -> Option<Self> {
        let follows = self.page + self.count == next.page
            && std::ptr::eq(self.store(), next.store())
            && self.block.is_hollow() == next.block.is_hollow()
            && self.continues(next, 0);
        follows.then(|| Self {
            count: self.count + next.count,
            ..*self
        })
    }

    /// Returns the global number of its first page. Equal numbers mean equal bytes.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the byte range in the guest's memory.
    pub fn range(&self) -> Range<usize> {
        self.page * PAGE..(self.page + self.count) * PAGE
    }

    fn store(&self) -> &'a PageStore {
        &self.block.store
    }

    /// Copies the pages to `target`, which has the same length.
    ///
    /// # Errors
    ///
    /// If the pages cannot be read, or are not written yet.
    pub fn read(&self, target: &mut [u8]) -> Result<(), MemoryError> {
        self.block.check()?;
        if let Some(view) = &self.store().view
            && view.read(self.at, target)
        {
            return Ok(());
        }
        sys::read_exact_at(&self.store().file, self.at, target)
            .map_err(MemoryError::new("read pages set aside"))
    }

    /// Whether `bytes` equal the contents of its page `index`.
    pub(super) fn is_page(&self, index: usize, bytes: &[u8]) -> Result<bool, MemoryError> {
        self.block.check()?;
        let page = self.part(index, 1);
        let seen = self.store().view.as_ref().and_then(|view| view.is_same(page.at, bytes));
        if let Some(is_same) = seen {
            return Ok(is_same);
        }
        let mut held = [0; PAGE];
        page.read(&mut held)?;
        Ok(held == bytes)
    }

    /// Returns its file and the offset in it.
    pub(super) fn file(&self) -> Result<(&File, u64), MemoryError> {
        self.block.check()?;
        Ok((&self.store().file, self.at))
    }
}

impl PageStore {
    /// Fails in a forked child, which must not write to the file.
    fn check_process(&self) -> Result<(), MemoryError> {
        if self.process.is_current() {
            return Ok(());
        }
        let forked =
            std::io::Error::other("they are another process's, which this one was forked from");
        Err(MemoryError::new("set aside pages")(forked))
    }

    /// Takes back free pages.
    fn release(&self, pages: &[Range<u64>]) {
        if pages.is_empty() || !self.process.is_current() {
            return;
        }
        let surplus = {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            for range in pages {
                freed.add(range);
            }
            freed.surplus()
        };
        self.give_back(surplus);
    }

    /// Releases the memory of pages to the system. If this fails, only that memory is lost.
    fn give_back(&self, mut pages: Vec<Range<u64>>) {
        pages.sort_unstable_by_key(|range| range.start);
        for joined in pages.chunk_by(|one, next| one.end == next.start) {
            let (start, end) = (joined[0].start, joined[joined.len() - 1].end);
            sys::release(&self.file, start * PAGE as u64, (end - start) * PAGE as u64);
        }
    }
}

impl Block {
    fn count(&self) -> u32 {
        // At most the size of an import or of a guest's memory.
        self.holders.len() as u32
    }

    /// Returns the number after that of its last page, in its import.
    fn end(&self) -> u32 {
        self.first + self.count()
    }

    fn is_hollow(&self) -> bool {
        self.is_hollow.load(Ordering::Acquire)
    }

    /// Fails if the pages are unwritten.
    fn check(&self) -> Result<(), MemoryError> {
        if !self.is_hollow() {
            return Ok(());
        }
        let hollow = std::io::Error::other("they have yet to come in");
        Err(MemoryError::new("read pages set aside")(hollow))
    }

    fn holders(&self, offset: u32, count: u32) -> &[AtomicU64] {
        &self.holders[offset as usize..(offset + count) as usize]
    }

    /// Adds to `freed` the pages among `count` from `offset` on for which `is_free` is true.
    fn release(
        &self,
        (offset, count): (u32, u32),
        freed: &mut Vec<Range<u64>>,
        is_free: impl Fn(&AtomicU64) -> bool,
    ) {
        let pages = self.start + u64::from(offset)..;
        for (index, holders) in pages.zip(self.holders(offset, count)) {
            if is_free(holders) {
                match freed.last_mut() {
                    Some(last) if last.end == index => last.end += 1,
                    _ => freed.push(index..index + 1),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const SPREAD: usize = 23;

    fn content(pages: &Pages) -> BTreeMap<usize, u8> {
        let mut found = BTreeMap::new();
        for stretch in pages.stretches() {
            let mut bytes = vec![0; stretch.count * PAGE];
            stretch.read(&mut bytes).unwrap();
            for (index, page) in bytes.chunks(PAGE).enumerate() {
                assert!(page.iter().all(|byte| *byte == page[0]));
                assert!(found.insert(stretch.page + index, page[0]).is_none(), "overlap");
            }
        }
        found
    }

    proptest! {
        #[test]
        fn each_state_keeps_its_own_bytes(
            captures in prop::collection::vec(prop::collection::btree_set(0usize..40, 0..20), 1..12)
        ) {
            let store = PageStore::new().unwrap();
            let mut states = vec![(Pages::default(), BTreeMap::new())];
            let mut memory = vec![0; 40 * SPREAD * PAGE];
            for (number, changed) in (1u8..).zip(&captures) {
                // Adjacent pages, and pages of other windows.
                let spread = |page: &usize| [page % 8 + 250, page * SPREAD][page % 2];
                let changed: BTreeSet<usize> = changed.iter().map(spread).collect();
                let mut ranges: Vec<Range<usize>> = Vec::new();
                for page in &changed {
                    memory[page * PAGE..(page + 1) * PAGE].fill(number);
                    match ranges.last_mut() {
                        Some(last) if last.end == page * PAGE => last.end += PAGE,
                        _ => ranges.push(page * PAGE..(page + 1) * PAGE),
                    }
                }
                let (last, mut expected) = states.last().map(|(p, e)| (p, e.clone())).unwrap();
                let next = last.with(&store, &memory, &ranges).unwrap();
                prop_assert_eq!(next.beyond(last), changed.len());
                expected.extend(changed.iter().map(|page| (*page, number)));
                states.push((next, expected));
                // Drop the oldest state; the others must not be affected.
                if states.len() > 4 {
                    states.remove(0);
                }
                for (pages, expected) in &states {
                    prop_assert_eq!(&content(pages), expected);
                }
            }
        }
    }

    #[test]
    fn what_comes_in_later_is_beside_what_came_in_before() {
        let store = PageStore::new().unwrap();
        let fill = |imported: &Imported, first: u32, bytes: &[u8]| {
            for (number, byte) in (first..).zip(bytes) {
                imported.write(number, &[&[*byte; PAGE]]).unwrap();
            }
        };
        let first = store.reserve(4).unwrap();
        fill(&first, 0, b"abcd");
        let latest = Arc::new(Pages::from_imported(&first, [(3, 2, 0), (300, 2, 2)]).unwrap());
        drop(first);

        let later = store.reserve_after(Some(&latest), 2).unwrap();
        later.set_hollow(true);
        assert!(Pages::from_imported(&later, [(0, 2, 3)]).is_none(), "no run is in two blocks");
        assert!(Pages::from_imported(&later, [(0, 1, 6)]).is_none());
        let older =
            Pages::from_imported(&later, [(3, 1, 1), (4, 1, 4), (300, 2, 2), (600, 1, 5)]).unwrap();
        assert!(
            older.lists_beyond(&latest) < older.lists_beyond(&Pages::default()),
            "a window is shared"
        );
        assert_eq!(older.beyond(&latest), 3, "a page at another address, and two more");
        let mut page = [0; PAGE];
        let read = older.stretches().map(|stretch| stretch.part(0, 1).read(&mut page).is_ok());
        assert_eq!(read.collect::<Vec<_>>(), [true, false, true, false], "what is not there yet");
        fill(&later, 4, b"ef");
        later.set_hollow(false);
        drop((later, latest));
        let found: Vec<(usize, u8)> = content(&older).into_iter().collect();
        assert_eq!(found, [(3, b'b'), (4, b'e'), (300, b'c'), (301, b'd'), (600, b'f')]);
    }

    #[test]
    fn what_comes_in_takes_the_place_of_what_nobody_holds() {
        let store = PageStore::new().unwrap();
        let first = store.import::<MemoryError>(600, |piece| {
            piece.fill(0xaa);
            Ok(())
        });
        let first = first.unwrap();
        let held = Pages::from_imported(&first, [(7, 20, 290)]).unwrap();
        drop(first);
        // Two free ranges and a new one; writes may cross their boundaries.
        let byte = |page: usize| (page % 251) as u8;
        let second = store.reserve(700).unwrap();
        second.set_hollow(true);
        let bytes: Vec<u8> = (0..700).flat_map(|page| [byte(page); PAGE]).collect();
        for (number, pages) in bytes.chunks(90 * PAGE).enumerate() {
            let mut parts: Vec<&[u8]> = pages.chunks(70_001).collect();
            parts.insert(1, &[]);
            second.write(number as u32 * 90, &parts).unwrap();
        }
        second.set_hollow(false);
        assert_eq!(store.next.load(Ordering::Relaxed), 600 + 120, "no more than is missing");
        assert_eq!(content(&held), (7..27).map(|page| (page, 0xaa)).collect());
        let latest = Arc::new(Pages::from_imported(&second, [(40, 700, 0)]).unwrap());
        let expected = |from: usize| (0..700).map(move |page| (from + page, byte(page)));
        assert_eq!(content(&latest), expected(40).collect());
        let places = latest.stretches().map(|stretch| (stretch.number(), stretch.count));
        let number = second.number(0);
        assert_eq!(
            places.collect::<Vec<_>>(),
            [(number, 290), (number + 290, 410)],
            "numbers follow each other; of the places only those at the end do"
        );
        assert!(Pages::from_imported(&second, [(0, 1, 700)]).is_none());
        drop(second);

        // Later imports are numbered after all of these.
        let later = store.reserve_after(Some(&latest), 2).unwrap();
        later.write(700, &[&[1; PAGE], &[2; PAGE]]).unwrap();
        let older = Pages::from_imported(&later, [(0, 2, 700), (40, 700, 0)]).unwrap();
        assert_eq!(older.beyond(&latest), 2);
        drop((later, latest, held));
        let all = expected(40).chain([(0, 1), (1, 2)]).collect();
        assert_eq!(content(&older), all);
    }

    #[test]
    fn what_is_shared_again_and_again_costs_no_more_than_its_list() {
        let store = PageStore::new().unwrap();
        let import = |count| {
            store.import::<MemoryError>(count, |piece| {
                piece.fill(7);
                Ok(())
            })
        };
        let few = import(6).unwrap();
        let states: Vec<Pages> = (0..100)
            .map(|_| Pages::from_imported(&few, (0..10_000).map(|n| (n * 6, 6, 0))).unwrap())
            .collect();
        assert_eq!(states[99].count(), 60_000);
        assert_eq!(states[99].beyond(&states[0]), 0);
        let windows = 60_000_usize.div_ceil(page_map::WINDOW as usize);
        let list = windows * size_of::<usize>();
        assert_eq!(states[99].lists_beyond(&states[0]), list, "the list of windows, and no window");

        // Each state has its own list, and each page is counted separately: the limit ends this.
        let many = import(1_100).unwrap();
        let of = |shift| Pages::from_imported(&many, (0..1_000).map(|n| (n * 1_000, 1_000, shift)));
        let states: Vec<Pages> = (0..100).map_while(of).collect();
        assert_eq!(states.len(), 67);
        assert_eq!(states[66].count(), 1_000_000);
        drop(many);
        assert_eq!(content(&Pages::from_imported(&few, [(5, 1, 5)]).unwrap()).len(), 1);
    }

    #[test]
    fn places_that_were_reserved_and_never_written_are_used_all_the_same() {
        let store = PageStore::new().unwrap();
        let whole = |pages: usize| std::iter::once(0..pages * PAGE).collect::<Vec<_>>();
        let memory = vec![9; 40 * PAGE];
        drop(store.reserve(20).unwrap());
        // The file is empty, so no page can be accessed through the view.
        let one = Pages::default().with(&store, &memory, &whole(40)).unwrap();
        assert_eq!(content(&one).len(), 40);
        drop(store.reserve(30).unwrap());
        let two = one.with(&store, &vec![8; 40 * PAGE], &whole(35)).unwrap();
        assert_eq!(content(&two)[&34], 8);
        drop(one);
        let three = two.with(&store, &vec![7; 40 * PAGE], &whole(40)).unwrap();
        assert!(content(&three).values().all(|byte| *byte == 7));
    }

    #[test]
    #[cfg(memory = "linux")]
    fn what_nobody_holds_takes_no_memory() {
        use super::free_list::MAX_FREED;
        use std::io;
        use std::os::unix::fs::MetadataExt;
        let store = PageStore::new().unwrap();
        let memory = vec![7; 100 * PAGE];
        let all = [0..50 * PAGE, 50 * PAGE..100 * PAGE];
        let one = Pages::default().with(&store, &memory, &all).unwrap();
        let two = one.with(&store, &memory, &all[..1]).unwrap();
        let taken = || {
            store.give_back(store.freed.lock().unwrap().take_all());
            store.file.metadata().unwrap().blocks() * 512 / PAGE as u64
        };
        assert_eq!(taken(), 150);
        drop(one);
        assert_eq!(taken(), 100);
        drop(two);
        assert_eq!(taken(), 0);

        let imported = store.import::<MemoryError>(50, |piece| {
            piece.fill(7);
            Ok(())
        });
        let imported = imported.unwrap();
        let held = Pages::from_imported(&imported, [(3, 20, 10)]).unwrap();
        drop(imported);
        assert_eq!(taken(), 20);
        drop(held);
        assert_eq!(taken(), 0);
        // An import that fails.
        let mut pieces = 0;
        let cut = store.import(600, |piece| {
            pieces += 1;
            piece.fill(7);
            if pieces == 3 {
                return Err(MemoryError::new("read")(io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(())
        });
        assert!(cut.is_err());
        assert_eq!(taken(), 0);
        // The last holder releases many pages at once.
        let blocks = || store.file.metadata().unwrap().blocks();
        for _ in 0..100 {
            drop(Pages::default().with(&store, &memory, &all).unwrap());
            assert!(blocks() * 512 / PAGE as u64 <= MAX_FREED + 100);
        }
    }
}
