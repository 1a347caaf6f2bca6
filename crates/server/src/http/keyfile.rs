//! The key file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use super::auth::Key;
use crate::service::owner::KeyLimits;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Reading or writing failed.
    #[error("cannot {action} the keys in {path}", path = path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The content is invalid.
    #[error("{path} is not a valid key file: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Entry>,
}

/// A key in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// SHA-256 of the key in hexadecimal.
    sha256: String,
    /// Whether its holder may read the metrics of all accounts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    operator: bool,
    #[serde(default)]
    limits: KeyLimits,
}

/// Reads a key file.
///
/// # Errors
///
/// Fails if the file cannot be read, is invalid, or has two keys of one name.
pub fn read(path: &Path) -> Result<Vec<Key>, KeysError> {
    let text = std::fs::read_to_string(path).map_err(|source| KeysError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|reason| KeysError::Format {
        path: path.to_owned(),
        reason,
    })
}

/// Adds a key to a file. A missing file is created, readable only by its owner. An existing file
/// keeps its owner and mode, and a symbolic link stays a link.
///
/// # Errors
///
/// Fails if the file cannot be read or written, or has a key of this name.
pub fn add(path: &Path, key: &Key) -> Result<(), KeysError> {
    let failed = |action| {
        move |source| KeysError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(failed("read"))?,
    };
    let entry = Entry {
        name: key.name.clone(),
        sha256: HEXLOWER.encode(&key.sha256),
        operator: key.is_operator,
        limits: key.limits.clone(),
    };
    // Comments and formatting stay as they are.
    let added = toml::to_string(&File { key: vec![entry] }).unwrap_or_default();
    let space = if before.is_empty() { "" } else { "\n" };
    let text = format!("{before}{space}{added}");
    parse(&text).map_err(|reason| KeysError::Format {
        path: path.to_owned(),
        reason,
    })?;
    replace(path, text.as_bytes()).map_err(failed("write"))
}

/// Replaces a file's content atomically.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let path = match path.canonicalize() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    std::io::Write::write_all(&mut file, content)?;
    if let Ok(before) = path.metadata() {
        let now = file.as_file().metadata()?;
        if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
            std::os::unix::fs::fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
        }
        file.as_file().set_permissions(before.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

pub(super) fn parse(text: &str) -> Result<Vec<Key>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut names = BTreeSet::new();
    let mut read = |entry: Entry| {
        if entry.name.is_empty() || !names.insert(entry.name.clone()) {
            return Err(format!("the name {:?} is empty or used by another key", entry.name));
        }
        let sha256 = HEXLOWER_PERMISSIVE.decode(entry.sha256.as_bytes()).ok();
        let sha256 = sha256
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| format!("sha256 of {:?} is not 64 hexadecimal digits", entry.name))?;
        Ok(Key {
            name: entry.name,
            sha256,
            limits: entry.limits,
            is_operator: entry.operator,
        })
    };
    file.key.into_iter().map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_and_read_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let (one, _) = Key::generate("one", KeyLimits::default()).unwrap();
        add(&path, &one).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("# ours\n{text}sessions = 3\n")).unwrap();
        let (two, _) = Key::generate("two", KeyLimits::default()).unwrap();
        add(&path, &two).unwrap();
        let keys = read(&path).unwrap();
        assert_eq!((keys[0].sha256, keys[0].limits.sessions), (one.sha256, Some(3)));
        assert_eq!(keys[1], two);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("# ours\n"));
        assert!(add(&path, &two).unwrap_err().to_string().contains("two"));
    }

    #[test]
    fn a_file_keeps_its_owner_its_mode_and_the_link_to_it() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("keys.toml"), folder.path().join("link.toml"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        // Only root can change a file's owner.
        let is_given = chown(&file, Some(12_345), Some(12_345)).is_ok();
        symlink(&file, &link).unwrap();
        let (key, _) = Key::generate("one", KeyLimits::default()).unwrap();
        add(&link, &key).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        let after = file.metadata().unwrap();
        assert_eq!(after.permissions().mode() & 0o777, 0o640);
        assert!(!is_given || (after.uid(), after.gid()) == (12_345, 12_345));
        assert_eq!(read(&file).unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_file_of_keys_is_told_why() {
        let digits = "0".repeat(64);
        for (text, word) in [
            ("x".to_owned(), "key"),
            ("[[key]]\nname = \"a\"".to_owned(), "sha256"),
            ("[[key]]\nname = \"a\"\nsha256 = \"00\"".to_owned(), "64 hexadecimal digits"),
            (format!("[[key]]\nname = \"a\"\nsha256 = \"{}\"", "é".repeat(32)), "64 hexadecimal"),
            (format!("[[key]]\nname = \"\"\nsha256 = \"{digits}\""), "empty"),
            (format!("[[key]]\nname = \"a\"\nsha256 = \"{digits}\"\nlimits.run = 1"), "run"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
