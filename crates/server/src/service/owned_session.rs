//! A session with its owner, and the options for creating sessions.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use belljar::session::LeaseEnd;
use belljar::{Session, SessionOptions};
use serde::{Deserialize, Serialize};

use super::error::ServiceError;
use super::view::View;

/// A session of an owner. Clones share the same session.
#[derive(Clone)]
pub struct OwnedSession(Arc<Record>);

struct Record {
    session: Session,
    owner: String,
    name: Option<String>,
    origin: Origin,
    /// Size of its files in bytes when last measured.
    stored: AtomicU64,
}

/// Properties of a session that the engine does not record.
#[derive(Clone)]
pub(super) struct Origin {
    pub created: SystemTime,
    /// The session that it was forked from, if any.
    pub lineage: Option<Lineage>,
    /// Action when the lease expires.
    pub lease_end: Option<LeaseEnd>,
}

/// The origin of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    /// The first session of the family.
    pub family: String,
    /// The forked session.
    pub parent: String,
    /// The run of the forked session after which it was forked.
    pub execution: u64,
}

/// Options for creating a session.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct NewSession {
    /// Options of the engine.
    pub options: SessionOptions,
    /// A name that works in place of the id.
    pub name: Option<String>,
    /// Whether its initial code belongs to the server and is not counted as the owner's run.
    pub(crate) is_server_code: bool,
    /// Whether it exists only in this process even if there is a store.
    pub(crate) is_local: bool,
}

impl From<SessionOptions> for NewSession {
    fn from(options: SessionOptions) -> Self {
        Self {
            options,
            name: None,
            is_server_code: false,
            is_local: false,
        }
    }
}

impl NewSession {
    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: Option<String>) -> Self {
        self.name = name;
        self
    }

    /// Keeps the session in this process even if there is a store.
    #[must_use]
    pub(crate) fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// Marks its initial code as the server's, which is not counted as the owner's run.
    #[must_use]
    pub(crate) fn server_code(mut self) -> Self {
        self.is_server_code = true;
        self
    }
}

impl OwnedSession {
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

    pub(super) fn lineage(&self) -> Option<&Lineage> {
        self.0.origin.lineage.as_ref()
    }

    /// The lineage of its fork after a run.
    pub(super) fn forked_after(&self, execution: u64) -> Lineage {
        let family = self.lineage().map_or(self.id(), |lineage| &lineage.family);
        Lineage {
            family: family.to_owned(),
            parent: self.id().to_owned(),
            execution,
        }
    }

    /// Its id, which cannot be guessed.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.session.id()
    }

    /// Its name, if set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The name of its owner's account.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.0.owner
    }

    /// Time at which it was created, forked or first restored.
    #[must_use]
    pub fn created(&self) -> SystemTime {
        self.0.origin.created
    }

    /// The session, except for operations that run guest code: those go through
    /// [`Service`](super::Service), which accounts for them.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View(&self.0.session)
    }

    /// The session itself. Operations that enter the guest must run inside admitted work.
    pub(super) fn guest(&self) -> &Session {
        &self.0.session
    }
}

/// Regular expression of valid session names.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";

pub(super) fn check_name(name: &str) -> Result<(), ServiceError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(ServiceError::Name { name: name.into() });
    }
    Ok(())
}

pub(crate) fn no_session(id: &str) -> ServiceError {
    ServiceError::NoSession { id: id.into() }
}
