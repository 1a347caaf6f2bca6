//! The engine for programs without an asynchronous runtime.
//!
//! ```no_run
//! use belljar::{Request, Runtime, SessionOptions};
//!
//! let runtime = Runtime::builder().build()?.blocking();
//! let run = runtime.run(Request::new("print(sum(range(10)))"))?;
//! assert_eq!(run.outcome.stdout, "45\n");
//! let session = runtime.session(SessionOptions::new().image("core"))?;
//! session.run(Request::new("x = 20"))?;
//! assert_eq!(session.run(Request::new("x + 1"))?.stdout, "21\n");
//! # Ok::<(), belljar::Error>(())
//! ```
//!
//! Any number of threads may call at the same time. On a thread of an asynchronous runtime every
//! call that would block is [`Error::NotBlocking`].

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::api::outcome::{FileEntry, Outcome};
use crate::api::policy::Bounds;
use crate::api::request::{Policy, Request};
use crate::api::tool::{ToolAnswer, WaitingCall};
use crate::engine::run::{CheckReport, Run};
use crate::error::Error;
use crate::runtime::block_on::Reactor;
use crate::runtime::images::Images;
use crate::session::{
    Completeness, Completion, HistoryEntry, Inspection, PathEntry, RestoreOptions, SessionInfo,
    SessionOptions,
};
use crate::value::Value;
use crate::{runtime, session};

/// A [`belljar::Runtime`](crate::Runtime) whose methods block. Cheap to clone; clones share
/// everything.
#[derive(Clone)]
pub struct Runtime {
    inner: runtime::Runtime,
    reactor: Arc<Reactor>,
}

/// A [`belljar::Session`](crate::Session) whose methods block. Cheap to clone; clones are the same
/// session.
#[derive(Clone)]
pub struct Session {
    inner: session::Session,
    reactor: Arc<Reactor>,
}

/// [`belljar::SessionFiles`](crate::SessionFiles) whose methods block.
#[derive(Clone)]
pub struct SessionFiles {
    inner: session::SessionFiles,
    session: Session,
}

impl runtime::Runtime {
    /// The same for programs without an asynchronous runtime.
    #[must_use]
    pub fn blocking(&self) -> Runtime {
        Runtime {
            inner: self.clone(),
            reactor: Arc::clone(&self.reactor),
        }
    }
}

impl Runtime {
    /// The same for asynchronous callers.
    #[must_use]
    pub fn asynchronous(&self) -> &runtime::Runtime {
        &self.inner
    }

    /// Runs a request in a fresh sandbox.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::run`](crate::Runtime::run).
    pub fn run(&self, request: Request) -> Result<Run, Error> {
        self.wait(self.inner.run(request))
    }

    /// Looks at code without running it.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::check`](crate::Runtime::check).
    pub fn check(&self, code: &str, policy: &Policy) -> Result<CheckReport, Error> {
        self.wait(self.inner.check(code, policy))
    }

    /// The images that runs start from.
    #[must_use]
    pub fn images(&self) -> Images {
        self.inner.images()
    }

    /// Starts a session.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::session`](crate::Runtime::session).
    pub fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        self.wait(self.inner.session(options)).map(|session| self.handle(session))
    }

    /// Starts a session from a snapshot.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::from_snapshot`](crate::Sessions::from_snapshot).
    pub fn session_from(&self, snapshot: &str) -> Result<Session, Error> {
        self.wait(self.inner.session_from(snapshot)).map(|session| self.handle(session))
    }

    /// Starts a session from a checkpoint.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::restore`](crate::Runtime::restore).
    pub fn restore(&self, checkpoint: impl Into<RestoreOptions>) -> Result<Session, Error> {
        self.wait(self.inner.restore(checkpoint)).map(|session| self.handle(session))
    }

    /// The session with that id.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::get`](crate::Sessions::get).
    pub fn find(&self, id: &str) -> Result<Session, Error> {
        self.inner.sessions().get(id).map(|session| self.handle(session))
    }

    /// A client's default session; made with `options` when it has none.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::for_client`](crate::Sessions::for_client).
    pub fn for_client(&self, client: &str, options: SessionOptions) -> Result<Session, Error> {
        let found = self.wait(self.inner.sessions().for_client(client, options));
        found.map(|session| self.handle(session))
    }

    /// All sessions, the oldest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.inner.sessions().list()
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // Before the lock of the reactor, which nobody would release after a fork.
        self.inner.check_process()?;
        self.reactor.wait(future)
    }

    fn handle(&self, inner: session::Session) -> Session {
        Session {
            inner,
            reactor: Arc::clone(&self.reactor),
        }
    }
}

