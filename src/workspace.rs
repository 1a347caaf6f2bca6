//! Workspaces: the one place where a run can write, and what it left there.
//!
//! The host looks at a workspace through a [`Dir`] handle, which never follows a link out.

mod contents;
mod copies;
mod edit;
mod folder;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

pub(crate) use self::contents::{
    Contents, FadingFile, Identities, Node, Prepared, Spool, StoredFile, json_bytes,
};
pub(crate) use self::copies::Copies;
pub(crate) use self::edit::Moved;
pub use self::edit::PathProblem;
use self::folder::Folder;
use crate::api::request::{Content, InputFile};
use crate::blame::{Code, Coded};
use crate::hint::{self, Hint};

/// A run's directory cannot be made, filled or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The operating system refused something in the directory.
    #[error("cannot {action} {path} for a run", path = path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An input file of the host cannot be read.
    #[error("cannot read the input file {path}", path = path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Some of the files that a run left cannot be copied; the others were.
    #[error("{}", copies::describe(to, copied.len(), failures))]
    Copies {
        /// The directory to which they were to be copied.
        to: PathBuf,
        /// The copies that were made.
        copied: Vec<PathBuf>,
        /// Those that were not, and why.
        failures: Vec<(PathBuf, io::Error)>,
    },
}

impl Coded for WorkspaceError {
    fn code(&self) -> Code {
        let is_full = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        match self {
            Self::Io { source, .. } if is_full(source) => Code::WorkspaceFull,
            Self::Io { .. } => Code::WorkspaceIo,
            Self::Input { .. } => Code::WorkspaceInput,
            Self::Copies { failures, .. } if failures.iter().any(|(_, e)| is_full(e)) => {
                Code::WorkspaceFull
            }
            Self::Copies { .. } => Code::WorkspaceCopies,
        }
    }
}

impl Hint for WorkspaceError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or set the directory with RuntimeBuilder::temp_dir".into())
            }
            Self::Io { source, .. }
                if matches!(
                    source.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::PermissionDenied
                        | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Some(
                    "runs need a directory that can be written: name one with TMPDIR or \
                     RuntimeBuilder::temp_dir"
                        .into(),
                )
            }
            Self::Io { source, .. } => hint::lacks_descriptors(source),
            Self::Copies { .. } => Some("copy to a directory that has nothing else in it".into()),
            Self::Input { .. } => {
                Some("a file must exist and be readable; mount directories".into())
            }
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    move |source| WorkspaceError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Where workspaces are made when nobody says where: the system's directory for temporary files, or
/// where that cannot be written and `TMPDIR` names none, another that usually can.
pub(crate) fn default_parent() -> PathBuf {
    let usual = std::env::temp_dir();
    if !cfg!(unix) || std::env::var_os("TMPDIR").is_some() {
        return usual;
    }
    let others = ["/dev/shm", "/var/tmp"].map(PathBuf::from);
    std::iter::once(usual.clone())
        .chain(others)
        .find(|place| can_be_written(place))
        .unwrap_or(usual)
}

#[cfg(target_os = "linux")]
fn can_be_written(place: &Path) -> bool {
    use rustix::fs::Access;
    // A directory on trial takes milliseconds where a disk is told of each block that is free again.
    rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok() && place.is_dir()
}

#[cfg(not(target_os = "linux"))]
fn can_be_written(place: &Path) -> bool {
    tempfile::tempdir_in(place).is_ok()
}

/// Makes workspaces, and keeps those that were never written to for the next run.
#[derive(Debug)]
pub(crate) struct Workspaces {
    parent: PathBuf,
    unused: Mutex<Vec<Folder>>,
    swept: Once,
}

/// The most unused directories that are kept.
const MAX_UNUSED: usize = 32;

impl Workspaces {
    /// Workspaces under `parent`.
    pub(crate) fn new(parent: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            parent,
            unused: Mutex::default(),
            swept: Once::new(),
        })
    }

    /// An empty workspace with `files` placed in it.
    pub(crate) fn create(
        self: &Arc<Self>,
        files: &[InputFile],
    ) -> Result<Workspace, WorkspaceError> {
        let kept = self.lock().pop();
        let mut workspace = Workspace {
            folder: Some(kept.map_or_else(|| self.folder(), Ok)?),
            home: Arc::clone(self),
            unused: false,
            before: Snapshot::new(),
        };
        for file in files {
            workspace.put(file)?;
        }
        if !files.is_empty() {
            workspace.before = workspace.snapshot()?;
        }
        Ok(workspace)
    }

    /// Removes those that are kept.
    pub(crate) fn clear(&self) {
        let unused = std::mem::take(&mut *self.lock());
        drop(unused);
    }

    fn folder(&self) -> Result<Folder, WorkspaceError> {
        let folder = Folder::create(&self.parent)?;
        self.swept.call_once(|| folder::sweep(&self.parent, &folder));
        Ok(folder)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Folder>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fresh directory for one run or session; removed, or if it was never written to given back,
/// when dropped.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// `None` once it was given away or back.
    folder: Option<Folder>,
    home: Arc<Workspaces>,
    unused: bool,
    before: Snapshot,
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Files and links of a workspace at one time, by path.
pub(crate) type Snapshot = BTreeMap<String, Entry>;

/// A file or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub size: u64,
    pub link: Option<String>,
    identity: FileIdentity,
}

