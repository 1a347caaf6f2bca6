//! Errors of sessions and checkpoints.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;
use crate::workspace::PathProblem;

/// A session or a checkpoint is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session does not exist.
    #[error("Interpreter {id} not found")]
    NotFound {
        /// The requested id.
        id: String,
    },
    /// The chosen id is invalid.
    #[error("{id:?} is not a valid id: it must be 1 to 64 letters, digits, - and _")]
    Id {
        /// The invalid id.
        id: String,
    },
    /// Another session has the chosen id.
    #[error("session {id} already exists")]
    IdTaken {
        /// The chosen id.
        id: String,
    },
    /// No snapshot has this name.
    #[error("there is no snapshot {name:?}")]
    NoSnapshot {
        /// The requested name.
        name: String,
    },
    /// The labels exceed the limits of a session.
    #[error("{labels} labels of {bytes} bytes together exceed the limit of a session")]
    Labels {
        /// Number of labels.
        labels: usize,
        /// Size of all names and values, in bytes.
        bytes: usize,
    },
    /// The runtime has reached its limit on sessions.
    #[error("there are {max} sessions already, the limit of this runtime")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The initial code failed, and the session was not created.
    #[error("the session's initial code failed: {error}")]
    InitCode {
        /// The error, on one line.
        error: String,
        /// Standard error of the code.
        stderr: String,
    },
    /// The history does not contain the requested state.
    #[error("session {id} cannot go back to the state after run {execution}; {known}")]
    NoState {
        /// The session.
        id: String,
        /// The requested run.
        execution: u64,
        /// The available states, in words.
        known: String,
    },
    /// A past state cannot be read from the source that the session was restored from: the source
    /// is damaged or has changed.
    #[error(
        "session {id} cannot go back to the state after run {execution}: that state cannot be read"
    )]
    Unread {
        /// The session.
        id: String,
        /// The run; 0 is the beginning of the session.
        execution: u64,
        /// Cause of the failure.
        source: Box<SessionError>,
    },
    /// The file is not a checkpoint.
    #[error(
        "{path} is not a usable checkpoint: it does not begin like a checkpoint",
        path = path.display()
    )]
    NotCheckpoint {
        /// The file.
        path: PathBuf,
    },
    /// The file has a format that this version cannot read.
    #[error(
        "{path} is not a usable checkpoint: it was written by another version of belljar",
        path = path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
    },
    /// The checkpoint is damaged or exceeds the limits of this runtime.
    #[error("{path} is not a usable checkpoint: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        reason: &'static str,
    },
    /// A chunk of the checkpoint is missing or altered.
    #[error(
        "{path} is not a usable checkpoint: its chunk {chunk} {problem}",
        path = path.display()
    )]
    Chunk {
        /// The file.
        path: PathBuf,
        /// The chunk's name: BLAKE3 of its contents.
        chunk: String,
        /// What is wrong with the chunk.
        problem: ChunkProblem,
    },
    /// The checkpoint is based on an image that does not exist here.
    #[error(
        "{path} is based on another version of the image {image}",
        path = path.display()
    )]
    Image {
        /// The file.
        path: PathBuf,
        /// Name of the image.
        image: String,
    },
    /// The mounts given for the session differ from those in the checkpoint.
    #[error(
        "{path} is a session with {expected} mounted, which is not what is mounted for it now",
        path = path.display(),
        expected = if expected.is_empty() { "nothing".to_owned() } else { expected.join(", ") }
    )]
    Mounts {
        /// The file.
        path: PathBuf,
        /// Paths at which the session mounts host directories.
        expected: Vec<String>,
    },
    /// The state after the last run could not be saved because memory or disk space was exhausted.
    /// The session is in its state before that run.
    #[error("the state after run {execution} of session {id} could not be saved: {why}")]
    NotKept {
        /// The session.
        id: String,
        /// The run.
        execution: u64,
        /// Cause of the failure.
        why: String,
    },
    /// A run of the session waits for answers, so no other run can start.
    #[error("a run of session {id} waits for tool answers")]
    Waiting {
        /// The session.
        id: String,
    },
    /// No run of the session waits for answers.
    #[error("no run of session {id} waits for an answer")]
    NotWaiting {
        /// The session.
        id: String,
    },
    /// The waiting run has not made this call, or the call was answered.
    #[error("the run of session {id} does not wait for an answer to call {call}")]
    NoCall {
        /// The session.
        id: String,
        /// Number of the call.
        call: u64,
    },
    /// An answer is too large, or is not a valid typed value for a tool with typed values. The run
    /// still waits.
    #[error("the answer to call {call} of session {id} is invalid: {why}")]
    BadAnswer {
        /// The session.
        id: String,
        /// Number of the call.
        call: u64,
        /// What is wrong with the answer.
        why: String,
    },
    /// Another node has held the session for longer than this node waits.
    #[error("session {id} is in use on node {node}")]
    Elsewhere {
        /// The session.
        id: String,
        /// The lease holder.
        node: String,
    },
    /// Another node took the session, or it was removed, while this node held it.
    #[error("node {node} has lost session {id} and its latest changes")]
    Taken {
        /// The session.
        id: String,
        /// The node that held the session.
        node: String,
    },
    /// A handle cannot change a stored session: it is read-only, or its claim was released.
    #[error("session {id} cannot be changed with this handle: it has no claim")]
    NotHeld {
        /// The session.
        id: String,
    },
    /// The session's record in the store cannot be read.
    #[error("the record of session {id} in the store cannot be used: {why}")]
    Record {
        /// The session.
        id: String,
        /// Cause of the failure.
        why: String,
    },
    /// The store has the record of the session, but not its state.
    #[error("the store no longer has the state of session {id}")]
    StateGone {
        /// The session.
        id: String,
    },
    /// An operation on a path of the workspace is impossible.
    #[error("cannot {action} {path:?} in session {id}: {problem}")]
    Path {
        /// The session.
        id: String,
        /// The attempted action.
        action: &'static str,
        /// The path concerned.
        path: String,
        /// Why the operation is impossible.
        problem: PathProblem,
    },
    /// The content to write to a file of the session cannot be read.
    #[error("cannot read the content to write to {path:?}")]
    Source {
        /// Path of the file.
        path: String,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A query failed, or a variable could not be set. The session is unchanged.
    #[error("{reason}")]
    Question {
        /// The reason, in the words of the guest if available.
        reason: String,
    },
    /// The operating system refused access to the file.
    #[error("cannot {action} the checkpoint {path}", path = path.display())]
    Io {
        /// The attempted action.
        action: FileAction,
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// What is wrong with a chunk of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkProblem {
    /// The chunk is missing.
    Missing,
    /// The contents do not match the chunk's name.
    Altered,
}

impl fmt::Display for ChunkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::Altered => "was cut short or altered",
        })
    }
}

