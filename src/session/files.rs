//! Files of a session, looked at and changed without a run.
//!
//! A session at rest is a state that never changes, its files included. They are looked at there, and a
//! change makes a new state, as a run does: the guest's directories are not touched, and whatever links
//! it made lead nowhere.

use std::io::Read;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

use super::context::Context;
use super::core::Core;
use super::state::State;
use super::{Session, SessionError};
use crate::api::policy::check_relative;
use crate::error::Error;
use crate::instance::{Descriptor, TEMPORARY_PATH, WORKSPACE_PATH};
use crate::shared::on_blocking_thread;
use crate::workspace::{Contents, Moved, Node, PathProblem, StoredFile};

/// The files of a session, without a run. Every method waits for those that run before it, as a run does.
///
/// Paths are relative to the workspace and separated by `/`; that of the workspace itself is empty. No
/// link is followed. What a method changes belongs to the session's latest state: it is there in the next
/// run, in forks and in checkpoints, and gone after a [`rewind`](Session::rewind). The interpreter is put
/// away by a change, as it is when a session is suspended, and comes back with the next run.
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
}

/// Something in a session's workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEntry {
    /// Its path, relative to the workspace.
    pub path: String,
    /// What it is.
    pub kind: PathKind,
    /// Bytes of a file, or of where a link points to; 0 for a directory.
    pub size: u64,
    /// When a file was last written.
    pub modified: Option<SystemTime>,
    /// Where a symbolic link points to.
    pub target: Option<String>,
}

/// What is in a workspace.
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
    /// The files of the session, to look at and to change without a run.
    #[must_use]
    pub fn workspace(&self) -> SessionFiles {
        SessionFiles {
            session: self.clone(),
        }
    }
}

impl SessionFiles {
    /// What lies in a directory, sorted by path: with `depth` 1 what is in it itself, with 2 also what
    /// is in the directories there, and so on.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when it is no directory.
    pub async fn list(&self, dir: &str, depth: usize) -> Result<Vec<PathEntry>, Error> {
        let contents = self.contents("list", dir).await?;
        let inside = contents.below(dir, depth).map_err(|why| self.failed("list", dir, why))?;
        Ok(inside.map(|(path, node)| entry(path, node)).collect())
    }

    /// What has that path.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when nothing has.
    pub async fn stat(&self, path: &str) -> Result<PathEntry, Error> {
        let contents = self.contents("look at", path).await?;
        let node = contents.look(path).map_err(|why| self.failed("look at", path, why))?;
        Ok(entry(path, node))
    }

