//! Sessions of owners: made, found, listed, forked, removed.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use belljar::{LeaseEnd, RestoreOptions, Session, SessionOptions, SessionStatus};

use super::error::ServiceError;
use super::owner::{Owner, Work, limit};
use super::view::View;
use super::{Service, Shared};

/// A session of somebody. Cheap to clone.
#[derive(Clone)]
pub struct Held(Arc<Record>);

struct Record {
    session: Session,
    owner: String,
    name: Option<String>,
    origin: Origin,
    /// Bytes of its files, as they were last seen.
    stored: AtomicU64,
}

/// What is known of a session's beginning that the engine does not tell.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub created: SystemTime,
    /// What becomes of it when its lease is over.
    pub lease_end: Option<LeaseEnd>,
}

impl Origin {
    fn now(lease_end: Option<LeaseEnd>) -> Self {
        Self {
            created: SystemTime::now(),
            lease_end,
        }
    }
}

/// How a session starts.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct NewSession {
    /// What it is like.
    pub options: SessionOptions,
    /// A name by which its owner finds it as well as by its id.
    pub name: Option<String>,
    /// Whether its initial code is the server's, and no run of the owner's.
    pub(crate) is_servers: bool,
}

impl From<SessionOptions> for NewSession {
    fn from(options: SessionOptions) -> Self {
        Self {
            options,
            name: None,
            is_servers: false,
        }
    }
}

impl NewSession {
    /// Gives it a name.
    #[must_use]
    pub fn named(mut self, name: Option<String>) -> Self {
        self.name = name;
        self
    }

    /// Says that its initial code is the server's: it is no run of the owner's.
    #[must_use]
    pub(crate) fn of_server(mut self) -> Self {
        self.is_servers = true;
        self
    }
}

impl Held {
    pub(super) fn new(
        session: Session,
        owner: String,
        name: Option<String>,
        origin: Origin,
    ) -> Self {
        Self(Arc::new(Record {
            session,
            owner,
            name,
            origin,
            stored: AtomicU64::new(0),
        }))
    }

    pub(super) fn stored(&self) -> &AtomicU64 {
        &self.0.stored
    }

    pub(super) fn lease_end(&self) -> Option<LeaseEnd> {
        self.0.origin.lease_end
    }

    /// Its id, which nobody can guess.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.session.id()
    }

    /// Its name, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The name of the account that it belongs to.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.0.owner
    }

    /// When it was made, forked or first restored.
    #[must_use]
    pub fn created(&self) -> SystemTime {
        self.0.origin.created
    }

    /// The session, for everything but guest work: that goes through [`Service`], which counts it.
    #[must_use]
    pub fn session(&self) -> View<'_> {
        View(&self.0.session)
    }

    /// The session itself. What enters its guest is to be awaited in a turn.
    pub(super) fn guest(&self) -> &Session {
        &self.0.session
    }
}

impl Service {
    /// Starts a session of somebody.
    ///
    /// # Errors
    ///
    /// When they have as many as they may, or one of that name, or as for
    /// [`belljar::Runtime::session`].
    pub async fn create(&self, owner: &Owner, new: NewSession) -> Result<Held, ServiceError> {
        self.may_have_another(owner, new.name.as_deref())?;
        let lease_end = new.options.lease.map(|(_, then)| then);
        let session = self.begin_session(owner, new.options, new.is_servers).await?;
        self.hold(owner, session, new.name, Origin::now(lease_end))
    }

    /// Makes a session. Its initial code is a run of the owner's, and so are variables.
    pub(super) async fn begin_session(
        &self,
        owner: &Owner,
        options: SessionOptions,
        is_servers: bool,
    ) -> Result<Session, ServiceError> {
        let is_code = !options.start.code.is_empty() || !options.start.variables.is_empty();
        let work = match (is_code, is_servers) {
            (true, false) => Work::Run,
            (true, true) => Work::Question,
            (false, _) => Work::Setup,
        };
        self.work(owner, work, "start", self.shared.runtime.session(options)).await
    }

    /// Starts a session of somebody from a checkpoint.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create) and [`belljar::Runtime::restore`].
    pub async fn restore(
        &self,
        owner: &Owner,
        options: RestoreOptions,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        self.may_have_another(owner, name.as_deref())?;
        let session = self.shared.runtime.restore(options).await?;
        self.hold(owner, session, name, Origin::now(None))
    }

    /// Starts a session of somebody from another of theirs, as it is.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create) and [`Session::fork`].
    pub async fn fork(
        &self,
        owner: &Owner,
        held: &Held,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        self.may_have_another(owner, name.as_deref())?;
        let session = held.guest().fork().await?;
        self.hold(owner, session, name, Origin::now(held.lease_end()))
    }

