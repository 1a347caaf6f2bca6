//! The protocol's sessions, of which there are only so many: rmcp's, behind a bound.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use tokio::sync::Mutex;

use crate::service::owner::Owner;

/// The most sessions of the protocol at once; clients of the newer revision have none.
const MAX_SESSIONS: usize = 1_000;
/// The most of them that one owner has, so that nobody keeps out the others.
const MAX_OWNED: usize = 250;

tokio::task_local! {
    /// Whose request is under way, and whether a session was refused to it.
    static ASKER: (Owner, Cell<bool>);
}

/// The sessions that are open. However a request asks for one, it is made here.
pub(super) struct Sessions {
    local: LocalSessionManager,
    /// The ids of each owner's sessions, some of which may have ended. Held while one is made.
    owned: Mutex<HashMap<String, HashSet<SessionId>>>,
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("there are as many sessions as there can be")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// Does the work of an owner's request; `None` when it asked for a session and there can be no more.
pub(super) async fn asked_by<T>(owner: Owner, work: impl Future<Output = T>) -> Option<T> {
    ASKER
        .scope((owner, Cell::new(false)), async {
            let done = work.await;
            let was_refused = ASKER.with(|(_, refused)| refused.get());
            (!was_refused).then_some(done)
        })
        .await
}

impl Sessions {
    pub(super) fn new(local: LocalSessionManager) -> Self {
        Self {
            local,
            owned: Mutex::default(),
        }
    }

    /// Makes a session, and notes whose it is, if there may be another.
    async fn make<T>(
        &self,
        making: impl Future<Output = Result<(SessionId, T), LocalSessionManagerError>>,
    ) -> Result<(SessionId, T), SessionsError> {
        let name = ASKER.try_with(|(owner, _)| owner.name().to_owned()).unwrap_or_default();
        let mut owned = self.owned.lock().await;
        let has_room = {
            let open = self.local.sessions.read().await;
            let theirs = owned.entry(name.clone()).or_default();
            theirs.retain(|id| open.contains_key(id));
            open.len() < MAX_SESSIONS && theirs.len() < MAX_OWNED
        };
        if !has_room {
            let _ = ASKER.try_with(|(_, refused)| refused.set(true));
            return Err(SessionsError::Full);
        }
        let made = making.await?;
        owned.entry(name).or_default().insert(made.0.clone());
        Ok(made)
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        self.make(self.local.create_session()).await
    }

    /// Takes up a session that began on another server.
    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, SessionsError> {
        let restoring = async {
            let restored = self.local.restore_session(id.clone()).await?;
            Ok((id, restored))
        };
        Ok(self.make(restoring).await?.1)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.resume(id, last_event_id).await?)
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.local.event_store()
    }
}
