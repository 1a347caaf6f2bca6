//! The pages of a guest's memory that a state holds.
//!
//! The list of pages is divided into windows of the guest's memory. States share the windows
//! without differences, so that a new state costs only as much as its changes.
#![expect(unsafe_code, reason = "writes pages that come in to a store")]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Block, MemoryError, PAGE, PageStore, Stretch};

/// Number of a guest's pages per window.
pub(super) const WINDOW: u32 = 64;
/// Number of pages in the largest guest memory.
const MAX_PAGES: u32 = 1 << 20;
/// Maximum number of pages in all windows created from one import. Each window is counted
/// separately, and an import may be much smaller than the states that claim to use it.
const MAX_HELD: u64 = 1 << 26;

/// Consecutive pages, both in the guest's memory and in the file.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Number of the first page in the guest's memory.
    pub page: u32,
    pub count: u32,
    pub block: Arc<Block>,
    /// Number of the first page in the block.
    pub offset: u32,
}

/// The stored pages of one window of a guest's memory. They are held until it is dropped.
#[derive(Debug)]
struct Window {
    /// Sorted, not overlapping, all in the same window, and not empty.
    runs: Box<[Run]>,
}

/// The pages of a guest that differ from its image, with their contents.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Sorted by position.
    windows: Vec<Arc<Window>>,
}

/// Pages that were imported together. Dropping it releases the pages that no state holds. If there
/// were earlier imports, `before` is a state that holds all of their pages.
#[derive(Debug)]
pub struct Imported {
    #[expect(dead_code, reason = "held for its pages")]
    before: Option<Arc<Pages>>,
    /// Blocks by page numbers: those of earlier imports, then its own.
    blocks: Box<[Arc<Block>]>,
    /// Number of blocks of earlier imports.
    earlier: usize,
    made: Mutex<Made>,
}

/// The windows created from an import.
#[derive(Debug, Default)]
struct Made {
    windows: HashMap<Vec<Piece>, Arc<Window>>,
    /// Number of pages that they hold.
    held: u64,
}

/// A run of an import: first page in the guest's memory, number of pages, and number of the first
/// page in the import.
type Piece = (u32, u32, u32);

impl Pages {
    /// Returns these pages, with those in `ranges` of `memory` added or replaced.
    pub(crate) fn with(
        &self,
        store: &Arc<PageStore>,
        memory: &[u8],
        ranges: &[Range<usize>],
    ) -> Result<Self, MemoryError> {
        let fresh: Vec<Run> =
            store.append(memory, ranges)?.iter().flat_map(Run::by_window).collect();
        let mut newer = fresh.chunk_by(|one, next| one.window() == next.window()).peekable();
        let mut windows = Vec::with_capacity(self.windows.len() + 8);
        for old in &self.windows {
            while let Some(new) = newer.next_if(|new| new[0].window() < old.number()) {
                windows.push(Window::holding(new.to_vec()));
            }
            windows.push(match newer.next_if(|new| new[0].window() == old.number()) {
                Some(new) => Window::holding(overlaid(&old.runs, new)),
                None => Arc::clone(old),
            });
        }
        windows.extend(newer.map(|new| Window::holding(new.to_vec())));
        Ok(Self { windows })
    }

