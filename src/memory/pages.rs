//! Pages of guests' memories, set aside: what states that can be returned to consist of.
//!
//! All pages are in one anonymous file, so that a state's memory can be mapped copy-on-write from
//! it. Every capture appends a block to the file; a page is counted by the states that hold it,
//! and its place in the file is given back to the system when the last of them is gone.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{MemoryError, Process, sys};

/// Bytes of a page: what is told apart, stored and shared. It divides a page of WebAssembly.
pub(crate) const PAGE: usize = 4096;

/// Pages that nobody holds and that are not given back yet: those of several states are, together,
/// fewer and longer stretches of the file.
const MAX_FREED: u64 = 1024;

/// The file in which pages are set aside.
#[derive(Debug)]
pub(crate) struct PageStore {
    file: File,
    /// The same as memory, where it can be.
    view: Option<sys::View>,
    /// Where the next block goes, in pages. A file may have holes; its end only moves up.
    next: AtomicU64,
    freed: Mutex<Freed>,
    /// Whose file it is: one that was forked from it has it as well, and must not change it.
    process: Process,
}

/// Pages to be given back to the system.
#[derive(Debug, Default)]
struct Freed {
    ranges: Vec<Range<u64>>,
    count: u64,
}

/// Pages that were set aside together, one after the other in the file.
#[derive(Debug)]
struct Block {
    store: Arc<PageStore>,
    start: u64,
    /// How many states hold each page.
    holders: Box<[AtomicU32]>,
}

/// Some pages of a guest's memory that follow each other, in the guest and in the file.
#[derive(Clone, Debug)]
struct Run {
    /// The first one's number in the guest's memory.
    page: u32,
    count: u32,
    block: Arc<Block>,
    /// The first one's number in the block.
    offset: u32,
}

/// Which of a guest's pages differ from its image, and what is in them.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Sorted, and not overlapping.
    runs: Vec<Run>,
}

/// Pages that came in together; dropped, it gives up those that no state holds.
#[derive(Debug)]
pub(crate) struct Imported(Arc<Block>);

/// One stretch of a state's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    /// The number of its first page in the guest's memory.
    pub page: usize,
    /// How many pages it has.
    pub count: usize,
    store: &'a PageStore,
    /// Bytes from the start of the file.
    at: u64,
}

impl PageStore {
    /// An empty store.
    pub(crate) fn new() -> Result<Arc<Self>, MemoryError> {
        let file = sys::anonymous_file().map_err(MemoryError::new("make a file"))?;
        Ok(Arc::new(Self {
            view: sys::View::of(&file),
            file,
            next: AtomicU64::new(0),
            freed: Mutex::default(),
            process: Process::current(),
        }))
    }

    /// Sets aside the pages in `ranges` of `memory`, whose bounds are those of pages.
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
        let start = self.next.fetch_add(total as u64, Ordering::Relaxed);
        let block = Arc::new(Block {
            store: Arc::clone(self),
            start,
            holders: (0..total).map(|_| AtomicU32::new(0)).collect(),
        });
        let slices: Vec<&[u8]> = ranges.iter().map(|range| &memory[range.clone()]).collect();
        if let Err(error) = sys::write_all_at(&self.file, start * PAGE as u64, &slices) {
            let pages = start..start + total as u64;
            self.release(&[pages]);
            return Err(MemoryError::new("set aside pages")(error));
        }
        let mut offset = 0;
        let runs = ranges.iter().map(|range| {
            // A guest's memory has fewer than 2^32 bytes.
            let count = (range.len() / PAGE) as u32;
            offset += count;
            Run {
                page: (range.start / PAGE) as u32,
                count,
                block: Arc::clone(&block),
                offset: offset - count,
            }
        });
        Ok(runs.collect())
    }
}

