//! Storage of the states of a runtime's sessions.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use belljar_files::{Content, Pool, PoolOptions};
use belljar_memory::PageStore;

use crate::error::Error;
use crate::sandbox::Roots;

/// Pages and files of all sessions.
pub(super) struct Storage {
    pub pages: Arc<PageStore>,
    pub roots: Roots,
    /// Nameless file for suspended sessions.
    suspended: Pool,
}

impl Storage {
    /// Creates an empty storage. Suspended sessions go to `suspended`.
    pub(super) fn create(roots: Roots, suspended: Pool) -> Result<Self, Error> {
        Ok(Self {
            pages: PageStore::new()?,
            roots,
            suspended,
        })
    }

    /// Returns room for suspended sessions: a nameless file in `dir`, created on first use.
    pub(super) fn room(dir: &Path) -> Pool {
        Pool::new(PoolOptions {
            memory: 0,
            spool: Some(dir.to_owned()),
            disk: u64::MAX,
        })
    }

    #[cfg(test)]
    pub(super) fn of_test(dir: &Path) -> Self {
        let roots = Roots::without_library(dir.to_owned()).unwrap();
        Self::create(roots, Self::room(dir)).unwrap()
    }

    /// Returns a writer for suspended data: to the nameless file, or if it cannot be created, to
    /// the storage of session files.
    pub(super) fn put_away(&self) -> PutAway {
        let pool = if self.suspended.has_spool() {
            &self.suspended
        } else {
            self.roots.pool()
        };
        PutAway {
            pool: pool.clone(),
            content: Content::default(),
        }
    }
}

/// Writes suspended data.
pub(super) struct PutAway {
    pool: Pool,
    content: Content,
}

impl PutAway {
    pub(super) fn into_content(self) -> Content {
        self.content
    }
}

impl Write for PutAway {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.content.write_at(&self.pool, self.content.len(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
