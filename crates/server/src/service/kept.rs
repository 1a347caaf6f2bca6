//! Files of runs that are over, kept for a while.

use std::sync::Arc;
use std::time::Duration;

use belljar::outcome::{FileEntry, RunFile, RunFiles};
use belljar::{Outcome, Run};

use super::Service;
use super::error::ServiceError;
use super::owner::Owner;
use super::shelf::{Kept, new_id};

/// How long the files of a run are kept.
pub(crate) const KEPT_TIME: Duration = Duration::from_mins(10);
/// The most runs of one owner whose files are kept.
pub(crate) const MAX_KEPT: usize = 1_000;

/// What is kept of a run: its files, and nothing of what it wrote to its streams.
pub(crate) struct KeptRun {
    pub files: Vec<FileEntry>,
    left: RunFiles,
}

impl KeptRun {
    fn texts(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = |file: &FileEntry| {
            file.path.len() + text(&file.symlink) + text(&file.sha256) + text(&file.media_type)
        };
        self.files.iter().map(texts).sum::<usize>() as u64
    }

    /// One of its regular files.
    pub(crate) fn entry(&self, path: &str) -> Option<&FileEntry> {
        self.files.iter().find(|file| file.path == path && file.symlink.is_none())
    }

    /// Opens one of its files. It blocks.
    pub(crate) fn open(&self, path: &str) -> Result<RunFile, belljar::Error> {
        self.left.open(path)
    }
}

impl Kept for KeptRun {
    const TIME: Duration = KEPT_TIME;
    const MOST: usize = MAX_KEPT;

    fn memory(&self) -> u64 {
        self.texts() + (self.files.len() * size_of::<FileEntry>()) as u64
    }

    fn stored(&self) -> u64 {
        self.texts() + self.files.iter().map(|file| file.size).sum::<u64>()
    }
}

impl Service {
    /// Keeps the files of a run for a while, under an id that nobody can guess: `None` when it has none, or
    /// more than may be kept.
    pub fn keep(&self, owner: &Owner, run: Run) -> (Outcome, Option<String>) {
        let (outcome, left) = run.into_parts();
        if outcome.files.is_empty() {
            return (outcome, None);
        }
        let run = Arc::new(KeptRun {
            files: outcome.files.clone(),
            left,
        });
        let id = new_id().filter(|id| self.shelve(owner, id, run));
        (outcome, id)
    }

    /// An owner's run whose files are kept.
    pub(crate) fn kept(&self, owner: &Owner, id: &str) -> Result<Arc<KeptRun>, ServiceError> {
        self.shelved(owner, id).ok_or_else(|| ServiceError::NoRun { id: id.into() })
    }

    /// Forgets the files of an owner's run.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoRun`] when there is none, or it is somebody else's.
    pub fn forget(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        match self.unshelve::<KeptRun>(owner, id) {
            Some(_) => Ok(()),
            None => Err(ServiceError::NoRun { id: id.into() }),
        }
    }
}