    /// Bytes of a regular file, as far as it has those of the range.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when it is no regular file.
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
        let contents = self.contents("read", path).await?;
        let stored = match contents.look(path) {
            Ok(Node::File(stored)) => stored.clone(),
            Ok(Node::Link(_)) => return Err(self.failed("read", path, PathProblem::IsLink)),
            Ok(Node::Directory) => return Err(self.failed("read", path, PathProblem::IsDirectory)),
            Err(why) => return Err(self.failed("read", path, why)),
        };
        let read = move || stored.read_range(start, end.saturating_sub(start));
        on_blocking_thread(read).await?.map_err(Error::system("read a file that a session keeps"))
    }

    /// Writes a file with all that `from` gives, in the place of one that has the path; the
    /// directories that it lies in are made if missing. The reader is read before the session's turn
    /// comes, on a thread that may block, and no further than the session has room.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when the path cannot be one of a file or the session has no room for it,
    /// [`SessionError::Source`] when the reader fails; [`SessionError::Waiting`], as for all changes, while
    /// a run waits for answers.
    pub async fn write(
        &self,
        path: &str,
        from: impl Read + Send + 'static,
    ) -> Result<PathEntry, Error> {
        let stored = self.receive(path, from).await?;
        let written = entry(path, &Node::File(stored.clone()));
        self.change("write", path, |contents| contents.put(path, stored).map(|()| None)).await?;
        Ok(written)
    }

    /// Writes a file as [`write`](Self::write) does, unless `refuse` has an objection to what has the path
    /// at that moment: then nothing changes, and the objection is returned. Nothing changes the files
    /// between the two.
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
        let stored = self.receive(path, from).await?;
        let written = entry(path, &Node::File(stored.clone()));
        let mut objection = None;
        let changed = self.change("write", path, |contents| {
            let there = contents.look(path).ok().map(|node| entry(path, node));
            if let Err(why) = refuse(there.as_ref()) {
                objection = Some(why);
                return Err(PathProblem::Exists);
            }
            contents.put(path, stored).map(|()| None)
        });
        let changed = changed.await;
        match objection {
            Some(why) => Ok(Err(why)),
            None => changed.map(|()| Ok(written)),
        }
    }

    /// The most bytes that the files of the session may have together.
    ///
    /// # Errors
    ///
    /// [`SessionError::Waiting`] while a run waits for answers: no file can be written then.
    pub async fn max_bytes(&self) -> Result<u64, Error> {
        let mut core = self.session.lock().await?;
        core.check_not_waiting(self.context())?;
        let state = &core.past(self.context()).await?.state;
        Ok(room(self.context(), state).0)
    }

    /// Reads all that `from` gives into a file that no session has yet.
    async fn receive(
        &self,
        path: &str,
        mut from: impl Read + Send + 'static,
    ) -> Result<StoredFile, Error> {
        self.check("write", path)?;
        let max = self.max_bytes().await?;
        let storage = Arc::clone(&self.context().storage);
        let received = on_blocking_thread(move || storage.spool.receive(&mut from, max)).await?;
        let stored = received.map_err(|source| SessionError::Source {
            path: path.to_owned(),
            source,
        })?;
        let stored = stored.map_err(Error::system("keep a file of a session"))?;
        stored.ok_or_else(|| self.failed("write", path, PathProblem::TooManyBytes))
    }

    /// Makes a directory, and those that it lies in, if they are not there.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when something else is in the way, or the session has no room for it.
    pub async fn make_dir(&self, path: &str) -> Result<(), Error> {
        let make = |contents: &mut Contents| contents.make_directory(path).map(|()| None);
        self.change("make the directory", path, make).await
    }

    /// Gives a file, a directory or a link another path, in a directory that is there. A file or link
    /// that has it is replaced, a directory is not.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when it is not there or cannot be there.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.check("rename to", to)?;
        self.change("rename", from, |contents| contents.rename(from, to).map(Some)).await
    }

    /// Removes a file, a link, or a directory with all that is in it.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when there is nothing of that path.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.change("remove", path, |contents| contents.remove(path).map(Some)).await
    }

    /// Has the files of another session of this runtime, and nothing else: all that is in its
    /// workspace and in `/tmp`. Returns whether anything changed; where nothing did, the interpreter
    /// stays as it is. Sessions that take turns, each having the other's files before its next run,
    /// so share a workspace. No bytes are copied.
    ///
    /// # Errors
    ///
    /// [`SessionError::Path`] when the session has no room for them, [`SessionError::Waiting`] while a run
    /// of it waits for answers, [`SessionError::NotFound`] when the other session is one of another runtime,
    /// with which its files would go.
    pub async fn replace_with(&self, other: &SessionFiles) -> Result<bool, Error> {
        if !Arc::ptr_eq(&self.context().storage, &other.context().storage) {
            let id = other.session.id().to_owned();
            return Err(SessionError::NotFound { id }.into());
        }
        let theirs = other.contents("list", "").await?;
        let mut core = self.session.lock().await?;
        let context = self.context();
        context.check_pass(self.session.pass)?;
        let ours = &core.past(context).await?.state.contents;
        if Arc::ptr_eq(ours, &theirs) || ours.is_same(&theirs) {
            return Ok(false);
        }
        // The claim may have been released while the files were compared.
        context.begin_change(self.session.pass)?;
        let changed = core.exchange(context, theirs).await?;
        self.session.finish(core);
        changed.map_err(|why| self.failed("exchange the files of", "", why))?;
        Ok(true)
    }

    fn context(&self) -> &Context {
        &self.session.inner.context
    }

    async fn contents(&self, action: &'static str, path: &str) -> Result<Arc<Contents>, Error> {
        if !path.is_empty() {
            self.check(action, path)?;
        }
        let mut core = self.session.lock().await?;
        Ok(Arc::clone(&core.past(self.context()).await?.state.contents))
    }

    async fn change(
        &self,
        action: &'static str,
        path: &str,
        change: impl FnOnce(&mut Contents) -> Result<Option<Moved>, PathProblem>,
    ) -> Result<(), Error> {
        self.check(action, path)?;
        let context = self.context();
        let mut core = self.session.lock_to_change().await?;
        let changed = core.change(context, change).await?;
        self.session.finish(core);
        changed.map_err(|why| self.failed(action, path, why))
    }

    fn check(&self, action: &'static str, path: &str) -> Result<(), Error> {
        check_relative(path).map_err(|why| self.failed(action, path, PathProblem::Invalid(why)))
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
    /// Makes a state with other files.
    async fn change(
        &mut self,
        context: &Context,
        change: impl FnOnce(&mut Contents) -> Result<Option<Moved>, PathProblem>,
    ) -> Result<Result<(), PathProblem>, Error> {
        self.check_not_waiting(context)?;
        let before = Arc::clone(&self.past(context).await?.state);
        let mut contents = (*before.contents).clone();
        let moved = match change(&mut contents) {
            Ok(moved) => moved,
            Err(problem) => return Ok(Err(problem)),
        };
        let find = |key: &str| match &moved {
            Some(moved) => moved.find(key),
            None => Some(key.to_owned()),
        };
        self.have(context, &before, Arc::new(contents), find).await
    }

    /// Makes a state with the files of another session.
    async fn exchange(
        &mut self,
        context: &Context,
        contents: Arc<Contents>,
    ) -> Result<Result<(), PathProblem>, Error> {
        self.check_not_waiting(context)?;
        let before = Arc::clone(&self.past(context).await?.state);
        let (old, new) = (Arc::clone(&before.contents), Arc::clone(&contents));
        let find = |key: &str| {
            let is_there = match (old.0.get(key), new.0.get(key)) {
                (Some(Node::File(_)), Some(Node::File(_)))
                | (Some(Node::Directory), Some(Node::Directory)) => true,
                // The directories in which all the others are.
                _ => !key.contains('/'),
            };
            is_there.then(|| key.to_owned())
        };
        self.have(context, &before, contents, find).await
    }

    /// Makes a state with these files; `find` says where each that was there is now.
    async fn have(
        &mut self,
        context: &Context,
        before: &State,
        contents: Arc<Contents>,
        find: impl Fn(&str) -> Option<String>,
    ) -> Result<Result<(), PathProblem>, Error> {
        let mut kept = before.kept.clone();
        let aliases = &context.fixed.places.aliases;
        follow(&mut kept.descriptors, aliases, find, (&before.contents, &contents));
        let ((bytes, files), (had_bytes, had_files)) = (contents.size(), before.contents.size());
        // A file that the code holds open takes its bytes also after its last name is gone.
        let bytes = bytes.saturating_add(kept.nameless_bytes());
        let had_bytes = had_bytes.saturating_add(before.kept.nameless_bytes());
        let (max_bytes, max_files) = room(context, before);
        if bytes > max_bytes && bytes > had_bytes {
            return Ok(Err(PathProblem::TooManyBytes));
        }
        if files > max_files && files > had_files {
            return Ok(Err(PathProblem::TooManyFiles));
        }
        let state = State {
            kept,
            contents,
            placed: before.placed,
        };
        self.replace(context, state).await?;
        context.touch();
        Ok(Ok(()))
    }
}

