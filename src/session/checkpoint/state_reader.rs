//! Reads the documents of states and of their directories, and builds states from them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use belljar_files::{Content, Files};
use belljar_memory::Pages;
use rayon::prelude::*;
use serde::de::DeserializeOwned;

use super::chunk_index::ChunkIndex;
use super::chunk_reader::{Opener, in_batches};
use super::chunk_table::Listing;
use super::chunker::InChunk;
use super::fetch::{Fetched, Wanted};
use super::format::{ContentsDocument, HOLE, MAX_CHUNK, Name, PieceEntry, StateDocument};
use super::open_files::Nameless;
use super::problem::Problem;
use super::validate::{Room, no_file, too_much, tree};
use crate::sandbox::Kept;
use crate::session::state::State;
use crate::session::storage::Storage;
use crate::util::parallel::on_all_cores;

/// Documents that were read, and the data that they need.
pub(super) struct Documents<'a> {
    listing: &'a Listing,
    wanted: Wanted<'a>,
    /// Remaining limit on the documents' size, in bytes.
    pub left: u64,
    states: HashMap<Name, PlannedState>,
    contents: HashMap<Name, PlannedContents>,
    /// Bytes placed by the host, in the state with the most.
    pub placed: u64,
}

struct PlannedState {
    document: StateDocument,
    /// Ranges of memory, with the numbers of their chunks in the manifest.
    stretches: Vec<InChunk>,
    /// Numbers of the nameless files.
    nameless: Vec<usize>,
    /// Chunks that the document names.
    chunks: Vec<u32>,
}

/// The contents of a state's directories.
enum PlannedContents {
    /// Read before, with all chunks that the document names.
    Known(Arc<Files>, Vec<u32>),
    New {
        document: ContentsDocument,
        files: Vec<usize>,
        chunks: Vec<u32>,
    },
}

/// The states built.
pub(super) struct Made {
    pub states: HashMap<Name, Arc<State>>,
    pub index: ChunkIndex,
    pub fetched: Fetched,
    /// Directories, each with the chunks that its document names.
    pub contents: HashMap<Name, (Arc<Files>, Vec<u32>)>,
}

impl<'a> Documents<'a> {
    /// Creates an empty plan. Data in `before` need not be fetched again.
    pub(super) fn beside(listing: &'a Listing, before: &'a Fetched, left: u64) -> Self {
        Self {
            listing,
            wanted: Wanted::beside(before),
            left,
            states: HashMap::new(),
            contents: HashMap::new(),
            placed: 0,
        }
    }

    /// Adds directories that were read before.
    pub(super) fn know(&mut self, name: Name, contents: Arc<Files>, chunks: Vec<u32>) {
        self.contents.insert(name, PlannedContents::Known(contents, chunks));
    }

    /// Reads states and their directories, and records the data that they need.
    pub(super) fn read(&mut self, names: &BTreeSet<Name>) -> Result<(), Problem> {
        let states: Vec<(Name, StateDocument)> = self.documents(names)?;
        let directories: BTreeSet<Name> = states
            .iter()
            .map(|(_, state)| state.contents)
            .filter(|name| !self.contents.contains_key(name))
            .collect();
        for (name, contents) in self.documents(&directories)? {
            self.plan_contents(name, contents)?;
        }
        for (name, state) in states {
            self.plan(name, state)?;
        }
        Ok(())
    }

    fn documents<T: DeserializeOwned + Send>(
        &mut self,
        names: &BTreeSet<Name>,
    ) -> Result<Vec<(Name, T)>, Problem> {
        let Listing { listed, chunks, .. } = self.listing;
        let mut numbers = Vec::with_capacity(names.len());
        for name in names {
            let number = self.listing.number(*name)?;
            let left = self.left.checked_sub(u64::from(self.listing.length(number)));
            self.left = left.ok_or(Problem::Format("its documents are too long"))?;
            numbers.push(number as usize);
        }
        let open = |opener: &mut Opener, number: &usize| {
            let bytes = opener.open(&**chunks, *number, listed[*number])?;
            let document = serde_json::from_slice(bytes);
            let document = document.map_err(|_| Problem::Format("a document of it is not valid"));
            Ok((listed[*number].0, document?))
        };
        let mut documents = Vec::with_capacity(numbers.len());
        in_batches(&**chunks, &numbers, listed, |batch| {
            if let [number] = batch {
                documents.push(open(&mut Opener::new(), number)?);
                return Ok(());
            }
            let opened: Vec<_> = on_all_cores(|| {
                let opened = batch.par_iter().with_min_len(4).map_init(Opener::new, open);
                opened.collect::<Result<_, Problem>>()
            })?;
            documents.extend(opened);
            Ok(())
        })?;
        Ok(documents)
    }

    fn plan(&mut self, name: Name, mut document: StateDocument) -> Result<(), Problem> {
        let chunks = self.listing.numbers(&document.chunks)?;
        let mut stretches = Vec::with_capacity(document.stretches.len());
        for (page, count, chunk, first) in std::mem::take(&mut document.stretches) {
            let number = *chunks.get(chunk as usize).ok_or_else(no_chunk)?;
            self.wanted.add_pages((number, self.listing.length(number)), first, count)?;
            if count == 0 {
                return Err(Problem::Format("a state's pages are not where they may be"));
            }
            stretches.push((page, count, number, first));
        }
        let pieces = std::mem::take(&mut document.pieces);
        let nameless = self.files(&document.nameless, &pieces, &chunks)?;
        self.placed = self.placed.max(document.placed.0);
        let planned = PlannedState {
            document,
            stretches,
            nameless,
            chunks,
        };
        self.states.insert(name, planned);
        Ok(())
    }

