//! Watches the disk space that a worker's files take.
//!
//! Its own thread counts, because a compromised worker may make millions of files.

use std::fs::{Metadata, read_dir, read_link};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

/// Time between two counts; more if counting takes long.
const PAUSE: Duration = Duration::from_millis(500);
/// The thread counts for at most one part in this many of the time.
const SHARE: u32 = 10;
/// Maximum depth of a worker's files below its directories. A server makes three levels. Each takes
/// a descriptor while it is read.
const MAX_DEPTH: usize = 8;

const TOO_MUCH: &str = "its files took too much disk space";
const TOO_MANY: &str = "it had too many files";
const UNCOUNTABLE: &str = "its files cannot be counted";

/// The count of a worker's files, until this is dropped.
pub(super) struct DiskWatch {
    excess: Arc<OnceLock<&'static str>>,
    _is_over: Sender<()>,
}

/// A count of files, which ends as soon as there are too many.
struct Count {
    bytes: u64,
    files: u64,
    most_bytes: u64,
    most_files: u64,
}

impl DiskWatch {
    /// Watches the directories of a worker. Each may hold `bound` bytes; by default, half of its
    /// file system. `None` if no thread can be started.
    pub(super) fn start(
        worker: u32,
        directories: Vec<PathBuf>,
        bound: Option<u64>,
    ) -> Option<Self> {
        let excess = Arc::new(OnceLock::new());
        let (is_over, over) = channel();
        let found = Arc::clone(&excess);
        let watching = move || watch(worker, &directories, bound, &found, &over);
        std::thread::Builder::new().name("disk".into()).spawn(watching).ok()?;
        Some(Self {
            excess,
            _is_over: is_over,
        })
    }

    /// What the worker has too much of.
    pub(super) fn excess(&self) -> Option<&'static str> {
        self.excess.get().copied()
    }
}

fn watch(
    worker: u32,
    directories: &[PathBuf],
    bound: Option<u64>,
    found: &OnceLock<&'static str>,
    over: &Receiver<()>,
) {
    let mut pause = PAUSE;
    while over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let begun = Instant::now();
        let excess = directories.iter().find_map(|directory| excess(worker, directory, bound));
        if let Some(excess) = excess {
            // Set once.
            let _ = found.set(excess);
            return;
        }
        pause = PAUSE.max(begun.elapsed() * SHARE);
    }
}

/// What a worker has too much of in a directory. `None` also if it does not exist yet.
fn excess(worker: u32, directory: &Path, bound: Option<u64>) -> Option<&'static str> {
    let directory = directory.canonicalize().ok()?;
    let all = statvfs(&directory).ok()?;
    let mut count = Count {
        bytes: 0,
        files: 0,
        most_bytes: bound.unwrap_or(all.f_blocks.saturating_mul(all.f_frsize) / 2),
        // Some file systems do not limit files.
        most_files: if all.f_files == 0 {
            u64::MAX
        } else {
            all.f_files / 2
        },
    };
    count.nameless(worker, &directory).and_then(|()| count.all(&directory, MAX_DEPTH)).err()
}

