//! Errors of building an image.

use super::choose::built_in_recipes;
use super::recipe::RecipeError;
use crate::api::refusal::Refusal;
use crate::artifact::CodeError;
use crate::artifact::cache::CacheError;
use crate::artifact::cache::pip::PipError;
use crate::artifact::image::ImageError;
use crate::sandbox::{InstanceError, Missing};
use crate::util::cause::Cause;
use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;
use crate::workspace::WorkspaceError;

/// Code that is not in a tier.
#[derive(Clone, Debug)]
pub struct MissingCode(pub(crate) Missing);

/// An image could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BakeError {
    /// The recipe is unusable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Code of the recipe failed: its imports, `init` or `warm_up`.
    #[error("image {image}: its {part} failed:\n{output}")]
    RecipeCode {
        /// The image.
        image: String,
        /// Part of the recipe that failed.
        part: &'static str,
        /// Error output of Python.
        output: String,
    },
    /// A step that the runner performs for every image failed.
    #[error("image {image}: {step} failed:\n{output}")]
    Python {
        /// The image.
        image: String,
        /// The step that failed.
        step: &'static str,
        /// Error output of Python.
        output: String,
    },
    /// The code called a library that is not in its tier.
    #[error("image {image}: {missing}", missing = missing.0)]
    Missing {
        /// The image.
        image: String,
        /// The missing library.
        missing: MissingCode,
    },
    /// The interpreter left a file open, which an image cannot contain.
    #[error("image {image}: descriptors {open:?} are still open after its code ran")]
    OpenFiles {
        /// The image.
        image: String,
        /// The open descriptors.
        open: Vec<i32>,
    },
    /// A running program could not be interrupted in the image.
    #[error("image {image}: interrupting its code does not work: {why}")]
    Interrupt {
        /// The image.
        image: String,
        /// What went wrong.
        why: &'static str,
    },
    /// A package cannot be added.
    #[error("image {image}: {package} {why}")]
    Package {
        /// The image.
        image: String,
        /// Name of the package or its file.
        package: String,
        /// What is wrong with it.
        why: String,
    },
    /// A package cannot be added to what the sandbox or a base has.
    #[error("image {image}: {package} {why}")]
    Conflict {
        /// The image.
        image: String,
        /// Name of the package or its file.
        package: String,
        /// With what it is in conflict.
        why: String,
    },
    /// A native module of a package cannot be linked.
    #[error("image {image}: the native module {module} cannot be linked")]
    Extension {
        /// The image.
        image: String,
        /// The Python module.
        module: String,
        /// What is wrong with it.
        source: Cause,
    },
    /// The packages are not on this machine, and only a download that was asked for may fetch them.
    #[error("image {image}: its packages are not on this machine")]
    NotDownloaded {
        /// The image.
        image: String,
    },
    /// The packages could not be downloaded.
    #[error("image {image}: its packages cannot be downloaded")]
    Download {
        /// The image.
        image: String,
        /// Error of pip.
        source: PipError,
    },
    /// The request for the runner was rejected.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The image or its base is unusable.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The artifact is unreadable.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The instance could not be started.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A directory for the build could not be created.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The cache directory is unusable.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The operating system gave no thread or no random numbers.
    #[error("cannot prepare to make an image")]
    System(#[source] std::io::Error),
}

impl Coded for BakeError {
    fn code(&self) -> Code {
        match self {
            Self::Recipe(e) => e.code(),
            // The recipes of the built-in images belong to the engine.
            Self::RecipeCode { image, .. } | Self::OpenFiles { image, .. }
                if built_in_recipes().any(|recipe| recipe.name == *image) =>
            {
                Code::BakeBuiltIn
            }
            Self::RecipeCode { .. } => Code::RecipeRun,
            Self::OpenFiles { .. } => Code::RecipeOpenFiles,
            Self::Python { .. } | Self::Missing { .. } => Code::BakePython,
            Self::Interrupt { .. } => Code::BakeInterrupt,
            Self::Package { .. } | Self::Conflict { .. } => Code::BakePackage,
            Self::Extension { .. } => Code::BakeExtension,
            Self::NotDownloaded { .. } | Self::Download { .. } => Code::BakeDownload,
            Self::Refused(_) => Code::BakeRefused,
            Self::Image(e) => e.code(),
            Self::Code(e) => e.code(),
            Self::Instance(e) => e.code(),
            Self::Workspace(e) => e.code(),
            Self::Cache(e) => e.code(),
            Self::System(_) => Code::BakeSystem,
        }
    }
}

/// How packages with native code are added.
const BUILD: &str = "packages with native code are added by `belljar image build --build`, which \
    runs their builds as you";

impl Hint for BakeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::RecipeCode { part, .. } => Some(format!("mend the recipe's {part}")),
            Self::OpenFiles { .. } => Some("close every file that the recipe's code opens".into()),
            Self::Package { .. } => Some(BUILD.into()),
            Self::NotDownloaded { image } => {
                Some(format!("`belljar setup --image {image}` downloads them"))
            }
            Self::Download { .. } => {
                Some(format!("check the names, the versions and the network; {BUILD}"))
            }
            Self::Image(e) => e.hint(),
            Self::Code(e) => e.hint(),
            Self::Instance(e) => e.hint(),
            Self::Workspace(e) => e.hint(),
            Self::Cache(e) => e.hint(),
            _ => None,
        }
    }
}
