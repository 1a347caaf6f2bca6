//! The chunks that states need, with the pages and files in them. All needs are collected first, so
//! that each chunk is fetched once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_files::{Content, MAX_LEN, Pool, WeakContent};
use belljar_memory::{HOST_PAGE, Imported, Pages};
use rayon::prelude::*;

use super::chunk_index::Piece;
use super::chunk_reader::{Chunks, Opener, in_batches, part};
use super::chunker::InChunk;
use super::format::{HOLE, MAX_CHUNK, Name, hole_length};
use super::problem::Problem;
use crate::limits::MAX_CHECKPOINT_FILES;
use crate::session::storage::Storage;
use crate::util::parallel::on_all_cores;

/// Maximum number of pages in a chunk.
const MAX_PAGES: u32 = MAX_CHUNK / HOST_PAGE as u32;
const WORDS: usize = MAX_PAGES as usize / 64;

/// A set of pages in a chunk, as bits.
#[derive(Clone, Copy, Default)]
struct Bits([u64; WORDS]);

impl Bits {
    fn add(&mut self, first: u32, end: u32) {
        let mut page = first;
        while page < end {
            let (word, bit) = (page as usize / 64, page % 64);
            let here = (64 - bit).min(end - page);
            self.0[word] |= (u64::MAX >> (64 - here)) << bit;
            page += here;
        }
    }

    fn without(mut self, other: &Self) -> Self {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own &= !other;
        }
        self
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the number of pages in the set before `page`.
    fn before(&self, page: u32) -> u32 {
        let (word, bit) = (page as usize / 64, page % 64);
        let words: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        words + (self.0[word] & ((1 << bit) - 1)).count_ones()
    }

    /// Returns the number of consecutive pages in the set from `first` on.
    fn in_row(&self, first: u32) -> u32 {
        let mut page = first;
        while page < MAX_PAGES {
            let left = 64 - page % 64;
            let ones = (self.0[page as usize / 64] >> (page % 64)).trailing_ones().min(left);
            page += ones;
            if ones < left {
                break;
            }
        }
        page - first
    }

    /// Iterates over ranges: first page and number of pages.
    fn stretches(self) -> impl Iterator<Item = (u32, u32)> {
        let mut page = 0;
        std::iter::from_fn(move || {
            while page < MAX_PAGES {
                let rest = self.0[page as usize / 64] >> (page % 64);
                if rest == 0 {
                    page = (page / 64 + 1) * 64;
                    continue;
                }
                page += rest.trailing_zeros();
                let (first, count) = (page, self.in_row(page));
                page += count;
                return Some((first, count));
            }
            None
        })
    }
}

/// The required data in chunks that was not fetched before.
pub(super) struct Wanted<'a> {
    before: &'a Fetched,
    pages: BTreeMap<u32, Bits>,
    sizes: Vec<u64>,
    files: HashMap<(Pieces, usize), usize>,
    /// Parts of files by chunk: file, offset in the file, offset in the chunk, and length.
    parts: BTreeMap<u32, Vec<(usize, u64, u32, u32)>>,
}

/// The pieces of a file.
type Pieces = Vec<Piece>;

/// Pages of a chunk that were added together, and the page number of the first.
#[derive(Clone, Copy)]
struct Placed {
    first: u32,
    pages: Bits,
}

/// The fetched data.
#[derive(Default)]
pub(super) struct Fetched {
    imported: Option<Imported>,
    /// Pages that have a place but were not fetched.
    hollow: BTreeMap<u32, Placed>,
    /// Location of each chunk's pages among the added pages.
    placed: BTreeMap<u32, Vec<Placed>>,
    /// Number of added pages.
    count: u32,
    numbers: HashMap<(Pieces, usize), usize>,
    /// The files, each with its pieces.
    files: Vec<(Content, Pieces)>,
    bytes: u64,
}

