//! The index of chunks: which parts of a session are in which chunk.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use belljar_files::{Content, Files};

use super::format::{HOLE, Name, PieceEntry};
use crate::session::state::State;

/// The chunks of a file or store, by number, and the parts of a session that are in them. A layout
/// begins with the index of existing chunks, adds what is new, and ends with the index of the
/// chunks that it names.
#[derive(Clone, Default)]
pub(in crate::session) struct ChunkIndex {
    pub(super) chunks: Vec<(Name, u32)>,
    /// Location of pages by page number. A page store never reuses a number.
    pub(super) places: BTreeMap<u64, Placed>,
    /// Contents that are kept alive, so that no other content gets the same key.
    pub(super) files: HashMap<FileKey, (Content, Vec<Piece>)>,
    pub(super) states: Vec<(Weak<State>, Document)>,
    pub(super) contents: Vec<(Weak<Files>, Document)>,
}

impl ChunkIndex {
    /// Creates an index that knows only that these chunks exist.
    pub(super) fn of(chunks: Vec<(Name, u32)>) -> Self {
        Self {
            chunks,
            ..Self::default()
        }
    }

    /// Adds the states and directories that another index of the same chunks knows.
    pub(super) fn with_documents_of(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.states.extend(other.states.iter().cloned());
        both.contents.extend(other.contents.iter().cloned());
        both
    }

    /// Records that the pages from number `at` on are in a chunk, from its page `first` on.
    pub(super) fn add_pages(&mut self, at: u64, count: u32, chunk: u32, first: u32) {
        self.places.insert(
            at,
            Placed {
                count,
                chunk,
                first,
            },
        );
    }

    pub(super) fn add_file(&mut self, file: &Content, pieces: Vec<Piece>) {
        if let Some(key) = key(file) {
            self.files.insert(key, (file.clone(), pieces));
        }
    }

    /// Records that a state is in the document `chunk`, with all chunks that the document names.
    pub(super) fn add_state(&mut self, state: &Arc<State>, chunk: u32, parts: Vec<u32>) {
        self.states.push((Arc::downgrade(state), Document { chunk, parts }));
    }

    pub(super) fn add_contents(&mut self, contents: &Arc<Files>, chunk: u32, parts: Vec<u32>) {
        self.contents.push((Arc::downgrade(contents), Document { chunk, parts }));
    }

    /// Returns the document of a state, if it is in a chunk.
    pub(super) fn state(&self, state: &Arc<State>) -> Option<&Document> {
        find(&self.states, state)
    }

    /// Returns the document of a state's directories, if it is in a chunk.
    pub(super) fn contents(&self, contents: &Arc<Files>) -> Option<&Document> {
        find(&self.contents, contents)
    }

    /// Returns the index of the `listed` chunks, with these states. `numbers` maps each chunk's
    /// number to its place in that list.
    pub(super) fn renumbered(
        self,
        states: &[&Arc<State>],
        listed: &[(Name, u32)],
        numbers: &HashMap<u32, u32>,
    ) -> Self {
        let number = |chunk: u32| numbers.get(&chunk).copied();
        let document = |document: Document| {
            Some(Document {
                chunk: number(document.chunk)?,
                parts: document.parts.into_iter().map(number).collect::<Option<_>>()?,
            })
        };
        let is_here = |state: &Weak<State>| {
            states.iter().any(|s| std::ptr::eq(state.as_ptr(), Arc::as_ptr(s)))
        };
        let states = self.states.into_iter().filter(|(state, _)| is_here(state));
        let places = self.places.into_iter().filter_map(|(at, there)| {
            let chunk = number(there.chunk)?;
            Some((at, Placed { chunk, ..there }))
        });
        let files = self.files.into_iter().filter_map(|(key, (file, mut pieces))| {
            for (chunk, ..) in pieces.iter_mut().filter(|(chunk, ..)| *chunk != HOLE) {
                *chunk = number(*chunk)?;
            }
            Some((key, (file, pieces)))
        });
        Self {
            chunks: listed.to_vec(),
            places: places.collect(),
            files: files.collect(),
            states: states.filter_map(|(state, own)| Some((state, document(own)?))).collect(),
            contents: self
                .contents
                .into_iter()
                .filter_map(|(contents, own)| Some((contents, document(own)?)))
                .collect(),
        }
    }
}

/// Consecutive pages of a page store, and the chunk that contains them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub count: u32,
    pub chunk: u32,
    /// Index of the first page within the chunk.
    pub first: u32,
}

/// A part of a file, with the number of its chunk.
pub(super) type Piece = PieceEntry;

/// Identifies a content while the content is kept alive.
pub(super) type FileKey = (usize, u64);

/// Returns the key of a content. Content without blocks, which is empty or all zeros, has no key.
pub(super) fn key(file: &Content) -> Option<FileKey> {
    (file.id() != 0).then(|| (file.id(), file.len()))
}

/// The chunk of a document, and all chunks that the document names.
#[derive(Clone)]
pub(super) struct Document {
    pub chunk: u32,
    pub parts: Vec<u32>,
}

/// Finds the document of a shared value by its address, which is unique while the value lives.
fn find<'d, T>(documents: &'d [(Weak<T>, Document)], wanted: &Arc<T>) -> Option<&'d Document> {
    let found = documents.iter().find(|(one, _)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(wanted)));
    found.map(|(_, document)| document)
}
