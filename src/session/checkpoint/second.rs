//! Reads the states of a session whose pages and files are in chunks. Each chunk is fetched once,
//! however often it is named, and what it is needed for is known by then.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use rayon::prelude::*;
use serde::de::DeserializeOwned;

use super::chunks::{Chunks, Opener};
use super::format::{
    ContentsDocument, HEAD, MAX_CHUNK, Manifest, Name, PieceEntry, SUM, Settings, StateDocument,
};
use super::layout::Known;
use super::problem::Problem;
use super::rules::{Room, no_file, past, tree};
use crate::instance::Kept;
use crate::limits::{MAX_CHECKPOINT_FILES, MAX_CHECKPOINT_MANIFEST};
use crate::memory::{HOST_PAGE, Imported, Pages};
use crate::session::history::{History, HistoryEntry};
use crate::session::past::Past;
use crate::session::state::State;
use crate::session::storage::Storage;
use crate::workspace::{Contents, Prepared, StoredFile};

/// Reads the manifest, and returns also where the chunks begin.
pub(super) fn manifest(mut from: impl Read, is_summed: bool) -> Result<(Manifest, u64), Problem> {
    let (mut head, mut sum) = ([0; HEAD], [0; SUM]);
    from.read_exact(&mut head)?;
    from.read_exact(&mut sum)?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
    let (length, compressed) = (word(12), word(16));
    if length > MAX_CHECKPOINT_MANIFEST || compressed > MAX_CHECKPOINT_MANIFEST {
        return Err(Problem::Format("its manifest is too long"));
    }
    let mut bytes = Vec::new();
    from.take(u64::from(compressed)).read_to_end(&mut bytes)?;
    if bytes.len() < compressed as usize {
        return Err(Problem::Format("it ends too early"));
    }
    let mut found = blake3::Hasher::new();
    found.update(&head).update(&bytes);
    if is_summed && *found.finalize().as_bytes() != sum {
        return Err(Problem::Format("it was cut short or altered: its checksum does not match"));
    }
    let manifest = zstd::bulk::decompress(&bytes, length as usize)
        .map_err(|_| Problem::Format("its manifest cannot be decompressed"))?;
    let manifest = serde_json::from_slice(&manifest)
        .map_err(|_| Problem::Format("its manifest is not valid"))?;
    Ok((manifest, (HEAD + SUM) as u64 + u64::from(compressed)))
}

/// What is behind the settings of a session.
pub(super) struct Second {
    /// All chunks, by number.
    listed: Vec<(Name, u32)>,
    chunks: Box<dyn Chunks>,
    states: Vec<Name>,
    origin: usize,
    current: usize,
    history: Vec<(HistoryEntry, usize)>,
}

impl Second {
    /// A session whose manifest was read, and its chunks.
    pub(super) fn of(manifest: Manifest, chunks: Box<dyn Chunks>) -> (Settings, Self) {
        let second = Self {
            listed: manifest.chunks,
            chunks,
            states: manifest.states,
            origin: manifest.origin,
            current: manifest.current,
            history: manifest.history,
        };
        (manifest.session, second)
    }

    /// Reads everything else; refused when there is no `room` for it.
    pub(super) fn read(
        self,
        settings: &Settings,
        room: &Room,
        storage: &Storage,
        history: History,
    ) -> Result<(Past, Known), Problem> {
        if !settings.is_in_bounds(self.states.len(), self.history.len()) {
            return Err(Problem::Format("its history is too long"));
        }
        let mut documents = Documents::of(&self)?;
        let mut wanted = Wanted::default();
        for name in &self.states {
            documents.plan(*name, &mut wanted)?;
        }
        let placed = documents.states.values().map(|state| state.document.placed.0).max();
        room.check(settings, wanted.pages.count(), wanted.files.bytes(), placed.unwrap_or(0))?;
        let fetched = wanted.fetch(&self, storage)?;
        let (read, known) = documents.states(&fetched, room)?;
        let states: Vec<_> = self.states.iter().filter_map(|n| read.get(n).cloned()).collect();
        let numbers = (self.origin, self.current);
        let past = past(&states, numbers, self.history, settings.execution, history)?;
        Ok((past, known))
    }
}

/// The documents of a checkpoint, each read once.
struct Documents<'a> {
    second: &'a Second,
    /// The numbers of all chunks.
    numbers: HashMap<Name, usize>,
    /// Bytes that documents may have yet.
    left: u64,
    opener: Opener,
    states: HashMap<Name, PlannedState>,
    contents: HashMap<Name, PlannedContents>,
}

struct PlannedState {
    document: StateDocument,
    /// The stretches, each with the number of its chunk in the manifest.
    stretches: Vec<(u32, u32, usize, u32)>,
    /// The numbers of the files that have no name.
    nameless: Vec<usize>,
    /// The chunks that it names.
    chunks: Vec<usize>,
}

