//! How much the files in sessions of the store take, of those whose are limited.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar::session::SessionFiles;

use super::Anywhere;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// How long it may go unseen that other servers have written to sessions of the store.
const UNSEEN: Duration = Duration::from_mins(1);

/// Bytes in somebody's sessions of the store, by id.
#[derive(Default)]
pub(super) struct Counted {
    sessions: HashMap<String, u64>,
    /// When all of them were looked at.
    seen: Option<Instant>,
}

/// Bytes of all files. A session that is gone has none.
pub(in crate::service) async fn bytes_of(files: &SessionFiles) -> u64 {
    files.bytes().await.unwrap_or_default()
}

impl Anywhere {
    fn counted(&self) -> MutexGuard<'_, HashMap<String, Counted>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in all sessions of somebody, as they were last seen.
    pub(in crate::service) fn bytes_in_sessions(&self, owner: &Owner) -> u64 {
        self.counted().get(owner.name()).map_or(0, |theirs| theirs.sessions.values().sum())
    }

    /// Notes what the files of a session take.
    pub(super) fn note_bytes(&self, owner: &str, id: &str, bytes: u64) {
        let mut all = self.counted();
        all.entry(owner.to_owned()).or_default().sessions.insert(id.to_owned(), bytes);
    }

    pub(super) fn forget_bytes(&self, owner: &str, id: &str) {
        if let Some(theirs) = self.counted().get_mut(owner) {
            theirs.sessions.remove(id);
        }
    }

    /// Looks what the records of somebody's sessions say, unless that was done a moment ago.
    pub(in crate::service) async fn count_all_bytes(
        &self,
        owner: &Owner,
    ) -> Result<(), ServiceError> {
        let seen = self.counted().get(owner.name()).and_then(|theirs| theirs.seen);
        if seen.is_some_and(|seen| seen.elapsed() < UNSEEN) {
            return Ok(());
        }
        let mut sessions = HashMap::new();
        for found in self.list(owner).await? {
            sessions.insert(found.info.id, found.about.bytes.unwrap_or_default());
        }
        let seen = Some(Instant::now());
        self.counted().insert(owner.name().to_owned(), Counted { sessions, seen });
        Ok(())
    }
}
