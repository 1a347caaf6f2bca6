//! Writes a session as one file that contains its chunks.

use std::io::{self, Write};

use rayon::prelude::*;

use super::chunk_index::ChunkIndex;
use super::chunk_reader::Opener;
use super::chunker::Content;
use super::contents::Frozen;
use super::format::{HEAD, MAGIC, Manifest, Name, SUM, VERSION};
use super::lazy::Reused;
use super::manifest_writer::{Layout, too_large};
use super::problem::Problem;
use super::trim::Caps;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::util::parallel::on_all_cores;

/// A fast compression level that suffices for typical memory: pointers and zeros.
const LEVEL: i32 = -3;
/// Number of chunks compressed concurrently.
const BATCH: usize = 16;

impl Frozen {
    /// Writes the session. Chunks in `reused` are copied unchanged. Returns the offset of the
    /// chunks and their index.
    pub(super) fn write(
        &self,
        to: &mut impl Write,
        reused: Option<&Reused>,
    ) -> io::Result<(u64, ChunkIndex)> {
        self.write_within(&Caps::FORMAT, to, reused)
    }

    /// Writes the session within given limits instead of those of the format.
    pub(super) fn write_within(
        &self,
        caps: &Caps,
        to: &mut impl Write,
        reused: Option<&Reused>,
    ) -> io::Result<(u64, ChunkIndex)> {
        let index = reused.map(|reused| reused.index.clone()).unwrap_or_default();
        let layout = Layout::within(caps, self, index)?;
        let head = head(&layout.manifest)?;
        to.write_all(&head)?;
        let mut compressed: Vec<Vec<u8>> = Vec::new();
        for batch in layout.chunks.chunks(BATCH) {
            compressed.resize_with(batch.len(), Vec::new);
            on_all_cores(|| {
                batch.par_iter().zip(&mut compressed).try_for_each_init(
                    || (Vec::new(), Opener::new()),
                    |(plain, opener), (content, compressed)| match (content, reused) {
                        (Content::Known(name), Some(reused)) => {
                            reused.fetch(*name, opener, compressed)
                        }
                        _ => compress(content, plain, compressed),
                    },
                )
            })?;
            for chunk in &compressed {
                to.write_all(&length(chunk)?.to_le_bytes())?;
                to.write_all(chunk)?;
            }
        }
        Ok((head.len() as u64, layout.index))
    }
}

impl Reused {
    /// Reads the compressed form of a chunk.
    fn fetch(&self, name: Name, opener: &mut Opener, buffer: &mut Vec<u8>) -> io::Result<()> {
        let fetched = self.listing.number(name).and_then(|number| {
            let number = number as usize;
            let (chunks, listed) = self.listing.source();
            if self.is_own {
                chunks.fetch(number, name, buffer)
            } else {
                opener.copy(chunks, number, listed[number], buffer)
            }
        });
        fetched.map_err(|problem| match problem {
            Problem::Io(error) => error,
            _ => io::Error::other(format!("the chunk {name} is not where it was written")),
        })
    }
}

/// Returns all bytes before the chunks.
pub(super) fn head(manifest: &Manifest) -> io::Result<Vec<u8>> {
    let plain = serde_json::to_vec(manifest)?;
    if plain.len() > MAX_CHECKPOINT_MANIFEST as usize {
        return Err(too_large());
    }
    let compressed = zstd::bulk::compress(&plain, LEVEL)?;
    let mut head = Vec::with_capacity(HEAD + SUM + compressed.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&length(&plain)?.to_le_bytes());
    head.extend_from_slice(&length(&compressed)?.to_le_bytes());
    let mut sum = blake3::Hasher::new();
    sum.update(&head).update(&compressed);
    head.extend_from_slice(sum.finalize().as_bytes());
    head.extend_from_slice(&compressed);
    Ok(head)
}

/// Compresses a chunk into `compressed`; `plain` is a scratch buffer.
pub(super) fn compress(
    content: &Content<'_>,
    plain: &mut Vec<u8>,
    compressed: &mut Vec<u8>,
) -> io::Result<()> {
    content.read(plain)?;
    compressed.clear();
    compressed.reserve(zstd::zstd_safe::compress_bound(plain.len()));
    zstd::bulk::Compressor::new(LEVEL)?.compress_to_buffer(plain.as_slice(), compressed)?;
    Ok(())
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(io::Error::other)
}
