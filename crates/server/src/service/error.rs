//! What the service could not do.

use std::time::Duration;

use belljar::{Blame, Error, Refusal};

/// The service could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// There is no such session, or it is somebody else's.
    #[error("there is no session {id}")]
    NoSession {
        /// The id or name that was asked for.
        id: String,
    },
    /// There is no such run, it is somebody else's, or its files are not kept any more.
    #[error("there is no run {id}, or its files are not kept any more")]
    NoRun {
        /// The id that was asked for.
        id: String,
    },
    /// Another session of the owner has that name.
    #[error("a session is named {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A name that a session cannot have.
    #[error("{name:?} is not a name: it has to be 1 to 64 letters, digits, - and _")]
    Name {
        /// The name.
        name: String,
    },
    /// A limit of the owner's key is reached.
    #[error("this key's limit is reached: {max} {what}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// How much of it there may be.
        max: u64,
        /// When it is worth trying again.
        retry_after: Option<Duration>,
    },
    /// The server is going away.
    #[error("the server is shutting down")]
    Stopping,
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl ServiceError {
    /// What went wrong, for programs: stable, and one of the engine's codes where it is the engine's error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) => error.code(),
            Self::NoSession { .. } => "session.not_found",
            Self::NoRun { .. } => "run.not_found",
            Self::NameTaken { .. } => "session.name_taken",
            Self::Name { .. } => "session.name",
            Self::Limit { .. } => "limit",
            Self::Stopping => "stopping",
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Engine(error) => error.blame(),
            Self::Stopping => Blame::Machine,
            _ => Blame::Caller,
        }
    }

    /// What to do about it, where something can be done. What only the host of an engine could do is not
    /// said to its clients.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSession { .. } => Some("list the sessions there are".into()),
            Self::NameTaken { .. } => Some("take that session, or another name".into()),
            Self::NoRun { .. } => Some("files of a run are kept for 10 minutes".into()),
            Self::Engine(_) | Self::Name { .. } | Self::Limit { .. } | Self::Stopping => None,
        }
    }
}
