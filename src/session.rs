//! Sessions: an interpreter and its workspace, kept across runs.
//!
//! Between two runs a session is a state that never changes: pages that differ from the image,
//! open files, directories. Recovering, rewinding, forking, waking up and restoring from a file
//! are the same operation: bringing a state to life.

mod afterwards;
mod asked;
mod checkpoint;
mod context;
mod core;
mod earlier;
pub(crate) mod error;
mod fence;
mod files;
mod history;
mod info;
mod labels;
mod lease;
mod options;
mod past;
mod pending;
mod questions;
mod registry;
mod restore;
mod snapshots;
mod state;
mod storage;
mod times;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::Instrument;

use self::checkpoint::{Frozen, Written};
use self::context::Context;
use self::core::Core;
use self::fence::Pass;
use crate::api::outcome::{FileEntry, Outcome};
use crate::api::policy::Bounds;
use crate::api::request::Request;
use crate::api::tool::{ToolAnswer, WaitingCall};
use crate::error::Error;
use crate::run::next_run;
use crate::shared::on_blocking_thread;
use crate::store::{Condition, Store};
use crate::workspace::list;

pub use asked::{LeaseRequest, RestoreRequest};
pub(crate) use checkpoint::parse_checkpoint;
pub use checkpoint::{CHUNK_GRACE, Collected, Saved, collect_chunks};
pub use error::{ChunkProblem, FileAction, SessionError};
pub(crate) use fence::Recalled;
pub use files::{PathEntry, PathKind, SessionFiles};
pub use history::HistoryEntry;
pub use info::{SessionInfo, SessionStatus};
pub use lease::LeaseEnd;
pub use options::{HistoryBounds, SessionBounds, SessionLimits, SessionOptions};
pub use questions::{Completeness, Completion, Inspection};
pub use registry::Sessions;
pub(crate) use registry::{check_name, new_id};
pub use restore::RestoreOptions;
pub(crate) use times::Times;

/// An interpreter with its workspace, kept across runs. Cheap to clone; clones are the same
/// session, which lives until it is [closed](Self::close), or the runtime is gone.
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
    /// What may be done with this handle.
    pass: Pass,
}

struct Inner {
    context: Context,
    core: Arc<Mutex<Core>>,
}

