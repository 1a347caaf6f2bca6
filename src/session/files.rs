//! Reading and changing a session's files without a run.
//!
//! A session at rest is an immutable state, including its files. Reads use that state, and a change
//! creates a new state, as a run does. Host directories are never involved, and links made by the
//! guest are not followed.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

use async_recursion::async_recursion as boxed;
use belljar_files::{Content, Files, Kind, Node, OpenFile, OpenOn};

use super::context::Context;
use super::run::Core;
use super::state::State;
use super::{Session, SessionError};
use crate::api::policy::check_relative;
use crate::engine::on_blocking_thread;
use crate::error::Error;
use crate::sandbox::{TEMPORARY_PATH, WORKSPACE_PATH, limits, mount_paths};
use crate::workspace::{Editor, Look, PathProblem, RunFile, below_top, merge, now, time};

/// The files of a session, accessible without a run. Every method waits for earlier runs, as a run
/// does.
///
/// Paths are separated by `/`. With [`workspace`](Session::workspace) they are relative to the
/// workspace, whose own path is empty; with [`all_files`](Session::all_files) they are absolute.
/// Links are not followed. Changes belong to the session's latest state: the next run, forks and
/// checkpoints contain them, and a [`rewind`](Session::rewind) undoes them. A change suspends the
/// interpreter, and the next run wakes it.
///
/// ```no_run
/// # async fn example(session: belljar::Session) -> Result<(), belljar::Error> {
/// let files = session.workspace();
/// files.write("data/prices.csv", &b"tea,3\n"[..]).await?;
/// assert_eq!(files.list("", 1).await?[0].path, "data");
/// assert_eq!(files.read("data/prices.csv", 4..).await?, b"3\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SessionFiles {
    session: Session,
    paths: Paths,
}

/// Form of paths.
#[derive(Clone, Copy)]
enum Paths {
    /// Relative to the workspace.
    Relative,
    /// Relative to the guest's root.
    Absolute,
}

/// A file, directory or link in a session's workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEntry {
    /// The path, relative to the workspace or absolute, like the paths of its [`SessionFiles`].
    pub path: String,
    /// Kind of the entry.
    pub kind: PathKind,
    /// Size of a file, or of a link's target path, in bytes; 0 for a directory.
    pub size: u64,
    /// Time of the last write to a file.
    pub modified: Option<SystemTime>,
    /// Target of a symbolic link.
    pub target: Option<String>,
}

/// Kind of an entry in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

impl Session {
    /// Returns access to the files in the workspace, without a run.
    #[must_use]
    pub fn workspace(&self) -> SessionFiles {
        SessionFiles {
            session: self.clone(),
            paths: Paths::Relative,
        }
    }

    /// Returns access to the files in the workspace and in `/tmp`. Paths are absolute:
    /// `/workspace`, `/tmp`, or below one of them.
    #[must_use]
    pub fn all_files(&self) -> SessionFiles {
        SessionFiles {
            session: self.clone(),
            paths: Paths::Absolute,
        }
    }
}

impl SessionFiles {
    /// Lists the entries of a directory, sorted by path. `depth` 1 lists the directory itself, 2
    /// includes its subdirectories, and so on.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the path is not a directory.
    pub async fn list(&self, dir: &str, depth: usize) -> Result<Vec<PathEntry>, Error> {
        let files = self.files("list", dir).await?;
        let inside = files.below(dir, depth).map_err(|why| self.failed("list", dir, why))?;
        Ok(inside.into_iter().map(|(path, look)| entry(path, &look)).collect())
    }

    /// Returns the entry at a path.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the path does not exist.
    pub async fn stat(&self, path: &str) -> Result<PathEntry, Error> {
        let files = self.files("look at", path).await?;
        let look = files.look(path).map_err(|why| self.failed("look at", path, why))?;
        Ok(entry(path.to_owned(), &look))
    }

    /// Reads a range of a regular file, up to the end of the file.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the path is not a regular file.
    pub async fn read(&self, path: &str, range: impl RangeBounds<u64>) -> Result<Vec<u8>, Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let files = self.files("read", path).await?;
        let look = files.look(path).map_err(|why| self.failed("read", path, why))?;
        let problem = match look.kind {
            Kind::Symlink => PathProblem::IsLink,
            _ => PathProblem::IsDirectory,
        };
        let content = look.content.ok_or_else(|| self.failed("read", path, problem))?.clone();
        let read = move || {
            let mut file = RunFile::of(&content);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        on_blocking_thread(read).await?.map_err(Error::system("read a file that a session keeps"))
    }

