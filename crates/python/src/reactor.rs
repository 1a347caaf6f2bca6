//! The threads on which futures run, and their end.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use belljar::Error;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::error::Failure;

/// What a runtime waits on. It belongs to the process that made it.
pub(crate) struct Reactor {
    process: u32,
    handle: Handle,
    threads: Mutex<Option<tokio::runtime::Runtime>>,
    closing: watch::Sender<bool>,
    /// Calls that are under way.
    calls: AtomicUsize,
}

/// A call that is under way.
pub(crate) struct Call(Arc<Reactor>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How long the interpreter's exit waits for calls that were told to end.
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

    /// Fails in a process that was forked, before any lock is taken that nobody would release there.
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::Forked.into())
    }

    /// Begins a call.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Call, Failure> {
        self.check_process()?;
        // Counted before the look, so that whoever closes sees it or it sees that.
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

    /// Ends all calls, waits for them, and stops the threads, after which none of them meets the
    /// interpreter again.
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
            // In a process that was forked from that one none of its threads runs and would end.
            std::mem::forget(threads);
        }
    }
}

/// Something that is dropped where it finds the reactor's threads, whoever drops it: what a session of a
/// store needs to be given back.
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
            // Its locks and its session are those of the process from which this one was forked.
            std::mem::forget(held);
        }
    }
}
