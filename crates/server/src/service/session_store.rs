//! Sessions in a store, available to all its servers.
//!
//! A session's record contains its owner. Two indexes beside the sessions find records: `owners` by
//! owner, and `names` by name.

mod claimed;
mod documents;
mod index;
mod listing;
mod record;
mod sizes;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;

use belljar::Session;
use belljar::cluster::StoredSessions;
use belljar::session::LeaseEnd;

pub(crate) use self::claimed::{Access, ClaimedSession};
pub(crate) use self::documents::Document;
use self::index::owner_folder;
pub use self::listing::Listed;
pub(crate) use self::record::LEASE_MINUTES;
pub(super) use self::record::{NewRecord, SessionPlan};
use self::record::{SessionRecord, millis};
use self::sizes::OwnerSizes;
pub(super) use self::sizes::bytes_of;
use super::Service;
use super::error::ServiceError;
use super::owned_session::{Lineage, OwnedSession};
use super::owner::{Owner, limit};
use super::session_slot::SessionSlot;
use crate::audit::{AuditLog, Record};
use crate::lock::Turns;

/// The sessions of a store.
pub(crate) struct SessionStore {
    pub(super) sessions: StoredSessions,
    /// Owners of sessions, which never change, as a cache.
    owners: Mutex<HashMap<String, String>>,
    /// Sizes of sessions' files, for owners with a limit.
    bytes: Mutex<HashMap<String, OwnerSizes>>,
    pub(super) audit: Option<AuditLog>,
    /// Sessions that are being removed.
    removing: Turns,
}

impl Service {
    pub(super) fn session_store(&self) -> Option<&SessionStore> {
        self.shared.session_store.as_ref()
    }

    /// The store's sessions and their counters.
    #[must_use]
    pub fn stored_sessions(&self) -> Option<&StoredSessions> {
        self.session_store().map(|session_store| &session_store.sessions)
    }

    /// Interrupts the run in an owner's session, on any server. Returns whether a run was in
    /// progress.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::at_hand), without waiting.
    pub(crate) async fn interrupt(&self, owner: &Owner, id: &str) -> Result<bool, ServiceError> {
        match (self.session_store(), self.find(owner, id)) {
            (Some(session_store), Err(ServiceError::NoSession { .. })) => {
                let id = session_store.resolve_id(owner, id).await?;
                Ok(session_store.sessions.interrupt(&id).await?)
            }
            (_, found) => Ok(found?.guest().interrupt()),
        }
    }

    /// Removes an owner's session, on any server.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::at_hand), without waiting.
    pub(crate) async fn end(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        match (self.session_store(), self.remove(owner, id)) {
            (Some(session_store), Err(ServiceError::NoSession { .. })) => {
                let id = session_store.resolve_id(owner, id).await?;
                let record = session_store.find(owner, &id).await?.map(|found| found.record);
                let name = record.and_then(|record| record.name);
                session_store.remove(owner.name(), &id, name.as_deref()).await
            }
            (_, removed) => removed,
        }
    }

    /// Waits until all finished runs are written to the store.
    pub async fn settled(&self) {
        if let Some(session_store) = self.session_store() {
            session_store.sessions.settled().await;
        }
    }
}

impl SessionStore {
    pub(super) fn new(sessions: StoredSessions) -> Self {
        Self {
            sessions,
            owners: Mutex::default(),
            bytes: Mutex::default(),
            audit: None,
            removing: Turns::default(),
        }
    }

    /// Adds a new session to the store.
    pub(super) async fn add(
        &self,
        owner: &Owner,
        session: Session,
        (name, lineage): (Option<String>, Option<Lineage>),
        new: NewRecord,
        slot: SessionSlot,
    ) -> Result<OwnedSession, ServiceError> {
        let id = session.id().to_owned();
        let now = millis(SystemTime::now());
        let record = SessionRecord {
            owner: owner.name().to_owned(),
            name: name.clone(),
            created: now,
            labels: session.info().labels,
            lease: new.lease.map(|(time, then)| {
                (now.saturating_add(time.as_millis() as u64), then == LeaseEnd::Suspend)
            }),
            note: new.note,
            bytes: None,
            lineage,
        };
        let entered = async {
            slot.register(self.add_to_index(owner, &id, name.as_deref())).await?;
            self.check_count(owner).await
        };
        let added = record.owned(session.clone());
        let stored = match entered.await {
            Ok(()) => self.sessions.add(session, record.text()).await.map_err(ServiceError::from),
            Err(error) => {
                session.close();
                Err(error)
            }
        };
        match stored {
            Ok(_) => {
                self.remember(&id, owner.name());
                Ok(added)
            }
            Err(error @ ServiceError::NameTaken { .. }) => Err(error),
            Err(error) => {
                // Stale index entries are harmless; remove them if the store is available.
                let _ = self.remove_from_index(owner.name(), &id, name.as_deref()).await;
                Err(error)
            }
        }
    }

    /// Number of an owner's sessions in the store.
    pub(super) async fn count(&self, owner: &Owner) -> Result<usize, ServiceError> {
        let theirs = self.sessions.store().list(&owner_folder(owner.name())).await;
        Ok(theirs.map_err(belljar::Error::from)?.len())
    }

    /// Checks the limit again after adding a session, because other servers do not see sessions
    /// being created here.
    async fn check_count(&self, owner: &Owner) -> Result<(), ServiceError> {
        match owner.limits().sessions {
            Some(max) if self.count(owner).await? > max as usize => {
                Err(limit("sessions", max.into(), None))
            }
            _ => Ok(()),
        }
    }

    async fn remove(&self, owner: &str, id: &str, name: Option<&str>) -> Result<(), ServiceError> {
        if let Some(audit) = &self.audit {
            // A store does not say whether it has deleted anything.
            let _turn = self.removing.of(id).await;
            let was_there = !matches!(self.sessions.look(id).await, Ok(None));
            let removed = self.sessions.remove(id).await;
            // The record is deleted first; what follows may fail.
            let is_gone = removed.is_ok() || matches!(self.sessions.look(id).await, Ok(None));
            if was_there && is_gone {
                audit.write(Record::closed(owner, id));
            }
            removed?;
        } else {
            self.sessions.remove(id).await?;
        }
        self.owners().remove(id);
        self.forget_bytes(owner, id);
        self.remove_from_index(owner, id, name).await
    }
}
