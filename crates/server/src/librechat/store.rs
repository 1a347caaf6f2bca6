//! Files that were uploaded or that code left, kept for a day, each of an owner.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::service::owner::Owner;

/// How long a file is kept after it was last used.
pub(super) const KEPT: Duration = Duration::from_hours(24);

/// Bytes and files of one owner; the ones used longest ago go first.
const MAX_BYTES: u64 = 1 << 30;
const MAX_FILES: usize = 10_000;

/// Directories that are kept for one owner.
const MAX_DIRECTORIES: usize = 1_000;

/// Where a file is: the storage session, and its id in it. Neither can be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub session: String,
    pub id: String,
}

/// A file that is kept.
#[derive(Clone)]
pub(super) struct Stored {
    pub place: Place,
    /// Path below `/mnt/data`.
    pub name: String,
    pub size: u64,
    pub modified: SystemTime,
    /// What code does to it is dropped.
    pub is_read_only: bool,
    content: Arc<Content>,
}

/// A file on the disk that goes with the last who refers to it.
struct Content(PathBuf);

/// The files of all owners. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Store(Arc<Shared>);

#[derive(Default)]
struct Shared {
    owners: Mutex<HashMap<String, Kept>>,
    /// Made when the first file is kept.
    dir: Mutex<Option<Folder>>,
    next: AtomicU64,
}

/// The directory that the files are in, which goes with the process: those of processes that were killed
/// are removed by the next.
struct Folder {
    dir: TempDir,
    /// Locked for as long as this process lives.
    _lock: File,
}

/// What one owner has.
#[derive(Default)]
struct Kept {
    files: HashMap<Place, (Stored, Instant)>,
    bytes: u64,
    directories: HashMap<String, Arc<Directory>>,
    /// Names of directories, the one used longest ago first.
    order: VecDeque<String>,
}

/// What `/mnt/data` holds from call to call, where the caller asks for that. One call at a time has it.
pub(super) struct Directory {
    /// Under which the caller is told of it.
    pub id: String,
    pub contents: tokio::sync::Mutex<Contents>,
}

#[derive(Default)]
pub(super) struct Contents {
    /// By name.
    pub files: BTreeMap<String, Place>,
    /// Files that callers have sent along already: what is here may be newer than those.
    pub seen: HashSet<Place>,
    pub was_used: bool,
}

impl Stored {
    /// Its bytes on the host.
    pub(super) fn path(&self) -> &Path {
        &self.content.0
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // The directory that it is in may be gone first.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Store {
    /// A path for the bytes of a file that is to be kept. It blocks.
    pub(super) fn room(&self) -> io::Result<PathBuf> {
        let mut dir = self.0.dir.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = match &*dir {
            Some(dir) => dir,
            None => dir.insert(Folder::new(&std::env::temp_dir())?),
        };
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        Ok(dir.dir.path().join(number.to_string()))
    }

    /// Keeps the file that was written there. `None` when it is larger than all that an owner may have;
    /// then it is gone.
    pub(super) fn keep(
        &self,
        owner: &Owner,
        place: Place,
        name: String,
        (path, size): (PathBuf, u64),
        is_read_only: bool,
    ) -> Option<Stored> {
        let content = Arc::new(Content(path));
        if size > MAX_BYTES {
            return None;
        }
        let stored = Stored {
            place: place.clone(),
            name,
            size,
            modified: SystemTime::now(),
            is_read_only,
            content,
        };
        let mut owners = self.owners();
        let kept = owners.entry(owner.name().to_owned()).or_default();
        kept.drop_old(Instant::now());
        kept.bytes += size;
        kept.files.insert(place, (stored.clone(), Instant::now()));
        kept.make_room();
        Some(stored)
    }

    /// An owner's file, which was used now.
    pub(super) fn find(&self, owner: &Owner, place: &Place) -> Option<Stored> {
        let mut owners = self.owners();
        let kept = owners.get_mut(owner.name())?;
        kept.drop_old(Instant::now());
        let (stored, used) = kept.files.get_mut(place)?;
        *used = Instant::now();
        Some(stored.clone())
    }

    /// An owner's files in one storage session, by name.
    pub(super) fn list(&self, owner: &Owner, session: &str) -> Vec<Stored> {
        let mut owners = self.owners();
        let Some(kept) = owners.get_mut(owner.name()) else {
            return Vec::new();
        };
        kept.drop_old(Instant::now());
        let files = kept.files.values().map(|(stored, _)| stored);
        let mut files: Vec<Stored> =
            files.filter(|stored| stored.place.session == session).cloned().collect();
        files.sort_by(|one, other| one.name.cmp(&other.name));
        files
    }

    /// Forgets an owner's file; whether there was one.
    pub(super) fn remove(&self, owner: &Owner, place: &Place) -> bool {
        let mut owners = self.owners();
        owners.get_mut(owner.name()).is_some_and(|kept| kept.forget(place))
    }

    /// The directory that an owner's callers know by that name, made if there is none.
    pub(super) fn directory(&self, owner: &Owner, name: &str) -> io::Result<Arc<Directory>> {
        let id = new_id()?;
        let mut owners = self.owners();
        let kept = owners.entry(owner.name().to_owned()).or_default();
        kept.order.retain(|known| known != name);
        kept.order.push_back(name.to_owned());
        if kept.order.len() > MAX_DIRECTORIES
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.directories.remove(&oldest);
        }
        let directory = kept.directories.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Directory {
                id,
                contents: tokio::sync::Mutex::default(),
            })
        });
        Ok(Arc::clone(directory))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder {
    fn new(parent: &Path) -> io::Result<Self> {
        for entry in std::fs::read_dir(parent)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove_abandoned(&entry.path());
            }
        }
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(dir.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { dir, _lock: lock })
    }
}

