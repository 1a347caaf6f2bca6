//! Sessions for the time of one request.

use belljar::{Outcome, Request};

use crate::service::Service;
use crate::service::anywhere::Use;
use crate::service::error::ServiceError;
use crate::service::held::{Held, NewSession};
use crate::service::owner::Owner;

/// A session that is closed when this is dropped: with the request, whatever becomes of it.
pub(crate) struct Passing {
    service: Service,
    owner: Owner,
    held: Held,
    is_kept: bool,
}

impl Passing {
    /// Starts one.
    pub(crate) async fn begin(
        service: &Service,
        owner: &Owner,
        new: impl Into<NewSession>,
    ) -> Result<Self, ServiceError> {
        let held = service.start(owner, new.into().here()).await?;
        Ok(Self::of(service, owner, held))
    }

    /// Takes a session that is there already.
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

    /// Has the session outlive the request.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may be gone already.
            let _ = self.service.remove(&self.owner, self.held.id());
        }
    }
}
