//! Sessions of owners: create, find and remove.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use belljar::Session;
use belljar::session::{RestoreOptions, SessionStatus};

use super::alone::alone;
use super::anywhere::{AtHand, Making, NewAbout};
use super::error::ServiceError;
use super::held::{Held, NewSession, Origin, check_name, no_session};
use super::owner::{Owner, Work, limit};
use super::place::Place;
use super::{Service, Shared};

impl Service {
    /// Starts a session: in the store if there is a store and [`NewSession`] allows it, else in
    /// this process.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit or has a session of this name, as for
    /// [`belljar::Runtime::session`], and if the store fails.
    pub async fn start(&self, owner: &Owner, new: NewSession) -> Result<Held, ServiceError> {
        let NewSession {
            mut options,
            name,
            is_servers,
            is_here,
        } = new;
        let is_stored = self.anywhere().is_some() && !is_here;
        let making = Making {
            name,
            lease_end: options.lease.map(|(_, then)| then),
            // The servers enforce the lease themselves, because the session may be on any server.
            stored: is_stored.then(|| NewAbout::leased(options.lease.take())),
        };
        let is_code = !options.start.code.is_empty() || !options.start.variables.is_empty();
        let work = match (is_code, is_servers) {
            (true, false) => Work::Run,
            (true, true) => Work::Question,
            (false, _) => Work::Setup,
        };
        let start = Box::pin(self.shared.runtime.session(options));
        let start = self.work(owner, work, "start", start);
        self.make(owner, making, start).await
    }

