//! Sessions: an interpreter and its workspace, kept across runs.
//!
//! Between two runs, a session is an immutable state: pages that differ from the image, open files,
//! and directories. Recovering, rewinding, forking, waking and restoring from a file are the same
//! operation: they start an interpreter from a state.

mod background;
pub(crate) mod checkpoint;
mod clock;
mod context;
mod fence;
mod files;
mod history;
mod info;
mod labels;
mod lazy;
mod lease;
mod options;
mod pending;
mod questions;
mod registry;
mod request;
mod restore;
mod run;
mod snapshots;
mod state;
mod storage;
mod timeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::Instrument;

use self::checkpoint::{Frozen, Written};
use self::context::Context;
use self::fence::Pass;
use self::run::Core;
use crate::api::outcome::{FileEntry, Outcome};
use crate::api::policy::RunLimits;
use crate::api::request::Request;
use crate::api::tool::{ToolAnswer, WaitingCall};
use crate::engine::on_blocking_thread;
use crate::engine::run::next_run;
use crate::engine::running::{Running, Work};
use crate::error::Error;
use crate::workspace::list;

pub(crate) use crate::error::session::{FileAction, SessionError};
pub use checkpoint::Saved;
#[cfg(feature = "fuzzing")]
pub(crate) use checkpoint::parse_checkpoint;
pub(crate) use clock::Times;
pub(crate) use fence::Recalled;
pub use files::{PathEntry, PathKind, SessionFiles};
pub use history::HistoryEntry;
pub use info::{SessionInfo, SessionStatus};
pub use lease::LeaseEnd;
pub use options::{HistoryLimits, RegistryLimits, SessionLimits, SessionOptions};
pub use questions::{Completeness, Completion, Inspection};
pub use registry::Sessions;
pub(crate) use registry::{check_name, new_id};
pub use request::{LeaseRequest, RestoreRequest};
pub use restore::RestoreOptions;

/// An interpreter with its workspace, kept across runs. Clones are cheap and are the same session.
/// It lives until it is [closed](Self::close) or the runtime is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), belljar::Error> {
/// use belljar::{Request, Runtime, SessionOptions};
///
/// let runtime = Runtime::builder().build()?;
/// let session = runtime.session(SessionOptions::new().image("core")).await?;
/// session.run(Request::new("x = 20")).await?;
/// let other = session.fork().await?;
/// assert_eq!(session.run(Request::new("x + 1")).await?.stdout, "21\n");
/// assert_eq!(other.run(Request::new("x + 2")).await?.stdout, "22\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
    sessions: Sessions,
    /// What this handle permits.
    pass: Pass,
}

struct Inner {
    context: Context,
    core: Arc<Mutex<Core>>,
}

