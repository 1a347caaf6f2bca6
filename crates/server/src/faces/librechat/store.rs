//! Storage of uploaded files, output files and directories, each kept for a day.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::http::app::App;
use crate::lock::lock;
use crate::scratch::Scratch;
use crate::service::Service;
use crate::service::cache::Cached;
use crate::service::owner::Owner;

/// How long a file or directory is kept after its last use.
const TIME: Duration = Duration::from_hours(24);
/// Maximum number of files of one owner.
const MAX_FILES: usize = 10_000;
/// Maximum number of directories of one owner.
const MAX_DIRECTORIES: usize = 1_000;

/// Location of a file: its storage session and its id. Neither can be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub session: String,
    pub id: String,
}

impl Place {
    /// The key in the cache. Neither part contains a line break.
    fn key(&self) -> String {
        format!("{}\n{}", self.session, self.id)
    }

    fn bytes(&self) -> usize {
        self.session.len() + self.id.len()
    }
}

/// A stored file.
pub(super) struct Stored {
    pub place: Place,
    /// Path below `/mnt/data`.
    pub name: String,
    pub size: u64,
    pub modified: SystemTime,
    /// Changes by code are discarded.
    pub is_read_only: bool,
    content: Content,
}

impl Cached for Stored {
    const TIME: Duration = TIME;
    const RENEWED_BY_USE: bool = true;
    const MAX: usize = MAX_FILES;

    fn memory(&self) -> u64 {
        (size_of::<Self>() + self.name.len() + self.place.bytes()) as u64
    }

    fn stored(&self) -> u64 {
        self.size + (self.name.len() + self.place.bytes()) as u64
    }
}

/// A file on disk, deleted on drop.
struct Content(PathBuf);

/// The files of all owners. Clones share the same state.
#[derive(Clone)]
pub(super) struct Store {
    service: Service,
    disk: Disk,
    /// The parent of the storage directory.
    parent: PathBuf,
}

/// The storage directory, created when the first file is stored. Clones share the same directory.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    folder: Mutex<Option<Scratch>>,
    next: AtomicU64,
}

/// A file being written. It is deleted on drop unless it is stored.
pub(super) struct Written {
    content: Content,
    pub size: u64,
}

impl Written {
    pub(super) fn path(&self) -> &Path {
        &self.content.0
    }
}

/// The persistent contents of `/mnt/data`, if the client requests persistence. Locked by one
/// request at a time.
pub(super) struct Directory {
    /// Its id for the client.
    pub id: String,
    pub contents: tokio::sync::Mutex<Contents>,
    /// Bytes in memory.
    bytes: AtomicU64,
}

impl Cached for Directory {
    const TIME: Duration = TIME;
    const RENEWED_BY_USE: bool = true;
    const MAX: usize = MAX_DIRECTORIES;

    fn memory(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(super) struct Contents {
    /// Files by name.
    pub files: BTreeMap<String, Place>,
    /// Files that clients have already sent. The directory may have newer versions.
    pub seen: HashSet<Place>,
    pub was_used: bool,
}

impl Contents {
    fn bytes(&self) -> usize {
        let place = |place: &Place| size_of::<Place>() + place.bytes();
        let named = |(name, at): (&String, &Place)| size_of::<String>() + name.len() + place(at);
        self.files.iter().map(named).chain(self.seen.iter().map(place)).sum()
    }
}

impl Stored {
    /// Path on the host.
    pub(super) fn path(&self) -> &Path {
        &self.content.0
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // The storage directory may be deleted first.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Store {
    pub(super) fn new(app: &App, disk: &Disk) -> Self {
        Self {
            service: app.service().clone(),
            disk: disk.clone(),
            parent: tempfile::env::temp_dir(),
        }
    }

    /// Creates a file to write. Blocks.
    pub(super) fn room(&self) -> io::Result<Written> {
        Ok(Written {
            content: Content(self.disk.path(&self.parent)?),
            size: 0,
        })
    }

    /// Maximum size of a file that an owner can store.
    pub(super) fn most(&self, owner: &Owner) -> u64 {
        self.service.cache_limit(owner)
    }

    /// Stores a written file. Returns `None` and deletes the file if it exceeds the owner's limit.
    pub(super) fn keep(
        &self,
        owner: &Owner,
        place: Place,
        name: String,
        written: Written,
        is_read_only: bool,
    ) -> Option<Arc<Stored>> {
        let stored = Arc::new(Stored {
            place,
            name,
            size: written.size,
            modified: SystemTime::now(),
            is_read_only,
            content: written.content,
        });
        let fits = self.service.cache(owner, &stored.place.key(), Arc::clone(&stored));
        fits.then_some(stored)
    }

    /// Returns an owner's file and records its use.
    pub(super) fn find(&self, owner: &Owner, place: &Place) -> Option<Arc<Stored>> {
        self.service.cached(owner, &place.key())
    }

    /// An owner's files in a storage session, by name.
    pub(super) fn list(&self, owner: &Owner, session: &str) -> Vec<Arc<Stored>> {
        let all = self.service.all_cached::<Stored>(owner).into_iter().map(|(_, stored)| stored);
        let mut files: Vec<_> = all.filter(|stored| stored.place.session == session).collect();
        files.sort_by(|one, other| one.name.cmp(&other.name));
        files
    }

    /// Deletes an owner's file, and returns whether it existed.
    pub(super) fn remove(&self, owner: &Owner, place: &Place) -> bool {
        self.service.uncache::<Stored>(owner, &place.key()).is_some()
    }

    /// An owner's directory by name, created if missing.
    pub(super) fn directory(&self, owner: &Owner, name: &str) -> io::Result<Arc<Directory>> {
        let id = new_id()?;
        Ok(self.service.cached_or_insert(owner, &directory_key(name), || Directory {
            id,
            contents: tokio::sync::Mutex::default(),
            bytes: AtomicU64::new(0),
        }))
    }

    /// Updates a directory's size. Forgets files that clients sent when they expire.
    pub(super) fn changed(
        &self,
        owner: &Owner,
        name: &str,
        directory: &Arc<Directory>,
        contents: &mut Contents,
    ) {
        let known: HashSet<Arc<str>> =
            self.service.all_cached::<Stored>(owner).into_iter().map(|(key, _)| key).collect();
        contents.seen.retain(|place| known.contains(place.key().as_str()));
        directory.bytes.store(contents.bytes() as u64, Ordering::Relaxed);
        self.service.cache(owner, &directory_key(name), Arc::clone(directory));
    }
}

/// The key of a directory in the cache. Names have any length.
fn directory_key(name: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(name))
}

impl Disk {
    fn path(&self, parent: &Path) -> io::Result<PathBuf> {
        let mut folder = lock(&self.0.folder);
        let folder = match &*folder {
            Some(folder) => folder,
            None => folder.insert(Scratch::new(parent, PREFIX)?),
        };
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        Ok(folder.path().join(number.to_string()))
    }
}

const PREFIX: &str = "belljar-files-";

/// An id that cannot be guessed.
pub(super) fn new_id() -> io::Result<String> {
    use base64::Engine as _;
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// A reference to a file in a request. Unknown fields are returned unchanged.
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