/// Bytes and files that a session may have.
fn room(context: &Context, state: &State) -> (u64, u64) {
    let bounds = &context.fixed.bounds;
    (bounds.workspace.saturating_add(state.placed.0), bounds.files.saturating_add(state.placed.1))
}

/// Has files that the guest has open go with what was moved; one that was removed stays open, under
/// another name that it has, or without one.
fn follow(
    open: &mut [Descriptor],
    aliases: &[String],
    find: impl Fn(&str) -> Option<String>,
    (before, now): (&Contents, &Contents),
) {
    for file in open.iter_mut().filter(|file| file.nameless.is_none()) {
        let inside = aliases.iter().find_map(|alias| {
            let rest = file.path.strip_prefix(alias.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{WORKSPACE_PATH}{rest}"))
        });
        let Some(key) = before.resolve(inside.as_deref().unwrap_or(&file.path)) else {
            continue;
        };
        if let Some(key) = find(&key) {
            file.path = format!("/{key}");
            continue;
        }
        TEMPORARY_PATH.clone_into(&mut file.path);
        let Some(Node::File(stored)) = before.0.get(&key) else {
            continue;
        };
        let address = stored.address();
        let is_same = |node: &Node| matches!(node, Node::File(one) if one.address() == address);
        if let Some((other, _)) = now.0.iter().find(|(_, node)| is_same(node)) {
            file.path = format!("/{other}");
            continue;
        }
        file.nameless = Some(stored.clone());
    }
}

fn entry(path: &str, node: &Node) -> PathEntry {
    let (kind, size, modified, target) = match node {
        Node::File(StoredFile { modified, size, .. }) => {
            (PathKind::File, *size, Some(*modified), None)
        }
        Node::Directory => (PathKind::Directory, 0, None, None),
        Node::Link(target) => (PathKind::Link, target.len() as u64, None, Some(target.clone())),
    };
    PathEntry {
        path: path.to_owned(),
        kind,
        size,
        modified,
        target,
    }
}
