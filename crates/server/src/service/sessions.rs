//! Sessions of owners: create, find and remove.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use belljar::Session;
use belljar::session::{RestoreOptions, SessionStatus};

use super::error::ServiceError;
use super::guest_work::detached;
use super::owned_session::{Lineage, NewSession, Origin, OwnedSession, check_name, no_session};
use super::owner::{Owner, Work, limit};
use super::session_slot::SessionSlot;
use super::session_store::{ClaimedSession, NewRecord, SessionPlan};
use super::{Service, Shared};
use crate::audit::{Event, Record};
use crate::lock::lock;

impl Service {
    /// Starts a session: in the store if there is a store and [`NewSession`] allows it, else in
    /// this process.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit or has a session of this name, as for
    /// [`belljar::Runtime::session`], and if the store fails.
    pub async fn start(
        &self,
        owner: &Owner,
        new: NewSession,
    ) -> Result<OwnedSession, ServiceError> {
        let NewSession {
            mut options,
            name,
            is_server_code,
            is_local,
        } = new;
        let is_stored = self.session_store().is_some() && !is_local;
        let plan = SessionPlan {
            name,
            lineage: None,
            lease_end: options.lease.map(|(_, then)| then),
            // The servers enforce the lease themselves, because the session may be on any server.
            stored: is_stored.then(|| NewRecord::leased(options.lease.take())),
        };
        let is_code = !options.start.code.is_empty() || !options.start.variables.is_empty();
        let code = self.audit().map(|_| options.start.code.clone()).filter(|code| !code.is_empty());
        let work = match (is_code, is_server_code) {
            (true, false) => Work::Run,
            (true, true) => Work::Query,
            (false, _) => Work::Setup,
        };
        let start = Box::pin(self.shared.runtime.session(options));
        let start = self.work_on(owner, work, "start", code.as_deref(), start);
        self.make(owner, plan, async { Ok((start.await?, None)) }).await
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
    ) -> Result<OwnedSession, ServiceError> {
        let plan = SessionPlan {
            name,
            lineage: None,
            lease_end: None,
            stored: self.session_store().map(|_| NewRecord::default()),
        };
        let restore = async { Ok((self.shared.runtime.restore(options).await?, None)) };
        Box::pin(self.make(owner, plan, restore)).await
    }

    /// Forks a session. The fork is in the same place.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::fork`].
    pub(crate) async fn fork_of(
        &self,
        owner: &Owner,
        at: &ClaimedSession,
        name: Option<String>,
    ) -> Result<OwnedSession, ServiceError> {
        let fork = async {
            let fork = at.guest().fork().await?;
            // A run that had begun ended before the fork was made, and counts.
            let lineage = at.forked_after(fork.execution().await);
            Ok((fork, Some(lineage)))
        };
        self.make(owner, at.derive_plan(name), fork).await
    }

    /// Rewinds a session, and keeps the discarded state as another session in the same place.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::rewind_keeping`].
    pub(crate) async fn rewind_keeping_at(
        &self,
        owner: &Owner,
        at: &ClaimedSession,
        execution: u64,
    ) -> Result<OwnedSession, ServiceError> {
        let rewind = async {
            let kept = at.guest().rewind_keeping(execution).await?;
            Ok((kept, Some(at.forked_after(execution))))
        };
        Box::pin(self.make(owner, at.derive_plan(None), rewind)).await
    }

    /// Creates and registers a session of this lineage. Its slot is reserved first.
    async fn make(
        &self,
        owner: &Owner,
        mut plan: SessionPlan,
        session: impl Future<Output = Result<(Session, Option<Lineage>), ServiceError>>,
    ) -> Result<OwnedSession, ServiceError> {
        let slot = self.slot(owner, plan.name.as_deref(), plan.stored.is_some());
        let slot = Box::pin(slot).await?;
        // Boxed, because the future of a run is large.
        let (session, lineage) = Box::pin(session).await?;
        plan.lineage = lineage;
        let (service, owner) = (self.clone(), owner.clone());
        detached(async move { service.add(&owner, session, plan, slot).await }).await
    }

    /// Registers a new session in its slot.
    async fn add(
        &self,
        owner: &Owner,
        session: Session,
        plan: SessionPlan,
        slot: SessionSlot,
    ) -> Result<OwnedSession, ServiceError> {
        let session = match (self.session_store(), plan) {
            (
                Some(session_store),
                SessionPlan {
                    name,
                    lineage,
                    stored: Some(record),
                    ..
                },
            ) => session_store.add(owner, session, (name, lineage), record, slot).await?,
            (_, plan) => slot.register(async { self.hold(owner, session, plan) }).await?,
        };
        self.measure(owner, &session);
        if let Some(audit) = self.audit() {
            audit.write(Record {
                session: Some(session.id().to_owned()),
                parent: session.lineage().map(|lineage| lineage.parent.clone()),
                image: Some(session.view().info().image),
                ..Record::of(Event::SessionCreated, owner.name(), owner.caller())
            });
        }
        Ok(session)
    }