    /// Builds a state from pages: first page in the guest's memory, number of pages, and number of
    /// the first imported page. Returns `None` if they overlap or do not exist, or if all states of
    /// the import hold more pages than allowed.
    pub fn from_imported(
        imported: &Imported,
        stretches: impl IntoIterator<Item = (u32, u32, u32)>,
    ) -> Option<Self> {
        let mut made = imported.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut windows, mut end) = (Vec::new(), 0);
        let mut pieces: Vec<Piece> = Vec::new();
        for (page, count, offset) in stretches {
            if count == 0 || page < end || !imported.has(offset, count) {
                return None;
            }
            end = page.checked_add(count).filter(|end| *end <= MAX_PAGES)?;
            for piece in by_window((page, count, offset)).flat_map(|piece| imported.by_block(piece))
            {
                if pieces.last().is_some_and(|last| last.0 / WINDOW != piece.0 / WINDOW) {
                    windows.push(made.window(imported, std::mem::take(&mut pieces))?);
                }
                pieces.push(piece);
            }
        }
        if !pieces.is_empty() {
            windows.push(made.window(imported, pieces)?);
        }
        Some(Self { windows })
    }

    /// Returns the number after that of the last page.
    pub fn end(&self) -> usize {
        self.windows
            .last()
            .and_then(|window| window.runs.last())
            .map_or(0, |run| run.end() as usize)
    }

    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.runs().map(|run| run.count as usize).sum()
    }

    /// Returns the number of ranges in the store.
    pub fn pieces(&self) -> usize {
        self.windows.iter().map(|window| window.runs.len()).sum()
    }

    /// Iterates over all pages, by address.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        joined(self.runs().map(Run::stretch))
    }

    /// Iterates over the pages in `range`, by address.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = Stretch<'_>> {
        let (start, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        let first = self
            .windows
            .partition_point(|window| (window.number() + 1) as usize * WINDOW as usize <= start);
        let runs = self.windows[first..].iter().flat_map(|window| &window.runs);
        let inside = runs
            .skip_while(move |run| run.end() as usize <= start)
            .take_while(move |run| (run.page as usize) < end);
        joined(inside.map(move |run| {
            let from = start.max(run.page as usize);
            let to = end.min(run.end() as usize);
            run.stretch().part(from - run.page as usize, to - from)
        }))
    }

    /// Returns the number of pages that `other` does not share: the cost of keeping both.
    pub fn beyond(&self, other: &Self) -> usize {
        let mut apart = 0;
        for mine in self.apart(other).flat_map(|window| &window.runs).map(Run::stretch) {
            let shared: usize = other
                .within(mine.range())
                .map(|theirs| {
                    let at = (theirs.page - mine.page) * PAGE;
                    let same = std::ptr::eq(mine.store(), theirs.store())
                        && theirs.at.wrapping_sub(mine.at) == at as u64;
                    if same { theirs.count } else { 0 }
                })
                .sum();
            apart += mine.count - shared;
        }
        apart
    }

    /// Returns the size of this state's lists that `other` does not share, in bytes.
    pub fn lists_beyond(&self, other: &Self) -> usize {
        let bytes = |window: &Window| size_of::<Window>() + size_of_val(&*window.runs);
        size_of_val(&*self.windows) + self.apart(other).map(bytes).sum::<usize>()
    }

    /// Iterates over the windows that `other` does not share.
    fn apart<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Window> {
        let is_shared = |window: &Arc<Window>| {
            let theirs = other.windows.binary_search_by_key(&window.number(), |w| w.number());
            theirs.is_ok_and(|index| Arc::ptr_eq(&other.windows[index], window))
        };
        self.windows.iter().filter(move |window| !is_shared(window)).map(|window| &**window)
    }

    /// Returns the blocks with its pages, by page numbers. All pages must have been imported
    /// together.
    pub(super) fn came_in(&self) -> Vec<Arc<Block>> {
        let mut blocks: BTreeMap<u32, &Arc<Block>> = BTreeMap::new();
        for run in self.runs() {
            blocks.insert(run.block.first, &run.block);
        }
        blocks.into_values().map(Arc::clone).collect()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.windows.iter().flat_map(|window| &window.runs)
    }
}