impl Session {
    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.context.id
    }

    /// Returns the session's properties and status.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.inner.context.info()
    }

    /// Runs a request after all earlier requests.
    ///
    /// Failures of the code are in the outcome. So is a loss of the interpreter, after which the
    /// session is in its state before this run. Dropping the future cancels the run, with the same
    /// effect.
    ///
    /// The state after the run is saved in the background while the outcome is delivered; the next
    /// operation on the session waits for it. If saving fails, the session is in its state before
    /// the run, and the next outcome says so. Until then, methods that need the state fail with
    /// [`SessionError::NotKept`].
    ///
    /// # Errors
    ///
    /// If the request is invalid, the session was closed, the queue is full, or the engine fails.
    /// The session is then unchanged.
    pub async fn run(&self, request: Request) -> Result<Outcome, Error> {
        let context = &self.inner.context;
        let image = context.image.manifest.name.as_str();
        let span = tracing::info_span!("run", id = next_run(), session = context.id, image);
        self.run_alone(request).instrument(span).await
    }

    /// Starts a run like [`run`](Self::run), which the caller follows turn by turn, as
    /// [`Runtime::start`](crate::Runtime::start) does. Calls of deferred tools are turns, so the
    /// run does not end to wait for their answers.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self, request: Request) -> Running<Outcome> {
        Running::spawn(self.prepare(request))
    }

    pub(crate) fn prepare(&self, mut request: Request) -> (Running<Outcome>, Work) {
        self.inner.context.fixed.tools.complete(&mut request);
        let session = self.clone();
        Running::prepare(request, |request| async move { session.run(request).await })
    }

    /// Answers deferred tool calls and continues the run that waits for them. The outcome covers
    /// the whole run. If calls remain unanswered, the run waits again.
    ///
    /// The run is replayed from the state before it, with the same clock and random numbers, and
    /// its earlier calls get the same answers.
    ///
    /// # Errors
    ///
    /// If no run waits, or the run does not wait for one of these calls. Otherwise as for
    /// [`run`](Self::run); the run then still waits.
    pub async fn answer(&self, answers: Vec<ToolAnswer>) -> Result<Outcome, Error> {
        let context = &self.inner.context;
        let image = context.image.manifest.name.as_str();
        let span = tracing::info_span!("run", id = next_run(), session = context.id, image);
        let answering = async {
            let mut core = self.lock_to_change_any_state().await?;
            let mut outcome = core.answer(context, answers).await;
            self.give_back(core);
            if let Ok(outcome) = &mut outcome {
                context.tell_losses(outcome);
            }
            outcome
        };
        answering.instrument(span).await
    }

    /// Returns the deferred tool calls that a run of this session waits for, with number, name and
    /// arguments.
    ///
    /// # Errors
    ///
    /// If the session was closed.
    pub async fn waiting(&self) -> Result<Vec<WaitingCall>, Error> {
        Ok(self.lock().await?.waiting())
    }

    /// Interrupts the current run, as Ctrl-C would. The code gets a `KeyboardInterrupt`, and the
    /// session keeps its state. Code that continues is stopped, and the session returns to its
    /// state before the run. Returns whether there was a run.
    pub fn interrupt(&self) -> bool {
        self.inner.context.check_pass(self.pass).is_ok() && self.inner.context.interrupt()
    }

    /// Returns the runs of the session, oldest first, as far back as its history goes.
    ///
    /// # Errors
    ///
    /// If the session is suspended and cannot be read.
    pub async fn history(&self) -> Result<Vec<HistoryEntry>, Error> {
        self.check_process()?;
        let mut core = self.inner.lock().await?;
        Ok(core.past(&self.inner.context).await?.history.records())
    }

    /// Returns the number of completed runs.
    pub async fn execution(&self) -> u64 {
        self.inner.core.lock().await.execution
    }

    /// Returns to the state after run `execution`, or with 0 to the beginning of the session. Later
    /// runs are forgotten, including their files.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoState`] if the history does not contain that state.
    pub async fn rewind(&self, execution: u64) -> Result<(), Error> {
        let mut core = self.lock_to_change_any_state().await?;
        let _use = self.inner.context.begin_use();
        core.go_back(&self.inner.context, execution).await
    }

    /// Like [`rewind`](Self::rewind), but keeps the current state as a new session, which it
    /// returns.
    ///
    /// # Errors
    ///
    /// As for [`rewind`](Self::rewind) and [`fork`](Self::fork).
    pub async fn rewind_keeping(&self, execution: u64) -> Result<Session, Error> {
        let context = &self.inner.context;
        let mut core = self.lock_to_change().await?;
        let _use = context.begin_use();
        let later = self.sessions.prepare_fork(context, &mut core).await?;
        let state = core.find(context, execution).await?;
        // Nothing awaits from here on: if the caller is gone, either all of this is done or
        // nothing.
        let later = later.register(&self.sessions)?;
        let left = core.return_to(state, execution);
        self.sessions.shared.afterwards.drop_aside(left);
        Ok(later)
    }

    /// Returns to the beginning of the session, after its initial code.
    ///
    /// # Errors
    ///
    /// If the session is suspended and cannot be read.
    pub async fn reset(&self) -> Result<(), Error> {
        self.rewind(0).await
    }

    /// Creates another session from this session's state and history. The two are independent,
    /// including their workspaces; unchanged data is shared.
    ///
    /// # Errors
    ///
    /// If there are too many sessions, or this session was closed.
    pub async fn fork(&self) -> Result<Session, Error> {
        let mut core = self.lock().await?;
        self.sessions.fork(&self.inner.context, &mut core).await
    }

    /// Writes the session to a file. It can be restored in another process, or on another machine
    /// with the same image. An existing file is replaced atomically, and is unchanged if an error
    /// occurs.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub async fn checkpoint(&self, path: impl Into<PathBuf>) -> Result<(), Error> {
        let mut core = self.lock().await?;
        let frozen = core.freeze(&self.inner.context).await?;
        let filed = checkpoint::save(frozen, path.into(), core.filed.clone()).await?;
        core.filed = filed.map(Arc::new);
        Ok(())
    }

    /// Writes the session to `writer`, in the format of [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    ///
    /// If the writer fails.
    pub async fn checkpoint_to(
        &self,
        writer: impl std::io::Write + Send + 'static,
    ) -> Result<(), Error> {
        let mut core = self.lock().await?;
        let frozen = core.freeze(&self.inner.context).await?;
        checkpoint::stream(frozen, writer).await
    }

    /// Returns the session as it is, and the chunks of it that are in a store.
    pub(crate) async fn freeze(&self) -> Result<(Frozen, Arc<Written>), Error> {
        let mut core = self.lock().await?;
        let frozen = core.freeze_as_it_is(&self.inner.context).await?;
        Ok((frozen, Arc::clone(&core.written)))
    }

    pub(crate) fn times(&self) -> Times {
        self.inner.context.clock.times()
    }

    /// Returns the times measured by a monotonic clock alone.
    pub(crate) fn counted_times(&self) -> Times {
        self.inner.context.clock.counted()
    }

    /// Returns how long the session has been unused on this runtime.
    pub(crate) fn unused(&self) -> Duration {
        self.inner.context.used().elapsed()
    }

    /// Suspends the session to disk now; its next run wakes it. Returns false during a run and in a
    /// forked child.
    pub async fn suspend(&self) -> bool {
        if self.check_process().is_err() {
            return false;
        }
        let inner = Arc::clone(&self.inner);
        if inner.context.is_keeping() {
            drop(inner.lock().await);
        }
        tokio::task::spawn_blocking(move || inner.suspend()).await.unwrap_or(false)
    }

    /// Reads a file in the workspace, by its path in an outcome. Files of a run in which the
    /// interpreter was lost are available until the next run.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFile`] if no regular file has this path.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.lock().await?.read(&self.inner.context, path).await
    }

    /// Copies the regular files among `files`, from an outcome, to `dir`, like
    /// [`Run::copy_to`](crate::Run::copy_to). The directory is created if missing. Returns the
    /// paths of the copies.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Copies`](crate::error::WorkspaceError::Copies) if some files cannot be
    /// copied; all other files are copied.
    pub async fn copy_to(&self, files: &[FileEntry], dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let regular = files.iter().filter(|file| file.symlink.is_none());
        let names = regular.map(|file| file.path.clone()).collect();
        self.lock().await?.copy(&self.inner.context, names, dir.to_owned()).await
    }

    /// Lists the files and links in the workspace after the last completed run, sorted by path,
    /// without hashes and media types.
    ///
    /// # Errors
    ///
    /// If the session is suspended and cannot be read.
    pub async fn files(&self) -> Result<Vec<FileEntry>, Error> {
        self.check_process()?;
        let mut core = self.lock().await?;
        Ok(list(&core.past(&self.inner.context).await?.state.files))
    }

    /// Returns the default limits of a run in this session. Those on memory, workspace and files
    /// apply to the whole session.
    #[must_use]
    pub fn bounds(&self) -> RunLimits {
        let bounds = self.inner.context.fixed.bounds;
        bounds.timeout(bounds.timeout.min(self.inner.context.engine.ceilings.timeout))
    }

    /// Checks a request like [`run`](Self::run), without running it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if this session cannot run the request.
    pub fn validate(&self, request: &Request) -> Result<(), Error> {
        self.inner.context.plan(request.clone())?;
        Ok(())
    }

    /// Ends the session: stops its run and frees its resources. It has no effect in a forked child
    /// or on a handle whose claim was released.
    pub fn close(&self) {
        if self.check_process().is_err() || self.inner.context.check_pass(self.pass).is_err() {
            return;
        }
        self.inner.context.close();
        self.sessions.remove(&self.inner);
        self.interrupt();
        // A current run frees everything at its end.
        if let Ok(core) = Arc::clone(&self.inner.core).try_lock_owned() {
            self.free(core);
        }
    }

    async fn run_alone(&self, request: Request) -> Result<Outcome, Error> {
        let context = &self.inner.context;
        let mut core = self.lock_in_any_state().await?;
        // A cancelled run may have changed the session, too.
        let was_changed = context.begin_change(self.pass)?;
        let mut outcome = core.run(context, request).await;
        if matches!(outcome, Err(Error::Refused(_))) && !was_changed {
            context.fence().note_unchanged();
        }
        self.give_back(core);
        if let Ok(outcome) = &mut outcome {
            context.tell_losses(outcome);
        }
        outcome
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.inner.context.engine.check_process()
    }

    /// Locks the core, with the state after the last run.
    async fn lock(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_in_any_state().await?;
        core.check_kept(&self.inner.context)?;
        Ok(core)
    }

    /// Locks the core, with the state after the last run, for a handle that may change the session.
    async fn lock_to_change(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_to_change_any_state().await?;
        core.check_kept(&self.inner.context)?;
        Ok(core)
    }

    /// Locks the core for a handle that may change the session, even if the state after the last
    /// run was lost.
    async fn lock_to_change_any_state(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_in_any_state().await?;
        // Checked under the lock, so that a handle that is recalled meanwhile changes nothing
        // afterwards.
        self.inner.context.begin_change(self.pass)?;
        Ok(core)
    }

    /// Locks the core, even if the state after the last run was lost.
    async fn lock_in_any_state(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        self.check_process()?;
        let core = self.inner.lock().await?;
        if self.inner.context.lease_over() == Some(LeaseEnd::Close) {
            self.close_held(core);
        } else if !self.inner.context.is_closed() {
            return Ok(core);
        }
        let id = self.inner.context.id.clone();
        Err(SessionError::NotFound { id }.into())
    }

    /// Ends the session. The caller has locked the core.
    fn close_held(&self, core: OwnedMutexGuard<Core>) {
        self.inner.context.close();
        self.sessions.remove(&self.inner);
        self.free(core);
    }
}

