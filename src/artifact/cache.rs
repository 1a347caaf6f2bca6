//! The cache directory: files downloaded, compiled and baked on this machine.
//!
//! All of it can be rebuilt. Directories are private to the user, files are written under a
//! temporary name and renamed, and a [seal](seal) next to each file detects changes.

pub(crate) mod pip;
pub(crate) mod seal;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;

/// The cache directory is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Neither `BELLJAR_CACHE` nor a home directory determines the place of the cache.
    #[error("no place for the cache: BELLJAR_CACHE is not set and this user has no home directory")]
    NoHome,
    /// Another kind of file is at the cache's path.
    #[error("{path} is not a directory", path = path.display())]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused an operation in the cache directory.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path concerned.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A file was truncated, altered or replaced.
    #[error("{path} was changed after it was written: {reason}", path = path.display())]
    Tampered {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: &'static str,
    },
}

impl CacheError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

/// Returns the error of a cache from an earlier version that cannot be upgraded.
pub(crate) fn not_upgraded(path: &Path) -> impl FnOnce(CacheError) -> CacheError {
    |error| match error {
        CacheError::Io { source, .. } => CacheError::io(
            "bring up to date what an earlier version of belljar left in",
            path,
        )(source),
        error => error,
    }
}

impl Coded for CacheError {
    fn code(&self) -> Code {
        match self {
            Self::NoHome => Code::CacheNoHome,
            Self::NotDirectory { .. } => Code::CacheNotDirectory,
            Self::Io { .. } => Code::CacheIo,
            Self::Tampered { .. } => Code::CacheTampered,
        }
    }
}

impl Hint for CacheError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set BELLJAR_CACHE to a directory that can be written".into()),
            Self::NotDirectory { .. } => {
                Some("set a cache directory with --cache or BELLJAR_CACHE".into())
            }
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
                    "free about 1 GiB there, or set BELLJAR_CACHE to a directory on a larger disk"
                        .into(),
                ),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("set BELLJAR_CACHE to a directory that this user can write".into())
                }
                _ => None,
            },
            Self::Tampered { .. } => Some("`belljar setup` rebuilds it".into()),
        }
    }
}

/// The directory of artifacts, code and images.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the cache at `explicit`, or in the platform's cache directory. The directory need
    /// not exist.
    pub(crate) fn find(explicit: Option<PathBuf>) -> Result<Self, CacheError> {
        let root = explicit
            .or_else(|| {
                directories::ProjectDirs::from("", "", "belljar").map(|d| d.cache_dir().to_owned())
            })
            .ok_or(CacheError::NoHome)?;
        let root = std::path::absolute(&root).map_err(CacheError::io("find", &root))?;
        if root.exists() && !root.is_dir() {
            return Err(CacheError::NotDirectory { path: root });
        }
        Ok(Self { root })
    }

    /// Returns the cache, and creates the directory if it is missing.
    pub(crate) fn open(explicit: Option<PathBuf>) -> Result<Self, CacheError> {
        let cache = Self::find(explicit)?;
        create_private_dir(&cache.root)?;
        Ok(cache)
    }

    /// Returns a bundle as a read-only cache: its files have the same names.
    pub(crate) fn in_bundle(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a subdirectory, which may not exist.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns a subdirectory, and creates it if it is missing.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.path(name);
        create_private_dir(&path)?;
        Ok(path)
    }

    /// Takes the lock `name`. Calls `waiting` once if another process holds it. The lock is
    /// released when the value is dropped, or by the system when the process dies.
    pub(crate) fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<Lock, CacheError> {
        let path = self.dir("locks")?.join(format!("{name}.lock"));
        let file = private_options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(CacheError::io("open the lock", &path))?;
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(fs::TryLockError::WouldBlock) => waiting(),
            Err(fs::TryLockError::Error(source)) => {
                return Err(CacheError::io("take the lock", &path)(source));
            }
        }
        file.lock().map_err(CacheError::io("take the lock", &path))?;
        Ok(Lock { _file: file })
    }
}

/// A lock between processes, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Writes `path` through a temporary name in the same directory, so that readers see it atomically,
/// and seals it.
pub(crate) fn create_sealed(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), CacheError> {
    create_atomically(path, write)?;
    seal::create(path)
}

/// Writes `path` through a temporary name in the same directory, mode 0600.
pub(crate) fn create_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), CacheError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        .tempfile_in(dir)
        .map_err(CacheError::io("create a file in", dir))?;
    write(file.as_file_mut())
        .and_then(|()| file.as_file_mut().flush())
        .and_then(|()| file.as_file().sync_all())
        .map_err(CacheError::io("write", path))?;
    file.persist(path).map_err(|e| CacheError::io("rename a finished file to", path)(e.error))?;
    Ok(())
}

/// Creates a directory, with its parents, that only this user can access.
pub(crate) fn create_private_dir(path: &Path) -> Result<(), CacheError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Some systems report an error before they check whether it exists.
        Err(error) if !path.is_dir() => Err(CacheError::io("create", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn private_options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// On other systems, the directory determines who may read a file.
#[cfg(not(unix))]
fn private_options() -> fs::OpenOptions {
    fs::OpenOptions::new()
}