    /// Writes a file with all bytes of `from`, replacing an existing file. Missing parent
    /// directories are created. The reader is read on a blocking thread before the session is
    /// locked, up to the session's limit on bytes.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the path cannot be a file or the session has no room for it;
    /// [`SessionError::Source`] if the reader fails; [`SessionError::Waiting`], as for all changes,
    /// while a run waits for answers.
    pub async fn write(
        &self,
        path: &str,
        from: impl Read + Send + 'static,
    ) -> Result<PathEntry, Error> {
        let content = self.receive(path, from).await?;
        let mut written = None;
        let change = |files: &mut Files, now| {
            files.put(path, content, now)?;
            written = Some(entry(path.to_owned(), &files.look(path)?));
            Ok(())
        };
        self.change("write", path, change).await?;
        written.ok_or_else(|| self.failed("write", path, PathProblem::NotFound))
    }

    /// Writes a file like [`write`](Self::write), unless `refuse` objects to the existing entry.
    /// The objection is then returned and nothing changes. Check and write are atomic.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub async fn write_unless<E>(
        &self,
        path: &str,
        from: impl Read + Send + 'static,
        refuse: impl FnOnce(Option<&PathEntry>) -> Result<(), E>,
    ) -> Result<Result<PathEntry, E>, Error> {
        let content = self.receive(path, from).await?;
        let (mut written, mut objection) = (None, None);
        let changed = self.change("write", path, |files, now| {
            let there = files.look(path).ok().map(|look| entry(path.to_owned(), &look));
            if let Err(why) = refuse(there.as_ref()) {
                objection = Some(why);
                return Err(PathProblem::Exists);
            }
            files.put(path, content, now)?;
            written = Some(entry(path.to_owned(), &files.look(path)?));
            Ok(())
        });
        let changed = changed.await;
        match (objection, written) {
            (Some(why), _) => Ok(Err(why)),
            (None, Some(written)) => changed.map(|()| Ok(written)),
            (None, None) => {
                changed.and_then(|()| Err(self.failed("write", path, PathProblem::NotFound)))
            }
        }
    }

    /// Returns the maximum size of the session's files together, in bytes.
    ///
    /// # Errors
    ///
    /// [`SessionError::Waiting`] while a run waits for answers, because no file can be written
    /// then.
    pub async fn max_bytes(&self) -> Result<u64, Error> {
        let mut core = self.session.lock().await?;
        core.check_not_waiting(self.context())?;
        let state = &core.past(self.context()).await?.state;
        Ok(state.room(&self.context().fixed.bounds).0)
    }

    /// Returns the size of the session's files together, in the workspace and in `/tmp`, in bytes.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] if the session was closed.
    pub async fn bytes(&self) -> Result<u64, Error> {
        let mut core = self.session.lock().await?;
        Ok(core.past(self.context()).await?.state.files.usage().bytes)
    }

    /// Reads all bytes of `from` into a file that belongs to no session yet.
    async fn receive(
        &self,
        path: &str,
        mut from: impl Read + Send + 'static,
    ) -> Result<Content, Error> {
        self.check("write", path)?;
        let max = self.max_bytes().await?;
        let pool = self.context().storage.roots.pool().clone();
        let received = on_blocking_thread(move || pool.receive(&mut from, max)).await?;
        let received = received.map_err(|source| SessionError::Source {
            path: path.to_owned(),
            source,
        })?;
        let received = received.map_err(io::Error::from);
        let content = received.map_err(Error::system("keep a file of a session"))?;
        content.ok_or_else(|| self.failed("write", path, PathProblem::TooManyBytes))
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if another entry is in the way, or the session has no room for it.
    pub async fn make_dir(&self, path: &str) -> Result<(), Error> {
        self.change("make the directory", path, |files, now| files.make_directory(path, now)).await
    }

    /// Moves a file, directory or link to another path, in an existing directory. An existing file
    /// or link is replaced; an existing directory is not.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if `from` does not exist or `to` is not possible.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.check("rename to", to)?;
        self.change("rename", from, |files, now| files.move_to(from, to, now)).await
    }

    /// Removes a file, a link, or a directory with its contents.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the path does not exist.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.change("remove", path, |files, now| files.take_away(path, now)).await
    }

    /// Replaces the session's files by those of another session of this runtime, in the workspace
    /// and in `/tmp`. Returns whether anything changed; if not, the interpreter stays in memory.
    /// Sessions that run in turn can share a workspace in this way. No bytes are copied.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] if the session has no room for the files; [`SessionError::Waiting`]
    /// while a run of this session waits for answers; [`SessionError::NotFound`] if the other
    /// session belongs to another runtime, whose files end with it.
    #[boxed]
    pub async fn replace_with(&self, other: &SessionFiles) -> Result<bool, Error> {
        if !Arc::ptr_eq(&self.context().storage, &other.context().storage) {
            let id = other.session.id().to_owned();
            return Err(SessionError::NotFound { id }.into());
        }
        let theirs = other.latest().await?;
        let mut core = self.session.lock().await?;
        let context = self.context();
        context.check_pass(self.session.pass)?;
        let ours = &core.past(context).await?.state.files;
        if Arc::ptr_eq(ours, &theirs) || is_same(ours, &theirs) {
            return Ok(false);
        }
        // The claim may have been released during the comparison.
        context.begin_change(self.session.pass)?;
        let changed = core.exchange(context, other.context(), &theirs).await?;
        self.session.finish(core);
        changed.map_err(|why| self.failed("exchange the files of", "", why))?;
        Ok(true)
    }

    /// Merges another session's changes into this session: applies the differences between `before`
    /// and `theirs`, so that files can be returned to a session that has changed meanwhile. If both
    /// sessions changed a file, `theirs` wins; other changes of this session remain. The merge is
    /// atomic, and no bytes are copied. All sessions must belong to this runtime.
    ///
    /// # Errors
    ///
    /// As for [`replace_with`](Self::replace_with), and [`SessionError::Path`] if this session has
    /// a file or link where `theirs` has a directory.
    #[boxed]
    pub async fn merge(&self, before: &SessionFiles, theirs: &SessionFiles) -> Result<(), Error> {
        let context = self.context();
        let of = theirs.context();
        for other in [before, theirs] {
            if !Arc::ptr_eq(&context.storage, &other.context().storage) {
                let id = other.session.id().to_owned();
                return Err(SessionError::NotFound { id }.into());
            }
        }
        let (before, theirs) = (before.latest().await?, theirs.latest().await?);
        let mut core = self.session.lock_to_change().await?;
        let ours = Arc::clone(&core.past(context).await?.state.files);
        let changed = if is_same(&ours, &before) {
            core.exchange(context, of, &theirs).await?
        } else {
            core.change(context, |files, now| merge(files, &before, &theirs, now)).await?
        };
        self.session.finish(core);
        changed.map_err(|why| self.failed("merge files into those of", "", why))
    }

    fn context(&self) -> &Context {
        &self.session.inner.context
    }

    async fn files(&self, action: &'static str, path: &str) -> Result<Arc<Files>, Error> {
        // The root directory, which always exists, may also be listed.
        if !path.is_empty() || matches!(self.paths, Paths::Absolute) {
            self.check(action, path)?;
        }
        self.latest().await
    }

    /// Returns the files of the latest state.
    async fn latest(&self) -> Result<Arc<Files>, Error> {
        let mut core = self.session.lock().await?;
        Ok(Arc::clone(&core.past(self.context()).await?.state.files))
    }

    async fn change(
        &self,
        action: &'static str,
        path: &str,
        change: impl FnOnce(&mut Files, u64) -> Result<(), PathProblem>,
    ) -> Result<(), Error> {
        self.check(action, path)?;
        let context = self.context();
        let mut core = self.session.lock_to_change().await?;
        let changed = core.change(context, change).await?;
        self.session.finish(core);
        changed.map_err(|why| self.failed(action, path, why))
    }

    fn check(&self, action: &'static str, path: &str) -> Result<(), Error> {
        let checked = match self.paths {
            Paths::Relative => check_relative(path),
            Paths::Absolute => match below_top(path) {
                Some("") => Ok(()),
                Some(inside) => check_relative(inside),
                None => Err("leads neither into `/workspace` nor into `/tmp`"),
            },
        };
        checked.map_err(|why| self.failed(action, path, PathProblem::Invalid(why)))
    }

    fn failed(&self, action: &'static str, path: &str, problem: PathProblem) -> Error {
        let (id, path) = (self.session.id().to_owned(), path.to_owned());
        SessionError::Path {
            id,
            action,
            path,
            problem,
        }
        .into()
    }
}

