//! Sessions that live in a store, so that every server that has it finds them: by owner, as the others.
//!
//! The record of a session says whose it is. Two folders beside the sessions find it from there: `owners`
//! has what is whose, and `names` what is called how.

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

/// The store's side of a service.
pub(crate) struct Anywhere {
    pub(super) sessions: StoredSessions,
    /// Whose a session is, which never changes.
    owners: Mutex<HashMap<String, String>>,
    /// Bytes of the files in the sessions of those whose are limited.
    bytes: Mutex<HashMap<String, Counted>>,
}

impl Service {
    pub(super) fn anywhere(&self) -> Option<&Anywhere> {
        self.shared.anywhere.as_ref()
    }

    /// What this server has done as one of several.
    #[must_use]
    pub fn stored_sessions(&self) -> Option<&StoredSessions> {
        self.anywhere().map(|anywhere| &anywhere.sessions)
    }

    /// Interrupts what runs in somebody's session, wherever that is; whether something did.
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

    /// Removes somebody's session, wherever it is.
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

    /// Waits until everything is in the store that was run here.
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

    /// Enters a session that was made.
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
                // What leads to no session leads nowhere; it is tidied up if the store can be reached.
                let _ = self.leave(owner.name(), &id, name.as_deref()).await;
                Err(error)
            }
        }
    }

    /// How many sessions of somebody are entered.
    pub(super) async fn count(&self, owner: &Owner) -> Result<usize, ServiceError> {
        let theirs = self.sessions.store().list(&owner_folder(owner.name())).await;
        Ok(theirs.map_err(belljar::Error::from)?.len())
    }

    /// Looks again once another is entered: other servers do not know of those that are being made here.
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