const PREFIX: &str = "belljar-files-";
const LOCK: &str = "lock";

/// Removes the directory of a process that is gone. One that has no lock yet is being made.
fn remove_abandoned(dir: &Path) {
    let is_directory = std::fs::symlink_metadata(dir).is_ok_and(|about| about.is_dir());
    let lock = is_directory.then(|| File::open(dir.join(LOCK)));
    if let Some(Ok(lock)) = lock
        && lock.try_lock().is_ok()
    {
        // Somebody else's cannot be removed, and stays.
        let _ = std::fs::remove_dir_all(dir);
    }
}

impl Kept {
    fn forget(&mut self, place: &Place) -> bool {
        let Some((stored, _)) = self.files.remove(place) else {
            return false;
        };
        self.bytes -= stored.size;
        true
    }

    fn drop_old(&mut self, now: Instant) {
        let is_old = |used: &Instant| now.saturating_duration_since(*used) > KEPT;
        let old: Vec<Place> = self
            .files
            .iter()
            .filter(|(_, (_, used))| is_old(used))
            .map(|(p, _)| p.clone())
            .collect();
        for place in old {
            self.forget(&place);
        }
    }

    fn make_room(&mut self) {
        while self.bytes > MAX_BYTES || self.files.len() > MAX_FILES {
            let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(place) = oldest.map(|(place, _)| place.clone()) else {
                return;
            };
            self.forget(&place);
        }
    }
}

/// An id that nobody can guess.
pub(super) fn new_id() -> io::Result<String> {
    use base64::Engine as _;
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// A file as requests name it. Beside these fields it is sent back as it came.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct FileRef {
    pub id: String,
    #[serde(default, alias = "session_id")]
    pub storage_session_id: String,
    #[serde(default)]
    pub name: String,
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

impl FileRef {
    pub(super) fn place(&self) -> Place {
        Place {
            session: self.storage_session_id.clone(),
            id: self.id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    fn owner(name: &str) -> Owner {
        Owner::new(name, KeyLimits::default())
    }

    fn keep(store: &Store, owner: &Owner, id: &str, size: u64) -> Option<PathBuf> {
        let path = store.room().unwrap();
        std::fs::write(&path, b"x").unwrap();
        let place = Place {
            session: "s".into(),
            id: id.into(),
        };
        let stored = store.keep(owner, place, "a".into(), (path, size), false);
        stored.map(|stored| stored.path().to_owned())
    }

    #[test]
    fn a_file_is_found_by_its_owner_until_it_is_forgotten() {
        let (store, one, two) = (Store::default(), owner("one"), owner("two"));
        let path = keep(&store, &one, "f", 1).unwrap();
        let place = Place {
            session: "s".into(),
            id: "f".into(),
        };
        assert!(store.find(&one, &place).is_some());
        assert!(store.find(&two, &place).is_none());
        assert!(!store.remove(&two, &place));
        assert!(path.exists());
        assert!(store.remove(&one, &place));
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_make_room_and_what_is_in_use_stays_on_the_disk() {
        let (store, one) = (Store::default(), owner("one"));
        keep(&store, &one, "old", MAX_BYTES / 2).unwrap();
        let place = |id: &str| Place {
            session: "s".into(),
            id: id.into(),
        };
        let held = store.find(&one, &place("old")).unwrap();
        keep(&store, &one, "new", MAX_BYTES / 2).unwrap();
        keep(&store, &one, "newest", 1).unwrap();
        assert!(store.find(&one, &place("old")).is_none());
        assert!(store.find(&one, &place("new")).is_some());
        assert!(held.path().exists());
        assert!(keep(&store, &one, "huge", MAX_BYTES + 1).is_none());
        let left = std::fs::read_dir(held.path().parent().unwrap()).unwrap().count();
        assert_eq!(left, 4, "the lock, and three files");
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (abandoned, half_made) = (dir("a"), dir("b"));
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        std::fs::write(abandoned.join("1"), "x").unwrap();
        let alive = Folder::new(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(half_made.exists());
        let other = Folder::new(parent.path()).unwrap();
        assert!(alive.dir.path().exists());
        assert!(other.dir.path().exists());
    }
}
