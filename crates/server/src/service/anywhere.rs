//! Sessions that live in a store, so that every server that has it finds them: by owner, as the others.
//!
//! The record of a session says whose it is. Two folders beside the sessions find it from there: `owners`
//! has what is whose, and `names` what is called how.

mod about;
mod at_hand;
mod documents;
mod listing;
mod names;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use belljar::{LeaseEnd, RestoreOptions, Session, StoredSessions};
use serde_json::Value;

use self::about::{About, millis};
pub(crate) use self::at_hand::{AtHand, Use};
pub(crate) use self::documents::Document;
pub(crate) use self::listing::Listed;
use self::names::owner_folder;
use super::Service;
use super::error::ServiceError;
use super::owner::{Owner, limit};
use super::sessions::{Held, NewSession, check_name};

/// The store's side of a service.
pub(crate) struct Anywhere {
    pub(super) sessions: StoredSessions,
    /// Whose a session is, which never changes.
    owners: Mutex<HashMap<String, String>>,
}

impl Service {
    /// Has sessions live in a store, where every server finds them that has the same: those that are made
    /// with [`start`](Self::start). To be said before there are any.
    #[must_use]
    pub fn stored(mut self, sessions: StoredSessions) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.anywhere = Some(Anywhere {
                sessions,
                owners: Mutex::default(),
            });
        }
        self
    }

    pub(super) fn anywhere(&self) -> Option<&Anywhere> {
        self.shared.anywhere.as_ref()
    }

    /// What this server has done as one of several.
    #[must_use]
    pub fn stored_sessions(&self) -> Option<&StoredSessions> {
        self.anywhere().map(|anywhere| &anywhere.sessions)
    }

    /// Starts a session of somebody where all servers find it that share a store; without a store, as
    /// [`create`](Self::create) does.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), and when the store fails.
    pub async fn start(&self, owner: &Owner, mut new: NewSession) -> Result<Held, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return self.create(owner, new).await;
        };
        anywhere.may_have_another(self, owner, new.name.as_deref()).await?;
        // The server looks after it, wherever the session is.
        let lease = new.options.lease.take();
        let session = self.begin_session(owner, new.options, new.is_servers).await?;
        anywhere.add(owner, session, new.name, lease, None).await
    }

    /// Starts a session of somebody from a checkpoint, where [`start`](Self::start) does.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`belljar::Runtime::restore`].
    pub(crate) async fn open(
        &self,
        owner: &Owner,
        options: RestoreOptions,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return self.restore(owner, options, name).await;
        };
        anywhere.may_have_another(self, owner, name.as_deref()).await?;
        let session = self.shared.runtime.restore(options).await?;
        anywhere.add(owner, session, name, None, None).await
    }

    /// Starts a session of somebody from another of theirs, where that one is.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::fork`].
    pub(crate) async fn fork_of(
        &self,
        owner: &Owner,
        at: &AtHand,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        let (Some(anywhere), Some(about)) = (self.anywhere(), &at.about) else {
            return self.fork(owner, &at.held, name).await;
        };
        anywhere.may_have_another(self, owner, name.as_deref()).await?;
        let session = at.held.guest().fork().await?;
        anywhere.add(owner, session, name, about.lease_left(), about.note.clone()).await
    }

    /// Goes back to an earlier state of a session, and keeps what is left behind as one of its own, where
    /// that one is.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::rewind_keeping`].
    pub(crate) async fn rewind_keeping_at(
        &self,
        owner: &Owner,
        at: &AtHand,
        execution: u64,
    ) -> Result<Held, ServiceError> {
        let (Some(anywhere), Some(about)) = (self.anywhere(), &at.about) else {
            return self.rewind_keeping(owner, &at.held, execution).await;
        };
        anywhere.may_have_another(self, owner, None).await?;
        let session = at.held.guest().rewind_keeping(execution).await?;
        anywhere.add(owner, session, None, about.lease_left(), None).await
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
                let about = anywhere.listed(owner, &id).await?.map(|listed| listed.about);
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
    async fn add(
        &self,
        owner: &Owner,
        session: Session,
        name: Option<String>,
        lease: Option<(Duration, LeaseEnd)>,
        note: Option<Value>,
    ) -> Result<Held, ServiceError> {
        let id = session.id().to_owned();
        let now = millis(SystemTime::now());
        let about = About {
            owner: owner.name().to_owned(),
            name: name.clone(),
            created: now,
            labels: session.info().labels,
            lease: lease.map(|(time, then)| {
                (now.saturating_add(time.as_millis() as u64), then == LeaseEnd::Suspend)
            }),
            note,
        };
        if let Err(error) = self.enter(owner, &id, name.as_deref()).await {
            session.close();
            return Err(error);
        }
        let held = about.held(session.clone());
        if let Err(error) = self.sessions.add(session, about.text()).await {
            // What leads to no session leads nowhere; it is tidied up if the store can be reached.
            let _ = self.leave(owner.name(), &id, name.as_deref()).await;
            return Err(error.into());
        }
        self.remember(&id, owner.name());
        Ok(held)
    }

    async fn may_have_another(
        &self,
        service: &Service,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<(), ServiceError> {
        service.has_room(owner)?;
        if service.shared.is_stopping() {
            return Err(ServiceError::Stopping);
        }
        if let Some(name) = name {
            check_name(name)?;
            if self.named(owner, name).await?.is_some() {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        if let Some(max) = owner.limits().sessions {
            let theirs = self.sessions.store().list(&owner_folder(owner.name())).await;
            if theirs.map_err(belljar::Error::from)?.len() >= max as usize {
                return Err(limit("sessions", max.into(), None));
            }
        }
        Ok(())
    }

    async fn remove(&self, owner: &str, id: &str, name: Option<&str>) -> Result<(), ServiceError> {
        self.sessions.remove(id).await?;
        self.owners().remove(id);
        self.leave(owner, id, name).await
    }
}

fn no_session(id: &str) -> ServiceError {
    ServiceError::NoSession { id: id.into() }
}
