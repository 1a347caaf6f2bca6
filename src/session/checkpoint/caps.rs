//! How much of a session's history a checkpoint holds: what does not fit is left out, the oldest first, so
//! that every session can be written.

use std::collections::HashSet;
use std::sync::Arc;

use crate::limits::{MAX_CHECKPOINT_DOCUMENTS, MAX_CHECKPOINT_FILES, MAX_HISTORY_RECORDS};
use crate::session::history::HistoryEntry;
use crate::session::state::State;
use crate::workspace::{Node, StoredFile};

/// A run of the history, and the state after it.
pub(super) type Run<'a> = (&'a HistoryEntry, &'a Arc<State>);

/// How much of a history a checkpoint holds.
pub(super) struct Caps {
    /// Files of all states.
    pub files: usize,
    /// Bytes of all documents.
    pub documents: u64,
    /// Bytes of the runs' records in the manifest.
    pub records: u64,
}

impl Caps {
    /// Those of a checkpoint.
    pub(super) const FORMAT: Self = Self {
        files: MAX_CHECKPOINT_FILES,
        documents: MAX_CHECKPOINT_DOCUMENTS,
        records: MAX_HISTORY_RECORDS,
    };

    /// The newest runs whose records and files, with those of the states that are `always` there, are not
    /// too many.
    pub(super) fn newest<'r, 'a>(
        &self,
        always: [&Arc<State>; 2],
        runs: &'r [Run<'a>],
    ) -> &'r [Run<'a>] {
        let mut records = 0;
        let fits = |(record, _): &&Run<'_>| {
            records += record.json_bytes();
            records <= self.records
        };
        let fitting = runs.iter().rev().take_while(fits).count();
        let runs = &runs[runs.len() - fitting..];
        let names = |state: &State| state.contents.0.len() + state.kept.descriptors.len();
        let states = always.into_iter().chain(runs.iter().map(|(_, state)| *state));
        if states.map(|state| names(state)).sum::<usize>() <= self.files {
            return runs;
        }
        let mut files = HashSet::new();
        let mut add = |state: &State| {
            let regular = state.contents.0.values().filter_map(|node| match node {
                Node::File(file) => Some(file.address()),
                Node::Directory | Node::Link(_) => None,
            });
            let nameless = state.kept.descriptors.iter().filter_map(|open| open.nameless.as_ref());
            files.extend(regular.chain(nameless.map(StoredFile::address)));
            files.len()
        };
        for state in always {
            add(state);
        }
        let kept = runs.iter().rev().take_while(|(_, state)| add(state) <= self.files).count();
        &runs[runs.len() - kept..]
    }
}
