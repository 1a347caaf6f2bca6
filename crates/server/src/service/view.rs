//! The operations of a session that do not run guest code.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar::outcome::FileEntry;
use belljar::session::{HistoryEntry, SessionFiles, SessionInfo};
use belljar::tool::WaitingCall;
use belljar::{Error, Request, Session};

/// A session without the operations that run guest code. Those go through
/// [`Service`](super::Service), which accounts for them.
#[derive(Clone, Copy)]
pub struct View<'a>(pub(super) &'a Session);

impl View<'_> {
    /// Its properties and status.
    #[must_use]
    pub fn info(self) -> SessionInfo {
        self.0.info()
    }

    /// Checks a request without running it.
    pub(crate) fn validate(self, request: &Request) -> Result<(), Error> {
        self.0.validate(request)
    }

    /// Its files.
    #[must_use]
    pub fn workspace(self) -> SessionFiles {
        self.0.workspace()
    }

    /// Its files including `/tmp`, by absolute paths.
    pub(crate) fn all_files(self) -> SessionFiles {
        self.0.all_files()
    }

    /// The files of its workspace after the last run.
    pub(crate) async fn files(&self) -> Result<Vec<FileEntry>, Error> {
        self.0.files().await
    }

    /// The bytes of a file.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.0.read(path).await
    }

    /// Its runs.
    pub(crate) async fn history(&self) -> Result<Vec<HistoryEntry>, Error> {
        self.0.history().await
    }

    /// The number of its last run, 0 before the first.
    pub(crate) async fn execution(&self) -> u64 {
        self.0.execution().await
    }

    /// The calls that its run waits for.
    pub(crate) async fn waiting(&self) -> Result<Vec<WaitingCall>, Error> {
        self.0.waiting().await
    }

    /// Rewinds it to the state after a run.
    pub(crate) async fn rewind(&self, execution: u64) -> Result<(), Error> {
        self.0.rewind(execution).await
    }

    /// Writes a checkpoint.
    pub(crate) async fn checkpoint_to(
        &self,
        writer: impl std::io::Write + Send + 'static,
    ) -> Result<(), Error> {
        self.0.checkpoint_to(writer).await
    }

    /// Suspends it to disk.
    pub(crate) async fn suspend(&self) -> bool {
        self.0.suspend().await
    }

    /// Replaces its labels.
    pub(crate) fn set_labels(self, labels: BTreeMap<String, String>) -> Result<(), Error> {
        self.0.set_labels(labels)
    }

    /// Sets the rest of its lease; returns false if it has no lease.
    pub(crate) fn extend_lease(self, time: Duration) -> Result<bool, Error> {
        self.0.extend_lease(time)
    }
}
