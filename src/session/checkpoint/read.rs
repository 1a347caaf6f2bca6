//! Reads a session. Every byte is taken for hostile: a checksum tells damage, not intent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rayon::prelude::*;

use super::format::{CHUNK, MAGIC, Manifest, NodeEntry, SUM, StateEntry, VERSION};
use crate::api::policy::{Bounds, resolve};
use crate::api::request::{ImageChoice, Limits, Mount, Request};
use crate::image::Image;
use crate::instance::Kept;
use crate::limits::MAX_CHECKPOINT_MANIFEST;
use crate::memory::{HOST_PAGE, Imported, MemoryError, PageStore, Pages};
use crate::module::PAGE;
use crate::session::SessionError;
use crate::session::error::FileAction;
use crate::session::history::History;
use crate::session::options::{FixedSettings, SessionTools};
use crate::session::past::Past;
use crate::session::state::State;
use crate::session::storage::Storage;
use crate::workspace::{Contents, Node, Spool, StoredFile};

// Bounds on what a file can make us do.
const MAX_NODES: usize = 500_000;
const MAX_DESCRIPTORS: usize = 256;
/// Numbers that are in use beside those of open files: streams, own directories, and each mount.
const GIVEN_DESCRIPTORS: usize = 16;
const MAX_PATH: usize = 4096;
/// A guest makes no deeper trees than 64 names, but its host may.
const MAX_DEPTH: usize = 256;
/// Chunks that are taken apart at the same time.
const BATCH: usize = 16;

/// A checkpoint whose manifest has been read.
pub(super) struct Opened<R> {
    from: R,
    manifest: Manifest,
    pub image: ImageChoice,
}

/// Why a checkpoint cannot be used.
enum Problem {
    NotCheckpoint,
    OtherVersion,
    Format(&'static str),
    Io(io::Error),
    Memory(MemoryError),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Format("it ends too early"),
            _ => Self::Io(error),
        }
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl Problem {
    fn at(self, path: &Path) -> crate::error::Error {
        let path = path.to_owned();
        match self {
            Self::NotCheckpoint => SessionError::NotCheckpoint { path }.into(),
            Self::OtherVersion => SessionError::OtherVersion { path }.into(),
            Self::Format(reason) => SessionError::Format { path, reason }.into(),
            Self::Io(source) => SessionError::Io {
                action: FileAction::Read,
                path,
                source,
            }
            .into(),
            Self::Memory(error) => error.into(),
        }
    }
}

impl<R: Read + Seek> Opened<R> {
    /// Reads the manifest of a file that is whole.
    pub(super) fn open(mut from: R, path: &Path) -> Result<Self, crate::error::Error> {
        check_sum(&mut from).and_then(|()| Self::manifest(from)).map_err(|problem| problem.at(path))
    }

    fn manifest(mut from: R) -> Result<Self, Problem> {
        let mut head = [0; 20];
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
        Ok(Self {
            image: ImageChoice::Named(manifest.image.name.clone()),
            from,
            manifest,
        })
    }

    /// Reads everything else, for a runtime that allows at most `ceilings`, and `most` bytes of
    /// memory and files.
    pub(super) fn read(
        mut self,
        image: &Image,
        mounts: Vec<Mount>,
        storage: &Storage,
        (ceilings, max): (&Bounds, u64),
        path: &Path,
    ) -> Result<super::Read, crate::error::Error> {
        if self.manifest.image.memory != image.identity {
            return Err(SessionError::Image {
                path: path.to_owned(),
                image: self.manifest.image.name,
            }
            .into());
        }
        let (fixed, bounds) = fixed(&self.manifest, mounts, ceilings, path)?;
        let room = Room {
            image: image.memory.len() as u64,
            bounds,
            mounts: fixed.mounts.len(),
            max,
        };
        let (execution, fuel) = (self.manifest.execution, self.manifest.fuel);
        let pending = self.manifest.waiting.take().map(|entry| {
            entry.read().ok_or(Problem::Format("the run that waits is not written as one"))
        });
        let pending = pending.transpose().map_err(|problem| problem.at(path))?;
        let history = History::new(fixed.history);
        let past = self.states(&room, storage, history).map_err(|problem| problem.at(path))?;
        Ok(super::Read {
            fixed,
            past,
            execution,
            fuel,
            pending,
        })
    }