impl Core {
    /// Creates a state with changed files.
    async fn change(
        &mut self,
        context: &Context,
        change: impl FnOnce(&mut Files, u64) -> Result<(), PathProblem>,
    ) -> Result<Result<(), PathProblem>, Error> {
        self.check_not_waiting(context)?;
        let before = Arc::clone(&self.past(context).await?.state);
        let mut files = Files::clone(&before.files);
        // Files placed by the host are counted afterwards.
        files.set_limits(limits(u64::MAX, u64::MAX));
        let now = now(context.fixed.deterministic.as_ref(), before.kept.lived);
        if let Err(problem) = change(&mut files, now) {
            return Ok(Err(problem));
        }
        let ((max_bytes, max_files), used, had) =
            (before.room(&context.fixed.bounds), files.usage(), before.files.usage());
        if used.bytes > max_bytes && used.bytes > had.bytes {
            return Ok(Err(PathProblem::TooManyBytes));
        }
        if used.files > max_files && used.files > had.files {
            return Ok(Err(PathProblem::TooManyFiles));
        }
        let state = State {
            kept: before.kept.clone(),
            files: Arc::new(files),
            placed: before.placed,
        };
        let _use = context.begin_use();
        self.replace(context, state).await?;
        Ok(Ok(()))
    }