/// Overlays `old` runs by `new` ones, both of one window.
fn overlaid(old: &[Run], new: &[Run]) -> Vec<Run> {
    let mut runs = Vec::with_capacity(old.len() + 2 * new.len());
    let mut newer = new.iter().peekable();
    for run in old {
        let mut rest = run.clone();
        while rest.count > 0 {
            // Pages before the next new run are kept; pages that it covers are not.
            while newer.next_if(|new| new.end() <= rest.page).is_some() {}
            let end = rest.end();
            let (kept, resume) = match newer.peek() {
                Some(new) if new.page < end => {
                    (new.page.saturating_sub(rest.page), new.end().min(end))
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
    runs.extend_from_slice(new);
    runs.sort_unstable_by_key(|run| run.page);
    runs
}

/// Merges consecutive stretches.
fn joined<'a>(stretches: impl Iterator<Item = Stretch<'a>>) -> impl Iterator<Item = Stretch<'a>> {
    let mut stretches = stretches.peekable();
    std::iter::from_fn(move || {
        let mut stretch = stretches.next()?;
        while let Some(longer) = stretches.peek().and_then(|next| stretch.joined(next)) {
            stretch = longer;
            stretches.next();
        }
        Some(stretch)
    })
}

/// Splits a piece at window boundaries.
fn by_window((page, count, offset): Piece) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let first = page + done;
        let length = (count - done).min(WINDOW - first % WINDOW);
        let piece = (length > 0).then_some((first, length, offset + done));
        done += length;
        piece
    })
}

impl Run {
    fn end(&self) -> u32 {
        self.page + self.count
    }

    fn window(&self) -> u32 {
        self.page / WINDOW
    }

    fn by_window(&self) -> impl Iterator<Item = Self> {
        by_window((self.page, self.count, self.offset)).map(|piece| Self::of(&self.block, piece))
    }

    fn of(block: &Arc<Block>, (page, count, offset): Piece) -> Self {
        Self {
            page,
            count,
            block: Arc::clone(block),
            offset,
        }
    }

    fn stretch(&self) -> Stretch<'_> {
        Stretch {
            page: self.page as usize,
            count: self.count as usize,
            block: &self.block,
            at: (self.block.start + u64::from(self.offset)) * PAGE as u64,
            number: self.block.number + u64::from(self.offset),
        }
    }
}

impl Window {
    fn holding(runs: Vec<Run>) -> Arc<Self> {
        for run in &runs {
            for holders in run.block.holders(run.offset, run.count) {
                holders.fetch_add(1, Ordering::Relaxed);
            }
        }
        Arc::new(Self { runs: runs.into() })
    }

    /// Returns the window's number in the guest's memory.
    fn number(&self) -> u32 {
        self.runs[0].window()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let is_last = |holders: &AtomicU64| holders.fetch_sub(1, Ordering::AcqRel) == 1;
        // The runs of one store are consecutive, since a session has one store.
        for runs in self.runs.chunk_by(|one, next| Arc::ptr_eq(&one.block.store, &next.block.store))
        {
            let mut freed = Vec::new();
            for run in runs {
                run.block.release((run.offset, run.count), &mut freed, is_last);
            }
            runs[0].block.store.release(&freed);
        }
    }
}

impl Made {
    /// Returns the window with these pieces, reusing an existing one.
    fn window(&mut self, imported: &Imported, pieces: Vec<Piece>) -> Option<Arc<Window>> {
        if let Some(window) = self.windows.get(&pieces) {
            return Some(Arc::clone(window));
        }
        self.held += pieces.iter().map(|piece| u64::from(piece.1)).sum::<u64>();
        if self.held > MAX_HELD {
            return None;
        }
        let runs = pieces.iter().map(|piece| imported.run(*piece)).collect();
        Some(Arc::clone(self.windows.entry(pieces).or_insert(Window::holding(runs))))
    }
}

impl Imported {
    pub(super) fn new(blocks: Vec<Arc<Block>>) -> Self {
        Self {
            before: None,
            blocks: blocks.into(),
            earlier: 0,
            made: Mutex::default(),
        }
    }

    /// Appends pages to an earlier import. All pages of `state` were imported together, and it
    /// holds all pages of that import.
    pub(super) fn after(
        state: &Arc<Pages>,
        before: Vec<Arc<Block>>,
        blocks: Vec<Arc<Block>>,
    ) -> Self {
        let mut made = Made::default();
        for window in &state.windows {
            let piece = |run: &Run| (run.page, run.count, run.block.first + run.offset);
            made.windows.insert(window.runs.iter().map(piece).collect(), Arc::clone(window));
            made.held += window.runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        }
        debug_assert!(before.iter().zip(before.iter().skip(1)).all(|(a, b)| a.end() == b.first));
        Self {
            before: Some(Arc::clone(state)),
            earlier: before.len(),
            blocks: before.into_iter().chain(blocks).collect(),
            made: made.into(),
        }
    }

