//! Key files: `[[key]]` tables in TOML.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use toml::value::Datetime;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use super::auth::Key;
use crate::service::owner::KeyLimits;

/// A key file that cannot be used or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file cannot be read or written.
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
    /// The file has no such key, or already has the account.
    #[error("{path}: {reason}", path = path.display())]
    Account {
        /// The file.
        path: PathBuf,
        /// The missing key or the conflict.
        reason: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    key: Vec<Entry>,
}

/// A key in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The account.
    name: String,
    /// The SHA-256 of the key, in hexadecimal digits.
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<Datetime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Datetime>,
    /// Whether the account may read the metrics of all accounts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    operator: bool,
    #[serde(default)]
    limits: KeyLimits,
}

/// Reads a file of keys.
///
/// # Errors
///
/// Fails if the file cannot be read, or is invalid.
pub fn read(path: &Path) -> Result<Vec<Key>, KeysError> {
    let text = std::fs::read_to_string(path).map_err(failed("read", path))?;
    parse(&text).map_err(|reason| KeysError::Format {
        path: path.to_owned(),
        reason,
    })
}

/// Adds the first key of an account. A missing file is created, readable by its owner only.
///
/// # Errors
///
/// Fails if the file cannot be read or written, is invalid, or has a key of that account.
pub fn add(path: &Path, key: &Key) -> Result<(), KeysError> {
    edit(path, |before, tables| {
        if before.iter().any(|other| other.name == key.name) {
            return Err(format!("there already is an account {:?}", key.name));
        }
        tables.push(table(key)?);
        Ok(())
    })
}

/// Removes all keys of an account, or the key with this id. Returns the number of removed keys.
///
/// # Errors
///
/// Fails if the file cannot be read or written, is invalid, or has no such key.
pub fn revoke(path: &Path, name: &str, id: Option<&str>) -> Result<usize, KeysError> {
    edit(path, |before, tables| {
        known(before, name)?;
        let count = before.len();
        retain(before, tables, |key| key.name != name || id.is_some_and(|id| key.id() != id));
        match (count - tables.len(), id) {
            (0, Some(id)) => Err(format!("the account {name:?} has no key {id:?}")),
            (removed, _) => Ok(removed),
        }
    })
}

/// Adds a key to an account, with the account's limits, and returns it with its text. Older keys
/// expire after `overlap`, or go at once if that is zero.
///
/// # Errors
///
/// Fails if the file cannot be read or written, is invalid, or has no key of that account; or when
/// the system provides no random numbers.
pub fn rotate(path: &Path, name: &str, overlap: Duration) -> Result<(Key, String), KeysError> {
    let (mut key, text) =
        Key::generate(name, KeyLimits::default()).map_err(failed("create a key for", path))?;
    let now = SystemTime::now();
    let end = now.checked_add(overlap);
    edit(path, |before, tables| {
        let model = known(before, name)?;
        key.limits.clone_from(&model.limits);
        key.is_operator = model.is_operator;
        let is_kept = |old: &Key| old.name != name || !(overlap.is_zero() || old.is_expired(now));
        retain(before, tables, is_kept);
        let kept = before.iter().filter(|old| is_kept(old));
        for (old, table) in kept.zip(tables.iter_mut()) {
            let is_later = |end: &SystemTime| old.expires.is_none_or(|expires| expires > *end);
            if let (true, Some(end)) = (old.name == name, end.filter(is_later)) {
                table.insert("expires", value(datetime(end)?));
            }
        }
        tables.push(table(&key)?);
        Ok(())
    })?;
    Ok((key, text))
}