/// An action on a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAction {
    /// Opening the file.
    Open,
    /// Reading the file.
    Read,
    /// Writing the file.
    Write,
}

impl fmt::Display for FileAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl Coded for SessionError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::SessionNotFound,
            Self::Id { .. } => Code::SessionId,
            Self::IdTaken { .. } => Code::SessionIdTaken,
            Self::TooMany { .. } => Code::SessionTooMany,
            Self::NoSnapshot { .. } => Code::SessionNoSnapshot,
            Self::Labels { .. } => Code::SessionLabels,
            Self::InitCode { .. } => Code::SessionInitialRun,
            Self::NoState { .. } => Code::SessionNoState,
            Self::Unread { source, .. } => source.code(),
            Self::NotKept { .. } => Code::SessionNotKept,
            Self::Waiting { .. } => Code::SessionWaiting,
            Self::NotWaiting { .. } => Code::SessionNotWaiting,
            Self::NoCall { .. } => Code::SessionNoCall,
            Self::BadAnswer { .. } => Code::SessionBadAnswer,
            Self::NotCheckpoint { .. } => Code::SessionNotCheckpoint,
            Self::OtherVersion { .. } => Code::SessionOtherVersion,
            Self::Format { .. } | Self::Chunk { .. } => Code::SessionFormat,
            Self::Image { .. } => Code::SessionImage,
            Self::Mounts { .. } => Code::SessionMounts,
            Self::Elsewhere { .. } => Code::SessionElsewhere,
            Self::Taken { .. } => Code::SessionTaken,
            Self::NotHeld { .. } => Code::SessionNotHeld,
            Self::Record { .. } | Self::StateGone { .. } => Code::SessionRecord,
            Self::Path {
                problem: PathProblem::NotFound,
                ..
            } => Code::NoSuchFile,
            Self::Path {
                problem: PathProblem::TooManyBytes | PathProblem::TooManyFiles,
                ..
            } => Code::SessionFull,
            Self::Path { .. } => Code::SessionPath,
            Self::Source { .. } => Code::SessionSource,
            Self::Question { .. } => Code::SessionQuestion,
            Self::Io { action, .. } => match action {
                FileAction::Open | FileAction::Read => Code::SessionRead,
                FileAction::Write => Code::SessionWrite,
            },
        }
    }
}

