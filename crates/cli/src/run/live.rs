//! Output of the code, passed on as it comes.

use std::sync::{Arc, Mutex, PoisonError};

use belljar::{OutputWatcher, Stream};
use tokio::sync::Notify;

use crate::printer::{OutputError, Printer};

/// Passes output on until the first failure to do so.
#[derive(Debug)]
pub(crate) struct Live {
    printer: Arc<Printer>,
    failure: Mutex<Option<OutputError>>,
    failed: Notify,
}

impl Live {
    pub(crate) fn new(printer: Arc<Printer>) -> Self {
        Self {
            printer,
            failure: Mutex::new(None),
            failed: Notify::new(),
        }
    }

    /// Waits until output could not be passed on.
    pub(crate) async fn failed(&self) -> OutputError {
        loop {
            self.failed.notified().await;
            if let Some(error) = self.take() {
                return error;
            }
        }
    }

    /// The failure that nobody has heard of yet.
    pub(crate) fn take(&self) -> Option<OutputError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl OutputWatcher for Live {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        if let Err(error) = self.printer.guest(stream, bytes) {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            self.failed.notify_one();
        }
    }
}
