//! A session at rest: everything that its next run starts from.

use std::sync::Arc;

use crate::instance::Kept;
use crate::workspace::Contents;

/// An interpreter at rest and its files. Nothing in it ever changes.
#[derive(Debug)]
pub(super) struct State {
    pub kept: Kept,
    pub contents: Arc<Contents>,
    /// Bytes and files that the host placed, which do not count against the workspace's limits.
    pub placed: (u64, u64),
}

impl State {
    /// Bytes of memory and files that `other` does not hold.
    pub(super) fn beyond(&self, other: &Self) -> u64 {
        let pages = self.kept.pages.beyond(&other.kept.pages);
        let theirs = &other.kept.descriptors;
        let nameless: u64 = self.kept.descriptors.iter().map(|own| own.beyond(theirs)).sum();
        (pages * crate::memory::HOST_PAGE) as u64 + self.contents.beyond(&other.contents) + nameless
    }
}
