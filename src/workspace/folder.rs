//! The directories of runs on the disk, and those that dead processes left there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::{WorkspaceError, failed};
use crate::memory::Process;

const PREFIX: &str = "belljar-run-";
const ROOT: &str = "workspace";
const TEMPORARY: &str = "tmp";
/// Only there where the file system knows no locks.
const UNLOCKED: &str = "unlocked";

/// A directory with the two that a guest sees in it; removed when dropped.
///
/// `workspace` is locked for as long as its handle is open, so until it is dropped or the process
/// ends, in whatever way. `tmp` is made only once it is.
#[derive(Debug)]
pub(super) struct Folder {
    /// Closed first where no directory can be removed that somebody has open.
    #[cfg(windows)]
    dir: Dir,
    outer: Outer,
    #[cfg(not(windows))]
    dir: Dir,
}

/// The directory around them, removed when dropped, unless that is in a forked child.
#[derive(Debug)]
struct Outer(PathBuf, Process);

impl Outer {
    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() && self.1.is_current() {
            // At worst it stays until a later process sweeps.
            let _ = remove(&self.0);
        }
    }
}

/// Removes a directory in which a guest may have made trees of any depth.
fn remove(outer: &Path) -> io::Result<()> {
    for name in [ROOT, TEMPORARY] {
        match flatten(&outer.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::remove_dir_all(outer)
}

/// Removes everything in a directory. A tree is taken apart from its top, so that this needs neither
/// stack nor descriptors for each of its levels, as `fs::remove_dir_all` does. Links are not
/// followed.
fn flatten(root: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(root)?.is_dir() {
        return Ok(());
    }
    let mut waiting = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            waiting.push(entry.path());
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    let mut names = (0u64..).map(|number| root.join(format!("{number}.removed")));
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
            } else if fs::remove_dir(entry.path()).is_err() {
                let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
                let to = names.find(is_free).unwrap_or_default();
                fs::rename(entry.path(), &to)?;
                waiting.push(to);
            }
        }
        fs::remove_dir(&folder)?;
    }
    Ok(())
}

impl Folder {
    pub(super) fn create(parent: &Path) -> Result<Self, WorkspaceError> {
        let outer = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(12)
            .tempdir_in(parent)
            .map_err(failed("create a directory in", parent))?;
        let make = |name| {
            let path = outer.path().join(name);
            fs::create_dir(&path).map_err(failed("create", &path))
        };
        make(ROOT)?;
        let dir = open(&outer.path().join(ROOT), || make(UNLOCKED))?;
        make(TEMPORARY)?;
        let outer = Outer(outer.keep(), Process::current());
        Ok(Self { outer, dir })
    }

    /// Whether this process made it, and not one that it was forked from.
    pub(super) fn is_own(&self) -> bool {
        self.outer.1.is_current()
    }

    /// The directory that the guest sees as `/workspace`, opened.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The directory that the guest sees as `/workspace`.
    pub(super) fn root(&self) -> PathBuf {
        self.outer.0.join(ROOT)
    }

    /// The directory that the guest sees as `/tmp`.
    pub(super) fn temporary(&self) -> PathBuf {
        self.outer.0.join(TEMPORARY)
    }

    /// Gives `workspace` to the caller. Without `tmp` beside it nobody takes it for abandoned.
    pub(super) fn keep(self) -> PathBuf {
        let outer = self.outer.keep();
        let scraps = outer.join("scraps");
        // In one step, since removing can end half-way.
        if fs::rename(outer.join(TEMPORARY), &scraps).is_ok() {
            let _ = flatten(&scraps);
            let _ = fs::remove_dir(&scraps);
        }
        outer.join(ROOT)
    }
}

#[cfg(unix)]
fn open(
    root: &Path,
    without_locks: impl FnOnce() -> Result<(), WorkspaceError>,
) -> Result<Dir, WorkspaceError> {
    let file = File::open(root).map_err(failed("open", root))?;
    // It waits at most for a sweep that is looking at the directory right now.
    if file.lock().is_err() {
        without_locks()?;
    }
    Ok(Dir::from_std_file(file))
}