impl<'a> Wanted<'a> {
    pub(super) fn beside(before: &'a Fetched) -> Self {
        Self {
            before,
            pages: BTreeMap::new(),
            sizes: Vec::new(),
            files: HashMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Adds pages of a chunk of the given size.
    pub(super) fn add_pages(
        &mut self,
        (chunk, length): (u32, u32),
        first: u32,
        count: u32,
    ) -> Result<(), Problem> {
        let there = length.min(MAX_CHUNK) / HOST_PAGE as u32;
        let end = first.checked_add(count).filter(|end| *end <= there);
        let end = end.ok_or(Problem::Format("it names pages that no chunk has"))?;
        self.pages.entry(chunk).or_default().add(first, end);
        Ok(())
    }

    /// Adds a file, unless another state has it, and returns its number. `ordinal` distinguishes
    /// files of one state with equal bytes.
    pub(super) fn add_file(&mut self, pieces: Pieces, ordinal: usize) -> Result<usize, Problem> {
        let number = self.before.files.len() + self.sizes.len();
        let key = (pieces, ordinal);
        if let Some(there) = self.before.numbers.get(&key) {
            return Ok(*there);
        }
        if number >= MAX_CHECKPOINT_FILES {
            return Err(Problem::Format("it holds too many files"));
        }
        let free = match self.files.entry(key) {
            Entry::Occupied(there) => return Ok(*there.get()),
            Entry::Vacant(free) => free,
        };
        let mut size = 0;
        for (chunk, at, length) in &free.key().0 {
            let bytes = if *chunk == HOLE {
                hole_length(*at, *length)
            } else {
                self.parts.entry(*chunk).or_default().push((number, size, *at, *length));
                u64::from(*length)
            };
            let sum = size.checked_add(bytes).filter(|sum| *sum <= MAX_LEN);
            size = sum.ok_or(Problem::Format("it holds a file that is too large"))?;
        }
        self.sizes.push(size);
        free.insert(number);
        Ok(number)
    }

    /// Returns the resulting number of pages and size of files, in total.
    pub(super) fn size(&self) -> (u64, Option<u64>) {
        let new =
            |(chunk, pages): (&u32, &Bits)| u64::from(self.before.missing(*chunk, pages).count());
        let pages: u64 = self.pages.iter().map(new).sum();
        let files =
            self.sizes.iter().try_fold(self.before.bytes, |sum, size| sum.checked_add(*size));
        (u64::from(self.before.count) + pages, files)
    }

    /// Fetches every chunk that is needed. Chunks needed only for pages are fetched if `with_pages`
    /// is set; otherwise their pages remain hollow. `state` has the pages fetched before.
    pub(super) fn fetch(
        self,
        from: (&dyn Chunks, &[(Name, u32)]),
        state: Option<&Arc<Pages>>,
        storage: &Storage,
        with_pages: bool,
    ) -> Result<Fetched, Problem> {
        let (_, bytes) = self.size();
        let before = self.before;
        let mut placed = before.placed.clone();
        let mut count = before.count;
        let mut new: BTreeMap<u32, Placed> = BTreeMap::new();
        for (chunk, pages) in &self.pages {
            let pages = before.missing(*chunk, pages);
            if pages.count() > 0 {
                let first = count;
                count += pages.count();
                new.insert(*chunk, Placed { first, pages });
                placed.entry(*chunk).or_default().push(Placed { first, pages });
            }
        }
        let imported = storage.pages.reserve_after(state, count - before.count)?;
        imported.set_hollow(true);
        let sized = |size: &u64| {
            let mut content = Content::default();
            content.set_len(*size).map(|()| Mutex::new(content)).map_err(io::Error::from)
        };
        let prepared: Vec<Mutex<Content>> =
            self.sizes.iter().map(sized).collect::<Result<_, _>>()?;
        let pool = storage.roots.pool();

        let pages = if with_pages {
            std::mem::take(&mut new)
        } else {
            BTreeMap::new()
        };
        let all: BTreeSet<u32> = pages.keys().chain(self.parts.keys()).copied().collect();
        open_all(from, all, |chunk, plain| {
            if let Some(placed) = pages.get(&chunk) {
                placed.write(&imported, plain)?;
            }
            for (file, to, at, length) in self.parts.get(&chunk).into_iter().flatten() {
                let start = *at as usize;
                let file = &prepared[*file - before.files.len()];
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                write(&mut file, pool, *to, part(plain, start..start + *length as usize))?;
            }
            Ok(())
        })?;
        imported.set_hollow(!new.is_empty());

        let mut pieces = vec![Vec::new(); prepared.len()];
        let mut numbers = before.numbers.clone();
        for (key, number) in self.files {
            pieces[number - before.files.len()].clone_from(&key.0);
            numbers.insert(key, number);
        }
        let finished =
            |file: Mutex<Content>| file.into_inner().unwrap_or_else(PoisonError::into_inner);
        let files = prepared.into_iter().map(finished).zip(pieces);
        Ok(Fetched {
            imported: Some(imported),
            hollow: new,
            placed,
            count,
            numbers,
            files: before.files.iter().cloned().chain(files).collect(),
            bytes: bytes.unwrap_or(u64::MAX),
        })
    }
}

/// Writes all of `bytes` at offset `at`.
fn write(file: &mut Content, pool: &Pool, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let wrote = file.write_at(pool, at, bytes)?;
        if wrote == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        at += wrote as u64;
        bytes = &bytes[wrote..];
    }
    Ok(())
}

impl Placed {
    fn write(&self, imported: &Imported, plain: &[u8]) -> Result<(), Problem> {
        let mut number = self.first;
        for (page, count) in self.pages.stretches() {
            let (start, end) = (page as usize, (page + count) as usize);
            imported.write(number, &[part(plain, start * HOST_PAGE..end * HOST_PAGE)])?;
            number += count;
        }
        Ok(())
    }
}

/// Decompresses chunks on all processors.
fn open_all(
    (chunks, listed): (&dyn Chunks, &[(Name, u32)]),
    numbers: BTreeSet<u32>,
    each: impl Fn(u32, &[u8]) -> Result<(), Problem> + Sync,
) -> Result<(), Problem> {
    let numbers: Vec<usize> = numbers.into_iter().map(|number| number as usize).collect();
    in_batches(chunks, &numbers, listed, |batch| {
        let next = AtomicUsize::new(0);
        // One opener per thread instead of per chunk, because fresh buffers are expensive.
        let open = |_| {
            let mut opener = Opener::new();
            while let Some(&chunk) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
                each(chunk as u32, opener.open(chunks, chunk, listed[chunk])?)?;
            }
            Ok(())
        };
        on_all_cores(|| {
            let threads = rayon::current_num_threads().min(batch.len());
            (0..threads).into_par_iter().try_for_each(open)
        })
    })
}

