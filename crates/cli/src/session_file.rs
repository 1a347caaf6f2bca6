//! A session kept in a file between commands.
//!
//! A command that uses the file locks another file next to it, so that the later of two commands
//! continues from where the earlier ended. The file itself cannot be locked, because it is
//! replaced.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use belljar::request::{ImageChoice, ReasonKind};
use belljar::session::RestoreOptions;
use belljar::{Error, Request, Runtime, Session, SessionOptions};

use super::exit::{Usage, chain, option, refused};
use super::printer::Printer;

/// The default image of a session: the first code does not show what later code will need.
const IMAGE: &str = "data";

/// The start of every checkpoint.
const MAGIC: &[u8] = b"belljar";

/// A file that this command holds until this is dropped.
#[derive(Debug)]
pub(super) struct SessionFile {
    path: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl SessionFile {
    /// Waits until no other command uses the file, with a message if it has to wait. Blocks.
    pub(super) fn wait_for(path: &Path, printer: &Printer) -> Result<Self, Usage> {
        let mut said = false;
        Self::claim(path, || {
            if !std::mem::replace(&mut said, true) {
                printer.note(&format!("waiting for another command that uses {}", path.display()));
            }
            Ok(())
        })
    }

    /// Takes the file if no other command uses it.
    pub(super) fn take(path: &Path) -> Result<Self, Usage> {
        Self::claim(path, || {
            let name = path.display();
            Err(Usage::new(format!("another command uses {name}"))
                .hint("wait until it ends, or name another file"))
        })
    }

    fn claim(path: &Path, mut busy: impl FnMut() -> Result<(), Usage>) -> Result<Self, Usage> {
        let path = resolve(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        loop {
            let failed = |e| failed("lock", &path, e);
            let options = File::options().create(true).truncate(false).write(true).clone();
            let held = options.open(&lock).map_err(failed)?;
            match held.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    busy()?;
                    held.lock().map_err(failed)?;
                }
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
            // The previous holder may have removed the lock file; then others would not find this
            // one.
            if is_at(&held, &lock) {
                return Ok(Self {
                    path,
                    lock,
                    _held: held,
                });
            }
        }
    }

    /// The file, with links resolved.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` is this file.
    pub(super) fn is(&self, path: &Path) -> bool {
        resolve(path).is_ok_and(|path| path == self.path)
    }

    /// The session in the file, or a new one with the options that only a new session can have,
    /// which are removed from `request`. Also returns whether it was in the file.
    pub(super) async fn open(
        &self,
        runtime: &Runtime,
        request: &mut Request,
    ) -> anyhow::Result<(Session, bool)> {
        if !self.path.exists() {
            return Ok((runtime.session(founding(request)).await?, false));
        }
        let mounts = std::mem::take(&mut request.mounts);
        let session = runtime.restore(RestoreOptions::file(&self.path).mounts(mounts)).await?;
        session.validate(request).map_err(|error| self.explain(error))?;
        Ok((session, true))
    }

    /// Saves the session, unless the file is something else.
    pub(super) async fn save(&self, session: &Session) -> anyhow::Result<()> {
        self.check()?;
        Ok(session.checkpoint(&self.path).await?)
    }

    /// Refuses to replace something else than a session.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let mut start = [0; MAGIC.len()];
        let found = File::open(&self.path).and_then(|mut file| file.read_exact(&mut start));
        let is_free = matches!(&found, Err(e) if e.kind() == io::ErrorKind::NotFound);
        if !is_free && start != MAGIC {
            let message = format!("{} exists and is not a session", self.path.display());
            return Err(Usage::new(message).hint("name another file"));
        }
        Ok(())
    }