    fn plan_contents(&mut self, name: Name, mut document: ContentsDocument) -> Result<(), Problem> {
        let chunks = self.listing.numbers(&document.chunks)?;
        let pieces = std::mem::take(&mut document.pieces);
        let files = self.files(&document.files, &pieces, &chunks)?;
        let planned = PlannedContents::New {
            document,
            files,
            chunks,
        };
        self.contents.insert(name, planned);
        Ok(())
    }

    /// Fetches the files of one document, which have at most `max` bytes together. `names` are the
    /// chunks that the document names.
    pub(super) fn fetch_files(
        listing: &Listing,
        (counts, pieces, names): (&[u32], &[PieceEntry], &[Name]),
        max: u64,
        storage: &Storage,
    ) -> Result<Vec<Content>, Problem> {
        let nothing = Fetched::default();
        let mut documents = Documents::beside(listing, &nothing, 0);
        let numbers = documents.files(counts, pieces, &listing.numbers(names)?)?;
        if documents.wanted.size().1.is_none_or(|bytes| bytes > max) {
            return Err(too_much());
        }
        let fetched = documents.wanted.fetch(listing.source(), None, storage, true)?;
        Ok(numbers.iter().map(|number| fetched.files()[*number].0.clone()).collect())
    }

    /// Records the files of one document, and returns their numbers.
    fn files(
        &mut self,
        counts: &[u32],
        pieces: &[PieceEntry],
        chunks: &[u32],
    ) -> Result<Vec<usize>, Problem> {
        // Two files with equal bytes remain two files.
        let mut same: HashMap<Vec<PieceEntry>, usize> = HashMap::new();
        let (mut files, mut rest) = (Vec::new(), pieces);
        for count in counts {
            let own = rest.split_off(..*count as usize).ok_or_else(no_file)?;
            let mut found = Vec::with_capacity(own.len());
            for (chunk, at, length) in own {
                if *chunk == HOLE {
                    found.push((HOLE, *at, *length));
                    continue;
                }
                let number = *chunks.get(*chunk as usize).ok_or_else(no_chunk)?;
                let end = at.checked_add(*length);
                let there = self.listing.length(number).min(MAX_CHUNK);
                if end.is_none_or(|end| end > there) {
                    return Err(Problem::Format("it names bytes that no chunk has"));
                }
                found.push((number, *at, *length));
            }
            let ordinal = same.entry(found.clone()).or_insert(0);
            files.push(self.wanted.add_file(found, *ordinal)?);
            *ordinal += 1;
        }
        Ok(files)
    }

    /// Fetches the required data, if there is room for it, and builds the states. `state` has all
    /// pages that were fetched before. Missing pages remain hollow unless `with_pages` is set.
    pub(super) fn make(
        self,
        room: &Room,
        state: Option<&Arc<Pages>>,
        storage: &Storage,
        with_pages: bool,
    ) -> Result<Made, Problem> {
        let (pages, files) = self.wanted.size();
        room.check(pages, files, self.placed)?;
        let listing = self.listing;
        let fetched = self.wanted.fetch(listing.source(), state, storage, with_pages)?;
        let mut index = ChunkIndex::of(listing.listed.clone());
        for (number, count, chunk, first) in fetched.all_pages() {
            index.add_pages(number, count, chunk, first);
        }
        for (file, pieces) in fetched.files() {
            index.add_file(file, pieces.clone());
        }
        let mut contents: HashMap<Name, (Arc<Files>, Vec<u32>)> = HashMap::new();
        for (name, planned) in self.contents {
            let (tree, chunks) = match planned {
                PlannedContents::Known(contents, chunks) => (contents, chunks),
                PlannedContents::New {
                    document,
                    files,
                    chunks,
                } => {
                    let file = |number: &usize| fetched.files()[*number].0.clone();
                    let own: Vec<Content> = files.iter().map(file).collect();
                    (Arc::new(tree((&room.base, room.now), document, &own)?), chunks)
                }
            };
            index.add_contents(&tree, listing.number(name)?, chunks.clone());
            contents.insert(name, (tree, chunks));
        }
        let mut states = HashMap::new();
        for (name, mut planned) in self.states {
            let (tree, theirs) = contents.get(&planned.document.contents).ok_or_else(no_chunk)?;
            let mut parts = std::mem::take(&mut planned.chunks);
            let directories = listing.number(planned.document.contents)?;
            parts.extend(theirs.iter().copied().chain([directories]));
            let state = planned.state(&fetched, Arc::clone(tree), room)?;
            let state = Arc::new(state);
            index.add_state(&state, listing.number(name)?, parts);
            states.insert(name, state);
        }
        Ok(Made {
            states,
            index,
            fetched,
            contents,
        })
    }
}

impl PlannedState {
    fn state(self, fetched: &Fetched, contents: Arc<Files>, room: &Room) -> Result<State, Problem> {
        let mut open = Vec::new();
        for (descriptor, content) in self.document.descriptors {
            let content = match content {
                None => None,
                Some(index) => {
                    let number = *self.nameless.get(index).ok_or_else(no_file)?;
                    Some(Nameless {
                        index,
                        number: self.document.nameless_numbers.get(index).copied(),
                        content: fetched.files()[number].0.clone(),
                    })
                }
            };
            open.push((descriptor, content));
        }
        let kept = Kept {
            pages: Arc::default(),
            memory: self.document.memory as usize,
            stack_pointer: self.document.stack_pointer,
            hosts: Vec::new(),
            lived: self.document.lived,
            random_blocks: self.document.random_blocks,
        };
        let pages = fetched.pages(&self.stretches);
        room.state(pages, kept, (contents, open), self.document.placed)
    }
}

pub(super) fn no_chunk() -> Problem {
    Problem::Format("it names a chunk that is not there")
}