/// Tells a rewritten file from an untouched one: inode, and times of modification and change.
type FileIdentity = (u64, Option<SystemTime>, i128);

impl Entry {
    /// Number of the file whatever its name; `None` where the system does not tell.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.identity.0).filter(|number| *number != 0)
    }
}

impl Workspace {
    /// Declares that nothing was placed in it and no guest wrote to it.
    pub(crate) fn declare_unused(&mut self) {
        self.unused = self.before.is_empty();
    }

    /// Declares that it is not for others any more.
    pub(crate) fn declare_used(&mut self) {
        self.unused = false;
    }

    /// Lets others have its directory at once if it is unused.
    pub(crate) fn give_back(&mut self) {
        if !self.unused {
            return;
        }
        if let Some(folder) = self.folder.take().filter(Folder::is_own) {
            let mut unused = self.home.lock();
            if unused.len() < MAX_UNUSED {
                unused.push(folder);
            }
        }
    }

    fn folder(&self) -> &Folder {
        self.folder.as_ref().expect("a workspace that guests see has its folder")
    }

    fn dir(&self) -> &Dir {
        self.folder().dir()
    }

    /// The directory that the guest sees as `/workspace`.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder().root()
    }

    /// The directory that the guest sees as `/tmp`.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder().temporary()
    }

    /// Places further files, before a further run; what is there then is not new to it. Returns
    /// their bytes and their number.
    pub(crate) fn put_all(&mut self, files: &[InputFile]) -> Result<(u64, u64), WorkspaceError> {
        for file in files {
            self.put(file)?;
        }
        self.look()?;
        let placed = files.iter().filter_map(|file| self.before.get(&file.path));
        let bytes = placed.map(|entry| entry.size).sum();
        Ok((bytes, files.len() as u64))
    }

    /// Takes what is there now for what was there before the next run.
    pub(crate) fn look(&mut self) -> Result<(), WorkspaceError> {
        self.before = self.snapshot()?;
        Ok(())
    }

    /// Bytes and files that were in it before the run.
    pub(crate) fn before(&self) -> (u64, u64) {
        (self.before.values().map(|e| e.size).sum(), self.before.len() as u64)
    }

    /// Files that are new or changed since the run began, sorted by path.
    pub(crate) fn changes(&self) -> Result<Snapshot, WorkspaceError> {
        let mut now = self.snapshot()?;
        now.retain(|path, entry| self.before.get(path) != Some(entry));
        Ok(now)
    }

    /// Opens a regular file, never through a link that leaves the workspace.
    pub(crate) fn open(&self, path: &str) -> io::Result<cap_std::fs::File> {
        let dir = self.folder.as_ref().ok_or(io::ErrorKind::NotFound)?.dir();
        if !dir.symlink_metadata(path)?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        dir.open(path)
    }

    /// Gives the directory to the caller; of one that was given back, an empty one.
    pub(crate) fn keep(mut self) -> Result<PathBuf, WorkspaceError> {
        let folder = self.folder.take().map_or_else(|| self.home.folder(), Ok)?;
        Ok(folder.keep())
    }

    fn put(&self, file: &InputFile) -> Result<(), WorkspaceError> {
        let path = Path::new(&file.path);
        if let Some(parent) = path.parent() {
            self.dir().create_dir_all(parent).map_err(failed("create the directory of", path))?;
        }
        match &file.content {
            Content::Bytes(bytes) => self.dir().write(path, bytes).map_err(failed("write", path)),
            Content::Host(host) => {
                let unreadable = |source| WorkspaceError::Input {
                    path: host.clone(),
                    source,
                };
                let mut from = std::fs::File::open(host).map_err(unreadable)?;
                if !from.metadata().map_err(unreadable)?.is_file() {
                    return Err(unreadable(io::ErrorKind::IsADirectory.into()));
                }
                let mut to = self.dir().create(path).map_err(failed("write", path))?.into_std();
                io::copy(&mut from, &mut to).map_err(failed("copy to", path))?;
                Ok(())
            }
        }
    }

    fn snapshot(&self) -> Result<Snapshot, WorkspaceError> {
        let mut found = Snapshot::new();
        let mut waiting = vec![String::new()];
        while let Some(folder) = waiting.pop() {
            let at = if folder.is_empty() {
                "."
            } else {
                folder.as_str()
            };
            let entries = self.dir().read_dir(at).map_err(failed("list", Path::new(at)))?;
            for entry in entries {
                let entry = entry.map_err(failed("list", Path::new(at)))?;
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let path = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                let meta = self
                    .dir()
                    .symlink_metadata(&path)
                    .map_err(failed("look at", Path::new(&path)))?;
                if meta.is_dir() {
                    waiting.push(path);
                } else if let Some(entry) = self.entry(&path, &meta) {
                    found.insert(path, entry);
                }
            }
        }
        Ok(found)
    }

    /// A regular file, or a link that leads to one inside the workspace; nothing else is listed.
    fn entry(&self, path: &str, meta: &Metadata) -> Option<Entry> {
        let link = if meta.is_symlink() {
            let target = self.dir().read_link_contents(path).ok()?;
            self.dir().metadata(path).ok().filter(Metadata::is_file)?;
            Some(target.into_os_string().into_string().ok()?)
        } else if meta.is_file() {
            None
        } else {
            return None;
        };
        Some(Entry {
            size: meta.len(),
            link,
            identity: identity(meta),
        })
    }
}

