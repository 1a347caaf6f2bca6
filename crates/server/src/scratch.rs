//! Directories for temporary files that a later process removes if this one is killed.

use std::fs::{File, OpenOptions, symlink_metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use tempfile::TempDir;

const LOCK: &str = "lock";

/// A directory for temporary files, removed when this is dropped. If the process is killed, the
/// next process with such a directory removes it.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    /// Held as long as the directory is in use.
    _lock: File,
}

impl Scratch {
    /// Creates a directory in `parent`, and removes directories with this prefix whose processes
    /// have ended. Directories for other uses must have other prefixes.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created or locked.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        for entry in std::fs::read_dir(parent)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                remove_abandoned(&entry.path());
            }
        }
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let lock = File::create_new(dir.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { dir, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove_files(self.path());
    }
}

/// Removes the directory of a process that has ended. A directory without a lock is just being
/// created.
fn remove_abandoned(dir: &Path) {
    if let Ok(Some(lock)) = open_lock(dir)
        && lock.try_lock().is_ok()
    {
        remove_files(dir);
        // Fails if another process is faster.
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// Removes everything but the lock. Without that, no other process would continue if this one is
/// killed meanwhile.
fn remove_files(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name() == LOCK {
            continue;
        }
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
            _ => std::fs::remove_file(entry.path()),
        };
    }
}

/// Opens the lock in a directory, if both belong to this user. Other users can write beside the
/// directory, and code that has broken out of a sandbox in it: never follows a link, nor waits for
/// the writer of a pipe.
fn open_lock(dir: &Path) -> io::Result<Option<File>> {
    let user = geteuid().as_raw();
    let about = symlink_metadata(dir)?;
    if !about.is_dir() || about.uid() != user {
        return Ok(None);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let lock = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(dir.join(LOCK))?;
    let about = lock.metadata()?;
    Ok((about.is_file() && about.uid() == user).then_some(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "belljar-test-";

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (abandoned, half_made) = (dir("belljar-test-a"), dir("belljar-test-b"));
        let other_use = dir("belljar-other-a");
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        std::fs::write(abandoned.join("1"), "x").unwrap();
        std::fs::write(other_use.join(LOCK), "").unwrap();
        let alive = Scratch::new(parent.path(), PREFIX).unwrap();
        assert!(!abandoned.exists());
        assert!(half_made.exists() && other_use.exists());
        let other = Scratch::new(parent.path(), PREFIX).unwrap();
        assert!(alive.path().exists());
        assert!(other.path().exists());
    }

    #[test]
    fn a_lock_that_is_no_file_of_ours_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("target");
        std::fs::write(&target, "").unwrap();
        let dir = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (linked, piped) = (dir("belljar-test-a"), dir("belljar-test-b"));
        std::os::unix::fs::symlink(&target, linked.join(LOCK)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(piped.join(LOCK)).status();
        assert!(made.unwrap().success());
        Scratch::new(parent.path(), PREFIX).unwrap();
        assert!(linked.exists() && piped.exists());
    }
}