impl Fetched {
    /// Fetches the hollow pages.
    pub(super) fn fill(&self, from: (&dyn Chunks, &[(Name, u32)])) -> Result<(), Problem> {
        let Some(imported) = &self.imported else {
            return Ok(());
        };
        let chunks = self.hollow.keys().copied().collect();
        open_all(from, chunks, |chunk, plain| match self.hollow.get(&chunk) {
            Some(placed) => placed.write(imported, plain),
            None => Ok(()),
        })?;
        imported.set_hollow(false);
        Ok(())
    }

    /// Returns which of a chunk's pages are missing.
    fn missing(&self, chunk: u32, pages: &Bits) -> Bits {
        let there = self.placed.get(&chunk).into_iter().flatten();
        there.fold(*pages, |missing, placed| missing.without(&placed.pages))
    }

    /// Iterates over the locations of a chunk's pages, all of which exist: number of consecutive
    /// pages, and page number of the first.
    fn runs(&self, chunk: u32, first: u32, count: u32) -> impl Iterator<Item = (u32, u32)> {
        let placed = self.placed.get(&chunk).map_or(&[][..], Vec::as_slice);
        let (mut page, end) = (first, first + count);
        std::iter::from_fn(move || {
            let left = end.checked_sub(page).filter(|left| *left > 0)?;
            let found = placed.iter().find_map(|placed| {
                let there = placed.pages.in_row(page);
                (there > 0).then(|| (there.min(left), placed.first + placed.pages.before(page)))
            })?;
            page += found.0;
            Some(found)
        })
    }

    /// Returns a state's pages in these ranges.
    pub(super) fn pages(&self, stretches: &[InChunk]) -> Option<Pages> {
        let runs = stretches.iter().flat_map(|(page, count, chunk, first)| {
            let mut page = *page;
            self.runs(*chunk, *first, *count).map(move |(count, number)| {
                let run = (page, count, number);
                page = page.saturating_add(count);
                run
            })
        });
        match &self.imported {
            Some(imported) => Pages::from_imported(imported, runs),
            None => None,
        }
    }

    /// Iterates over all existing pages: page number of the first, number of pages, chunk, and
    /// first page in the chunk.
    pub(super) fn all_pages(&self) -> impl Iterator<Item = (u64, u32, u32, u32)> {
        let stretches = self.placed.iter().flat_map(|(chunk, placed)| {
            placed.iter().flat_map(move |Placed { first, pages }| {
                let mut number = *first;
                pages.stretches().map(move |(page, count)| {
                    number += count;
                    (number - count, count, *chunk, page)
                })
            })
        });
        let number = |own| self.imported.as_ref().map(|imported| imported.number(own));
        stretches
            .filter_map(move |(own, count, chunk, page)| Some((number(own)?, count, chunk, page)))
    }

    pub(super) fn files(&self) -> &[(Content, Pieces)] {
        &self.files
    }

    /// Converts to weak references, to reuse the data later if it still exists.
    pub(super) fn fade(self) -> Faded {
        let mut keys: Vec<Option<(Pieces, usize)>> = vec![None; self.files.len()];
        for (key, number) in self.numbers {
            keys[number] = Some(key);
        }
        let files = self.files.iter().map(|(file, _)| file.downgrade()).zip(keys);
        Faded {
            placed: self.placed,
            count: self.count,
            files: files.filter_map(|(file, key)| Some((file, key?))).collect(),
        }
    }
}

/// Fetched data that is not kept alive.
#[derive(Default)]
pub(super) struct Faded {
    placed: BTreeMap<u32, Vec<Placed>>,
    count: u32,
    files: Vec<(WeakContent, (Pieces, usize))>,
}

impl Faded {
    /// Recovers the data: all pages, which are still in use, and the files that are still in use.
    pub(super) fn again(&self) -> Fetched {
        let mut fetched = Fetched {
            placed: self.placed.clone(),
            count: self.count,
            ..Fetched::default()
        };
        for (file, key) in &self.files {
            if let Some(file) = file.upgrade() {
                fetched.bytes = fetched.bytes.saturating_add(file.len());
                fetched.numbers.insert(key.clone(), fetched.files.len());
                fetched.files.push((file, key.0.clone()));
            }
        }
        fetched
    }
}
