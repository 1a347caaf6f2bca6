//! A session at rest: all data that its next run starts from.

use std::sync::Arc;

use belljar_files::{Files, Pool, PoolOptions, Usage};

use crate::api::policy::RunLimits;
use crate::sandbox::{Kept, limits};

/// An interpreter at rest and its files. Immutable.
#[derive(Clone)]
pub(super) struct State {
    pub kept: Kept,
    /// The files, including open files.
    pub files: Arc<Files>,
    /// Bytes and files placed by the host, which do not count towards the workspace's limits.
    pub placed: (u64, u64),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl State {
    /// Creates a state without memory and files.
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

    /// Returns the number of bytes and files that the session may have.
    pub(super) fn room(&self, bounds: &RunLimits) -> (u64, u64) {
        (bounds.workspace.saturating_add(self.placed.0), bounds.files.saturating_add(self.placed.1))
    }

    /// Returns the bytes and files placed by the host after it has placed `more` for a run that
    /// left `used`. The sum is limited to the session's own limits, or to the most that one run was
    /// given: a file placed for every run would otherwise raise the limits forever. If placed files
    /// still take more than that, it is what they take: the state could not be read back otherwise.
    pub(super) fn with_placed(
        &self,
        more: (u64, u64),
        used: Usage,
        bounds: &RunLimits,
    ) -> (u64, u64) {
        let sum = |before: u64, more: u64, used: u64, bound: u64| {
            let most = bound.max(before).max(more).max(used.saturating_sub(bound));
            before.saturating_add(more).min(most)
        };
        (
            sum(self.placed.0, more.0, used.bytes, bounds.workspace),
            sum(self.placed.1, more.1, used.files, bounds.files),
        )
    }

    /// Returns the size of memory and files that `other` does not share, plus this state's lists,
    /// in bytes: their size in memory or in a checkpoint, whichever is larger. A changed file is
    /// counted whole, because states that were read from a checkpoint share no blocks.
    pub(super) fn beyond(&self, other: &Self) -> u64 {
        let pages = self.kept.pages.beyond(&other.kept.pages);
        // The guest chooses how many pieces and names its memory has.
        let lists = self.kept.pages.lists_beyond(&other.kept.pages) as u64;
        let (mut documents, mut files) = (self.document_bytes(), 0);
        if !Arc::ptr_eq(&self.files, &other.files) {
            files = self.files.beyond_whole(&other.files);
            if self.files.version() != other.files.version() {
                documents += self.list_bytes();
            }
        }
        (pages * belljar_memory::HOST_PAGE) as u64 + files + lists.max(documents)
    }

    /// Returns the approximate size of the state's document in a checkpoint, in bytes. Documents
    /// are not shared between states.
    fn document_bytes(&self) -> u64 {
        const REST: u64 = 512;
        /// Size of a range of memory: four numbers.
        const STRETCH: u64 = 28;
        /// Size of an open file.
        const OPEN: u64 = 256;
        let open = self.kept.hosts.len() + self.files.usage().open;
        REST + self.kept.pages.pieces() as u64 * STRETCH + open as u64 * OPEN
    }

    /// Returns the approximate size of the file list in a checkpoint, in bytes.
    fn list_bytes(&self) -> u64 {
        /// Size of a file's entry: path, kind, modification time, and location of its bytes.
        const NODE: u64 = 192;
        /// Size of a file piece's entry, with the name of its chunk.
        const PIECE: u64 = 100;
        let used = self.files.usage();
        used.files * NODE + (used.bytes >> 20) * PIECE
    }
}
