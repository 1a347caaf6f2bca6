//! What the caller of a session knows it by, and answers for it until when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lease::check_labels;
use super::{Session, SessionError};
use crate::error::Error;

impl Session {
    /// The labels that the session was given.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.inner.context.labels()
    }

    /// Gives the session these labels, and takes away those that it had. They are the caller's: the
    /// code does not see them, and no checkpoint holds them.
    ///
    /// # Errors
    ///
    /// [`SessionError::Labels`] when there are more than 64, or they have more than 16 KiB together.
    pub fn set_labels(&self, labels: BTreeMap<String, String>) -> Result<(), Error> {
        check_labels(&labels)?;
        self.inner.context.set_labels(labels);
        Ok(())
    }

    /// Has the session's lease end when `duration` has passed from now, and returns whether it has one:
    /// one that has none lives until it is closed.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] when it was closed, such as by the end of its lease.
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