impl PageStore {
    /// Takes `count` pages in, which `fill` writes piece by piece into a buffer.
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
            imported.write(done, piece)?;
            done += pages;
        }
        Ok(imported)
    }

    /// A place for `count` pages that come in, which are yet to be written there.
    pub(crate) fn reserve(self: &Arc<Self>, count: u32) -> Result<Imported, MemoryError> {
        self.check_process()?;
        let start = self.next.fetch_add(u64::from(count), Ordering::Relaxed);
        Ok(Imported(Arc::new(Block {
            store: Arc::clone(self),
            start,
            holders: (0..count).map(|_| AtomicU32::new(0)).collect(),
        })))
    }
}

impl Imported {
    /// Where the page with this number among these is kept, in pages.
    pub(crate) fn kept_at(&self, number: u32) -> u64 {
        self.0.start + u64::from(number)
    }

    /// Writes whole pages, the first of which has the number `first` among these. Nobody holds them yet.
    pub(crate) fn write(&self, first: u32, pages: &[u8]) -> Result<(), MemoryError> {
        let Block {
            store,
            start,
            holders,
        } = &*self.0;
        debug_assert!(first as usize + pages.len() / PAGE <= holders.len());
        sys::write_all_at(&store.file, (start + u64::from(first)) * PAGE as u64, &[pages])
            .map_err(MemoryError::new("set aside pages"))
    }
}

impl Stretch<'_> {
    /// So many of its pages from `index` on.
    pub(crate) fn part(&self, index: usize, count: usize) -> Self {
        debug_assert!(index + count <= self.count);
        Self {
            page: self.page + index,
            count,
            store: self.store,
            at: self.at + (index * PAGE) as u64,
        }
    }

    /// Whether the page `index` of `other` is kept behind its last one.
    pub(crate) fn continues(&self, other: &Self, index: usize) -> bool {
        self.at + (self.count * PAGE) as u64 == other.at + (index * PAGE) as u64
    }

    /// Where its first page is kept, in pages: the same place holds the same bytes.
    pub(crate) fn kept_at(&self) -> u64 {
        self.at / PAGE as u64
    }

    /// Bytes in the guest's memory.
    pub(crate) fn range(&self) -> Range<usize> {
        self.page * PAGE..(self.page + self.count) * PAGE
    }

    /// Copies it to `target`, which is as long.
    pub(crate) fn read(&self, target: &mut [u8]) -> Result<(), MemoryError> {
        if let Some(view) = &self.store.view
            && view.read(self.at, target)
        {
            return Ok(());
        }
        sys::read_exact_at(&self.store.file, self.at, target)
            .map_err(MemoryError::new("read pages set aside"))
    }

    /// Whether `bytes` are what is in its page `index`.
    pub(super) fn is_page(&self, index: usize, bytes: &[u8]) -> Result<bool, MemoryError> {
        let page = self.part(index, 1);
        let seen = self.store.view.as_ref().and_then(|view| view.is_same(page.at, bytes));
        if let Some(is_same) = seen {
            return Ok(is_same);
        }
        let mut held = [0; PAGE];
        page.read(&mut held)?;
        Ok(held == bytes)
    }

    /// The file that it is in, and where.
    pub(super) fn file(&self) -> (&File, u64) {
        (&self.store.file, self.at)
    }
}

impl Pages {
    /// These pages, with those in `ranges` of `memory` instead or in addition.
    pub(crate) fn with(
        &self,
        store: &Arc<PageStore>,
        memory: &[u8],
        ranges: &[Range<usize>],
    ) -> Result<Self, MemoryError> {
        let fresh = store.append(memory, ranges)?;
        let mut runs = Vec::with_capacity(self.runs.len() + 2 * fresh.len());
        let mut newer = fresh.iter().peekable();
        for run in &self.runs {
            let mut rest = run.clone();
            while rest.count > 0 {
                // What lies before the next new run is kept, what it covers is not.
                while newer.peek().is_some_and(|new| new.page + new.count <= rest.page) {
                    newer.next();
                }
                let end = rest.page + rest.count;
                let (kept, resume) = match newer.peek() {
                    Some(new) if new.page < end => {
                        (new.page.saturating_sub(rest.page), (new.page + new.count).min(end))
                    }
                    _ => (rest.count, end),
                };
                if kept > 0 {
                    runs.push(Run {
                        count: kept,
                        ..rest.clone()
                    });
                }
                rest.offset += resume - rest.page;
                rest.count = end - resume;
                rest.page = resume;
            }
        }
        runs.extend(fresh);
        runs.sort_unstable_by_key(|run| run.page);
        let pages = Self { runs };
        pages.hold();
        Ok(pages)
    }

