//! Reads chunks: fetches them by number, decompresses them and verifies their names.

use std::io::SeekFrom;
use std::ops::Range;

use super::format::Name;
use super::input::Input;
use super::problem::Problem;
use crate::error::session::ChunkProblem;

/// Source of a checkpoint's chunks.
pub(super) trait Chunks: Send + Sync {
    /// Replaces the contents of `buffer` by the compressed form of a chunk, given its number in the
    /// manifest.
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem>;

    /// Announces the chunks to be fetched next. Prepares the first of them so that `fetch` need not
    /// wait, and returns how many, at least one. Blocks.
    fn prepare(&self, numbers: &[usize], _listed: &[(Name, u32)]) -> Result<usize, Problem> {
        Ok(numbers.len())
    }
}

/// Runs `work` on these chunks, in batches that can be fetched without waiting. Blocks.
pub(super) fn in_batches(
    chunks: &dyn Chunks,
    mut numbers: &[usize],
    listed: &[(Name, u32)],
    mut work: impl FnMut(&[usize]) -> Result<(), Problem>,
) -> Result<(), Problem> {
    while !numbers.is_empty() {
        let ready = chunks.prepare(numbers, listed)?.clamp(1, numbers.len());
        let (batch, rest) = numbers.split_at(ready);
        work(batch)?;
        numbers = rest;
    }
    Ok(())
}

/// Chunks contained in a file.
pub(super) struct Carried {
    from: Box<dyn Input>,
    /// Offset and length of each chunk, in order.
    places: Vec<(u64, u32)>,
}

impl Carried {
    /// Locates `count` chunks, from offset `at` to the end of the file.
    pub(super) fn find(mut from: Box<dyn Input>, at: u64, count: usize) -> Result<Self, Problem> {
        let end = from.seek(SeekFrom::End(0))?;
        let (mut places, mut at) = (Vec::new(), at);
        for _ in 0..count {
            let mut length = [0; 4];
            from.read_exact_at(at, &mut length)?;
            let length = u32::from_le_bytes(length);
            places.push((at + 4, length));
            at += 4 + u64::from(length);
            if at > end {
                return Err(Problem::Format("it ends too early"));
            }
        }
        if at != end {
            return Err(Problem::Format("it does not end where it should"));
        }
        Ok(Self { from, places })
    }
}

impl Chunks for Carried {
    fn fetch(&self, number: usize, name: Name, buffer: &mut Vec<u8>) -> Result<(), Problem> {
        let missing = Problem::Chunk(name, ChunkProblem::Missing);
        let (at, length) = *self.places.get(number).ok_or(missing)?;
        // The length is within the file, as checked before. The buffer's old contents are not
        // cleared first.
        buffer.resize(length as usize, 0);
        self.from.read_exact_at(at, buffer)?;
        Ok(())
    }
}

/// Decompresses chunks, one after another.
pub(super) struct Opener {
    with: std::io::Result<zstd::bulk::Decompressor<'static>>,
    compressed: Vec<u8>,
    plain: Vec<u8>,
}

impl Opener {
    pub(super) fn new() -> Self {
        Self {
            with: zstd::bulk::Decompressor::new(),
            compressed: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Replaces the contents of `buffer` by the compressed form of a chunk, verified against its
    /// name.
    pub(super) fn copy(
        &mut self,
        chunks: &dyn Chunks,
        number: usize,
        listed: (Name, u32),
        buffer: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        self.open(chunks, number, listed)?;
        std::mem::swap(&mut self.compressed, buffer);
        Ok(())
    }

    /// Returns the bytes of a chunk of size `length`.
    pub(super) fn open(
        &mut self,
        chunks: &dyn Chunks,
        number: usize,
        (name, length): (Name, u32),
    ) -> Result<&[u8], Problem> {
        chunks.fetch(number, name, &mut self.compressed)?;
        let altered = || Problem::Chunk(name, ChunkProblem::Altered);
        self.plain.clear();
        self.plain.reserve(length as usize);
        let with = self.with.as_mut().map_err(|e| std::io::Error::new(e.kind(), e.to_string()))?;
        with.decompress_to_buffer(&self.compressed, &mut self.plain).map_err(|_| altered())?;
        if self.plain.len() != length as usize || Name::of(&self.plain) != name {
            return Err(altered());
        }
        Ok(&self.plain)
    }
}

/// Returns a range of a chunk's bytes, as far as the chunk has them.
pub(super) fn part(plain: &[u8], range: Range<usize>) -> &[u8] {
    let end = range.end.min(plain.len());
    &plain[range.start.min(end)..end]
}
