//! Files of finished runs, stored for a limited time.

use std::sync::Arc;
use std::time::Duration;

use belljar::outcome::{FileEntry, RunFile, RunFiles};
use belljar::{Outcome, Run};

use super::Service;
use super::cache::{Cached, new_id};
use super::error::ServiceError;
use super::owner::Owner;

/// How long the files of a run are stored.
pub(crate) const STORED_TIME: Duration = Duration::from_mins(10);
/// Maximum number of runs of one owner with stored files.
pub(crate) const MAX_STORED: usize = 1_000;

/// The files of a finished run, without its output streams.
pub(crate) struct StoredRun {
    pub files: Vec<FileEntry>,
    left: RunFiles,
}

impl StoredRun {
    fn texts(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = |file: &FileEntry| {
            let optional = [&file.symlink, &file.sha256, &file.media_type, &file.problem];
            file.path.len() + optional.map(text).iter().sum::<usize>()
        };
        self.files.iter().map(texts).sum::<usize>() as u64
    }

    /// A regular file.
    pub(crate) fn entry(&self, path: &str) -> Option<&FileEntry> {
        self.files.iter().find(|file| file.path == path && file.symlink.is_none())
    }

    /// Opens a file. Blocks.
    pub(crate) fn open(&self, path: &str) -> Result<RunFile, belljar::Error> {
        self.left.open(path)
    }
}

impl Cached for StoredRun {
    const TIME: Duration = STORED_TIME;
    const MAX: usize = MAX_STORED;

    fn memory(&self) -> u64 {
        self.texts() + (self.files.len() * size_of::<FileEntry>()) as u64
    }

    fn stored(&self) -> u64 {
        self.texts() + self.files.iter().map(|file| file.size).sum::<u64>()
    }
}

impl Service {
    /// Stores the files of a run and returns their id, which cannot be guessed. Returns `None` if
    /// there are no files, or they exceed the limit.
    pub fn keep(&self, owner: &Owner, run: Run) -> (Outcome, Option<String>) {
        let (outcome, left) = run.into_parts();
        if outcome.files.is_empty() {
            return (outcome, None);
        }
        let run = Arc::new(StoredRun {
            files: outcome.files.clone(),
            left,
        });
        let id = new_id().filter(|id| self.cache(owner, id, run));
        (outcome, id)
    }

    /// The stored files of an owner's run.
    pub(crate) fn stored_run(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Arc<StoredRun>, ServiceError> {
        self.cached(owner, id).ok_or_else(|| ServiceError::NoRun { id: id.into() })
    }

    /// Deletes the files of an owner's run.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::NoRun`] if the run does not exist or belongs to another owner.
    pub fn forget(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        match self.uncache::<StoredRun>(owner, id) {
            Some(_) => Ok(()),
            None => Err(ServiceError::NoRun { id: id.into() }),
        }
    }
}
