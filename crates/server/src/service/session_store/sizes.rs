//! Sizes of sessions' files in the store, for owners with a limit.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use belljar::session::SessionFiles;

use super::SessionStore;
use crate::lock::lock;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// How long changes by other servers may go unnoticed.
const UNSEEN: Duration = Duration::from_mins(1);

/// Sizes of an owner's sessions in the store, by id.
#[derive(Default)]
pub(super) struct OwnerSizes {
    sessions: HashMap<String, u64>,
    /// Time of the latest complete measurement.
    seen: Option<Instant>,
}

/// Size of all files. Zero for a removed session.
pub(in crate::service) async fn bytes_of(files: &SessionFiles) -> u64 {
    files.bytes().await.unwrap_or_default()
}

impl SessionStore {
    fn sizes(&self) -> MutexGuard<'_, HashMap<String, OwnerSizes>> {
        lock(&self.bytes)
    }

    /// Size of all files in an owner's sessions when last measured.
    pub(in crate::service) fn bytes_in_sessions(&self, owner: &Owner) -> u64 {
        self.sizes().get(owner.name()).map_or(0, |theirs| theirs.sessions.values().sum())
    }

    /// Records the size of a session's files.
    pub(super) fn note_bytes(&self, owner: &str, id: &str, bytes: u64) {
        let mut all = self.sizes();
        all.entry(owner.to_owned()).or_default().sessions.insert(id.to_owned(), bytes);
    }

    pub(super) fn forget_bytes(&self, owner: &str, id: &str) {
        if let Some(theirs) = self.sizes().get_mut(owner) {
            theirs.sessions.remove(id);
        }
    }

    /// Reads the sizes in the records of an owner's sessions, unless they were read recently.
    pub(in crate::service) async fn count_all_bytes(
        &self,
        owner: &Owner,
    ) -> Result<(), ServiceError> {
        let seen = self.sizes().get(owner.name()).and_then(|theirs| theirs.seen);
        if seen.is_some_and(|seen| seen.elapsed() < UNSEEN) {
            return Ok(());
        }
        let mut sessions = HashMap::new();
        for found in self.list(owner).await? {
            sessions.insert(found.info.id, found.record.bytes.unwrap_or_default());
        }
        let seen = Some(Instant::now());
        self.sizes().insert(owner.name().to_owned(), OwnerSizes { sessions, seen });
        Ok(())
    }
}
