//! The limit `stored_bytes` on files in an owner's sessions.

use std::sync::atomic::Ordering;

use super::anywhere::bytes_of;
use super::error::ServiceError;
use super::held::Held;
use super::owner::{Owner, limit};
use super::{Service, Shared};

impl Service {
    /// Measures the files of a session of this process in the background, if its owner has a limit.
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

    /// Checks that the process is within its memory budget, and the owner below its limit of stored
    /// bytes.
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
    /// Size of the files in all sessions of an owner when last measured.
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
