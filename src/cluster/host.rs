//! The engine as the lease protocol sees it: wake, save and interrupt a session.
//!
//! The protocol accesses sessions and clocks only through these traits. Its tests use sessions that
//! are lists of numbers, and a clock under their control.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::{FileAction, Recalled, RestoreOptions, Session, SessionError, Times};
use crate::store::Store;

/// Runs the sessions of a node.
pub(super) trait Host: Send + Sync + 'static {
    type Session: Live;

    /// Restores the session `id` from `state` in `store`, with the times of its record.
    fn wake(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        state: &str,
        told: Times,
    ) -> impl Future<Output = Result<Self::Session, Error>> + Send;

    /// Returns the time of the node's own clock, which may stop or be wrong.
    fn now(&self) -> Instant;

    /// Returns the date of the node's own clock, in milliseconds since 1970. It may be wrong by any
    /// amount.
    fn date(&self) -> u64;

    /// Waits for `time` by the node's own clock.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// A session on a node. Clones are cheap and are the same session.
pub(super) trait Live: Clone + Send + Sync + 'static {
    /// Writes the session to `store` under `state`. Returns the number of completed runs.
    fn save(
        &self,
        store: &Arc<dyn Store>,
        state: &str,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Interrupts the current run. Returns whether there was one.
    fn interrupt(&self) -> bool;

    /// Ends the session on this node.
    fn close(&self);

    /// Whether the session is still open.
    fn is_open(&self) -> bool;

    /// Returns how long the session has been unused on this node.
    fn unused(&self) -> Duration;

    /// Returns the age and idle time of the session across all nodes.
    fn times(&self) -> Times;

    /// Returns the name of the session's image.
    fn image(&self) -> String;

    /// Returns a handle that stays valid when others are recalled, and recalls all others.
    fn keeper(&self) -> Self;

    /// Returns a handle that can change the session until it is recalled. Its next outcome reports
    /// `lost`.
    fn lend(&self, lost: Vec<String>) -> Self;

    /// Returns a read-only handle.
    fn show(&self) -> Self;

    /// Recalls all handles except the keeper's.
    fn recall(&self) -> Recalled;
}

impl Host for Runtime {
    type Session = Session;

    async fn wake(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        state: &str,
        told: Times,
    ) -> Result<Session, Error> {
        let options = RestoreOptions::stored(Arc::clone(store), state).id(id).times(told);
        match self.restore(options).await {
            Err(Error::Session(SessionError::Io {
                action: FileAction::Open,
                source,
                ..
            })) if source.kind() == ErrorKind::NotFound => {
                Err(SessionError::StateGone { id: id.into() }.into())
            }
            restored => restored,
        }
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn date(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}

impl Live for Session {
    async fn save(&self, store: &Arc<dyn Store>, state: &str) -> Result<u64, Error> {
        let execution = self.execution().await;
        self.save_beside_record(store, state).await?;
        Ok(execution)
    }

    fn interrupt(&self) -> bool {
        Session::interrupt(self)
    }

    fn close(&self) {
        Session::close(self);
    }

    fn is_open(&self) -> bool {
        Session::is_open(self)
    }

    fn unused(&self) -> Duration {
        Session::unused(self)
    }

    fn times(&self) -> Times {
        Session::times(self)
    }

    fn image(&self) -> String {
        self.info().image
    }

    fn keeper(&self) -> Self {
        Session::keeper(self)
    }

    fn lend(&self, lost: Vec<String>) -> Self {
        Session::lend(self, lost)
    }

    fn show(&self) -> Self {
        Session::show(self)
    }

    fn recall(&self) -> Recalled {
        Session::recall(self)
    }
}
