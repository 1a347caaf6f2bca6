//! The parts of a session that are in existing chunks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use belljar_files::{Content, Files};

use super::chunker::{FileKey, Piece, Placed, key};
use super::format::Name;
use crate::session::state::State;

/// The parts of a session that are in existing chunks, so that only new data is laid out.
#[derive(Clone, Default)]
pub(in crate::session) struct Known {
    pub(super) chunks: Vec<(Name, u32)>,
    pub(super) places: BTreeMap<u64, Placed>,
    /// Contents that are kept alive, so that no other content gets the same key.
    pub(super) files: HashMap<FileKey, (Content, Vec<Piece>)>,
    pub(super) states: Vec<(Weak<State>, Document)>,
    pub(super) contents: Vec<(Weak<Files>, Document)>,
}

impl Known {
    /// Creates an index that knows only that these chunks exist.
    pub(super) fn of(chunks: Vec<(Name, u32)>) -> Self {
        Self {
            chunks,
            ..Self::default()
        }
    }

    /// Returns all chunks, by number.
    pub(super) fn chunks(&self) -> &[(Name, u32)] {
        &self.chunks
    }

    /// Adds the states and directories that another index of the same chunks knows.
    pub(super) fn with_documents_of(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.states.extend(other.states.iter().cloned());
        both.contents.extend(other.contents.iter().cloned());
        both
    }

    /// Records that the pages from number `at` on are in a chunk, from its page `first` on.
    pub(super) fn add_pages(&mut self, at: u64, count: u32, chunk: usize, first: u32) {
        let chunk = chunk as u32;
        self.places.insert(
            at,
            Placed {
                count,
                chunk,
                first,
            },
        );
    }

    pub(super) fn add_file(&mut self, file: &Content, pieces: &[(usize, u32, u32)]) {
        if let Some(key) = key(file) {
            self.files.insert(key, (file.clone(), numbered(pieces)));
        }
    }

    /// Records that a state is in the document `chunk`, with all chunks that the document names.
    pub(super) fn add_state(&mut self, state: &Arc<State>, chunk: usize, parts: &[usize]) {
        self.states.push((Arc::downgrade(state), Document::of(chunk, parts)));
    }

    pub(super) fn add_contents(&mut self, contents: &Arc<Files>, chunk: usize, parts: &[usize]) {
        self.contents.push((Arc::downgrade(contents), Document::of(chunk, parts)));
    }
}

fn numbered(pieces: &[(usize, u32, u32)]) -> Vec<Piece> {
    pieces.iter().map(|(chunk, at, length)| (*chunk as u32, *at, *length)).collect()
}

impl Document {
    fn of(chunk: usize, parts: &[usize]) -> Self {
        let parts = parts.iter().map(|part| *part as u32).collect();
        Self {
            chunk: chunk as u32,
            parts,
        }
    }
}

/// The chunk of a document, and all chunks that the document names.
#[derive(Clone)]
pub(super) struct Document {
    pub chunk: u32,
    pub parts: Vec<u32>,
}

/// Finds the document of a shared value by its address, which is unique while the value lives.
pub(super) fn find<'d, T>(
    documents: &'d [(Weak<T>, Document)],
    wanted: &Arc<T>,
) -> Option<&'d Document> {
    let found = documents.iter().find(|(one, _)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(wanted)));
    found.map(|(_, document)| document)
}
