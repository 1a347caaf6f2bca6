//! Where the states of a runtime's sessions are kept.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::memory::PageStore;
use crate::workspace::Spool;

/// Pages and files of all sessions.
pub(super) struct Storage {
    pub pages: Arc<PageStore>,
    pub spool: Arc<Spool>,
}

impl Storage {
    /// An empty one, whose files are below `dir`.
    pub(super) fn create(dir: &Path) -> Result<Self, Error> {
        Ok(Self {
            pages: PageStore::new()?,
            spool: Spool::create(dir)?,
        })
    }
}
