//! Storage for blocks: in memory up to a limit for the process, beyond that in the spool.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::block::{BLOCK, Block};
use crate::content::Content;
use crate::errno::Errno;
use crate::spool::{Spool, Storage};

/// Default limit of block bytes in memory.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// Limits of a pool, and the place of its spool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Bytes of blocks that are kept in memory.
    pub memory: u64,
    /// Directory for the spool, an unnamed file with the blocks that exceed `memory`. Without it,
    /// writes beyond `memory` fail.
    pub spool: Option<PathBuf>,
    /// Maximum length of the spool in bytes, subject to the process's file size limit.
    pub disk: u64,
}

impl Default for PoolOptions {
    /// 256 MiB of memory, and an unlimited spool in the system's directory for temporary files.
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            spool: Some(std::env::temp_dir()),
            disk: u64::MAX,
        }
    }
}

/// Space that blocks take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the spool, in whole blocks. On Linux, freed blocks return their space to the disk;
    /// elsewhere the file may be longer.
    pub disk: u64,
}

/// Storage for blocks, shared by all states of a process. A clone is a handle to the same storage.
///
/// After a fork, the child can read blocks in memory and writes only to memory. Blocks in the spool
/// fail with [`Errno::Io`], because the parent may overwrite them.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    options: PoolOptions,
    memory: AtomicU64,
    spool: OnceLock<Spool>,
    /// Held while the spool is created.
    making: Mutex<()>,
    open: Opener,
    /// The process that created the pool.
    process: u32,
    /// Randomly seeded, so that guests cannot create colliding names.
    hasher: RandomState,
}

type Opener = Box<dyn Fn(&PoolOptions) -> io::Result<Box<dyn Storage>> + Send + Sync>;

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(PoolOptions::default())
    }
}

impl Pool {
    /// Creates a pool. The spool is created when it is first needed.
    #[must_use]
    pub fn new(options: PoolOptions) -> Self {
        Self::with_storage(
            options,
            Box::new(|options| match &options.spool {
                Some(dir) => Ok(Box::new(tempfile::tempfile_in(dir)?)),
                None => Err(io::ErrorKind::StorageFull.into()),
            }),
        )
    }

    pub(crate) fn with_storage(options: PoolOptions, open: Opener) -> Self {
        Self {
            inner: Arc::new(Inner {
                options,
                memory: AtomicU64::new(0),
                spool: OnceLock::new(),
                making: Mutex::new(()),
                open,
                process: std::process::id(),
                hasher: RandomState::new(),
            }),
        }
    }

    /// Space that blocks take now.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        PoolUsage {
            memory: self.inner.memory.load(Ordering::Relaxed),
            disk: self.inner.spool.get().map_or(0, Spool::taken),
        }
    }

    /// Whether the spool exists. Creates it if necessary.
    #[must_use]
    pub fn has_spool(&self) -> bool {
        self.make_spool().is_ok()
    }

    /// Creates a block with these bytes.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] if the pool is full, [`Errno::Inval`] if they exceed the length of a block.
    pub fn block(&self, bytes: &[u8]) -> Result<Block, Errno> {
        Block::new(self, bytes)
    }

    /// Creates a content with these bytes.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] if the pool is full.
    pub fn content(&self, bytes: &[u8]) -> Result<Content, Errno> {
        let mut content = Content::default();
        for (index, part) in bytes.chunks(BLOCK).enumerate() {
            content.push_block((index * BLOCK) as u64, self.block(part)?);
        }
        Ok(content)
    }

    /// Reads `from` to its end. Returns `None` if that is more than `max` bytes. A failure to store
    /// the bytes is reported apart from one of the reader.
    ///
    /// # Errors
    ///
    /// The reader's error; in the inner result, [`Errno::Nospc`] if the pool is full.
    pub fn receive(
        &self,
        from: &mut dyn Read,
        max: u64,
    ) -> io::Result<Result<Option<Content>, Errno>> {
        let mut content = Content::default();
        let mut part = Vec::with_capacity(BLOCK);
        loop {
            part.clear();
            from.take(BLOCK as u64).read_to_end(&mut part)?;
            if part.is_empty() {
                return Ok(Ok(Some(content)));
            }
            if content.len() + part.len() as u64 > max {
                return Ok(Ok(None));
            }
            match self.block(&part) {
                Ok(block) => content.push_block(content.len(), block),
                Err(errno) => return Ok(Err(errno)),
            }
        }
    }

    pub(crate) fn hash_name(&self, name: &str) -> u64 {
        self.inner.hasher.hash_one(name)
    }

    /// Reserves memory. Returns whether there was enough.
    pub(crate) fn take_memory(&self, bytes: u64) -> bool {
        let bound = self.inner.options.memory;
        let taken = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= bound);
        self.inner.memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    pub(crate) fn give_memory_back(&self, bytes: u64) {
        self.inner.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Reserves a slot of the spool, creating the spool if necessary.
    pub(crate) fn take_slot(&self) -> Result<u32, Errno> {
        let max = self.inner.options.disk / BLOCK as u64;
        self.make_spool()?.take(max).ok_or(Errno::Nospc)
    }

    /// The spool. The caller has a slot in it.
    pub(crate) fn spool(&self) -> Result<&Spool, Errno> {
        self.inner.spool.get().ok_or(Errno::Io)
    }

    fn make_spool(&self) -> Result<&Spool, Errno> {
        if let Some(spool) = self.inner.spool.get() {
            return Ok(spool);
        }
        if self.inner.process != std::process::id() {
            // Forked, perhaps while another thread created it.
            return Err(Errno::Nospc);
        }
        let making = self.inner.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner.spool.get().is_none() {
            // If no file can be created, memory is all there is.
            let storage = (self.inner.open)(&self.inner.options).map_err(|_| Errno::Nospc)?;
            self.inner.spool.get_or_init(|| Spool::new(storage));
        }
        drop(making);
        self.spool()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_makes_no_spool_and_does_not_wait() {
        let mut pool = Pool::new(PoolOptions::default());
        Arc::get_mut(&mut pool.inner).unwrap().process += 1;
        // Held by another thread at the time of a fork.
        let held = pool.inner.making.lock().unwrap();
        assert_eq!(pool.take_slot(), Err(Errno::Nospc));
        drop(held);
        assert_eq!(pool.block(b"in memory").unwrap().bytes().unwrap(), &b"in memory"[..]);
    }
}
