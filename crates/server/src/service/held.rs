//! A session that is held for somebody, and how one is asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use belljar::session::LeaseEnd;
use belljar::{Session, SessionOptions};

use super::error::ServiceError;
use super::view::View;

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
    /// Whether it is for this process alone, also where there is a store.
    pub(crate) is_here: bool,
}

impl From<SessionOptions> for NewSession {
    fn from(options: SessionOptions) -> Self {
        Self {
            options,
            name: None,
            is_servers: false,
            is_here: false,
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

    /// Has it for this process alone, also where there is a store.
    #[must_use]
    pub(crate) fn here(mut self) -> Self {
        self.is_here = true;
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

    /// The session, for everything but guest work: that goes through [`Service`](super::Service), which counts it.
    #[must_use]
    pub fn session(&self) -> View<'_> {
        View(&self.0.session)
    }

    /// The session itself. What enters its guest is to be awaited in a turn.
    pub(super) fn guest(&self) -> &Session {
        &self.0.session
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

pub(super) fn no_session(id: &str) -> ServiceError {
    ServiceError::NoSession { id: id.into() }
}