/// Changes the tables of a file, and writes it if the result is valid. Comments stay. Concurrent
/// changes wait.
fn edit<T>(
    path: &Path,
    change: impl FnOnce(&[Key], &mut ArrayOfTables) -> Result<T, String>,
) -> Result<T, KeysError> {
    // A symbolic link stays a link.
    let target = match path.canonicalize() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_owned(),
        found => found.map_err(failed("read", path))?,
    };
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // The file itself is replaced, so the directory is locked instead.
    let lock = File::open(parent).map_err(failed("lock", path))?;
    lock.lock().map_err(failed("lock", path))?;
    let text = match std::fs::read_to_string(&target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(failed("read", path))?,
    };
    let invalid = |reason| KeysError::Format {
        path: path.to_owned(),
        reason,
    };
    let before = parse(&text).map_err(invalid)?;
    let mut document = DocumentMut::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    let tables = document.entry("key").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(tables) = tables.as_array_of_tables_mut() else {
        return Err(invalid("keys must be written as [[key]] to be changed".to_owned()));
    };
    let changed = change(&before, tables).map_err(|reason| KeysError::Account {
        path: path.to_owned(),
        reason,
    })?;
    let text = document.to_string();
    parse(&text).map_err(invalid)?;
    // Otherwise, a new file would begin with an empty line.
    replace(&target, parent, text.trim_start().as_bytes()).map_err(failed("write", path))?;
    Ok(changed)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeysError {
    let path = path.to_owned();
    move |source| KeysError::Io {
        action,
        path,
        source,
    }
}

/// A key of the account, for the properties that its keys share.
fn known<'a>(keys: &'a [Key], name: &str) -> Result<&'a Key, String> {
    let found = keys.iter().find(|key| key.name == name);
    found.ok_or_else(|| format!("there is no account {name:?}"))
}

/// Keeps the tables of the keys that `is_kept` selects.
fn retain(keys: &[Key], tables: &mut ArrayOfTables, mut is_kept: impl FnMut(&Key) -> bool) {
    let mut keys = keys.iter();
    tables.retain(|_| keys.next().is_none_or(&mut is_kept));
}

fn table(key: &Key) -> Result<Table, String> {
    let entry = Entry {
        name: key.name.clone(),
        sha256: HEXLOWER.encode(&key.sha256),
        created: key.created.map(datetime).transpose()?,
        expires: key.expires.map(datetime).transpose()?,
        operator: key.is_operator,
        limits: key.limits.clone(),
    };
    let text = toml::to_string(&entry).map_err(|error| error.to_string())?;
    let document = DocumentMut::from_str(&text).map_err(|error| error.to_string())?;
    let mut table = document.into_table();
    // Append the table, followed by its own tables.
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        if let Some(inner) = item.as_table_mut() {
            inner.set_position(None);
        }
    }
    table.decor_mut().set_prefix("\n");
    Ok(table)
}

fn datetime(time: SystemTime) -> Result<Datetime, String> {
    let text = DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true);
    text.parse().map_err(|_| format!("{text} is not a valid time"))
}

fn time(what: &str, name: &str, at: Option<Datetime>) -> Result<Option<SystemTime>, String> {
    let Some(at) = at else {
        return Ok(None);
    };
    let parsed = DateTime::parse_from_rfc3339(&at.to_string()).map_err(|_| {
        format!("{what} of {name:?} needs date, time and offset, such as 2030-01-31T00:00:00Z")
    })?;
    Ok(Some(parsed.into()))
}

