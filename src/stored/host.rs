//! What the lease protocol asks of the engine: to wake a session, save it, interrupt it.
//!
//! The protocol knows sessions and clocks by these traits alone. Its tests run it with sessions that are
//! lists of numbers, on a clock that they set.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::{FileAction, Recalled, RestoreOptions, Session, SessionError};
use crate::store::{Condition, Store};

/// What runs the sessions of a node.
pub(super) trait Host: Send + Sync + 'static {
    type Session: Live;

    /// Restores the session `id` from what `store` has under `state`.
    fn wake(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        state: &str,
    ) -> impl Future<Output = Result<Self::Session, Error>> + Send;

    /// The time by the node's own clock, which may stop and be wrong.
    fn now(&self) -> Instant;

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

    /// For how long nobody has used it.
    fn idle(&self) -> Duration;

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

    async fn wake(&self, store: &Arc<dyn Store>, id: &str, state: &str) -> Result<Session, Error> {
        let options = RestoreOptions::stored(Arc::clone(store), state).id(id);
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

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}

impl Live for Session {
    async fn save(&self, store: &Arc<dyn Store>, state: &str) -> Result<u64, Error> {
        let execution = self.execution().await;
        // The key is drawn by lot. What is under it was written by this, which a store asked twice.
        let _ = Session::save(self, store, state, Condition::Always).await?;
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

    fn idle(&self) -> Duration {
        Duration::from_secs_f64(self.info().idle_seconds.max(0.0))
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
