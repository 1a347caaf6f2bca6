//! Where things live that several processes share: bytes under keys, written on a condition.
//!
//! What is built on it (sessions that any node wakes, states in parts) trusts in one thing: of two
//! writers that have read the same [`Version`], one is refused.

mod contract;
mod directory;
mod memory;

use std::fmt;
use std::pin::Pin;
use std::time::SystemTime;

use bytes::Bytes;

use crate::blame::{Code, Coded};
use crate::hint::Hint;
use crate::limits::{MAX_STORE_KEY, MAX_STORE_KEY_PART};

pub use contract::check_contract;
pub use directory::DirectoryStore;
pub use memory::MemoryStore;

/// What a store answers, once it is awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Bytes under keys.
///
/// A key is made of parts with `/` between them, such as `sessions/4f1c/head`: [`check_key`] says
/// which. No key is the folder of another. [`check_contract`] tries all that is promised here.
pub trait Store: fmt::Debug + Send + Sync {
    /// What is under `key`, unless it is more than `max` bytes; `None` where there is nothing.
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>>;

    /// Puts `bytes` under `key`, all at once and so that they outlive this process. Where the
    /// condition does not hold nothing changes.
    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put>;

    /// The keys in `folder`, and in all folders below it, in order. `""` is everything.
    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>>;

    /// Removes what is under `key`, if there is something.
    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()>;

    /// The same store, where what it holds can be read without awaiting anything: by a thread that may
    /// block, into memory that it has.
    fn at_hand(&self) -> Option<&dyn AtHand> {
        None
    }
}

/// A store whose bytes are on this machine.
pub trait AtHand: Sync {
    /// Puts what is under `key` in the place of what is in `buffer`, as [`Store::get`] reads it; false
    /// where there is nothing. It blocks.
    ///
    /// # Errors
    ///
    /// As for [`Store::get`].
    fn read_into(&self, key: &str, max: u64, buffer: &mut Vec<u8>) -> Result<bool, StoreError>;
}

/// Bytes, and which version of what is under their key they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The bytes.
    pub bytes: Bytes,
    /// Their version.
    pub version: Version,
}

/// What was under a key at one time. Equal bytes may have equal versions: whoever wants to know
/// whether somebody else has written in the meantime writes bytes that never come again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// One that a store knows by this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// When bytes are put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// If nothing is there.
    Absent,
    /// If this is there.
    Is(Version),
}

/// What became of bytes that were to be put.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// They are there, as this version.
    Written(Version),
    /// The condition did not hold.
    Refused,
}

impl Put {
    /// The version, if they were written.
    #[must_use]
    pub fn written(self) -> Option<Version> {
        match self {
            Self::Written(version) => Some(version),
            Self::Refused => None,
        }
    }
}

/// A key, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// How many bytes are under it.
    pub size: u64,
    /// When they were put there, by the store's clock.
    pub modified: SystemTime,
}

/// A store could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// That is no key.
    #[error("{key:?} is no key of a store: {reason}")]
    Key {
        /// The text.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is more under the key than was asked for.
    #[error("{key} holds more than {max} bytes")]
    TooLarge {
        /// The key.
        key: String,
        /// The most that was to be read.
        max: u64,
    },
    /// It failed, or cannot be reached.
    #[error("cannot {action} {key} in the store")]
    Failed {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which key.
        key: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// For errors of whatever a store is made of.
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
            Self::Failed { .. } => Some("see that the store can be reached and written".into()),
            Self::Key { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Whether `key` is one: at most 512 bytes, in parts of 1 to 128 letters, digits, `.`, `-` and `_`, of
/// which none begins with `.`.
///
/// # Errors
///
/// [`StoreError::Key`] says why it is none.
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

/// Whether `folder` is one that can be listed: a key, or everything.
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

/// The version of these bytes, where a store has no other.
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