impl Session {
    /// The same for asynchronous callers.
    #[must_use]
    pub fn asynchronous(&self) -> &session::Session {
        &self.inner
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.inner.id()
    }

    /// What the session is, and is doing.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.inner.info()
    }

    /// Runs a request after those that were asked for before it.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`](crate::Session::run).
    pub fn run(&self, request: Request) -> Result<Outcome, Error> {
        self.wait(self.inner.run(request))
    }

    /// Answers calls for which a run waits, and goes on with it.
    ///
    /// # Errors
    ///
    /// As for [`Session::answer`](crate::Session::answer).
    pub fn answer(&self, answers: Vec<ToolAnswer>) -> Result<Outcome, Error> {
        self.wait(self.inner.answer(answers))
    }

    /// The calls for which a run waits.
    ///
    /// # Errors
    ///
    /// As for [`Session::waiting`](crate::Session::waiting).
    pub fn waiting(&self) -> Result<Vec<WaitingCall>, Error> {
        self.wait(self.inner.waiting())
    }

    /// The value of a global variable; `None` when there is no such variable.
    ///
    /// # Errors
    ///
    /// As for [`Session::get`](crate::Session::get).
    pub fn get(&self, name: &str) -> Result<Option<Value>, Error> {
        self.wait(self.inner.get(name))
    }

    /// Sets a global variable.
    ///
    /// # Errors
    ///
    /// As for [`Session::set`](crate::Session::set).
    pub fn set(&self, name: &str, value: impl Into<Value>) -> Result<(), Error> {
        self.wait(self.inner.set(name, value))
    }

    /// The values of expressions, each under its name, or what it raised.
    ///
    /// # Errors
    ///
    /// As for [`Session::evaluate`](crate::Session::evaluate).
    pub fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Result<Value, String>>, Error> {
        self.wait(self.inner.evaluate(expressions))
    }

    /// What the name at `cursor` in `code` may become.
    ///
    /// # Errors
    ///
    /// As for [`Session::complete`](crate::Session::complete).
    pub fn complete(&self, code: &str, cursor: usize) -> Result<Completion, Error> {
        self.wait(self.inner.complete(code, cursor))
    }

    /// What is known of the name at `cursor` in `code`.
    ///
    /// # Errors
    ///
    /// As for [`Session::inspect`](crate::Session::inspect).
    pub fn inspect(
        &self,
        code: &str,
        cursor: usize,
        detail: bool,
    ) -> Result<Option<Inspection>, Error> {
        self.wait(self.inner.inspect(code, cursor, detail))
    }

    /// Whether code is ready to be run.
    ///
    /// # Errors
    ///
    /// As for [`Session::is_complete`](crate::Session::is_complete).
    pub fn is_complete(&self, code: &str) -> Result<Completeness, Error> {
        self.wait(self.inner.is_complete(code))
    }

    /// Interrupts the run that goes on in another thread. Returns whether there was one.
    pub fn interrupt(&self) -> bool {
        self.inner.interrupt()
    }

    /// What the session did, the latest last.
    ///
    /// # Errors
    ///
    /// As for [`Session::history`](crate::Session::history).
    pub fn history(&self) -> Result<Vec<HistoryEntry>, Error> {
        self.wait(self.inner.history())
    }

    /// How many runs the session is made of.
    ///
    /// # Errors
    ///
    /// [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn execution(&self) -> Result<u64, Error> {
        self.wait(async { Ok(self.inner.execution().await) })
    }

    /// Goes back to the state after run `execution`.
    ///
    /// # Errors
    ///
    /// As for [`Session::rewind`](crate::Session::rewind).
    pub fn rewind(&self, execution: u64) -> Result<(), Error> {
        self.wait(self.inner.rewind(execution))
    }

    /// Like [`rewind`](Self::rewind), and keeps what is left behind as a session of its own.
    ///
    /// # Errors
    ///
    /// As for [`Session::rewind_keeping`](crate::Session::rewind_keeping).
    pub fn rewind_keeping(&self, execution: u64) -> Result<Self, Error> {
        self.wait(self.inner.rewind_keeping(execution)).map(|inner| self.beside(inner))
    }

    /// Goes back to the session's beginning.
    ///
    /// # Errors
    ///
    /// As for [`Session::reset`](crate::Session::reset).
    pub fn reset(&self) -> Result<(), Error> {
        self.wait(self.inner.reset())
    }

    /// Starts another session from this one's state and history.
    ///
    /// # Errors
    ///
    /// As for [`Session::fork`](crate::Session::fork).
    pub fn fork(&self) -> Result<Self, Error> {
        self.wait(self.inner.fork()).map(|inner| self.beside(inner))
    }

    /// Writes the session to a file.
    ///
    /// # Errors
    ///
    /// As for [`Session::checkpoint`](crate::Session::checkpoint).
    pub fn checkpoint(&self, path: impl Into<PathBuf>) -> Result<(), Error> {
        self.wait(self.inner.checkpoint(path))
    }

    /// Writes the session to `writer`.
    ///
    /// # Errors
    ///
    /// As for [`Session::checkpoint_to`](crate::Session::checkpoint_to).
    pub fn checkpoint_to(&self, writer: impl std::io::Write + Send + 'static) -> Result<(), Error> {
        self.wait(self.inner.checkpoint_to(writer))
    }

    /// Puts the session on the disk now; its next run wakes it up. Returns false while it runs.
    ///
    /// # Errors
    ///
    /// [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn suspend(&self) -> Result<bool, Error> {
        self.wait(async { Ok(self.inner.suspend().await) })
    }

    /// The bytes of a file in the workspace.
    ///
    /// # Errors
    ///
    /// As for [`Session::read`](crate::Session::read).
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.wait(self.inner.read(path))
    }

    /// Copies the regular files among `files` to `dir`.
    ///
    /// # Errors
    ///
    /// As for [`Session::copy_to`](crate::Session::copy_to).
    pub fn copy_to(&self, files: &[FileEntry], dir: &Path) -> Result<Vec<PathBuf>, Error> {
        self.wait(self.inner.copy_to(files, dir))
    }

    /// The files and links in the workspace.
    ///
    /// # Errors
    ///
    /// As for [`Session::files`](crate::Session::files).
    pub fn files(&self) -> Result<Vec<FileEntry>, Error> {
        self.wait(self.inner.files())
    }

    /// Keeps the session's latest state under a name.
    ///
    /// # Errors
    ///
    /// As for [`Session::snapshot`](crate::Session::snapshot).
    pub fn snapshot(&self, name: &str) -> Result<(), Error> {
        self.wait(self.inner.snapshot(name))
    }

    /// The files of the session, to look at and to change without a run.
    #[must_use]
    pub fn workspace(&self) -> SessionFiles {
        SessionFiles {
            inner: self.inner.workspace(),
            session: self.clone(),
        }
    }

    /// What a run of this session gets that asks for nothing else.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.inner.bounds()
    }

    /// Checks a request as [`run`](Self::run) does, without running it.
    ///
    /// # Errors
    ///
    /// As for [`Session::validate`](crate::Session::validate).
    pub fn validate(&self, request: &Request) -> Result<(), Error> {
        self.inner.validate(request)
    }

    /// Ends the session.
    pub fn close(&self) {
        self.reactor.with_threads(|| self.inner.close());
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.inner.check_process()?;
        self.reactor.wait(future)
    }

    fn beside(&self, inner: session::Session) -> Self {
        Self {
            inner,
            reactor: Arc::clone(&self.reactor),
        }
    }
}

