//! Splits pages and files into chunks.

use std::io;

use belljar_files::Content as FileContent;
use belljar_memory::{HOST_PAGE, Pages, Stretch};

use super::chunk_index::{ChunkIndex, Piece, Placed, key};
use super::format::{FILE_CHUNK, Name, hole};

/// Number of a guest's pages, by address, that share a chunk. Aligned windows deduplicate: the same
/// pages at the same addresses give the same chunk, whatever surrounds them.
const WINDOW: usize = 256;
/// A chunk with fewer pages continues into the next window.
const LEAST_PAGES: u32 = 128;
/// Minimum size of a file that gets its own chunks, in bytes.
const LEAST_ALONE: u64 = FILE_CHUNK / 4;

/// Source of a chunk's bytes.
pub(super) enum Content<'a> {
    Pages(Vec<Stretch<'a>>),
    /// Parts of files, each with offset and length.
    Files(Vec<(FileContent, u64, u32)>),
    Document(Vec<u8>),
    /// Input of a waiting run.
    Input(&'a [u8]),
    /// An existing chunk.
    Known(Name),
}

/// A range of memory: first page, number of pages, chunk, and first page within the chunk.
pub(super) type InChunk = (u32, u32, u32, u32);

/// Chunks under construction, numbered from 0.
pub(super) struct Pieces<'a> {
    pub chunks: Vec<(Content<'a>, u32)>,
    pub index: ChunkIndex,
    /// The chunk that accepts more pages, and the window of its last page.
    open: Option<(u32, usize)>,
    /// The chunk that accepts more small files.
    pack: Option<u32>,
}

impl Content<'_> {
    /// Appends the bytes to `to`.
    pub(super) fn read(&self, to: &mut Vec<u8>) -> io::Result<()> {
        to.clear();
        match self {
            Self::Pages(stretches) => {
                for stretch in stretches {
                    let start = to.len();
                    to.resize(start + stretch.count * HOST_PAGE, 0);
                    stretch.read(&mut to[start..]).map_err(io::Error::other)?;
                }
            }
            Self::Files(parts) => {
                for (file, start, length) in parts {
                    let at = to.len();
                    to.resize(at + *length as usize, 0);
                    if file.read_at(*start, &mut to[at..])? != *length as usize {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            Self::Document(bytes) => to.extend_from_slice(bytes),
            Self::Input(bytes) => to.extend_from_slice(bytes),
            Self::Known(name) => {
                return Err(io::Error::other(format!("the chunk {name} was not kept")));
            }
        }
        Ok(())
    }
}

impl<'a> Pieces<'a> {
    /// Starts with existing chunks.
    pub(super) fn of(index: ChunkIndex) -> Self {
        let chunks = index.chunks.iter().map(|(name, length)| (Content::Known(*name), *length));
        Self {
            chunks: chunks.collect(),
            index,
            open: None,
            pack: None,
        }
    }

    /// Adds a chunk that is complete.
    pub(super) fn add(&mut self, content: Content<'a>, length: u32) -> u32 {
        self.chunks.push((content, length));
        (self.chunks.len() - 1) as u32
    }

    /// Returns the locations of a state's pages. Pages that are not in a chunk are added to one
    /// first.
    pub(super) fn pages(&mut self, pages: &'a Pages) -> Vec<InChunk> {
        let mut found: Vec<InChunk> = Vec::new();
        for stretch in pages.stretches() {
            let mut index = 0;
            while index < stretch.count {
                let at = stretch.number() + index as u64;
                let (count, chunk, first) = match self.placed(at) {
                    Ok(there) => {
                        (there.count.min((stretch.count - index) as u32), there.chunk, there.first)
                    }
                    Err(next) => {
                        let left = stretch.count - index;
                        let free = usize::try_from(next - at).unwrap_or(left).min(left);
                        let end = (stretch.page + index) / WINDOW * WINDOW + WINDOW;
                        let free = free.min(end - (stretch.page + index));
                        let (chunk, first) = self.new_pages(stretch.part(index, free));
                        (free as u32, chunk, first)
                    }
                };
                let page = (stretch.page + index) as u32;
                index += count as usize;
                match found.last_mut() {
                    Some((start, length, same, from))
                        if *start + *length == page
                            && *same == chunk
                            && *from + *length == first =>
                    {
                        *length += count;
                    }
                    _ => found.push((page, count, chunk, first)),
                }
            }
        }
        self.open = None;
        found
    }

    /// Returns the location of page `at` and the number of pages that follow it in the chunk; or
    /// else the number of the next page that is in a chunk.
    fn placed(&self, at: u64) -> Result<Placed, u64> {
        let places = &self.index.places;
        if let Some((start, there)) = places.range(..=at).next_back()
            && at < start + u64::from(there.count)
        {
            let skipped = (at - start) as u32;
            return Ok(Placed {
                count: there.count - skipped,
                chunk: there.chunk,
                first: there.first + skipped,
            });
        }
        Err(places.range(at..).next().map_or(u64::MAX, |(next, _)| *next))
    }

    /// Adds pages of one window that are not in a chunk.
    fn new_pages(&mut self, stretch: Stretch<'a>) -> (u32, u32) {
        let window = stretch.page / WINDOW;
        let full = |chunks: &[(Content<'_>, u32)], chunk: u32| {
            chunks[chunk as usize].1 >= LEAST_PAGES * HOST_PAGE as u32
        };
        let chunk = match self.open {
            Some((chunk, last)) if last == window || !full(&self.chunks, chunk) => chunk,
            _ => self.add(Content::Pages(Vec::new()), 0),
        };
        self.open = Some((chunk, window));
        let (content, length) = &mut self.chunks[chunk as usize];
        let first = *length / HOST_PAGE as u32;
        *length += (stretch.count * HOST_PAGE) as u32;
        let (at, count) = (stretch.number(), stretch.count as u32);
        if let Content::Pages(stretches) = content {
            match stretches.last_mut() {
                Some(last) if last.continues(&stretch, 0) => last.count += stretch.count,
                _ => stretches.push(stretch),
            }
        }
        self.index.add_pages(at, count, chunk, first);
        (chunk, first)
    }

    /// Returns the pieces of a file, which is kept alive from now on.
    pub(super) fn file(&mut self, file: &FileContent) -> Vec<Piece> {
        let known = key(file).and_then(|key| self.index.files.get(&key));
        if let Some((_, pieces)) = known {
            return pieces.clone();
        }
        let size = file.len();
        let mut pieces = Vec::new();
        if size >= LEAST_ALONE {
            // A chunk contains the bytes between two multiples of its size, if there are any.
            let starts = file.blocks().map(|(offset, _)| offset - offset % FILE_CHUNK);
            let mut starts: Vec<u64> = starts.collect();
            starts.dedup();
            let mut end = 0;
            for start in starts {
                if start > end {
                    pieces.push(hole(start - end));
                }
                let length = (size - start).min(FILE_CHUNK) as u32;
                let chunk = self.add(Content::Files(vec![(file.clone(), start, length)]), length);
                pieces.push((chunk, 0, length));
                end = start + u64::from(length);
            }
            if size > end {
                pieces.push(hole(size - end));
            }
        } else if size > 0 {
            let fits = |chunk: &u32| u64::from(self.chunks[*chunk as usize].1) + size <= FILE_CHUNK;
            let chunk = match self.pack.filter(fits) {
                Some(chunk) => chunk,
                None => self.add(Content::Files(Vec::new()), 0),
            };
            self.pack = Some(chunk);
            let (content, length) = &mut self.chunks[chunk as usize];
            pieces.push((chunk, *length, size as u32));
            *length += size as u32;
            if let Content::Files(parts) = content {
                parts.push((file.clone(), 0, size as u32));
            }
        }
        self.index.add_file(file, pieces.clone());
        pieces
    }

    /// Closes the chunk that contains the last small files.
    pub(super) fn close_pack(&mut self) {
        self.pack = None;
    }
}
