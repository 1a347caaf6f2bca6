//! Sessions for the time of one request.

use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;
use crate::service::sessions::{Held, NewSession};

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
        let held = service.create(owner, new.into()).await?;
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
