//! Reads chunks: fetches them by number, decompresses them and verifies their names.

use std::borrow::Cow;
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
    ) -> Result<Plain<'_>, Problem> {
        chunks.fetch(number, name, &mut self.compressed)?;
        let altered = || Problem::Chunk(name, ChunkProblem::Altered);
        let plain = if let Some(plain) = Plain::stored(&self.compressed) {
            plain
        } else {
            self.plain.clear();
            self.plain.reserve(length as usize);
            let with =
                self.with.as_mut().map_err(|e| std::io::Error::new(e.kind(), e.to_string()))?;
            with.decompress_to_buffer(&self.compressed, &mut self.plain).map_err(|_| altered())?;
            Plain(vec![&self.plain])
        };
        if plain.length() != length as usize || plain.name() != name {
            return Err(altered());
        }
        Ok(plain)
    }
}

/// The bytes of a chunk, as consecutive pieces.
pub(super) struct Plain<'a>(Vec<&'a [u8]>);

impl<'a> Plain<'a> {
    /// Returns the contents of a zstd frame of raw blocks, which incompressible data produces,
    /// without decompressing. Returns `None` for any other frame, valid or not. An error here is
    /// harmless, because the bytes would not match the name of the chunk.
    fn stored(frame: &'a [u8]) -> Option<Self> {
        const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
        // A chunk has 16 blocks of 128 KiB. The limit stops a hostile frame of many small blocks.
        const MAX_BLOCKS: usize = 32;
        let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
        let is_single = descriptor & 0x20 != 0;
        // No checksum, no dictionary, no reserved bits.
        if descriptor & 0x1f != 0 {
            return None;
        }
        // The sizes of the window descriptor and of the content size field.
        let window = usize::from(!is_single);
        let size = match descriptor >> 6 {
            0 => usize::from(is_single),
            flag => 1 << flag,
        };
        let mut rest = rest.get(window + size..)?;
        let mut blocks = Vec::new();
        loop {
            let (head, behind) = rest.split_first_chunk::<3>()?;
            let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
            let (is_last, kind, size) = (head & 1 != 0, head >> 1 & 3, head >> 3);
            let (block, behind) = behind.split_at_checked(size as usize)?;
            if kind != 0 || blocks.len() == MAX_BLOCKS {
                return None;
            }
            blocks.push(block);
            if is_last {
                return behind.is_empty().then_some(Self(blocks));
            }
            rest = behind;
        }
    }

    fn length(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    fn name(&self) -> Name {
        let mut hasher = blake3::Hasher::new();
        for piece in &self.0 {
            hasher.update(piece);
        }
        Name(*hasher.finalize().as_bytes())
    }

    /// Returns all bytes in one piece.
    pub(super) fn whole(&self) -> Cow<'a, [u8]> {
        match *self.0 {
            [whole] => whole.into(),
            _ => self.0.concat().into(),
        }
    }

    /// Returns a range of the bytes, in pieces.
    pub(super) fn part(&self, range: Range<usize>) -> Vec<&'a [u8]> {
        let mut start = 0;
        let mut found = Vec::with_capacity(self.0.len());
        for piece in &self.0 {
            let inside = range.start.max(start)..range.end.min(start + piece.len());
            if !inside.is_empty() {
                found.push(&piece[inside.start - start..inside.end - start]);
            }
            start += piece.len();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns incompressible bytes.
    fn random(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(b"random").finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_stored_is_not_decompressed() {
        for length in [0, 1, 200, 256, 300, 70_000, 128 << 10, (1 << 20) + 5] {
            let bytes = random(length);
            for level in [-3, 1] {
                let frame = zstd::bulk::compress(&bytes, level).unwrap();
                let plain = Plain::stored(&frame).unwrap();
                assert_eq!((plain.length(), &*plain.whole()), (length, &*bytes));
                assert_eq!(plain.name(), Name::of(&bytes));
                for end in [0, 1, 4096, 130 << 10, length] {
                    let range = end / 3..end.min(length).max(end / 3);
                    let expected = bytes.get(range.clone()).unwrap_or_default();
                    assert_eq!(plain.part(range).concat(), expected);
                }
                assert!(Plain::stored(&frame[..frame.len() - 1]).is_none());
                assert!(Plain::stored(&[&*frame, b"x"].concat()).is_none());
            }
        }
        assert!(Plain::stored(&zstd::bulk::compress(&[0; 5000], -3).unwrap()).is_none());
        let empty = zstd::bulk::compress(&[], -3).unwrap();
        let (head, block) = empty.split_at(empty.len() - 3);
        let many = |count| [head, &[0; 3].repeat(count), block].concat();
        assert!(Plain::stored(&many(20)).is_some());
        assert!(Plain::stored(&many(40)).is_none(), "too many blocks");
    }

    proptest! {
        #[test]
        fn a_frame_that_is_altered_is_read_as_zstd_does_or_not_at_all(
            length in 0usize..2000,
            damage in prop::collection::vec((0usize..2100, any::<u8>()), 0..4),
        ) {
            let mut frame = zstd::bulk::compress(&random(length), -3).unwrap();
            for (at, byte) in damage {
                let at = at.min(at % frame.len().max(1) % 16);
                frame[at] = byte;
            }
            if let Some(plain) = Plain::stored(&frame) {
                // The caller compares the claimed content size.
                if let Ok(bytes) = zstd::bulk::decompress(&frame, 1 << 20) {
                    prop_assert_eq!(&*plain.whole(), &*bytes);
                }
            }
        }
    }
}
