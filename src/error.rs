//! The error of the engine itself. What guest code did wrong is never here: it is data in the
//! [`Outcome`](crate::Outcome).

use std::path::PathBuf;

use crate::api::refusal::Refusal;
use crate::bakery::BakeError;
use crate::blame::{Blame, Code, Coded};
use crate::bundle::BundleError;
use crate::cache::CacheError;
use crate::cause::with_causes;
use crate::hint::Hint;
use crate::image::ImageError;
use crate::instance::InstanceError;
use crate::memory::MemoryError;
use crate::module::{ArtifactError, CodeError};
use crate::session::error::SessionError;
use crate::store::StoreError;
use crate::workspace::WorkspaceError;

/// The engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is not one that can be run; every reason is listed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cache directory cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A bundle cannot be used or made.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The upstream files cannot be had.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The Python module cannot be compiled or loaded.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// An image cannot be read or found.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An image cannot be made.
    #[error(transparent)]
    Bake(BakeError),
    /// Memory for a sandbox cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A sandbox cannot be started.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A run's directory cannot be made or read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// More runs are waiting than the runtime was built to queue.
    #[error("{waiting} runs are waiting already, the most that this runtime queues")]
    Busy {
        /// How many wait.
        waiting: usize,
    },
    /// The runtime is that of the process from which this one was forked.
    #[error("the runtime was built in another process, from which this one was forked")]
    Forked,
    /// A blocking call was made where no thread may block.
    #[error("a blocking call inside an asynchronous runtime")]
    NotBlocking,
    /// The operating system gave no thread, timer or random numbers.
    #[error("cannot {action}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A session or a checkpoint cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What several processes share cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An artifact of a run was asked for that the run did not leave.
    #[error("the run left no file {path}", path = path.display())]
    NoSuchFile {
        /// The path asked for.
        path: PathBuf,
    },
}

impl From<BakeError> for Error {
    /// An image that cannot be used is the same error whether it was to be made or not.
    fn from(error: BakeError) -> Self {
        match error {
            BakeError::Image(error) => Self::Image(error),
            error => Self::Bake(error),
        }
    }
}

impl Error {
    pub(crate) fn system<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }

    /// The error and what it comes from, on one line, with nothing said twice.
    #[must_use]
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }

    /// What went wrong, for programs: a short text such as `workspace.full` that stays the same from
    /// version to version. `docs/reference/errors.md` lists them.
    pub fn code(&self) -> &'static str {
        Coded::code(self).as_str()
    }

    /// Whose fault it is. The same for all errors of one [`code`](Self::code).
    pub fn blame(&self) -> Blame {
        Coded::code(self).blame()
    }

    /// One line that says what to do about it, when there is something to be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(_) | Self::NoSuchFile { .. } | Self::System { .. } => None,
            Self::Memory(e) => e.hint(),
            Self::Cache(e) => e.hint(),
            Self::Bundle(e) => e.hint(),
            Self::Artifact(e) => e.hint(),
            Self::Code(e) => e.hint(),
            Self::Image(e) => e.hint(),
            Self::Bake(e) => e.hint(),
            Self::Instance(e) => e.hint(),
            Self::Workspace(e) => e.hint(),
            Self::Session(e) => e.hint(),
            Self::Store(e) => e.hint(),
            Self::Busy { .. } => {
                Some("wait for some to finish, or raise RuntimeBuilder::queue".into())
            }
            Self::Forked => Some("build a Runtime of its own in the child, after the fork".into()),
            Self::NotBlocking => {
                Some("await the methods of Runtime instead of Runtime::blocking".into())
            }
        }
    }
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Refused(_) => Code::Refused,
            Self::Cache(e) => e.code(),
            Self::Bundle(e) => e.code(),
            Self::Artifact(e) => e.code(),
            Self::Code(e) => e.code(),
            Self::Image(e) => e.code(),
            Self::Bake(e) => e.code(),
            Self::Memory(_) => Code::Memory,
            Self::Instance(e) => e.code(),
            Self::Workspace(e) => e.code(),
            Self::Busy { .. } => Code::Busy,
            Self::Forked => Code::Forked,
            Self::NotBlocking => Code::NotBlocking,
            Self::System { .. } => Code::System,
            Self::Session(e) => e.code(),
            Self::Store(e) => e.code(),
            Self::NoSuchFile { .. } => Code::NoSuchFile,
        }
    }
}
