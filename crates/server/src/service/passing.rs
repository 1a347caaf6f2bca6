//! Sessions that live as long as a request.

use belljar::{Outcome, Request};

use crate::service::Service;
use crate::service::anywhere::Use;
use crate::service::error::ServiceError;
use crate::service::held::{Held, NewSession};
use crate::service::owner::Owner;

/// A session that is closed on drop, with its request.
pub(crate) struct Passing {
    service: Service,
    owner: Owner,
    held: Held,
    is_kept: bool,
}

impl Passing {
    /// Starts a session.
    pub(crate) async fn begin(
        service: &Service,
        owner: &Owner,
        new: impl Into<NewSession>,
    ) -> Result<Self, ServiceError> {
        let held = service.start(owner, new.into().here()).await?;
        Ok(Self::of(service, owner, held))
    }

    /// Takes over an existing session.
    pub(crate) fn of(service: &Service, owner: &Owner, held: Held) -> Self {
        Self {
            service: service.clone(),
            owner: owner.clone(),
            held,
            is_kept: false,
        }
    }

    /// The session.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Runs a request in the session.
    pub(crate) async fn run(&self, request: Request) -> Result<Outcome, ServiceError> {
        let at = self.service.at_hand(&self.owner, self.held.id(), Use::Run).await?;
        self.service.run_at(&self.owner, at, request).await
    }

    /// Keeps the session after the request.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may already be gone.
            let _ = self.service.remove(&self.owner, self.held.id());
        }
    }
}
