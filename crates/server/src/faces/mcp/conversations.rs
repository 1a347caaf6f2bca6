//! MCP sessions of several servers that share a store. The client's initialization is saved, so
//! that a server that does not know a session can continue it.

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};

use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::session_store::Document;

/// Kind of document in the store.
const KIND: &str = "conversations";
/// How long a saved session is valid after it began or was last continued.
const TIME: Duration = Duration::from_hours(24);

type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

/// MCP sessions in the store. The owner is part of the session's signed id.
pub(super) struct Conversations(pub Service);

impl Conversations {
    async fn find(&self, id: &str) -> Result<Option<SessionState>, ServiceError> {
        let Some(documents) = self.0.documents(KIND) else {
            return Ok(None);
        };
        let found = documents.change(id, |document: &mut Document<SessionState>| {
            document.ends = Some(end());
        });
        Ok(found.await?.map(|document| document.content))
    }

    async fn write(&self, id: &str, state: &SessionState) -> Result<(), ServiceError> {
        let Some(documents) = self.0.documents(KIND) else {
            return Ok(());
        };
        let document = Document {
            owner: String::new(),
            sessions: Vec::new(),
            ends: Some(end()),
            content: state,
        };
        documents.add(id, &document).await
    }

    async fn end(&self, id: &str) -> Result<(), ServiceError> {
        match self.0.documents(KIND) {
            Some(documents) => documents.remove(id).await.map(drop),
            None => Ok(()),
        }
    }
}

fn end() -> u64 {
    let end = SystemTime::now() + TIME;
    end.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl SessionStore for Conversations {
    fn load<'a: 'c, 'b: 'c, 'c>(&'a self, id: &'b str) -> Doing<'c, Option<SessionState>>
    where
        Self: 'c,
    {
        Box::pin(async move { Ok(self.find(id).await?) })
    }

    fn store<'a: 'd, 'b: 'd, 'c: 'd, 'd>(
        &'a self,
        id: &'b str,
        state: &'c SessionState,
    ) -> Doing<'d, ()>
    where
        Self: 'd,
    {
        Box::pin(async move { Ok(self.write(id, state).await?) })
    }

    fn delete<'a: 'c, 'b: 'c, 'c>(&'a self, id: &'b str) -> Doing<'c, ()>
    where
        Self: 'c,
    {
        Box::pin(async move { Ok(self.end(id).await?) })
    }
}