impl Hint for SessionError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound { .. } => "list the sessions there are with Sessions::list",
            Self::NoSnapshot { .. } => "list the snapshots there are with Sessions::snapshots",
            Self::Labels { .. } => "give it at most 64 labels, of 16 KiB together",
            Self::TooMany { .. } => "close some, or raise RegistryLimits::max",
            Self::InitCode { .. } => "run the code by itself to see what it does",
            Self::NoState { .. } => "raise HistoryLimits to keep more",
            Self::Unread { .. } => "go back to another one, or restore it from another copy",
            Self::NotCheckpoint { .. } => {
                "name a file that --session, %checkpoint or Session::checkpoint has written"
            }
            Self::OtherVersion { .. } => {
                "use the belljar that wrote it, or begin a new session in another file"
            }
            Self::Format { .. } | Self::Chunk { .. } => {
                "take another copy of it; the file itself is unchanged"
            }
            Self::Image { .. } => {
                "restore it with the version of belljar that made it, or build that image again"
            }
            Self::Mounts { .. } => {
                "mount a directory at each of these and at no other; a checkpoint does not choose \
                 what of the host is shown"
            }
            Self::NotKept { .. } => {
                "run something, which goes on from the state before it, or rewind the session"
            }
            Self::Waiting { .. } => {
                "answer them with Session::answer, or give the run up by a rewind"
            }
            Self::NotWaiting { .. } | Self::NoCall { .. } => {
                "Session::waiting lists the calls that are to be answered"
            }
            Self::BadAnswer { .. } => {
                "typed values: docs/reference/values.md; their limits: docs/guide/tools.md"
            }
            Self::IdTaken { .. } => {
                "close the session that has it, or let the new one have its own"
            }
            Self::Path {
                problem: PathProblem::TooManyBytes | PathProblem::TooManyFiles,
                ..
            } => "remove what is not needed, or give the session larger limits when it is made",
            Self::Elsewhere { .. } => "ask again when what runs there is done",
            Self::Taken { .. } => {
                "ask again: the session goes on from the state that the store has, and the next \
                 outcome says what was lost"
            }
            Self::NotHeld { .. } => "claim the session, and use the handle until it is released",
            Self::Record { .. } | Self::StateGone { .. } => {
                "see whether all nodes have the same version of belljar, and nothing else writes \
                 to the store"
            }
            Self::Question { .. }
            | Self::Id { .. }
            | Self::Io { .. }
            | Self::Path { .. }
            | Self::Source { .. } => {
                return None;
            }
        };
        Some(hint.into())
    }
}
