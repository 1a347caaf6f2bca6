//! Image files: the states that sandboxes start from.

mod format;
#[cfg(test)]
mod goldens;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_memory::{MemoryError, Source, Strategy, without_holes};

use belljar_files::Packed;
use data_encoding::HEXLOWER;
pub(crate) use format::{Extension, InterruptAddresses, Manifest, Replaced, Reserved};

use crate::artifact::bundle::BundleError;
use crate::artifact::cache::{CacheError, create_sealed, seal};
use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;

/// An image file is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No image has this name.
    #[error("there is no image {name:?}; there are {known}", known = .known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The bundle that the runtime uses contains no image of this name.
    #[error("the bundle {path} has no image {name:?}; it has {known}",
            path = path.display(), known = .known.join(", "))]
    NotInBundle {
        /// The bundle.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names in the bundle.
        known: Vec<String>,
    },
    /// The recipe of a custom image in the cache is damaged.
    #[error("the recipe of image {name} in the cache cannot be read")]
    Recipe {
        /// The image.
        name: String,
    },
    /// The file is damaged or incomplete.
    #[error("{path} is not a usable image: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refused access to the file.
    #[error("cannot {action} the image {path}", path = path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A custom image has the name of a built-in image, or a built-in image was to be removed.
    #[error("{name} is the name of a built-in image")]
    BuiltIn {
        /// The name.
        name: String,
    },
    /// The image cannot be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The cache directory is unusable.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The image is in a bundle, which is read-only.
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

/// A loaded image that sandboxes can start from.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub manifest: Manifest,
    /// SHA-256 of the memory, in hexadecimal. A session's changes are stored relative to this
    /// image.
    pub identity: String,
    pub memory: Source,
    /// Packages that guests can read, if the image has any.
    pub packages: Option<Arc<Packed>>,
    /// Native code of the manifest's extensions, in the same order.
    pub extensions: Arc<[wasmtime::Module]>,
}

impl Image {
    /// Opens an image file, without its packages. The whole file is verified unless its seal shows
    /// that it is unchanged.
    pub(crate) fn load(path: &Path, strategy: Strategy) -> Result<Self, ImageError> {
        seal::check(path)?;
        Self::load_unsealed(path, strategy)
    }

    /// Opens an image file without a seal. Only its head is verified.
    pub(crate) fn load_unsealed(path: &Path, strategy: Strategy) -> Result<Self, ImageError> {
        let (file, head) = open(path)?;
        let length = usize::try_from(head.memory_length).map_err(|_| ImageError::Format {
            path: path.to_owned(),
            reason: "its memory is larger than this platform's",
        })?;
        let file = without_holes(file).map_err(CacheError::io("fill the holes of", path))?;
        Ok(Self {
            identity: HEXLOWER.encode(&head.memory_sha256),
            manifest: head.manifest,
            memory: Source::from_file(strategy, file, head.memory_offset, length)?,
            packages: None,
            extensions: Arc::default(),
        })
    }

    /// Whether the image has extensions.
    pub(crate) fn is_native(&self) -> bool {
        !self.manifest.extensions.is_empty()
    }

    /// Writes and seals an image file atomically.
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

/// Verifies an image file against its checksums.
pub(crate) fn verify(path: &Path) -> Result<(), ImageError> {
    let (file, head) = open(path)?;
    format::check_memory(file, &head, path)
}

/// Verifies the head of an image. Errors name `path`.
#[cfg(feature = "fuzzing")]
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
