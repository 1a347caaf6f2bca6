//! Writes a session down.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rayon::prelude::*;

use super::format::{CHUNK, ImageReference, MAGIC, Manifest, NodeEntry, StateEntry, VERSION};
use crate::image::Image;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::memory::HOST_PAGE;
use crate::session::context::Context;
use crate::session::options::FixedSettings;
use crate::session::past::Past;
use crate::session::pending::{Pending, PendingEntry};
use crate::session::state::State;
use crate::workspace::{Node, StoredFile};

/// Fast, and good enough for what memory is full of: pointers and zeros.
const LEVEL: i32 = -3;
/// Chunks that are compressed at the same time.
const BATCH: usize = 16;

/// A session as it is at one time, whatever becomes of it.
pub(in crate::session) struct Frozen {
    pub(super) image: Arc<Image>,
    pub(super) fixed: FixedSettings,
    pub(super) past: Past,
    pub(super) execution: u64,
    pub(super) fuel: u64,
    /// The run that waits for answers.
    pub(super) pending: Option<Pending>,
}

impl Frozen {
    /// A session after run `execution`, which has used so much `fuel`.
    pub(in crate::session) fn of(context: &Context, past: Past, execution: u64, fuel: u64) -> Self {
        Self {
            image: Arc::clone(&context.image),
            fixed: context.fixed.clone(),
            past,
            execution,
            fuel,
            pending: None,
        }
    }

    /// With a run that waits for answers.
    pub(in crate::session) fn waiting(mut self, pending: Option<Pending>) -> Self {
        self.pending = pending;
        self
    }

    /// Writes it all.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut body = Body::default();
        let manifest = self.manifest(&mut body);
        let fits = manifest.is_in_bounds();
        let manifest = serde_json::to_vec(&manifest)?;
        // What could not be read again is not written.
        if !fits || manifest.len() > MAX_CHECKPOINT_MANIFEST as usize {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it has too many files or too long a history for one checkpoint",
            ));
        }
        let compressed = zstd::bulk::compress(&manifest, LEVEL)?;
        let mut to = Summed {
            to,
            sum: blake3::Hasher::new(),
        };
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&length(&manifest)?.to_le_bytes())?;
        to.write_all(&length(&compressed)?.to_le_bytes())?;
        to.write_all(&compressed)?;
        let mut chunks = Chunks::new(&mut to);
        body.write(&mut chunks)?;
        chunks.compress()?;
        let Summed { to, sum } = to;
        to.write_all(sum.finalize().as_bytes())
    }

    fn manifest<'a>(&'a self, body: &mut Body<'a>) -> Manifest {
        let Past {
            origin,
            state,
            history,
        } = &self.past;
        let mut states: Vec<&Arc<State>> = Vec::new();
        let mut number = |state: &'a Arc<State>| {
            states.iter().position(|known| Arc::ptr_eq(known, state)).unwrap_or_else(|| {
                states.push(state);
                states.len() - 1
            })
        };
        let (current, origin) = (number(state), number(origin));
        let history = history.entries().map(|e| (e.record.clone(), number(&e.state))).collect();
        let states = states.into_iter().map(|state| body.state(state)).collect();
        let fixed = &self.fixed;
        Manifest {
            written_by: format!("belljar {}", env!("CARGO_PKG_VERSION")),
            image: ImageReference {
                name: self.image.manifest.name.clone(),
                memory: self.image.identity.clone(),
            },
            mounts: fixed.mounts.iter().map(|mount| mount.guest.clone()).collect(),
            places: fixed.places.clone(),
            bounds: fixed.bounds,
            policy: fixed.policy.clone(),
            deterministic: fixed.deterministic.clone(),
            limits: fixed.limits,
            history_bounds: fixed.history,
            execution: self.execution,
            fuel: self.fuel,
            pages: body.pages,
            files: body.files.iter().map(Content::size).collect(),
            states,
            origin,
            current,
            history,
            waiting: self.pending.as_ref().map(PendingEntry::of),
        }
    }
}

/// Body of a checkpoint: each thing once, whatever number of states share it.
#[derive(Default)]
struct Body<'a> {
    pages: u32,
    /// Where pages are kept, and their number in the body.
    numbers: HashMap<u64, u32>,
    stretches: Vec<crate::memory::Stretch<'a>>,
    files: Vec<Content<'a>>,
    file_numbers: HashMap<usize, usize>,
}

