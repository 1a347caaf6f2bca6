//! Errors of the service.

use std::time::Duration;

use belljar::Error;
use belljar::error::{Blame, PathProblem, SessionError};
use belljar::request::Refusal;

/// The class of an error, which determines its HTTP status in each interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// The server is overloaded, or another server uses the session. Temporary.
    Busy,
    /// The server is shutting down.
    Stopping,
    /// A limit of the owner's key is reached.
    Limit,
    /// The request can never succeed as it is.
    Invalid,
    /// The object does not exist, or belongs to another owner.
    NotFound,
    /// The operation is not possible in the object's current state.
    Conflict,
    /// No space for more files.
    Full,
    /// The machine or the store failed.
    Unavailable,
    /// The engine failed.
    Failed,
}

/// An error of the service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The engine rejected the request or failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The session does not exist, or belongs to another owner.
    #[error("there is no session {id}")]
    NoSession {
        /// The requested id or name.
        id: String,
    },
    /// The run does not exist, belongs to another owner, or its files have expired.
    #[error("there is no run {id}, or its files have expired")]
    NoRun {
        /// The requested id.
        id: String,
    },
    /// Another session of the owner has that name.
    #[error("a session named {name:?} exists already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// An invalid session name.
    #[error("{name:?} is not a valid name: use 1 to 64 letters, digits, - and _")]
    Name {
        /// The name.
        name: String,
    },
    /// A limit of the owner's key is reached.
    #[error("this key's limit is reached: {max} {what}")]
    Limit {
        /// The limited resource.
        what: &'static str,
        /// The limit.
        max: u64,
        /// When to retry.
        retry_after: Option<Duration>,
    },
    /// The process has reached its memory budget.
    #[error("the server has reached its memory budget")]
    Memory,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Stopping,
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl ServiceError {
    /// A stable code for programs. Engine errors keep their own codes.
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

    /// The error's class.
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

    /// When to retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match (self.class(), self) {
            (_, Self::Limit { retry_after, .. }) => *retry_after,
            (Class::Busy, _) => Some(Duration::from_secs(1)),
            (Class::Stopping, _) => Some(Duration::from_secs(5)),
            _ => None,
        }
    }

    /// The message for clients. Failures of the engine and the machine may name host paths, so
    /// their details are only in the log.
    #[must_use]
    pub fn public_message(&self) -> String {
        match self {
            Self::Engine(error)
                if matches!(error.blame(), Blame::Engine | Blame::Machine)
                    && self.class() != Class::Busy
                    && error.code() != "session.taken" =>
            {
                format!("internal error: {}", error.code())
            }
            other => other.to_string(),
        }
    }

    /// Who is responsible.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Engine(error) => error.blame(),
            Self::Memory | Self::Stopping => Blame::Machine,
            _ => Blame::Caller,
        }
    }

    /// A hint for the client, if there is one. Hints for the host are omitted.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSession { .. } => Some("list the existing sessions".into()),
            Self::NameTaken { .. } => Some("use that session, or choose another name".into()),
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
