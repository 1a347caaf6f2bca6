//! Contents of a guest's directories at one time, kept so that they can be put into others.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::folder::Folder;
use super::{FileIdentity, Workspace, WorkspaceError, failed, identity};
use crate::api::outcome::FileEntry;
use crate::memory::Process;

/// The directories, by the first part of a path in here.
pub(super) const WORKSPACE: &str = "workspace";
const TEMPORARY: &str = "tmp";

/// Files up to this size are kept in memory, in bytes.
const MAX_IN_MEMORY: u64 = 64 << 10;
/// A file changed this short a time ago may change again without its times saying so.
const SETTLES: Duration = Duration::from_millis(20);

/// Everything in a guest's directories, by path: `workspace/…` and `tmp/…`, separated by `/`.
/// Parents come before what is in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents(pub BTreeMap<String, Node>);

/// A path's file, directory or link.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Directory,
    /// A symbolic link, and where it points to.
    Link(String),
    File(StoredFile),
}

/// A file that is kept.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub modified: SystemTime,
    pub size: u64,
    pub(super) bytes: Bytes,
}

#[derive(Clone, Debug)]
pub(super) enum Bytes {
    Memory(Arc<[u8]>),
    Disk(Arc<SpoolFile>),
}

/// A file that is there for as long as somebody else keeps it.
#[derive(Debug)]
pub(crate) enum FadingFile {
    Memory(Weak<[u8]>),
    Disk(Weak<SpoolFile>, u64),
}

impl FadingFile {
    /// The file, if it is still kept.
    pub(crate) fn get(&self, modified: SystemTime) -> Option<StoredFile> {
        let (bytes, size) = match self {
            Self::Memory(bytes) => {
                let bytes = bytes.upgrade()?;
                let size = bytes.len() as u64;
                (Bytes::Memory(bytes), size)
            }
            Self::Disk(file, size) => (Bytes::Disk(file.upgrade()?), *size),
        };
        Some(StoredFile {
            modified,
            size,
            bytes,
        })
    }
}

/// The directory in which larger files are kept.
#[derive(Debug)]
pub(crate) struct Spool {
    /// Like that of a run, so that it is found when this process dies.
    folder: Folder,
    next: AtomicU64,
}

/// A file that is to be kept, whose bytes come in any order.
pub(crate) struct Prepared {
    size: u64,
    bytes: PreparedBytes,
}

enum PreparedBytes {
    Memory(Mutex<Vec<u8>>),
    Disk(SpoolFile),
}

/// A file of a spool; removed when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct SpoolFile(PathBuf, Process);

impl SpoolFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if self.1.is_current() {
            // At worst it goes with its directory.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

impl Spool {
    /// A new directory under `parent`.
    pub(crate) fn create(parent: &Path) -> Result<Arc<Self>, WorkspaceError> {
        Ok(Arc::new(Self {
            folder: Folder::create(parent)?,
            next: AtomicU64::new(0),
        }))
    }

    /// A path that nothing has in it yet.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.root().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Keeps `size` bytes read from `from`.
    pub(crate) fn store(
        &self,
        from: &mut dyn Read,
        size: u64,
        modified: SystemTime,
    ) -> io::Result<StoredFile> {
        let mut from = from.take(size);
        let bytes = if size <= MAX_IN_MEMORY {
            let mut bytes = Vec::with_capacity(size as usize);
            from.read_to_end(&mut bytes)?;
            Bytes::Memory(bytes.into())
        } else {
            let file = SpoolFile(self.path(), Process::current());
            io::copy(&mut from, &mut File::create_new(&file.0)?)?;
            Bytes::Disk(Arc::new(file))
        };
        Ok(StoredFile {
            modified,
            size,
            bytes,
        })
    }

    /// A place for a file of so many bytes, which are yet to be written.
    pub(crate) fn prepare(&self, size: u64) -> io::Result<Prepared> {
        let bytes = if size <= MAX_IN_MEMORY {
            PreparedBytes::Memory(vec![0; size as usize].into())
        } else {
            let file = SpoolFile(self.path(), Process::current());
            File::create_new(&file.0)?.set_len(size)?;
            PreparedBytes::Disk(file)
        };
        Ok(Prepared { size, bytes })
    }

