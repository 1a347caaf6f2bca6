//! Limits on a session's history in a checkpoint. The oldest runs are dropped if necessary, so that
//! every session can be written.

use std::collections::HashSet;
use std::sync::Arc;

use belljar_files::OpenOn;

use super::chunk_index::key;
use super::format::TOPS;
use crate::limits::{MAX_CHECKPOINT_DOCUMENTS, MAX_CHECKPOINT_FILES, MAX_HISTORY_RECORDS};
use crate::session::history::HistoryEntry;
use crate::session::state::State;

/// A run in the history and the state after it.
pub(super) type Run<'a> = (&'a HistoryEntry, &'a Arc<State>);

/// Limits on a history in a checkpoint.
pub(super) struct Caps {
    /// Number of files in all states.
    pub files: usize,
    /// Size of all documents, in bytes.
    pub documents: u64,
    /// Size of the runs' records in the manifest, in bytes.
    pub records: u64,
}

impl Caps {
    /// The limits of the checkpoint format.
    pub(super) const FORMAT: Self = Self {
        files: MAX_CHECKPOINT_FILES,
        documents: MAX_CHECKPOINT_DOCUMENTS,
        records: MAX_HISTORY_RECORDS,
    };

    /// Returns the newest runs that fit: their records and files, plus the files of the states in
    /// `always`.
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
        let names = |state: &State| {
            let used = state.files.usage();
            usize::try_from(used.files).unwrap_or(usize::MAX).saturating_add(used.open)
        };
        let states = always.into_iter().chain(runs.iter().map(|(_, state)| *state));
        if states.map(|state| names(state)).fold(0, usize::saturating_add) <= self.files {
            return runs;
        }
        let mut files = HashSet::new();
        let mut add = |state: &State| {
            let tree = &*state.files;
            let tops = TOPS.iter().filter_map(|top| tree.find(top).ok());
            let placed = tops.flat_map(|top| tree.walk(top)).map(|found| found.node);
            let open = tree.open_files().filter_map(|(_, open)| match open.on {
                OpenOn::Node(node) => Some(node),
                OpenOn::Foreign(_) => None,
            });
            // Content without blocks counts as a separate file in each state.
            let key = |node| {
                let content = tree.content(node)?;
                Some(key(content).ok_or_else(|| (std::ptr::from_ref(state).addr(), node)))
            };
            files.extend(placed.chain(open).filter_map(key));
            files.len()
        };
        for state in always {
            add(state);
        }
        let kept = runs.iter().rev().take_while(|(_, state)| add(state) <= self.files).count();
        &runs[runs.len() - kept..]
    }
}
