//! What the service could not do.

use std::time::Duration;

use belljar::Error;
use belljar::error::{Blame, PathProblem, SessionError};
use belljar::request::Refusal;

/// What kind of failure an error is. Each interface has one status for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Too much is under way, or the session is in use on another server: it passes by itself.
    Busy,
    /// The server is shutting down.
    Stopping,
    /// A limit of the owner's key is reached.
    Limit,
    /// The request can never succeed as it is.
    Invalid,
    /// What the request names does not exist, or belongs to somebody else.
    NotFound,
    /// The state of what the request names does not allow it.
    Conflict,
    /// No room for more files.
    Full,
    /// The machine or the store fails.
    Unavailable,
    /// The engine fails.
    Failed,
}

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
    /// The process holds as much memory as it may.
    #[error("the server has no memory for anything new now")]
    Memory,
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
            Self::Memory => "memory_budget",
            Self::Stopping => "stopping",
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Engine(error) => class(error),
            Self::NoSession { .. } | Self::NoRun { .. } => Class::NotFound,
            Self::NameTaken { .. } => Class::Conflict,
            Self::Name { .. } => Class::Invalid,
            Self::Limit { .. } => Class::Limit,
            Self::Memory => Class::Busy,
            Self::Stopping => Class::Stopping,
        }
    }

    /// When it is worth trying again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match (self.class(), self) {
            (_, Self::Limit { retry_after, .. }) => *retry_after,
            (Class::Busy, _) => Some(Duration::from_secs(1)),
            (Class::Stopping, _) => Some(Duration::from_secs(5)),
            _ => None,
        }
    }

    /// What clients are told. Failures of the engine and the machine name paths of the host, which are in
    /// the log alone.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Engine(error)
                if matches!(error.blame(), Blame::Engine | Blame::Machine)
                    && self.class() != Class::Busy
                    && error.code() != "session.taken" =>
            {
                format!("the server could not do it: {}", error.code())
            }
            other => other.to_string(),
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Engine(error) => error.blame(),
            Self::Memory | Self::Stopping => Blame::Machine,
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
            Self::Engine(_)
            | Self::Name { .. }
            | Self::Limit { .. }
            | Self::Memory
            | Self::Stopping => None,
        }
    }
}

fn class(error: &Error) -> Class {
    match error {
        Error::Refused(_) => Class::Invalid,
        Error::Busy { .. }
        | Error::Session(SessionError::Elsewhere { .. } | SessionError::TooMany { .. }) => {
            Class::Busy
        }
        Error::NoSuchFile { .. }
        | Error::Session(SessionError::NotFound { .. } | SessionError::NoSnapshot { .. }) => {
            Class::NotFound
        }
        Error::Session(SessionError::Path { problem, .. }) => match problem {
            PathProblem::NotFound => Class::NotFound,
            PathProblem::Exists => Class::Conflict,
            PathProblem::TooManyBytes | PathProblem::TooManyFiles => Class::Full,
            _ => Class::Invalid,
        },
        Error::Session(
            SessionError::IdTaken { .. }
            | SessionError::Waiting { .. }
            | SessionError::NotWaiting { .. }
            | SessionError::NoCall { .. }
            | SessionError::Taken { .. }
            | SessionError::NotHeld { .. }
            | SessionError::NoState { .. },
        ) => Class::Conflict,
        error => match (error.code(), error.blame()) {
            ("image.unknown", _) => Class::NotFound,
            ("session.full" | "workspace.full", _) => Class::Full,
            (_, Blame::Caller | Blame::Guest) => Class::Invalid,
            (_, Blame::Machine) => Class::Unavailable,
            _ => Class::Failed,
        },
    }
}