    /// Keeps all that `from` gives; `None` when that is more than `max` bytes. A failure of `from` is
    /// told apart from one to keep it.
    pub(crate) fn receive(
        &self,
        from: &mut dyn Read,
        max: u64,
    ) -> Result<io::Result<Option<StoredFile>>, io::Error> {
        let modified = SystemTime::now();
        let mut start = Vec::new();
        let most = MAX_IN_MEMORY.min(max);
        from.take(most + 1).read_to_end(&mut start)?;
        let mut size = start.len() as u64;
        if size <= most {
            let bytes = Bytes::Memory(start.into());
            return Ok(Ok(Some(StoredFile {
                modified,
                size,
                bytes,
            })));
        }
        let file = SpoolFile(self.path(), Process::current());
        let mut to = match File::create_new(&file.0) {
            Ok(to) => to,
            Err(error) => return Ok(Err(error)),
        };
        let mut part = start;
        while size <= max {
            if let Err(error) = to.write_all(&part) {
                return Ok(Err(error));
            }
            part.resize(MAX_IN_MEMORY as usize, 0);
            let read = match from.read(&mut part) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    part.clear();
                    continue;
                }
                read => read?,
            };
            if read == 0 {
                let bytes = Bytes::Disk(Arc::new(file));
                return Ok(Ok(Some(StoredFile {
                    modified,
                    size,
                    bytes,
                })));
            }
            part.truncate(read);
            size += read as u64;
        }
        Ok(Ok(None))
    }

    /// Keeps a copy of a file; a file system that can share their blocks does.
    fn store_file(&self, from: &File, modified: SystemTime) -> io::Result<StoredFile> {
        let size = from.metadata()?.len();
        if size <= MAX_IN_MEMORY {
            return self.store(&mut &*from, size, modified);
        }
        let file = SpoolFile(self.path(), Process::current());
        let size = io::copy(&mut &*from, &mut File::create_new(&file.0)?)?;
        Ok(StoredFile {
            modified,
            size,
            bytes: Bytes::Disk(Arc::new(file)),
        })
    }
}

impl Prepared {
    /// Writes some of its bytes, those from `at` on.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.bytes {
            PreparedBytes::Memory(all) => {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all[at as usize..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            // Not held open: there may be more of them than a process may have open.
            PreparedBytes::Disk(file) => {
                let mut file = File::options().write(true).open(&file.0)?;
                file.seek(SeekFrom::Start(at))?;
                file.write_all(bytes)
            }
        }
    }

    /// The file, once all of it is written.
    pub(crate) fn finish(self, modified: SystemTime) -> StoredFile {
        let bytes = match self.bytes {
            PreparedBytes::Memory(all) => {
                Bytes::Memory(all.into_inner().unwrap_or_else(PoisonError::into_inner).into())
            }
            PreparedBytes::Disk(file) => Bytes::Disk(Arc::new(file)),
        };
        StoredFile {
            modified,
            size: self.size,
            bytes,
        }
    }
}

impl StoredFile {
    /// Writes its bytes.
    pub(crate) fn write_to(&self, to: &mut dyn Write) -> io::Result<()> {
        match &self.bytes {
            Bytes::Memory(bytes) => to.write_all(bytes),
            Bytes::Disk(file) => io::copy(&mut File::open(&file.0)?, to).map(|_| ()),
        }
    }

    fn copy_to(&self, mut to: &File) -> io::Result<()> {
        match &self.bytes {
            Bytes::Memory(bytes) => to.write_all(bytes)?,
            Bytes::Disk(file) => {
                io::copy(&mut File::open(&file.0)?, &mut to)?;
            }
        }
        to.set_modified(self.modified)
    }

    /// The same file, for as long as it is kept elsewhere.
    pub(crate) fn fading(&self) -> FadingFile {
        match &self.bytes {
            Bytes::Memory(bytes) => FadingFile::Memory(Arc::downgrade(bytes)),
            Bytes::Disk(file) => FadingFile::Disk(Arc::downgrade(file), self.size),
        }
    }

    /// Its address: two that are kept under the same one are one.
    pub(crate) fn address(&self) -> usize {
        match &self.bytes {
            Bytes::Memory(bytes) => Arc::as_ptr(bytes).addr(),
            Bytes::Disk(file) => Arc::as_ptr(file).addr(),
        }
    }
}

/// Identities of the files of one workspace, by which changed ones are told.
#[derive(Debug, Default)]
pub(crate) struct Identities(BTreeMap<String, (u64, FileIdentity)>);

