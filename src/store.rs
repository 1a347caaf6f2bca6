//! A key-value store that several processes share, with conditional writes.
//!
//! Stored sessions and chunks rely on one guarantee: of two writers that have read the same
//! [`Version`], one is rejected.

mod contract;
mod directory;
mod memory;

use std::fmt;
use std::pin::Pin;
use std::time::SystemTime;

use bytes::Bytes;

use crate::limits::{MAX_STORE_KEY, MAX_STORE_KEY_PART};
use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;

pub use contract::check_contract;
pub use directory::DirectoryStore;
pub use memory::MemoryStore;

/// The future of a store operation.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Stores bytes under keys.
///
/// A key consists of parts separated by `/`, such as `sessions/4f1c/head`; see [`check_key`]. A key
/// cannot also be a folder. [`check_contract`] tests all guarantees of this trait.
pub trait Store: fmt::Debug + Send + Sync {
    /// Reads the bytes under `key`; `None` if the key does not exist. Fails if there are more than
    /// `max` bytes.
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>>;

    /// Writes `bytes` under `key`, atomically and durably. Nothing changes if the condition does
    /// not hold.
    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put>;

    /// Lists the keys in `folder` and all folders below it, in order. `""` lists all keys.
    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>>;

    /// Removes the bytes under `key`, if there are any.
    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()>;

    /// Returns a synchronous interface to the same store, if it can be read without awaiting: by a
    /// thread that may block, into existing memory.
    fn at_hand(&self) -> Option<&dyn AtHand> {
        None
    }
}

/// A store whose bytes are on this machine.
pub trait AtHand: Sync {
    /// Replaces the contents of `buffer` by the bytes under `key`, as [`Store::get`] reads them.
    /// Returns false if the key does not exist. Blocks.
    ///
    /// # Errors
    ///
    /// As for [`Store::get`].
    fn read_into(&self, key: &str, max: u64, buffer: &mut Vec<u8>) -> Result<bool, StoreError>;
}

/// Bytes under a key, with their version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The bytes.
    pub bytes: Bytes,
    /// Version of the bytes.
    pub version: Version,
}

/// The version of the bytes under a key. Equal bytes may have equal versions: to detect other
/// writers, write bytes that never repeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Creates a version from the store's text for it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Condition of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always write.
    Always,
    /// Write only if the key has no bytes.
    Absent,
    /// Write only if the key has this version.
    Is(Version),
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// The bytes were written, as this version.
    Written(Version),
    /// The condition did not hold.
    Refused,
}

impl Put {
    /// Returns the version, if the bytes were written.
    #[must_use]
    pub fn written(self) -> Option<Version> {
        match self {
            Self::Written(version) => Some(version),
            Self::Refused => None,
        }
    }
}

/// A key in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Size of the bytes, in bytes.
    pub size: u64,
    /// Time of the write, by the store's clock.
    pub modified: SystemTime,
}

/// A store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key is invalid.
    #[error("{key:?} is not a valid store key: {reason}")]
    Key {
        /// The invalid key.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The value is larger than the caller's limit.
    #[error("{key} holds more than {max} bytes")]
    TooLarge {
        /// The key.
        key: String,
        /// The caller's limit, in bytes.
        max: u64,
    },
    /// The store failed or cannot be reached.
    #[error("cannot {action} {key} in the store")]
    Failed {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The key concerned.
        key: String,
        /// Cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// Converts an error of the underlying storage.
    pub fn failed<E>(action: &'static str, key: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let key = key.into();
        move |source| Self::Failed {
            action,
            key,
            source: source.into(),
        }
    }
}

impl Coded for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::Key { .. } => Code::StoreKey,
            Self::TooLarge { .. } => Code::StoreTooLarge,
            Self::Failed { .. } => Code::StoreFailed,
        }
    }
}

impl Hint for StoreError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Failed { .. } => Some("check that the store is reachable and writable".into()),
            Self::Key { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Checks that `key` is valid: at most 512 bytes, in parts of 1 to 128 letters, digits, `.`, `-`
/// and `_` that do not start with `.`.
///
/// # Errors
///
/// [`StoreError::Key`] with the reason.
pub fn check_key(key: &str) -> Result<(), StoreError> {
    let wrong = |reason| StoreError::Key {
        key: key.chars().take(MAX_STORE_KEY).collect(),
        reason,
    };
    if key.len() > MAX_STORE_KEY {
        return Err(wrong("it is too long"));
    }
    for part in key.split('/') {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if part.is_empty() || part.len() > MAX_STORE_KEY_PART {
            return Err(wrong("a part of it is empty or too long"));
        }
        if part.starts_with('.') || !part.bytes().all(is_plain) {
            return Err(wrong(
                "a part of it has other characters than letters, digits, ., - and _",
            ));
        }
    }
    Ok(())
}

/// Checks that `folder` can be listed: it is a valid key or empty.
fn check_folder(folder: &str) -> Result<(), StoreError> {
    if folder.is_empty() {
        return Ok(());
    }
    check_key(folder)
}

/// Whether `key` is in `folder` or below it.
fn is_in(key: &str, folder: &str) -> bool {
    folder.is_empty() || key.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns a version derived from the bytes, for stores without versions.
fn version_of(bytes: &[u8]) -> Version {
    Version(blake3::hash(bytes).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_nowhere_else() {
        for key in ["a", "a/b.c/d-e_F0", "x/".repeat(200).trim_end_matches('/')] {
            assert!(check_key(key).is_ok(), "{key}");
        }
        for key in ["", "/a", "a/", "a//b", "..", "a/../b", ".a", "a b", "ä", "a\\b", "a\0"] {
            assert!(check_key(key).is_err(), "{key:?}");
        }
        assert!(check_key(&"a".repeat(129)).is_err());
        assert!(check_key(&"a/".repeat(256)).is_err());
    }
}
