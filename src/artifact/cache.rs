//! The cache directory: what was downloaded, compiled and baked on this machine.
//!
//! Everything in it can be made again. Directories are private to the user, files are written
//! under a temporary name and renamed, and a [seal](seal) beside each file tells whether it is
//! still the one that was written.

pub(crate) mod pip;
pub(crate) mod seal;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;

/// A failure of the cache directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Neither `BELLJAR_CACHE` nor a home directory says where the cache belongs.
    #[error("no place for the cache: BELLJAR_CACHE is not set and this user has no home directory")]
    NoHome,
    /// Something else is where the cache was to be.
    #[error("{path} is not a directory", path = path.display())]
    NotDirectory {
        /// The place.
        path: PathBuf,
    },
    /// The operating system refused something in the cache directory.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file is not what was written there: truncated, altered or from elsewhere.
    #[error("{path} is not the file that was written there: {reason}", path = path.display())]
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

/// The error of a cache whose files an earlier version left, and that cannot be brought up to date.
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
                Some("name a directory for the cache with --cache or BELLJAR_CACHE".into())
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
            Self::Tampered { .. } => Some("`belljar setup` makes it again".into()),
        }
    }
}

/// Where artifacts, code and images are kept.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache at `explicit`, else in the platform's directory for caches. The directory need not
    /// exist.
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

    /// The same, made when it is missing.
    pub(crate) fn open(explicit: Option<PathBuf>) -> Result<Self, CacheError> {
        let cache = Self::find(explicit)?;
        create_private_dir(&cache.root)?;
        Ok(cache)
    }

    /// A bundle, which has some of what a cache has under the same names, and is only read.
    pub(crate) fn in_bundle(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a subdirectory is, whether it is there or not.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A subdirectory, made when it is missing.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.path(name);
        create_private_dir(&path)?;
        Ok(path)
    }

    /// Takes the lock `name`, calling `waiting` once when another process holds it. The lock is
    /// released when the value is dropped, and by the system when the process dies.
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

/// A lock between processes, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Writes `path` through a temporary name in the same directory, so that a reader sees all of it
/// or nothing, and seals it.
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

/// Makes a directory, with its parents, that only this user can enter.
pub(crate) fn create_private_dir(path: &Path) -> Result<(), CacheError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Some systems refuse before they look whether it is there.
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

/// Elsewhere who may read a file is what its directory says.
#[cfg(not(unix))]
fn private_options() -> fs::OpenOptions {
    fs::OpenOptions::new()
}
