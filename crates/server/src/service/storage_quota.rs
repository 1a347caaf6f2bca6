//! The limit `stored_bytes` on files in an owner's sessions.

use std::sync::atomic::Ordering;

use super::error::ServiceError;
use super::owned_session::OwnedSession;
use super::owner::{Owner, limit};
use super::session_store::bytes_of;
use super::{Service, Shared};

impl Service {
    /// Measures the files of a session of this process in the background, if its owner has a limit.
    pub(super) fn measure(&self, owner: &Owner, session: &OwnedSession) {
        if owner.limits().stored_bytes.is_none() {
            return;
        }
        let session = session.clone();
        tokio::spawn(async move {
            let bytes = bytes_of(&session.view().workspace()).await;
            session.stored().store(bytes, Ordering::Relaxed);
        });
    }

    /// Checks that the process is within its memory budget, and the owner below its limit of stored
    /// bytes.
    pub(super) async fn check_quota(&self, owner: &Owner) -> Result<(), ServiceError> {
        self.has_memory()?;
        let Some(max) = owner.limits().stored_bytes else {
            return Ok(());
        };
        if let Some(session_store) = self.session_store() {
            session_store.count_all_bytes(owner).await?;
        }
        if self.shared.session_bytes(owner) >= max {
            return Err(limit("bytes of files", max, None));
        }
        Ok(())
    }
}

impl Shared {
    /// Bytes of an owner's files when last measured: only those of owners with a limit are.
    pub(super) fn stored_bytes(&self, owner: &Owner) -> Option<u64> {
        owner.limits().stored_bytes?;
        Some(self.session_bytes(owner).saturating_add(self.cached_bytes_of(owner)))
    }

    /// Size of the files in all sessions of an owner when last measured.
    pub(super) fn session_bytes(&self, owner: &Owner) -> u64 {
        let here = {
            let sessions = self.sessions();
            let theirs = sessions.values().filter(|session| session.owner() == owner.name());
            theirs.map(|session| session.stored().load(Ordering::Relaxed)).sum::<u64>()
        };
        let stored = self.session_store.as_ref().map_or(0, |there| there.bytes_in_sessions(owner));
        here.saturating_add(stored)
    }
}