impl Contents {
    /// Contents of `workspace` now. Files that `known` tells to be those of `before` are not read.
    pub(crate) fn capture(
        workspace: &Workspace,
        before: &Self,
        known: &mut Identities,
        spool: &Spool,
    ) -> Result<Self, WorkspaceError> {
        let now = SystemTime::now();
        let mut found = Self::default();
        let mut identities = BTreeMap::new();
        // Files with several names are kept once: a guest may give one a thousand.
        let mut named: HashMap<u64, Node> = HashMap::new();
        for (name, root) in roots(workspace) {
            let dir = open(&root)?;
            let mut waiting = vec![PathBuf::new()];
            while let Some(folder) = waiting.pop() {
                let at = if folder.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    &folder
                };
                for entry in dir.read_dir(at).map_err(failed("list", at))? {
                    let path = folder.join(entry.map_err(failed("list", at))?.file_name());
                    let Some(key) = path.to_str().map(|path| format!("{name}/{path}")) else {
                        continue;
                    };
                    let look = failed("look at", &path);
                    let meta = dir.symlink_metadata(&path).map_err(look)?;
                    if meta.is_dir() {
                        found.0.insert(key, Node::Directory);
                        waiting.push(path);
                    } else if meta.is_symlink() {
                        let target =
                            dir.read_link_contents(&path).map_err(failed("read", &path))?;
                        if let Ok(target) = target.into_os_string().into_string() {
                            found.0.insert(key, Node::Link(target));
                        }
                    } else if meta.is_file() {
                        let identity = (meta.len(), identity(&meta));
                        let same = known.0.get(&key) == Some(&identity);
                        let several = number_if_linked(&meta);
                        let node = if let Some(node) = several.and_then(|n| named.get(&n)) {
                            node.clone()
                        } else if let Some(node) = before.0.get(&key).filter(|_| same) {
                            node.clone()
                        } else {
                            let read = failed("read", &path);
                            let file = dir.open(&path).map_err(read)?.into_std();
                            let modified =
                                meta.modified().map_or(now, cap_std::time::SystemTime::into_std);
                            let stored = spool.store_file(&file, modified);
                            Node::File(stored.map_err(failed("keep", &path))?)
                        };
                        if let Some(number) = several {
                            named.entry(number).or_insert_with(|| node.clone());
                        }
                        if settled(&meta, now) {
                            identities.insert(key.clone(), identity);
                        }
                        found.0.insert(key, node);
                    }
                }
            }
        }
        known.0 = identities;
        Ok(found)
    }

    /// Places everything into an empty workspace.
    pub(crate) fn write_into(&self, workspace: &Workspace) -> Result<Identities, WorkspaceError> {
        let mut identities = BTreeMap::new();
        let mut links = Vec::new();
        let mut names: HashMap<usize, (usize, &Path)> = HashMap::new();
        let roots = roots(workspace);
        let dirs = [open(&roots[0].1)?, open(&roots[1].1)?];
        for (number, (name, root)) in roots.iter().enumerate() {
            let dir = &dirs[number];
            let prefix = format!("{name}/");
            let inside = self.0.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix));
            for (key, node) in inside {
                let path = Path::new(&key[prefix.len()..]);
                match node {
                    Node::Directory => dir.create_dir(path).map_err(failed("create", path))?,
                    Node::Link(target) => links.push((root.clone(), path, target)),
                    Node::File(stored) => {
                        let first = names.get(&stored.address());
                        let link = |(there, first): &(usize, &Path)| {
                            dirs[*there].hard_link(first, dir, path).is_ok()
                        };
                        if first.is_some_and(link) {
                            continue;
                        }
                        let file = dir.create(path).map_err(failed("create", path))?.into_std();
                        stored.copy_to(&file).map_err(failed("write", path))?;
                        let meta = dir.symlink_metadata(path).map_err(failed("look at", path))?;
                        // It cannot have changed since, for no guest has seen it.
                        identities.insert(key.clone(), (meta.len(), identity(&meta)));
                        names.insert(stored.address(), (number, path));
                    }
                }
            }
        }
        for (root, path, target) in links {
            symlink(&open(&root)?, target, path).map_err(failed("link", path))?;
        }
        Ok(Identities(identities))
    }

    /// The bytes of a regular file of the workspace, if there is one of that name.
    pub(crate) fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.file(path).map(|stored| stored.read_range(0, u64::MAX)).transpose()
    }

    /// A regular file of the workspace.
    pub(super) fn file(&self, path: &str) -> Option<&StoredFile> {
        match self.0.get(&format!("{WORKSPACE}/{path}"))? {
            Node::File(stored) => Some(stored),
            Node::Directory | Node::Link(_) => None,
        }
    }

    /// The files and links of the workspace, sorted by path.
    pub(crate) fn list(&self) -> Vec<FileEntry> {
        let entry = |path: &str, size, symlink| FileEntry {
            path: path.to_owned(),
            size,
            symlink,
            sha256: None,
            media_type: None,
        };
        let prefix = format!("{WORKSPACE}/");
        let inside =
            self.0.iter().filter_map(|(key, node)| Some((key.strip_prefix(&prefix)?, node)));
        let listed = inside.filter_map(|(path, node)| match node {
            Node::Directory => None,
            Node::Link(target) => Some(entry(path, target.len() as u64, Some(target.clone()))),
            Node::File(stored) => Some(entry(path, stored.size, None)),
        });
        listed.collect()
    }

    /// Bytes of files, each of which counts once whatever names it has, and how many names there are.
    pub(crate) fn size(&self) -> (u64, u64) {
        let files = self.0.values().filter_map(|node| match node {
            Node::File(stored) => Some((stored.address(), stored.size)),
            Node::Directory | Node::Link(_) => None,
        });
        let files: HashMap<usize, u64> = files.collect();
        (files.into_values().fold(0, u64::saturating_add), self.0.len() as u64)
    }

    /// Bytes that the names take.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.0.keys().map(|path| (path.len() + size_of::<(String, Node)>()) as u64).sum()
    }

    /// Bytes of the document that lists all this in a checkpoint, at most.
    pub(crate) fn document_bytes(&self) -> u64 {
        /// Of a file besides its path: what it is, when it was written, and where its bytes are.
        const NODE: u64 = 128;
        /// Of each piece of a file, with the name of the chunk that it is in.
        const PIECE: u64 = 100;
        let node = |(path, node): (&String, &Node)| {
            let more = match node {
                Node::Directory => 0,
                Node::Link(target) => json_bytes(target),
                Node::File(file) => (file.size >> 20) * PIECE,
            };
            json_bytes(path) + NODE + more
        };
        self.0.iter().map(node).sum()
    }

    /// Bytes of files that `other` does not share.
    pub(crate) fn beyond(&self, other: &Self) -> u64 {
        let own = self.0.iter().filter_map(|(path, node)| match (node, other.0.get(path)) {
            (Node::File(mine), Some(Node::File(theirs))) if mine.address() == theirs.address() => {
                None
            }
            (Node::File(mine), _) => Some(mine.size),
            _ => None,
        });
        own.sum()
    }
}