#[cfg(unix)]
fn identity(meta: &Metadata) -> FileIdentity {
    use cap_std::fs::MetadataExt;
    let changed = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    (meta.ino(), meta.modified().ok().map(cap_std::time::SystemTime::into_std), changed)
}

#[cfg(not(unix))]
fn identity(meta: &Metadata) -> FileIdentity {
    (0, meta.modified().ok().map(cap_std::time::SystemTime::into_std), 0)
}

/// Reads a file of a workspace, at most `most` bytes of it.
pub(crate) fn read(workspace: &Workspace, path: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match workspace.open(path) {
        Ok(file) => file,
        Err(error) if hint::lacks_descriptors(&error).is_some() => return Err(error),
        Err(_) => return Ok(None),
    };
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A directory that a guest writes to, as the host measures it; links are not followed.
#[derive(Debug)]
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self(root)
    }

    /// Bytes and files, directories included, below the root, and whether there are links.
    pub(crate) fn measure(&self) -> io::Result<(u64, u64, bool)> {
        let (mut bytes, mut files, mut has_links) = (0, 0, false);
        self.walk(Path::new("."), |_, meta| {
            files += 1;
            bytes += if meta.is_dir() { 0 } else { meta.len() };
            has_links |= meta.is_symlink();
        })?;
        Ok((bytes, files, has_links))
    }

    /// A path without the links that lead to it, if there is something.
    pub(crate) fn real(&self, path: &str) -> Option<String> {
        self.open().ok()?.canonicalize(path).ok()?.into_os_string().into_string().ok()
    }

    pub(crate) fn is_directory(&self, path: &str) -> bool {
        self.open().and_then(|root| root.symlink_metadata(path)).is_ok_and(|meta| meta.is_dir())
    }

    /// How many names and bytes of names the deepest path below `path` has.
    pub(crate) fn height(&self, path: &str) -> Option<(usize, usize)> {
        let start = Path::new(path);
        if !self.open().ok()?.symlink_metadata(start).ok()?.is_dir() {
            return Some((0, 0));
        }
        let (mut parts, mut bytes) = (0, 0);
        self.walk(start, |below, _| {
            parts = parts.max(below.components().count());
            bytes = bytes.max(below.as_os_str().len() + 1);
        })
        .ok()?;
        Some((parts, bytes))
    }

    /// Every path below the root.
    pub(crate) fn paths(&self) -> io::Result<Vec<String>> {
        let mut paths = Vec::new();
        self.walk(Path::new("."), |path, _| paths.extend(path.to_str().map(str::to_owned)))?;
        Ok(paths)
    }

    /// Opened only to measure, which few runs need.
    fn open(&self) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.0, ambient_authority())
    }

    /// Visits everything below `start`, by its path from there.
    fn walk(&self, start: &Path, mut visit: impl FnMut(&Path, &Metadata)) -> io::Result<()> {
        let root = self.open()?;
        let mut waiting = vec![PathBuf::new()];
        while let Some(folder) = waiting.pop() {
            for entry in root.read_dir(start.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                let meta = entry.metadata()?;
                visit(&path, &meta);
                if meta.is_dir() {
                    waiting.push(path);
                }
            }
        }
        Ok(())
    }
}