struct PlannedContents {
    document: ContentsDocument,
    files: Vec<usize>,
    chunks: Vec<usize>,
}

impl<'a> Documents<'a> {
    fn of(second: &'a Second) -> Result<Self, Problem> {
        let chunks = &second.listed;
        let mut numbers = HashMap::with_capacity(chunks.len());
        for (number, (name, _)) in chunks.iter().enumerate() {
            if numbers.insert(*name, number).is_some() {
                return Err(Problem::Format("it lists a chunk twice"));
            }
        }
        Ok(Self {
            second,
            numbers,
            left: u64::from(MAX_CHECKPOINT_MANIFEST),
            opener: Opener::new(),
            states: HashMap::new(),
            contents: HashMap::new(),
        })
    }

    fn number(&self, name: Name) -> Result<usize, Problem> {
        let unlisted = Problem::Format("it names a chunk that it does not list");
        self.numbers.get(&name).copied().ok_or(unlisted)
    }

    fn numbers(&self, names: &[Name]) -> Result<Vec<usize>, Problem> {
        names.iter().map(|name| self.number(*name)).collect()
    }

    fn document<T: DeserializeOwned>(&mut self, name: Name) -> Result<T, Problem> {
        let number = self.number(name)?;
        let chunk = self.second.listed[number];
        let left = self.left.checked_sub(u64::from(chunk.1));
        self.left = left.ok_or(Problem::Format("its documents are too long"))?;
        let bytes = self.opener.open(&*self.second.chunks, number, chunk)?;
        serde_json::from_slice(bytes).map_err(|_| Problem::Format("a document of it is not valid"))
    }

    /// Reads a state, and notes what it needs.
    fn plan(&mut self, name: Name, wanted: &mut Wanted) -> Result<(), Problem> {
        if self.states.contains_key(&name) {
            return Ok(());
        }
        let mut document: StateDocument = self.document(name)?;
        let chunks = self.numbers(&document.chunks)?;
        let mut stretches = Vec::with_capacity(document.stretches.len());
        for (page, count, chunk, first) in std::mem::take(&mut document.stretches) {
            let number = *chunks.get(chunk as usize).ok_or_else(no_chunk)?;
            wanted.pages.add((number, self.second.listed[number].1), first, count)?;
            stretches.push((page, count, number, first));
        }
        let pieces = std::mem::take(&mut document.pieces);
        let nameless = self.files(&document.nameless, &pieces, &chunks, wanted)?;
        if !self.contents.contains_key(&document.contents) {
            let mut contents: ContentsDocument = self.document(document.contents)?;
            let chunks = self.numbers(&contents.chunks)?;
            let pieces = std::mem::take(&mut contents.pieces);
            let files = self.files(&contents.files, &pieces, &chunks, wanted)?;
            let planned = PlannedContents {
                document: contents,
                files,
                chunks,
            };
            self.contents.insert(document.contents, planned);
        }
        let planned = PlannedState {
            document,
            stretches,
            nameless,
            chunks,
        };
        self.states.insert(name, planned);
        Ok(())
    }

    /// Notes the files of one document, and returns their numbers.
    fn files(
        &self,
        counts: &[u32],
        pieces: &[PieceEntry],
        chunks: &[usize],
        wanted: &mut Wanted,
    ) -> Result<Vec<usize>, Problem> {
        // Two files with the same bytes are two all the same.
        let mut same: HashMap<Vec<(usize, u32, u32)>, usize> = HashMap::new();
        let (mut files, mut rest) = (Vec::new(), pieces);
        for count in counts {
            let own = rest.split_off(..*count as usize).ok_or_else(no_file)?;
            let mut found = Vec::with_capacity(own.len());
            for (chunk, at, length) in own {
                let number = *chunks.get(*chunk as usize).ok_or_else(no_chunk)?;
                let end = at.checked_add(*length);
                let there = self.second.listed[number].1.min(MAX_CHUNK);
                if end.is_none_or(|end| end > there) {
                    return Err(Problem::Format("it names bytes that no chunk has"));
                }
                found.push((number, *at, *length));
            }
            let ordinal = same.entry(found.clone()).or_insert(0);
            files.push(wanted.files.add(found, *ordinal)?);
            *ordinal += 1;
        }
        Ok(files)
    }

