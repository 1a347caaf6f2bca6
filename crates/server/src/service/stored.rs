//! How much the files of somebody take: those of runs that are kept, and those in their sessions.

use std::sync::atomic::Ordering;

use super::error::ServiceError;
use super::owner::{Owner, limit};
use super::sessions::Held;
use super::{Service, Shared};

impl Service {
    /// Looks again, when nothing runs in it, how much the files of a session take, if that is limited. To be
    /// called when they have changed; nobody waits for it.
    pub(crate) fn look(&self, owner: &Owner, held: &Held) {
        if owner.limits().stored_bytes.is_none() {
            return;
        }
        let held = held.clone();
        tokio::spawn(async move {
            // A session that is gone has no files.
            let files = held.session().workspace().list("", usize::MAX).await.unwrap_or_default();
            let bytes = files.iter().map(|file| file.size).sum();
            held.stored().store(bytes, Ordering::Relaxed);
        });
    }

    /// Whether somebody has room for more files, of whatever size.
    pub(crate) fn has_room(&self, owner: &Owner) -> Result<(), ServiceError> {
        match owner.limits().stored_bytes {
            Some(max) if self.shared.in_sessions(owner) >= max => {
                Err(limit("bytes of files", max, None))
            }
            _ => Ok(()),
        }
    }
}

impl Shared {
    /// Bytes of the files in all sessions of somebody, as they were last seen.
    pub(super) fn in_sessions(&self, owner: &Owner) -> u64 {
        let sessions = self.sessions();
        let theirs = sessions.values().filter(|held| held.owner() == owner.name());
        theirs.map(|held| held.stored().load(Ordering::Relaxed)).sum()
    }
}