#[cfg(not(unix))]
fn open(
    root: &Path,
    without_locks: impl FnOnce() -> Result<(), WorkspaceError>,
) -> Result<Dir, WorkspaceError> {
    without_locks()?;
    Dir::open_ambient_dir(root, cap_std::ambient_authority()).map_err(failed("open", root))
}

/// Removes the directories that processes of the same user left in `parent`: those that were
/// killed, and those that ended without dropping their runtime. `own` is one of this process.
pub(super) fn sweep(parent: &Path, own: &Folder) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let path = entry.path();
        if let Ok(true) = remove_abandoned(&path, own) {
            tracing::debug!(path = %path.display(), "removed what a dead process left");
        }
    }
}

/// Removes `outer` if no process holds it any more; whether it did.
fn remove_abandoned(outer: &Path, own: &Folder) -> io::Result<bool> {
    let found = fs::symlink_metadata(outer)?;
    if !found.is_dir() || !same_user(&found, &fs::symlink_metadata(&own.outer.0)?) {
        return Ok(false);
    }
    let root = File::open(outer.join(ROOT))?;
    if root.try_lock().is_err() {
        return Ok(false);
    }
    // One that is being made has no `tmp` yet, one that was kept has none any more, and one that
    // was removed while this waited for its turn has nothing.
    let mut names = fs::read_dir(outer)?
        .map(|entry| entry.map(|e| e.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    if names != [TEMPORARY, ROOT] {
        return Ok(false);
    }
    remove(outer)?;
    Ok(true)
}

#[cfg(unix)]
fn same_user(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn same_user(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// What a process leaves that ends without dropping: the directories, not the lock.
    fn abandoned(parent: &Path) -> PathBuf {
        let Folder { outer, dir } = Folder::create(parent).unwrap();
        drop(dir);
        outer.keep()
    }

    #[test]
    fn only_what_was_abandoned_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let own = Folder::create(parent.path()).unwrap();
        let other = Folder::create(parent.path()).unwrap();
        let kept = Folder::create(parent.path()).unwrap().keep();
        let left = abandoned(parent.path());
        fs::write(left.join("workspace/data.bin"), "data").unwrap();
        std::os::unix::fs::symlink(&kept, left.join("workspace/link")).unwrap();
        let half_made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent.path()).unwrap();
        fs::create_dir(half_made.path().join(ROOT)).unwrap();
        let foreign = parent.path().join("belljar-run-of-something-else");
        for name in [TEMPORARY, ROOT, "more"] {
            fs::create_dir_all(foreign.join(name)).unwrap();
        }
        let linked = parent.path().join("belljar-run-link");
        std::os::unix::fs::symlink(abandoned(half_made.path()), &linked).unwrap();

        sweep(parent.path(), &own);
        assert!(!left.exists());
        for path in [&own.root(), &own.temporary(), &other.root(), &kept, &foreign, &linked] {
            assert!(path.exists(), "{}", path.display());
        }
        assert!(half_made.path().join(ROOT).exists());

        drop(other);
        assert!(own.root().exists() && own.temporary().exists());
    }

    #[test]
    fn a_tree_of_any_depth_is_removed() {
        use cap_std::fs::Dir;
        let parent = tempfile::tempdir().unwrap();
        let deep = |root: &Path| {
            let mut dir = Dir::open_ambient_dir(root, cap_std::ambient_authority()).unwrap();
            for _ in 0..30_000 {
                dir.create_dir("d").unwrap();
                dir.write("0.removed", "").unwrap();
                dir = dir.open_dir("d").unwrap();
            }
        };
        let folder = Folder::create(parent.path()).unwrap();
        deep(&folder.root());
        deep(&folder.temporary());
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn many_at_once_make_and_sweep() {
        let parent = tempfile::tempdir().unwrap();
        let left: Vec<_> = (0..50).map(|_| abandoned(parent.path())).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let own = Folder::create(parent.path()).unwrap();
                        sweep(parent.path(), &own);
                        assert!(own.root().exists() && own.temporary().exists());
                    }
                });
            }
        });
        assert!(left.iter().all(|path| !path.exists()));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
