//! Whose turn it is: how many runs go on at once, how many wait, and how many begin.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::interrupt::Interrupt;
use crate::error::Error;
use crate::limits::{MAX_START, MAX_START_WAIT};
use crate::memory::Process;

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

/// How many fresh runs begin at once.
///
/// A run that has just begun touches its memory for the first time. If it gave way to another that
/// begins, each would need a memory of its own and fault it in beside the other: sixteen short runs
/// that begin at once take several times as long as the same on two processors one after the other.
/// So the next one begins when one has ended, waits for something, or has run for a while.
pub(crate) struct Starts(Semaphore);

/// A run that has just begun, for as long as it lives.
pub(crate) struct Start<'a>(Option<SemaphorePermit<'a>>);

impl Starts {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new(processors))
    }

    /// Waits until a run may begin.
    pub(crate) async fn begin(&self) -> Start<'_> {
        if let Ok(permit) = self.0.try_acquire() {
            return Start(Some(permit));
        }
        let permit = tokio::time::timeout(MAX_START_WAIT, self.0.acquire()).await;
        Start(permit.ok().and_then(Result::ok))
    }
}

impl Start<'_> {
    /// Waits for the end of `run`; others may begin as soon as it waits for something.
    pub(crate) async fn watch<T>(
        &mut self,
        is_waiting: impl Fn() -> bool,
        run: impl Future<Output = T>,
    ) -> T {
        let mut run = pin!(run);
        let mut ran = Duration::ZERO;
        std::future::poll_fn(|context| {
            let since = Instant::now();
            let polled = run.as_mut().poll(context);
            ran += since.elapsed();
            if polled.is_pending() && (is_waiting() || ran > MAX_START) {
                self.0 = None;
            }
            polled
        })
        .await
    }
}
