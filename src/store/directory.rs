//! A store in a directory. Several processes can share it, and several machines if the file system
//! supports locks between them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{
    Answer, AtHand, Blob, Condition, Entry, Put, Store, StoreError, Version, check_folder,
    check_key, version_of,
};
use crate::artifact::cache::create_private_dir;

/// Stores each key in its own file.
///
/// A file is written under a temporary name, flushed to disk and renamed, under a lock shared by
/// all writers of the key. Temporary files of processes that died are removed later.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    root: Arc<Path>,
}

/// Folder of unfinished files; no key begins with a dot.
const WRITING: &str = ".writing";
/// Folder of lock files. Each key maps to one of them; several keys share a lock.
const LOCKS: &str = ".locks";
const LOCK_COUNT: u8 = 64;
/// Number of attempts to create a folder that other writers remove concurrently.
const MAX_TRIES: usize = 16;
/// Age of an unfinished file that is considered abandoned.
const LEFT_BEHIND: Duration = Duration::from_hours(1);

impl DirectoryStore {
    /// Opens the store in `root`. The directory is created if missing, readable by this user only.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created or written.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let name = root.display().to_string();
        for dir in [WRITING, LOCKS] {
            create_private_dir(&root.join(dir)).map_err(StoreError::failed("open", &name))?;
        }
        remove_old(&root.join(WRITING)).map_err(StoreError::failed("open", name))?;
        Ok(Self { root: root.into() })
    }

    fn lock(&self, key: &str) -> io::Result<File> {
        let number = blake3::hash(key.as_bytes()).as_bytes()[0] % LOCK_COUNT;
        let path = self.root.join(LOCKS).join(number.to_string());
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn read(&self, key: &str, max: u64) -> Result<Option<Blob>, StoreError> {
        let mut bytes = Vec::new();
        if !self.read_into(key, max, &mut bytes)? {
            return Ok(None);
        }
        let version = version_of(&bytes);
        let bytes = bytes.into();
        Ok(Some(Blob { bytes, version }))
    }

    fn write(&self, key: &str, bytes: &[u8], condition: &Condition) -> io::Result<Put> {
        let path = self.root.join(key);
        // The condition is checked again under the lock. This check only avoids a needless write.
        if !holds(&path, condition)? {
            return Ok(Put::Refused);
        }
        let mut file = tempfile::NamedTempFile::new_in(self.root.join(WRITING))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        let dir = path.parent().unwrap_or(&self.root);
        self.make_dir(dir)?;
        let lock = self.lock(key)?;
        if !holds(&path, condition)? {
            return Ok(Put::Refused);
        }
        file.persist(&path).map_err(|error| error.error)?;
        File::open(dir)?.sync_all()?;
        drop(lock);
        Ok(Put::Written(version_of(bytes)))
    }

    /// Creates a directory below the root, durably.
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(&self.root);
        if parent.starts_with(&self.root) {
            self.make_dir(parent)?;
        }
        create_private_dir(dir).map_err(io::Error::other)?;
        File::open(parent)?.sync_all()
    }

    fn entries(&self, folder: &str) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let read = match fs::read_dir(self.root.join(&folder)) {
                Ok(read) => read,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(error),
            };
            for entry in read {
                let entry = entry?;
                // Keys have only names of this form.
                let name = entry.file_name();
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                    continue;
                };
                let key = match folder.as_str() {
                    "" => name.to_owned(),
                    folder => format!("{folder}/{name}"),
                };
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(error) if is_absent(&error) => continue,
                    Err(error) => return Err(error),
                };
                if metadata.is_dir() {
                    folders.push(key);
                } else if metadata.is_file() {
                    found.push(Entry {
                        key,
                        size: metadata.len(),
                        modified: metadata.modified()?,
                    });
                }
            }
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.root.join(key);
        let lock = self.lock(key)?;
        match fs::remove_file(&path) {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
        drop(lock);
        // An empty folder does not exist for callers. A concurrent writer recreates the folder, or
        // its file makes the removal fail.
        let folders = path.ancestors().skip(1).take_while(|dir| *dir != &*self.root);
        for folder in folders {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Runs `work` on a thread that may block.
    fn blocking<'a, T: Send + 'static>(
        &self,
        action: &'static str,
        key: &'a str,
        work: impl FnOnce(&Self, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'a, T> {
        let (store, owned) = (self.clone(), key.to_owned());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&store, &owned));
            done.await.map_err(StoreError::failed(action, key))?
        })
    }
}

