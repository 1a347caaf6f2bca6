//! The blocking API, for programs without an asynchronous runtime.
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
//! All methods may be called from any number of threads at once. On a thread of an asynchronous
//! runtime, every blocking method fails with [`Error::NotBlocking`].

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belljar_passes::Tier;
use belljar_value::Value;

use crate::api::outcome::{FileEntry, Outcome};
use crate::api::policy::RunLimits;
use crate::api::request::{Policy, Request};
use crate::api::tool::{ToolAnswer, WaitingCall};
use crate::api::watch::Turn;
use crate::engine::run::{CheckReport, Run};
use crate::engine::running::{self, Work};
use crate::error::Error;
use crate::runtime::block_on::Reactor;
use crate::runtime::images::{ImageIdentity, Images};
use crate::session::{
    Completeness, Completion, HistoryEntry, Inspection, PathEntry, RestoreOptions, Saved,
    SessionInfo, SessionOptions,
};
use crate::store::{Condition, Store};
use crate::{runtime, session};

/// A [`belljar::Runtime`](crate::Runtime) with blocking methods. Clones are cheap and share
/// everything.
#[derive(Clone)]
pub struct Runtime {
    inner: runtime::Runtime,
    reactor: Arc<Reactor>,
}

/// A [`belljar::Session`](crate::Session) with blocking methods. Clones are cheap and are the same
/// session.
#[derive(Clone)]
pub struct Session {
    inner: session::Session,
    reactor: Arc<Reactor>,
}

/// [`belljar::session::SessionFiles`](crate::session::SessionFiles) with blocking methods.
#[derive(Clone)]
pub struct SessionFiles {
    inner: session::SessionFiles,
    session: Session,
}

/// A [`belljar::event::Running`](crate::event::Running) with blocking methods. Dropping it cancels
/// the run.
///
/// ```no_run
/// # use belljar::{Request, Runtime};
/// use belljar::event::Turn;
///
/// let runtime = Runtime::builder().build()?.blocking();
/// let mut running = runtime.start(Request::new("print('Hello', input('Who? '))"))?;
/// while let Some(turn) = running.next()? {
///     if let Turn::Question(question) = turn {
///         question.answer(Some("Ada".into()));
///     }
/// }
/// println!("{}", running.end()?.outcome.stdout);
/// # Ok::<(), belljar::Error>(())
/// ```
pub struct Running<T = Run> {
    inner: running::Running<T>,
    reactor: Arc<Reactor>,
}

/// Defines methods that forward to the methods of the same name of the asynchronous type. `wait`
/// blocks, `sure` blocks on a method that cannot fail, `session` blocks and returns a session, and
/// `call` calls a synchronous method.
macro_rules! forward {
    ($from:literal $($how:ident $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        #[cfg(test)]
        const FORWARDED: &[&str] = &[$(stringify!($name)),*];

        $(forward!(@$how $from $name($($arg: $type),*) -> $result);)*
    };
    (@wait $from:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[doc = forward!(@doc $from $name)]
        ///
        /// # Errors
        ///
        /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
        pub fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
            self.wait(self.inner.$name($($arg),*))
        }
    };
    (@sure $from:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[doc = forward!(@doc $from $name)]
        ///
        /// # Errors
        ///
        /// [`Error::NotBlocking`] on a thread of an asynchronous runtime.
        pub fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
            self.wait(async { Ok(self.inner.$name($($arg),*).await) })
        }
    };
    (@session $from:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[doc = forward!(@doc $from $name)]
        ///
        /// # Errors
        ///
        /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
        pub fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
            self.wait(self.inner.$name($($arg),*)).map(|session| self.handle(session))
        }
    };
    (@call $from:literal $name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {
        #[doc = forward!(@doc $from $name)]
        #[allow(clippy::missing_errors_doc, reason = "the method that it names documents them")]
        pub fn $name(&self, $($arg: $type),*) -> $result {
            self.inner.$name($($arg),*)
        }
    };
    (@doc $from:literal $name:ident) => {
        concat!("See [`", $from, "::", stringify!($name), "`](crate::", $from, "::",
            stringify!($name), ").")
    };
}

impl runtime::Runtime {
    /// Returns the blocking form of this runtime.
    #[must_use]
    pub fn blocking(&self) -> Runtime {
        Runtime {
            inner: self.clone(),
            reactor: Arc::clone(&self.reactor),
        }
    }
}

impl Runtime {
    forward! { "Runtime"
        wait run(request: Request) -> Run;
        wait probe(timeout: Duration) -> bool;
        wait check(code: &str, policy: &Policy) -> CheckReport;
        wait image_of(request: &Request) -> ImageIdentity;
        session session(options: SessionOptions) -> Session;
        session session_from(snapshot: &str) -> Session;
        session restore(checkpoint: impl Into<RestoreOptions>) -> Session;
        call compile(tier: Tier) -> Result<(), Error>;
        call tier() -> Option<Tier>;
        call images() -> Images;
        call defaults() -> RunLimits;
        call ceilings() -> RunLimits;
    }