impl Inner {
    /// Locks the core once all background work of the last run is done.
    async fn lock(self: &Arc<Self>) -> Result<OwnedMutexGuard<Core>, Error> {
        let mut core = Arc::clone(&self.core).lock_owned().await;
        if !core.is_unkept() {
            return Ok(core);
        }
        if core.is_kept_soon() {
            core.keep(&self.context);
            return Ok(core);
        }
        let inner = Arc::clone(self);
        on_blocking_thread(move || {
            core.keep(&inner.context);
            core
        })
        .await
    }

    /// Suspends the session to disk, unless it is busy. Blocks.
    fn suspend(&self) -> bool {
        let Ok(mut core) = self.core.try_lock() else {
            return false;
        };
        if core.is_unkept() {
            return false;
        }
        let Some((frozen, reused, elsewhere)) = core.freeze_in_memory(&self.context) else {
            return true;
        };
        match checkpoint::suspend(&self.context, (&frozen, reused.as_ref()), elsewhere) {
            Ok(suspended) => {
                core.suspend(suspended);
                tracing::debug!(session = self.context.id, "a session was suspended");
                self.context.note_in_memory(false);
                true
            }
            Err(error) => {
                // The session stays in memory, so nothing is lost.
                tracing::warn!(session = self.context.id, %error, "a session cannot be suspended");
                false
            }
        }
    }
}
