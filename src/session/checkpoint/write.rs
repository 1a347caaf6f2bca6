//! Writes a session down.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::format::{
    CHUNK, ImageReference, MAGIC, Manifest, MountPoint, NodeEntry, RunBounds, StateEntry, VERSION,
};
use crate::image::Image;
use crate::memory::HOST_PAGE;
use crate::session::Inner;
use crate::session::core::{Core, Past};
use crate::session::options::Ground;
use crate::session::state::State;
use crate::workspace::{Node, StoredFile};

/// Fast, and good enough for what memory is full of: pointers and zeros.
const LEVEL: i32 = 1;
/// Chunks that are compressed at the same time.
const BATCH: usize = 8;

/// A session as it is at one time, whatever becomes of it.
pub(super) struct Frozen {
    image: Arc<Image>,
    ground: Ground,
    past: Past,
    execution: u64,
    fuel: u64,
}

impl Frozen {
    /// `None` for a session that is on the disk.
    pub(super) fn of(inner: &Inner, core: &Core) -> Option<Self> {
        Some(Self {
            image: Arc::clone(&inner.image),
            ground: inner.ground.clone(),
            past: core.past_in_memory()?.clone(),
            execution: core.execution,
            fuel: core.fuel,
        })
    }

    /// Writes it all.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut body = Body::default();
        let manifest = serde_json::to_vec(&self.manifest(&mut body))?;
        let compressed = zstd::bulk::compress(&manifest, LEVEL)?;
        let mut to = Summed {
            to,
            sum: Sha256::new(),
        };
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&length(&manifest)?.to_le_bytes())?;
        to.write_all(&length(&compressed)?.to_le_bytes())?;
        to.write_all(&compressed)?;
        let mut chunks = Chunks {
            to: &mut to,
            waiting: vec![Vec::with_capacity(CHUNK)],
        };
        body.write(&mut chunks)?;
        chunks.finish()?;
        let Summed { to, sum } = to;
        to.write_all(&sum.finalize())
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
        let ground = &self.ground;
        let bounds = ground.bounds;
        Manifest {
            written_by: format!("belljar {}", env!("CARGO_PKG_VERSION")),
            image: ImageReference {
                name: self.image.manifest.name.clone(),
                memory: self.image.identity.clone(),
            },
            mounts: ground
                .mounts
                .iter()
                .map(|mount| MountPoint {
                    host: mount.host.clone(),
                    guest: mount.guest.clone(),
                })
                .collect(),
            bounds: RunBounds {
                timeout: bounds.timeout,
                memory: bounds.memory,
                fuel: bounds.fuel,
                output: bounds.output,
                workspace: bounds.workspace,
                files: bounds.files,
            },
            policy: ground.policy.clone(),
            deterministic: ground.deterministic.clone(),
            limits: ground.limits,
            history_bounds: ground.history,
            execution: self.execution,
            fuel: self.fuel,
            pages: body.pages,
            files: body.files.iter().map(Content::size).collect(),
            states,
            origin,
            current,
            history,
        }
    }
}

/// What the body holds, each thing once, whatever number of states share it.
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
                    Some((first, count, at)) if *first + *count == page && *at + *count == number => {
                        *count += 1;
                    }
                    _ => stretches.push((page, 1, number)),
                }
                if number == next {
                    match self.stretches.last_mut() {
                        Some(last) if index > 0 && number > new && last.continues(&stretch, index) => {
                            last.count += 1;
                        }
                        _ => self.stretches.push(stretch.part(index, 1)),
                    }
                }
            }
        }
        let descriptors = kept.descriptors.iter().map(|descriptor| {
            let file = descriptor.nameless.as_ref().map(|bytes| {
                self.files.push(Content::Bytes(bytes));
                self.files.len() - 1
            });
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
        *self.file_numbers.entry(stored.place()).or_insert_with(|| {
            self.files.push(Content::Stored(stored));
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
    sum: Sha256,
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
    /// All full but the last.
    waiting: Vec<Vec<u8>>,
}

impl<W: Write> Chunks<'_, W> {
    fn finish(mut self) -> io::Result<()> {
        if self.waiting.last().is_some_and(Vec::is_empty) {
            self.waiting.pop();
        }
        self.compress()
    }

    fn compress(&mut self) -> io::Result<()> {
        let compress = |chunk: &Vec<u8>| zstd::bulk::compress(chunk, LEVEL);
        let (first, second) = self.waiting.split_at(self.waiting.len() / 2);
        let (first, second) = std::thread::scope(|scope| {
            let other = scope.spawn(|| first.iter().map(compress).collect::<Vec<_>>());
            let second: Vec<_> = second.iter().map(compress).collect();
            (other.join(), second)
        });
        let first = first.map_err(|_| io::Error::other("a thread that compresses has failed"))?;
        for compressed in first.into_iter().chain(second) {
            let compressed = compressed?;
            let length = u32::try_from(compressed.len()).map_err(io::Error::other)?;
            self.to.write_all(&length.to_le_bytes())?;
            self.to.write_all(&compressed)?;
        }
        self.waiting.clear();
        Ok(())
    }
}

impl<W: Write> Write for Chunks<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.waiting.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            if self.waiting.len() >= BATCH {
                self.compress()?;
            }
            self.waiting.push(Vec::with_capacity(CHUNK));
        }
        let chunk = self.waiting.last_mut().expect("one has just been added");
        let fitting = &bytes[..bytes.len().min(CHUNK - chunk.len())];
        chunk.extend_from_slice(fitting);
        Ok(fitting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
