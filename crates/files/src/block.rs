//! Blocks: the units that files consist of, that states share, and that move to the spool.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};

use crate::errno::Errno;
use crate::pool::Pool;

/// Maximum length of a block in bytes.
pub const BLOCK: usize = 64 << 10;

/// Minimum size in bytes that a block in memory is charged; covers its bookkeeping.
const LEAST: usize = 128;

/// Up to 64 KiB, immutable while shared. A clone is a handle to the same bytes.
#[derive(Clone, Debug)]
pub struct Block(Arc<Inner>);

/// A weak handle to a block.
#[derive(Clone, Debug)]
pub struct WeakBlock(Weak<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    data: Data,
    hash: OnceLock<blake3::Hash>,
}

#[derive(Debug)]
enum Data {
    /// The bytes, and the memory that they are charged for.
    Memory(Vec<u8>, usize),
    /// A slot of the spool, and the length of the block in it.
    Spooled { slot: u32, len: usize },
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.data.release(&self.pool);
    }
}

impl Data {
    /// An empty block with capacity for `room` bytes.
    fn with_room(pool: &Pool, room: usize) -> Result<Self, Errno> {
        if pool.take_memory(room as u64) {
            return Ok(Self::Memory(Vec::with_capacity(room), room));
        }
        Ok(Self::Spooled {
            slot: pool.take_slot()?,
            len: 0,
        })
    }

    fn release(&self, pool: &Pool) {
        match self {
            Self::Memory(_, taken) => pool.give_memory_back(*taken as u64),
            Self::Spooled { slot, .. } => {
                if let Ok(spool) = pool.spool() {
                    spool.give_back(*slot);
                }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes, _) => bytes.len(),
            Self::Spooled { len, .. } => *len,
        }
    }

    /// Writes bytes, with zeros before them if they begin past the end. The capacity suffices.
    fn write(&mut self, pool: &Pool, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let end = at + bytes.len();
        match self {
            Self::Memory(own, _) => {
                if own.len() == at {
                    own.extend_from_slice(bytes);
                } else {
                    if own.len() < end {
                        own.resize(end, 0);
                    }
                    own[at..end].copy_from_slice(bytes);
                }
            }
            Self::Spooled { slot, len } => {
                let spool = pool.spool()?;
                let write = |at, bytes: &[u8]| spool.write(*slot, at, bytes);
                // The slot may still hold the bytes of a block that was freed.
                if at > *len {
                    write(*len, &vec![0; at - *len]).map_err(|e| Errno::of(&e))?;
                }
                write(at, bytes).map_err(|e| Errno::of(&e))?;
                *len = (*len).max(end);
            }
        }
        Ok(())
    }
}

/// Bytes to charge for a block of length `len` in memory.
fn room_for(len: usize) -> usize {
    len.next_power_of_two().clamp(LEAST, BLOCK)
}

impl Block {
    pub(crate) fn new(pool: &Pool, bytes: &[u8]) -> Result<Self, Errno> {
        Self::with_room(pool, bytes.len(), bytes)
    }

    /// A block with these bytes and capacity for `room`.
    pub(crate) fn with_room(pool: &Pool, room: usize, bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.len() > BLOCK {
            return Err(Errno::Inval);
        }
        let mut inner = Inner {
            pool: pool.clone(),
            data: Data::with_room(pool, room.max(LEAST))?,
            hash: OnceLock::new(),
        };
        inner.data.write(pool, 0, bytes)?;
        Ok(Self(Arc::new(inner)))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.data.len()
    }

    /// Bytes that it takes in memory or in the spool.
    #[must_use]
    pub fn taken(&self) -> usize {
        match &self.0.data {
            Data::Memory(_, taken) => *taken,
            Data::Spooled { .. } => BLOCK,
        }
    }

    /// Whether the block is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block's identity: the same for all handles, unique while a handle exists.
    #[must_use]
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The hash of the bytes, computed once.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn hash(&self) -> Result<blake3::Hash, Errno> {
        if let Some(hash) = self.0.hash.get() {
            return Ok(*hash);
        }
        let hash = blake3::hash(&self.bytes()?);
        Ok(*self.0.hash.get_or_init(|| hash))
    }

    /// Reads from `at` up to the end of the block, and returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn read_at(&self, at: usize, into: &mut [u8]) -> Result<usize, Errno> {
        let count = self.len().saturating_sub(at).min(into.len());
        let into = &mut into[..count];
        match &self.0.data {
            Data::Memory(bytes, _) if count > 0 => into.copy_from_slice(&bytes[at..at + count]),
            Data::Spooled { slot, .. } if count > 0 => {
                self.0.pool.spool()?.read(*slot, at, into).map_err(|_| Errno::Io)?;
            }
            _ => {}
        }
        Ok(count)
    }

    /// All bytes of the block.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, Errno> {
        if let Data::Memory(bytes, _) = &self.0.data {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; self.len()];
        self.read_at(0, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// A weak handle to this block.
    #[must_use]
    pub fn downgrade(&self) -> WeakBlock {
        WeakBlock(Arc::downgrade(&self.0))
    }

    /// Writes bytes that fit into a block, in place if no other handle exists. After an error the
    /// block is unchanged, except for bytes that a failed write to the spool was to replace.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let end = at + bytes.len();
        let pool = self.0.pool.clone();
        if let Some(own) = Arc::get_mut(&mut self.0) {
            let fits = match &mut own.data {
                Data::Spooled { .. } => true,
                Data::Memory(_, taken) if end <= *taken => true,
                Data::Memory(held, taken) => {
                    let room = room_for(end);
                    let fits = pool.take_memory((room - *taken) as u64);
                    if fits {
                        held.reserve_exact(room - held.len());
                        *taken = room;
                    }
                    fits
                }
            };
            if fits {
                own.hash.take();
                return own.data.write(&pool, at, bytes);
            }
        }
        // Shared, or no memory to grow into: a new block replaces it.
        let replaces_all = at == 0 && end >= self.len();
        let old = if replaces_all {
            Cow::Borrowed(&[][..])
        } else {
            self.bytes()?
        };
        let mut other = Self::with_room(&pool, room_for(end.max(old.len())), &old)?;
        drop(old);
        if let Some(own) = Arc::get_mut(&mut other.0) {
            own.data.write(&pool, at, bytes)?;
        }
        *self = other;
        Ok(())
    }

    /// Truncates the block to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) -> Result<(), Errno> {
        if len >= self.len() {
            return Ok(());
        }
        let Some(own) = Arc::get_mut(&mut self.0) else {
            let pool = self.0.pool.clone();
            *self = Self::new(&pool, &self.bytes()?[..len])?;
            return Ok(());
        };
        own.hash.take();
        match &mut own.data {
            Data::Memory(bytes, taken) => {
                bytes.truncate(len);
                let room = room_for(len).min(*taken);
                bytes.shrink_to(room);
                own.pool.give_memory_back((*taken - room) as u64);
                *taken = room;
            }
            Data::Spooled { len: own, .. } => *own = len,
        }
        Ok(())
    }
}

impl WeakBlock {
    /// The block, if a handle still exists.
    #[must_use]
    pub fn upgrade(&self) -> Option<Block> {
        self.0.upgrade().map(Block)
    }
}
