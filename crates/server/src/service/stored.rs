//! How much the files in somebody's sessions take, against the key's `stored_bytes`.

use std::sync::atomic::Ordering;

use super::anywhere::bytes_of;
use super::error::ServiceError;
use super::held::Held;
use super::owner::{Owner, limit};
use super::{Service, Shared};

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

    /// Whether somebody has room for more files, of whatever size, and the process for what they are for.
    pub(super) async fn has_room(&self, owner: &Owner) -> Result<(), ServiceError> {
        self.has_memory()?;
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

impl Shared {
    /// Bytes of the files in all sessions of somebody, as they were last seen.
    pub(super) fn in_sessions(&self, owner: &Owner) -> u64 {
        let here = {
            let sessions = self.sessions();
            let theirs = sessions.values().filter(|held| held.owner() == owner.name());
            theirs.map(|held| held.stored().load(Ordering::Relaxed)).sum::<u64>()
        };
        let stored = self.anywhere.as_ref().map_or(0, |there| there.bytes_in_sessions(owner));
        here.saturating_add(stored)
    }
}