    fn explain(&self, error: Error) -> anyhow::Error {
        let Error::Refused(refusal) = &error else {
            return error.into();
        };
        if refusal.reasons.iter().all(|reason| reason.kind != ReasonKind::FixedForSession) {
            return error.into();
        }
        let hint = format!(
            "{} holds a session, which keeps what it was made with: leave that out, or name \
             another file",
            self.path.display()
        );
        Usage::new(refused(refusal, option)).hint(hint).into()
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        // Removed while it is held, so that no other holder loses its lock. Where a file cannot be
        // told from its predecessor of the same name, the lock file stays.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// The options of a session that starts with `request`. Removes those that later runs cannot set.
pub(super) fn founding(request: &mut Request) -> SessionOptions {
    let mut start = Request::default();
    start.limits.memory = request.limits.memory.take();
    start.limits.workspace = request.limits.workspace.take();
    start.limits.files = request.limits.files.take();
    start.mounts = std::mem::take(&mut request.mounts);
    for mount in &mut start.mounts {
        // The next command may run in another directory.
        if let Ok(absolute) = std::path::absolute(&mount.host) {
            mount.host = absolute;
        }
    }
    start.image = match std::mem::take(&mut request.image) {
        ImageChoice::Auto => ImageChoice::Named(IMAGE.to_owned()),
        named => named,
    };
    start.aliases = std::mem::take(&mut request.aliases);
    // They are part of the states that the session can go back to.
    start.files = std::mem::take(&mut request.files);
    start.env = std::mem::take(&mut request.env);
    start.deterministic = request.deterministic.take();
    SessionOptions::from_request(start)
}

/// Resolves a path to an absolute one without links, whether the file exists or not.
fn resolve(path: &Path) -> Result<PathBuf, Usage> {
    if path.is_dir() {
        return Err(Usage::new(format!("{} is a directory", path.display())));
    }
    let Some(name) = path.file_name() else {
        return Err(Usage::new(format!("{} has no file name", path.display())));
    };
    if let Ok(found) = path.canonicalize() {
        return Ok(found);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(|e| failed("open the directory of", path, e))?;
    Ok(parent.join(name))
}

fn failed(action: &str, path: &Path, error: io::Error) -> Usage {
    let error = anyhow::Error::new(error).context(format!("cannot {action} {}", path.display()));
    Usage::new(chain(&error))
}

/// Whether an open file is still the one at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    let named = path.symlink_metadata().map(identity).ok();
    named.is_some() && named == file.metadata().map(identity).ok()
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_once_and_leaves_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.belljar");
        let taken = SessionFile::take(&path).unwrap();
        assert!(taken.is(&path) && !taken.is(&folder.path().join("t.belljar")));
        let error = SessionFile::take(&path).unwrap_err();
        assert!(error.to_string().starts_with("another command uses "), "{error}");
        drop(taken);
        drop(SessionFile::take(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn those_who_wait_get_it_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        fs::write(&path, "0").unwrap();
        let add = || {
            let taken = SessionFile::claim(&path, || Ok(())).unwrap();
            let count: u32 = fs::read_to_string(taken.path()).unwrap().parse().unwrap();
            std::thread::yield_now();
            fs::write(taken.path(), (count + 1).to_string()).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| add()));
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "400");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_and_what_it_leads_to_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("s"), folder.path().join("l"));
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(SessionFile::take(&link).unwrap().is(&path));
    }

    #[test]
    fn what_has_no_name_of_a_file_is_refused() {
        for path in ["/", "..", "."] {
            assert!(SessionFile::take(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_new_session_takes_its_part_of_a_request() {
        let mut request = Request::new("1").memory_mib(9).mount(".", "/data").env("A", "b");
        let start = founding(&mut request).start;
        assert_eq!(start.image, ImageChoice::Named("data".to_owned()));
        assert_eq!((start.limits.memory, request.limits.memory), (Some(9 << 20), None));
        assert!(start.mounts[0].host.is_absolute() && request.mounts.is_empty());
        assert_eq!((start.code.as_str(), request.code.as_str()), ("", "1"));
        assert_eq!((start.env.len(), request.env.len()), (1, 0));
    }
}