    /// Returns the block of a page, and the page's number there.
    fn place(&self, own: u32) -> (&Arc<Block>, u32) {
        let behind = self.blocks.partition_point(|block| block.first <= own);
        let block = &self.blocks[behind.saturating_sub(1)];
        (block, own - block.first)
    }

    /// Whether `count` pages from `own` on exist.
    fn has(&self, own: u32, count: u32) -> bool {
        let end = |blocks: &[Arc<Block>]| blocks.last().map_or(0, |last| last.end());
        let earlier = end(&self.blocks[..self.earlier]);
        own.checked_add(count).is_some_and(|wanted| {
            wanted <= end(&self.blocks) && (own >= earlier || wanted <= earlier)
        })
    }

    /// Splits a piece at block boundaries.
    fn by_block(&self, (page, count, own): Piece) -> impl Iterator<Item = Piece> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let left = count - done;
            let (block, offset) = (left > 0).then(|| self.place(own + done))?;
            let piece = (page + done, left.min(block.count() - offset), own + done);
            done += piece.1;
            Some(piece)
        })
    }

    fn run(&self, (page, count, own): Piece) -> Run {
        let (block, offset) = self.place(own);
        Run::of(block, (page, count, offset))
    }

    /// Returns the global number of a page. Pages imported together have consecutive numbers.
    pub fn number(&self, own: u32) -> u64 {
        let (block, offset) = self.place(own);
        block.number + u64::from(offset)
    }

    /// Returns the blocks that were not imported earlier.
    fn new_blocks(&self) -> &[Arc<Block>] {
        &self.blocks[self.earlier..]
    }

    /// Sets whether the pages are unwritten: until they are written, they cannot be read.
    pub fn set_hollow(&self, is_hollow: bool) {
        for block in self.new_blocks() {
            block.is_hollow.store(is_hollow, Ordering::Release);
        }
    }

    /// Writes whole pages, given consecutively in `parts`; the first has the number `first` in this
    /// import. Each page is written once, before a state has it or while it is
    /// [hollow](Self::set_hollow).
    ///
    /// # Errors
    ///
    /// If the system has no memory left.
    pub fn write(&self, first: u32, parts: &[&[u8]]) -> Result<(), MemoryError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let count = (bytes / PAGE) as u32;
        debug_assert!(self.has(first, count));
        let (mut rest, mut parts): (&[u8], _) = (&[], parts.iter());
        for (_, count, own) in self.by_block((0, count, first)) {
            let (block, offset) = self.place(own);
            let mut left = count as usize * PAGE;
            let mut slices = Vec::new();
            while left > 0 {
                if rest.is_empty() {
                    let Some(next) = parts.next() else {
                        break;
                    };
                    rest = next;
                }
                let (now, later) = rest.split_at(left.min(rest.len()));
                left -= now.len();
                slices.push(now);
                rest = later;
            }
            let place = block.start + u64::from(offset);
            let place = place..place + u64::from(count);
            // SAFETY: the blocks of this import belong to it alone, so only this code writes there,
            // and callers pass each page to one call: a chunk of a checkpoint has pages of its own.
            // A state that already has the pages cannot read them while they are hollow.
            unsafe { block.store.put(&place, &slices, block.is_reused)? };
        }
        Ok(())
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // Windows that only this import holds release their pages themselves, afterwards.
        let is_unheld = |holders: &AtomicU64| holders.load(Ordering::Acquire) == 0;
        let mut freed = Vec::new();
        for block in self.new_blocks() {
            block.release((0, block.count()), &mut freed, is_unheld);
        }
        if let Some(block) = self.new_blocks().first() {
            block.store.release(&freed);
        }
    }
}
