//! Seals, which detect changes of cache files.
//!
//! A seal records a file's SHA-256 and its identity at the last check: device, inode, size, and the
//! times of modification and change. While the identity is the same, the file has not been written
//! (a user cannot set the change time), so hundreds of megabytes of native code need not be hashed
//! at every start. If the identity differs, the hash decides.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{CacheError, create_atomically};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Seal {
    sha256: String,
    identity: Identity,
}

/// Identity of a file according to the file system, cheap to query.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    size: u64,
    device_inode: (u64, u64),
    modified_ns: i128,
    changed_ns: i128,
}

/// Seals `path` in its current state.
pub(crate) fn create(path: &Path) -> Result<(), CacheError> {
    let sha256 = hash_file(path)?;
    store(path, &sha256)
}

/// Seals a file that was just written, with the known hash of its contents.
pub(crate) fn create_as(path: &Path, sha256: &str) -> Result<(), CacheError> {
    store(path, sha256)
}

/// Checks that `path` is the file that was sealed.
pub(crate) fn check(path: &Path) -> Result<(), CacheError> {
    check_with(path, false)
}

/// Verifies the whole contents, whatever the file's identity.
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
    // A moved or copied cache: the contents are right, so reseal them to avoid another hash. A
    // read-only cache is still usable.
    let _ = store(path, &seal.sha256);
    Ok(())
}

/// Removes a file with its seal.
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

/// Returns the SHA-256 of a file, as 64 lower-case hexadecimal digits.
pub(crate) fn hash_file(path: &Path) -> Result<String, CacheError> {
    let mut file = File::open(path).map_err(CacheError::io("open", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(HEXLOWER.encode(&hasher.finalize())),
            Ok(n) => hasher.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(CacheError::io("read", path)(e)),
        }
    }
}

/// Returns the SHA-256 of bytes, as 64 lower-case hexadecimal digits.
pub(crate) fn hash_bytes(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
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

    /// Returns the identity of an open file, if the platform supports it.
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

    /// Other platforms have no reliable change time, so every check is a full one.
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
