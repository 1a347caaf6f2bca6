//! A session at rest: everything that its next run starts from.

use std::sync::Arc;

use belljar_files::{Files, Pool, PoolOptions};

use crate::api::policy::Bounds;
use crate::instance::{Kept, limits};

/// An interpreter at rest and its files. Nothing in it ever changes.
#[derive(Clone)]
pub(super) struct State {
    pub kept: Kept,
    /// Its files, and what it has open.
    pub files: Arc<Files>,
    /// Bytes and files that the host placed, which do not count against the workspace's limits.
    pub placed: (u64, u64),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl State {
    /// No memory and no files.
    pub(super) fn nothing() -> Self {
        let memory = PoolOptions {
            spool: None,
            ..PoolOptions::default()
        };
        Self {
            kept: Kept::nothing(),
            files: Arc::new(Files::new(&Pool::new(memory), limits(0, 0))),
            placed: (0, 0),
        }
    }

    /// Bytes and files that the session may have.
    pub(super) fn room(&self, bounds: &Bounds) -> (u64, u64) {
        (bounds.workspace.saturating_add(self.placed.0), bounds.files.saturating_add(self.placed.1))
    }

    /// Bytes and files that the host placed, once it has placed `more` for a run. They add up to the
    /// session's own bounds, or to the most that one run was given: a file that is placed for every run
    /// would raise the limits for ever.
    pub(super) fn with_placed(&self, more: (u64, u64), bounds: &Bounds) -> (u64, u64) {
        let sum = |before: u64, more: u64, bound: u64| {
            before.saturating_add(more).min(bound.max(before).max(more))
        };
        (sum(self.placed.0, more.0, bounds.workspace), sum(self.placed.1, more.1, bounds.files))
    }

    /// Bytes of memory and files that `other` does not hold, and of this state's lists: as they are in
    /// memory, or as a checkpoint has them if that is more.
    pub(super) fn beyond(&self, other: &Self) -> u64 {
        let pages = self.kept.pages.beyond(&other.kept.pages);
        // A guest may have its memory in as many pieces, and as many names, as it likes.
        let lists = self.kept.pages.lists_beyond(&other.kept.pages) as u64;
        let (mut documents, mut files) = (self.document_bytes(), 0);
        if !Arc::ptr_eq(&self.files, &other.files) {
            files = self.files.beyond(&other.files);
            if self.files.version() != other.files.version() {
                documents += self.list_bytes();
            }
        }
        (pages * crate::memory::HOST_PAGE) as u64 + files + lists.max(documents)
    }

    /// Bytes of its document in a checkpoint, about: no state shares it with another.
    fn document_bytes(&self) -> u64 {
        const REST: u64 = 512;
        /// Of a stretch of memory: four numbers.
        const STRETCH: u64 = 28;
        /// Of an open file.
        const OPEN: u64 = 256;
        let open = self.kept.hosts.len() + self.files.usage().open;
        REST + self.kept.pages.pieces() as u64 * STRETCH + open as u64 * OPEN
    }

    /// Bytes of the document that lists its files in a checkpoint, about.
    fn list_bytes(&self) -> u64 {
        /// Of a file: its path, what it is, when it was written, and where its bytes are.
        const NODE: u64 = 192;
        /// Of each piece of a file, with the name of the chunk that it is in.
        const PIECE: u64 = 100;
        let used = self.files.usage();
        used.files * NODE + (used.bytes >> 20) * PIECE
    }
}