/// Replaces the content of a file atomically. The file keeps its owner and mode.
fn replace(path: &Path, parent: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
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
    let content: Content = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut accounts = BTreeMap::new();
    let mut read = |entry: Entry| {
        let name = entry.name;
        if name.is_empty() {
            return Err("a key has an empty name".to_owned());
        }
        let account = (entry.limits.clone(), entry.operator);
        if *accounts.entry(name.clone()).or_insert_with(|| account.clone()) != account {
            return Err(format!("the keys of {name:?} differ in limits or operator"));
        }
        let sha256 = HEXLOWER_PERMISSIVE.decode(entry.sha256.as_bytes()).ok();
        let sha256 = sha256
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| format!("sha256 of {name:?} is not 64 hexadecimal digits"))?;
        Ok(Key {
            sha256,
            created: time("created", &name, entry.created)?,
            expires: time("expires", &name, entry.expires)?,
            name,
            limits: entry.limits,
            is_operator: entry.operator,
        })
    };
    content.key.into_iter().map(&mut read).collect()
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
        // Only root may give a file away.
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
            (
                format!("[[key]]\nname = \"a\"\nsha256 = \"{digits}\"\nexpires = 2030-01-31"),
                "offset",
            ),
            (
                format!(
                    "[[key]]\nname = \"a\"\nsha256 = \"{digits}\"\n\
                     [[key]]\nname = \"a\"\nsha256 = \"{digits}\"\noperator = true"
                ),
                "differ",
            ),
            (format!("[[key]]\nname = \"\"\nsha256 = \"{digits}\""), "empty"),
            (format!("[[key]]\nname = \"a\"\nsha256 = \"{digits}\"\nlimits.run = 1"), "run"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    fn file_of(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        for name in names {
            let limits = KeyLimits {
                sessions: Some(2),
                ..KeyLimits::default()
            };
            add(&path, &Key::generate(*name, limits).unwrap().0).unwrap();
        }
        (folder, path)
    }

    #[test]
    fn a_rotated_key_has_the_limits_of_its_account_and_the_old_one_expires() {
        let (_folder, path) = file_of(&["one", "two"]);
        let hour = Duration::from_hours(1);
        let (key, text) = rotate(&path, "one", hour).unwrap();
        let keys = read(&path).unwrap();
        let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "one"]);
        assert_eq!(keys[2].sha256, key.sha256);
        assert_eq!(keys[2].limits.sessions, Some(2));
        assert_eq!((keys[1].expires, keys[2].expires), (None, None));
        let left = keys[0].expires.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(left <= hour && left > hour / 2, "{left:?}");
        // A second rotation does not prolong it.
        rotate(&path, "one", 5 * hour).unwrap();
        assert_eq!(read(&path).unwrap()[0].expires, keys[0].expires);
        rotate(&path, "one", Duration::ZERO).unwrap();
        let keys = read(&path).unwrap();
        assert_eq!(keys.len(), 2);
        assert!(
            !keys
                .iter()
                .any(|key| key.sha256 == Key::of_text("", KeyLimits::default(), &text).sha256)
        );
        assert!(rotate(&path, "three", hour).unwrap_err().to_string().contains("three"));
    }

    #[test]
    fn a_key_is_revoked_by_its_id_and_an_account_by_its_name() {
        let (_folder, path) = file_of(&["one", "two"]);
        let (key, _) = rotate(&path, "one", Duration::from_hours(1)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("# ours\n{text}")).unwrap();
        // No part of an id removes keys that were not named.
        for id in ["", "x", &key.id()[..1], &HEXLOWER.encode(&key.sha256)[..9]] {
            assert!(revoke(&path, "one", Some(id)).unwrap_err().to_string().contains("no key"));
        }
        assert_eq!(revoke(&path, "one", Some(&key.id())).unwrap(), 1);
        let names = || read(&path).unwrap().into_iter().map(|key| key.name).collect::<Vec<_>>();
        assert_eq!(names(), ["one", "two"]);
        assert_eq!(revoke(&path, "one", None).unwrap(), 1);
        assert_eq!(names(), ["two"]);
        assert!(revoke(&path, "one", None).unwrap_err().to_string().contains("no account"));
    }

    #[test]
    fn two_processes_that_add_keys_lose_none() {
        let (_folder, path) = file_of(&[]);
        std::thread::scope(|scope| {
            for name in 0..8 {
                let path = &path;
                let key = Key::generate(name.to_string(), KeyLimits::default()).unwrap().0;
                scope.spawn(move || add(path, &key).unwrap());
            }
        });
        assert_eq!(read(&path).unwrap().len(), 8);
    }
}
