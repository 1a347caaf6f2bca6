//! What of a session is in chunks that were written before.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use belljar_files::{Content, Files};

use super::format::Name;
use super::pieces::{FileKey, Piece, Placed, key};
use crate::session::state::State;

/// What of a session is in chunks that were written before, so that only what is new is laid out.
#[derive(Clone, Default)]
pub(in crate::session) struct Known {
    pub(super) chunks: Vec<(Name, u32)>,
    pub(super) places: BTreeMap<u64, Placed>,
    /// Contents that are kept, so that no other has the number of one.
    pub(super) files: HashMap<FileKey, (Content, Vec<Piece>)>,
    pub(super) states: Vec<(Weak<State>, Document)>,
    pub(super) contents: Vec<(Weak<Files>, Document)>,
}

impl Known {
    /// Nothing but that these chunks are there.
    pub(super) fn of(chunks: Vec<(Name, u32)>) -> Self {
        Self {
            chunks,
            ..Self::default()
        }
    }

    /// All chunks, by number.
    pub(super) fn chunks(&self) -> &[(Name, u32)] {
        &self.chunks
    }

    /// This, and the states and directories that another knows of the same chunks.
    pub(super) fn with_documents_of(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.states.extend(other.states.iter().cloned());
        both.contents.extend(other.contents.iter().cloned());
        both
    }

    /// That pages which are numbered from `at` on are in a chunk, from its page `first` on.
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

    /// That a state is in the document `chunk`, with all chunks that it names.
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

/// The chunk of a document, and all chunks that it names.
#[derive(Clone)]
pub(super) struct Document {
    pub chunk: u32,
    pub parts: Vec<u32>,
}

/// The document of what is kept at an address that nothing else has meanwhile.
pub(super) fn find<'d, T>(
    documents: &'d [(Weak<T>, Document)],
    wanted: &Arc<T>,
) -> Option<&'d Document> {
    let found = documents.iter().find(|(one, _)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(wanted)));
    found.map(|(_, document)| document)
}
