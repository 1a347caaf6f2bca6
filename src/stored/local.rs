//! What a node keeps of a session that it has had.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::head::Head;
use super::host::Live;
use crate::store::Version;

/// Where a node keeps one session. Those who want it wait for one another here.
pub(super) struct Place<S> {
    pub local: Arc<AsyncMutex<Option<Local<S>>>>,
    /// The same session, for those who do not wait.
    session: Mutex<Option<S>>,
}

impl<S> Default for Place<S> {
    fn default() -> Self {
        Self {
            local: Arc::default(),
            session: Mutex::default(),
        }
    }
}

/// A session as this node left it.
pub(super) struct Local<S> {
    /// The handle of the node, which no claim recalls.
    pub session: S,
    /// The state of the store that it is in; `None` while it is claimed, and after a claim that ended
    /// without saying so.
    pub state: Option<String>,
    /// The record as this node left it, if it did.
    pub rest: Option<(Head, Version)>,
}

impl<S: Live> Place<S> {
    pub(super) fn session(&self) -> Option<S> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_session(&self, session: Option<S>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(super) async fn lock(&self) -> OwnedMutexGuard<Option<Local<S>>> {
        Arc::clone(&self.local).lock_owned().await
    }

    pub(super) async fn put(&self, local: Local<S>) {
        self.set_session(Some(local.session.clone()));
        *self.lock().await = Some(local);
    }

    /// Closes what is kept, by whoever has locked it.
    pub(super) fn clear(&self, local: &mut Option<Local<S>>) {
        self.set_session(None);
        if let Some(local) = local.take() {
            local.session.close();
        }
    }
}
