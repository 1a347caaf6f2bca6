//! Seals: how a cache file is known to be the one that was written.
//!
//! A seal records the SHA-256 of a file, and the file's identity at the time it was last checked:
//! device, inode, size, and the times of modification and of change. While the identity holds,
//! nothing has written to the file since (a user cannot set the change time), and the hash of
//! hundreds of megabytes of native code need not be taken at every start. When it differs, the
//! hash decides.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{CacheError, create_atomically};
use crate::util::hex;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Seal {
    sha256: String,
    identity: Identity,
}

/// Identity of a file as the file system tells it, cheap to ask for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    size: u64,
    device_inode: (u64, u64),
    modified_ns: i128,
    changed_ns: i128,
}

/// Records `path` as it is now.
pub(crate) fn create(path: &Path) -> Result<(), CacheError> {
    let sha256 = hash_file(path)?;
    store(path, &sha256)
}

/// The same for a file that was just written, with the hash that its bytes had.
pub(crate) fn create_as(path: &Path, sha256: &str) -> Result<(), CacheError> {
    store(path, sha256)
}

/// Checks that `path` is the file that was sealed.
pub(crate) fn check(path: &Path) -> Result<(), CacheError> {
    check_with(path, false)
}

/// Checks the whole content, whatever the file's identity says.
pub(crate) fn check_fully(path: &Path) -> Result<(), CacheError> {
    check_with(path, true)
}

fn check_with(path: &Path, fully: bool) -> Result<(), CacheError> {
    let tampered = |reason| CacheError::Tampered {
        path: path.to_owned(),
        reason,
    };
    let text = fs::read(seal_path(path)).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => tampered("it has no seal"),
        _ => CacheError::io("read the seal of", path)(e),
    })?;
    let seal: Seal =
        serde_json::from_slice(&text).map_err(|_| tampered("its seal cannot be read"))?;
    if fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Err(tampered("it is gone, and only its seal is there"));
    }
    let identity = Identity::of(path)?;
    if identity == seal.identity && !fully {
        return Ok(());
    }
    if identity.size != seal.identity.size {
        return Err(tampered("its size has changed"));
    }
    if hash_file(path)? != seal.sha256 {
        return Err(tampered("its content has changed"));
    }
    // A moved or copied cache: the content is right, so the next start need not hash again. A
    // cache that cannot be written is still good.
    let _ = store(path, &seal.sha256);
    Ok(())
}

/// Removes a file together with its seal.
pub(crate) fn remove(path: &Path) -> Result<(), CacheError> {
    for path in [path.to_owned(), seal_path(path)] {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(CacheError::io("remove", &path)(e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The SHA-256 of a file, as 64 lower-case hexadecimal digits.
pub(crate) fn hash_file(path: &Path) -> Result<String, CacheError> {
    let mut file = File::open(path).map_err(CacheError::io("open", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex::encode(&hasher.finalize())),
            Ok(n) => hasher.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(CacheError::io("read", path)(e)),
        }
    }
}

/// The SHA-256 of bytes, as 64 lower-case hexadecimal digits.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

fn seal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

fn store(path: &Path, sha256: &str) -> Result<(), CacheError> {
    let seal = Seal {
        sha256: sha256.to_owned(),
        identity: Identity::of(path)?,
    };
    create_atomically(&seal_path(path), |file| Ok(serde_json::to_writer(file, &seal)?))
}

impl Identity {
    fn of(path: &Path) -> Result<Self, CacheError> {
        let meta = fs::metadata(path).map_err(CacheError::io("look at", path))?;
        Ok(Self::from_metadata(&meta))
    }

    /// That of a file that is open, where it is telling.
    pub(crate) fn of_open(file: &File) -> io::Result<Option<Self>> {
        let identity = Self::from_metadata(&file.metadata()?);
        Ok(cfg!(unix).then_some(identity))
    }

    #[cfg(unix)]
    fn from_metadata(meta: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            size: meta.len(),
            device_inode: (meta.dev(), meta.ino()),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Elsewhere nothing is as telling as the change time: an identity that never matches makes
    /// every check a full one.
    #[cfg(not(unix))]
    fn from_metadata(meta: &fs::Metadata) -> Self {
        Self {
            size: meta.len(),
            device_inode: (0, 0),
            modified_ns: -1,
            changed_ns: i128::from(std::process::id()),
        }
    }
}
