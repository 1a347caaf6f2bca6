//! A session at rest: everything that its next run starts from.

use std::sync::Arc;

use crate::instance::Kept;
use crate::workspace::{Contents, json_bytes};

/// An interpreter at rest and its files. Nothing in it ever changes.
#[derive(Debug)]
pub(super) struct State {
    pub kept: Kept,
    pub contents: Arc<Contents>,
    /// Bytes and files that the host placed, which do not count against the workspace's limits.
    pub placed: (u64, u64),
}

impl State {
    /// No memory and no files.
    pub(super) fn nothing() -> Self {
        Self {
            kept: Kept::nothing(),
            contents: Arc::default(),
            placed: (0, 0),
        }
    }

    /// Bytes of memory and files that `other` does not hold, and of this state's lists: as they are in
    /// memory, or as a checkpoint has them if that is more.
    pub(super) fn beyond(&self, other: &Self) -> u64 {
        let pages = self.kept.pages.beyond(&other.kept.pages);
        let theirs = &other.kept.descriptors;
        let nameless: u64 = self.kept.descriptors.iter().map(|own| own.beyond(theirs)).sum();
        // A guest may have its memory in as many pieces, and as many names, as it likes.
        let mut lists = self.kept.pages.lists_beyond(&other.kept.pages) as u64;
        let mut documents = self.document_bytes();
        if !Arc::ptr_eq(&self.contents, &other.contents) {
            lists += self.contents.list_bytes();
            documents += self.contents.document_bytes();
        }
        let pages = (pages * crate::memory::HOST_PAGE) as u64;
        pages + self.contents.beyond(&other.contents) + nameless + lists.max(documents)
    }

    /// Bytes of its document in a checkpoint, about: no state shares it with another.
    fn document_bytes(&self) -> u64 {
        const REST: u64 = 512;
        /// Of a stretch of memory: four numbers.
        const STRETCH: u64 = 28;
        /// Of an open file besides its path.
        const OPEN: u64 = 160;
        let open = self.kept.descriptors.iter();
        let open: u64 = open.map(|file| json_bytes(&file.path) + OPEN).sum();
        REST + self.kept.pages.pieces() as u64 * STRETCH + open
    }
}
