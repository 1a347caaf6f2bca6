//! Directories for temporary files that a later process removes if this one is killed.

use std::fs::File;
use std::io;
use std::path::Path;

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

/// Removes the directory of a process that has ended. A directory without a lock is just being
/// created.
fn remove_abandoned(dir: &Path) {
    let is_directory = std::fs::symlink_metadata(dir).is_ok_and(|about| about.is_dir());
    let lock = is_directory.then(|| File::open(dir.join(LOCK)));
    if let Some(Ok(lock)) = lock
        && lock.try_lock().is_ok()
    {
        // Directories of other users cannot be removed.
        let _ = std::fs::remove_dir_all(dir);
    }
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
}