    /// Pages of a guest's memory: the first one's number, how many they are, and which of the
    /// imported ones is the first. `None` when they overlap or name one that is not there.
    pub(crate) fn from_imported(
        imported: &Imported,
        stretches: impl IntoIterator<Item = (u32, u32, u32)>,
    ) -> Option<Self> {
        let block = &imported.0;
        let (mut runs, mut end) = (Vec::new(), 0);
        for (page, count, offset) in stretches {
            let there = offset.checked_add(count)? as usize <= block.holders.len();
            if count == 0 || page < end || !there {
                return None;
            }
            end = page.checked_add(count)?;
            runs.push(Run {
                page,
                count,
                block: Arc::clone(block),
                offset,
            });
        }
        let pages = Self { runs };
        pages.hold();
        Some(pages)
    }

    /// The number after that of the last page.
    pub(crate) fn end(&self) -> usize {
        self.runs.last().map_or(0, |run| (run.page + run.count) as usize)
    }

    /// How many pages there are.
    pub(crate) fn count(&self) -> usize {
        self.runs.iter().map(|run| run.count as usize).sum()
    }

    /// Bytes that the list of them takes.
    pub(crate) fn list_bytes(&self) -> usize {
        self.runs.len() * size_of::<Run>()
    }

    /// Everything that is there, by address.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        self.runs.iter().map(|run| Stretch {
            page: run.page as usize,
            count: run.count as usize,
            store: &run.block.store,
            at: (run.block.start + u64::from(run.offset)) * PAGE as u64,
        })
    }

    /// What is there of the pages in `range`, by address.
    pub(crate) fn within(&self, range: Range<usize>) -> impl Iterator<Item = Stretch<'_>> {
        let (start, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        let first = self.runs.partition_point(|run| (run.page + run.count) as usize <= start);
        self.runs[first..].iter().take_while(move |run| (run.page as usize) < end).map(move |run| {
            let from = start.max(run.page as usize);
            let to = end.min((run.page + run.count) as usize);
            let skipped = (from - run.page as usize) as u64;
            Stretch {
                page: from,
                count: to - from,
                store: &run.block.store,
                at: (run.block.start + u64::from(run.offset) + skipped) * PAGE as u64,
            }
        })
    }

    /// Pages of this state that `other` does not hold: what keeping both costs.
    pub(crate) fn beyond(&self, other: &Self) -> usize {
        let place = |stretch: &Stretch<'_>| (stretch.page, stretch.at);
        let mut apart = 0;
        for mine in self.stretches() {
            let (page, at) = place(&mine);
            let shared: usize = other
                .within(mine.range())
                .map(|theirs| {
                    let (their_page, their_at) = place(&theirs);
                    let same = std::ptr::eq(mine.store, theirs.store)
                        && their_at.wrapping_sub(at) == ((their_page - page) * PAGE) as u64;
                    if same { theirs.count } else { 0 }
                })
                .sum();
            apart += mine.count - shared;
        }
        apart
    }

    fn hold(&self) {
        for run in &self.runs {
            for holders in run.holders() {
                holders.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Run {
    fn holders(&self) -> &[AtomicU32] {
        &self.block.holders[self.offset as usize..(self.offset + self.count) as usize]
    }
}

impl Block {
    /// Adds to `freed` the pages among those from `offset` on for which `is_free` says so.
    fn release(
        &self,
        offset: u32,
        holders: &[AtomicU32],
        freed: &mut Vec<Range<u64>>,
        is_free: impl Fn(&AtomicU32) -> bool,
    ) {
        for (index, holders) in (self.start + u64::from(offset)..).zip(holders) {
            if is_free(holders) {
                match freed.last_mut() {
                    Some(last) if last.end == index => last.end += 1,
                    _ => freed.push(index..index + 1),
                }
            }
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let is_last = |holders: &AtomicU32| holders.fetch_sub(1, Ordering::AcqRel) == 1;
        // Those of one store follow each other: a session has one.
        for runs in self.runs.chunk_by(|one, next| Arc::ptr_eq(&one.block.store, &next.block.store))
        {
            let mut freed = Vec::new();
            for run in runs {
                run.block.release(run.offset, run.holders(), &mut freed, is_last);
            }
            runs[0].block.store.release(&freed);
        }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let is_unheld = |holders: &AtomicU32| holders.load(Ordering::Acquire) == 0;
        let mut freed = Vec::new();
        self.0.release(0, &self.0.holders, &mut freed, is_unheld);
        self.0.store.release(&freed);
    }
}

impl PageStore {
    /// Refuses to write to the file of a process that this one was forked from.
    fn check_process(&self) -> Result<(), MemoryError> {
        if self.process.is_current() {
            return Ok(());
        }
        let forked =
            std::io::Error::other("they are another process's, which this one was forked from");
        Err(MemoryError::new("set aside pages")(forked))
    }

    /// Takes pages back that nobody holds.
    fn release(&self, pages: &[Range<u64>]) {
        if pages.is_empty() || !self.process.is_current() {
            return;
        }
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        freed.count += pages.iter().map(|range| range.end - range.start).sum::<u64>();
        freed.ranges.extend_from_slice(pages);
        if freed.count < MAX_FREED {
            return;
        }
        let Freed { ranges, .. } = std::mem::take(&mut *freed);
        drop(freed);
        self.give_back(ranges);
    }

    /// Gives the memory of pages back to the system. Failing to costs only that memory.
    fn give_back(&self, mut pages: Vec<Range<u64>>) {
        pages.sort_unstable_by_key(|range| range.start);
        for joined in pages.chunk_by(|one, next| one.end == next.start) {
            let (start, end) = (joined[0].start, joined[joined.len() - 1].end);
            sys::release(&self.file, start * PAGE as u64, (end - start) * PAGE as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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
            for (number, changed) in (1u8..).zip(&captures) {
                let memory = vec![number; 40 * PAGE];
                let mut ranges: Vec<Range<usize>> = Vec::new();
                for page in changed {
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
                // The oldest goes: the others must not notice.
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
    #[cfg(all(target_os = "linux", not(portable_memory)))]
    fn what_nobody_holds_takes_no_memory() {
        use std::io;
        use std::os::unix::fs::MetadataExt;
        let store = PageStore::new().unwrap();
        let memory = vec![7; 100 * PAGE];
        let all = [0..50 * PAGE, 50 * PAGE..100 * PAGE];
        let one = Pages::default().with(&store, &memory, &all).unwrap();
        let two = one.with(&store, &memory, &all[..1]).unwrap();
        let taken = || {
            let Freed { ranges, count } = std::mem::take(&mut *store.freed.lock().unwrap());
            assert!(count < MAX_FREED, "{count} pages wait to be given back");
            store.give_back(ranges);
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
        // One that is cut short.
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
        // Many are given back by whoever lets the last of them go.
        let blocks = || store.file.metadata().unwrap().blocks();
        for _ in 0..100 {
            drop(Pages::default().with(&store, &memory, &all).unwrap());
            assert!(blocks() * 512 / PAGE as u64 <= MAX_FREED + 100);
        }
    }
}