    /// The states, made of what was fetched.
    fn states(
        self,
        fetched: &Fetched,
        room: &Room,
    ) -> Result<(HashMap<Name, Arc<State>>, Known), Problem> {
        let Fetched {
            imported,
            numbering,
            files,
            pieces,
        } = fetched;
        let mut known = Known::of(self.second.listed.clone());
        for chunk in numbering.chunks.keys().copied() {
            for (first, count, number) in numbering.stretches(chunk) {
                known.add_pages(imported.number(number), count, chunk, first);
            }
        }
        for (file, pieces) in files.iter().zip(pieces) {
            known.add_file(file, pieces);
        }
        let mut contents: HashMap<Name, (Arc<Contents>, Vec<usize>)> = HashMap::new();
        for (name, planned) in self.contents {
            let own: Vec<StoredFile> = planned.files.iter().map(|n| files[*n].clone()).collect();
            let tree = Arc::new(tree(planned.document.nodes, &own)?);
            known.add_contents(&tree, self.numbers[&name], &planned.chunks);
            contents.insert(name, (tree, planned.chunks));
        }
        let mut nameless = HashMap::new();
        let mut states = HashMap::new();
        for (name, mut planned) in self.states {
            let (tree, theirs) = contents.get(&planned.document.contents).ok_or_else(no_chunk)?;
            let mut parts = std::mem::take(&mut planned.chunks);
            parts.extend(theirs.iter().copied().chain([self.numbers[&planned.document.contents]]));
            let state = planned.state(fetched, &mut nameless, Arc::clone(tree), room)?;
            let state = Arc::new(state);
            known.add_state(&state, self.numbers[&name], &parts);
            states.insert(name, state);
        }
        for (number, bytes) in nameless {
            known.add_nameless(&bytes, &pieces[number]);
        }
        Ok((states, known))
    }
}

impl PlannedState {
    fn state(
        self,
        fetched: &Fetched,
        nameless: &mut HashMap<usize, Arc<[u8]>>,
        contents: Arc<Contents>,
        room: &Room,
    ) -> Result<State, Problem> {
        let mut descriptors = Vec::new();
        for (mut descriptor, content) in self.document.descriptors {
            if let Some(index) = content {
                let number = *self.nameless.get(index).ok_or_else(no_file)?;
                let bytes = match nameless.entry(number) {
                    Entry::Occupied(bytes) => Arc::clone(bytes.get()),
                    Entry::Vacant(free) => {
                        let mut bytes = Vec::new();
                        fetched.files[number].write_to(&mut bytes)?;
                        Arc::clone(free.insert(bytes.into()))
                    }
                };
                descriptor.nameless = Some(bytes);
            }
            descriptors.push(descriptor);
        }
        let stretches = self.stretches.iter().map(|(page, count, chunk, first)| {
            (*page, *count, fetched.numbering.number(*chunk, *first))
        });
        let kept = Kept {
            pages: Arc::default(),
            memory: self.document.memory as usize,
            stack_pointer: self.document.stack_pointer,
            descriptors,
            lived: self.document.lived,
            random_blocks: self.document.random_blocks,
        };
        let pages = Pages::from_imported(&fetched.imported, stretches);
        room.state(pages, kept, contents, self.document.placed)
    }
}

/// What is needed of the chunks.
#[derive(Default)]
struct Wanted {
    pages: WantedPages,
    files: WantedFiles,
}

/// Which pages of each chunk are needed, a bit each.
#[derive(Default)]
struct WantedPages(BTreeMap<usize, [u64; MAX_PAGES / 64]>);

/// The most pages of a chunk.
const MAX_PAGES: usize = MAX_CHUNK as usize / HOST_PAGE;