impl Identities {
    /// Forgets a file that the host is about to write.
    pub(crate) fn forget(&mut self, path: &str) {
        self.0.remove(&format!("{WORKSPACE}/{path}"));
    }
}

/// Bytes of a text as JSON.
pub(crate) fn json_bytes(text: &str) -> u64 {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<u64>() + 2
}

fn roots(workspace: &Workspace) -> [(&'static str, PathBuf); 2] {
    [(WORKSPACE, workspace.root()), (TEMPORARY, workspace.temporary())]
}

fn open(root: &Path) -> Result<Dir, WorkspaceError> {
    Dir::open_ambient_dir(root, ambient_authority()).map_err(failed("open", root))
}

#[cfg(unix)]
fn symlink(dir: &Dir, target: &str, path: &Path) -> io::Result<()> {
    dir.symlink_contents(target, path)
}

#[cfg(not(unix))]
fn symlink(dir: &Dir, target: &str, path: &Path) -> io::Result<()> {
    dir.symlink_file(target, path)
}

/// The number of a file that has more names than one.
#[cfg(unix)]
pub(super) fn number_if_linked(meta: &cap_std::fs::Metadata) -> Option<u64> {
    use cap_std::fs::MetadataExt;
    (meta.nlink() > 1).then(|| meta.ino())
}

#[cfg(not(unix))]
pub(super) fn number_if_linked(_: &cap_std::fs::Metadata) -> Option<u64> {
    None
}

/// Whether a file's times will tell a further change from the one that they are of. The guest sets
/// the time of modification as it likes, that of the change only the system.
#[cfg(unix)]
fn settled(meta: &cap_std::fs::Metadata, now: SystemTime) -> bool {
    use cap_std::fs::MetadataExt;
    let changed = u64::try_from(meta.ctime()).unwrap_or(0);
    let nanoseconds = u32::try_from(meta.ctime_nsec()).unwrap_or(0);
    let changed = SystemTime::UNIX_EPOCH + Duration::new(changed, nanoseconds);
    now.duration_since(changed).is_ok_and(|age| age > SETTLES)
}

#[cfg(not(unix))]
fn settled(_: &cap_std::fs::Metadata, _: SystemTime) -> bool {
    false
}