    fn states(self, room: &Room, storage: &Storage, mut history: History) -> Result<Past, Problem> {
        let Self { from, manifest, .. } = self;
        room.check(&manifest)?;
        let pages = u64::from(manifest.pages) * HOST_PAGE as u64;
        let mut body = Body::new(from, pages + manifest.files.iter().sum::<u64>());
        let imported = storage.pages.import(manifest.pages, |piece| body.fill(piece))?;
        let mut files = Vec::new();
        for size in &manifest.files {
            let mut reader = BodyReader(&mut body, None);
            let stored = storage.spool.store(&mut reader, *size, SystemTime::UNIX_EPOCH);
            match (reader.1.take(), stored) {
                (Some(problem), _) => return Err(problem),
                (None, stored) => files.push(stored?),
            }
        }
        let states = manifest.states.into_iter();
        let mut nameless = HashMap::new();
        let states: Vec<Arc<State>> = states
            .map(|entry| state(entry, &imported, (&files, &mut nameless), room).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let find = |number: usize| {
            states.get(number).cloned().ok_or(Problem::Format("it names a state that is not there"))
        };
        let mut last = 0;
        for (record, number) in manifest.history {
            if record.execution <= last || record.execution > manifest.execution {
                return Err(Problem::Format("its history is not in order"));
            }
            last = record.execution;
            history.push(record, find(number)?);
        }
        Ok(Past {
            origin: find(manifest.origin)?,
            state: find(manifest.current)?,
            history,
        })
    }
}

/// How large what is in a checkpoint may be.
struct Room {
    /// Bytes of the image's memory.
    image: u64,
    bounds: Bounds,
    /// Directories of the host that are seen.
    mounts: usize,
    /// Bytes of everything together.
    max: u64,
}

impl Room {
    fn check(&self, manifest: &Manifest) -> Result<(), Problem> {
        if !manifest.is_in_bounds() {
            return Err(Problem::Format("its history is too long"));
        }
        let each = self.image.saturating_add(self.bounds.memory);
        let kept = manifest.history_bounds.bytes;
        let pages = u64::from(manifest.pages) * HOST_PAGE as u64;
        // The first state, the latest, and what the history may hold besides.
        if pages > each.saturating_mul(3).saturating_add(kept) {
            return Err(Problem::Format("it holds more memory than its limits allow"));
        }
        let placed = manifest.states.iter().map(|state| state.placed.0).max().unwrap_or(0);
        let files = manifest.files.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        let max = self.bounds.workspace.saturating_add(placed).saturating_mul(3);
        if files.is_none_or(|bytes| bytes > max.saturating_add(kept)) {
            return Err(Problem::Format("it holds more files than its limits allow"));
        }
        let all = files.map(|bytes| bytes.saturating_add(pages));
        if all.is_none_or(|bytes| bytes > self.max) {
            return Err(Problem::Format("it holds more than this runtime restores"));
        }
        Ok(())
    }
}

/// Fixed settings of the session, if this runtime allows them.
fn fixed(
    manifest: &Manifest,
    mounts: Vec<Mount>,
    ceilings: &Bounds,
    path: &Path,
) -> Result<(FixedSettings, Bounds), crate::error::Error> {
    let asked = &manifest.bounds;
    let given = |guest: &String| mounts.iter().any(|mount| mount.guest == *guest);
    if !manifest.mounts.iter().all(given) || mounts.len() != manifest.mounts.len() {
        return Err(SessionError::Mounts {
            path: path.to_owned(),
            expected: manifest.mounts.clone(),
        }
        .into());
    }
    let places = manifest.places.clone();
    let request = Request {
        mounts,
        aliases: places.aliases.clone(),
        cwd: places.cwd.clone(),
        limits: Limits {
            timeout: Some(asked.timeout),
            memory: Some(asked.memory),
            fuel: asked.fuel,
            output: Some(asked.output),
            workspace: Some(asked.workspace),
            files: Some(asked.files),
        },
        ..Request::default()
    };
    let plan = resolve(request, &Bounds::default(), ceilings)?;
    let fixed = FixedSettings {
        mounts: plan.request.mounts,
        places,
        bounds: plan.bounds,
        policy: manifest.policy.clone(),
        deterministic: manifest.deterministic.clone(),
        limits: manifest.limits,
        history: manifest.history_bounds.within(ceilings),
        tools: SessionTools::default(),
    };
    Ok((fixed, plan.bounds))
}

fn state(
    entry: StateEntry,
    imported: &Imported,
    (files, nameless): (&[StoredFile], &mut HashMap<usize, Arc<[u8]>>),
    room: &Room,
) -> Result<State, Problem> {
    let StateEntry {
        memory,
        stack_pointer,
        lived,
        random_blocks,
        placed,
        stretches,
        descriptors,
        contents,
    } = entry;
    let max = room.image.saturating_add(room.bounds.memory).min(1 << 32);
    if memory < room.image || memory > max || memory % PAGE as u64 != 0 {
        return Err(Problem::Format("a state has more or less memory than it may"));
    }
    let pages = Pages::from_imported(imported, stretches)
        .filter(|pages| (pages.end() * HOST_PAGE) as u64 <= memory)
        .ok_or(Problem::Format("a state's pages are not where they may be"))?;
    let mut numbers = HashSet::new();
    let bad_descriptor = Problem::Format("a state has an open file that cannot be");
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(bad_descriptor);
    }
    // The lowest number that is free is given: no guest gets beyond what it may have open.
    let max_number = MAX_DESCRIPTORS + GIVEN_DESCRIPTORS + room.mounts;
    let mut open = Vec::new();
    for (mut descriptor, content) in descriptors {
        let number = descriptor.number;
        let is_sound = usize::try_from(number).is_ok_and(|number| number < max_number)
            && numbers.insert(number)
            && descriptor.path.starts_with('/')
            && descriptor.path.len() <= MAX_PATH
            && i64::try_from(descriptor.position).is_ok();
        if !is_sound {
            return Err(bad_descriptor);
        }
        if let Some(index) = content {
            let bytes = if let Some(bytes) = nameless.get(&index) {
                Arc::clone(bytes)
            } else {
                let mut bytes = Vec::new();
                files.get(index).ok_or(bad_file())?.write_to(&mut bytes)?;
                Arc::clone(nameless.entry(index).or_insert(bytes.into()))
            };
            descriptor.nameless = Some(bytes);
        }
        open.push(descriptor);
    }
    open.sort_by_key(|descriptor| descriptor.number);
    let contents = tree(contents, files)?;
    // What was placed widens the bounds: never by more than what is there, each file taken once.
    let (bytes, nodes) = contents.size();
    Ok(State {
        kept: Kept {
            pages: Arc::new(pages),
            memory: memory as usize,
            stack_pointer,
            descriptors: open,
            lived,
            random_blocks,
        },
        contents: Arc::new(contents),
        placed: (placed.0.min(bytes), placed.1.min(nodes)),
    })
}

fn bad_file() -> Problem {
    Problem::Format("it names a file that is not there")
}

/// The directories of a state: every path inside them, and every parent there.
fn tree(contents: Vec<(String, NodeEntry)>, files: &[StoredFile]) -> Result<Contents, Problem> {
    if contents.len() > MAX_NODES {
        return Err(Problem::Format("a state has too many files"));
    }
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for (path, entry) in contents {
        let node = match entry {
            NodeEntry::Directory => Node::Directory,
            NodeEntry::Link(target) if target.len() <= MAX_PATH && !target.contains('\0') => {
                Node::Link(target)
            }
            NodeEntry::Link(_) => return Err(Problem::Format("a state has a link that cannot be")),
            NodeEntry::File { file, modified } => {
                let stored = files.get(file).ok_or(bad_file())?;
                let modified = SystemTime::UNIX_EPOCH
                    .checked_add(modified)
                    .ok_or(Problem::Format("a file's time is out of range"))?;
                let mut stored = stored.clone();
                stored.modified = modified;
                Node::File(stored)
            }
        };
        nodes.insert(path, node);
    }
    let depth = 1..=MAX_DEPTH;
    for path in nodes.keys() {
        let mut parts = path.split('/');
        let inside = matches!(parts.next(), Some("workspace" | "tmp"));
        let separates = |c: char| c == '\0' || std::path::is_separator(c);
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(separates);
        let is_sound = inside
            && path.len() <= MAX_PATH
            && depth.contains(&parts.clone().count())
            && parts.all(plain);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent = matches!(parent, "workspace" | "tmp")
            || matches!(nodes.get(parent), Some(Node::Directory));
        if !is_sound || !has_parent {
            return Err(Problem::Format("a state has a file outside of its directories"));
        }
    }
    Ok(Contents(nodes))
}

/// Checks the magic, the version and the sum, and goes back to the start.
fn check_sum(from: &mut (impl Read + Seek)) -> Result<(), Problem> {
    let mut head = Vec::with_capacity(12);
    from.by_ref().take(12).read_to_end(&mut head)?;
    if !head.starts_with(&MAGIC[..head.len().min(MAGIC.len())]) {
        return Err(Problem::NotCheckpoint);
    }
    if head.len() < 12 {
        return Err(Problem::Format("it ends too early"));
    }
    if head[8..] != VERSION.to_le_bytes() {
        return Err(Problem::OtherVersion);
    }
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

/// The entry for fuzzing: everything that can be read without an image.
pub(super) fn parse(bytes: &[u8], is_summed: bool) -> Option<()> {
    let mut from = io::Cursor::new(bytes);
    if is_summed {
        check_sum(&mut from).ok()?;
    }
    let opened = Opened::manifest(from).ok()?;
    let (fixed, bounds) =
        fixed(&opened.manifest, Vec::new(), &Bounds::CEILINGS, Path::new("(bytes)")).ok()?;
    let room = Room {
        image: 0,
        bounds,
        mounts: 0,
        max: u64::MAX,
    };
    // Larger ones are as good, and slow.
    let files = opened.manifest.files.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
    if opened.manifest.pages > 4096 || files > 16 << 20 {
        return None;
    }
    let storage = Storage {
        pages: PageStore::new().ok()?,
        spool: Spool::create(&std::env::temp_dir()).ok()?,
    };
    opened.states(&room, &storage, History::new(fixed.history)).ok().map(|_| ())
}
