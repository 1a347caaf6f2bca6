//! Workspaces: the only place where a run can write, and the files that it left there.
//!
//! Workspaces are trees in memory. A file is written to the host only if a caller copies it.

mod documents;
mod editor;
mod export;
mod merge;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use belljar_files::{Content, ContentReader, Errno, Files, Kind, Node};

pub(crate) use self::documents::Checker;
#[cfg(feature = "fuzzing")]
pub(crate) use self::documents::problem_of;
pub use self::editor::PathProblem;
pub(crate) use self::editor::{Editor, Look, below_top};
pub(crate) use self::export::{Copies, copy_whole};
pub(crate) use self::merge::merge;
use crate::api::outcome::FileEntry;
use crate::api::request::{Content as Given, Deterministic, InputFile};
use crate::util::error_code::{Code, Coded};
use crate::util::hint::{self, Hint};

/// The guest's path of its workspace.
const ROOT: &str = "/workspace";
/// The guest's path of its temporary files.
const TEMPORARY: &str = "/tmp";

/// A run's files cannot be placed, read or copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The operating system refused an operation in the directory.
    #[error("cannot {action} {path} for a run", path = path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path concerned.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// An input file on the host cannot be read.
    #[error("cannot read the input file {path}", path = path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Some files of a run cannot be copied; all other files were copied.
    #[error("{}", export::describe(to, copied.len(), failures))]
    Copies {
        /// Target directory.
        to: PathBuf,
        /// The copies that were made.
        copied: Vec<PathBuf>,
        /// Files that were not copied, with the reasons.
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

/// Returns the default parent of workspaces: the system's directory for temporary files, or, if
/// that is not writable and `TMPDIR` is not set, another directory that usually is.
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
    // Creating a directory as a test would take milliseconds on disks that discard freed blocks.
    rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok() && place.is_dir()
}

#[cfg(not(target_os = "linux"))]
fn can_be_written(place: &Path) -> bool {
    tempfile::tempdir_in(place).is_ok()
}

/// The files at the start of a run, and after it.
#[derive(Clone)]
pub(crate) struct Workspace {
    before: Files,
    now: Files,
}

/// Files and links of a workspace that a run created or changed, by path.
pub(crate) type Changes = BTreeMap<String, Entry>;

/// A file or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub size: u64,
    pub link: Option<String>,
    /// Number of the file, independent of its name.
    pub number: u64,
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace").finish_non_exhaustive()
    }
}

/// A file that a run left, for reading.
pub struct RunFile(ContentReader, u64);

impl RunFile {
    pub(crate) fn of(content: &Content) -> Self {
        Self(content.reader(), content.len())
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.1
    }
}

impl std::fmt::Debug for RunFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunFile").field(&self.1).finish()
    }
}

impl Read for RunFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for RunFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl Workspace {
    /// Creates a workspace from the files before and after a run.
    pub(crate) fn between(before: Files, now: Files) -> Self {
        Self { before, now }
    }

    /// Creates a workspace without changes.
    pub(crate) fn untouched(files: Files) -> Self {
        Self::between(files.clone(), files)
    }

    /// Returns files that are new or changed since the start of the run, sorted by path. Links are
    /// included only if they lead to a file in the workspace.
    pub(crate) fn changes(&self) -> Changes {
        let Ok(top) = self.now.find(ROOT) else {
            return Changes::new();
        };
        let changed = self.now.changes(&self.before, top).into_iter();
        changed.filter_map(|found| entry(&self.now, found.path, found.node, top)).collect()
    }

    /// Returns a regular file. Links are not followed.
    fn content(&self, path: &str) -> Option<&Content> {
        content(&self.now, path)
    }

    /// Opens a regular file. Links are not followed.
    pub(crate) fn open(&self, path: &str) -> Option<RunFile> {
        self.content(path).map(RunFile::of)
    }

    /// Reads a regular file, up to `max` bytes.
    pub(crate) fn read(&self, path: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        read(&self.now, path, max)
    }

    /// Returns the files after the run.
    pub(crate) fn files(&self) -> &Files {
        &self.now
    }

