//! How much the files in somebody's sessions take, against the key's `stored_bytes`.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar::SessionFiles;

use super::anywhere::Anywhere;
use super::error::ServiceError;
use super::owner::{Owner, limit};
use super::sessions::Held;
use super::{Service, Shared};

/// How long it may go unseen that other servers have written to sessions of the store.
const UNSEEN: Duration = Duration::from_mins(1);

/// Bytes in somebody's sessions of the store, by id.
#[derive(Default)]
pub(super) struct Counted {
    sessions: HashMap<String, u64>,
    /// When all of them were looked at.
    seen: Option<Instant>,
}

impl Service {
    /// Counts again how much the files of a session of this process take, if that is limited. Nobody waits
    /// for it.
    pub(super) fn look(&self, owner: &Owner, held: &Held) {
        if owner.limits().stored_bytes.is_none() {
            return;
        }
        let held = held.clone();
        tokio::spawn(async move {
            let bytes = bytes_of(&held.session().workspace()).await;
            held.stored().store(bytes, Ordering::Relaxed);
        });
    }

    /// Whether somebody has room for more files, of whatever size.
    pub(super) async fn has_room(&self, owner: &Owner) -> Result<(), ServiceError> {
        let Some(max) = owner.limits().stored_bytes else {
            return Ok(());
        };
        if let Some(anywhere) = self.anywhere() {
            anywhere.count_all_bytes(owner).await?;
        }
        if self.shared.in_sessions(owner) >= max {
            return Err(limit("bytes of files", max, None));
        }
        Ok(())
    }
}

/// Bytes of all files. A session that is gone has none.
pub(super) async fn bytes_of(files: &SessionFiles) -> u64 {
    let files = files.list("", usize::MAX).await.unwrap_or_default();
    files.iter().map(|file| file.size).sum()
}

impl Shared {
    /// Bytes of the files in all sessions of somebody, as they were last seen.
    pub(super) fn in_sessions(&self, owner: &Owner) -> u64 {
        let here = {
            let sessions = self.sessions();
            let theirs = sessions.values().filter(|held| held.owner() == owner.name());
            theirs.map(|held| held.stored().load(Ordering::Relaxed)).sum::<u64>()
        };
        let stored = self.anywhere.as_ref().map_or(0, |anywhere| {
            anywhere.bytes().get(owner.name()).map_or(0, |all| all.sessions.values().sum())
        });
        here.saturating_add(stored)
    }
}

impl Anywhere {
    fn bytes(&self) -> MutexGuard<'_, HashMap<String, Counted>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the files of a session take.
    pub(super) fn note_bytes(&self, owner: &str, id: &str, bytes: u64) {
        let mut all = self.bytes();
        all.entry(owner.to_owned()).or_default().sessions.insert(id.to_owned(), bytes);
    }

    pub(super) fn forget_bytes(&self, owner: &str, id: &str) {
        if let Some(theirs) = self.bytes().get_mut(owner) {
            theirs.sessions.remove(id);
        }
    }

    /// Looks what the records of somebody's sessions say, unless that was done a moment ago.
    async fn count_all_bytes(&self, owner: &Owner) -> Result<(), ServiceError> {
        let seen = self.bytes().get(owner.name()).and_then(|theirs| theirs.seen);
        if seen.is_some_and(|seen| seen.elapsed() < UNSEEN) {
            return Ok(());
        }
        let mut sessions = HashMap::new();
        for found in self.list(owner).await? {
            sessions.insert(found.info.id, found.about.bytes.unwrap_or_default());
        }
        let seen = Some(Instant::now());
        self.bytes().insert(owner.name().to_owned(), Counted { sessions, seen });
        Ok(())
    }
}
