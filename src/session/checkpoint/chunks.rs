//! Chunks as they are read: fetched by their number, taken apart and compared with their names.

use std::io::SeekFrom;

use super::format::Name;
use super::input::Input;
use super::problem::Problem;
use crate::session::error::ChunkProblem;

/// Where the chunks of a checkpoint are.
pub(super) trait Chunks: Send + Sync {
    /// The compressed form of a chunk, by its number in the manifest; `buffer` may be used for it.
    fn fetch<'a>(
        &'a self,
        number: usize,
        name: Name,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Problem>;

    /// Hears which chunks are fetched next, so that they can be on their way together. It blocks.
    fn prepare(&self, _numbers: &[usize], _listed: &[(Name, u32)]) -> Result<(), Problem> {
        Ok(())
    }
}

/// Those that a file carries.
pub(super) struct Carried {
    from: Box<dyn Input>,
    /// Where each is and how long, in order.
    places: Vec<(u64, u32)>,
}

impl Carried {
    /// Finds so many chunks, the first of which begins at `at`, up to the end of the file.
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
    fn fetch<'a>(
        &'a self,
        number: usize,
        name: Name,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Problem> {
        let missing = Problem::Chunk(name, ChunkProblem::Missing);
        let (at, length) = *self.places.get(number).ok_or(missing)?;
        // As long as the file is, which was looked at; what was in it is not cleared first.
        buffer.resize(length as usize, 0);
        self.from.read_exact_at(at, buffer)?;
        Ok(buffer)
    }
}

/// Takes chunks apart, one after the other.
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

    /// The bytes of a chunk, which are `length`.
    pub(super) fn open(
        &mut self,
        chunks: &dyn Chunks,
        number: usize,
        (name, length): (Name, u32),
    ) -> Result<&[u8], Problem> {
        let compressed = chunks.fetch(number, name, &mut self.compressed)?;
        self.plain.clear();
        self.plain.reserve(length as usize);
        let altered = || Problem::Chunk(name, ChunkProblem::Altered);
        let with = self.with.as_mut().map_err(|e| std::io::Error::new(e.kind(), e.to_string()))?;
        with.decompress_to_buffer(compressed, &mut self.plain).map_err(|_| altered())?;
        if self.plain.len() != length as usize || Name::of(&self.plain) != name {
            return Err(altered());
        }
        Ok(&self.plain)
    }
}