impl Session {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.context.id
    }

    /// What the session is, and is doing.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.inner.context.info()
    }

    /// Runs a request after those that were asked for before it.
    ///
    /// What the code does wrong is in the outcome, and so is a loss of the interpreter, after which
    /// the session is in the state before this run. Dropping the future cancels the run, with the
    /// same effect.
    ///
    /// The state after the run is kept while the outcome is on its way; what is asked of the session
    /// next waits for that. Should it fail, the session is in the state before this run: the next
    /// outcome says so, and until then methods that need the state are [`SessionError::NotKept`].
    ///
    /// # Errors
    ///
    /// When the request is refused, the session was closed, too many runs are waiting, or the
    /// engine fails; the session is then as it was before.
    pub async fn run(&self, request: Request) -> Result<Outcome, Error> {
        let context = &self.inner.context;
        let image = context.image.manifest.name.as_str();
        let span = tracing::info_span!("run", id = next_run(), session = context.id, image);
        self.run_alone(request).instrument(span).await
    }

    /// Answers calls of deferred tools for which a run of this session waits, and goes on with it: the
    /// outcome is that of the whole run. Where calls are left that nobody has answered it waits again.
    ///
    /// The run is begun again from the state before it, with the same clock and random numbers, and its
    /// calls that were answered before get the same answers.
    ///
    /// # Errors
    ///
    /// When no run waits, or not for one of these; otherwise as for [`run`](Self::run), and the run
    /// waits as before.
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

    /// The calls of deferred tools for which a run of this session waits, each with its number, name
    /// and arguments.
    ///
    /// # Errors
    ///
    /// When the session was closed.
    pub async fn waiting(&self) -> Result<Vec<WaitingCall>, Error> {
        Ok(self.lock().await?.waiting())
    }

    /// Interrupts the run that is going on, as Ctrl-C would: its code gets a `KeyboardInterrupt`
    /// and the session's state stays. Code that does not end then is stopped, and the session is
    /// in the state before. Returns whether there was a run.
    pub fn interrupt(&self) -> bool {
        self.inner.context.check_pass(self.pass).is_ok() && self.inner.context.interrupt()
    }

    /// What the session did, the latest last, as far back as its history goes.
    ///
    /// # Errors
    ///
    /// When the session is suspended and cannot be read.
    pub async fn history(&self) -> Result<Vec<HistoryEntry>, Error> {
        self.check_process()?;
        let mut core = self.inner.lock().await?;
        Ok(core.past(&self.inner.context).await?.history.records())
    }

    /// How many runs the session is made of.
    pub async fn execution(&self) -> u64 {
        self.inner.core.lock().await.execution
    }

    /// Goes back to the state after run `execution`, or with 0 to the session's beginning. The runs
    /// after it are forgotten, files included.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoState`] when the history does not hold that state.
    pub async fn rewind(&self, execution: u64) -> Result<(), Error> {
        let mut core = self.lock_to_change_any_state().await?;
        let _use = self.inner.context.begin_use();
        core.go_back(&self.inner.context, execution).await
    }

    /// Like [`rewind`](Self::rewind), and keeps what is left behind as a session of its own.
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
        // From here on nothing is waited for: a caller that is gone leaves all of it done, or nothing.
        let later = later.register(&self.sessions)?;
        let left = core.return_to(state, execution);
        self.sessions.shared.afterwards.drop_aside(left);
        Ok(later)
    }

    /// Goes back to the session's beginning: nothing is left but what its initial code made.
    ///
    /// # Errors
    ///
    /// When the session is suspended and cannot be read.
    pub async fn reset(&self) -> Result<(), Error> {
        self.rewind(0).await
    }

    /// Starts another session from this one's state and history. Neither sees what the other does
    /// from then on, workspaces included; what neither changes they share.
    ///
    /// # Errors
    ///
    /// When there are too many sessions, or this one was closed.
    pub async fn fork(&self) -> Result<Session, Error> {
        let mut core = self.lock().await?;
        self.sessions.fork(&self.inner.context, &mut core).await
    }

    /// Writes the session to a file, from which it can be restored in another process, or on
    /// another machine with the same image. A file that was there is replaced at once, or, when
    /// something fails, not at all.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
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
    /// When the writer fails.
    pub async fn checkpoint_to(
        &self,
        writer: impl std::io::Write + Send + 'static,
    ) -> Result<(), Error> {
        let mut core = self.lock().await?;
        let frozen = core.freeze(&self.inner.context).await?;
        checkpoint::stream(frozen, writer).await
    }

    /// Writes the session into `store`: under `key` what it consists of, and beside it, under their
    /// names, the parts that are not there yet. What it shares with others in the store is there once: its
    /// forks, and the session as it was when it was last written or read there. What is written is
    /// therefore what has changed. [`RestoreOptions::stored`] reads it, and
    /// [`collect_chunks`](crate::collect_chunks) removes parts that nothing needs any more.
    ///
    /// Returns `None` where `condition` does not hold for what is under `key`.
    ///
    /// # Errors
    ///
    /// When the store fails, or the session cannot be read.
    pub async fn save(
        &self,
        store: &Arc<dyn Store>,
        key: &str,
        condition: Condition,
    ) -> Result<Option<Saved>, Error> {
        let (frozen, written) = self.freeze().await?;
        checkpoint::save_apart(frozen, &written, store, key, condition).await
    }

    /// Writes the session as [`save`](Self::save) does, for a record that tells when it was made and last
    /// used: the times in what is written are those that were counted.
    pub(crate) async fn save_beside_record(
        &self,
        store: &Arc<dyn Store>,
        key: &str,
    ) -> Result<(), Error> {
        let (mut frozen, written) = self.freeze().await?;
        frozen.set_times(self.inner.context.clock.counted());
        // The key is drawn by lot. What is under it was written by this, which a store asked twice.
        checkpoint::save_apart(frozen, &written, store, key, Condition::Always).await.map(drop)
    }

    async fn freeze(&self) -> Result<(Frozen, Arc<Written>), Error> {
        let mut core = self.lock().await?;
        let frozen = core.freeze_as_it_is(&self.inner.context).await?;
        Ok((frozen, Arc::clone(&core.written)))
    }

    pub(crate) fn times(&self) -> Times {
        self.inner.context.clock.times()
    }

    /// For how long nobody has used it on this runtime.
    pub(crate) fn unused(&self) -> Duration {
        self.inner.context.used().elapsed()
    }

    /// Puts the session on the disk now; its next run wakes it up. Returns false while it runs, and
    /// in a forked child.
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

    /// The bytes of a file in the workspace, by its path in an outcome. Files of a run in which the
    /// interpreter was lost can be read until the next run.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFile`] when there is no regular file of that name.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.lock().await?.read(&self.inner.context, path).await
    }

    /// Copies the regular files among `files`, which an outcome lists, to `dir`, which is made if
    /// missing, as [`Run::copy_to`](crate::Run::copy_to) does. Returns the paths of the copies.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Copies`](crate::WorkspaceError::Copies) when some cannot be copied; the
    /// others are.
    pub async fn copy_to(&self, files: &[FileEntry], dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let regular = files.iter().filter(|file| file.symlink.is_none());
        let names = regular.map(|file| file.path.clone()).collect();
        self.lock().await?.copy(&self.inner.context, names, dir.to_owned()).await
    }

    /// The files and links in the workspace as the last completed run left them, sorted by path;
    /// without hashes and media types.
    ///
    /// # Errors
    ///
    /// When the session is suspended and cannot be read.
    pub async fn files(&self) -> Result<Vec<FileEntry>, Error> {
        self.check_process()?;
        let mut core = self.lock().await?;
        Ok(list(&core.past(&self.inner.context).await?.state.files))
    }

    /// What a run of this session gets that asks for nothing else; memory, workspace and files for
    /// all of them.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.inner.context.fixed.bounds
    }

    /// Checks a request as [`run`](Self::run) does, without running it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when it is not one that this session can run.
    pub fn validate(&self, request: &Request) -> Result<(), Error> {
        self.inner.context.plan(request.clone())?;
        Ok(())
    }

    /// Ends the session: what it runs is stopped, and what it holds is freed. In a forked child it
    /// does nothing, nor does a handle whose claim was released.
    pub fn close(&self) {
        if self.check_process().is_err() || self.inner.context.check_pass(self.pass).is_err() {
            return;
        }
        self.inner.context.close();
        self.sessions.remove(&self.inner);
        self.interrupt();
        // A run that is going on frees everything at its end.
        if let Ok(core) = Arc::clone(&self.inner.core).try_lock_owned() {
            self.free(core);
        }
    }

    async fn run_alone(&self, request: Request) -> Result<Outcome, Error> {
        let context = &self.inner.context;
        let mut core = self.lock_in_any_state().await?;
        // A run that is cancelled has begun, too.
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

    /// The changing parts, with the state after the last run.
    async fn lock(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_in_any_state().await?;
        core.check_kept(&self.inner.context)?;
        Ok(core)
    }

    /// The changing parts with the state after the last run, for a handle that may change the session.
    async fn lock_to_change(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_to_change_any_state().await?;
        core.check_kept(&self.inner.context)?;
        Ok(core)
    }

    /// The same, also where the state after the last run was lost.
    async fn lock_to_change_any_state(&self) -> Result<OwnedMutexGuard<Core>, Error> {
        let core = self.lock_in_any_state().await?;
        // Under the lock: a handle that is recalled meanwhile changes nothing afterwards.
        self.inner.context.begin_change(self.pass)?;
        Ok(core)
    }

    /// The changing parts, also where the state after the last run was lost.
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

    /// Ends the session, by whoever has its changing parts.
    fn close_held(&self, core: OwnedMutexGuard<Core>) {
        self.inner.context.close();
        self.sessions.remove(&self.inner);
        self.free(core);
    }
}

impl Inner {
    /// The changing parts, once all that is left of the last run is done.
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

    /// Puts the session on the disk, unless it is busy. It blocks.
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
                // It stays in memory, and nothing is lost.
                tracing::warn!(session = self.context.id, %error, "a session cannot be suspended");
                false
            }
        }
    }
}