    /// Reserves a slot for an owner's session with this name. Sessions being created have slots,
    /// too, so that concurrent creations cannot exceed the limit.
    async fn slot(
        &self,
        owner: &Owner,
        name: Option<&str>,
        is_stored: bool,
    ) -> Result<SessionSlot, ServiceError> {
        if self.shared.is_stopping() {
            return Err(ServiceError::Stopping);
        }
        self.check_quota(owner).await?;
        let session_store = self.session_store();
        if let Some(name) = name {
            check_name(name)?;
            let is_taken = match session_store.filter(|_| is_stored) {
                Some(session_store) => session_store.named(owner, name).await?.is_some(),
                None => self.shared.named(&self.shared.sessions(), owner, name).is_some(),
            };
            if is_taken {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        let Some(max) = owner.limits().sessions else {
            return Ok(SessionSlot::of(owner));
        };
        let _alone = owner.lock_count().await;
        let here = self.shared.of_owner(owner).len();
        let stored = match session_store {
            Some(session_store) => session_store.count(owner).await?,
            None => 0,
        };
        if here + stored + owner.creating().load(Ordering::Acquire) >= max as usize {
            return Err(limit("sessions", max.into(), None));
        }
        Ok(SessionSlot::of(owner))
    }

    /// Registers a session of this process. Another may have taken its name meanwhile.
    fn hold(
        &self,
        owner: &Owner,
        session: Session,
        plan: SessionPlan,
    ) -> Result<OwnedSession, ServiceError> {
        let mut sessions = self.shared.sessions();
        let taken = plan.name.clone();
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
            lineage: plan.lineage,
            lease_end: plan.lease_end,
        };
        let session = OwnedSession::new(session, owner.name().to_owned(), plan.name, origin);
        sessions.insert(session.id().to_owned(), session.clone());
        Ok(session)
    }

    /// Finds an owner's session of this process by id or name.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::NoSession`] if the session does not exist or belongs to another
    /// owner.
    pub(crate) fn find(&self, owner: &Owner, id: &str) -> Result<OwnedSession, ServiceError> {
        let mut sessions = self.shared.sessions();
        let found = match sessions.get(id) {
            Some(session) if session.owner() == owner.name() => Some(session.clone()),
            Some(_) => None,
            None => self.shared.named(&sessions, owner, id),
        };
        match found {
            Some(session) if self.shared.is_open(&session) => Ok(session),
            Some(closed) => {
                sessions.remove(closed.id());
                self.shared.note_closed(&closed);
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
        let session = self.find(owner, id)?;
        if self.shared.sessions().remove(session.id()).is_some() {
            self.shared.note_closed(&session);
        }
        // Freeing its memory takes milliseconds, so the caller does not wait.
        let close = move || session.guest().close();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(close)),
            Err(_) => close(),
        }
        Ok(())
    }

    /// Closes sessions that were not used for `idle`.
    pub(super) fn sweep_sessions(&self, idle: Duration) {
        let mut sessions = self.shared.sessions();
        self.shared.forget_closed(&mut sessions);
        let is_over = |session: &OwnedSession| {
            let info = session.view().info();
            info.status != SessionStatus::Running && info.idle_seconds > idle.as_secs_f64()
        };
        let over: Vec<OwnedSession> = sessions
            .extract_if(|_, session| is_over(session))
            .map(|(_, session)| session)
            .collect();
        drop(sessions);
        for session in over {
            self.shared.note_closed(&session);
            session.guest().close();
        }
    }

    /// Closes all sessions of all owners, and clears all caches.
    pub fn close_all(&self) {
        self.clear_caches();
        let all = self.shared.all();
        self.shared.sessions().clear();
        for session in all {
            session.guest().close();
        }
    }
}

impl Shared {
    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<String, OwnedSession>> {
        lock(&self.sessions)
    }

    pub(super) fn all(&self) -> Vec<OwnedSession> {
        let mut sessions = self.sessions();
        self.forget_closed(&mut sessions);
        sessions.values().cloned().collect()
    }

    /// Forgets sessions that their leases have closed.
    fn forget_closed(&self, sessions: &mut HashMap<String, OwnedSession>) {
        sessions.retain(|_, session| {
            let is_open = self.is_open(session);
            if !is_open {
                self.note_closed(session);
            }
            is_open
        });
    }

    fn note_closed(&self, session: &OwnedSession) {
        if let Some(audit) = &self.audit {
            audit.write(Record::closed(session.owner(), session.id()));
        }
    }

    /// An owner's sessions of this process.
    pub(super) fn of_owner(&self, owner: &Owner) -> Vec<OwnedSession> {
        let mut sessions = self.sessions();
        self.forget_closed(&mut sessions);
        sessions.values().filter(|session| session.owner() == owner.name()).cloned().collect()
    }

    fn named(
        &self,
        sessions: &HashMap<String, OwnedSession>,
        owner: &Owner,
        name: &str,
    ) -> Option<OwnedSession> {
        let is_it = |session: &&OwnedSession| {
            session.owner() == owner.name() && session.name() == Some(name)
        };
        sessions.values().filter(|session| self.is_open(session)).find(is_it).cloned()
    }

    /// Whether the engine still has the session: its lease may have closed it.
    fn is_open(&self, session: &OwnedSession) -> bool {
        self.runtime.sessions().get(session.id()).is_ok()
    }
}
