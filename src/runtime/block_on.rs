//! Drives futures for blocking callers.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

use crate::error::Error;

/// Created by the first caller, with one timer thread for all.
#[derive(Default)]
pub(crate) struct Reactor {
    made: Mutex<Option<Made>>,
}

/// A reactor, and the process that created it.
struct Made {
    process: u32,
    runtime: Arc<tokio::runtime::Runtime>,
}

impl Reactor {
    /// Blocks this thread until `future` is ready. Must not be called in a forked child of the
    /// creating process.
    pub(crate) fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::NotBlocking);
        }
        let mut answer = None;
        self.drive(pin!(async { answer = Some(future.await) }))?;
        answer.expect("the future is ready")
    }

    /// Not generic, so that tokio's executor is compiled once and not for each kind of future.
    fn drive(&self, future: Pin<&mut dyn Future<Output = ()>>) -> Result<(), Error> {
        self.runtime()?.block_on(future);
        Ok(())
    }

    /// Drives `work` to its end on another thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let runtime = self.runtime()?;
        let handle = runtime.handle().clone();
        // The timers must outlive the work.
        let reactor = Arc::clone(self);
        runtime.spawn_blocking(move || {
            handle.block_on(work);
            drop(reactor);
        });
        Ok(())
    }

    /// Runs `work` in the context of the blocking threads, if a caller has waited here before.
    pub(crate) fn with_threads(&self, work: impl FnOnce()) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let own = made.as_ref().filter(|made| made.process == std::process::id());
        let runtime = own.map(|made| Arc::clone(&made.runtime));
        drop(made);
        let entered = runtime.as_ref().map(|runtime| runtime.enter());
        work();
        drop(entered);
    }

    fn runtime(&self) -> Result<Arc<tokio::runtime::Runtime>, Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref() {
            return Ok(Arc::clone(&made.runtime));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("belljar-blocking")
            .enable_time()
            .build()
            .map_err(Error::system("start a runtime for blocking calls"))?;
        let runtime = Arc::new(runtime);
        *made = Some(Made {
            process: std::process::id(),
            runtime: Arc::clone(&runtime),
        });
        Ok(runtime)
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(made) = made else {
            return;
        };
        if made.process != std::process::id() {
            // In a forked child, the reactor's threads do not exist, so waiting for their end would
            // hang.
            std::mem::forget(made);
        } else if let Some(runtime) = Arc::into_inner(made.runtime) {
            // Waiting for its threads would panic on a thread of an asynchronous runtime.
            runtime.shutdown_background();
        }
    }
}
