//! Images as files: the states that sandboxes start from.

mod format;
#[cfg(test)]
mod goldens;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::Packed;
pub(crate) use format::{InterruptAddresses, Manifest, Reserved};

use crate::blame::{Code, Coded};
use crate::bundle::BundleError;
use crate::cache::{CacheError, create_sealed, seal};
use crate::hint::Hint;
use crate::memory::{MemoryError, Source, Strategy, without_holes};

/// An image file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No image of that name.
    #[error("there is no image {name:?}; there are {known}", known = .known.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The runtime runs from a bundle, which has other images.
    #[error("the bundle {path} has no image {name:?}; it has {known}",
            path = path.display(), known = .known.join(", "))]
    NotInBundle {
        /// The bundle.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names that it has.
        known: Vec<String>,
    },
    /// The recipe that the cache keeps of an image of one's own is damaged.
    #[error("the recipe of image {name} in the cache cannot be read")]
    Recipe {
        /// The image.
        name: String,
    },
    /// The file is not a whole image.
    #[error("{path} is not a usable image: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refused something.
    #[error("cannot {action} the image {path}", path = path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A built-in image was to be removed or replaced by one's own.
    #[error("{name} is a built-in image and its name is taken")]
    BuiltIn {
        /// The name.
        name: String,
    },
    /// The image cannot be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// It is in a bundle, which is only read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

impl Coded for ImageError {
    fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => Code::ImageUnknown,
            Self::NotInBundle { .. } => Code::ImageNotInBundle,
            Self::Recipe { .. } => Code::ImageRecipe,
            Self::Format { .. } => Code::ImageFormat,
            Self::Io { .. } => Code::ImageIo,
            Self::BuiltIn { .. } => Code::ImageBuiltIn,
            Self::Memory(_) => Code::Memory,
            Self::Cache(e) => e.code(),
            Self::Bundle(e) => e.code(),
        }
    }
}

impl Hint for ImageError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("make one with `belljar image build RECIPE.toml`".into()),
            Self::NotInBundle { name, .. } => {
                Some(format!("make a bundle that has it: belljar bundle --image {name} -o DIR"))
            }
            Self::Recipe { .. } => {
                Some("build it again with `belljar image build RECIPE.toml`".into())
            }
            Self::Format { .. } => Some("`belljar setup` makes the built-in images again".into()),
            Self::BuiltIn { .. } => Some("choose another name in the recipe".into()),
            Self::Cache(e) => e.hint(),
            Self::Bundle(e) => e.hint(),
            Self::Memory(e) => e.hint(),
            Self::Io { .. } => None,
        }
    }
}

/// An image, loaded: sandboxes can start from it.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub manifest: Manifest,
    /// SHA-256 of its memory, in hexadecimal: what a session's changes are changes to.
    pub identity: String,
    pub memory: Source,
    /// What guests read of its packages, if it has any.
    pub packages: Option<Arc<Packed>>,
}

impl Image {
    /// Opens an image file, without its packages. A file whose seal does not say that it is unchanged is checked whole.
    pub(crate) fn load(path: &Path, strategy: Strategy) -> Result<Self, ImageError> {
        seal::check(path)?;
        Self::load_unsealed(path, strategy)
    }

    /// The same for one that has no seal: its head is checked, and nothing else.
    pub(crate) fn load_unsealed(path: &Path, strategy: Strategy) -> Result<Self, ImageError> {
        let (file, head) = open(path)?;
        let length = usize::try_from(head.memory_length).map_err(|_| ImageError::Format {
            path: path.to_owned(),
            reason: "its memory is larger than this platform's",
        })?;
        let file = without_holes(file).map_err(CacheError::io("fill the holes of", path))?;
        Ok(Self {
            identity: crate::hex::encode(&head.memory_sha256),
            manifest: head.manifest,
            memory: Source::from_file(strategy, file, head.memory_offset, length)?,
            packages: None,
        })
    }

    /// Writes an image file, sealed and all at once.
    pub(crate) fn create(
        path: &Path,
        manifest: &Manifest,
        memory: &[u8],
    ) -> Result<(), ImageError> {
        Ok(create_sealed(path, |file| format::write(file, manifest, memory))?)
    }
}

/// Reads an image's manifest and the size of its memory.
pub(crate) fn inspect(path: &Path) -> Result<(Manifest, u64), ImageError> {
    let (_, head) = open(path)?;
    Ok((head.manifest, head.memory_length))
}

/// Checks everything in an image file against its checksums.
pub(crate) fn verify(path: &Path) -> Result<(), ImageError> {
    let (file, head) = open(path)?;
    format::check_memory(file, &head, path)
}

/// Checks the head of an image, of which `path` is the name in errors.
pub(crate) fn check_head(bytes: &[u8], path: &Path) -> Result<(), ImageError> {
    format::read_head(bytes, bytes.len() as u64, path).map(drop)
}

fn open(path: &Path) -> Result<(File, format::Head), ImageError> {
    let failed = |action| {
        move |source| ImageError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let file = File::open(path).map_err(failed("open"))?;
    let size = file.metadata().map_err(failed("look at"))?.len();
    let head = format::read_head(&file, size, path)?;
    Ok((file, head))
}