impl Count {
    /// Adds what is in a directory. Fails also if only the worker can have made it so that it
    /// cannot be read. Files may disappear meanwhile.
    fn all(&mut self, directory: &Path, depth: usize) -> Result<(), &'static str> {
        let entries = match read_dir(directory) {
            Err(error) if is_hidden(&error) => return Err(UNCOUNTABLE),
            Err(_) => return Ok(()),
            Ok(entries) => entries,
        };
        for entry in entries.flatten() {
            let about = match entry.metadata() {
                Err(error) if is_hidden(&error) => return Err(UNCOUNTABLE),
                Err(_) => continue,
                Ok(about) => about,
            };
            self.add(&about)?;
            if about.is_dir() {
                let depth = depth.checked_sub(1).ok_or(UNCOUNTABLE)?;
                self.all(&entry.path(), depth)?;
            }
        }
        Ok(())
    }

    /// Adds the files without names that a worker has open and made in a directory. If the worker
    /// is locked down, the kernel shows them only to processes with `CAP_SYS_PTRACE`.
    fn nameless(&mut self, worker: u32, directory: &Path) -> Result<(), &'static str> {
        for entry in read_dir(format!("/proc/{worker}/fd")).into_iter().flatten().flatten() {
            let is_here = || read_link(entry.path()).is_ok_and(|path| path.starts_with(directory));
            match entry.path().metadata() {
                Ok(about) if about.is_file() && about.nlink() == 0 && is_here() => {
                    self.add(&about)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, about: &Metadata) -> Result<(), &'static str> {
        // Blocks of 512 bytes, whatever the file system.
        self.bytes = self.bytes.saturating_add(about.blocks().saturating_mul(512));
        self.files += 1;
        if self.bytes > self.most_bytes {
            Err(TOO_MUCH)
        } else if self.files > self.most_files {
            Err(TOO_MANY)
        } else {
            Ok(())
        }
    }
}

fn is_hidden(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions, create_dir, create_dir_all, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KIB: u64 = 1 << 10;

    fn own() -> u32 {
        std::process::id()
    }

    #[test]
    fn files_are_counted_by_the_space_that_they_take() {
        let directory = tempfile::tempdir().unwrap();
        create_dir_all(directory.path().join("a/b")).unwrap();
        write(directory.path().join("a/b/c"), vec![1; 256 << 10]).unwrap();
        File::create(directory.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(excess(own(), directory.path(), Some(512 * KIB)), None);
        assert_eq!(excess(own(), directory.path(), Some(128 * KIB)), Some(TOO_MUCH));
        assert_eq!(excess(own(), directory.path(), None), None);
        assert_eq!(excess(own(), &directory.path().join("missing"), Some(0)), None);
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        write(outside.path().join("big"), vec![1; 256 << 10]).unwrap();
        for (target, name) in [(outside.path(), "directory"), (&outside.path().join("big"), "file")]
        {
            std::os::unix::fs::symlink(target, directory.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(directory.path(), directory.path().join("circle")).unwrap();
        assert_eq!(excess(own(), directory.path(), Some(128 * KIB)), None);
    }

    #[test]
    fn files_cannot_be_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let mut path = directory.path().to_owned();
        for _ in 0..=MAX_DEPTH {
            path.push("d");
            create_dir(&path).unwrap();
        }
        assert_eq!(excess(own(), directory.path(), Some(1 << 30)), Some(UNCOUNTABLE));
        let directory = tempfile::tempdir().unwrap();
        let closed = directory.path().join("closed");
        create_dir(&closed).unwrap();
        set_permissions(&closed, Permissions::from_mode(0)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let expected = (!is_root).then_some(UNCOUNTABLE);
        assert_eq!(excess(own(), directory.path(), Some(1 << 30)), expected);
    }

    #[test]
    fn open_files_without_names_count() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = tempfile::tempfile_in(directory.path()).unwrap();
        assert_eq!(excess(own(), directory.path(), Some(512 * KIB)), None);
        io::Write::write_all(&mut file, &vec![1; 1 << 20]).unwrap();
        assert_eq!(excess(own(), directory.path(), Some(512 * KIB)), Some(TOO_MUCH));
        drop(file);
        assert_eq!(excess(own(), directory.path(), Some(512 * KIB)), None);
    }

    #[test]
    fn a_watch_reports_once_and_ends() {
        let directory = tempfile::tempdir().unwrap();
        let watch = DiskWatch::start(own(), vec![directory.path().into()], Some(64 * KIB)).unwrap();
        assert_eq!(watch.excess(), None);
        write(directory.path().join("big"), vec![1; 1 << 20]).unwrap();
        let begun = Instant::now();
        while watch.excess().is_none() {
            assert!(begun.elapsed() < Duration::from_mins(1));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(watch.excess(), Some(TOO_MUCH));
    }
}
