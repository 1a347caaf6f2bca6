//! What blocking callers wait on.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// Made by the first caller, with a thread that keeps the time for all.
#[derive(Default)]
pub(crate) struct Reactor {
    made: Mutex<Option<Made>>,
}

/// A reactor, and the process that made it.
struct Made {
    process: u32,
    runtime: Arc<tokio::runtime::Runtime>,
}

impl Reactor {
    /// Waits on this thread until `future` has ended. In a process that was forked from the one
    /// that made it nobody calls this.
    pub(crate) fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(Error::NotBlocking);
        }
        self.runtime()?.block_on(future)
    }

    /// Runs `work` where it finds threads that may block, if anybody has waited here before.
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
            // In a process that was forked from that one none of its threads runs and would end.
            std::mem::forget(made);
        } else if let Some(runtime) = Arc::into_inner(made.runtime) {
            // To wait for its threads would panic on one of an asynchronous runtime.
            runtime.shutdown_background();
        }
    }
}
