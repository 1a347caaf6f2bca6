//! File contents: sparse lists of blocks, shared by all states in which a file is the same.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::OnceLock;

use crate::block::{BLOCK, Block};
use crate::errno::Errno;
use crate::map::{Map, WeakMap};
use crate::pool::Pool;

/// Maximum length of a file in bytes: guests use signed offsets.
pub const MAX_LEN: u64 = i64::MAX as u64;

const SIZE: u64 = BLOCK as u64;

/// The bytes of a file. Clones share blocks until one of them is changed.
#[derive(Clone, Debug, Default)]
pub struct Content {
    len: u64,
    /// By offset divided by [`BLOCK`]; missing blocks are zeros.
    blocks: Map<Block>,
    hash: OnceLock<blake3::Hash>,
}

impl Content {
    /// Length in bytes, holes included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from `at`, and returns the number of bytes read: less than requested only at the end.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let count = self.len.saturating_sub(at).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let from = at + done as u64;
            let inside = (from % SIZE) as usize;
            let part = (BLOCK - inside).min(count - done);
            let target = &mut into[done..done + part];
            let read = match self.blocks.get(from / SIZE) {
                Some(block) => block.read_at(inside, target)?,
                None => 0,
            };
            target[read..].fill(0);
            done += part;
        }
        Ok(count)
    }

    /// Writes at `at`, with a hole before it if that is past the end. Returns the number of bytes
    /// written, which is less than given only if the pool is full.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] if there is no room for a single byte, [`Errno::Fbig`] past [`MAX_LEN`].
    pub fn write_at(&mut self, pool: &Pool, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > MAX_LEN) {
            return Err(Errno::Fbig);
        }
        let mut done = 0;
        while done < bytes.len() {
            let to = at + done as u64;
            let inside = (to % SIZE) as usize;
            let part = (BLOCK - inside).min(bytes.len() - done);
            if let Err(errno) = self.write_part(pool, to / SIZE, inside, &bytes[done..done + part])
            {
                if done == 0 {
                    return Err(errno);
                }
                break;
            }
            done += part;
        }
        if done > 0 {
            self.len = self.len.max(at + done as u64);
            self.hash.take();
        }
        Ok(done)
    }

    fn write_part(
        &mut self,
        pool: &Pool,
        index: u64,
        inside: usize,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        if let Some(block) = self.blocks.get_mut(index) {
            return block.write(inside, bytes);
        }
        // A write after a full block will probably fill the next one, which then never has to move.
        let before = index.checked_sub(1).and_then(|before| self.blocks.get(before));
        let continues = inside == 0 && before.is_some_and(|block| block.len() == BLOCK);
        let room = if continues { BLOCK } else { bytes.len() };
        let mut block = Block::with_room(pool, room, &[])?;
        block.write(inside, bytes)?;
        self.blocks.insert(index, block);
        Ok(())
    }

    /// Truncates the content, or extends it with a hole.
    ///
    /// # Errors
    ///
    /// [`Errno::Fbig`] past [`MAX_LEN`], [`Errno::Nospc`] if a shared block is cut and the pool has
    /// no room for the copy.
    pub fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        if len > MAX_LEN {
            return Err(Errno::Fbig);
        }
        if len < self.len {
            // The partial block first, because it can fail.
            let inside = (len % SIZE) as usize;
            if inside > 0
                && let Some(block) = self.blocks.get(len / SIZE)
                && block.len() > inside
                && let Some(block) = self.blocks.get_mut(len / SIZE)
            {
                block.truncate(inside)?;
            }
            if len == 0 {
                self.blocks = Map::default();
            } else {
                self.blocks.truncate(len.div_ceil(SIZE));
            }
        }
        if len != self.len {
            self.len = len;
            self.hash.take();
        }
        Ok(())
    }

    /// The hash of all bytes, holes as zeros. This handle caches it.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn hash(&self) -> Result<blake3::Hash, Errno> {
        if let Some(hash) = self.hash.get() {
            return Ok(*hash);
        }
        let mut hasher = blake3::Hasher::new();
        let mut part = vec![0; BLOCK.min(self.len as usize)];
        let mut at = 0;
        loop {
            match self.read_at(at, &mut part)? {
                0 => break,
                read => {
                    hasher.update(&part[..read]);
                    at += read as u64;
                }
            }
        }
        Ok(*self.hash.get_or_init(|| hasher.finalize()))
    }

    /// The blocks in order, with the offset of each. Gaps between blocks, and the rest of a block
    /// that is shorter than 64 KiB, are zeros.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &Block)> {
        self.blocks.iter().map(|(index, block)| (index * SIZE, block))
    }

    /// Builds a content of `len` bytes from blocks by their offsets, which are multiples of
    /// [`BLOCK`].
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for any other offset, or for a block past the end.
    pub fn from_blocks(
        len: u64,
        blocks: impl IntoIterator<Item = (u64, Block)>,
    ) -> Result<Self, Errno> {
        let mut content = Self::default();
        for (offset, block) in blocks {
            let end = offset.checked_add(block.len() as u64).ok_or(Errno::Inval)?;
            if offset % SIZE != 0 || end > len || len > MAX_LEN {
                return Err(Errno::Inval);
            }
            content.push_block(offset, block);
        }
        content.len = len;
        Ok(content)
    }

    /// Inserts a block at an offset that is a multiple of [`BLOCK`].
    pub(crate) fn push_block(&mut self, offset: u64, block: Block) {
        self.len = self.len.max(offset + block.len() as u64);
        self.blocks.insert(offset / SIZE, block);
        self.hash.take();
    }

    /// Compares identities, not bytes: `false` does not mean that the contents differ.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.len == other.len && self.blocks.is_same(&other.blocks)
    }

    /// The identity of the blocks: equal in clones until one is changed. Together with the length
    /// it is unique while the content exists. 0 without blocks.
    #[must_use]
    pub fn id(&self) -> usize {
        self.blocks.id()
    }

    /// A weak handle to the content.
    #[must_use]
    pub fn downgrade(&self) -> WeakContent {
        WeakContent {
            len: self.len,
            blocks: self.blocks.downgrade(),
        }
    }

    /// A reader that starts at offset 0.
    #[must_use]
    pub fn reader(&self) -> ContentReader {
        ContentReader {
            content: self.clone(),
            at: 0,
        }
    }
}

/// A weak handle to a content.
#[derive(Clone, Debug)]
pub struct WeakContent {
    len: u64,
    blocks: WeakMap<Block>,
}

impl WeakContent {
    /// The content, if its blocks still exist.
    #[must_use]
    pub fn upgrade(&self) -> Option<Content> {
        Some(Content {
            len: self.len,
            blocks: self.blocks.upgrade()?,
            hash: OnceLock::new(),
        })
    }
}

/// Reads a content as it was when the reader was created.
#[derive(Clone, Debug)]
pub struct ContentReader {
    content: Content,
    at: u64,
}

impl ContentReader {
    /// Reads from `at` without moving the reader, and returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.content.read_at(at, into)
    }
}

impl Read for ContentReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read_at(self.at, into)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for ContentReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.content.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
