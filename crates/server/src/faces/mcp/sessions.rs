//! A limit on the number of MCP sessions, around rmcp's session manager.

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

/// Maximum number of sessions. Clients of the newer revision have no sessions.
const MAX_SESSIONS: usize = 1_000;
/// Maximum number of sessions of one owner, so that it cannot exhaust the total.
const MAX_OWNED: usize = 250;

tokio::task_local! {
    /// The owner of the current request, and whether it was refused a session.
    static REQUEST: (Owner, Cell<bool>);
}

/// The open sessions. All requests for a session create it here.
pub(super) struct Sessions {
    local: LocalSessionManager,
    /// The session ids of each owner, some of which may have ended. Locked while a session is
    /// created.
    owned: Mutex<HashMap<String, HashSet<SessionId>>>,
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("the maximum number of sessions is reached; retry later")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// Runs an owner's request. Returns `None` if it was refused a session.
pub(super) async fn run_for<T>(owner: Owner, work: impl Future<Output = T>) -> Option<T> {
    REQUEST
        .scope((owner, Cell::new(false)), async {
            let done = work.await;
            let was_refused = REQUEST.with(|(_, refused)| refused.get());
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

    /// Creates a session and records its owner, unless the limit is reached.
    async fn create<T>(
        &self,
        making: impl Future<Output = Result<(SessionId, T), LocalSessionManagerError>>,
    ) -> Result<(SessionId, T), SessionsError> {
        let name = REQUEST.try_with(|(owner, _)| owner.name().to_owned()).unwrap_or_default();
        let mut owned = self.owned.lock().await;
        let has_room = {
            let open = self.local.sessions.read().await;
            let theirs = owned.entry(name.clone()).or_default();
            theirs.retain(|id| open.contains_key(id));
            open.len() < MAX_SESSIONS && theirs.len() < MAX_OWNED
        };
        if !has_room {
            let _ = REQUEST.try_with(|(_, refused)| refused.set(true));
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
        self.create(self.local.create_session()).await
    }

    /// Continues a session that began on another server.
    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, SessionsError> {
        let restoring = async {
            let restored = self.local.restore_session(id.clone()).await?;
            Ok((id, restored))
        };
        Ok(self.create(restoring).await?.1)
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
