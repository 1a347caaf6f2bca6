//! The threads that run futures, and their shutdown.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use belljar::Error;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::error::Failure;

/// The reactor of a runtime. It belongs to the process that created it.
pub(crate) struct Reactor {
    process: u32,
    handle: Handle,
    threads: Mutex<Option<tokio::runtime::Runtime>>,
    closing: watch::Sender<bool>,
    /// Active calls.
    calls: AtomicUsize,
}

/// An active call.
pub(crate) struct Call(Arc<Reactor>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How long the interpreter's exit waits for cancelled calls.
const PATIENCE: Duration = Duration::from_secs(5);

impl Reactor {
    pub(crate) fn start() -> Result<Arc<Self>, std::io::Error> {
        let threads = Builder::new_multi_thread().thread_name("belljar").enable_time().build()?;
        Ok(Arc::new(Self {
            process: std::process::id(),
            handle: threads.handle().clone(),
            threads: Mutex::new(Some(threads)),
            closing: watch::Sender::new(false),
            calls: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Fails in a forked process, before it takes any lock, which might never be released there.
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::Forked.into())
    }

    /// Starts a call.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Call, Failure> {
        self.check_process()?;
        // Counted before the check, so that either the closing thread sees it or it sees the
        // closing.
        self.calls.fetch_add(1, Ordering::AcqRel);
        let call = Call(Arc::clone(self));
        if *self.closing.borrow() {
            return Err(Failure::Closed);
        }
        Ok(call)
    }

    /// Resolves when the interpreter exits.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        let _ = closing.wait_for(|is| *is).await;
    }

    /// Cancels all calls, waits for them, and stops the threads. After this no thread enters the
    /// interpreter.
    pub(crate) fn close(&self) {
        if self.process != std::process::id() {
            return;
        }
        self.closing.send_replace(true);
        let end = Instant::now() + PATIENCE;
        while self.calls.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(threads) = threads {
            threads.shutdown_timeout(PATIENCE);
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(threads) = threads else {
            return;
        };
        if self.process == std::process::id() {
            threads.shutdown_background();
        } else {
            // In a forked process there are no threads to wait for.
            std::mem::forget(threads);
        }
    }
}

/// A value that must be dropped within the reactor, as a session of a store must, to be released.
pub(crate) struct AtHome<T> {
    process: u32,
    handle: Handle,
    held: Option<T>,
}

impl<T> AtHome<T> {
    pub(crate) fn new(reactor: &Reactor, held: T) -> Self {
        Self {
            process: reactor.process,
            handle: reactor.handle.clone(),
            held: Some(held),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.held.as_ref()
    }
}

impl<F: Future + ?Sized> Future for AtHome<Pin<Box<F>>> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.held {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for AtHome<T> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        if self.process == std::process::id() {
            let _entered = self.handle.enter();
            drop(held);
        } else {
            // After a fork, its locks and its session belong to the parent process.
            std::mem::forget(held);
        }
    }
}
