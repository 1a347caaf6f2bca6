//! Blocks: what files consist of, what states share, and what is written away once.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};

use crate::errno::Errno;
use crate::pool::Pool;

/// Bytes that a block may have.
pub const BLOCK: usize = 64 << 10;

/// Bytes that a block in memory takes at least: about what is noted of it.
const LEAST: usize = 128;

/// Up to 64 KiB, which do not change for as long as somebody else has the block, too. A clone is a handle
/// on the same bytes.
#[derive(Clone, Debug)]
pub struct Block(Arc<Inner>);

/// A handle on a block that does not keep it.
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
    /// The bytes, and for how many memory was taken.
    Memory(Vec<u8>, usize),
    /// A slot of the spool, and how many of its bytes are the block's.
    Spooled { slot: u32, len: usize },
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.data.release(&self.pool);
    }
}

impl Data {
    /// Room for `room` bytes, of which none is there yet.
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

    /// Writes bytes, with zeros before them if they begin past the end. There is room for them.
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
                // The slot may have the bytes of another block that had it before.
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

/// Bytes to take for a block in memory that is to have `len`.
fn room_for(len: usize) -> usize {
    len.next_power_of_two().clamp(LEAST, BLOCK)
}

impl Block {
    pub(crate) fn new(pool: &Pool, bytes: &[u8]) -> Result<Self, Errno> {
        Self::with_room(pool, bytes.len(), bytes)
    }

    /// A block with these bytes and room for others.
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

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.data.len()
    }

    /// How many bytes it takes, of memory or of the spool.
    #[must_use]
    pub fn taken(&self) -> usize {
        match &self.0.data {
            Data::Memory(_, taken) => *taken,
            Data::Spooled { .. } => BLOCK,
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that all handles on it have, and no other block while there is one.
    #[must_use]
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The hash of its bytes, which is computed once.
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

    /// Reads bytes from `at` on, as far as there are some, and tells how many.
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

    /// All its bytes.
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

    /// A handle that does not keep it.
    #[must_use]
    pub fn downgrade(&self) -> WeakBlock {
        WeakBlock(Arc::downgrade(&self.0))
    }

    /// Writes bytes that fit into a block, in place if nobody else has it. After an error it is as it was,
    /// but for bytes that were to be overwritten in a spool that broke.
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
        // Somebody else has it, or it grows and memory has no room: another takes its place.
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

    /// Cuts off what is behind `len`.
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
    /// The block, if somebody keeps it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Block> {
        self.0.upgrade().map(Block)
    }
}
