//! Sessions in a store, available to all its servers.
//!
//! A session's record contains its owner. Two indexes beside the sessions find records: `owners` by
//! owner, and `names` by name.

mod about;
mod at_hand;
mod bytes;
mod documents;
mod listing;
mod names;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::SystemTime;

use belljar::Session;
use belljar::cluster::StoredSessions;
use belljar::session::LeaseEnd;

use self::about::{About, millis};
pub(super) use self::about::{Making, NewAbout};
pub(crate) use self::at_hand::{AtHand, Use};
use self::bytes::Counted;
pub(super) use self::bytes::bytes_of;
pub(crate) use self::documents::Document;
pub use self::listing::Listed;
use self::names::owner_folder;
use super::Service;
use super::error::ServiceError;
use super::held::Held;
use super::owner::{Owner, limit};
use super::place::Place;

/// The sessions of a store.
pub(crate) struct Anywhere {
    pub(super) sessions: StoredSessions,
    /// Owners of sessions, which never change, as a cache.
    owners: Mutex<HashMap<String, String>>,
    /// Sizes of sessions' files, for owners with a limit.
    bytes: Mutex<HashMap<String, Counted>>,
}

impl Service {
    pub(super) fn anywhere(&self) -> Option<&Anywhere> {
        self.shared.anywhere.as_ref()
    }

    /// The store's sessions and their counters.
    #[must_use]
    pub fn stored_sessions(&self) -> Option<&StoredSessions> {
        self.anywhere().map(|anywhere| &anywhere.sessions)
    }

    /// Interrupts the run in an owner's session, on any server. Returns whether a run was in
    /// progress.
    ///
    /// # Errors
    ///
    /// As for [`at_hand`](Self::at_hand), without waiting.
    pub(crate) async fn interrupt(&self, owner: &Owner, id: &str) -> Result<bool, ServiceError> {
        match (self.anywhere(), self.find(owner, id)) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                let id = anywhere.id_of(owner, id).await?;
                Ok(anywhere.sessions.interrupt(&id).await?)
            }
            (_, found) => Ok(found?.guest().interrupt()),
        }
    }

    /// Removes an owner's session, on any server.
    ///
    /// # Errors
    ///
    /// As for [`at_hand`](Self::at_hand), without waiting.
    pub(crate) async fn end(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        match (self.anywhere(), self.remove(owner, id)) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                let id = anywhere.id_of(owner, id).await?;
                let about = anywhere.find(owner, &id).await?.map(|found| found.about);
                let name = about.and_then(|about| about.name);
                anywhere.remove(owner.name(), &id, name.as_deref()).await
            }
            (_, removed) => removed,
        }
    }

    /// Waits until all finished runs are written to the store.
    pub async fn settled(&self) {
        if let Some(anywhere) = self.anywhere() {
            anywhere.sessions.settled().await;
        }
    }
}

impl Anywhere {
    pub(super) fn new(sessions: StoredSessions) -> Self {
        Self {
            sessions,
            owners: Mutex::default(),
            bytes: Mutex::default(),
        }
    }

    /// Adds a new session to the store.
    pub(super) async fn add(
        &self,
        owner: &Owner,
        session: Session,
        name: Option<String>,
        new: NewAbout,
        place: Place,
    ) -> Result<Held, ServiceError> {
        let id = session.id().to_owned();
        let now = millis(SystemTime::now());
        let about = About {
            owner: owner.name().to_owned(),
            name: name.clone(),
            created: now,
            labels: session.info().labels,
            lease: new.lease.map(|(time, then)| {
                (now.saturating_add(time.as_millis() as u64), then == LeaseEnd::Suspend)
            }),
            note: new.note,
            bytes: None,
        };
        let entered = async {
            place.becomes(self.enter(owner, &id, name.as_deref())).await?;
            self.check_count(owner).await
        };
        let held = about.held(session.clone());
        let added = match entered.await {
            Ok(()) => self.sessions.add(session, about.text()).await.map_err(ServiceError::from),
            Err(error) => {
                session.close();
                Err(error)
            }
        };
        match added {
            Ok(_) => {
                self.remember(&id, owner.name());
                Ok(held)
            }
            Err(error @ ServiceError::NameTaken { .. }) => Err(error),
            Err(error) => {
                // Stale index entries are harmless; remove them if the store is available.
                let _ = self.leave(owner.name(), &id, name.as_deref()).await;
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
        self.sessions.remove(id).await?;
        self.owners().remove(id);
        self.forget_bytes(owner, id);
        self.leave(owner, id, name).await
    }
}