    /// Creates a state with the files of another session, that `of` belongs to. Packages and mounts
    /// stay this session's.
    async fn exchange(
        &mut self,
        context: &Context,
        of: &Context,
        theirs: &Files,
    ) -> Result<Result<(), PathProblem>, Error> {
        let ours = Arc::clone(&self.past(context).await?.state.files);
        let mounts = |context: &Context| mount_paths(&context.fixed.mounts);
        let is_alike = context.image.identity == of.image.identity && mounts(context) == mounts(of);
        let change = |files: &mut Files, now| {
            if is_alike {
                exchange(files, &ours, theirs)
            } else {
                merge(files, &ours, theirs, now)
            }
        };
        self.change(context, change).await
    }
}

/// Replaces `files` by `theirs`, mounts and packages included, but keeps the open files of `ours`.
/// An open file with the same path in `theirs` takes their content; any other open file becomes
/// nameless.
fn exchange(files: &mut Files, ours: &Files, theirs: &Files) -> Result<(), PathProblem> {
    *files = theirs.clone();
    files.set_limits(limits(u64::MAX, u64::MAX));
    let open = |files: &Files| -> Vec<(u32, OpenFile)> {
        files.open_files().filter(|(_, open)| !open.given).collect()
    };
    for (number, _) in open(theirs) {
        files.fd_close(number)?;
    }
    let open = open(ours);
    let nodes = open.iter().filter_map(|(_, open)| match open.on {
        OpenOn::Node(node) => Some(node),
        OpenOn::Foreign(_) => None,
    });
    let paths = ours.paths_of(nodes);
    let mut there: HashMap<Node, Node> = HashMap::new();
    for (number, open) in open {
        let OpenOn::Node(node) = open.on else {
            files.reopen(number, &open)?;
            continue;
        };
        let known = there.get(&node).copied();
        let node = match known {
            Some(known) => known,
            None => counterpart(files, ours, (node, paths.get(&node)))?,
        };
        if let OpenOn::Node(own) = open.on {
            there.insert(own, node);
        }
        let on = OpenOn::Node(node);
        files.reopen(number, &OpenFile { on, ..open })?;
    }
    Ok(())
}

/// Returns the node in `files` that replaces a node of `ours` with this path.
fn counterpart(
    files: &mut Files,
    ours: &Files,
    (node, path): (Node, Option<&String>),
) -> Result<Node, PathProblem> {
    if let Some(there) = path.and_then(|path| files.find_attached(path)) {
        return Ok(there);
    }
    let stat = ours.stat(node)?;
    let there = path.and_then(|path| files.find(path).ok());
    let is_alike = |there: &Node| files.stat(*there).is_ok_and(|other| other.kind == stat.kind);
    if let Some(there) = there.filter(is_alike) {
        return Ok(there);
    }
    match ours.content(node) {
        Some(content) => Ok(files.put_nameless(content.clone(), stat.mtime)?),
        None => Ok(files.find(TEMPORARY_PATH)?),
    }
}

/// Whether two sessions have the same files, without comparing the bytes of files that are stored
/// twice.
fn is_same(ours: &Files, theirs: &Files) -> bool {
    [WORKSPACE_PATH, TEMPORARY_PATH].iter().all(|top| {
        let (Ok(top), Ok(their_top)) = (ours.find(top), theirs.find(top)) else {
            return false;
        };
        let (mut walk, mut other) = (ours.walk(top), theirs.walk(their_top));
        loop {
            match (walk.next(), other.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) => {
                    let is_same_content = match (ours.content(one.node), theirs.content(other.node))
                    {
                        (Some(own), Some(their)) => {
                            let times = [ours.stat(one.node), theirs.stat(other.node)];
                            let [own_time, their_time] =
                                times.map(|stat| stat.map(|stat| stat.mtime).ok());
                            own.is_same(their) && own_time == their_time
                        }
                        (None, None) => ours.target(one.node) == theirs.target(other.node),
                        _ => false,
                    };
                    if one.path != other.path || one.kind != other.kind || !is_same_content {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    })
}

fn entry(path: String, look: &Look<'_>) -> PathEntry {
    let kind = match look.kind {
        Kind::Directory => PathKind::Directory,
        Kind::Symlink => PathKind::Link,
        _ => PathKind::File,
    };
    PathEntry {
        path,
        kind,
        size: look.size,
        modified: (kind == PathKind::File).then(|| time(look.modified)),
        target: look.target.map(str::to_owned),
    }
}
