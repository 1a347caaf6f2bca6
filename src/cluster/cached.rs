//! Sessions that a node keeps in memory after it has held them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::host::Live;
use super::record::Head;
use crate::store::Version;

/// The place of one session on a node. Its lock orders those who want the session.
pub(super) struct Place<S> {
    pub local: Arc<AsyncMutex<Option<Local<S>>>>,
    /// The same session, for access without waiting.
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

/// A session that this node has kept in memory.
pub(super) struct Local<S> {
    /// The node's own handle, which no claim recalls.
    pub session: S,
    /// Key of the stored state that the session is in; `None` while it is claimed, and after a
    /// claim that ended without a confirmed state.
    pub state: Option<String>,
    /// The record as this node left it, if it released the session.
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

    /// Closes the session in memory. The caller holds the lock.
    pub(super) fn clear(&self, local: &mut Option<Local<S>>) {
        self.set_session(None);
        if let Some(local) = local.take() {
            local.session.close();
        }
    }
}
