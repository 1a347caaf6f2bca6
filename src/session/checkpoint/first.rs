//! The first version of the format, which is read and not written any more: one manifest with all
//! states, and behind it one body of pages and files, in compressed chunks without names.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rayon::prelude::*;
use serde::Deserialize;

use super::format::{HEAD, ImageReference, NodeEntry, SUM, Settings};
use super::problem::Problem;
use super::rules::{Room, no_file, past, tree};
use crate::api::policy::Bounds;
use crate::api::request::{Deterministic, Policy};
use crate::instance::{Descriptor, Kept};
use crate::limits::{MAX_CHECKPOINT_FILES, MAX_CHECKPOINT_MANIFEST};
use crate::memory::{HOST_PAGE, Imported, Pages};
use crate::session::earlier::Earlier;
use crate::session::history::{History, HistoryEntry};
use crate::session::options::{HistoryBounds, Places, SessionLimits};
use crate::session::past::Past;
use crate::session::pending::PendingEntry;
use crate::session::state::State;
use crate::session::storage::Storage;
use crate::workspace::StoredFile;

/// Bytes of a chunk before it is compressed.
const CHUNK: usize = 1 << 20;
/// Chunks that are taken apart at the same time.
const BATCH: usize = 16;

/// Everything about a session but the bytes of its pages and files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[expect(dead_code, reason = "for people")]
    written_by: String,
    image: ImageReference,
    mounts: Vec<String>,
    #[serde(default)]
    places: Places,
    bounds: Bounds,
    policy: Policy,
    deterministic: Option<Deterministic>,
    limits: SessionLimits,
    history_bounds: HistoryBounds,
    execution: u64,
    fuel: u64,
    /// How many pages the body begins with.
    pages: u32,
    /// The sizes of the files that follow them.
    files: Vec<u64>,
    states: Vec<StateEntry>,
    origin: usize,
    current: usize,
    history: Vec<(HistoryEntry, usize)>,
    #[serde(default)]
    waiting: Option<PendingEntry>,
}

/// One state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateEntry {
    memory: u64,
    stack_pointer: i32,
    lived: Duration,
    random_blocks: u64,
    placed: (u64, u64),
    /// Stretches of memory: the first page's number, how many, and the number of the first one in
    /// the body.
    stretches: Vec<(u32, u32, u32)>,
    /// Open files, each with the number of the file that holds what is in it when it has no name.
    descriptors: Vec<(Descriptor, Option<usize>)>,
    contents: Vec<(String, NodeEntry)>,
}

/// What is behind the settings of a session.
pub(super) struct First<R> {
    from: BufReader<R>,
    pages: u32,
    files: Vec<u64>,
    states: Vec<StateEntry>,
    origin: usize,
    current: usize,
    history: Vec<(HistoryEntry, usize)>,
}

impl<R: Read + Seek> First<R> {
    /// Reads the manifest of a file that is whole, or of any where that does not matter.
    pub(super) fn open(from: R, is_summed: bool) -> Result<(Settings, Self), Problem> {
        let mut from = BufReader::with_capacity(1 << 20, from);
        if is_summed {
            check_sum(&mut from)?;
        }
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let (length, compressed) = (word(12), word(16));
        if length > MAX_CHECKPOINT_MANIFEST || compressed > MAX_CHECKPOINT_MANIFEST {
            return Err(Problem::Format("its manifest is too long"));
        }
        let bytes = take(&mut from, compressed as usize)?;
        let manifest = zstd::bulk::decompress(&bytes, length as usize)
            .map_err(|_| Problem::Format("its manifest cannot be decompressed"))?;
        let manifest: Manifest = serde_json::from_slice(&manifest)
            .map_err(|_| Problem::Format("its manifest is not valid"))?;
        let settings = Settings {
            image: manifest.image,
            mounts: manifest.mounts,
            places: manifest.places,
            bounds: manifest.bounds,
            policy: manifest.policy,
            deterministic: manifest.deterministic,
            limits: manifest.limits,
            history_bounds: manifest.history_bounds,
            execution: manifest.execution,
            fuel: manifest.fuel,
            waiting: manifest.waiting,
        };
        let first = Self {
            from,
            pages: manifest.pages,
            files: manifest.files,
            states: manifest.states,
            origin: manifest.origin,
            current: manifest.current,
            history: manifest.history,
        };
        Ok((settings, first))
    }

    pub(super) fn read(
        self,
        settings: &Settings,
        room: &Room,
        storage: &Storage,
        history: History,
    ) -> Result<Past, Problem> {
        let is_long = self.files.len() > MAX_CHECKPOINT_FILES;
        if is_long || !settings.is_in_bounds(self.states.len(), self.history.len()) {
            return Err(Problem::Format("its history is too long"));
        }
        let size = self.files.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        let placed = self.states.iter().map(|state| state.placed.0).max().unwrap_or(0);
        room.check(u64::from(self.pages), size, placed)?;
        let mut body =
            Body::new(self.from, u64::from(self.pages) * HOST_PAGE as u64 + size.unwrap_or(0));
        let imported = storage.pages.import(self.pages, |piece| body.fill(piece))?;
        let mut files = Vec::new();
        for size in &self.files {
            let mut reader = BodyReader(&mut body, None);
            let stored = storage.spool.store(&mut reader, *size, SystemTime::UNIX_EPOCH);
            match (reader.1.take(), stored) {
                (Some(problem), _) => return Err(problem),
                (None, stored) => files.push(stored?),
            }
        }
        let states: Vec<Earlier> = self
            .states
            .into_iter()
            .map(|entry| {
                let state = state(entry, &imported, &files, room)?;
                Ok(Arc::new(state).into())
            })
            .collect::<Result<_, Problem>>()?;
        let numbers = (self.origin, self.current);
        past(&states, numbers, self.history, settings.execution, history)
    }
}

