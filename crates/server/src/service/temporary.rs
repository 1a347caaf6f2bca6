//! Sessions that live as long as a request.

use belljar::{Outcome, Request};

use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owned_session::{NewSession, OwnedSession};
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// A session that is closed on drop, with its request.
pub(crate) struct TemporarySession {
    service: Service,
    owner: Owner,
    session: OwnedSession,
    is_kept: bool,
}

impl TemporarySession {
    /// Starts a session.
    pub(crate) async fn begin(
        service: &Service,
        owner: &Owner,
        new: impl Into<NewSession>,
    ) -> Result<Self, ServiceError> {
        let session = service.start(owner, new.into().local()).await?;
        Ok(Self::of(service, owner, session))
    }

    /// Takes over an existing session.
    pub(crate) fn of(service: &Service, owner: &Owner, session: OwnedSession) -> Self {
        Self {
            service: service.clone(),
            owner: owner.clone(),
            session,
            is_kept: false,
        }
    }

    /// The session.
    pub(crate) fn session(&self) -> &OwnedSession {
        &self.session
    }

    /// Runs a request in the session.
    pub(crate) async fn run(&self, request: Request) -> Result<Outcome, ServiceError> {
        let at = self.service.claim(&self.owner, self.session.id(), Access::Run).await?;
        self.service.run_claimed(&self.owner, at, request).await
    }

    /// Keeps the session after the request.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TemporarySession {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may already be gone.
            let _ = self.service.remove(&self.owner, self.session.id());
        }
    }
}
