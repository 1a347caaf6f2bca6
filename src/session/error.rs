//! What can go wrong with a session besides its code.

use std::io;
use std::path::PathBuf;

use crate::hint::Hint;

/// Reasons of [`SessionError::Format`] that another copy of the file would have, too.
pub(crate) const NO_CHECKPOINT: &str = "it does not begin like a checkpoint";
pub(crate) const OTHER_VERSION: &str = "it was written by another version of belljar";

/// A session or a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no such session.
    #[error("Interpreter {id} not found")]
    NotFound {
        /// The id asked for.
        id: String,
    },
    /// There are as many sessions as there may be.
    #[error("there are {max} sessions already, the most that this runtime holds")]
    TooMany {
        /// How many there may be.
        max: usize,
    },
    /// The code that runs first failed; the session was not made.
    #[error("the session's initial code failed: {error}")]
    InitCode {
        /// How it failed, on one line.
        error: String,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// The history does not hold the state that was asked for.
    #[error("session {id} cannot go back to the state after run {execution}; {known}")]
    NoState {
        /// The session.
        id: String,
        /// The run asked for.
        execution: u64,
        /// What there is instead.
        known: String,
    },
    /// The file is not a whole checkpoint that this version reads.
    #[error("{path} is not a usable checkpoint: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The checkpoint is one of an image that is not here.
    #[error(
        "{path} was made from another {image} image than the one that is here",
        path = path.display()
    )]
    Image {
        /// The file.
        path: PathBuf,
        /// The image's name.
        image: String,
    },
    /// The session sees directories of the host, and other ones were given for it or none.
    #[error(
        "{path} is a session with {expected} mounted, which is not what is mounted for it now",
        path = path.display(),
        expected = if expected.is_empty() { "nothing".to_owned() } else { expected.join(", ") }
    )]
    Mounts {
        /// The file.
        path: PathBuf,
        /// Where the session sees directories of the host.
        expected: Vec<String>,
    },
    /// The operating system refused something.
    #[error("cannot {action} the checkpoint {path}", path = path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl Hint for SessionError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound { .. } => "list the sessions there are with Sessions::list",
            Self::TooMany { .. } => "close some, or raise SessionBounds::max",
            Self::InitCode { .. } => "run the code by itself to see what it does",
            Self::NoState { .. } => "raise HistoryBounds to keep more",
            Self::Format { reason, .. } if *reason == NO_CHECKPOINT => {
                "name a file that --session, %checkpoint or Session::checkpoint has written"
            }
            Self::Format { reason, .. } if *reason == OTHER_VERSION => {
                "use the belljar that wrote it, or begin a new session in another file"
            }
            Self::Format { .. } => "take another copy of it; the file itself is unchanged",
            Self::Image { .. } => {
                "restore it with the version of belljar that made it, or build that image again"
            }
            Self::Mounts { .. } => {
                "mount a directory at each of these and at no other; a checkpoint does not choose \
                 what of the host is shown"
            }
            Self::Io { .. } => return None,
        };
        Some(hint.into())
    }
}
