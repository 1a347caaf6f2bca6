//! What runs and sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::interrupt::Interrupt;
use crate::api::policy::Bounds;
use crate::api::request::ImageChoice;
use crate::bakery::{ImageStore, choose};
use crate::error::Error;
use crate::image::Image;
use crate::instance::Factory;
use crate::memory::Process;
use crate::workspace::Workspaces;

/// Everything that outlives a run.
pub(crate) struct Engine {
    pub factory: Factory,
    pub images: ImageStore,
    pub workspaces: Arc<Workspaces>,
    pub defaults: Bounds,
    pub ceilings: Bounds,
    pub turns: Turns,
}

/// How many runs go on at once, and how many wait.
pub(crate) struct Turns {
    permits: Semaphore,
    waiting: AtomicUsize,
    queue: usize,
    /// Where they are given.
    process: Process,
}

impl Turns {
    /// At most `concurrency` runs go on at once, and at most `queue` wait.
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        Self {
            permits: Semaphore::new(concurrency),
            waiting: AtomicUsize::new(0),
            queue,
            process: Process::current(),
        }
    }

    /// Refuses to work in a forked child: memories, threads and directories are the parent's. To be
    /// asked before any lock is waited for, which a thread of the parent may have held.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_current() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Waits for a turn, in order; it lasts until what is returned is dropped.
    pub(crate) async fn take(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.check_process()?;
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let waiting = Waiting::enter(&self.waiting);
        tracing::debug!(before = waiting.before, "a run waits for others");
        if waiting.before >= self.queue {
            return Err(Error::Busy {
                waiting: waiting.before,
            });
        }
        Ok(self.permits.acquire().await.expect("the semaphore is never closed"))
    }
}

impl Turns {
    /// Like [`take`](Self::take); `None` when `interrupt` was used before the turn came.
    pub(crate) async fn take_unless(
        &self,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<SemaphorePermit<'_>>, Error> {
        let Some(interrupt) = interrupt else {
            return Ok(Some(self.take().await?));
        };
        tokio::select! {
            biased;
            () = interrupt.interrupted() => Ok(None),
            turn = self.take() => Ok(Some(turn?)),
        }
    }
}

impl Engine {
    /// As for [`Turns::check_process`].
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.turns.check_process()
    }

    /// The image that `choice` means for `code`. One that is not loaded yet is loaded, or made, on
    /// a thread that may block.
    pub(crate) async fn image(
        self: &Arc<Self>,
        choice: &ImageChoice,
        code: &str,
    ) -> Result<Arc<Image>, Error> {
        let name = match choice {
            ImageChoice::Auto => choose(code),
            ImageChoice::Named(name) => name.as_str(),
        };
        if let Some(image) = self.images.loaded(name) {
            return Ok(image);
        }
        let (engine, name) = (Arc::clone(self), name.to_owned());
        let made = on_blocking_thread(move || {
            let started = Instant::now();
            let made = engine.images.ensure(&engine.factory, &name);
            tracing::debug!(image = name, elapsed = ?started.elapsed(), "an image was loaded");
            made
        });
        Ok(made.await??)
    }
}

/// Runs `work` on a thread that may block.
pub(crate) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::system("use a thread that may block"))
}

/// Counts a waiting run, for as long as it waits.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::AcqRel);
        Self { count, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}