impl SessionFiles {
    /// What lies in a directory, sorted by path, down to so many names below it.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::list`](crate::SessionFiles::list).
    pub fn list(&self, dir: &str, depth: usize) -> Result<Vec<PathEntry>, Error> {
        self.session.wait(self.inner.list(dir, depth))
    }

    /// What has that path.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::stat`](crate::SessionFiles::stat).
    pub fn stat(&self, path: &str) -> Result<PathEntry, Error> {
        self.session.wait(self.inner.stat(path))
    }

    /// Bytes of a regular file, as far as it has those of the range.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::read`](crate::SessionFiles::read).
    pub fn read(&self, path: &str, range: impl RangeBounds<u64>) -> Result<Vec<u8>, Error> {
        self.session.wait(self.inner.read(path, range))
    }

    /// Writes a file with all that `from` gives.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::write`](crate::SessionFiles::write).
    pub fn write(&self, path: &str, from: impl Read + Send + 'static) -> Result<PathEntry, Error> {
        self.session.wait(self.inner.write(path, from))
    }

    /// Makes a directory, and those that it lies in, if they are not there.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::make_dir`](crate::SessionFiles::make_dir).
    pub fn make_dir(&self, path: &str) -> Result<(), Error> {
        self.session.wait(self.inner.make_dir(path))
    }

    /// Gives a file, a directory or a link another path.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::rename`](crate::SessionFiles::rename).
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.session.wait(self.inner.rename(from, to))
    }

    /// Removes a file, a link, or a directory with all that is in it.
    ///
    /// # Errors
    ///
    /// As for [`SessionFiles::remove`](crate::SessionFiles::remove).
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        self.session.wait(self.inner.remove(path))
    }
}
