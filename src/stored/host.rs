//! What the lease protocol asks of the engine: to wake a session, save it, interrupt it.
//!
//! The protocol knows sessions and clocks by these traits alone. Its tests run it with sessions that are
//! lists of numbers, on a clock that they set.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::{FileAction, Recalled, RestoreOptions, Session, SessionError, Times};
use crate::store::Store;

/// What runs the sessions of a node.
pub(super) trait Host: Send + Sync + 'static {
    type Session: Live;

    /// Restores the session `id` from what `store` has under `state`, which has these times by its record.
    fn wake(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        state: &str,
        told: Times,
    ) -> impl Future<Output = Result<Self::Session, Error>> + Send;

    /// The time by the node's own clock, which may stop and be wrong.
    fn now(&self) -> Instant;

    /// The date by the node's own clock, in milliseconds since 1970. It may be wrong by any amount.
    fn date(&self) -> u64;

    /// Waits for so long by the node's own clock.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// A session on a node. Cheap to clone; clones are the same session.
pub(super) trait Live: Clone + Send + Sync + 'static {
    /// Writes it to `store` under `state`, and returns how many runs it is made of.
    fn save(
        &self,
        store: &Arc<dyn Store>,
        state: &str,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Interrupts what runs in it, whether something did.
    fn interrupt(&self) -> bool;

    /// Ends it on this node.
    fn close(&self);

    /// Whether it was not closed meanwhile.
    fn is_open(&self) -> bool;

    /// For how long nobody has used it on this node.
    fn unused(&self) -> Duration;

    /// Its age and its idle time, wherever it was.
    fn times(&self) -> Times;

    /// The name of its image.
    fn image(&self) -> String;

    /// A handle that stays valid when others are recalled; recalls all others.
    fn keeper(&self) -> Self;

    /// A handle that may change it until it is recalled, and whose next outcome tells what was lost.
    fn lend(&self, lost: Vec<String>) -> Self;

    /// A handle that may only read it.
    fn show(&self) -> Self;

    /// Has no handle but the keeper's change it any more.
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