impl WantedPages {
    fn add(
        &mut self,
        (chunk, length): (usize, u32),
        first: u32,
        count: u32,
    ) -> Result<(), Problem> {
        let there = length.min(MAX_CHUNK) / HOST_PAGE as u32;
        let end = first.checked_add(count).filter(|end| *end <= there);
        let end = end.ok_or(Problem::Format("it names pages that no chunk has"))?;
        let bits = self.0.entry(chunk).or_insert([0; MAX_PAGES / 64]);
        let mut page = first;
        while page < end {
            let (word, bit) = (page as usize / 64, page % 64);
            let here = (64 - bit).min(end - page);
            bits[word] |= (u64::MAX >> (64 - here)) << bit;
            page += here;
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.0.values().flatten().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Where the pages of each chunk are among those that come in.
struct Numbering {
    chunks: BTreeMap<usize, (u32, [u64; MAX_PAGES / 64])>,
    count: u32,
}

impl Numbering {
    fn of(wanted: WantedPages) -> Self {
        let mut count = 0;
        let number = |(chunk, bits): (usize, [u64; MAX_PAGES / 64])| {
            let first = count;
            count += bits.iter().map(|word| word.count_ones()).sum::<u32>();
            (chunk, (first, bits))
        };
        let chunks = wanted.0.into_iter().map(number).collect();
        Self { chunks, count }
    }

    /// The number of a page that is wanted; those behind it follow it.
    fn number(&self, chunk: usize, page: u32) -> u32 {
        let Some((first, bits)) = self.chunks.get(&chunk) else {
            return u32::MAX;
        };
        let (word, bit) = (page as usize / 64, page % 64);
        // The last page of a chunk has one behind it in a stretch without pages.
        let Some(own) = bits.get(word) else {
            return u32::MAX;
        };
        let before: u32 = bits[..word].iter().map(|word| word.count_ones()).sum();
        first + before + (own & ((1 << bit) - 1)).count_ones()
    }

    /// The stretches of a chunk that come in: the first page, how many, and the number of the first.
    fn stretches(&self, chunk: usize) -> impl Iterator<Item = (u32, u32, u32)> {
        let (mut number, bits) =
            self.chunks.get(&chunk).copied().unwrap_or((0, [0; MAX_PAGES / 64]));
        let mut page = 0;
        std::iter::from_fn(move || {
            let is_wanted = |page: u32| bits[page as usize / 64] >> (page % 64) & 1 == 1;
            while (page as usize) < MAX_PAGES && !is_wanted(page) {
                page += 1;
            }
            let first = page;
            while (page as usize) < MAX_PAGES && is_wanted(page) {
                page += 1;
            }
            let count = page - first;
            number += count;
            (count > 0).then(|| (first, count, number - count))
        })
    }
}

/// What a file consists of: chunks, where in them it begins, and how many bytes are of it.
type Pieces = Vec<(usize, u32, u32)>;

/// The files that are needed.
#[derive(Default)]
struct WantedFiles {
    sizes: Vec<u64>,
    numbers: HashMap<(Pieces, usize), usize>,
    /// By chunk: the file, where in it, the first byte of the chunk and how many.
    parts: BTreeMap<usize, Vec<(usize, u64, u32, u32)>>,
}

impl WantedFiles {
    /// Adds a file, unless another state has it; `ordinal` tells files of one state apart that have
    /// the same bytes.
    fn add(&mut self, pieces: Pieces, ordinal: usize) -> Result<usize, Problem> {
        let number = self.sizes.len();
        if number >= MAX_CHECKPOINT_FILES {
            return Err(Problem::Format("it holds too many files"));
        }
        let free = match self.numbers.entry((pieces, ordinal)) {
            Entry::Occupied(there) => return Ok(*there.get()),
            Entry::Vacant(free) => free,
        };
        let mut size = 0;
        for (chunk, at, length) in &free.key().0 {
            self.parts.entry(*chunk).or_default().push((number, size, *at, *length));
            size += u64::from(*length);
        }
        self.sizes.push(size);
        free.insert(number);
        Ok(number)
    }

    fn bytes(&self) -> Option<u64> {
        self.sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size))
    }
}

/// What was fetched.
struct Fetched {
    imported: Imported,
    numbering: Numbering,
    files: Vec<StoredFile>,
    /// Of which pieces each of the files consists.
    pieces: Vec<Pieces>,
}

impl Wanted {
    /// Fetches every chunk of which something is needed.
    fn fetch(self, second: &Second, storage: &Storage) -> Result<Fetched, Problem> {
        let Self { pages, files } = self;
        let mut chunks: Vec<usize> = pages.0.keys().chain(files.parts.keys()).copied().collect();
        chunks.sort_unstable();
        chunks.dedup();
        let numbering = Numbering::of(pages);
        let imported = storage.pages.reserve(numbering.count)?;
        let prepared = files.sizes.iter().map(|size| storage.spool.prepare(*size));
        let prepared: Vec<Prepared> = prepared.collect::<Result<_, _>>()?;
        let next = AtomicUsize::new(0);
        // One for each thread and not for each chunk: buffers are dear that nobody has used yet.
        (0..rayon::current_num_threads()).into_par_iter().try_for_each(|_| {
            let mut opener = Opener::new();
            while let Some(&chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let plain = opener.open(&*second.chunks, chunk, second.listed[chunk])?;
                for (first, count, number) in numbering.stretches(chunk) {
                    let (start, length) = (first as usize * HOST_PAGE, count as usize * HOST_PAGE);
                    imported.write(number, &plain[start..start + length])?;
                }
                for (file, to, at, length) in files.parts.get(&chunk).into_iter().flatten() {
                    prepared[*file].write(*to, &plain[*at as usize..][..*length as usize])?;
                }
            }
            Ok::<_, Problem>(())
        })?;
        let mut pieces = vec![Vec::new(); prepared.len()];
        for ((own, _), number) in files.numbers {
            pieces[number] = own;
        }
        let epoch = SystemTime::UNIX_EPOCH;
        Ok(Fetched {
            imported,
            numbering,
            files: prepared.into_iter().map(|file| file.finish(epoch)).collect(),
            pieces,
        })
    }
}

fn no_chunk() -> Problem {
    Problem::Format("it names a chunk that is not there")
}