enum Content<'a> {
    Stored(&'a StoredFile),
    Bytes(&'a [u8]),
}

impl Content<'_> {
    fn size(&self) -> u64 {
        match self {
            Self::Stored(file) => file.size,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl<'a> Body<'a> {
    fn state(&mut self, state: &'a State) -> StateEntry {
        let kept = &state.kept;
        let mut stretches: Vec<(u32, u32, u32)> = Vec::new();
        for stretch in kept.pages.stretches() {
            let new = self.pages;
            for index in 0..stretch.count {
                let next = self.pages;
                let number = *self.numbers.entry(stretch.kept_at() + index as u64).or_insert(next);
                self.pages += u32::from(number == next);
                let page = (stretch.page + index) as u32;
                match stretches.last_mut() {
                    Some((first, count, at))
                        if *first + *count == page && *at + *count == number =>
                    {
                        *count += 1;
                    }
                    _ => stretches.push((page, 1, number)),
                }
                if number == next {
                    match self.stretches.last_mut() {
                        Some(last)
                            if index > 0 && number > new && last.continues(&stretch, index) =>
                        {
                            last.count += 1;
                        }
                        _ => self.stretches.push(stretch.part(index, 1)),
                    }
                }
            }
        }
        let descriptors = kept.descriptors.iter().map(|descriptor| {
            let file = descriptor
                .nameless
                .as_ref()
                .map(|bytes| self.number(Arc::as_ptr(bytes).addr(), Content::Bytes(bytes)));
            (descriptor.clone(), file)
        });
        let descriptors = descriptors.collect();
        let contents = state.contents.0.iter().map(|(path, node)| {
            let node = match node {
                Node::Directory => NodeEntry::Directory,
                Node::Link(target) => NodeEntry::Link(target.clone()),
                Node::File(stored) => NodeEntry::File {
                    file: self.file(stored),
                    modified: stored
                        .modified
                        .duration_since(SystemTime::UNIX_EPOCH)
                        .unwrap_or(Duration::ZERO),
                },
            };
            (path.clone(), node)
        });
        let contents = contents.collect();
        StateEntry {
            memory: kept.memory as u64,
            stack_pointer: kept.stack_pointer,
            lived: kept.lived,
            random_blocks: kept.random_blocks,
            placed: state.placed,
            stretches,
            descriptors,
            contents,
        }
    }

    fn file(&mut self, stored: &'a StoredFile) -> usize {
        self.number(stored.address(), Content::Stored(stored))
    }

    /// The number of what is kept at `address`.
    fn number(&mut self, address: usize, content: Content<'a>) -> usize {
        *self.file_numbers.entry(address).or_insert_with(|| {
            self.files.push(content);
            self.files.len() - 1
        })
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        const STEP: usize = 256;
        let mut buffer = vec![0; STEP * HOST_PAGE];
        for stretch in &self.stretches {
            let mut at = 0;
            while at < stretch.count {
                let count = STEP.min(stretch.count - at);
                let piece = &mut buffer[..count * HOST_PAGE];
                stretch.part(at, count).read(piece).map_err(io::Error::other)?;
                to.write_all(piece)?;
                at += count;
            }
        }
        for file in &self.files {
            match file {
                Content::Stored(stored) => stored.write_to(to)?,
                Content::Bytes(bytes) => to.write_all(bytes)?,
            }
        }
        Ok(())
    }
}

/// Adds up what goes through it.
struct Summed<'a, W> {
    to: &'a mut W,
    sum: blake3::Hasher,
}

impl<W: Write> Write for Summed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Cuts what goes through it into chunks, and compresses some of them at a time.
struct Chunks<'a, W> {
    to: &'a mut W,
    /// The chunks of one batch; their memory is used again for the next.
    batch: Vec<Chunk>,
    /// How many of them have something in them; all of these are full but the last.
    used: usize,
}

struct Chunk {
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

impl Chunk {
    fn new() -> Self {
        Self {
            plain: Vec::with_capacity(CHUNK),
            compressed: Vec::with_capacity(zstd::zstd_safe::compress_bound(CHUNK)),
        }
    }
}

impl<'a, W: Write> Chunks<'a, W> {
    fn new(to: &'a mut W) -> Self {
        Self {
            to,
            batch: Vec::new(),
            used: 0,
        }
    }

    /// Compresses the chunks that have something in them, and passes them on.
    fn compress(&mut self) -> io::Result<()> {
        let used = &mut self.batch[..std::mem::take(&mut self.used)];
        used.par_iter_mut().try_for_each_init(
            || zstd::bulk::Compressor::new(LEVEL),
            |compressor, chunk| {
                let compressor =
                    compressor.as_mut().map_err(|e| io::Error::new(e.kind(), e.to_string()))?;
                chunk.compressed.clear();
                compressor.compress_to_buffer(&chunk.plain, &mut chunk.compressed)?;
                chunk.plain.clear();
                io::Result::Ok(())
            },
        )?;
        for Chunk { compressed, .. } in used {
            let length = u32::try_from(compressed.len()).map_err(io::Error::other)?;
            self.to.write_all(&length.to_le_bytes())?;
            self.to.write_all(compressed)?;
        }
        Ok(())
    }
}

impl<W: Write> Write for Chunks<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.used == 0 || self.batch[self.used - 1].plain.len() == CHUNK {
            if self.used == BATCH {
                self.compress()?;
            }
            if self.batch.len() == self.used {
                self.batch.push(Chunk::new());
            }
            self.used += 1;
        }
        let Chunk { plain, .. } = &mut self.batch[self.used - 1];
        let fitting = &bytes[..bytes.len().min(CHUNK - plain.len())];
        plain.extend_from_slice(fitting);
        Ok(fitting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
