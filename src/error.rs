//! Errors of the engine itself. Failures of guest code are data in the [`Outcome`](crate::Outcome).

pub(crate) mod session;

use std::path::PathBuf;

pub use self::session::{ChunkProblem, FileAction, SessionError};
pub use crate::artifact::bundle::BundleError;
pub use crate::artifact::cache::CacheError;
pub use crate::artifact::cache::pip::PipError;
pub use crate::artifact::image::ImageError;
pub use crate::artifact::{ArtifactError, CodeError};
pub use crate::image::{BakeError, RecipeError};
pub use crate::sandbox::InstanceError;
pub use crate::util::cause::Cause;
use crate::util::cause::with_causes;
pub use crate::util::error_code::Blame;
use crate::util::error_code::{Code, Coded};
pub use crate::workspace::{PathProblem, WorkspaceError};
pub use belljar_memory::MemoryError;

use crate::api::refusal::Refusal;
use crate::store::StoreError;
use crate::util::hint::Hint;

/// The engine failed to do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid. All reasons are listed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cache directory is unusable.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A bundle cannot be used or made.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The upstream files are not available.
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
    /// No memory is available for a sandbox.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A sandbox cannot be started.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A run's directory cannot be created or read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The queue of the runtime is full.
    #[error("{waiting} runs are waiting already, the limit of this runtime")]
    Busy {
        /// Number of waiting runs.
        waiting: usize,
    },
    /// The runtime was built before this process was forked.
    #[error("the runtime was built in another process, before this one was forked")]
    Forked,
    /// A blocking method was called inside an asynchronous runtime.
    #[error("a blocking method was called inside an asynchronous runtime")]
    NotBlocking,
    /// The operating system gave no thread, timer or random numbers.
    #[error("cannot {action}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// A session or a checkpoint cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store that several processes share cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run left no file at the requested path.
    #[error("the run left no file {path}", path = path.display())]
    NoSuchFile {
        /// The requested path.
        path: PathBuf,
    },
}

impl From<BakeError> for Error {
    /// An unusable image gives the same error when it is loaded and when it is baked.
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

    /// Returns the error and its causes on one line, without repetitions.
    #[must_use]
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }

    /// Returns the stable code of the error, such as `workspace.full`, for programs.
    /// `docs/reference/errors.md` lists all codes.
    pub fn code(&self) -> &'static str {
        Coded::code(self).as_str()
    }

    /// Returns who is responsible. It is the same for all errors with one [`code`](Self::code).
    pub fn blame(&self) -> Blame {
        Coded::code(self).blame()
    }

    /// Returns one line of advice, if there is any.
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
