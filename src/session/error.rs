//! Errors of sessions and checkpoints.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::blame::{Code, Coded};
use crate::hint::Hint;
use crate::workspace::PathProblem;

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
    /// The id that was chosen is none that a session can have.
    #[error("{id:?} is not an id: it has to be 1 to 64 letters, digits, - and _")]
    Id {
        /// The id.
        id: String,
    },
    /// The id that was chosen is another session's.
    #[error("there is a session {id} already")]
    IdTaken {
        /// The id.
        id: String,
    },
    /// There is no snapshot of that name.
    #[error("there is no snapshot {name:?}")]
    NoSnapshot {
        /// The name.
        name: String,
    },
    /// There are more labels than a session can have, or longer ones.
    #[error("{labels} labels of {bytes} bytes together are more than a session can have")]
    Labels {
        /// How many there are.
        labels: usize,
        /// Bytes of all names and values.
        bytes: usize,
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
    /// A state of its past cannot be read from what the session was restored from: that is damaged, or
    /// not what it was.
    #[error(
        "session {id} cannot go back to the state after run {execution}: that state cannot be read"
    )]
    Unread {
        /// The session.
        id: String,
        /// The run; 0 is the session's beginning.
        execution: u64,
        /// Why.
        source: Box<SessionError>,
    },
    /// The file is something else.
    #[error(
        "{path} is not a usable checkpoint: it does not begin like a checkpoint",
        path = path.display()
    )]
    NotCheckpoint {
        /// The file.
        path: PathBuf,
    },
    /// The file has a format that this version does not read.
    #[error(
        "{path} is not a usable checkpoint: it was written by another version of belljar",
        path = path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
    },
    /// The file is a damaged checkpoint, or one that this runtime does not allow.
    #[error("{path} is not a usable checkpoint: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A chunk of the checkpoint is not there, or is another one.
    #[error("{path} is not a usable checkpoint: its chunk {chunk} {problem}", path = path.display())]
    Chunk {
        /// The file.
        path: PathBuf,
        /// The chunk's name: BLAKE3 of what is in it.
        chunk: String,
        /// What is wrong with it.
        problem: ChunkProblem,
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
    /// The state after its last run could not be kept, for want of memory or of room on the disk: the
    /// session is in the state before it.
    #[error("the state after run {execution} of session {id} could not be kept: {why}")]
    NotKept {
        /// The session.
        id: String,
        /// The run.
        execution: u64,
        /// Why.
        why: String,
    },
    /// A run of the session waits for answers, so no other can begin.
    #[error("a run of session {id} waits for the answers of tools")]
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
    /// The run that waits has not made that call, or it was answered.
    #[error("the run of session {id} does not wait for an answer to call {call}")]
    NoCall {
        /// The session.
        id: String,
        /// The call.
        call: u64,
    },
    /// An answer is too large, or that to a tool with typed values is no value in the tagged form. The
    /// run waits as before.
    #[error("the answer to call {call} of session {id} is not taken: {why}")]
    BadAnswer {
        /// The session.
        id: String,
        /// The call.
        call: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Another node has the session, and keeps it for longer than this one waits.
    #[error("session {id} is in use on node {node}")]
    Elsewhere {
        /// The session.
        id: String,
        /// The node.
        node: String,
    },
    /// Another node has taken the session, or it was removed, while this node had it.
    #[error("node {node} has lost session {id}, and with it what was done there last")]
    Taken {
        /// The session.
        id: String,
        /// The node that had it.
        node: String,
    },
    /// A session of a store was to be changed with a handle that was given to read it, or whose claim
    /// was released.
    #[error("session {id} cannot be changed with this handle: no claim stands behind it")]
    NotHeld {
        /// The session.
        id: String,
    },
    /// What the store has of the session cannot be read.
    #[error("the record of session {id} in the store cannot be used: {why}")]
    Record {
        /// The session.
        id: String,
        /// Why.
        why: String,
    },
    /// The store has the session, but not the state that it is in.
    #[error("the store has no state of session {id} any more")]
    StateGone {
        /// The session.
        id: String,
    },
    /// Something cannot be done with a path of its workspace.
    #[error("cannot {action} {path:?} in session {id}: {problem}")]
    Path {
        /// The session.
        id: String,
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: String,
        /// Why it cannot be done.
        problem: PathProblem,
    },
    /// What was to be written to a file of the session cannot be read.
    #[error("cannot read what is to be written to {path:?}")]
    Source {
        /// The path of the file.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A question could not be answered, or a variable not be set. The session is as it was.
    #[error("{reason}")]
    Question {
        /// Why, in the words of the guest where it could still say so.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {action} the checkpoint {path}", path = path.display())]
    Io {
        /// What was attempted.
        action: FileAction,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// What is wrong with a chunk of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkProblem {
    /// It is not where it is looked for.
    Missing,
    /// What is there does not have this name.
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

/// What is done with a checkpoint's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAction {
    /// Opening it.
    Open,
    /// Reading it.
    Read,
    /// Writing it.
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
            Self::TooMany { .. } => "close some, or raise SessionBounds::max",
            Self::InitCode { .. } => "run the code by itself to see what it does",
            Self::NoState { .. } => "raise HistoryBounds to keep more",
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