    /// Writes the whole workspace to a new directory below `parent`, which belongs to the caller.
    pub(crate) fn keep(&self, parent: &Path) -> Result<PathBuf, WorkspaceError> {
        let dir = tempfile::Builder::new()
            .prefix("belljar-run-")
            .rand_bytes(12)
            .tempdir_in(parent)
            .map_err(failed("create a directory in", parent))?;
        copy_whole(&self.now, ROOT, dir.path())?;
        Ok(dir.keep())
    }
}

/// Reads a regular file of the workspace, up to `max` bytes.
pub(crate) fn read(files: &Files, path: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(content) = content(files, path) else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    content.reader().take(max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Returns a regular file of the workspace. Links are not followed.
fn content<'f>(files: &'f Files, path: &str) -> Option<&'f Content> {
    files.content(find(files, path)?)
}

fn find(files: &Files, path: &str) -> Option<Node> {
    let is_inside = !path.starts_with('/') && path.split('/').all(|name| name != "..");
    files.find(&format!("{ROOT}/{path}")).ok().filter(|_| is_inside)
}

/// Returns the entry of a file, or of a link that leads to a file in the workspace.
fn entry(files: &Files, path: String, node: Node, top: Node) -> Option<(String, Entry)> {
    let stat = files.stat(node).ok()?;
    let link = match stat.kind {
        Kind::File => None,
        Kind::Symlink => {
            let there = files.find_below(top, &format!("{ROOT}/{path}")).ok()?;
            files.content(there)?;
            Some(files.target(node)?.to_owned())
        }
        _ => return None,
    };
    let entry = Entry {
        size: stat.size,
        link,
        number: stat.ino,
    };
    Some((path, entry))
}

/// Lists the files and links of a workspace, sorted by path.
pub(crate) fn list(files: &Files) -> Vec<FileEntry> {
    let walk = files.find(ROOT).ok().map(|top| files.walk(top));
    let listed = walk.into_iter().flatten().filter_map(|found| {
        let stat = files.stat(found.node).ok()?;
        let is_listed = matches!(stat.kind, Kind::File | Kind::Symlink);
        is_listed.then(|| FileEntry {
            path: found.path,
            size: stat.size,
            symlink: files.target(found.node).map(str::to_owned),
            sha256: None,
            media_type: None,
            problem: None,
        })
    });
    let mut listed: Vec<FileEntry> = listed.collect();
    listed.sort_by(|one, other| one.path.cmp(&other.path));
    listed
}

/// Places files for a run, with this modification time in nanoseconds since 1970. Returns their
/// size and number.
pub(crate) fn place(
    files: &mut Files,
    inputs: &[InputFile],
    now: u64,
) -> Result<(u64, u64), WorkspaceError> {
    let mut bytes = 0;
    for input in inputs {
        let path = Path::new(&input.path);
        let refused = |errno: Errno| failed("write", path)(errno.into());
        let content = match &input.content {
            Given::Bytes(bytes) => files.pool().content(bytes).map_err(refused)?,
            Given::Host(host) => from_host(files, host)?.map_err(refused)?,
        };
        bytes += content.len();
        let inside = format!("{ROOT}/{}", input.path);
        if files.find(&inside).is_ok_and(|node| files.target(node).is_some()) {
            files.remove(&inside, false, now).map_err(refused)?;
        }
        files.put_file(&inside, content, now).map_err(refused)?;
    }
    Ok((bytes, inputs.len() as u64))
}

fn from_host(files: &Files, host: &Path) -> Result<Result<Content, Errno>, WorkspaceError> {
    let unreadable = |source| WorkspaceError::Input {
        path: host.to_owned(),
        source,
    };
    let mut from = fs::File::open(host).map_err(unreadable)?;
    if !from.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    let received = files.pool().receive(&mut from, u64::MAX).map_err(unreadable)?;
    Ok(received.and_then(|content| content.ok_or(Errno::Fbig)))
}

/// Returns the time in nanoseconds since 1970, on the clock of a guest of age `lived`.
pub(crate) fn now(deterministic: Option<&Deterministic>, lived: Duration) -> u64 {
    let since = match deterministic {
        Some(clock) => Duration::from_secs(clock.epoch).saturating_add(lived),
        None => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
    };
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts a file's time.
pub(crate) fn time(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

/// Returns the size of a text as JSON, in bytes.
pub(crate) fn json_bytes(text: &str) -> u64 {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<u64>() + 2
}
