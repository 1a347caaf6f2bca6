//! Labels and leases of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lease::check_labels;
use super::{Session, SessionError};
use crate::error::Error;

impl Session {
    /// Returns the session's labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.inner.context.labels()
    }

    /// Replaces the session's labels. They belong to the caller: the code cannot see them, and
    /// checkpoints do not contain them.
    ///
    /// # Errors
    ///
    /// [`SessionError::Labels`] if there are more than 64 labels, or they exceed 16 KiB together.
    pub fn set_labels(&self, labels: BTreeMap<String, String>) -> Result<(), Error> {
        check_labels(&labels)?;
        self.inner.context.set_labels(labels);
        Ok(())
    }

    /// Sets the session's lease to end after `duration` from now. Returns false if the session has
    /// no lease; it then lives until it is closed.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] if the session was closed, for example at the end of its lease.
    pub fn extend_lease(&self, duration: Duration) -> Result<bool, Error> {
        let context = &self.inner.context;
        context.engine.check_process()?;
        let extended = context.extend_lease(duration);
        if context.is_closed() {
            let id = context.id.clone();
            return Err(SessionError::NotFound { id }.into());
        }
        Ok(extended)
    }
}