    /// Starts a session from a checkpoint, in the same place as [`start`](Self::start).
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
        let making = Making {
            name,
            lease_end: None,
            stored: self.anywhere().map(|_| NewAbout::default()),
        };
        let restore = async { Ok(self.shared.runtime.restore(options).await?) };
        Box::pin(self.make(owner, making, restore)).await
    }

    /// Forks a session. The fork is in the same place.
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
        let fork = async { Ok(at.guest().fork().await?) };
        self.make(owner, at.another(name), fork).await
    }

    /// Rewinds a session, and keeps the discarded state as another session in the same place.
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
        let rewind = async { Ok(at.guest().rewind_keeping(execution).await?) };
        Box::pin(self.make(owner, at.another(None), rewind)).await
    }

    /// Creates and registers a session. Its slot is reserved first.
    async fn make(
        &self,
        owner: &Owner,
        making: Making,
        session: impl Future<Output = Result<Session, ServiceError>>,
    ) -> Result<Held, ServiceError> {
        let place = self.place(owner, making.name.as_deref(), making.stored.is_some());
        let place = Box::pin(place).await?;
        // Boxed, because the future of a run is large.
        let session = Box::pin(session).await?;
        let (service, owner) = (self.clone(), owner.clone());
        alone(async move { service.add(&owner, session, making, place).await }).await
    }

    /// Registers a new session in its slot.
    async fn add(
        &self,
        owner: &Owner,
        session: Session,
        making: Making,
        place: Place,
    ) -> Result<Held, ServiceError> {
        let held = match (self.anywhere(), making) {
            (
                Some(anywhere),
                Making {
                    name,
                    stored: Some(about),
                    ..
                },
            ) => anywhere.add(owner, session, name, about, place).await?,
            (_, making) => place.becomes(async { self.hold(owner, session, making) }).await?,
        };
        self.look(owner, &held);
        Ok(held)
    }

    /// Reserves a slot for an owner's session with this name. Sessions being created have slots,
    /// too, so that concurrent creations cannot exceed the limit.
    async fn place(
        &self,
        owner: &Owner,
        name: Option<&str>,
        is_stored: bool,
    ) -> Result<Place, ServiceError> {
        if self.shared.is_stopping() {
            return Err(ServiceError::Stopping);
        }
        self.has_room(owner).await?;
        let anywhere = self.anywhere();
        if let Some(name) = name {
            check_name(name)?;
            let is_taken = match anywhere.filter(|_| is_stored) {
                Some(anywhere) => anywhere.named(owner, name).await?.is_some(),
                None => self.shared.named(&self.shared.sessions(), owner, name).is_some(),
            };
            if is_taken {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        let Some(max) = owner.limits().sessions else {
            return Ok(Place::of(owner));
        };
        let _alone = owner.alone().await;
        let here = self.shared.of_owner(owner).len();
        let stored = match anywhere {
            Some(anywhere) => anywhere.count(owner).await?,
            None => 0,
        };
        if here + stored + owner.making().load(Ordering::Acquire) >= max as usize {
            return Err(limit("sessions", max.into(), None));
        }
        Ok(Place::of(owner))
    }

    /// Registers a session of this process. Another may have taken its name meanwhile.
    fn hold(&self, owner: &Owner, session: Session, making: Making) -> Result<Held, ServiceError> {
        let mut sessions = self.shared.sessions();
        let taken = making.name.clone();
        let taken = taken.filter(|name| self.shared.named(&sessions, owner, name).is_some());
        let refused = match taken {
            _ if self.shared.is_stopping() => Some(ServiceError::Stopping),
            Some(name) => Some(ServiceError::NameTaken { name }),
            None => None,
        };
        if let Some(refused) = refused {
            session.close();
            return Err(refused);
        }
        let origin = Origin {
            created: SystemTime::now(),
            lease_end: making.lease_end,
        };
        let held = Held::new(session, owner.name().to_owned(), making.name, origin);
        sessions.insert(held.id().to_owned(), held.clone());
        Ok(held)
    }

    /// Finds an owner's session of this process by id or name.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::NoSession`] if the session does not exist or belongs to another
    /// owner.
    pub(crate) fn find(&self, owner: &Owner, id: &str) -> Result<Held, ServiceError> {
        let mut sessions = self.shared.sessions();
        let found = match sessions.get(id) {
            Some(held) if held.owner() == owner.name() => Some(held.clone()),
            Some(_) => None,
            None => self.shared.named(&sessions, owner, id),
        };
        match found {
            Some(held) if self.shared.is_open(&held) => Ok(held),
            Some(closed) => {
                sessions.remove(closed.id());
                Err(no_session(id))
            }
            None => Err(no_session(id)),
        }
    }

    /// Closes an owner's session of this process.
    ///
    /// # Errors
    ///
    /// Fails if the owner has no such session.
    pub fn remove(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        let held = self.find(owner, id)?;
        self.shared.sessions().remove(held.id());
        // Freeing its memory takes milliseconds, so the caller does not wait.
        let close = move || held.guest().close();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(close)),
            Err(_) => close(),
        }
        Ok(())
    }

    /// Closes sessions that were not used for `idle`.
    pub(super) fn sweep_sessions(&self, idle: Duration) {
        let mut sessions = self.shared.sessions();
        sessions.retain(|_, held| self.shared.is_open(held));
        let is_over = |held: &Held| {
            let info = held.session().info();
            info.status != SessionStatus::Running && info.idle_seconds > idle.as_secs_f64()
        };
        let over: Vec<Held> =
            sessions.extract_if(|_, held| is_over(held)).map(|(_, held)| held).collect();
        drop(sessions);
        for held in over {
            held.guest().close();
        }
    }

    /// Closes all sessions of all owners, and clears all caches.
    pub fn close_all(&self) {
        self.clear_shelves();
        let all = self.shared.all();
        self.shared.sessions().clear();
        for held in all {
            held.guest().close();
        }
    }
}

impl Shared {
    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Held> {
        let mut sessions = self.sessions();
        sessions.retain(|_, held| self.is_open(held));
        sessions.values().cloned().collect()
    }

    /// An owner's sessions of this process.
    pub(super) fn of_owner(&self, owner: &Owner) -> Vec<Held> {
        let mut sessions = self.sessions();
        sessions.retain(|_, held| self.is_open(held));
        sessions.values().filter(|held| held.owner() == owner.name()).cloned().collect()
    }

    fn named(&self, sessions: &HashMap<String, Held>, owner: &Owner, name: &str) -> Option<Held> {
        let is_it = |held: &&Held| held.owner() == owner.name() && held.name() == Some(name);
        sessions.values().filter(|held| self.is_open(held)).find(is_it).cloned()
    }

    /// Whether the engine still has the session: its lease may have closed it.
    fn is_open(&self, held: &Held) -> bool {
        self.runtime.sessions().get(held.id()).is_ok()
    }
}