    /// Goes back to the state of a session after a run, and keeps what is left behind as a session of its
    /// own.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create) and [`Session::rewind_keeping`].
    pub async fn rewind_keeping(
        &self,
        owner: &Owner,
        held: &Held,
        execution: u64,
    ) -> Result<Held, ServiceError> {
        self.may_have_another(owner, None)?;
        let session = held.guest().rewind_keeping(execution).await?;
        self.hold(owner, session, None, Origin::now(held.lease_end()))
    }

    /// Has a session that was made otherwise (from a snapshot, say) belong to somebody.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); the session is closed then.
    pub fn adopt(
        &self,
        owner: &Owner,
        session: Session,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        self.hold(owner, session, name, Origin::now(None))
    }

    /// Somebody's session of that id or name.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoSession`] when there is none, or it is somebody else's.
    pub fn find(&self, owner: &Owner, id: &str) -> Result<Held, ServiceError> {
        let mut sessions = self.shared.sessions();
        let found = match sessions.get(id) {
            Some(held) if held.owner() == owner.name() => Some(held.clone()),
            Some(_) => None,
            None => named(&sessions, owner, id),
        };
        match found {
            Some(held) if self.shared.is_open(&held) => Ok(held),
            Some(closed) => {
                sessions.remove(closed.id());
                Err(ServiceError::NoSession { id: id.into() })
            }
            None => Err(ServiceError::NoSession { id: id.into() }),
        }
    }

    /// All sessions of somebody, the oldest first.
    #[must_use]
    pub fn list(&self, owner: &Owner) -> Vec<Held> {
        let mut sessions = self.shared.sessions();
        sessions.retain(|_, held| self.shared.is_open(held));
        let mut theirs: Vec<Held> =
            sessions.values().filter(|held| held.owner() == owner.name()).cloned().collect();
        theirs.sort_by(|one, other| (one.created(), one.id()).cmp(&(other.created(), other.id())));
        theirs
    }

    /// Closes somebody's session.
    ///
    /// # Errors
    ///
    /// As for [`find`](Self::find).
    pub fn remove(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        let held = self.find(owner, id)?;
        self.shared.sessions().remove(held.id());
        // Nobody waits until its memory is given back, which takes milliseconds.
        let close = move || held.guest().close();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(close)),
            Err(_) => close(),
        }
        Ok(())
    }

    /// Closes the sessions that nobody has used for so long.
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

    /// Closes all sessions of everybody, and forgets all that is kept.
    pub fn close_all(&self) {
        self.clear_shelves();
        let all = self.shared.all();
        self.shared.sessions().clear();
        for held in all {
            held.guest().close();
        }
    }

    fn may_have_another(&self, owner: &Owner, name: Option<&str>) -> Result<(), ServiceError> {
        self.has_room(owner)?;
        self.shared.admit(&mut self.shared.sessions(), owner, name)
    }

    /// Enters a session. Others may have been made since it was asked whether there may be another.
    fn hold(
        &self,
        owner: &Owner,
        session: Session,
        name: Option<String>,
        origin: Origin,
    ) -> Result<Held, ServiceError> {
        let mut sessions = self.shared.sessions();
        if let Err(error) = self.shared.admit(&mut sessions, owner, name.as_deref()) {
            session.close();
            return Err(error);
        }
        let held = Held::new(session, owner.name().to_owned(), name, origin);
        sessions.insert(held.id().to_owned(), held.clone());
        drop(sessions);
        self.look(owner, &held);
        Ok(held)
    }
}

/// What a session may be called, as a regular expression.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";

pub(super) fn check_name(name: &str) -> Result<(), ServiceError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(ServiceError::Name { name: name.into() });
    }
    Ok(())
}

fn named(sessions: &HashMap<String, Held>, owner: &Owner, name: &str) -> Option<Held> {
    let is_it = |held: &&Held| held.owner() == owner.name() && held.name() == Some(name);
    sessions.values().find(is_it).cloned()
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

    /// Whether somebody may have another session, of that name.
    fn admit(
        &self,
        sessions: &mut HashMap<String, Held>,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<(), ServiceError> {
        if self.is_stopping() {
            return Err(ServiceError::Stopping);
        }
        if let Some(name) = name {
            check_name(name)?;
            if let Some(taken) = named(sessions, owner, name) {
                if self.is_open(&taken) {
                    return Err(ServiceError::NameTaken { name: name.into() });
                }
                sessions.remove(taken.id());
            }
        }
        let Some(max) = owner.limits().sessions else {
            return Ok(());
        };
        sessions.retain(|_, held| held.owner() != owner.name() || self.is_open(held));
        let theirs = sessions.values().filter(|held| held.owner() == owner.name()).count();
        if theirs >= max as usize {
            return Err(limit("sessions", max.into(), None));
        }
        Ok(())
    }

    /// Whether the engine has it still: the lease may have closed it.
    fn is_open(&self, held: &Held) -> bool {
        self.runtime.sessions().get(held.id()).is_ok()
    }
}