/// Whether a condition holds for a file. Reads the whole file, since conditional values are small.
fn holds(path: &Path, condition: &Condition) -> io::Result<bool> {
    Ok(match condition {
        Condition::Always => true,
        Condition::Absent => !path.is_file(),
        Condition::Is(version) => is_version(path, version)?,
    })
}

fn is_version(path: &Path, version: &Version) -> io::Result<bool> {
    let Some(mut file) = open(path)? else {
        return Ok(false);
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(version_of(&bytes) == *version)
}

/// Opens the file at `path`; `None` if it does not exist or is a folder.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Ok(None),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Removes temporary files of processes that died while writing.
fn remove_old(dir: &Path) -> io::Result<()> {
    let now = SystemTime::now();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        if age.is_some_and(|age| age > LEFT_BEHIND) {
            // Another process may remove the same file.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl Store for DirectoryStore {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        self.blocking("read", key, move |store, key| store.read(key, max))
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        self.blocking("write", key, move |store, key| {
            check_key(key)?;
            let mut tries = 0;
            loop {
                tries += 1;
                match store.write(key, &bytes, &condition) {
                    // A concurrent removal of the folder's last key has just removed the folder.
                    Err(error) if is_absent(&error) && tries < MAX_TRIES => {}
                    written => return written.map_err(StoreError::failed("write", key)),
                }
            }
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        self.blocking("list", folder, |store, folder| {
            check_folder(folder)?;
            store.entries(folder).map_err(StoreError::failed("list", folder))
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.blocking("remove", key, |store, key| {
            check_key(key)?;
            store.remove(key).map_err(StoreError::failed("remove", key))
        })
    }

    fn at_hand(&self) -> Option<&dyn AtHand> {
        Some(self)
    }
}

impl AtHand for DirectoryStore {
    fn read_into(&self, key: &str, max: u64, buffer: &mut Vec<u8>) -> Result<bool, StoreError> {
        check_key(key)?;
        let failed = || StoreError::failed("read", key);
        let Some(mut file) = open(&self.root.join(key)).map_err(failed())? else {
            return Ok(false);
        };
        let length = file.metadata().map_err(failed())?.len();
        if length > max {
            let key = key.to_owned();
            return Err(StoreError::TooLarge { key, max });
        }
        // Files are replaced atomically, so the length is fixed. The buffer's old contents are not
        // cleared first.
        buffer.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        file.read_exact(buffer).map_err(failed())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::check_contract;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn it_keeps_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        check_contract(Arc::new(DirectoryStore::open(&root).unwrap())).await.unwrap();
        let left = fs::read_dir(root.join(WRITING)).unwrap().count();
        assert_eq!(left, 0, "files that were refused are left");
    }

    #[tokio::test]
    async fn what_one_process_put_another_finds() {
        let dir = tempfile::tempdir().unwrap();
        let one = DirectoryStore::open(dir.path()).unwrap();
        let put = one.put("a/b", Bytes::from_static(b"x"), Condition::Absent).await.unwrap();
        let other = DirectoryStore::open(dir.path()).unwrap();
        let found = other.get("a/b", 1).await.unwrap().unwrap();
        assert_eq!(Put::Written(found.version), put);
        assert!(other.get("a", 1).await.unwrap().is_none(), "a folder is no key");
    }

    #[tokio::test]
    async fn what_was_left_behind_goes() {
        let dir = tempfile::tempdir().unwrap();
        drop(DirectoryStore::open(dir.path()).unwrap());
        let left = dir.path().join(WRITING).join("left");
        let file = File::create(&left).unwrap();
        file.set_modified(SystemTime::now() - 2 * LEFT_BEHIND).unwrap();
        let new = dir.path().join(WRITING).join("new");
        fs::write(&new, "").unwrap();
        drop(DirectoryStore::open(dir.path()).unwrap());
        assert!(!left.exists() && new.exists());
    }
}