fn state(
    entry: StateEntry,
    imported: &Imported,
    files: &[StoredFile],
    room: &Room,
) -> Result<State, Problem> {
    let mut descriptors = Vec::new();
    for (mut descriptor, content) in entry.descriptors {
        if let Some(index) = content {
            descriptor.nameless = Some(files.get(index).ok_or_else(no_file)?.clone());
        }
        descriptors.push(descriptor);
    }
    let kept = Kept {
        pages: Arc::default(),
        memory: entry.memory as usize,
        stack_pointer: entry.stack_pointer,
        descriptors,
        lived: entry.lived,
        random_blocks: entry.random_blocks,
    };
    let contents = Arc::new(tree(entry.contents, files)?);
    room.state(Pages::from_imported(imported, entry.stretches), kept, contents, entry.placed)
}

/// Checks the sum of a file that begins as it should, and goes back to the start.
fn check_sum(from: &mut (impl Read + Seek)) -> Result<(), Problem> {
    let size = from.seek(SeekFrom::End(0))?;
    let summed = size.checked_sub(SUM as u64).ok_or(Problem::Format("it ends too early"))?;
    from.rewind()?;
    let mut sum = blake3::Hasher::new();
    let mut buffer = vec![0; 2 << 20];
    let mut rest = from.by_ref().take(summed);
    loop {
        match rest.read(&mut buffer)? {
            0 => break,
            n => {
                sum.update_rayon(&buffer[..n]);
            }
        }
    }
    let mut expected = [0; SUM];
    from.read_exact(&mut expected)?;
    if *sum.finalize().as_bytes() != expected {
        return Err(Problem::Format("it was cut short or altered: its checksum does not match"));
    }
    from.rewind()?;
    Ok(())
}

/// Reads so many bytes, without trusting the number.
fn take(from: &mut impl Read, length: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(Problem::Format("it ends too early"));
    }
    Ok(bytes)
}

/// Contents of the chunks, one after the other.
struct Body<R> {
    from: R,
    /// Bytes that have yet to be taken from chunks.
    left: u64,
    /// The chunks of one batch; their memory is used again for the next.
    batch: Vec<Chunk>,
    /// How many chunks of it there are, which of them is next, and how much of it was read.
    filled: usize,
    next: usize,
    read: usize,
}

#[derive(Default)]
struct Chunk {
    compressed: Vec<u8>,
    plain: Vec<u8>,
    /// How long it is to become.
    length: usize,
}

impl Chunk {
    /// Whether what comes out is as long as it has to be.
    fn decompress(&mut self, with: &mut zstd::bulk::Decompressor<'_>) -> bool {
        self.plain.clear();
        self.plain.reserve(self.length);
        let opened = with.decompress_to_buffer(&self.compressed, &mut self.plain);
        opened.is_ok() && self.plain.len() == self.length
    }
}

impl<R: Read> Body<R> {
    fn new(from: R, length: u64) -> Self {
        Self {
            from,
            left: length,
            batch: Vec::new(),
            filled: 0,
            next: 0,
            read: 0,
        }
    }

    /// Fills `target` with what comes next.
    fn fill(&mut self, mut target: &mut [u8]) -> Result<(), Problem> {
        while !target.is_empty() {
            if self.next == self.filled {
                self.decompress()?;
            }
            let chunk = self.batch[..self.filled].get(self.next);
            let plain = &chunk.ok_or(Problem::Format("it ends too early"))?.plain;
            let rest = &plain[self.read..];
            let length = rest.len().min(target.len());
            let (now, later) = target.split_at_mut(length);
            now.copy_from_slice(&rest[..length]);
            target = later;
            self.read += length;
            if self.read == plain.len() {
                self.next += 1;
                self.read = 0;
            }
        }
        Ok(())
    }

    fn decompress(&mut self) -> Result<(), Problem> {
        (self.filled, self.next) = (0, 0);
        while self.left > 0 && self.filled < BATCH {
            let length = self.left.min(CHUNK as u64) as usize;
            let mut size = [0; 4];
            self.from.read_exact(&mut size)?;
            let size = u32::from_le_bytes(size);
            if size as usize > 2 * CHUNK {
                return Err(Problem::Format("a part of it is too long"));
            }
            if self.batch.len() == self.filled {
                self.batch.push(Chunk::default());
            }
            let chunk = &mut self.batch[self.filled];
            chunk.length = length;
            chunk.compressed.clear();
            self.from.by_ref().take(u64::from(size)).read_to_end(&mut chunk.compressed)?;
            self.left -= length as u64;
            self.filled += 1;
        }
        let sound = self.batch[..self.filled]
            .par_iter_mut()
            .map_init(zstd::bulk::Decompressor::new, |with, chunk| {
                with.as_mut().is_ok_and(|with| chunk.decompress(with))
            })
            .all(|sound| sound);
        if sound {
            Ok(())
        } else {
            self.filled = 0;
            Err(Problem::Format("a part of it cannot be decompressed"))
        }
    }
}

/// A body as something to read from; what went wrong is kept beside.
struct BodyReader<'a, R>(&'a mut Body<R>, Option<Problem>);

impl<R: Read> Read for BodyReader<'_, R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.0.fill(target) {
            Ok(()) => Ok(target.len()),
            Err(problem) => {
                self.1 = Some(problem);
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }
}