    /// See [`Runtime::start`](crate::Runtime::start). The run has a thread of its own.
    ///
    /// # Errors
    ///
    /// If there is no thread for it.
    pub fn start(&self, request: Request) -> Result<Running, Error> {
        self.inner.check_process()?;
        Running::start(&self.reactor, self.inner.prepare(request))
    }

    /// Returns the asynchronous form of this runtime.
    #[must_use]
    pub fn asynchronous(&self) -> &runtime::Runtime {
        &self.inner
    }

    /// Returns the session with this id.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::get`](crate::session::Sessions::get).
    pub fn find(&self, id: &str) -> Result<Session, Error> {
        self.inner.sessions().get(id).map(|session| self.handle(session))
    }

    /// Returns a client's default session. Creates it with `options` if missing.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::for_client`](crate::session::Sessions::for_client).
    pub fn for_client(&self, client: &str, options: SessionOptions) -> Result<Session, Error> {
        let found = self.wait(self.inner.sessions().for_client(client, options));
        found.map(|session| self.handle(session))
    }

    /// Lists all sessions, oldest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.inner.sessions().list()
    }

    /// Returns the names of all snapshots.
    #[must_use]
    pub fn snapshots(&self) -> Vec<String> {
        self.inner.sessions().snapshots()
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    ///
    /// As for [`Sessions::drop_snapshot`](crate::session::Sessions::drop_snapshot).
    pub fn drop_snapshot(&self, name: &str) -> Result<(), Error> {
        self.inner.sessions().drop_snapshot(name)
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // Checked before the reactor's lock, which may be held forever in a forked process.
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
    forward! { "Session"
        call id() -> &str;
        call info() -> SessionInfo;
        wait run(request: Request) -> Outcome;
        wait answer(answers: Vec<ToolAnswer>) -> Outcome;
        wait waiting() -> Vec<WaitingCall>;
        wait get(name: &str) -> Option<Value>;
        wait set(name: &str, value: impl Into<Value>) -> ();
        wait evaluate(expressions: BTreeMap<String, String>)
            -> BTreeMap<String, Result<Value, String>>;
        wait complete(code: &str, cursor: usize) -> Completion;
        wait inspect(code: &str, cursor: usize, detail: bool) -> Option<Inspection>;
        wait is_complete(code: &str) -> Completeness;
        call interrupt() -> bool;
        wait history() -> Vec<HistoryEntry>;
        sure execution() -> u64;
        wait rewind(execution: u64) -> ();
        session rewind_keeping(execution: u64) -> Session;
        wait reset() -> ();
        session fork() -> Session;
        wait checkpoint(path: impl Into<PathBuf>) -> ();
        wait checkpoint_to(writer: impl Write + Send + 'static) -> ();
        wait save(store: &Arc<dyn Store>, key: &str, condition: Condition) -> Option<Saved>;
        sure suspend() -> bool;
        wait read(path: &str) -> Vec<u8>;
        wait copy_to(files: &[FileEntry], dir: &Path) -> Vec<PathBuf>;
        wait files() -> Vec<FileEntry>;
        wait snapshot(name: &str) -> ();
        call labels() -> BTreeMap<String, String>;
        call set_labels(labels: BTreeMap<String, String>) -> Result<(), Error>;
        call extend_lease(duration: Duration) -> Result<bool, Error>;
        call bounds() -> RunLimits;
        call validate(request: &Request) -> Result<(), Error>;
    }

    /// See [`Session::start`](crate::Session::start). The run has a thread of its own.
    ///
    /// # Errors
    ///
    /// If there is no thread for it.
    pub fn start(&self, request: Request) -> Result<Running<Outcome>, Error> {
        self.inner.check_process()?;
        Running::start(&self.reactor, self.inner.prepare(request))
    }

    /// Returns the asynchronous form of this session.
    #[must_use]
    pub fn asynchronous(&self) -> &session::Session {
        &self.inner
    }

    /// Returns access to the files in the workspace, without a run.
    #[must_use]
    pub fn workspace(&self) -> SessionFiles {
        self.files_handle(self.inner.workspace())
    }

    /// Returns access to all files of the session. See
    /// [`Session::all_files`](crate::Session::all_files).
    #[must_use]
    pub fn all_files(&self) -> SessionFiles {
        self.files_handle(self.inner.all_files())
    }

    /// Ends the session.
    pub fn close(&self) {
        self.reactor.with_threads(|| self.inner.close());
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.inner.check_process()?;
        self.reactor.wait(future)
    }

    fn handle(&self, inner: session::Session) -> Self {
        Self {
            inner,
            reactor: Arc::clone(&self.reactor),
        }
    }

    fn files_handle(&self, inner: session::SessionFiles) -> SessionFiles {
        SessionFiles {
            inner,
            session: self.clone(),
        }
    }
}

impl SessionFiles {
    forward! { "session::SessionFiles"
        wait list(dir: &str, depth: usize) -> Vec<PathEntry>;
        wait stat(path: &str) -> PathEntry;
        wait read(path: &str, range: impl RangeBounds<u64>) -> Vec<u8>;
        wait write(path: &str, from: impl Read + Send + 'static) -> PathEntry;
        wait max_bytes() -> u64;
        wait bytes() -> u64;
        wait make_dir(path: &str) -> ();
        wait rename(from: &str, to: &str) -> ();
        wait remove(path: &str) -> ();
    }

    /// See [`SessionFiles::write_unless`](crate::session::SessionFiles::write_unless).
    ///
    /// # Errors
    ///
    /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn write_unless<E>(
        &self,
        path: &str,
        from: impl Read + Send + 'static,
        refuse: impl FnOnce(Option<&PathEntry>) -> Result<(), E>,
    ) -> Result<Result<PathEntry, E>, Error> {
        self.wait(self.inner.write_unless(path, from, refuse))
    }

    /// See [`SessionFiles::replace_with`](crate::session::SessionFiles::replace_with).
    ///
    /// # Errors
    ///
    /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn replace_with(&self, other: &Self) -> Result<bool, Error> {
        self.wait(self.inner.replace_with(&other.inner))
    }

    /// See [`SessionFiles::merge`](crate::session::SessionFiles::merge).
    ///
    /// # Errors
    ///
    /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn merge(&self, before: &Self, theirs: &Self) -> Result<(), Error> {
        self.wait(self.inner.merge(&before.inner, &theirs.inner))
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.session.wait(future)
    }
}

impl<T: Send + 'static> Running<T> {
    fn start(
        reactor: &Arc<Reactor>,
        (inner, work): (running::Running<T>, Work),
    ) -> Result<Self, Error> {
        reactor.spawn(work)?;
        let reactor = Arc::clone(reactor);
        Ok(Self { inner, reactor })
    }

    /// See [`Running::next`](crate::event::Running::next).
    ///
    /// # Errors
    ///
    /// [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    #[expect(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Turn>, Error> {
        self.reactor.wait(async { Ok(self.inner.next().await) })
    }

    /// See [`Running::end`](crate::event::Running::end).
    ///
    /// # Errors
    ///
    /// Those of that method, and [`Error::NotBlocking`] on a thread of an asynchronous runtime.
    pub fn end(self) -> Result<T, Error> {
        self.reactor.wait(self.inner.end())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::{Runtime, Session, SessionFiles};

    /// Finds the public methods of `kind` in a source file.
    fn methods(text: &str, kind: &str, found: &mut BTreeSet<String>) {
        let mut is_inside = false;
        for line in text.lines() {
            if line.starts_with("impl ") {
                is_inside = line == format!("impl {kind} {{");
            }
            let name = line.strip_prefix("    pub async fn ").or(line.strip_prefix("    pub fn "));
            if let Some(name) = name.filter(|_| is_inside) {
                found.extend(name.split(['(', '<']).next().map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_method_has_a_blocking_form() {
        let top = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut texts = Vec::new();
        for file in ["session.rs", "runtime.rs"] {
            texts.push(fs::read_to_string(format!("{top}/{file}")).unwrap());
        }
        for entry in fs::read_dir(format!("{top}/session")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
        let own = fs::read_to_string(format!("{top}/runtime/blocking.rs")).unwrap();
        // Creating and ending a runtime, and the registry of sessions, whose methods `Runtime` has.
        let other: &[&str] = &["builder", "end"];
        for (kind, forwarded) in [
            ("Runtime", Runtime::FORWARDED),
            ("Session", Session::FORWARDED),
            ("SessionFiles", SessionFiles::FORWARDED),
        ] {
            let (mut all, mut here) = (BTreeSet::new(), BTreeSet::new());
            for text in &texts {
                methods(text, kind, &mut all);
            }
            methods(&own, kind, &mut here);
            here.extend(forwarded.iter().map(|name| (*name).to_owned()));
            let missing: Vec<_> = all
                .iter()
                .filter(|name| !here.contains(*name) && !other.contains(&&***name))
                .collect();
            assert!(all.len() >= 10, "{kind}: {all:?}");
            assert!(missing.is_empty(), "{kind} has no blocking {missing:?}");
        }
    }
}
